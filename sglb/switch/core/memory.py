"""Lays out the memory of a native fabric: one zeroed block, aligned to cache lines, empty of packets."""

from __future__ import annotations

import hashlib
import mmap
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from sglb.p4.native import abi
from sglb.switch.config import SwitchConfig
from sglb.switch.core import model as m
from sglb.switch.core.heap import NEVER, order_of
from sglb.switch.core.world import World
from sglb.switch.errors import ConfigError

SWITCH_PORTS: Final = 512  #: P4 port numbers of a switch have 9 bits
MCAST_GROUPS: Final = 1 << 16  #: as many as mcast_grp can name
_UNBOUNDED: Final = 1 << 40
_LINE_WORDS: Final = abi.ROW_ALIGN // 8
_DEPTH_UNITS: Final = {"packets": 0, "bytes": 1, "cells": 2}


@dataclass(frozen=True, slots=True)
class PortSpec:
    """A port: P4 number, rate (None sends in no time), and the far end of its link.

    `peer` is (index of a node, its port's number), None for a port whose frames go to Python.
    """

    number: int
    rate_bps: int | None = None
    delay_ps: int = 0
    peer: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class NodeSpec:
    """A node with its ports; `config` is None for a host. A switch gets its CPU port beside them.

    `id` is the node's id in the topology, `events` how many events it can have waiting beside those
    of its ports and of the switch, `overhead_bytes` a host's `wire_overhead_bytes`.
    """

    id: int
    ports: Sequence[PortSpec]
    config: SwitchConfig | None = None
    events: int = 0
    overhead_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much of everything there is.

    `frame_bytes`, `header_bytes` and `parse_bytes` (None: no bound) are the largest of all programs,
    `max_header_bytes` and `max_parse_bytes` of the latter two (see `NativeProgram`);
    `data_bytes` of each packet are kept in its row, up to `blob_bytes` of a longer one in a blob.
    `sections` are words of the sections that others fill, by their place in the header (`HOSTS_AT` ...),
    `counts` the header's words for what they count.
    """

    rows: int
    frame_bytes: int
    data_bytes: int = 256
    header_bytes: int = 256
    parse_bytes: int | None = None
    blobs: int = 64
    blob_bytes: int = 10_240
    log_records: int = 1 << 16
    copies: int = 4_096  #: of a switch's multicast groups and clone sessions together
    clone_sessions: int = 1_024  #: slots of a switch; at most half are used
    payload_bytes: int = 2_048  #: of each packet generator application
    configs: int = 1  #: records of class settings
    one_heap: bool = True
    seed: str = ""  #: of what wires and nodes leave to chance
    sections: Mapping[int, int] = field(default_factory=dict)
    counts: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Memory:
    """A laid out block. `first_port[n]` is node n's first port; `port(n, number)` finds one."""

    world: World
    sizes: Sizes
    nodes: tuple[NodeSpec, ...]
    first_port: tuple[int, ...]
    port_numbers: tuple[tuple[int, ...], ...]

    def port(self, node: int, number: int) -> int:
        """Global number of a node's port. Raises `ConfigError`."""
        try:
            return self.first_port[node] + self.port_numbers[node].index(number)
        except ValueError:
            raise ConfigError(f"node {self.nodes[node].id} has no port {number}") from None

    def name(self, port: int) -> tuple[int, int]:
        """(index of the node, P4 port number) of a global port."""
        node = int(self.world.w[self.world.w[m.PORTS_AT] + port * m.PORT_WORDS + m.P_NODE])
        return node, self.port_numbers[node][port - self.first_port[node]]


def build(nodes: Sequence[NodeSpec], sizes: Sizes) -> Memory:
    """A fabric's memory, switches first, then hosts. Raises `ConfigError` for what cannot be."""
    layout = _Layout(nodes, sizes)
    world = _allocate(layout.words, layout.dense_words)
    layout.fill(world)
    return Memory(world, sizes, tuple(nodes), tuple(layout.first_port), tuple(layout.numbers))


def _allocate(words: int, dense_words: int) -> World:
    """Zeroed words from the system, which gives a page when it is touched first.

    The first ones, of which most are touched, may come in large pages, which processors find sooner.
    """
    memory = mmap.mmap(-1, words * 8, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):  # a kernel without large pages
            memory.madvise(mmap.MADV_HUGEPAGE, 0, dense_words * 8)
    w = np.frombuffer(memory, dtype=np.int64)
    return World(w, w.view(np.int32), w.view(np.uint8), w.ctypes.data)


def _lines(words: int) -> int:
    """Rounded up to whole cache lines."""
    return -(-words // _LINE_WORDS) * _LINE_WORDS


class _Layout:
    """Works out where everything goes, then writes what doesn't start as zero."""

    def __init__(self, nodes: Sequence[NodeSpec], sizes: Sizes) -> None:
        self.nodes = nodes
        self.sizes = sizes
        self.switches = sum(node.config is not None for node in nodes)
        if any(node.config is None for node in nodes[: self.switches]):
            raise ConfigError("a native fabric's switches come before its hosts")
        self.numbers: list[tuple[int, ...]] = []
        self.first_port: list[int] = []
        count = 0
        for node in nodes:
            numbers = tuple(port.number for port in node.ports)
            if node.config is not None and node.config.cpu_port not in numbers:
                numbers += (node.config.cpu_port,)
            self.first_port.append(count)
            self.numbers.append(numbers)
            count += len(numbers)
        self.ports = count
        self.row_data = -(-(abi.FRAME_BYTE + sizes.frame_bytes) // 8) * 8
        self.row_words = _lines(-(-(self.row_data + sizes.data_bytes) // 8))
        self.events = [self._events(i) for i in range(len(nodes))]
        self._place()

    def _events(self, node: int) -> int:
        """At most that many events of a node wait: one each of EV_WIRE, EV_PAUSE, EV_FREE and EV_OUT
        and all EV_PAUSE_END for a port, the pipeline's and the packet generator's."""
        ports = len(self.numbers[node])
        return ports * (4 + m.ALARMS) + 4 + 2 * m.TIMERS + self.nodes[node].events

    def _place(self) -> None:
        sizes, switches, ports = self.sizes, self.switches, self.ports
        dense: dict[int, int] = {
            m.NODES_AT: len(self.nodes) * m.NODE_WORDS,
            m.PORTS_AT: ports * m.PORT_WORDS,
            m.QUEUES_AT: ports * m.CLASSES * m.QUEUE_WORDS,
            m.GROUPS_AT: ports * m.CLASSES * m.GROUP_WORDS,
            m.HEAPS_AT: len(self.nodes) * m.HEAP_WORDS,
            m.FIRSTS_AT: len(self.nodes),
            m.ACTIVE_AT: len(self.nodes) + 1,
            m.AHEAD_AT: m.AHEAD_NODES * m.AHEAD_WORDS,
            m.PIPES_AT: switches * m.PIPE_WORDS,
            m.EVENTS_AT: sum(self.events) * m.EVENT_WORDS,
            m.PROGRAMS_AT: max(1, switches) * m.PROGRAM_WORDS,
            m.CONFIG_AT: sizes.configs * m.CFG_WORDS,
            m.DEAD_AT: ports * self._dead_words,
            m.DROPS_AT: (ports + len(self.nodes)) * m.DROP_REASONS,
            m.TRAILS_AT: switches * m.TRAILS * m.TRAIL_WORDS,
            **sizes.sections,
            m.ROWS_AT: sizes.rows * self.row_words,
        }
        # Of what follows little is ever used, here and there.
        sparse: dict[int, int] = {
            m.LOG_AT: sizes.log_records * m.LOG_WORDS,
            m.FAMILIES_AT: sizes.rows * m.FAMILY_WORDS,
            m.CPU_AT: sizes.rows * m.CPU_WORDS,
            m.BLOBS_AT: sizes.blobs * (_lines(-(-sizes.blob_bytes // 8))),
            m.TIMERS_AT: switches
            * m.TIMERS
            * (m.TIMER_WORDS + _lines(-(-sizes.payload_bytes // 8))),
            m.COPIES_AT: switches * sizes.copies * m.COPY_WORDS,
            m.MCAST_AT: switches * MCAST_GROUPS * m.MCAST_WORDS,
            m.CLONES_AT: switches * sizes.clone_sessions * m.CLONE_WORDS,
        }
        self.at: dict[int, int] = {}
        self.scratch = m.HEADER_WORDS
        self.port_tables = self.scratch + 2 * _lines(-(-sizes.header_bytes // 8))
        place = self.port_tables + _lines(len(self.nodes) * SWITCH_PORTS // 2)
        for section, words in dense.items():
            self.at[section] = place
            place += _lines(words)
        self.dense_words = place
        for section, words in sparse.items():
            self.at[section] = place
            place += _lines(words)
        self.words = place

    @property
    def _dead_words(self) -> int:
        highest = max((node.id for node in self.nodes if node.config is not None), default=0)
        return highest // 64 + 1

    def fill(self, world: World) -> None:
        """Writes header and records."""
        self._header(world)
        for i in range(len(self.nodes)):
            self._node(world, i)
        queues = world.w[self.at[m.QUEUES_AT] :][: self.ports * m.CLASSES * m.QUEUE_WORDS]
        queues.reshape(-1, m.QUEUE_WORDS)[:, [m.Q_HEAD, m.Q_TAIL]] = -1
        self._heaps(world)
        self._timers(world)

    def _header(self, world: World) -> None:
        w, sizes, at = world.w, self.sizes, self.at
        for section, place in at.items():
            w[section] = place
        blob_words = _lines(-(-sizes.blob_bytes // 8))
        header = {
            m.BASE: world.address,
            m.NODES: len(self.nodes),
            m.SWITCHES: self.switches,
            m.PORTS: self.ports,
            m.ROWS: sizes.rows,
            m.ROW_WORDS: self.row_words,
            m.ROW_FREE: -1,
            m.ROW_FRESH: at[m.ROWS_AT],
            m.ROW_END: at[m.ROWS_AT] + sizes.rows * self.row_words,
            m.ROW_DATA: self.row_data,
            m.ROW_ROOM: self.row_words * 8 - self.row_data,
            m.BLOB_BYTES: blob_words * 8,
            m.BLOB_FREE: -1,
            m.BLOB_FRESH: at[m.BLOBS_AT],
            m.BLOB_END: at[m.BLOBS_AT] + sizes.blobs * blob_words,
            m.FAMILY_FREE: 0,
            m.FAMILY_FRESH: 1,
            m.SCRATCH: self.scratch * 8,
            m.OTHER_SCRATCH: (self.scratch + _lines(-(-sizes.header_bytes // 8))) * 8,
            m.LOG_CAPACITY: sizes.log_records,
            m.DEAD_WORDS: self._dead_words,
            m.MCAST_GROUPS: MCAST_GROUPS,
            m.CLONE_SESSIONS: sizes.clone_sessions,
            m.PARSE_BYTES: _UNBOUNDED if sizes.parse_bytes is None else sizes.parse_bytes,
            m.FAILED_NODE: -1,
            m.NO_TIME: NEVER,
        }
        for word, value in (*header.items(), *sizes.counts.items()):
            w[word] = value

    def _seed(self, what: str) -> int:
        digest = hashlib.sha256(f"{self.sizes.seed} {what}".encode()).digest()
        return int.from_bytes(digest[:8], "big", signed=True)

    def _node(self, world: World, index: int) -> None:
        spec, w = self.nodes[index], world.w
        record = self.at[m.NODES_AT] + index * m.NODE_WORDS
        table = (self.port_tables + index * SWITCH_PORTS // 2) * 2
        world.h[table : table + SWITCH_PORTS] = -1
        for list_at in (m.N_PIPE_HEAD, m.N_RESUBMIT_HEAD, m.N_RECIRC_HEAD, m.N_INJECT_HEAD):
            w[record + list_at : record + list_at + 2] = -1
        values = {
            m.N_KIND: spec.config is None,
            m.N_FIRST_PORT: self.first_port[index],
            m.N_HEAP: 0 if self.sizes.one_heap else index,
            m.N_PROGRAM: -1,
            m.N_PIPE_DUE: NEVER,
            m.N_ALIVE: 1,
            m.N_PORT_OF: table,
            m.N_PORTS: len(self.numbers[index]),
            m.N_CPU_PORT: -1,
            m.N_OVERHEAD: spec.overhead_bytes,
            m.N_QUEUES: m.CLASSES,
            m.N_EVENT_PORT: -1,
            m.N_ID: spec.id,
            m.N_RNG: self._seed(f"node {spec.id}"),
            m.N_DROPS: self.at[m.DROPS_AT] + (self.ports + index) * m.DROP_REASONS,
        }
        if spec.config is not None:
            values.update(self._switch(index, spec.config))
        for word, value in values.items():
            w[record + word] = value
        given = {port.number: port for port in spec.ports}
        for local, number in enumerate(self.numbers[index]):
            port = self.first_port[index] + local
            if number < SWITCH_PORTS:
                world.h[table + number] = port
            self._port(world, index, port, given.get(number, PortSpec(number)))

    def _switch(self, index: int, config: SwitchConfig) -> dict[int, int]:
        if config.queues > m.CLASSES:
            raise ConfigError(f"a native switch has at most {m.CLASSES} queues a port")
        sizes, at = self.sizes, self.at
        return {
            m.N_INGRESS_PS: config.ingress_latency_ps,
            m.N_EGRESS_PS: config.egress_latency_ps,
            m.N_DROP_PORT: config.drop_port,
            m.N_EVENT_PORT: config.event_port,
            m.N_DEPTH_UNIT: _DEPTH_UNITS[config.depth_unit],
            m.N_OVERHEAD: config.wire_overhead_bytes,
            m.N_QUEUES: config.queues,
            m.N_CPU_PORT: self.first_port[index] + self.numbers[index].index(config.cpu_port),
            m.N_AGAIN_PS: config.recirculation_latency_ps,
            m.N_MAX_PASSES: config.max_passes,
            m.N_MAX_COPIES: config.max_copies,
            m.N_CELL_BYTES: config.cell_bytes,
            m.N_ETHERTYPE: config.event_ethertype,
            m.N_MCAST: at[m.MCAST_AT] + index * MCAST_GROUPS * m.MCAST_WORDS,
            m.N_CLONES: at[m.CLONES_AT] + index * sizes.clone_sessions * m.CLONE_WORDS,
            m.N_TIMERS: at[m.TIMERS_AT] + index * m.TIMERS * m.TIMER_WORDS,
        }

    def _port(self, world: World, node: int, port: int, spec: PortSpec) -> None:
        w = world.w
        record = self.at[m.PORTS_AT] + port * m.PORT_WORDS
        local = port - self.first_port[node]
        receiver, peer, arrive = node, -1, order_of(node, m.EV_OUT, local)
        if spec.peer is not None:
            receiver, number = spec.peer
            index = self.numbers[receiver].index(number)
            peer = self.first_port[receiver] + index
            arrive = order_of(receiver, m.EV_WIRE, index)
        values = {
            m.P_NODE: node,
            m.P_NUMBER: spec.number,
            m.P_RATE: spec.rate_bps or 0,
            m.P_DELAY: spec.delay_ps,
            m.P_PEER: peer,
            m.P_UP: 1,
            m.P_LIVE: 1,
            m.P_ARRIVE: arrive,
            m.P_RNG: self._seed(f"port {self.nodes[node].id} {spec.number}"),
            m.P_ARRIVE_HEAP: 0 if self.sizes.one_heap else receiver,
            m.P_DROPS: self.at[m.DROPS_AT] + port * m.DROP_REASONS,
            m.P_WIRE_HEAD: -1,
            m.P_WIRE_TAIL: -1,
            m.P_PAUSE_HEAD: -1,
            m.P_PAUSE_TAIL: -1,
        }
        words = [0] * m.PORT_WORDS
        for word, value in values.items():
            words[word] = value
        w[record : record + m.PORT_WORDS] = words

    def _heaps(self, world: World) -> None:
        place = self.at[m.EVENTS_AT]
        rooms = [sum(self.events)] if self.sizes.one_heap else self.events
        world.w[m.HEAPS] = len(rooms)
        world.w[self.at[m.FIRSTS_AT] :][: len(rooms)] = NEVER
        for heap, room in enumerate(rooms):
            record = self.at[m.HEAPS_AT] + heap * m.HEAP_WORDS
            world.w[record + m.HEAP_FIRST] = place
            world.w[record + m.HEAP_ROOM] = room
            place += room * m.EVENT_WORDS

    def _timers(self, world: World) -> None:
        size = _lines(-(-self.sizes.payload_bytes // 8)) * 8
        applications = self.switches * m.TIMERS
        first = (self.at[m.TIMERS_AT] + applications * m.TIMER_WORDS) * 8
        for i in range(applications):
            record = self.at[m.TIMERS_AT] + i * m.TIMER_WORDS
            world.w[record + m.T_PAYLOAD] = first + i * size
            world.w[record + m.T_ROOM] = size
