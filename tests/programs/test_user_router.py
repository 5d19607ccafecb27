"""A plain IPv4 router: routes, next hops, TTL and checksums; expected bytes are worked out by scapy."""

from __future__ import annotations

import pytest
from finsy import Action, Match, P4CounterData, P4TableEntry
from programs_kit import Bench
from scapy.layers.inet import ICMP, IP, UDP
from scapy.layers.l2 import ARP, Ether

MINE_1, MINE_2 = "02:00:00:00:00:01", "02:00:00:00:00:02"
NEXT_1, NEXT_2 = "02:00:00:00:11:01", "02:00:00:00:22:02"
SENDER = "02:00:00:00:99:09"


def route(prefix: str, next_hop: int) -> P4TableEntry:
    return P4TableEntry(
        "routes", match=Match({"hdr.ipv4.dst": prefix}), action=Action("via", next_hop=next_hop)
    )


def hop(number: int, port: int, src: str, dst: str) -> P4TableEntry:
    return P4TableEntry(
        "next_hops",
        match=Match({"meta.next_hop": number}),
        action=Action("forward", port=port, src=src, dst=dst),
    )


@pytest.fixture
def bench() -> Bench:
    bench = Bench("router")
    bench.controller.insert(
        [
            hop(1, 1, MINE_1, NEXT_1),
            hop(2, 2, MINE_2, NEXT_2),
            route("10.0.0.0/8", 1),
            route("10.2.0.0/16", 2),
            route("10.2.7.0/24", 9),  # no such next hop
        ]
    )
    return bench


def packet(dst: str, ttl: int = 64, **ip: object) -> Ether:
    ether = Ether(src=SENDER, dst=MINE_1)
    return ether / IP(src="192.0.2.1", dst=dst, ttl=ttl, **ip) / UDP(sport=7, dport=9) / b"payload"


def routed(dst: str, ttl: int, src_mac: str, dst_mac: str) -> bytes:
    ip = IP(src="192.0.2.1", dst=dst, ttl=ttl)
    return bytes(Ether(src=src_mac, dst=dst_mac) / ip / UDP(sport=7, dport=9) / b"payload")


def test_the_longest_prefix_wins(bench: Bench) -> None:
    assert bench.send(5, packet("10.9.0.1")) == [(1, routed("10.9.0.1", 63, MINE_1, NEXT_1))]
    assert bench.send(5, packet("10.2.0.1")) == [(2, routed("10.2.0.1", 63, MINE_2, NEXT_2))]


def test_ttl_counts_down_to_one_and_no_further(bench: Bench) -> None:
    assert bench.send(5, packet("10.9.0.1", ttl=2)) == [(1, routed("10.9.0.1", 1, MINE_1, NEXT_1))]
    assert bench.send(5, packet("10.9.0.1", ttl=1)) == []
    assert bench.send(5, packet("10.9.0.1", ttl=0)) == []


def test_what_cannot_be_routed_is_dropped(bench: Bench) -> None:
    assert bench.send(5, packet("11.0.0.1")) == []  # no route
    assert bench.send(5, packet("10.2.7.1")) == []  # a route without a next hop
    assert bench.send(5, packet("10.9.0.1", chksum=0x1234)) == []  # a broken header
    assert bench.send(5, Ether(src=SENDER) / ARP(pdst="10.9.0.1")) == []  # not IPv4


def test_routes_change_and_counters_count_while_it_runs(bench: Bench) -> None:
    ping = Ether(src=SENDER, dst=MINE_1) / IP(src="192.0.2.1", dst="10.9.0.1") / ICMP()
    bench.send(5, ping)  # 14 + 20 + 8 bytes
    bench.send(5, packet("10.9.0.2"))  # 14 + 20 + 8 + 7 bytes
    wanted = P4TableEntry(
        "routes", match=Match({"hdr.ipv4.dst": "10.0.0.0/8"}), counter_data=P4CounterData()
    )
    (found,) = bench.controller.read(wanted)
    assert (found.counter_data.packet_count, found.counter_data.byte_count) == (2, 42 + 49)
    bench.controller.modify(route("10.0.0.0/8", 2))
    assert [port for port, _ in bench.send(5, ping)] == [2]
    bench.controller.delete(route("10.0.0.0/8", 2))
    assert bench.send(5, ping) == []
