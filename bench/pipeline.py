"""Speed of the native pipeline on a router: beside the interpreter, beside BMv2, and under writes.

    python bench/pipeline.py [--simple-switch PATH] [--quick] [--runs N] [--json FILE]

`router.p4` with 10,000 prefixes, an access list of 500 rules over five fields and 256 next hops, filled
through P4Runtime; frames of 60 bytes. Two kinds of traffic: many flows of which some are frequent, and,
as the worst case, every packet to another destination. All times are CPU times, medians of the runs.

Native: one thread calls `p4_forward_batch` for 256 rows at a time; what is timed is all of a packet's
way from parser to deparser. Interpreter: the same blocks on the same tables, without ports and queues,
on another tenth of the packets in each run, since its tables remember what they were asked.
simple_switch (where its path is given, or it is on PATH) reads the same packets as a pcap file, see
`bmv2.py`; that it lets out the same packets, byte by byte, is checked. All its threads' CPU time counts;
the second ratio is to its busiest thread alone, as if the others cost nothing.
Writes: see `writes.py`. First packet: see `first_packet.py`.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

import bmv2
import forward
import numpy as np
import writes
from forward import Reference, Router, Rows, Sent
from numpy.typing import NDArray
from router import FRAME_BYTES, PORTS, Tables, make_tables, mixed, scattered

FLOWS = 20_000
#: The part of the packets that the interpreter gets in each run, always other ones.
INTERPRETED = 10
Traffic = dict[str, NDArray[np.uint8]]


class Bench:
    """The router, its traffic and what was measured."""

    def __init__(self, packets: int, runs: int) -> None:
        self.tables: Tables = make_tables(random.Random(1))
        self.traffic: Traffic = {
            "many flows": mixed(random.Random(2), self.tables, packets, FLOWS),
            "every packet another destination": scattered(random.Random(3), self.tables, packets),
        }
        self.runs = runs
        self.router = Router(self.tables)
        self.rows = Rows(self.router, FRAME_BYTES)
        entries = sum(1 for _ in self.tables.entities())
        self.found: dict[str, Any] = {
            "packets": packets,
            "write_us_per_entry": self.router.fill_s / entries * 1e6,
        }

    # --- one thread, nothing else -----------------------------------------------------------------

    def speed(self) -> None:
        """Native code and the interpreter, in turns."""
        reference = Reference(self.router)
        for name, frames in self.traffic.items():
            native, copied, slow = [], [], []
            stretch = len(frames) // INTERPRETED
            for run in range(self.runs):
                some = frames[run % INTERPRETED * stretch :][:stretch]
                native.append(forward.forward_all(self.rows, frames) / len(frames) * 1e9)
                copied.append(forward.copy_all(self.rows, frames) / len(frames) * 1e9)
                taken_s, sent = forward.interpret_all(reference, some)
                slow.append(taken_s / len(some) * 1e9)
                if sent != forward.sent_by_all(self.rows, some):
                    raise RuntimeError("native code and the interpreter forward differently")
            self.found[name] = {
                "native_ns": median(native),
                "native_with_copies_ns": median(copied),
                "interpreter_ns": median(slow),
            }

    def beside_bmv2(self, switch: Path) -> None:
        """simple_switch on the same packets, in turns with native code."""
        for name, frames in self.traffic.items():
            sent = by_port(forward.sent_by_all(self.rows, frames))
            out = sum(len(packets) for packets in sent.values())
            native, whole, busiest = [], [], []
            for _ in range(self.runs):
                native.append(forward.forward_all(self.rows, frames) / len(frames) * 1e9)
                result = bmv2.run(switch, forward.PROGRAM, self.tables, frames, out)
                if result.sent != sent:
                    raise RuntimeError("native code and simple_switch forward differently")
                whole.append(result.cpu_s / len(frames) * 1e9)
                busiest.append(result.busiest_s / len(frames) * 1e9)
            self.found[name] |= {
                "simple_switch_ns": median(whole),
                "simple_switch_busiest_ns": median(busiest),
                "native_beside_ns": median(native),
            }

    # --- writes -----------------------------------------------------------------------------------

    def under_writes(self) -> None:
        """The same traffic, while a controller in another thread writes."""
        outcomes, alone = [], []
        for _ in range(self.runs):
            traffic = self.traffic["many flows"]
            alone.append(forward.forward_all(self.rows, traffic) / len(traffic) * 1e9)
            outcomes.append(writes.run(self.router, self.tables, self.rows, traffic))
        self.found["writes"] = {
            "alone_ns": median(alone),
            "native_ns": median(o.ns_per_packet for o in outcomes),
            "requests": sum(len(o.write_s) for o in outcomes),
            "updates": sum(o.updates for o in outcomes),
            "checked": sum(o.checked for o in outcomes),
            "violations": sum(o.violations for o in outcomes),
            "request_cpu_us": median(t for o in outcomes for t in o.write_cpu_s) * 1e6,
            "request_us": median(t for o in outcomes for t in o.write_s) * 1e6,
        }

    # --- first packet -----------------------------------------------------------------------------

    def first_packets(self) -> None:
        """Fresh processes: first with neither native code nor sglb's Python compiled, then with both."""
        cold, again = [], []
        for _ in range(self.runs):
            with tempfile.TemporaryDirectory() as folder:
                start(
                    folder, "-c", "import finsy.proto, llvmlite.binding, numpy"
                )  # as pip leaves them
                cold.append(first_packet(folder))
                again.append(first_packet(folder))
        if any(run["from_cache"] for run in cold) or not all(run["from_cache"] for run in again):
            raise RuntimeError("the cache was not as expected")
        self.found["first_packet"] = {"cold": middle(cold), "cached": middle(again)}


def first_packet(folder: str) -> dict[str, Any]:
    """The stages of a process with its caches in a folder."""
    script = Path(__file__).with_name("first_packet.py")
    found: dict[str, Any] = json.loads(start(folder, str(script)))
    return found


def start(folder: str, *arguments: str) -> bytes:
    """What a fresh Python prints that keeps all that it compiles in a folder."""
    environment = dict(os.environ, SGLB_CACHE_DIR=folder, PYTHONPYCACHEPREFIX=folder)
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, *arguments]
    root = Path(__file__).parents[1]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True, cwd=root)
    return done.stdout


def middle(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """The run whose total is the median (the lower of two)."""
    return sorted(runs, key=lambda run: run["total"])[(len(runs) - 1) // 2]


def by_port(sent: list[Sent]) -> dict[int, list[bytes]]:
    """The packets that left each port."""
    found: dict[int, list[bytes]] = {port: [] for port in PORTS}
    for port, data in sent:
        if port >= 0:
            found[port].append(data)
    return found


# --- telling --------------------------------------------------------------------------------------


def tell_speed(found: dict[str, Any], names: list[str]) -> None:
    """A line a figure."""
    for name in names:
        part = found[name]
        native = part["native_ns"]
        ratio = part["interpreter_ns"] / native
        print(f"{name}: {native:.0f} ns a packet ({ratio:.0f} times the interpreter's pace)")
        print(f"{name}, copied in and out: {part['native_with_copies_ns']:.0f} ns a packet")
        if "simple_switch_ns" in part:
            beside = part["native_beside_ns"]
            whole = part["simple_switch_ns"] / beside
            busiest = part["simple_switch_busiest_ns"] / beside
            print(
                f"{name}, simple_switch: {part['simple_switch_ns'] / 1000:.1f} us a packet "
                f"(native is {whole:.0f} times as fast, {busiest:.0f} times its busiest thread)"
            )


def tell_rest(found: dict[str, Any]) -> None:
    """A line a figure."""
    part = found["writes"]
    ratio = part["native_ns"] / part["alone_ns"]
    size = part["updates"] / part["requests"]
    print(f"while written to: {part['native_ns']:.0f} ns a packet ({ratio:.2f} times that without)")
    print(
        f"while written to: {part['violations']} of {part['checked']} packets saw part of one of "
        f"{part['requests']} requests"
    )
    print(
        f"a write of {size:.0f} updates: {part['request_cpu_us']:.0f} us of CPU time "
        f"({part['request_us']:.0f} us with waiting for packets and for Python's other thread)"
    )
    print(f"filling the tables: {found['write_us_per_entry']:.0f} us an entry, through P4Runtime")
    for name, run in found["first_packet"].items():
        stages = ", ".join(
            f"{stage.replace('_', ' ')} {run[stage]:.2f}"
            for stage in ("python", "imports", "front_end", "native_code", "switch_and_packet")
        )
        print(f"first native packet, {name}: {run['total']:.2f} s ({stages})")


def main() -> None:
    """Measure, tell, store."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--simple-switch", type=Path, metavar="PATH", help="BMv2's simple_switch")
    parser.add_argument("--quick", action="store_true", help="fewer packets, one run")
    parser.add_argument("--runs", type=int, default=3, help="runs of each, medians count [3]")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every number there")
    options = parser.parse_args()
    on_path = shutil.which("simple_switch")
    switch: Path | None = options.simple_switch or (Path(on_path) if on_path else None)
    if switch is not None:
        if not switch.is_file():
            sys.exit(f"--simple-switch {switch}: there is no such program")
        try:
            bmv2.tools(switch)
        except FileNotFoundError as error:
            sys.exit(f"--simple-switch: {error}")
    bench = Bench(20_000 if options.quick else 100_000, 1 if options.quick else options.runs)
    bench.speed()
    if switch is not None:
        bench.beside_bmv2(switch)
    tell_speed(bench.found, list(bench.traffic))
    bench.under_writes()
    bench.first_packets()
    tell_rest(bench.found)
    if options.json:
        options.json.write_text(json.dumps(bench.found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
