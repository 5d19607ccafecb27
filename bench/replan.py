"""How long the controller takes to fill a fabric and to follow one failed link.

    python bench/replan.py [--quick] [--json FILE]

A three-tier Clos of k = 8 (`--quick`: k = 4) whose switches run the real program in this process. Times
are the processor's, the P4Runtime services' share included. "Everything again" is what a controller
without memory of its plan does: plan, encode and compare every entry.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from controller.agents import allocation_of
from controller.controller import Controller
from controller.diff import Holdings, difference
from controller.layout import FabricLayout
from controller.paths import LinkState
from controller.plan import PlanInputs, plan_switch
from sglb import p4
from sglb.fabric import scenario
from sglb.p4.random_stream import RandomStream
from sglb.programs import glb
from sglb.switch.clock import VirtualClock
from sglb.switch.config import SwitchConfig
from sglb.switch.p4runtime.client import InProcessClient
from sglb.switch.p4runtime.service import P4RuntimeService
from sglb.switch.switch import Switch


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    """Processor seconds that a call took, and what it returned."""
    start = time.process_time()
    result = call()
    return time.process_time() - start, result


class Fabric:
    """Empty switches of a fat tree, and a controller that is to fill them."""

    def __init__(self, k: int) -> None:
        flow = {"src": "h0", "dst": "h1", "bytes": 4096}
        keys = {"topology": {"clos3": {"k": k}}, "workload": {"flows": [flow]}}
        given = scenario.from_dict(keys)
        self.topology = given.topology
        self.clients: dict[int, InProcessClient] = {}
        program, clock = p4.compile(glb()), VirtualClock()
        for node in self.topology.switches:
            switch = Switch(
                program,
                SwitchConfig(),
                clock,
                name=node.name,
                device_id=node.id,
                rng=RandomStream(node.id),
            )
            for port, link in self.topology.ports(node.id).items():
                switch.add_port(port, link.spec.rate_bps)
            self.clients[node.id] = InProcessClient(P4RuntimeService(switch, clock))
        layout = FabricLayout(self.topology)
        profiles = {i: allocation_of(layout, i, 64) for i in self.clients}
        self.healthy = LinkState.healthy(self.topology)
        self.inputs = PlanInputs(layout, given.model, "glb", self.healthy, profiles)
        self.controller = Controller(self.inputs, self.clients)

    def everything_again(self) -> int:
        """Plans, encodes and compares every entry; the number of entries."""
        count = 0
        for switch_id, client in self.clients.items():
            plan = plan_switch(self.inputs, switch_id)
            held = Holdings(entity.encode(client.schema) for entity in plan)
            count += len(held)
            difference(held, held, {})
        return count


def measure(k: int) -> dict[str, float]:
    """All figures."""
    fabric = Fabric(k)
    fill_s, repairs = timed(fabric.controller.reconcile_all)
    writes = sum(repair.updates for repair in repairs.values())
    again_s, entries = timed(fabric.everything_again)
    dead = frozenset({fabric.topology.find_links("spine0-core0")[0].id})
    replan_s, updates = timed(lambda: fabric.controller.update(fabric.healthy.without(dead)))
    return {
        "switches": len(fabric.clients),
        "writes": writes,
        "fill_s": fill_s,
        "write_us": fill_s / writes * 1e6,
        "entries": entries,
        "everything_again_s": again_s,
        "replan_s": replan_s,
        "replan_updates": sum(updates.values()),
    }


def main() -> None:
    """Measure, tell, store."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--quick", action="store_true", help="k = 4")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every number there")
    options = parser.parse_args()
    k = 4 if options.quick else 8
    found = measure(k)
    if options.json:
        options.json.write_text(json.dumps({"k": k, **found}, indent=1) + "\n", encoding="utf-8")
    again_s = found["everything_again_s"]
    print(f"fill, k = {k}: {found['fill_s']:.2f} s ({found['writes']} writes)")
    print(
        f"a write: {found['write_us']:.0f} us ({again_s / found['fill_s']:.2f} of a fill is a plan)"
    )
    print(
        f"one failed link: {found['replan_s']:.2f} s "
        f"({again_s / found['replan_s']:.1f} times faster than everything again, "
        f"{found['replan_updates']} updates)"
    )


if __name__ == "__main__":
    main()
