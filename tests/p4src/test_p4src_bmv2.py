"""The same program, tables and packets on BMv2 and here, byte for byte.

Skips where p4c and BMv2 are not installed. Packets come one at a time with time between them, so that
loads have decayed and queues are empty; where the program draws a lot, both outcomes are the same.
Only the sequence numbers of frames that one packet makes may be dealt out in another order: BMv2's
ports leave in threads of their own.
"""

import subprocess

import pytest
from bmv2_kit import cli_lines, missing, running
from finsy.proto import p4i
from google.protobuf import text_format
from p4src_kit import (
    BEAT,
    CPU,
    FABRIC_PORTS,
    GLB,
    HOST,
    HOST_MAC,
    NODE,
    NOTE,
    PROFILE,
    PROGRAM,
    ROUTER_MAC,
    SET,
    SPRAYING,
    Bench,
    entry,
    fabric,
    group,
    heard,
    identity,
    ip4,
    ip6,
    lane_entries,
    mode,
    neighbour,
    note_body,
    notify,
    program,
    quality,
    routes,
    set_body,
    slots,
    subject,
    sync,
    timer_group,
    watermark,
)
from scapy.layers.inet import ICMP, IP, TCP, IPOption_Timestamp
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import ARP, Dot1Q, Ether
from scapy.packet import Raw

from sglb.switch.pktgen import KIND_PORT, KIND_TIMER, event_frame

needs_bmv2 = pytest.mark.skipif(bool(missing()), reason=f"not installed: {missing()}")
ETHER = Ether(src=HOST_MAC, dst=ROUTER_MAC)
NEVER_US = 60_000_000  # a heartbeat is never missed
THROUGH, TO_3 = b"\0\x40", b"\x01\x80"  # packet_out headers: pipeline; port 3
GAP_US = 100_000


def entries():
    """Switch 20 by ecmp, 21 by spraying, 22 by glb. A packet takes port 2 to its worst band.

    Timer packets leave by port 2 only: on BMv2 those of several ports run at once, and what they
    announce meanwhile depends on who is first.
    """
    yield from common()
    yield timer_group([2])
    for port in FABRIC_PORTS:
        own, edges = (1, (1,) * 7) if port == 2 else (0, (1 << 30,) * 7)
        yield quality(port, edges, subject=own, beat_timeout_us=NEVER_US, scan=(1, 2))
    yield from subject(1, [2], names=30, copies=2, capacity_mbps=100_000)
    yield from subject(2, [1, 2], names=0x8001, profile=PROFILE, copies=1)


def entries_of_heartbeats():
    """Nothing to announce; every port sends heartbeats, port 4 misses them at once."""
    yield from common()
    yield timer_group()
    for port in FABRIC_PORTS:
        yield quality(port, (1 << 30,) * 7, beat_timeout_us=1 if port == 4 else NEVER_US)


def common():
    yield from identity()
    yield from (fabric(p, subject=int(p == 2)) for p in FABRIC_PORTS)
    yield from lane_entries()
    yield from routes()
    for index, dst in enumerate((20, 21, 22), start=7):
        yield group(dst=dst, index=index, profile=PROFILE)
        yield from slots(FABRIC_PORTS, index)
        if dst > 20:
            prefix = {"prefix": f"10.0.{dst}.0/24"}
            yield entry("routing_v4", "to_switch", prefix, dst=dst)
    yield mode(SPRAYING, 8)
    yield mode(GLB, 9)
    yield heard(0x8001, (1, 2), relay=2)
    yield heard(31, (1, 2, 3), profile=5, alone=0)
    yield heard(32, (1, 2, 3), alone=0, relay=2)
    yield watermark(HOST, 1, 0, 0, 0)
    yield from notify((3, 4))


def set_(what, code, port, **more):
    return CPU, THROUGH + sync(SET, set_body(what, code, port, **more), origin=NODE, seq=0)


def timer(app):
    return CPU, THROUGH + event_frame(0x88B6, app, KIND_TIMER, False, 0, 0) + bytes(40)


def port_event(port, up):
    return CPU, THROUGH + event_frame(0x88B6, 0, KIND_PORT, up, port, 0)


def note(port, code, seq, names=0x8001, **more):
    return port, sync(NOTE, note_body(names, code, 7), origin=neighbour(port), seq=seq, **more)


def beat(port, seq, **more):
    return port, sync(BEAT, origin=neighbour(port), seq=seq, **more)


PARSING = [
    *((HOST, ip4(sport=s)) for s in range(1000, 1012)),
    *((HOST, ip6(sport=s)) for s in range(1000, 1006)),
    (HOST, ETHER / Dot1Q(vlan=7) / ip4()[IP]),
    (HOST, ETHER / Dot1Q(vlan=7) / ip6()[IPv6]),
    (HOST, ETHER / IP(src="10.0.9.11", dst="10.0.20.5") / TCP(sport=5, dport=80)),
    (HOST, ETHER / IP(src="10.0.9.11", dst="10.0.20.5") / ICMP()),
    (HOST, ETHER / IP(dst="10.0.20.5", options=[IPOption_Timestamp()]) / Raw(b"abc")),
    (HOST, ip4(flags="MF")),
    (HOST, ip4(frag=9)),
    (HOST, ip4(ttl=1)),
    (HOST, ip6(hlim=1)),
    (HOST, ip4(chksum=1)),
    (HOST, ip4("10.9.9.9")),
    (HOST, ETHER / ARP()),
    (HOST, bytes(ip4())[:30]),
    (HOST, bytes(ip4())[:45]),
    (HOST, bytes(5)),
    (1, ip4("10.0.9.11")),
    (1, ip6("fd00:9::11")),
    *((1, ip4("10.0.9.11", tos=0x20 | ecn)) for ecn in range(4)),
]
PATHS = [
    *((HOST, ip4("10.0.21.5")) for _ in range(6)),
    timer(1),
    set_(1, 8, 1, profile=PROFILE),
    *((HOST, ip4("10.0.22.5")) for _ in range(5)),
    timer(1),
    set_(1, 9, 2, profile=PROFILE, subject=2),
    set_(1, 4, 3, profile=PROFILE),
    *((HOST, ip4("10.0.22.5")) for _ in range(5)),
    port_event(3, up=False),
    *((HOST, ip4("10.0.22.5")) for _ in range(3)),
    *(set_(1, 8, port, profile=PROFILE) for port in FABRIC_PORTS),
    (HOST, ip4("10.0.22.5")),
    *(set_(1, 0, port, profile=PROFILE, subject=2) for port in FABRIC_PORTS),
    port_event(3, up=True),
    set_(2, 0, 3),
    *((HOST, ip4("10.0.22.5")) for _ in range(4)),
    timer(1),
]
MESH = [
    note(1, 0xD, 1),
    note(2, 0xB, 1),
    note(2, 0xB, 1),
    note(1, 8, 2, flags=1),
    note(2, 8, 2, flags=1),
    timer(1),
    timer(1),
    note(2, 0, 0x90000000),
    note(2, 0, 3, flags=1),
    note(3, 8, 1),
    note(1, 8, 3, incarnation=4),
    note(1, 8, 3, names=99),
    note(1, 8, 4, names=31),
    note(1, 0xE, 5),
    note(1, 8, 6, names=32),
    note(1, 0xD, 7),  # a band beside the "worst" of a subject that shares the profile
    note(HOST, 8, 1),
    (2, sync(NOTE, bytes(3), origin=neighbour(2), seq=9)),
    (2, sync(1, bytes(48), origin=77, seq=1)),
    (2, sync(4, bytes(30), origin=neighbour(2), seq=1)),
    (2, sync(6, bytes(8), origin=neighbour(2), seq=1)),
    (2, sync(12, bytes(8), origin=neighbour(2), seq=10)),
    beat(1, 10),
    timer(2),
    beat(2, 11, flags=1),
    timer(1),
    beat(2, 12),
    set_(2, 0, 2),
    timer(1),
    timer(1),
    port_event(2, up=False),
    *(timer(1) for _ in range(3)),
    set_(2, 0, 2),
    set_(3, 0, 2),
    (CPU, TO_3 + bytes(ip4())),
    (CPU, THROUGH + bytes(ip4("10.0.9.11"))),
    (CPU, b"\0"),
    (HOST, event_frame(0x88B6, 0, KIND_PORT, False, 1, 0)),
    timer(0),
    timer(3),
    (HOST, ip4("10.0.22.5")),
]
BEATS = [
    timer(2),
    beat(1, 1),
    beat(4, 1),
    timer(2),
    timer(2),
    beat(4, 2),
    timer(1),
    set_(2, 0, 4),
    timer(1),
    timer(2),
]


def masked(out):
    """Frames by port, and the sequence numbers of those that this switch made, in order of size."""
    frames, numbers = [], []
    for port, frame in out:
        at = 16 if port == CPU else 14  # behind the packet_in header
        own = frame[at - 2 : at] == b"\x88\xb5" and frame[at + 4 : at + 8] == NODE.to_bytes(
            4, "big"
        )
        if own and frame[at] & 0xF in (NOTE, BEAT):
            numbers.append(int.from_bytes(frame[at + 8 : at + 12], "big"))
            frame = frame[: at + 8] + bytes(4) + frame[at + 12 :]
        frames.append((port, frame.hex()))
    return sorted(frames), sorted(numbers)


class Here:
    """The embedded switch, with time between packets."""

    def __init__(self, all_entries):
        self.bench = Bench(filled=False)
        defaults = [e for e in all_entries if getattr(e, "is_default_action", False)]
        self.bench.modify(*defaults)
        self.bench.insert([e for e in all_entries if e not in defaults])
        self.bench.switch.on_cpu = lambda data: self.out.append((CPU, data))
        self.bench.switch.on_transmit = lambda port, data, _s, _e: self.out.append((port, data))
        self.out: list[tuple[int, bytes]] = []
        self.at_us = 1_000_000

    def put(self, port, frame):
        self.at_us += GAP_US
        self.bench.at(self.at_us)
        self.out = []
        self.bench.switch.receive(port, frame)
        self.bench.at(self.at_us)
        return self.out


@needs_bmv2
@pytest.mark.parametrize(
    ("tables", "inputs"),
    [(entries, PARSING), (entries, PATHS), (entries, MESH), (entries_of_heartbeats, BEATS)],
    ids=["parsing", "paths", "syncmesh and links", "heartbeats"],
)
def test_bmv2_sends_the_same(tables, inputs, tmp_path):
    all_entries = list(tables())
    here = Here(all_entries)
    commands = list(cli_lines(here.bench.client.schema, all_entries))
    frames = 0
    with running(PROGRAM, commands, tmp_path) as there:
        for i, (port, packet) in enumerate(inputs):
            frame = bytes(packet)
            ours, theirs = here.put(port, frame), there.put(port, frame)
            assert masked(ours) == masked(theirs), f"input {i}, port {port}: {frame.hex()}"
            frames += len(ours)
    assert frames > len(inputs) / 2


@needs_bmv2
def test_p4info_is_p4cs(tmp_path):
    info, compiled = tmp_path / "p4info.txtpb", tmp_path / "program.json"
    subprocess.run(
        ["p4c-bm2-ss", "--p4runtime-files", str(info), "-o", str(compiled), str(PROGRAM)],
        check=True,
    )
    assert program().p4info == text_format.Parse(info.read_text(), p4i.P4Info())
