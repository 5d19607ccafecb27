"""A live fabric under random faults: does all come back, again and again, and does nothing leak?

    sudo .venv/bin/python bench/chaos.py [--minutes 10] [--seed 1] [--json FILE] [--quick]

Probes run all the time between hosts of 3 leaves on 2 spines, policy glb. In each round something
happens: a link flaps, an agent or a controller is killed (kill -9), once a switch loses its power and
comes back. Then the fabric has some seconds, and then comes a quiet second, in which no probe may be
lost, after which the tables of all switches must be what they are on a healthy fabric. At the end the
fabric's processes, their open files and their memory are compared with those after the first one.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from controller.live.check import TableCheck
from controller.live.plane import LivePlane
from sglb import programs
from sglb.fabric import scenario as scenarios
from sglb.fabric.faults import Fault, FaultKind
from sglb.fabric.live import namespaces
from sglb.fabric.live.fabric import LiveFabric, LiveRun
from sglb.fabric.live.folders import private_folder
from sglb.fabric.live.processes import ProcessSpec
from sglb.fabric.live.scaled import scaled
from sglb.fabric.live.targets import Embedded
from sglb.fabric.scenario import Scenario
from sglb.p4.compiler import compile as compile_p4
from sglb.switch.clock import PS_PER_S

#: After what happened, until nothing may be lost any more.
_SETTLE_S: Final = 5.0
_AFTER_POWER_S: Final = 12.0
_QUIET_S: Final = 1.0
_CHECK_S: Final = 30.0
_PAGE_BYTES: Final = 4096


@dataclass(frozen=True, slots=True)
class Held:
    """What a fabric's processes hold: how many there are, open files, resident bytes."""

    processes: int
    files: int
    memory_bytes: int


@dataclass(slots=True)
class Outcome:
    """What came of it. `lost` are probes of quiet seconds, `unequal` checks that found differences."""

    rounds: list[str] = field(default_factory=list)
    quiet_probes: int = 0
    lost: int = 0
    unequal: list[str] = field(default_factory=list)
    before: Held | None = None
    after: Held | None = None
    probes: int = 0
    probes_lost: int = 0


def scenario(minutes: float) -> Scenario:
    """The fabric, with probes for as long as that."""
    span_s = minutes * 60 + 60
    given = {
        "name": "chaos",
        "topology": {"leaf_spine": {"leaves": 3, "spines": 2, "hosts_per_leaf": 1}},
        "links": {"host": {"rate_gbps": 1}, "fabric": {"rate_gbps": 1}},
        "workload": {"flows": [{"src": "h0", "dst": "h1", "bytes": 64, "start_us": span_s * 1e6}]},
        "live": {
            "rate_scale": 1,
            "probes_per_s": 1_000,
            # What comes back is the question here, not how fast a cut is found.
            "heartbeat_us": 5_000,
            "missed_count": 10,
            "stop_s": span_s,
        },
        "stop_us": span_s * 1e6,
        "policies": ["glb"],
    }
    return scaled(scenarios.from_dict(given, "bench/chaos.py"), 1)


class Chaos:
    """Does things to a fabric and keeps account; `run` beside the fabric's."""

    def __init__(self, fabric: LiveFabric, rng: random.Random, minutes: float) -> None:
        self._fabric = fabric
        self._rng = rng
        self._end_s = time.monotonic() + minutes * 60
        self._quiet: list[tuple[int, int]] = []
        self.outcome = Outcome()

    async def run(self) -> None:
        """Round after round, the restart of a switch among them, until time is up."""
        await self._quiet_second("nothing")
        self.outcome.before = self._held()
        kinds = ["flap", "agent", "controller", "switch"]
        while time.monotonic() < self._end_s or "switch" in kinds:
            what = kinds.pop() if len(kinds) > 3 else self._rng.choice(kinds)
            settle_s = _AFTER_POWER_S if what == "switch" else _SETTLE_S
            name = await getattr(self, f"_{what}")()
            print(f"# {name}", flush=True)
            await asyncio.sleep(settle_s)
            await self._quiet_second(name)
        self.outcome.after = self._held()

    # --- what happens ---

    async def _flap(self) -> str:
        topology = self._fabric.topology
        hosts = {node.id for node in topology.hosts}
        link = self._rng.choice([x for x in topology.links if not {x.a, x.b} & hosts])
        times = self._rng.randint(1, 3)
        for _ in range(times):
            self._fabric.apply(Fault(0, FaultKind.LINK_DOWN, link.name, (link,)))
            await asyncio.sleep(self._rng.uniform(0.05, 0.8))
            self._fabric.apply(Fault(0, FaultKind.LINK_UP, link.name, (link,)))
            await asyncio.sleep(self._rng.uniform(0.05, 0.8))
        return f"{link.name} flaps {times} times"

    async def _agent(self) -> str:
        names = sorted(n for n in self._fabric.processes if n.startswith("agent-"))
        return self._kill(self._rng.choice(names))

    async def _controller(self) -> str:
        names = sorted(n for n in self._fabric.processes if n in ("controller", "standby"))
        return self._kill(self._rng.choice(names))

    def _kill(self, name: str) -> str:
        self._fabric.processes[name].kill(signal.SIGKILL)
        return f"{name} is killed"

    async def _switch(self) -> str:
        switch = self._rng.choice(self._fabric.topology.switches)
        self._fabric.apply(Fault(0, FaultKind.SWITCH_DOWN, switch.name, switch_id=switch.id))
        await asyncio.sleep(2)
        self._fabric.apply(Fault(0, FaultKind.SWITCH_UP, switch.name, switch_id=switch.id))
        return f"{switch.name} restarts"

    # --- what is looked at ---

    async def _quiet_second(self, after: str) -> None:
        start_ps = self._fabric.now_ps
        await asyncio.sleep(_QUIET_S)
        self._quiet.append((start_ps, self._fabric.now_ps))
        self.outcome.rounds.append(after)
        result = self._fabric.view.folder / f"check{len(self._quiet)}.result"
        self._fabric.start_process(
            ProcessSpec("check", TableCheck(self._fabric.view, result), ends=True)
        )
        deadline = time.monotonic() + _CHECK_S
        while not result.exists() and time.monotonic() < deadline:
            await asyncio.sleep(0.05)
        found = json.loads(result.read_text()) if result.exists() else {"check": ["no answer"]}
        while "check" in self._fabric.processes:
            await asyncio.sleep(0.05)
        for switch, lines in found.items():
            self.outcome.unequal.append(
                f"after {after}: {switch}: {lines[0]} ({len(lines)} in all)"
            )

    def _held(self) -> Held:
        files = memory = 0
        names = [n for n in self._fabric.processes if n not in ("traffic", "check")]
        for name in names:
            base = Path(f"/proc/{self._fabric.processes[name].pid}")
            files += len(list((base / "fd").iterdir()))
            memory += int((base / "statm").read_text().split()[1]) * _PAGE_BYTES
        return Held(len(names), files, memory)

    def account(self, found: LiveRun) -> None:
        """Counts the probes of quiet seconds."""
        traffic = found.traffic
        self.outcome.probes = len(traffic.probes)
        self.outcome.probes_lost = len(traffic.probes) - len(traffic.probe_arrivals)
        for number, probe in enumerate(traffic.probes):
            if any(start <= probe.time_ps < end for start, end in self._quiet):
                self.outcome.quiet_probes += 1
                self.outcome.lost += number not in traffic.probe_arrivals


async def chaos(folder: Path, given: Scenario, seed: int, minutes: float) -> Outcome:
    """One fabric, from its start to its end."""
    target = Embedded(given, compile_p4(programs.glb()))
    over = asyncio.Event()
    fabric = LiveFabric(given, "glb", folder, target, LivePlane, over.is_set)
    async with fabric:
        running = asyncio.create_task(fabric.run(lambda _: None))
        while fabric.now_ps < PS_PER_S or not fabric.start_ns:
            await asyncio.sleep(0.1)
        faults = Chaos(fabric, random.Random(seed), minutes)
        doing = asyncio.create_task(faults.run())
        await asyncio.wait((running, doing), return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            doing.cancel()
        else:
            doing.result()
        over.set()
        faults.account(await running)
    return faults.outcome


def figures(found: Outcome) -> Iterator[str]:
    """A line a figure."""
    yield f"rounds: {len(found.rounds)}"
    share = found.probes_lost / max(1, found.probes)
    yield f"probes lost in all: {found.probes_lost} ({share:.2%} of {found.probes})"
    yield f"probes lost in quiet seconds: {found.lost} (of {found.quiet_probes})"
    yield f"checks that found other tables: {len(found.unequal)} (of {len(found.rounds)})"
    if found.before is not None and found.after is not None:
        for what in ("processes", "files", "memory_bytes"):
            before, after = getattr(found.before, what), getattr(found.after, what)
            yield f"{what} at the end: {after} ({after / before:.3f} of the beginning)"


def main() -> int:
    """Runs, prints figures; 1 when something did not come back."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="half a minute")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--logs", type=Path, help="keep the logs of all processes there")
    given = parser.parse_args()
    if why := namespaces.why_not():
        parser.error(why)
    if not 0 < given.minutes < 1_440:
        parser.error("--minutes: more than 0, and less than a day")
    minutes = 0.5 if given.quick else given.minutes
    # Rounds take longer than faults: their time is on top.
    with private_folder(given.logs) as folder:
        found = asyncio.run(chaos(folder, scenario(minutes), given.seed, minutes))
    for line in found.unequal:
        print(f"# {line}")
    for line in figures(found):
        print(line)
    if given.json is not None:
        data: dict[str, Any] = asdict(found)
        given.json.write_text(json.dumps(data, indent=2) + "\n")
    return int(bool(found.lost or found.unequal))


if __name__ == "__main__":
    sys.exit(main())
