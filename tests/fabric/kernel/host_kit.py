"""Native hosts on a wire whose delays and losses the test chooses: `fabric_pipe.Pipe`'s twin.

Hosts are joined in pairs, and a frame is handed to the host that it is addressed to. The loop is a
plain one over the one heap of all nodes.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from sglb.fabric import roce
from sglb.fabric.generators import leaf_spine
from sglb.fabric.kernel import layout as k
from sglb.fabric.kernel.host_memory import LEAST_DATA_BYTES, HostPlan, HostSpec
from sglb.fabric.kernel.host_settings import HostSettings
from sglb.fabric.kernel.host_view import HostView, host_views
from sglb.fabric.kernel.hosts import host_event, host_receive, hosts_start
from sglb.fabric.roce import WIRE_OVERHEAD_BYTES
from sglb.fabric.topology import LinkSpec
from sglb.fabric.workload import Flow, Workload
from sglb.p4.native import abi
from sglb.switch.core import model as m
from sglb.switch.core.heap import index_of, kind_of, node_of, peek, pop
from sglb.switch.core.memory import NodeSpec, PortSpec, Sizes, build
from sglb.switch.core.rows import row_copy, row_free, row_new, row_store
from sglb.switch.core.watchdog import pause_event
from sglb.switch.core.wires import arrive

GATEWAY = b"gatewy"
RATE_BPS = 100_000_000_000
Fate = Callable[[bytes], list[int]]


@dataclass
class NativePipe:
    """`fate(frame)` gives delays (ps) beyond `delay_ps` of the copies that arrive.

    Those that `mark` says arrive with ECN's CE (IPv4 only).
    """

    fate: Fate
    flows: Sequence[Flow]
    settings: HostSettings = field(default_factory=HostSettings)
    count: int = 2
    delay_ps: int = 2_000_000
    qps: int = 1
    rng: Callable[[str], random.Random] = random.Random
    one_heap: bool = True
    mark: Callable[[bytes], bool] = lambda frame: False
    now_ps: int = 0
    frames: list[tuple[int, int, bytes]] = field(default_factory=list)

    def __post_init__(self) -> None:
        topology = leaf_spine(1, 1, self.count, *[LinkSpec(RATE_BPS, 500_000)] * 2)
        self.ids = [node.id for node in topology.hosts]
        self.addresses = [topology.address(i) for i in self.ids]
        hosts = [
            HostSpec(n.id, n.name, topology.address(n.id), GATEWAY, self.rng(n.name))
            for n in topology.hosts
        ]
        workload = Workload("test", tuple(self.flows))
        self.plan = HostPlan(hosts, workload, self.settings, self.qps, self.delay_ps)
        nodes = [
            NodeSpec(
                host.id,
                [PortSpec(1, RATE_BPS, self.delay_ps, (i ^ 1, 1))],
                events=self.plan.events(i),
                overhead_bytes=WIRE_OVERHEAD_BYTES,
            )
            for i, host in enumerate(hosts)
        ]
        sizes = Sizes(
            rows=20_000,
            frame_bytes=0,
            data_bytes=LEAST_DATA_BYTES,
            sections=self.plan.sections,
            counts=self.plan.counts,
            one_heap=self.one_heap,
        )
        self.memory = build(nodes, sizes)
        self.world = self.memory.world
        self.plan.write(self.memory, 0)
        self._held: list[tuple[int, int, int]] = []
        self._order = 0
        hosts_start(self.world)

    def bytes_of(self, row: int) -> bytes:
        """The frame in a row, with the zeros that are not stored."""
        w, h, b = self.world.w, self.world.h, self.world.b
        at = int(w[row + abi.DATA] - w[m.BASE])
        stored, length = int(h[row * 2 + abi.STORED]), int(h[row * 2 + abi.LENGTH])
        return bytes(b[at : at + stored]) + bytes(length - stored)

    def row_of(self, frame: bytes) -> int:
        """A row with a frame."""
        row = row_new(self.world)
        data = np.frombuffer(frame or b"\0", dtype=np.uint8)
        assert row_store(self.world, row, data.ctypes.data, len(frame), len(frame))
        return row

    def run(self, until_ps: int = 10**13) -> NativePipe:
        """Runs all events up to a time."""
        while True:
            held = self._held[0][0] if self._held else until_ps + 1
            event = min(peek(self.world, heap) for heap in range(self.heaps))
            if min(held, event) > until_ps:
                return self
            if held < event:
                self.now_ps, _, row = heapq.heappop(self._held)
                self.deliver(row)
                continue
            heap = min(range(self.heaps), key=lambda n: peek(self.world, n))
            self.now_ps, order, _ = pop(self.world, heap)
            self.event(node_of(order), kind_of(order), index_of(order))
            assert not self.world.w[m.HALT] & ~(m.HALT_DONE | m.HALT_LOG)

    @property
    def heaps(self) -> int:
        return int(self.world.w[m.HEAPS])

    def event(self, node: int, kind: int, index: int) -> None:
        if kind == m.EV_PAUSE_END:
            pause_event(self.world, node, index, self.now_ps)
            return
        if kind != m.EV_WIRE:
            host_event(self.world, node, kind, index, self.now_ps)
            return
        row = arrive(self.world, node, self.now_ps)
        if row < 0:
            return
        frame = self.bytes_of(row)
        self.frames.append((self.now_ps - self.delay_ps, node ^ 1, frame))
        for extra_ps in self.fate(frame):
            if extra_ps:
                self._order += 1
                copy = row_copy(self.world, row)
                heapq.heappush(self._held, (self.now_ps + extra_ps, self._order, copy))
            else:
                self.deliver(row_copy(self.world, row))
        row_free(self.world, row)

    def deliver(self, row: int) -> None:
        """Hands a frame to the host that it is addressed to, as a switch would."""
        frame = self.bytes_of(row)
        ip = frame[30:34] if frame[12] == 8 else frame[38:54]
        known = [i for i, a in enumerate(self.addresses) if ip in (a.ipv4.packed, a.ipv6.packed)]
        at = int(self.world.w[row + abi.DATA] - self.world.w[m.BASE])
        head = bytearray(self.addresses[known[0]].mac + frame[6:34])
        if self.mark(frame):
            head[15] |= roce.CE
            head[24:26] = b"\0\0"
            head[24:26] = roce.ipv4_checksum(bytes(head[14:])).to_bytes(2, "big")
        self.world.b[at : at + len(head)] = np.frombuffer(bytes(head), dtype=np.uint8)
        host_receive(self.world, known[0], 0, row, self.now_ps)

    @property
    def hosts(self) -> list[HostView]:
        return list(host_views(self.plan, self.world).values())

    def _records(self) -> np.ndarray:
        w, first = self.world.w, int(self.world.w[m.LOG_AT])
        return w[first : first + int(w[m.LOG_USED]) * m.LOG_WORDS].reshape(-1, m.LOG_WORDS)

    @property
    def log(self) -> list[tuple[int, int, int]]:
        """(time, kind, flow) of flows that started and completed."""
        kinds = (m.LOG_FLOW_STARTED, m.LOG_FLOW_COMPLETED)
        records = [r for r in self._records() if r[m.L_KIND] in kinds]
        return [(int(r[m.L_TIME]), int(r[m.L_KIND]), int(r[m.L_A])) for r in records]

    def lost(self) -> list[int]:
        """TRAFFIC_* of what was lost on the wire."""
        return [int(r[m.L_B]) >> 32 for r in self._records() if r[m.L_KIND] == m.LOG_LOST]

    def completed(self) -> dict[int, int]:
        """When each flow was complete."""
        return {flow: t for t, kind, flow in self.log if kind == m.LOG_FLOW_COMPLETED}

    def sender(self, host: int = 0, index: int = 0) -> int:
        """Record of a queue pair's end."""
        first = int(self.world.w[m.HOSTS_AT]) + host * k.HOST_WORDS
        return int(self.world.w[first + k.H_FIRST_QP]) + index * k.QP_WORDS
