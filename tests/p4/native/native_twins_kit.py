"""Two switches with one program and one history, one native and one interpreted, held to each other."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from cli_commands import Cli

from sglb.p4.compiler import CompiledProgram
from sglb.p4.compiler import compile as compile_p4
from sglb.p4.random_stream import RandomStream
from sglb.switch.clock import VirtualClock
from sglb.switch.config import SwitchConfig
from sglb.switch.digests import DigestConfig
from sglb.switch.state import ProgramState
from sglb.switch.switch import EngineName, Switch

TESTS = Path(__file__).parents[2]
ENGINES: tuple[EngineName, EngineName] = ("interpreter", "native")


@cache
def compiled(path: Path) -> CompiledProgram:
    return compile_p4(path)


class Twin:
    """One of the two."""

    def __init__(self, program: CompiledProgram, engine: EngineName, commands: str) -> None:
        self.clock = VirtualClock(start_ps=1_000_000_000)
        config = SwitchConfig(cpu_port=506, event_port=507, max_copies=40)
        self.switch = Switch(program, config, self.clock, rng=RandomStream(7), engine=engine)
        for number in set(range(512)) - {506, 507}:
            self.switch.add_port(number, None)
        self.log: list[Any] = []
        self.switch.on_transmit = lambda *sent: self.log.append(sent)
        self.switch.on_cpu = lambda data: self.log.append(("cpu", data))
        self.switch.on_drop = lambda drop: self.log.append(drop)
        self.switch.digests.on_list = lambda message: self.log.append(message)
        for digest in self.switch.state.digest_ids.values():
            self.switch.digests.enable(digest, DigestConfig(max_list_size=1))
        Cli(self.switch).run(commands)

    def feed(self, port: int, data: bytes) -> list[Any]:
        """What became of a packet: frames with their times, drops with their reasons, digests."""
        self.log.clear()
        self.switch.receive(port, data)
        self.clock.run()
        return list(self.log)


def state_of(state: ProgramState) -> list[Any]:
    """All that a program keeps, as plain numbers."""
    found: list[Any] = [list(register.values) for register in state.registers.values()]
    for counter in state.counters.values():
        cells = (counter.cell(i) for i in range(counter.size))
        found.append([(cell.packets, cell.bytes) for cell in cells])
    for meter in state.meters.values():
        rows = (meter.cell(i).counts for i in range(meter.size))
        found.append([[(c.packets, c.bytes) for c in row] for row in rows])
    for table in state.tables:
        entries = (*table.entries(), table.default)
        found.append([(e.counter.packets, e.counter.bytes, e.last_hit_ps) for e in entries])
    return found


class Twins:
    """Both switches."""

    def __init__(self, path: Path, commands: str = "") -> None:
        program = compiled(path)
        self.twins = [Twin(program, engine, commands) for engine in ENGINES]

    def feed(self, port: int, data: bytes) -> list[Any]:
        """What both made of a packet; asserts that it is the same."""
        expected, got = (twin.feed(port, data) for twin in self.twins)
        assert got == expected, (port, data.hex())
        return expected

    def check_state(self) -> None:
        """Asserts that both keep the same."""
        expected, got = (state_of(twin.switch.state) for twin in self.twins)
        assert got == expected


def variations(rng: random.Random, packets: list[tuple[int, bytes]]) -> Iterator[tuple[int, bytes]]:
    """Packets like these: as they are, cut, longer, with bits flipped, glued, made up."""
    for port, data in packets:
        yield port, data
        yield port, data[: rng.randint(0, len(data))]
        yield port, data + rng.randbytes(rng.randint(0, 80))
        flipped = bytearray(data)
        for _ in range(rng.randint(1, 6) if data else 0):
            flipped[rng.randrange(len(flipped))] ^= 1 << rng.randrange(8)
        yield port, bytes(flipped)
        edges = bytes(rng.choice([0, 1, 0x7F, 0x80, 0xFF, b]) for b in data)
        yield port, edges
        yield rng.randrange(500), rng.randbytes(rng.randint(0, 100))
