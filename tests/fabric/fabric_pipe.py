"""A wire for tests: hosts joined by a pipe whose delays and losses the test chooses."""

from __future__ import annotations

import random
from collections.abc import Callable

from sglb.fabric.generators import leaf_spine
from sglb.fabric.host import Host
from sglb.fabric.qp import TransportConfig
from sglb.fabric.topology import LinkSpec
from sglb.switch.clock import VirtualClock

Fate = Callable[[bytes], list[int]]
GATEWAY = b"gatewy"


class FixedBits(random.Random):
    """Draws the same bits always, to choose the first PSN."""

    def __init__(self, bits: int) -> None:
        super().__init__(0)
        self._bits = bits

    def getrandbits(self, k: int) -> int:
        return self._bits % (1 << k)


class Pipe:
    """`count` hosts at 100 Gbit/s on one wire, frames going by destination IP address.

    `fate(frame)` gives the delays (ps) of the copies that arrive: none is a loss, two a duplicate.
    """

    def __init__(
        self,
        fate: Fate,
        config: TransportConfig | None = None,
        count: int = 2,
        first_psn: int | None = None,
    ) -> None:
        topology = leaf_spine(1, 1, count, *[LinkSpec(100_000_000_000, 500_000)] * 2)
        self.clock = VirtualClock()
        self.fate = fate
        self.frames: list[tuple[int, str, bytes]] = []
        self.hosts: dict[int, Host] = {}
        self._by_ip: dict[bytes, Host] = {}
        for node in topology.hosts:
            rng = random.Random(node.name) if first_psn is None else FixedBits(first_psn)
            host = Host(
                node.name,
                topology.address(node.id),
                GATEWAY,
                100_000_000_000,
                config or TransportConfig(),
                self.clock,
                self._sender(node.name),
                rng,
            )
            self.hosts[node.id] = self._by_ip[host.address.ipv4.packed] = host
            self._by_ip[host.address.ipv6.packed] = host

    def _sender(self, name: str) -> Callable[[bytes], None]:
        def send(frame: bytes) -> None:
            self.frames.append((self.clock.now_ps, name, frame))
            host = self._by_ip[frame[30:34] if frame[12] == 8 else frame[38:54]]
            for delay_ps in self.fate(frame):
                self.clock.call_later(delay_ps, host.receive, host.address.mac + frame[6:])

        return send
