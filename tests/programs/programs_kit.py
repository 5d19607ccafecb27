"""A user's bench: one program in one switch, packets in and out, P4Runtime in the same process."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from scapy.layers.l2 import Ether

from sglb.p4 import CompiledProgram
from sglb.p4 import compile as compile_p4
from sglb.p4.random_stream import RandomStream
from sglb.switch import Switch, SwitchConfig
from sglb.switch.clock import VirtualClock
from sglb.switch.p4runtime import InProcessClient, P4RuntimeService

HERE = Path(__file__).parent


@cache
def program(name: str) -> CompiledProgram:
    return compile_p4(HERE / f"{name}.p4")


class Bench:
    """A switch with ports 1 to 8 in virtual time, and a controller."""

    def __init__(self, name: str) -> None:
        self.clock = VirtualClock()
        self.switch = Switch(program(name), SwitchConfig(), self.clock, rng=RandomStream(0))
        for port in range(1, 9):
            self.switch.add_port(port, None)
        self._sent: list[tuple[int, bytes]] = []
        self.switch.on_transmit = lambda port, data, *_: self._sent.append((port, data))
        self.controller = InProcessClient(P4RuntimeService(self.switch, self.clock))

    def send(self, port: int, packet: Ether) -> list[tuple[int, bytes]]:
        """What leaves the switch because of a packet: (port, bytes) in order."""
        self._sent.clear()
        self.switch.receive(port, bytes(packet))
        self.clock.run()
        return list(self._sent)
