"""Speed and memory of the native kernel, beside csg-htsim's RoCE where it has been built.

    python bench/sim.py [--htsim sim/datacenter/htsim_roce] [--quick] [--runs N] [--json FILE]

The same permutation of 2 MB a host over equal links (100 Gbit/s, 1 us, 4 KB packets, an acknowledge a
packet, PFC, go-back-N, ECMP), 128 hosts in a leaf-spine and 1,024 in a k = 16 fat tree (`--quick`: 128
only). sglb runs the whole P4 program in every switch, with DCQCN on; csg-htsim has neither. A packet-hop
is a data packet or an acknowledge that crosses a link. CPU seconds are those of the event loop alone, on
one core, memory is the whole process's peak; each run has a process of its own, the two simulators take
turns, and the median counts.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import htsim
from htsim import Fabric, Result

from sglb import programs
from sglb.fabric import metrics
from sglb.fabric import scenario as scenarios
from sglb.fabric.control import load_control_plane
from sglb.fabric.kernel.simulation import NativeSimulation
from sglb.fabric.scenario import Scenario
from sglb.p4.compiler import compile as compile_p4

FABRICS = (
    Fabric("8 leaves x 16 spines, 128 hosts", 128, 16, spines=16),
    Fabric("k = 16 fat tree, 1,024 hosts", 1024, 8, k=16),
)
FLOW_BYTES = 2_000_000
SEED = 1


def scenario_of(fabric: Fabric) -> Scenario:
    """The fabric and its load as a scenario."""
    shape: dict[str, Any] = {"clos3": {"k": fabric.k}}
    if not fabric.k:
        leaves = fabric.hosts // fabric.hosts_per_leaf
        sizes = {"leaves": leaves, "spines": fabric.spines, "hosts_per_leaf": fabric.hosts_per_leaf}
        shape = {"leaf_spine": sizes}
    link = {"rate_gbps": float(fabric.rate_gbps), "delay_ns": float(fabric.delay_ns)}
    lossless = {"class": 3, "lossless": True}
    return scenarios.from_dict(
        {
            "engine": "native",
            "seed": SEED,
            "topology": shape,
            "links": {"host": link, "fabric": link},
            "workload": {"permutation": {"bytes": FLOW_BYTES}},
            "switch": {
                "buffer": {"total_bytes": 33_554_432, "classes": [lossless]},
                "ecn": {"kmin_bytes": 400_000, "kmax_bytes": 1_600_000},  # HPCC's at 100 Gbit/s
                "pfc": {"enabled": True},
            },
            "transport": {
                "mtu_bytes": htsim.MTU_BYTES,
                "traffic_class": 3,
                "window_packets": None,
                "recovery": "go_back_n",
                "ack_every": 1,
                "dcqcn": {"enabled": True},
            },
            "policies": ["ecmp"],
        }
    )


def run_here(fabric: Fabric) -> dict[str, Any]:
    """One run of ours, in this process."""
    scenario = scenario_of(fabric)
    program = compile_p4(programs.glb())
    began = time.process_time()
    simulation = NativeSimulation(scenario, "ecmp", program, load_control_plane())
    built_s = time.process_time() - began
    began = time.process_time()
    run = simulation.run()
    completion_ps = metrics.completion_ps(run.log, scenario.workload)
    if completion_ps is None:
        raise RuntimeError(f"{fabric.name}: the permutation did not complete")
    result = Result(
        simulation.loop_cpu_s, htsim.peak_mib(), simulation.hops, completion_ps / 1_000_000
    )
    rest_s = time.process_time() - began - simulation.loop_cpu_s
    return asdict(result) | {"built_s": built_s, "filled_s": rest_s}


def ours(number: int) -> dict[str, Any]:
    """One run of ours, in a process of its own."""
    command = [sys.executable, __file__, "--one", str(number)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def theirs(program: Path, fabric: Fabric) -> Result:
    """One run of csg-htsim on the same flows."""
    scenario = scenario_of(fabric)
    place = {host.id: n for n, host in enumerate(scenario.topology.hosts)}
    flows = [(place[f.src], place[f.dst], f.size_bytes) for f in scenario.workload.flows]
    return htsim.run(program, fabric, flows, SEED)


def measure(number: int, runs: int, program: Path | None) -> dict[str, Any]:
    """Medians of one fabric's runs."""
    fabric = FABRICS[number]
    mine: list[dict[str, Any]] = []
    other: list[Result] = []
    for _ in range(runs):
        mine.append(ours(number))
        if program is not None:
            other.append(theirs(program, fabric))
    found = {
        "fabric": fabric.name,
        "hops": mine[0]["hops"],
        "sglb_cpu_s": statistics.median(r["cpu_s"] for r in mine),
        "sglb_hops_per_s": statistics.median(r["hops"] / r["cpu_s"] for r in mine),
        "sglb_peak_mib": statistics.median(r["peak_mib"] for r in mine),
        "sglb_setup_s": statistics.median(r["built_s"] + r["filled_s"] for r in mine),
        "sglb_completion_us": mine[0]["last_us"],
    }
    if other:
        found |= {
            "htsim_cpu_s": statistics.median(r.cpu_s for r in other),
            "htsim_hops_per_s": statistics.median(r.hops_per_s for r in other),
            "htsim_peak_mib": statistics.median(r.peak_mib for r in other),
        }
    return found


def tell(found: dict[str, Any]) -> None:
    """A line a figure."""
    name, speed = found["fabric"], found["sglb_hops_per_s"] / 1e6
    beside = memory = ""
    if "htsim_hops_per_s" in found:
        ratio = found["sglb_hops_per_s"] / found["htsim_hops_per_s"]
        beside = f" ({ratio:.2f} times csg-htsim's {found['htsim_hops_per_s'] / 1e6:.2f} M)"
        more = found["sglb_peak_mib"] / found["htsim_peak_mib"]
        memory = f" ({more:.1f} times csg-htsim's {found['htsim_peak_mib']:.0f})"
    print(f"{name}: {speed:.2f} M packet-hops/s{beside}")
    print(f"{name}: {found['sglb_peak_mib']:.0f} MiB peak memory{memory}")
    print(f"{name}: {found['sglb_setup_s']:.1f} s to build and fill the switches")


def main() -> None:
    """Measure, tell, store."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--htsim", type=Path, metavar="PATH", help="csg-htsim's htsim_roce")
    parser.add_argument("--quick", action="store_true", help="128 hosts only, one run")
    parser.add_argument("--runs", type=int, default=3, help="runs of each, medians count [3]")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every number there")
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one is not None:
        print(json.dumps(run_here(FABRICS[options.one])))
        return
    if options.htsim is not None and not options.htsim.is_file():
        sys.exit(f"--htsim {options.htsim}: there is no such program")
    found = []
    for number in range(1 if options.quick else len(FABRICS)):
        found.append(measure(number, 1 if options.quick else options.runs, options.htsim))
        tell(found[-1])
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
