"""Digest lists: size, waiting time, duplicates, acknowledgements."""

from __future__ import annotations

import pytest

from sglb.switch.clock import VirtualClock
from sglb.switch.digests import DigestConfig, DigestEngine, DigestList
from sglb.switch.errors import BadValue, EntryExists, NoSuchEntry

ID = 0x17000001
US = 1_000_000


def engine(config: DigestConfig | None) -> tuple[DigestEngine, VirtualClock, list[DigestList]]:
    clock = VirtualClock()
    digests, out = DigestEngine(clock), []
    digests.load(frozenset({ID}))
    digests.on_list = out.append
    if config is not None:
        digests.enable(ID, config)
    return digests, clock, out


def test_without_a_timeout_each_message_goes_at_once() -> None:
    digests, _, out = engine(DigestConfig())
    digests.push(ID, (1, 2))
    digests.push(ID, (1, 2))
    assert out == [DigestList(ID, 1, ((1, 2),), 0), DigestList(ID, 2, ((1, 2),), 0)]


def test_a_list_goes_when_it_is_full_of_distinct_messages() -> None:
    digests, _, out = engine(DigestConfig(max_timeout_ns=10**9, max_list_size=2))
    for value in (1, 1, 2, 3):
        digests.push(ID, (value,))
    assert [d.messages for d in out] == [((1,), (2,))]


def test_a_list_goes_when_its_first_message_has_waited() -> None:
    digests, clock, out = engine(DigestConfig(max_timeout_ns=5000, max_list_size=0))
    clock.run(until_ps=US)
    digests.push(ID, (1,))
    clock.run(until_ps=4 * US)
    digests.push(ID, (2,))
    clock.run(until_ps=6 * US - 1)
    assert out == []
    clock.run(until_ps=6 * US)
    assert out == [DigestList(ID, 1, ((1,), (2,)), 6 * US)]
    digests.push(ID, (3,))
    clock.run(until_ps=11 * US)
    assert out[1:] == [DigestList(ID, 2, ((3,),), 11 * US)]


def test_unacknowledged_messages_are_not_repeated_until_the_timeout() -> None:
    digests, clock, out = engine(DigestConfig(max_list_size=1, ack_timeout_ns=10_000))
    digests.push(ID, (1,))
    clock.run(until_ps=10 * US - 1)
    digests.push(ID, (1,))
    assert len(out) == 1
    clock.run(until_ps=10 * US)
    digests.push(ID, (1,))
    assert len(out) == 2


def test_an_acknowledged_message_may_come_again_at_once() -> None:
    digests, _, out = engine(DigestConfig(max_list_size=1, ack_timeout_ns=10_000))
    digests.push(ID, (1,))
    digests.ack(ID, 99)
    digests.push(ID, (1,))
    assert len(out) == 1
    digests.ack(ID, 1)
    digests.push(ID, (1,))
    assert [d.list_id for d in out] == [1, 2]


def test_what_is_not_enabled_is_ignored() -> None:
    digests, clock, out = engine(None)
    digests.push(ID, (1,))
    digests.ack(ID, 1)
    assert digests.config(ID) is None
    digests.enable(ID, DigestConfig(max_timeout_ns=1000))
    assert digests.enabled() == (ID,)
    digests.push(ID, (1,))
    digests.disable(ID)
    clock.run()
    assert out == []


def test_a_change_of_configuration_sends_what_waits() -> None:
    digests, _, out = engine(DigestConfig(max_timeout_ns=10**9))
    digests.push(ID, (1,))
    digests.modify(ID, DigestConfig(max_list_size=1))
    assert [d.messages for d in out] == [((1,),)]
    assert digests.config(ID) == DigestConfig(max_list_size=1)


def test_refusals() -> None:
    digests, _, _ = engine(DigestConfig())
    with pytest.raises(EntryExists, match="enabled already"):
        digests.enable(ID, DigestConfig())
    with pytest.raises(NoSuchEntry, match="no digest with id 5"):
        digests.enable(5, DigestConfig())
    for do in (lambda: digests.modify(5, DigestConfig()), lambda: digests.disable(5)):
        with pytest.raises(NoSuchEntry, match="digest 5 is not enabled"):
            do()
    with pytest.raises(BadValue, match="negative"):
        DigestConfig(max_timeout_ns=-1)
    digests.load(frozenset())
    assert digests.enabled() == ()
