"""Figures from logs and hosts against numbers worked out by hand."""

from __future__ import annotations

import pytest
from fabric_pipe import Pipe

from sglb.fabric import generators
from sglb.fabric.bounds import ideal_fct_ps
from sglb.fabric.events import (
    EventLog,
    FlowCompleted,
    FlowStarted,
    LossReason,
    PacketLost,
    Traffic,
)
from sglb.fabric.host import connect
from sglb.fabric.metrics import (
    ConservationError,
    LossStats,
    Spread,
    completion_ps,
    flow_stats,
    in_flight,
    losses,
    percentile,
    spread,
    transport_stats,
)
from sglb.fabric.qp import TransportConfig
from sglb.fabric.topology import LinkSpec
from sglb.fabric.workload import flow_list

WORK = flow_list([(1, 2, 10, 5), (2, 1, 10, 7)])


def _log() -> EventLog:
    log = EventLog()
    for event in (
        FlowStarted(5, 0),
        FlowStarted(7, 1),
        FlowCompleted(27, 1),
        FlowCompleted(45, 0),
    ):
        log.append(event)
    return log


def test_completion_and_slowdown() -> None:
    assert completion_ps(_log(), WORK) == 40
    stats = flow_stats(_log(), WORK, [10, 10])
    assert (stats.flows, stats.completed) == (2, 2)
    assert stats.fct_ps == Spread(2, 30, 20, 40, 40, 40)
    assert stats.slowdown == Spread(2, 3, 2, 4, 4, 4)


def test_an_open_flow_means_no_completion() -> None:
    log = EventLog()
    log.append(FlowStarted(5, 0))
    log.append(FlowCompleted(9, 0))
    assert completion_ps(log, WORK) is None
    assert flow_stats(log, WORK, [4, 4]).slowdown == Spread(1, 1, 1, 1, 1, 1)
    assert spread([]) == Spread()


def test_nearest_rank_percentiles() -> None:
    ranked = [15, 20, 35, 40, 50]
    assert [percentile(ranked, p) for p in (5, 30, 40, 50, 100)] == [15, 20, 20, 35, 50]


def test_log_refuses_to_go_back_in_time() -> None:
    log = _log()
    with pytest.raises(ValueError, match="older than the record before it, at 45 ps"):
        log.append(FlowStarted(44, 0))
    assert len(log) == 4


def test_losses_by_reason() -> None:
    log = EventLog()
    for traffic, reason in (
        (Traffic.DATA, LossReason.QUEUE_FULL),
        (Traffic.DATA, LossReason.QUEUE_FULL),
        (Traffic.ACK, LossReason.LINK_DOWN),
        (Traffic.CONTROL, LossReason.RANDOM_LOSS),
        (Traffic.DATA, LossReason.LINK_DOWN),
    ):
        log.append(PacketLost(1, 1, 1, reason, traffic, 2))
    assert losses(log) == LossStats(3, 1, 1, {"link down": 1, "queue full": 2})


def test_every_packet_is_accounted_for() -> None:
    log = EventLog()
    sent = iter(range(1000))
    pipe = Pipe(lambda frame: [])

    def fate(frame: bytes) -> list[int]:
        if len(frame) > 100 and next(sent) in (1, 5):
            time_ps = pipe.clock.now_ps
            log.append(PacketLost(time_ps, 1, 1, LossReason.RANDOM_LOSS, Traffic.DATA, 2))
            return []
        return [2_000_000]

    pipe.fate = fate
    hosts = list(pipe.hosts.values())
    connect(hosts[0], hosts[1], lambda n: None).post(10 * 4096)
    pipe.clock.run(until_ps=1_000_000)
    assert in_flight(log, hosts) == 2  # by 1 us three packets were started and one lost
    pipe.clock.run()
    assert in_flight(log, hosts) == 0
    stats = transport_stats(hosts)
    assert (stats.data_sent, stats.data_arrived, stats.resent, stats.duplicates) == (12, 10, 2, 0)
    assert (stats.acks_sent, stats.acks_arrived, stats.bad_frames) == (stats.acks_sent,) * 2 + (0,)
    assert stats.reordered == 2
    log.append(PacketLost(10**12, 1, 1, LossReason.QUEUE_FULL, Traffic.DATA, 2))
    with pytest.raises(ConservationError, match="12 data packets were sent, but 10 arrived and 3"):
        in_flight(log, hosts)


def test_a_frame_cut_in_the_nic_is_a_loss() -> None:
    pipe = Pipe(lambda frame: [])
    hosts = list(pipe.hosts.values())
    connect(hosts[0], hosts[1], lambda n: None).post(4096)
    hosts[0].set_link(False)
    pipe.clock.run(until_ps=1_000_000)
    assert losses(EventLog(), hosts) == LossStats(1, 0, 0, {"link down": 1})
    assert in_flight(EventLog(), hosts) == 0


def test_ideal_completion_of_single_flows() -> None:
    fast = LinkSpec(100_000_000_000, 500_000)
    topology = generators.leaf_spine(2, 1, 2, fast, fast)
    h = [host.id for host in topology.hosts]
    work = flow_list([(h[0], h[1], 8192, 99), (h[0], h[2], 8192, 0)])
    near, far = ideal_fct_ps(topology, work, TransportConfig(), 1_000_000)
    # Two packets of 334.24 ns, less the last gap; then a link (333.28 ns), two flights and a
    # pipeline, or three links, four flights and three pipelines.
    assert near == 2 * 334_240 - 960 + 333_280 + 2 * 500_000 + 1_000_000
    assert far == 2 * 334_240 - 960 + 3 * 333_280 + 4 * 500_000 + 3 * 1_000_000
