"""Equal-cost multipath with an action selector: who is picked is worked out with zlib's CRC."""

from __future__ import annotations

import socket
import struct
import zlib

import pytest
from finsy import (
    Action,
    Match,
    P4ActionProfileGroup,
    P4ActionProfileMember,
    P4Member,
    P4TableEntry,
)
from finsy.p4entity import P4IndirectAction
from programs_kit import Bench
from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.l2 import Ether

SRC, DST = "10.0.0.1", "10.1.0.9"
MACS = {port: f"02:00:00:00:00:{port:02x}" for port in range(1, 5)}
FLOWS = range(1_000, 1_064)


def member(number: int) -> P4ActionProfileMember:
    """Member n sends to port n."""
    action = Action("next_hop", port=number, dst=MACS[number])
    return P4ActionProfileMember("paths", member_id=number, action=action)


def group(*members: int) -> P4ActionProfileGroup:
    chosen = [P4Member(member_id=m, weight=1) for m in members]
    return P4ActionProfileGroup("paths", group_id=1, max_size=8, members=chosen)


@pytest.fixture
def bench() -> Bench:
    bench = Bench("ecmp")
    bench.controller.insert([member(n) for n in MACS])
    bench.controller.insert(group(1, 2, 3, 4))
    match = Match({"hdr.ipv4.dst": "10.1.0.0/16"})
    bench.controller.insert(
        P4TableEntry("routes", match=match, action=P4IndirectAction(group_id=1))
    )
    return bench


def datagram(sport: int) -> Ether:
    return Ether() / IP(src=SRC, dst=DST) / UDP(sport=sport, dport=4791) / b"x"


def pick(sport: int, members: list[int], protocol: int = 17) -> int:
    key = socket.inet_aton(SRC) + socket.inet_aton(DST)
    key += struct.pack("!BHH", protocol, sport, 4791)
    return members[zlib.crc32(key) % len(members)]


def port_of(bench: Bench, packet: Ether) -> int:
    ((port, data),) = bench.send(8, packet)
    packet = packet.copy()
    packet.dst = MACS[port]
    assert data == bytes(packet)
    return port


def test_each_flow_goes_where_its_hash_says_and_all_paths_are_used(bench: Bench) -> None:
    found = [port_of(bench, datagram(sport)) for sport in FLOWS]
    assert found == [pick(sport, [1, 2, 3, 4]) for sport in FLOWS]
    assert set(found) == {1, 2, 3, 4}
    segment = Ether() / IP(src=SRC, dst=DST) / TCP(sport=1_000, dport=4791)
    assert port_of(bench, segment) == pick(1_000, [1, 2, 3, 4], protocol=6)


def test_a_path_taken_out_of_the_group_is_used_no_more(bench: Bench) -> None:
    bench.controller.modify(group(1, 2, 4))
    found = [port_of(bench, datagram(sport)) for sport in FLOWS]
    assert found == [pick(sport, [1, 2, 4]) for sport in FLOWS]


def test_a_member_that_changes_takes_its_flows_along(bench: Bench) -> None:
    moved = P4ActionProfileMember(
        "paths", member_id=2, action=Action("next_hop", port=3, dst=MACS[3])
    )
    bench.controller.modify(moved)
    expected = [pick(sport, [1, 3, 3, 4]) for sport in FLOWS]
    assert [port_of(bench, datagram(sport)) for sport in FLOWS] == expected


def test_a_watched_port_that_goes_down_leaves_the_group_by_itself(bench: Bench) -> None:
    watched = [P4Member(member_id=m, weight=(1, m)) for m in MACS]
    bench.controller.modify(P4ActionProfileGroup("paths", group_id=1, max_size=8, members=watched))
    bench.switch.set_port_state(3, False)
    bench.clock.run()
    found = [port_of(bench, datagram(sport)) for sport in FLOWS]
    assert found == [pick(sport, [1, 2, 4]) for sport in FLOWS]


def test_what_has_no_ports_or_no_route_is_dropped(bench: Bench) -> None:
    assert bench.send(8, Ether() / IP(src=SRC, dst=DST) / ICMP()) == []
    elsewhere = Ether() / IP(src=SRC, dst="10.2.0.1") / UDP(sport=1, dport=2)
    assert bench.send(8, elsewhere) == []
