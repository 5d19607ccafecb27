from dataclasses import dataclass, field

import pytest

from controller.paths import LinkState
from controller.reactions import Delays, SlowPath
from sglb.fabric import generators
from sglb.fabric.events import EventLog, SlowPathSaw, SlowPathTold
from sglb.fabric.topology import LinkSpec
from sglb.switch.clock import VirtualClock
from sglb.syncmesh.effects import Cause, LinkDown, LinkRecovered

SPEC = LinkSpec(100, 0)
DETECTION, REACTION, RESTORE = 1000, 100, 10


@dataclass
class Bench:
    """A slow path over two leaves, two spines, one host a leaf; writes as (time, links in use)."""

    clock: VirtualClock = field(default_factory=VirtualClock)
    log: EventLog = field(default_factory=EventLog)
    writes: list[tuple[int, dict[int, int]]] = field(default_factory=list)
    back: list[tuple[int, int]] = field(default_factory=list)
    writes_before_back: list[int] = field(default_factory=list)
    cleared: list[int] = field(default_factory=list)
    notification_ps: int = 0

    def __post_init__(self) -> None:
        self.topology = generators.leaf_spine(2, 2, 1, SPEC, SPEC, 1)
        delays = Delays(DETECTION, REACTION, RESTORE, self.notification_ps)
        self.path = SlowPath(self.topology, self.clock, delays, self, self.log)
        self.link = self.topology.find_links("leaf0-spine1")[0]

    def rewrite(self, state: LinkState) -> None:
        self.writes.append((self.clock.now_ps, dict(state.rate_bps)))

    def clear(self, switch_id: int, port: int) -> None:
        link = self.topology.link_at(switch_id, port)
        self.cleared.append(switch_id)
        if switch_id == link.a:
            self.back.append((self.clock.now_ps, link.id))
            self.writes_before_back.append(len(self.writes))

    def ends(self, time_ps: int, up: bool) -> None:
        """Both ends see the link's port change."""
        for end in (self.link.a, self.link.b):
            self.clock.call_at(time_ps, self.path.port_state, end, self.link.port(end), up)

    def hears(self, time_ps: int, end: int, hears: bool) -> None:
        self.clock.call_at(time_ps, self.path.hearing, "probe", end, self.link.port(end), hears)

    def saw(self) -> list[tuple[int, bool]]:
        return [(e.time_ps, e.up) for e in self.log.of(SlowPathSaw) if e.link_id == self.link.id]

    def in_tables(self) -> list[tuple[int, bool]]:
        """(time, whether the link is in the tables) of each write."""
        return [(time, self.link.id in rates) for time, rates in self.writes]


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_a_cut_is_noticed_then_rerouted_then_taken_back(bench: Bench) -> None:
    bench.ends(50, up=False)
    bench.ends(5000, up=True)
    bench.clock.run()
    # 50 + 1000 noticed, + 100 written; back at 5000, written 10 later and only then told.
    assert bench.saw() == [(1050, False), (5000, True)]
    assert bench.in_tables() == [(1150, False), (5010, True)]
    assert bench.back == [(5010, bench.link.id)]
    assert bench.cleared == [bench.link.a, bench.link.b]
    assert bench.writes_before_back == [2]  # the routes stand first
    assert bench.path.phases() == {}


def test_notification_is_a_stage_of_its_own() -> None:
    bench = Bench(notification_ps=30)
    bench.ends(50, up=False)
    bench.clock.run()
    assert bench.saw() == [(1050, False)]
    assert [(e.time_ps, e.link_id) for e in bench.log.of(SlowPathTold)] == [(1080, bench.link.id)]
    assert bench.in_tables() == [(1150, False)]  # the whole reaction takes as long


def test_a_link_that_is_back_before_anybody_is_told_goes_on_being_rerouted() -> None:
    bench = Bench(notification_ps=30)
    bench.ends(50, up=False)
    bench.ends(1060, up=True)
    bench.clock.run()
    assert bench.in_tables() == [(1150, False), (1160, True)]


def test_one_end_is_enough_for_down_and_both_are_needed_for_up(bench: Bench) -> None:
    a, b = bench.link.a, bench.link.b
    bench.clock.call_at(0, bench.path.port_state, a, bench.link.port(a), False)
    bench.clock.call_at(500, bench.path.port_state, b, bench.link.port(b), False)
    bench.clock.call_at(2000, bench.path.port_state, a, bench.link.port(a), True)
    bench.clock.call_at(3000, bench.path.port_state, b, bench.link.port(b), True)
    bench.clock.run()
    assert bench.saw() == [(1000, False), (3000, True)]
    assert bench.in_tables() == [(1100, False), (3010, True)]


def test_a_short_cut_changes_no_table_but_the_fast_path_is_told_after_a_hold(bench: Bench) -> None:
    bench.ends(0, up=False)
    bench.ends(999, up=True)
    bench.clock.run()
    assert bench.saw() == []
    assert bench.in_tables() == [(1009, True)]
    assert bench.back == [(1009, bench.link.id)]


def test_a_link_back_while_routing_reacts_is_taken_out_and_in_again(bench: Bench) -> None:
    bench.ends(0, up=False)
    bench.ends(1050, up=True)
    bench.clock.run()
    assert bench.saw() == [(1000, False), (1100, True)]
    assert bench.in_tables() == [(1100, False), (1110, True)]


def test_a_link_that_flaps_during_the_hold_stays_out(bench: Bench) -> None:
    bench.ends(0, up=False)
    bench.ends(2000, up=True)
    bench.ends(2005, up=False)
    bench.ends(4000, up=True)
    bench.clock.run()
    assert bench.in_tables() == [(1100, False), (4010, True)]
    assert bench.back == [(4010, bench.link.id)]


def test_a_flap_that_routing_never_noticed_starts_anew(bench: Bench) -> None:
    bench.ends(0, up=False)
    bench.ends(500, up=True)
    bench.ends(505, up=False)
    bench.clock.run()
    assert bench.saw() == [(1505, False)]
    assert bench.in_tables() == [(1605, False)]
    assert bench.path.phases() == {"leaf0-spine1": "out of the tables"}


def test_another_links_reroute_leaves_an_unnoticed_one_in_the_tables(bench: Bench) -> None:
    other = bench.topology.find_links("leaf1-spine0")[0]
    bench.clock.call_at(0, bench.path.port_state, other.a, other.port(other.a), False)
    bench.ends(90, up=False)
    bench.ends(1095, up=True)
    bench.clock.run(1100)
    assert [(t, other.id in rates, bench.link.id in rates) for t, rates in bench.writes] == [
        (1100, False, True)
    ]


def test_a_silent_link_is_down_at_once_and_back_when_all_ends_hear(bench: Bench) -> None:
    a, b = bench.link.a, bench.link.b
    bench.hears(0, b, False)
    bench.hears(7, a, False)
    bench.hears(3000, a, True)
    bench.hears(3500, b, True)
    bench.clock.run()
    assert bench.saw() == [(0, False), (3500, True)]
    assert bench.in_tables() == [(100, False), (3510, True)]


def test_two_witnesses_must_both_hear_again(bench: Bench) -> None:
    end, port = bench.link.a, bench.link.port(bench.link.a)
    for time, witness, hears in (
        (0, "probe", False),
        (10, "heartbeat", False),
        (2000, "probe", True),
        (2400, "heartbeat", True),
    ):
        bench.clock.call_at(time, bench.path.hearing, witness, end, port, hears)
    bench.clock.run()
    assert bench.saw() == [(0, False), (2400, True)]
    assert bench.path.phases() == {}


def test_an_agent_tells_of_heartbeats_and_a_link_in_use_is_cleared_at_once(bench: Bench) -> None:
    end, port = bench.link.a, bench.link.port(bench.link.a)
    for time, said in (
        (0, LinkRecovered(port)),  # its routes were never taken away
        (5, LinkDown(port, Cause.CARRIER)),  # the ports' business
        (10, LinkDown(port, Cause.BEATS)),
        (2400, LinkRecovered(port)),
    ):
        bench.clock.call_at(time, bench.path.agent_said, end, said)
    bench.clock.run(until_ps=1)
    assert bench.cleared == [end]
    bench.clock.run()
    assert bench.saw() == [(10, False), (2400, True)]
    assert bench.cleared == [end, bench.link.a, bench.link.b]


def test_silence_ends_the_wait_for_a_carrier_loss_to_be_noticed(bench: Bench) -> None:
    bench.ends(0, up=False)
    bench.hears(400, bench.link.a, False)
    bench.clock.run()
    assert bench.saw() == [(400, False)]
    assert bench.in_tables() == [(500, False)]


def test_a_rate_follows_after_the_reaction_and_outlives_a_cut(bench: Bench) -> None:
    bench.path.rate_changed(bench.link.id, 50)
    bench.ends(10, up=False)
    bench.ends(2000, up=True)
    bench.clock.run()
    assert [(t, rates.get(bench.link.id)) for t, rates in bench.writes] == [
        (100, 50),
        (1110, None),
        (2010, 50),
    ]


def test_a_hosts_port_concerns_nobody(bench: Bench) -> None:
    leaf = bench.topology.node("leaf0").id
    assert bench.topology.by_id(bench.topology.link_at(leaf, 1).other(leaf)).is_host
    bench.path.port_state(leaf, 1, False)
    bench.clock.run()
    assert bench.writes == []
    assert len(bench.log) == 0
