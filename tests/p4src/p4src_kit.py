"""A bench for the data plane program: one switch in virtual time, tables written through P4Runtime.

The switch is node 9 (incarnation 5). Fabric ports 1 to 4 lie in lanes 0 to 3 of bank 0, their
neighbours are nodes 101 to 104 (incarnation 3); ports 11 and 12 lead to hosts. Destination switch 20
(10.0.20.0/24, fd00:20::/64) is reached by all four fabric ports. Nothing takes time unless a test asks
for it: no latency, ports without a rate.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from socket import AF_INET6, inet_aton, inet_pton
from typing import Any, NamedTuple

from finsy import Action, Match, P4CloneSessionEntry, P4MulticastGroupEntry, P4TableEntry
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether
from scapy.packet import Packet, Raw

from sglb.p4.compiler import CompiledProgram
from sglb.p4.compiler import compile as compile_p4
from sglb.p4.random_stream import RandomStream
from sglb.switch.clock import VirtualClock
from sglb.switch.config import SwitchConfig
from sglb.switch.counters import CounterArray
from sglb.switch.p4runtime.client import InProcessClient
from sglb.switch.p4runtime.service import P4RuntimeService
from sglb.switch.pktgen import TimerApp
from sglb.switch.registers import RegisterArray
from sglb.switch.switch import Switch

PROGRAM = Path(__file__).parents[2] / "p4src" / "v1model" / "glb.p4"
PS_PER_US = 1_000_000

NODE, INCARNATION, SEED = 9, 5, 0x1234
FABRIC_PORTS = (1, 2, 3, 4)
HOST, HOST2 = 11, 12
CPU, EVENTS = 510, 509
DST = 20
GROUP = 7
PROFILE = 2
NEIGHBOUR_INCARNATION = 3

NEVER_US = (1 << 32) - 1

HASH, SPRAY, BEST = 0, 1, 2
NOTE, BEAT, SET = 8, 9, 10
#: The modes of `set_mode`: selection, flowlets, idle_us, local_liveness, remote_state.
ECMP = (HASH, 0, 0, 0, 0)
SPRAYING = (SPRAY, 0, 0, 0, 0)
DLB = (BEST, 0, 0, 1, 0)
GLB = (BEST, 0, 0, 1, 1)

ROUTER_MAC = "02:00:00:00:00:09"
HOST_MAC = "02:00:00:00:0b:0b"
GROUP_MAC = "01:80:c2:00:00:0e"


def peer_mac(port: int) -> str:
    return f"02:00:00:00:00:{100 + port:02x}"


def neighbour(port: int) -> int:
    return 100 + port


def lane_bit(lane: int) -> int:
    return 0x80 << 8 * lane


def lanes(*ports: int) -> int:
    """The set of these fabric ports' lanes."""
    return sum(lane_bit(port - 1) for port in ports)


def vector(*values: int) -> int:
    """Lane 0 first."""
    return sum(value << 8 * i for i, value in enumerate(values))


@cache
def program() -> CompiledProgram:
    return compile_p4(PROGRAM)


# --- table entries --------------------------------------------------------------------------------


def default(table: str, action: str, **params: int) -> P4TableEntry:
    return P4TableEntry(table, action=Action(action, **params), is_default_action=True)


def entry(table: str, action: str, match: dict[str, Any], **params: int) -> P4TableEntry:
    return P4TableEntry(table, match=Match(**match), action=Action(action, **params))


def identity() -> list[P4TableEntry]:
    return [
        default(
            "switch_info",
            "FabricIngress.ports.set_switch",
            node_id=NODE,
            incarnation=INCARNATION,
            hash_seed=SEED,
        ),
        default("sender", "FabricEgress.set_switch", node_id=NODE, incarnation=INCARNATION),
    ]


def fabric(
    port: int, *, subject: int = 0, node: int = 0, incarnation: int = NEIGHBOUR_INCARNATION
) -> P4TableEntry:
    """A fabric port and who is behind it."""
    return entry(
        "ports",
        "set_fabric",
        {"port": port},
        neighbour=node or neighbour(port),
        incarnation=incarnation,
        bank=0,
        lane_shift=8 * (port - 1),
        subject=subject,
    )


def lane_entries() -> list[P4TableEntry]:
    return [
        entry(
            "lanes",
            "to_port",
            {"bank": 0, "lane": lanes(port)},
            port=port,
            src_mac=int(ROUTER_MAC.replace(":", ""), 16),
            dst_mac=int(peer_mac(port).replace(":", ""), 16),
        )
        for port in FABRIC_PORTS
    ]


def group(
    members: Sequence[int] = FABRIC_PORTS, *, dst: int = DST, index: int = GROUP, profile: int = 0
) -> P4TableEntry:
    return entry(
        "destinations",
        "set_group",
        {"dst": dst},
        index=index,
        of_bank=0,
        members=lanes(*members),
        with_profile=profile,
    )


def mode(of: Sequence[int], index: int = GROUP) -> P4TableEntry:
    names = ("selection", "flowlets", "idle_us", "local_liveness", "remote_state")
    return entry("modes", "set_mode", {"group": index}, **dict(zip(names, of, strict=True)))


def slots(ports: Sequence[int], index: int = GROUP, choices: int = 3) -> list[P4TableEntry]:
    """Slot i belongs to `ports[i % n]`, then to the next ones."""
    found = []
    for slot in range(64):
        names = [ports[(slot + k) % len(ports)] for k in range(choices)]
        one, two, three = ([lanes(p) for p in names] + [0, 0])[:3]
        found.append(
            entry(
                "slots", "set_slot", {"group": index, "slot": slot}, one=one, two=two, three=three
            )
        )
    return found


def routes() -> list[P4TableEntry]:
    mac = int(HOST_MAC.replace(":", ""), 16)
    return [
        entry("routing_v4", "to_host", {"prefix": "10.0.9.11/32"}, port=HOST, mac=mac),
        entry("routing_v6", "to_host", {"prefix": "fd00:9::11/128"}, port=HOST, mac=mac),
        entry("routing_v4", "to_switch", {"prefix": "10.0.20.0/24"}, dst=DST),
        entry("routing_v6", "to_switch", {"prefix": "fd00:20::/64"}, dst=DST),
    ]


def quality(
    port: int,
    edges: Sequence[int],
    *,
    subject: int = 0,
    load_shift: int = 0,
    queue_shift: int = 0,
    beat_timeout_us: int = 100,
    scan: tuple[int, int] = (0, 0),
) -> P4TableEntry:
    return entry(
        "port_quality",
        "set_port",
        {"port": port},
        of_subject=subject,
        of_bank=0,
        with_lane_shift=8 * (port - 1),
        with_load_shift=load_shift,
        with_queue_shift=queue_shift,
        with_beat_timeout_us=beat_timeout_us,
        with_scan_first=scan[0],
        with_scan_count=scan[1],
        **{f"v{i}": edge for i, edge in enumerate(edges, start=1)},
    )


def subject(
    index: int,
    ports: Sequence[int],
    *,
    names: int,
    profile: int = 0,
    spacing_us: int = 0,
    refresh_us: int = NEVER_US,
    copies: int = 0,
    capacity_mbps: int = 0,
) -> list[P4TableEntry]:
    return [
        entry(
            "subjects",
            "set_subject",
            {"subject": index},
            of_bank=0,
            of_members=lanes(*ports),
            with_profile=profile,
            with_spacing_us=spacing_us,
            with_refresh_us=refresh_us,
            with_copies=copies,
        ),
        entry(
            "announcements",
            "set_destination",
            {"subject": index},
            of_dst=names,
            with_capacity_mbps=capacity_mbps,
        ),
    ]


def heard(
    names: int, ports: Sequence[int], *, profile: int = PROFILE, alone: int = 1, relay: int = 0
) -> P4TableEntry:
    return entry(
        "profiles",
        "set_profile",
        {"subject": names},
        index=profile,
        lanes=lanes(*ports),
        alone=alone,
        relay=relay,
    )


def notify(ports: Iterable[int]) -> list[Any]:
    return [
        P4MulticastGroupEntry(2, replicas=list(ports)),
        P4CloneSessionEntry(3, class_of_service=7, replicas=list(ports)),
        P4CloneSessionEntry(4, class_of_service=7, replicas=[*ports, CPU]),
    ]


def timer_group(ports: Sequence[int] = FABRIC_PORTS) -> P4MulticastGroupEntry:
    return P4MulticastGroupEntry(1, replicas=list(ports))


def watermark(port: int, klass: int, kmin: int, kmax: int, slope: int) -> P4TableEntry:
    return entry(
        "watermarks",
        "set_watermark",
        {"port": port, "class": klass},
        kmin=kmin,
        kmax=kmax,
        slope=slope,
    )


# --- frames ---------------------------------------------------------------------------------------


def ip4(dst: str = "10.0.20.5", sport: int = 1000, dport: int = 4791, **fields: Any) -> Packet:
    fields = {"src": "10.0.9.11", "ttl": 64, **fields}
    return (
        Ether(src=HOST_MAC, dst=ROUTER_MAC)
        / IP(dst=dst, **fields)
        / UDP(sport=sport, dport=dport, chksum=0)
        / Raw(bytes(32))
    )


def ip6(dst: str = "fd00:20::5", sport: int = 1000, dport: int = 4791, **fields: Any) -> Packet:
    fields = {"src": "fd00:9::11", "hlim": 64, **fields}
    return (
        Ether(src=HOST_MAC, dst=ROUTER_MAC)
        / IPv6(dst=dst, **fields)
        / UDP(sport=sport, dport=dport, chksum=1)
        / Raw(bytes(32))
    )


def sync(
    kind: int,
    body: bytes = b"",
    *,
    origin: int,
    seq: int,
    incarnation: int = NEIGHBOUR_INCARNATION,
    flags: int = 0,
    version: int = 1,
) -> bytes:
    """A SyncMesh frame, byte by byte."""
    return (
        bytes.fromhex("0180c200000e")
        + bytes(6)
        + b"\x88\xb5"
        + bytes((version << 4 | kind, flags))
        + incarnation.to_bytes(2, "big")
        + origin.to_bytes(4, "big")
        + seq.to_bytes(4, "big")
        + body
    )


def note_body(names: int, code: int, capacity_mbps: int = 0) -> bytes:
    return names.to_bytes(2, "big") + bytes((code, 0)) + capacity_mbps.to_bytes(4, "big")


def set_body(what: int, code: int, port: int, *, profile: int = 0, subject: int = 0) -> bytes:
    return (
        bytes((what, code))
        + profile.to_bytes(2, "big")
        + port.to_bytes(2, "big")
        + subject.to_bytes(2, "big")
    )


# --- what the program should do, worked out apart from it -----------------------------------------


def flow_hash(packet: Packet, *, ports: bool = True, seed: int = SEED) -> int:
    """The mixed hash of a flow: CRC-32 (as in Ethernet's FCS) times 0x9E3779B1.

    Over seed, addresses, protocol and the two ports, which count as 0 where the program reads none.
    """
    if IP in packet:
        ip = packet[IP]
        key = inet_aton(ip.src) + inet_aton(ip.dst) + bytes((ip.proto,))
    else:
        ip = packet[IPv6]
        key = inet_pton(AF_INET6, ip.src) + inet_pton(AF_INET6, ip.dst) + bytes((ip.nh,))
    l4 = bytes(ip.payload)[:4] if ports else bytes(4)
    return zlib.crc32(seed.to_bytes(4, "big") + key + l4) * 0x9E3779B1 & 0xFFFFFFFF


def hashed_slot(packet: Packet, *, ports: bool = True) -> int:
    """The slot of a flow: the top 6 of the 32 bits."""
    return flow_hash(packet, ports=ports) >> 26


def routed(packet: Packet, src: str, dst: str) -> bytes:
    """The packet one hop on: MAC addresses, TTL, checksum (by scapy)."""
    copy = packet.copy()
    copy[Ether].src, copy[Ether].dst = src, dst
    if IP in copy:
        copy[IP].ttl -= 1
        del copy[IP].chksum
    else:
        copy[IPv6].hlim -= 1
    return bytes(copy)


# --- the bench ------------------------------------------------------------------------------------


class Sent(NamedTuple):
    """A frame that left a port; `end_us` when its last bit did."""

    port: int
    data: bytes
    end_us: float


class PacketIn(NamedTuple):
    """What the controller got."""

    port: int
    reason: int
    payload: bytes


class Bench:
    """See the module's text. `settings` are those of `SwitchConfig`; `filled` False: no entries."""

    def __init__(
        self, *, rng: RandomStream | None = None, filled: bool = True, **settings: Any
    ) -> None:
        self.clock = VirtualClock()
        config = {
            "ingress_latency_ps": 0,
            "egress_latency_ps": 0,
            "port_events": True,
            "port_down_detection_ps": 0,
            "port_up_detection_ps": 0,
            **settings,
        }
        self.switch = Switch(
            program(), SwitchConfig(**config), self.clock, rng=rng or RandomStream(1)
        )
        for port in (*FABRIC_PORTS, HOST, HOST2):
            self.switch.add_port(port, None)
        self.client = InProcessClient(P4RuntimeService(self.switch, self.clock))
        self.sent: list[Sent] = []
        self.packet_ins: list[PacketIn] = []
        self.switch.on_transmit = self._transmitted
        self.client.on_packet_in(
            lambda p: self.packet_ins.append(PacketIn(p["ingress_port"], p["reason"], p.payload))
        )
        if filled:
            self._fill()

    def _fill(self) -> None:
        self.modify(*identity())
        self.insert(
            [fabric(p) for p in FABRIC_PORTS],
            lane_entries(),
            routes(),
            group(profile=PROFILE),
            slots(FABRIC_PORTS),
        )

    def _transmitted(self, port: int, data: bytes, _start_ps: int, end_ps: int) -> None:
        self.sent.append(Sent(port, data, end_ps / PS_PER_US))

    def insert(self, *entities: Any) -> None:
        """Inserts entities and lists of them."""
        for item in entities:
            self.client.insert(item if isinstance(item, list) else [item])

    def modify(self, *entities: Any) -> None:
        self.client.modify(list(entities))

    def run(self, until_us: float | None = None) -> list[Sent]:
        """Lets time pass, to this moment or till nothing is left to do; what left meanwhile."""
        first = len(self.sent)
        self.clock.run(None if until_us is None else round(until_us * PS_PER_US))
        return self.sent[first:]

    def put(self, frame: Packet | bytes, port: int = HOST) -> list[Sent]:
        """A frame comes in; what left by the time nothing was left to do."""
        first = len(self.sent)
        self.switch.receive(port, bytes(frame))
        self.clock.run(self.clock.now_ps)
        return self.sent[first:]

    def out_port(self, frame: Packet | bytes, port: int = HOST) -> int:
        """The one port that a frame leaves by; 0 when it is dropped."""
        out = self.put(frame, port)
        assert len(out) <= 1
        return out[0].port if out else 0

    def set(self, what: int, code: int, port: int, **more: int) -> list[Sent]:
        """The agent's order, through the pipeline."""
        first = len(self.sent)
        frame = sync(SET, set_body(what, code, port, **more), origin=NODE, seq=0, incarnation=0)
        self.client.packet_out(frame, egress_port=0, to_pipeline=1, pad=0)
        self.clock.run(self.clock.now_ps)
        return self.sent[first:]

    def tick(self, app: int = 1) -> list[Sent]:
        """A timer packet: 1 quality, 2 heartbeat."""
        first = len(self.sent)
        self.switch.start_generator(TimerApp(app, 1, bytes(40), batches=1))
        self.clock.run(self.clock.now_ps)
        return self.sent[first:]

    def at(self, time_us: float) -> None:
        """Time passes up to this moment; nothing else is due then."""
        self.clock.run(round(time_us * PS_PER_US))

    def register(self, name: str) -> list[int]:
        """The live cells."""
        found = self.switch.state.by_name(name)
        assert isinstance(found, RegisterArray)
        return found.values

    def count(self, name: str, index: int) -> int:
        """Packets of an indirect counter's cell."""
        found = self.switch.state.by_name(name)
        assert isinstance(found, CounterArray)
        return found.cell(index).packets

    def notes(self, sent: Iterable[Sent]) -> list[tuple[int, int, int]]:
        """(port, subject, code) of the NOTEs among frames."""
        return [
            (s.port, int.from_bytes(s.data[26:28], "big"), s.data[28])
            for s in sent
            if s.data[12:15] == b"\x88\xb5\x18"
        ]
