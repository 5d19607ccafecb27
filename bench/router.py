"""Tables and traffic for `router.p4`: seeded, in sizes and shapes as routers have them.

10,000 prefixes with lengths as in the Internet's routing tables (three of five are /24) and some of a
network's own (/28 to /32), 256 next hops on 8 ports, and an access list of 500 rules over five fields,
with masks as ClassBench's seeds have them: prefixes of a few lengths, mostly one protocol, few source
ports, more destination ports, ranges as prefixes of ports.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
from finsy import P4TableAction, P4TableEntry, P4TableMatch
from numpy.typing import NDArray

ROUTES = 10_000
RULES = 500
NEXT_HOPS = 256
PORTS = range(1, 9)
INPUT_PORT = 9
FRAME_BYTES = 60  #: the shortest Ethernet frame, without its check sequence
TCP, UDP = 6, 17

_ALL_32, _ALL_16, _ALL_8 = 0xFFFFFFFF, 0xFFFF, 0xFF
#: How frequent the lengths are.
_LENGTHS = dict(
    (
        *((8, 2), (10, 4), (11, 10), (12, 30), (13, 60), (14, 110), (15, 200), (16, 1300)),
        *((17, 800), (18, 1350), (19, 2400), (20, 4300), (21, 4900), (22, 11000), (23, 9800)),
        *((24, 58000), (28, 1600), (29, 1200), (30, 1400), (32, 1500)),
    )
)
_PORTS = (
    22,
    25,
    53,
    80,
    123,
    161,
    179,
    389,
    443,
    445,
    514,
    993,
    1433,
    1521,
    3306,
    3389,
    5060,
    8080,
)
#: Ranges of ports as value and mask: 1024 and above in six pieces, 6000-6015, 49152 and above.
_PORT_RANGES = (
    *((1 << bit, _ALL_16 << bit & _ALL_16) for bit in range(10, 16)),
    (6000, 0xFFF0),
    (0xC000, 0xC000),
)

_FIELDS = ("hdr.ipv4.src", "hdr.ipv4.dst", "hdr.ipv4.protocol", "meta.sport", "meta.dport")

Ternary = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Route:
    """A prefix and the number of its next hop."""

    prefix: int
    length: int
    next_hop: int


@dataclass(frozen=True, slots=True)
class Rule:
    """Of the rules that a packet meets, the one with the highest priority counts."""

    priority: int
    fields: tuple[Ternary, ...]  #: source, destination, protocol, source port, destination port
    permit: bool


@dataclass(frozen=True, slots=True)
class Tables:
    """What a router holds."""

    routes: tuple[Route, ...]
    rules: tuple[Rule, ...]

    def cli_lines(self) -> Iterator[str]:
        """The tables as commands for simple_switch_CLI, where a lower number goes first."""
        for number in range(NEXT_HOPS):
            port, src, dst = next_hop(number)
            yield f"table_add next_hops forward {number} => {port} {src:#x} {dst:#x}"
        for route in self.routes:
            yield f"table_add routes via {route.prefix:#010x}/{route.length} => {route.next_hop}"
        for rule in self.rules:
            keys = " ".join(f"{value:#x}&&&{mask:#x}" for value, mask in rule.fields)
            action = "permit" if rule.permit else "deny"
            yield f"table_add access {action} {keys} => {RULES - rule.priority}"

    def entities(self) -> Iterator[P4TableEntry]:
        """The tables as P4Runtime entities."""
        for number in range(NEXT_HOPS):
            yield next_hop_entry(number)
        for route in self.routes:
            yield route_entry(route)
        for rule in self.rules:
            yield _rule_entry(rule)


def next_hop(number: int) -> tuple[int, int, int]:
    """A next hop's port, and source and destination MAC addresses."""
    port = PORTS[number % len(PORTS)]
    return port, 0x020000000000 + port, 0x020100000000 + number


def next_hop_entry(number: int, dst: int | None = None) -> P4TableEntry:
    """A next hop's entry, with another destination address if one is given."""
    port, src, own = next_hop(number)
    action = P4TableAction("forward", port=port, src=src, dst=own if dst is None else dst)
    match = P4TableMatch({"meta.next_hop": number})
    return P4TableEntry("next_hops", match=match, action=action)


def route_entry(route: Route) -> P4TableEntry:
    """A route's entry."""
    action = P4TableAction("via", next_hop=route.next_hop)
    match = P4TableMatch({"hdr.ipv4.dst": (route.prefix, route.length)})
    return P4TableEntry("routes", match=match, action=action)


def _rule_entry(rule: Rule) -> P4TableEntry:
    named = zip(_FIELDS, rule.fields, strict=True)
    match = P4TableMatch({name: field for name, field in named if field[1]})
    action = P4TableAction("permit" if rule.permit else "deny")
    return P4TableEntry("access", match=match, action=action, priority=rule.priority)


# --- tables ---------------------------------------------------------------------------------------


def make_tables(rng: random.Random) -> Tables:
    """Tables of the sizes above."""
    routes = tuple(_routes(rng))
    return Tables(routes, tuple(_rules(rng, routes)))


def _routes(rng: random.Random) -> Iterator[Route]:
    # Prefixes lie in blocks that were given out together, so that some cover others.
    blocks = [rng.randrange(1 << 16, 0xE000 << 8) >> 8 << 16 for _ in range(400)]
    lengths, weights = list(_LENGTHS), list(_LENGTHS.values())
    known: set[tuple[int, int]] = set()
    while len(known) < ROUTES:
        (length,) = rng.choices(lengths, weights)
        inside = rng.random() < 0.7
        base = rng.choice(blocks) if inside else rng.randrange(1, 0xE0) << 24
        address = base | rng.getrandbits(16 if inside else 24)
        prefix = address >> 32 - length << 32 - length
        if (prefix, length) not in known:
            known.add((prefix, length))
            yield Route(prefix, length, rng.randrange(NEXT_HOPS))


def _rules(rng: random.Random, routes: tuple[Route, ...]) -> Iterator[Rule]:
    known: set[tuple[Ternary, ...]] = set()
    while len(known) < RULES:
        protocol, mask = rng.choice([(TCP, _ALL_8)] * 11 + [(UDP, _ALL_8)] * 6 + [(0, 0)] * 3)
        ports = ((0, 0), (0, 0)) if not mask else (_port(rng, 0.08, 0.08), _port(rng, 0.65, 0.15))
        destination = rng.choice(routes)
        fields = (
            _address(rng, rng.randrange(1 << 24, 0xE0 << 24), (0, 8, 16, 24, 28, 32)),
            _address(rng, destination.prefix | rng.getrandbits(8), (0, 16, 20, 24, 28, 32)),
            (protocol, mask),
            *ports,
        )
        if fields not in known and sum(m != 0 for _, m in fields) > 1:
            known.add(fields)
            yield Rule(RULES + 1 - len(known), fields, rng.random() < 0.6)


def _address(rng: random.Random, address: int, lengths: tuple[int, ...]) -> Ternary:
    (length,) = rng.choices(lengths, (3, 1, 2, 4, 2, 6))
    mask = _ALL_32 << 32 - length & _ALL_32
    return address & mask, mask


def _port(rng: random.Random, one: float, several: float) -> Ternary:
    kind = rng.random()
    if kind < one:
        return rng.choice(_PORTS), _ALL_16
    return rng.choice(_PORT_RANGES) if kind < one + several else (0, 0)


# --- traffic --------------------------------------------------------------------------------------


def mixed(rng: random.Random, tables: Tables, count: int, flows: int) -> NDArray[np.uint8]:
    """Frames of many flows, the n-th most frequent as often as 1/n (Zipf): `[frame, byte]`.

    One flow of five is made for a rule of the access list; all go to a prefix.
    """
    known = [_flow(rng, tables, rng.random() < 0.2) for _ in range(flows)]
    weights = list(accumulate(1 / rank for rank in range(1, flows + 1)))
    return frames(rng.choices(known, cum_weights=weights, k=count))


def scattered(rng: random.Random, tables: Tables, count: int) -> NDArray[np.uint8]:
    """Frames to as many destinations as there are, over all prefixes alike: nothing is met twice."""
    known: dict[int, tuple[int, ...]] = {}
    while len(known) < count:
        flow = _flow(rng, tables, listed=False)
        known[flow[1]] = flow
    return frames(known.values())


def _flow(rng: random.Random, tables: Tables, listed: bool) -> tuple[int, ...]:
    """Source, destination, protocol, source and destination port."""
    route = rng.choice(tables.routes)
    protocol = rng.choice((TCP, TCP, UDP))
    source, sport = rng.randrange(1 << 24, 0xE0 << 24), rng.randrange(1024, 1 << 16)
    destination = route.prefix | rng.getrandbits(32) & _ALL_32 >> route.length
    flow = (source, destination, protocol, sport, rng.choice((443, 80, 53, 4791, 8080)))
    if not listed:
        return flow
    rule = rng.choice(tables.rules)
    return tuple(v | own & ~m for own, (v, m) in zip(flow, rule.fields, strict=True))


def frames(flows: Iterable[tuple[int, ...]]) -> NDArray[np.uint8]:
    """A frame a flow, with a right checksum: `[frame, byte]`."""
    source, destination, protocol, sport, dport = np.array(list(flows), dtype=np.int64).T
    words = np.zeros((len(source), FRAME_BYTES // 2), dtype=np.int64)
    words[:, :7] = (0x0200, 0, 9, 0x0202, 0, 1, 0x0800)
    ip = words[:, 7:17]
    ip[:, 0], ip[:, 1], ip[:, 3] = 0x4500, FRAME_BYTES - 14, 0x4000
    ip[:, 2] = np.arange(len(source)) & _ALL_16
    ip[:, 4] = 64 << 8 | protocol
    ip[:, 6], ip[:, 7] = source >> 16, source & _ALL_16
    ip[:, 8], ip[:, 9] = destination >> 16, destination & _ALL_16
    total = ip.sum(axis=1)
    total = (total >> 16) + (total & _ALL_16)
    ip[:, 5] = ~((total >> 16) + total) & _ALL_16
    words[:, 17], words[:, 18] = sport, dport
    found: NDArray[np.uint8] = words.astype(">u2").view(np.uint8).reshape(len(source), FRAME_BYTES)
    return found
