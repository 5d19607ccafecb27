"""A stateful firewall: what was opened from inside comes back, nothing else does."""

from __future__ import annotations

import struct
import zlib

import pytest
from finsy import Action, Match, P4CounterEntry, P4RegisterEntry, P4TableEntry
from programs_kit import Bench
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.l2 import Ether

INSIDE, OUTSIDE = 1, 2
CLIENT, SERVER = "10.0.0.5", "203.0.113.7"


@pytest.fixture
def bench() -> Bench:
    bench = Bench("firewall")
    entries = []
    for address, port in ((CLIENT, INSIDE), (SERVER, OUTSIDE)):
        match = Match({"hdr.ipv4.dst": address})
        entries.append(P4TableEntry("hosts", match=match, action=Action("to_port", port=port)))
    for port, side in ((INSIDE, 1), (OUTSIDE, 2)):
        match = Match({"sm.ingress_port": port})
        entries.append(P4TableEntry("sides", match=match, action=Action("set_side", value=side)))
    bench.controller.insert(entries)
    return bench


def outbound(flags: str, sport: int = 40_000) -> Ether:
    return Ether() / IP(src=CLIENT, dst=SERVER) / TCP(sport=sport, dport=443, flags=flags)


def inbound(flags: str, dport: int = 40_000) -> Ether:
    return Ether() / IP(src=SERVER, dst=CLIENT) / TCP(sport=443, dport=dport, flags=flags)


def verdicts(bench: Bench) -> list[int]:
    return [e.data.packet_count for e in bench.controller.read(P4CounterEntry("verdicts"))]


def bits(bench: Bench, name: str) -> list[int]:
    """Positions that are set in one of the filter's registers."""
    cells = bench.controller.read(P4RegisterEntry(name))
    return [cell.index for cell in cells if cell.data]


def test_answers_pass_only_after_the_inside_has_opened_the_connection(bench: Bench) -> None:
    assert bench.send(OUTSIDE, inbound("SA")) == []
    syn, answer = outbound("S"), inbound("SA")
    assert bench.send(INSIDE, syn) == [(OUTSIDE, bytes(syn))]
    assert bench.send(OUTSIDE, answer) == [(INSIDE, bytes(answer))]
    assert verdicts(bench) == [2, 1]


def test_another_connection_is_not_covered(bench: Bench) -> None:
    bench.send(INSIDE, outbound("S"))
    assert bench.send(OUTSIDE, inbound("SA", dport=40_001)) == []
    # Without a SYN nothing is opened.
    assert len(bench.send(INSIDE, outbound("A", sport=40_002))) == 1
    assert bench.send(OUTSIDE, inbound("A", dport=40_002)) == []


def test_other_protocols_are_forwarded_and_others_dropped(bench: Bench) -> None:
    datagram = Ether() / IP(src=SERVER, dst=CLIENT) / UDP(sport=1, dport=2)
    assert bench.send(OUTSIDE, datagram) == [(INSIDE, bytes(datagram))]
    assert bench.send(OUTSIDE, Ether(type=0x86DD) / bytes(40)) == []


def crc16(data: bytes) -> int:
    """CRC-16/ARC, bit by bit: polynomial 0x8005 reflected, start 0."""
    crc = 0
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0xA001 if crc & 1 else 0)
    return crc


def test_crc16_here_is_the_one_of_the_catalogue() -> None:
    assert crc16(b"123456789") == 0xBB3D


def test_the_controller_sees_the_filter_and_can_clear_it(bench: Bench) -> None:
    bench.send(INSIDE, outbound("S"))
    key = bytes((10, 0, 0, 5, 203, 0, 113, 7)) + struct.pack("!HHB", 40_000, 443, 6)
    assert bits(bench, "opened_a") == [crc16(key) % 4096]
    assert bits(bench, "opened_b") == [zlib.crc32(key) % 4096]
    bench.controller.modify(P4RegisterEntry("opened_a", data=0))  # all cells at once
    assert bits(bench, "opened_a") == []
    assert bench.send(OUTSIDE, inbound("SA")) == []
