"""Workloads through hosts on an ideal wire: completion times by hand."""

from __future__ import annotations

from fabric_pipe import Pipe

from sglb.fabric.collectives import all_to_all, ring_all_reduce
from sglb.fabric.events import EventLog, FlowCompleted, FlowStarted
from sglb.fabric.qp import TransportConfig
from sglb.fabric.traffic import TrafficDriver
from sglb.fabric.workload import Flow, Workload

FULL_PS = 334_240
DELAY_PS = 2_000_000


def _run(
    workload: Workload, pipe: Pipe, qps: int = 1
) -> tuple[TrafficDriver, dict[int, int], dict[int, int]]:
    log = EventLog()
    driver = TrafficDriver(workload, pipe.hosts, pipe.clock, log, qps)
    driver.start()
    pipe.clock.run(until_ps=10**12)
    started = {e.flow_id: e.time_ps for e in log.of(FlowStarted)}
    completed = {e.flow_id: e.time_ps for e in log.of(FlowCompleted)}
    return driver, started, completed


def _pipe(count: int) -> Pipe:
    return Pipe(lambda frame: [DELAY_PS], count=count)


def test_all_to_all_sends_to_the_next_hosts_in_turn() -> None:
    pipe = _pipe(4)
    driver, started, completed = _run(all_to_all(list(pipe.hosts), 2 * 4096), pipe)
    assert driver.done
    assert set(started.values()) == {0}
    # Each NIC sends its six packets in the order +1 +2 +3 +1 +2 +3. Packets of the first round
    # are not the last of their message and no fourth of their queue pair: no ACK delays a NIC
    # before the first last packet arrives, at 4 x FULL + DELAY, when all have been sent.
    assert sorted(completed.values()) == sorted([n * FULL_PS + DELAY_PS for n in (4, 5, 6)] * 4)
    assert completed[0] == 4 * FULL_PS + DELAY_PS  # h0 to h1
    assert completed[2] == 6 * FULL_PS + DELAY_PS  # h0 to h3


def test_ring_steps_follow_one_another_without_a_gap() -> None:
    pipe = _pipe(3)
    driver, started, completed = _run(ring_all_reduce(list(pipe.hosts), 3 * 4096), pipe)
    assert driver.done
    step = FULL_PS + DELAY_PS
    for flow in driver.workload.flows:
        assert started[flow.id] == flow.step * step
        assert completed[flow.id] == (flow.step + 1) * step


def test_a_flow_waits_for_time_and_for_flows() -> None:
    pipe = _pipe(2)
    a, b = pipe.hosts
    flows = (Flow(0, a, b, 4096), Flow(1, b, a, 4096, start_ps=10**9, after=(0,)))
    _, started, completed = _run(Workload("w", flows), pipe)
    assert started == {0: 0, 1: 10**9}
    assert completed[1] == 10**9 + FULL_PS + DELAY_PS


def test_a_barrier_opens_for_all_behind_it_after_their_delays() -> None:
    pipe = _pipe(3)
    a, b, c = pipe.hosts
    both = (0, 1)
    flows = (
        Flow(0, a, c, 4096),
        Flow(1, b, c, 2 * 4096),
        Flow(2, c, a, 4096, after=both),
        Flow(3, c, b, 4096, after=both, delay_ps=7),
        Flow(4, a, b, 4096, start_ps=10**9, after=both, delay_ps=9),
    )
    work = Workload("w", flows, tail_ps=5)
    assert work.gates().members == (both,)
    assert work.gates().of_flow == (-1, -1, 0, 0, 0)
    _, started, completed = _run(work, pipe)
    opened = completed[1]
    assert opened == 2 * FULL_PS + DELAY_PS
    assert started == {0: 0, 1: 0, 2: opened, 3: opened + 7, 4: 10**9}


def test_a_flow_over_several_queue_pairs_uses_several_ports() -> None:
    pipe = Pipe(lambda frame: [DELAY_PS], TransportConfig(mtu_bytes=1024), count=2)
    a, b = pipe.hosts
    driver, _, _ = _run(Workload("w", (Flow(0, a, b, 5000),)), pipe, qps=4)
    assert driver.done
    data = [f for _, name, f in pipe.frames if name == "h0"]
    assert len(data) == 5  # 4 x 1024 + 904 bytes: two on the first queue pair, one on the others
    assert len({f[34:36] for f in data}) == 4
    assert pipe.hosts[b].stats.data_received == 5


def test_what_cannot_arrive_stays_open() -> None:
    pipe = Pipe(lambda frame: [], count=2)
    a, b = pipe.hosts
    driver, started, completed = _run(Workload("w", (Flow(0, a, b, 1),)), pipe)
    assert (driver.done, driver.open_flows, started, completed) == (False, 1, {0: 0}, {})


def test_same_seed_same_bytes_at_the_same_times() -> None:
    runs = []
    for _ in range(2):
        turn = iter(range(10**6))
        pipe = Pipe(lambda frame, turn=turn: [DELAY_PS] if next(turn) % 7 else [], count=4)  # type: ignore[misc]
        driver, _, _ = _run(all_to_all(list(pipe.hosts), 5 * 4096), pipe, qps=2)
        assert driver.done
        runs.append(pipe.frames)
    assert runs[0] == runs[1]
