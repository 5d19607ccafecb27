"""Lays out hosts, queue pairs and flows of a workload, writes them, and reads their counters back.

    plan = HostPlan(hosts, workload, settings, qps_per_pair)
    memory = build(nodes, Sizes(..., sections=plan.sections, counts=plan.counts))
    plan.write(memory, first_node)

with `NodeSpec(..., events=plan.events(i), overhead_bytes=WIRE_OVERHEAD_BYTES)` for host i, and rows
that store at least `LEAST_DATA_BYTES`. Queue pair numbers, first PSNs and UDP source ports are those
that `sglb.fabric.traffic` would give the same hosts, as long as flows that wait for nothing
start before the others and in order of (start time, id): pairs are connected in that order.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from sglb.fabric import roce
from sglb.fabric.host import FIRST_PORT, PORT_BITS
from sglb.fabric.kernel import layout as k
from sglb.fabric.kernel import templates
from sglb.fabric.kernel.gates import native_gates
from sglb.fabric.kernel.host_settings import HostSettings
from sglb.fabric.kernel.send import GO_BACK_N_SPAN
from sglb.fabric.roce import SPAN_PACKETS, Framer, Path
from sglb.fabric.topology import HostAddress
from sglb.fabric.workload import Flow, Workload
from sglb.switch.core import model as m
from sglb.switch.core.memory import Memory

#: What a row of a fabric with hosts must be able to store beside its frame: whole words of headers.
LEAST_DATA_BYTES: Final = 80
_UNSET: Final = (  #: words of a sender that begin as -1
    k.S_TIMER,
    k.S_EVENT,
    k.S_LATER,
    k.S_TIMED,
    k.S_NEWEST_ACKED,
    k.S_FIRST_PART,
    k.S_LAST_PART,
    k.S_SEND_PART,
    k.S_ACK_PART,
    k.D_ALPHA_AT,
    k.D_TIMER_LIVE,
    k.D_WAKE_AT,
)
_LEAST_RING: Final = 32
_DSCP_PER_CLASS: Final = 8
_PSN_BITS: Final = 24
# EV_QP with those that came too early or too late, EV_ACK; EV_RATE with such, EV_DCQCN.
_EVENTS_A_SENDER: Final = 4
_EVENTS_A_RATE: Final = 6
_EVENTS_A_HOST: Final = 16


@dataclass(frozen=True, slots=True)
class HostSpec:
    """A host: `id` in the topology, its addresses, its switch's MAC, and what it draws from."""

    id: int
    name: str
    address: HostAddress
    gateway_mac: bytes
    rng: random.Random


@dataclass(slots=True)
class _Pair:
    """One queue pair, by the places of its hosts; indices count the ends of each host."""

    src: int
    dst: int
    src_index: int
    dst_index: int
    psn: int
    src_port: int
    dst_port: int
    packets: int = 0
    ring: int = 0
    slots: int = 0


@dataclass(frozen=True, slots=True)
class _Part:
    pair: int
    size_bytes: int


class HostPlan:
    """How much memory hosts need, and what goes there.

    `lookahead_ps` is the least delay of a link. Raises `WorkloadError` as `gates` does.
    """

    def __init__(
        self,
        hosts: Sequence[HostSpec],
        workload: Workload,
        settings: HostSettings,
        qps_per_pair: int = 1,
        lookahead_ps: int = 1,
    ) -> None:
        self.hosts = tuple(hosts)
        self.settings = settings
        self._place = {host.id: i for i, host in enumerate(hosts)}
        self._flows = workload.flows
        self._pairs: list[_Pair] = []
        self._ends = [0] * len(hosts)
        self._parts: list[list[_Part]] = [[] for _ in workload.flows]
        self._gates = native_gates(workload, lookahead_ps)
        self._connect(qps_per_pair)
        self._order = sorted(
            range(len(self._flows)),
            key=lambda n: (self._place[self._flows[n].src], self._flows[n].start_ps, n),
        )
        self._delayed = [0] * len(hosts)
        for flow in workload.flows:
            self._delayed[self._place[flow.src]] += flow.delay_ps > 0
        self._ring_words = self._plan_rings()

    # --- how much ---

    def _connect(self, qps: int) -> None:
        found: dict[tuple[int, int], int] = {}
        for flow in sorted(self._flows, key=lambda f: (bool(f.after), f.start_ps, f.id)):
            key = (flow.src, flow.dst)
            if key not in found:
                found[key] = len(self._pairs)
                for _ in range(qps):
                    self._pairs.append(self._pair(flow))
            sizes = roce.split_over_qps(flow.size_bytes, qps, self.settings.mtu_bytes)
            for n, size in enumerate(sizes):
                self._parts[flow.id].append(_Part(found[key] + n, size))
                packets = roce.packet_count(size, self.settings.mtu_bytes)
                self._pairs[found[key] + n].packets += packets

    def _pair(self, flow: Flow) -> _Pair:
        """Draws what `sglb.fabric.host.connect` draws, in its order."""
        src, dst = self._place[flow.src], self._place[flow.dst]
        psn = self.hosts[src].rng.getrandbits(_PSN_BITS)
        ports = [FIRST_PORT + self.hosts[at].rng.getrandbits(PORT_BITS) for at in (src, dst)]
        pair = _Pair(src, dst, self._ends[src], self._ends[dst], psn, *ports)
        self._ends[src] += 1
        self._ends[dst] += 1
        return pair

    def _plan_rings(self) -> int:
        """Words of everything in RINGS."""
        words = sum(len(parts) for parts in self._parts) * k.PART_WORDS
        for gate in self._gates:
            words += k.GATE_WORDS + len(gate.received) + len(gate.sent) + len(gate.behind)
        for pair in self._pairs:
            if not self.settings.go_back_n:
                pair.ring = max(_LEAST_RING, _power_of_two(min(SPAN_PACKETS, pair.packets)))
                pair.slots = min(self.settings.window_packets or SPAN_PACKETS, pair.ring)
            words += _sender_words(pair) + _receiver_words(pair)
        return words

    @property
    def sections(self) -> dict[int, int]:
        """Words of the sections that are the hosts'."""
        ends = 2 * len(self._pairs)
        return {
            m.HOSTS_AT: len(self.hosts) * k.HOST_WORDS,
            m.QPS_AT: ends * k.QP_WORDS,
            m.FLOWS_AT: len(self._flows) * k.FLOW_WORDS,
            m.RINGS_AT: self._ring_words,
            m.TEMPLATES_AT: ends * k.TEMPLATE_WORDS,
        }

    @property
    def counts(self) -> dict[int, int]:
        """Header words: what there is how often."""
        return {
            m.HOSTS: len(self.hosts),
            m.QPS: 2 * len(self._pairs),
            m.FLOWS: len(self._flows),
            m.FLOWS_OPEN: len(self._flows),
        }

    def events(self, host: int) -> int:
        """How many events of a host (by its place) may wait."""
        each = _EVENTS_A_SENDER + (_EVENTS_A_RATE if self.settings.controls_rate else 0)
        return _EVENTS_A_HOST + each * self._ends[host] + self._delayed[host]

    # --- what ---

    def write(self, memory: Memory, first_node: int) -> None:
        """Fills the sections; host i is node `first_node` + i."""
        _Writer(self, memory, first_node).write()

    def first_ends(self, world_w: npt.NDArray[np.int64]) -> list[int]:
        """Word offset of each host's first end."""
        places, at = [], int(world_w[m.QPS_AT])
        for count in self._ends:
            places.append(at)
            at += count * k.QP_WORDS
        return places


def _power_of_two(least: int) -> int:
    return 1 << (least - 1).bit_length()


def _sender_words(pair: _Pair) -> int:
    return (pair.ring + pair.ring // 16) // 2 + pair.slots * k.SLOT_WORDS


def _receiver_words(pair: _Pair) -> int:
    return pair.ring // 32


class _Writer:
    """Writes one plan."""

    def __init__(self, plan: HostPlan, memory: Memory, first_node: int) -> None:
        self._plan = plan
        self._memory = memory
        self._first_node = first_node
        self._w = memory.world.w
        self._h = memory.world.h
        self._rings = int(self._w[m.RINGS_AT])
        self._first_end = plan.first_ends(self._w)
        self._senders: list[int] = []

    def write(self) -> None:
        for place in range(len(self._plan.hosts)):
            self._host(place)
        for number, pair in enumerate(self._plan._pairs):
            self._pair(number, pair)
        self._flows()

    def _put(self, record: int, values: dict[int, int]) -> None:
        for word, value in values.items():
            self._w[record + word] = value

    def _take(self, words: int) -> int:
        at = self._rings
        self._rings += words
        return at

    def _host_at(self, place: int) -> int:
        return int(self._w[m.HOSTS_AT]) + place * k.HOST_WORDS

    def _host(self, place: int) -> None:
        plan, settings = self._plan, self._plan.settings
        node = self._first_node + place
        self._w[self._w[m.NODES_AT] + node * m.NODE_WORDS + m.N_HOST] = place
        record = self._host_at(place)
        address = plan.hosts[place].address
        ip = address.ipv4.packed if settings.ip_version == 4 else address.ipv6.packed
        window = GO_BACK_N_SPAN if settings.go_back_n else SPAN_PACKETS
        self._put(
            record,
            {
                k.H_NODE: node,
                k.H_PORT: self._memory.first_port[node],
                k.H_FIRST_QP: self._first_end[place],
                k.H_QPS: plan._ends[place],
                k.H_SENDING: -1,
                k.H_ACK_HEAD: -1,
                k.H_ACK_TAIL: -1,
                k.H_CNP_HEAD: -1,
                k.H_CNP_TAIL: -1,
                k.H_IPV6: settings.ip_version == 6,
                k.H_MTU: settings.mtu_bytes,
                k.H_WINDOW: settings.window_packets or window,
                k.H_ACK_EVERY: settings.ack_every,
                k.H_RTO: settings.rto_ps,
                k.H_RTO_MAX: settings.rto_max_ps,
                k.H_REORDER: settings.reorder_ps,
                k.H_GO_BACK_N: settings.go_back_n,
                k.H_NACK: settings.nack,
                k.H_ACK_TIMER: settings.ack_timer_ps,
                k.H_ACK_CLASS: settings.traffic_class,
                k.H_CNP_CLASS: settings.cnp_class,
                k.H_CNP_TOS: settings.cnp_class * _DSCP_PER_CLASS << 2,
                k.H_MAC: int.from_bytes(address.mac, "little"),
                **{k.H_IP + i: word for i, word in enumerate(_words(ip))},
                **_dcqcn(settings),
            },
        )

    def _pair(self, number: int, pair: _Pair) -> None:
        src, dst = self._plan.hosts[pair.src], self._plan.hosts[pair.dst]
        sender = self._first_end[pair.src] + pair.src_index * k.QP_WORDS
        receiver = self._first_end[pair.dst] + pair.dst_index * k.QP_WORDS
        self._senders.append(sender)
        version = self._plan.settings.ip_version
        there = Path(src.address, dst.address, src.gateway_mac, pair.src_port, version)
        back = Path(dst.address, src.address, dst.gateway_mac, pair.dst_port, version)
        mtu = self._plan.settings.mtu_bytes
        data = Framer(there, k.FIRST_QPN + pair.dst_index).data(0, 0, bytes(mtu), False)
        ack = Framer(back, k.FIRST_QPN + pair.src_index).ack(0, 0)
        self._end(pair, sender, receiver, pair.src, pair.src_index)
        self._end(pair, receiver, sender, pair.dst, pair.dst_index)
        self._template(2 * number, sender, data, ack)
        self._template(2 * number + 1, receiver, ack, data)
        self._sender(pair, sender)
        for word in (k.R_HIGHEST, k.R_LAST_PART, k.R_LAST_CNP, k.R_ACK_AT, k.R_ACK_LIVE):
            self._w[receiver + word] = -1
        self._w[receiver + k.E_RING_H] = self._take(_receiver_words(pair)) * 2

    def _end(self, pair: _Pair, end: int, peer: int, place: int, index: int) -> None:
        self._put(
            end,
            {
                k.E_INDEX: index,
                k.E_PEER: peer,
                k.E_CLASS: self._plan.settings.traffic_class,
                k.E_FIRST_PSN: pair.psn,
                k.E_MASK: pair.ring - 1,
                k.E_HOST: self._host_at(place),
            },
        )

    def _sender(self, pair: _Pair, end: int) -> None:
        ring = self._take(_sender_words(pair))
        slots = ring + (pair.ring + pair.ring // 16) // 2
        self._put(end, dict.fromkeys(_UNSET, -1))
        self._put(
            end,
            {
                k.E_SENDS: 1,
                k.E_RING_H: ring * 2,
                k.S_SLOTS: slots,
                k.S_OLDEST: k.NO_SLOT,
                k.S_NEWEST: k.NO_SLOT,
                k.S_LOST: k.NO_LOST,
                k.S_LOST_TAIL: k.NO_LOST,
            },
        )
        for slot in range(pair.slots):
            self._w[slots + slot * k.SLOT_WORDS + 1] = slot + 1

    def _template(self, number: int, end: int, frame: bytes, from_peer: bytes) -> None:
        """Header bytes of an end from one of its frames, and what its peer's frames have."""
        settings = self._plan.settings
        tos = settings.traffic_class * _DSCP_PER_CLASS << 2 | roce.ECT0
        record = int(self._w[m.TEMPLATES_AT]) + number * k.TEMPLATE_WORDS
        self._w[end + k.E_TEMPLATE] = record
        if settings.ip_version == 4:
            bare = frame[14:15] + b"\0\0\0" + frame[18:24] + b"\0\0" + frame[26:34]
            halves = [int.from_bytes(bare[i : i + 2], "big") for i in range(0, 20, 2)]
            whole = bare[:1] + bytes((tos,)) + frame[16:18] + bare[4:]
            check = roce.ipv4_checksum(whole).to_bytes(2, "big")
            header = frame[:14] + whole[:10] + check + frame[26 : templates.HEADER_4]
            peer, ports = from_peer[26:34], from_peer[34:38]
            self._w[record + k.T_SUM] = sum(halves)
        else:
            label = (6 << 28 | tos << 20).to_bytes(4, "big")
            header = frame[:14] + label + frame[18 : templates.HEADER_6]
            peer, ports = from_peer[22:54], from_peer[54:58]
        words = dict(enumerate(_words(header)))
        words |= {k.T_PEER + i: word for i, word in enumerate(_words(peer))}
        words |= {k.T_PORTS: int.from_bytes(ports, "little"), k.T_TOS: tos}
        self._put(record, words)

    def _flows(self) -> None:
        plan = self._plan
        first = int(self._w[m.FLOWS_AT])
        record = {n: first + i * k.FLOW_WORDS for i, n in enumerate(plan._order)}
        opens, sent = self._gates(record)
        for number in plan._order:
            flow = plan._flows[number]
            host = self._host_at(plan._place[flow.src])
            index = int(self._w[host + k.H_FLOWS])
            if not index:
                self._w[host + k.H_FIRST_FLOW] = record[number]
            self._w[host + k.H_FLOWS] = index + 1
            parts = plan._parts[number]
            self._put(
                record[number],
                {
                    k.FL_ID: number,
                    k.FL_HOST: host,
                    k.FL_START: flow.start_ps,
                    k.FL_WAITS: 1 + bool(flow.after),
                    k.FL_PARTS: len(parts),
                    k.FL_LEFT: len(parts),
                    k.FL_UNACKED: len(parts),
                    k.FL_FIRST_PART: self._part_records(record[number], parts),
                    k.FL_OPENS: self._list(opens[number]),
                    k.FL_OPENS_COUNT: len(opens[number]),
                    k.FL_SENT: self._list(sent[number]),
                    k.FL_SENT_COUNT: len(sent[number]),
                    k.FL_DELAY: flow.delay_ps,
                    k.FL_INDEX: index,
                },
            )

    def _gates(self, record: dict[int, int]) -> tuple[list[list[int]], list[list[int]]]:
        """Writes the gates; those that each flow's completion opens, at receiver and at sender."""
        opens: list[list[int]] = [[] for _ in record]
        sent: list[list[int]] = [[] for _ in record]
        for gate in self._plan._gates:
            at = self._take(k.GATE_WORDS)
            self._put(
                at,
                {
                    k.GT_LEFT: len(gate.received) + len(gate.sent),
                    k.GT_FLOWS: self._list([record[n] for n in gate.behind]),
                    k.GT_COUNT: len(gate.behind),
                },
            )
            for number in gate.received:
                opens[number].append(at)
            for number in gate.sent:
                sent[number].append(at)
        return opens, sent

    def _part_records(self, flow: int, parts: Sequence[_Part]) -> int:
        first = self._take(len(parts) * k.PART_WORDS)
        for i, part in enumerate(parts):
            self._put(
                first + i * k.PART_WORDS,
                {
                    k.PT_FLOW: flow,
                    k.PT_BYTES: part.size_bytes,
                    k.PT_PACKETS: roce.packet_count(part.size_bytes, self._plan.settings.mtu_bytes),
                    k.PT_NEXT: -1,
                    k.PT_QP: self._senders[part.pair],
                },
            )
        return first

    def _list(self, offsets: Sequence[int]) -> int:
        at = self._take(len(offsets))
        self._w[at : at + len(offsets)] = offsets
        return at


def _words(data: bytes) -> list[int]:
    """Bytes as they lie in memory, as int64 words; the last one filled up with zeros."""
    padded = data + bytes(-len(data) % 8)
    return [
        int.from_bytes(padded[i : i + 8], "little", signed=True) for i in range(0, len(padded), 8)
    ]


def _dcqcn(settings: HostSettings) -> dict[int, int]:
    config = settings.dcqcn
    if config is None or not config.enabled:
        return {}
    return {
        k.H_DCQCN: 1,
        k.HD_TIMER: config.timer_ps,
        k.HD_BYTES: config.byte_counter_bytes,
        k.HD_THRESHOLD: config.threshold,
        k.HD_AI: config.rate_ai_bps,
        k.HD_HAI: config.rate_hai_bps,
        k.HD_MIN_RATE: config.min_rate_bps,
        k.HD_G: config.g,
        k.HD_ALPHA_TIMER: config.alpha_timer_ps,
        k.HD_INITIAL_ALPHA: config.initial_alpha,
        k.HD_ALPHA_AT_CNP: config.alpha_at_cnp,
        k.HD_SHIFT: config.alpha_shift,
        k.HD_MIN_PERCENT: config.min_decrease_percent,
        k.HD_INTERVAL: config.decrease_interval_ps,
        k.HD_FIRST_RATE: config.first_cnp_rate_bps,
        k.HD_CLAMP: config.clamp_target_rate,
        k.HD_CNP_INTERVAL: config.cnp_interval_ps,
    }
