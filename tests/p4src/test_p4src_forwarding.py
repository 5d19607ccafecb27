"""Parsing and routing: what comes in, what goes out, byte for byte."""

import pytest
from p4src_kit import (
    FABRIC_PORTS,
    HOST,
    HOST_MAC,
    ROUTER_MAC,
    Bench,
    entry,
    hashed_slot,
    ip4,
    ip6,
    peer_mac,
    routed,
)
from scapy.layers.inet import ICMP, IP, TCP, UDP, IPOption_Timestamp
from scapy.layers.inet6 import IPv6, IPv6ExtHdrFragment
from scapy.layers.l2 import ARP, Dot1Q, Ether
from scapy.packet import Raw

ETHER = Ether(src=HOST_MAC, dst=ROUTER_MAC)


@pytest.fixture
def bench():
    return Bench()


def toward_switch(packet, *, ports=True):
    """The frame that a fabric port should send on, and the port: ecmp over four members."""
    port = FABRIC_PORTS[hashed_slot(packet, ports=ports) % 4]
    return port, routed(packet, ROUTER_MAC, peer_mac(port))


@pytest.mark.parametrize("sport", range(1000, 1008))
@pytest.mark.parametrize("make", [ip4, ip6])
def test_a_roce_flow_takes_the_member_of_its_hash(bench, make, sport):
    packet = make(sport=sport)
    [out] = bench.put(packet)
    assert (out.port, out.data) == toward_switch(packet)


@pytest.mark.parametrize(
    "packet",
    [
        ip4(dport=53),
        ip4(dport=4791) / Raw(b"x"),
        ETHER / IP(src="10.0.9.11", dst="10.0.20.5") / UDP(sport=7, dport=4791, chksum=0),
        ETHER / IP(src="10.0.9.11", dst="10.0.20.5") / TCP(sport=5, dport=80) / Raw(b"abc"),
        ETHER / IPv6(src="fd00:9::11", dst="fd00:20::5") / TCP(sport=5, dport=80) / Raw(b"abc"),
        ETHER / Dot1Q(vlan=100, prio=3) / ip4()[IP],
        ETHER / Dot1Q(vlan=100, prio=3) / ip6()[IPv6],
    ],
    ids=["udp", "roce", "roce cut short", "tcp", "tcp6", "vlan", "vlan6"],
)
def test_the_ports_are_part_of_the_hash(bench, packet):
    [out] = bench.put(packet)
    assert (out.port, out.data) == toward_switch(packet)


@pytest.mark.parametrize(
    "packet",
    [
        ETHER / IP(src="10.0.9.11", dst="10.0.20.5") / ICMP(),
        ip4(flags="MF"),
        ip4(frag=100),
        ETHER / IPv6(src="fd00:9::11", dst="fd00:20::5") / IPv6ExtHdrFragment() / UDP(sport=9),
    ],
    ids=["icmp", "first fragment", "later fragment", "fragment6"],
)
def test_without_ports_the_addresses_are_the_hash(bench, packet):
    [out] = bench.put(packet)
    assert (out.port, out.data) == toward_switch(packet, ports=False)


@pytest.mark.parametrize("ttl", range(2, 255, 23))
def test_options_are_carried_along_and_the_checksum_stays_right(bench, ttl):
    packet = (
        ETHER
        / IP(src="10.0.9.11", dst="10.0.20.5", ttl=ttl, options=[IPOption_Timestamp()])
        / UDP(sport=1000, dport=4791, chksum=0)
    )
    [out] = bench.put(packet)
    assert (out.port, out.data) == toward_switch(packet, ports=False)


def test_a_checksum_with_options_that_becomes_zero(bench):
    # 0x0100 below all ones: the sum of the other words is 0x0100, and one TTL less makes it 0.
    packet = ETHER / IP(
        src="10.0.9.11", dst="10.0.20.5", id=0, ttl=2, options=[IPOption_Timestamp()]
    )
    words = bytes(packet[IP])
    total = sum(int.from_bytes(words[i : i + 2], "big") for i in range(0, len(words), 2))
    checksum = int.from_bytes(words[10:12], "big")
    rest = (total - checksum) % 0xFFFF
    packet[IP].id = (0x0100 - rest) % 0xFFFF
    assert IP(bytes(packet[IP])).chksum == 0xFEFF
    [out] = bench.put(packet)
    assert out.data[24:26] == b"\0\0"
    assert (out.port, out.data) == toward_switch(packet, ports=False)


@pytest.mark.parametrize("packet", [ip4("10.0.9.11"), ip6("fd00:9::11")], ids=["v4", "v6"])
@pytest.mark.parametrize("came_by", [HOST + 1, 3])
def test_to_a_host(bench, packet, came_by):
    [out] = bench.put(packet, came_by)
    assert out.port == HOST
    assert out.data == routed(packet, ROUTER_MAC, HOST_MAC)


def test_the_longest_prefix_wins(bench):
    assert bench.out_port(ip4("10.0.20.77")) in FABRIC_PORTS
    bench.insert(
        entry("routing_v4", "to_host", {"prefix": "10.0.20.77/32"}, port=HOST, mac=0x020000000B0B)
    )
    assert bench.out_port(ip4("10.0.20.77")) == HOST
    assert bench.out_port(ip4("10.0.20.78")) in FABRIC_PORTS


def wrong_checksum(packet):
    packet[IP].chksum = IP(bytes(packet[IP])).chksum ^ 1
    return packet


def short_header(packet):
    packet[IP].ihl = 4
    return packet


@pytest.mark.parametrize(
    "packet",
    [
        ip4(ttl=1),
        ip4(ttl=0),
        ip6(hlim=1),
        ip6(hlim=0),
        wrong_checksum(ip4()),
        short_header(ip4()),
        ip4("10.0.21.1"),
        ip6("fd00:21::1"),
        ETHER / ARP(),
        Ether(type=0x88CC) / Raw(bytes(50)),
        bytes(ip4())[:20],
        bytes(ip6())[:40],
        bytes(ip4())[:9],
        b"",
    ],
    ids=[
        "ttl 1",
        "ttl 0",
        "hop limit 1",
        "hop limit 0",
        "checksum",
        "ihl 4",
        "no route",
        "no route6",
        "arp",
        "lldp",
        "cut ipv4",
        "cut ipv6",
        "cut ethernet",
        "nothing",
    ],
)
@pytest.mark.parametrize("came_by", [HOST, 1])
def test_dropped(bench, packet, came_by):
    assert bench.put(packet, came_by) == []
    assert bench.packet_ins == []


def test_a_class_for_each_dscp_but_never_that_of_control_frames(bench):
    for port in bench.switch.ports.values():
        port.set_rate(1_000)  # all but the first wait, so the order shows the class
    frames = [ip4("10.0.9.11", tos=dscp << 2) for dscp in (0, 0, 10, 63, 20, 46)]
    for frame in frames:
        bench.switch.receive(1, bytes(frame))
    queues = bench.switch.ports[HOST].queues
    # 63 >> 3 is 7: such a packet shares class 6. The first, in class 0, is on the wire already.
    assert [len(q.packets) for q in queues] == [1, 1, 1, 0, 0, 1, 1, 0]
