"""Faults of real interfaces, between two hosts in network namespaces."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import pytest
from live_ranks import Ranks, exchange, rail_lab
from rail_lab import Lab

pytestmark = [
    pytest.mark.live,
    pytest.mark.alone,  # a busy processor acknowledges late, which looks like a lost rail
    pytest.mark.skipif(bool(rail_lab.why_not()), reason=rail_lab.why_not() or "-"),
]

SIZE = 12_000_000  # at 2 rails of 100 Mbit/s: half a second


def pair(number: int, size: int = SIZE) -> list[partial]:
    return [partial(exchange, peer=1 - rank, number=number, size=size) for rank in range(2)]


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (lambda lab: lab.link(0, up=False), "lost the carrier"),
        (lambda lab: lab.black_hole(0), "nothing acknowledged for"),
        (lambda lab: lab.black_hole(0, senders=(1,)), "nothing acknowledged for"),
    ],
    ids=["link down", "black hole", "one way"],
)
def test_a_rail_is_lost_under_a_message(fault: Callable[[Lab], None], words: str) -> None:
    with (
        rail_lab.lab(2, 100) as lab,
        Ranks(lab, 2, lambda _: {"rails": lab.names(), "detection_s": 0.1}) as ranks,
    ):
        begun = [str(ranks.path / f"begun{rank}") for rank in range(2)]
        ranks.begin(
            [partial(order, begun=name) for order, name in zip(pair(0), begun, strict=True)]
        )
        ranks.wait_until_begun(begun)
        fault(lab)
        found = ranks.results()
        for same, error, _, stats in found:
            assert (same, error) == (True, "")
            assert stats.failovers == 1
            assert any("rail rail0 to rank" in event for event in stats.events)
        assert any(words in event for *_, stats in found for event in stats.events)
        assert sum(stats.replayed_bytes for *_, stats in found) > 0


def test_a_rail_comes_back() -> None:
    quick = {"detection_s": 0.1, "probation_s": 0.1, "retry_s": 0.02}
    with (
        rail_lab.lab(2, 100) as lab,
        Ranks(lab, 2, lambda _: {"rails": lab.names(), **quick}) as ranks,
    ):
        lab.link(0, up=False)
        ranks.begin(pair(0, 1000))
        ranks.results()
        lab.link(0, up=True)
        number = 1
        deadline = time.monotonic() + 20
        while True:
            ranks.begin(pair(number, 100_000))
            found = ranks.results()
            assert all(same for same, *_ in found)
            if all(sum(p.failbacks for p in s.peers.values()) for *_, s in found):
                break
            number += 1
            assert time.monotonic() < deadline
        assert [[c.up for c in stats.channels] for *_, stats in found] == [[True] * 2] * 2


def test_all_rails_of_a_rank_dead_is_an_error_that_names_them() -> None:
    chosen = {"detection_s": 0.1, "unreachable_s": 0.5}
    with (
        rail_lab.lab(2, 100) as lab,
        Ranks(lab, 2, lambda _: {"rails": lab.names(), **chosen}) as ranks,
    ):
        for rail in range(2):
            lab.black_hole(rail)
        # One side only waits: nothing of its own is under way that could be missed.
        receive_only = partial(exchange_receive, peer=0)
        ranks.begin([partial(exchange, peer=1, number=0, size=SIZE), receive_only])
        for rank, (_, error, took, stats) in enumerate(ranks.results()):
            assert f"PeerLostError: rank {rank} cannot reach rank {1 - rank}" in error
            assert all(f"rail rail{n}-rail{n}: last progress" in error for n in range(2))
            assert took < 10
            assert stats.failovers == 2


def exchange_receive(transport, peer: int) -> tuple[bool, str, float]:
    began = time.monotonic()
    try:
        transport.recv(peer, 0, bytearray(SIZE)).wait(30)
    except Exception as caught:
        return False, f"{type(caught).__name__}: {caught}", time.monotonic() - began
    return True, "", time.monotonic() - began


def test_neighbours_carry_a_rank_without_a_rail_between_them() -> None:
    """Ranks 0 to 2 on one host, 3 to 5 on another, a rail each; rank 0 loses its own."""
    with (
        rail_lab.lab(3, 100, switched=True) as lab,
        Ranks(
            lab,
            6,
            lambda rank: {
                "rails": (f"rail{rank % 3}",),
                "host": f"h{rank // 3}",
                "detection_s": 0.3,
            },
        ) as ranks,
    ):
        lab.unplug(0, 0, silently=True)
        size = 9_000_000
        ranks.begin([partial(exchange, peer=(r + 3) % 6, number=0, size=size) for r in range(6)])
        found = ranks.results()
        assert [(same, error) for same, error, *_ in found] == [(True, "")] * 6
        ranks.begin([partial(exchange, peer=(r + 3) % 6, number=1, size=10) for r in range(6)])
        found = ranks.results()
        stats = [s for *_, s in found]
        ways = {c.rail for c in stats[0].channels if c.peer == 3 and c.up}
        assert ways >= {"through rank 1", "through rank 2"}
        passed = [stats[1].relayed_bytes, stats[2].relayed_bytes]
        assert min(passed) > 0.2 * sum(passed)  # whoever is done with its own carries more
        assert sum(passed) > 1.8 * size  # both directions, less what went before the rail was lost
