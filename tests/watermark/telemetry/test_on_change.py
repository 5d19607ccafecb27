"""From a switch's agent to the collector: what is told, what is not, and what a loss does."""

from __future__ import annotations

import random

import numpy as np
import pytest

from sglb.switch.clock import PS_PER_US
from sglb.watermark.telemetry.agent import Agent, Deadband
from sglb.watermark.telemetry.collector import Collector
from sglb.watermark.telemetry.errors import TelemetryError
from sglb.watermark.telemetry.message import Message, decode, encode
from sglb.watermark.telemetry.reading import COUNTERS, FIELDS, LEVELS, ROWS, WHOLE, Field, Reading

MS = 1_000 * PS_PER_US
PLAIN = Deadband(steps={}, share=0.1, least=4, every=5)


class Switch:
    """Counters that a test moves."""

    def __init__(self, ports: tuple[int, ...] = (1, 2)) -> None:
        self.ports = ports
        self.values = np.zeros((len(ports), ROWS, FIELDS), dtype=np.uint64)
        self.time_ps = 0

    def after(self, *grows: tuple[int, int, Field, int]) -> Reading:
        """A millisecond later, with (place of the port, row, field, by how much; a level: to what)."""
        self.time_ps += MS
        for at, row, field, count in grows:
            if field in LEVELS:
                self.values[at, row, field] = count
            else:
                self.values[at, row, field] += np.uint64(count)
        return Reading(self.time_ps, self.ports, self.values.copy())


def started(deadband: Deadband = PLAIN) -> tuple[Switch, Agent, Collector]:
    switch, agent, collector = Switch(), Agent(7, deadband=deadband), Collector()
    agent.begin(switch.after())
    first = agent.report(switch.after())
    assert first is not None
    collector.take(first)
    return switch, agent, collector


def test_what_moves_little_is_not_told() -> None:
    switch, agent, collector = started()
    sent = (0, 3, Field.SENT_BYTES, 1_000)
    told = agent.report(switch.after(sent))
    assert told is not None
    assert decode(told).cells == {(3, 0): 1_000}
    collector.take(told)
    assert agent.report(switch.after((0, 3, Field.SENT_BYTES, 1_100))) is None
    told = agent.report(switch.after((0, 3, Field.SENT_BYTES, 1_101), (1, 3, Field.PAUSED_NS, 4)))
    assert told is not None
    assert decode(told).cells == {(3, 0): 1_101}
    collector.take(told)
    assert int(collector.switches[7].values[0, 3, Field.SENT_BYTES]) == 1_101
    # It stops: that is a move, too.
    told = agent.report(switch.after())
    assert told is not None
    assert decode(told).cells == {(3, 0): 0}
    told = agent.report(switch.after())
    assert told is not None
    full = decode(told)  # the fifth interval after the first full one
    assert full.full
    assert full.cells == {}
    assert full.totals == {(3, 0): 3_201, (ROWS + 3, Field.PAUSED_NS): 4}


def test_a_loss_is_told_however_small() -> None:
    switch, agent, _ = started()
    told = agent.report(switch.after((1, WHOLE, Field.LOST_PACKETS, 1)))
    assert told is not None
    assert decode(told).cells == {(ROWS + WHOLE, Field.LOST_PACKETS): 1}
    told = agent.report(switch.after())
    assert told is not None
    assert decode(told).cells == {(ROWS + WHOLE, Field.LOST_PACKETS): 0}


def test_steps_round() -> None:
    switch, agent, collector = started(Deadband(steps={Field.SENT_BYTES: 100}, every=50))
    told = agent.report(switch.after((0, 3, Field.SENT_BYTES, 1_051)))
    assert told is not None
    assert decode(told).cells == {(3, 0): 11}
    collector.take(told)
    assert int(collector.switches[7].values[0, 3, Field.SENT_BYTES]) == 1_100


def test_a_lost_message_is_known_and_heals() -> None:
    switch, agent, collector = started()
    assert agent.report(switch.after((0, 3, Field.SENT_BYTES, 500))) is not None  # is lost
    told = agent.report(switch.after((0, 3, Field.SENT_BYTES, 500), (1, 3, Field.PAUSED_NS, 90)))
    assert told is not None
    collector.take(told)
    view = collector.switches[7]
    assert (view.missed, view.whole) == (1, False)
    assert int(view.values[0, 3, Field.SENT_BYTES]) == 0  # nobody knows better
    collector.take(told)  # once more
    assert view.ignored == 1
    for _ in range(3):
        told = agent.report(switch.after((0, 3, Field.SENT_BYTES, 500)))
        if told is not None:
            collector.take(told)
    assert view.whole
    assert int(view.values[0, 3, Field.SENT_BYTES]) == 500
    assert int(view.totals[0, 3, Field.SENT_BYTES]) == 2_500


def test_the_first_full_message_is_waited_for() -> None:
    switch, agent, _ = started()
    collector = Collector()
    told = agent.report(switch.after((0, 3, Field.SENT_BYTES, 500)))
    assert told is not None
    assert collector.take(told) == 7
    assert collector.switches[7].ignored == 1
    assert not collector.switches[7].whole


def test_a_switch_that_restarts() -> None:
    switch, agent, collector = started()
    old = agent.report(switch.after((0, 3, Field.SENT_BYTES, 5_000)))
    assert old is not None
    collector.take(old)
    switch.values[:] = 0
    told = agent.report(switch.after((0, 3, Field.SENT_BYTES, 40)))
    assert told is not None
    message = decode(told)
    assert message.full
    assert (message.incarnation, message.sequence) == (1, 0)
    collector.take(told)
    view = collector.switches[7]
    assert int(view.values[0, 3, Field.SENT_BYTES]) == 40
    collector.take(old)  # late, of the time before
    assert int(view.values[0, 3, Field.SENT_BYTES]) == 40
    # Its full message was lost: of the new incarnation nothing is known.
    collector.take(encode(Message(7, 2, 5, 9, 9, {(ROWS * 9, 0): 1})))
    assert view.ports == ()
    assert not view.whole


def test_counters_of_32_bits() -> None:
    switch, agent = Switch(), Agent(1, deadband=PLAIN, bits=32)
    switch.values[0, 3, Field.SENT_BYTES] = 0xFFFF_FF00
    agent.begin(switch.after())
    agent.report(switch.after())
    switch.values[0, 3, Field.SENT_BYTES] = 0x100
    told = agent.report(switch.after())
    assert told is not None
    assert decode(told).cells == {(3, 0): 0x200}
    assert decode(told).incarnation == 0


def test_an_unknown_port_changes_nothing() -> None:
    _, _, collector = started()
    before = collector.switches[7].sequence
    with pytest.raises(TelemetryError, match="switch 7: a value of port 2, counted from 0, but it"):
        collector.take(encode(Message(7, 0, before + 1, 9, 9, {(2 * ROWS, 0): 1})))
    assert collector.switches[7].sequence == before
    with pytest.raises(TelemetryError, match="1 ports"):
        collector.take(encode(Message(8, 0, 0, 9, 9, {(ROWS, 0): 1}, (4,), (1,) * FIELDS, {})))
    assert 8 not in collector.switches


def test_a_port_that_comes_makes_a_full_message() -> None:
    switch, agent, collector = started()
    bigger = Switch((1, 2, 3))
    bigger.time_ps = switch.time_ps
    told = agent.report(bigger.after((2, 3, Field.SENT_BYTES, 60)))
    assert told is not None
    collector.take(told)
    assert collector.switches[7].ports == (1, 2, 3)
    assert int(collector.switches[7].values[2, 3, Field.SENT_BYTES]) == 60


def test_what_is_known_is_within_the_deadband() -> None:
    """Whatever moves: each value differs from the truth by no more than is promised."""
    rng = random.Random(5)
    switch, agent, collector = started(Deadband(steps={}, share=0.2, least=3, every=40))
    for _ in range(200):
        before = switch.values.copy()
        moves = [
            (rng.randrange(2), rng.randrange(ROWS), rng.choice(list(Field)), rng.randrange(500))
            for _ in range(rng.randrange(6))
        ]
        told = agent.report(switch.after(*moves))
        if told is not None:
            collector.take(told)
        truth = switch.values.astype(np.float64)
        counters = list(COUNTERS)
        truth[..., counters] -= before[..., counters]
        known = collector.switches[7].values.astype(np.float64)
        assert (np.abs(known - truth) <= np.maximum(3, 0.2 * known)).all()


def test_what_is_no_agent() -> None:
    with pytest.raises(TelemetryError, match="without begin"):
        Agent(1).report(Switch().after())
    with pytest.raises(TelemetryError, match="at least 1"):
        Deadband(steps={Field.SENT_BYTES: 0})
    with pytest.raises(TelemetryError, match="share"):
        Deadband(share=1.0)
