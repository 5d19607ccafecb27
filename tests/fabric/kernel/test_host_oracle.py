"""Native hosts against the Python ones: the same frames at the same picoseconds."""

from __future__ import annotations

import random

import pytest
from fabric_pipe import Pipe
from host_kit import Fate, NativePipe

from sglb.fabric import roce
from sglb.fabric.events import EventLog, FlowCompleted, FlowStarted
from sglb.fabric.kernel.host_settings import HostSettings
from sglb.fabric.qp import TransportConfig
from sglb.fabric.traffic import TrafficDriver
from sglb.fabric.workload import Flow, Workload
from sglb.switch.core import model as m

DELAY_PS = 2_000_123
END_PS = 10**12
_ICRC = 4


def _told(frame: bytes) -> bytes:
    """What must be equal: all of an acknowledge but its ICRC, the headers of a data frame."""
    bth = 42 if frame[12] == 8 else 62
    is_ack = frame[bth] == roce.ACKNOWLEDGE
    return frame[:-_ICRC] if is_ack else frame[: bth + 12] + len(frame).to_bytes(2, "big")


class Both:
    """The same workload on both kinds of hosts; `fate` gives delays beyond DELAY_PS."""

    def __init__(
        self, fate: Fate, flows: list[Flow], config: TransportConfig, count: int, qps: int
    ) -> None:
        fates = [fate(), fate()]  # type: ignore[call-arg]
        self.pipe = Pipe(lambda f: [DELAY_PS + d for d in fates[0](f)], config, count)
        self.log = EventLog()
        clock = self.pipe.clock
        driver = TrafficDriver(
            Workload("test", tuple(flows)), self.pipe.hosts, clock, self.log, qps
        )
        driver.start()
        clock.run(until_ps=END_PS)
        settings = HostSettings(
            **{name: getattr(config, name) for name in TransportConfig.__dataclass_fields__}
        )
        self.native = NativePipe(
            fates[1], flows, settings, count, DELAY_PS, qps, one_heap=bool(qps % 2)
        ).run(END_PS)

    def check(self) -> None:
        names = list(self.pipe.hosts)
        by_name = {host.name: i for i, host in enumerate(self.pipe.hosts.values())}
        expected = sorted((t, by_name[name], _told(f)) for t, name, f in self.pipe.frames)
        found = sorted((t, host, _told(f)) for t, host, f in self.native.frames)
        for one, other in zip(expected, found, strict=False):
            assert one == other
        assert len(expected) == len(found)
        self._check_log()
        for i, view in enumerate(self.native.hosts):
            host = self.pipe.hosts[names[i]]
            assert view.stats == host.stats
            assert {n: q.stats for n, q in view.send_queues.items()} == {
                n: q.stats for n, q in host.send_queues.items()
            }
            assert {n: q.stats for n, q in view.receive_queues.items()} == {
                n: q.stats for n, q in host.receive_queues.items()
            }

    def _check_log(self) -> None:
        expected = [(e.time_ps, m.LOG_FLOW_STARTED, e.flow_id) for e in self.log.of(FlowStarted)]
        expected += [
            (e.time_ps, m.LOG_FLOW_COMPLETED, e.flow_id) for e in self.log.of(FlowCompleted)
        ]
        assert sorted(self.native.log) == sorted(expected)


def _plain() -> Fate:
    return lambda frame: [0]


def _erratic(seed: int, loss: float, late: float, twice: float) -> Fate:
    """Loses, holds back and doubles frames at random, by times that make ties unlikely."""

    def make() -> Fate:
        rng = random.Random(seed)

        def fate(frame: bytes) -> list[int]:
            draw = rng.random()
            if draw < loss:
                return []
            if draw < loss + late:
                return [rng.randrange(1, 90_000_000)]
            if draw < loss + late + twice:
                return [0, rng.randrange(1, 5_000_000)]
            return [0]

        return fate

    return make  # type: ignore[return-value]


# Sizes with odd last packets and start times a few ps apart, so that hardly any events coincide. Where
# they must (a packet is overdue when the one before it has been sent again) both do the same.
_PAIR = [Flow(0, 3, 4, 300 * 4096 + 77), Flow(1, 3, 4, 5, 1_000_003), Flow(2, 4, 3, 55_555, 77)]


@pytest.mark.parametrize("version", [4, 6])
def test_without_losses(version: int) -> None:
    both = Both(_plain, _PAIR, TransportConfig(ip_version=version), 2, 1)  # type: ignore[arg-type]
    both.check()
    assert len(both.native.completed()) == 3


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    ("loss", "late", "twice"), [(0.02, 0, 0), (0, 0.1, 0), (0.05, 0.05, 0.05), (0.3, 0.1, 0.1)]
)
def test_on_an_erratic_wire(seed: int, loss: float, late: float, twice: float) -> None:
    config = TransportConfig(window_packets=(32, 1, 200, 1024)[seed], ack_every=(4, 1, 7, 64)[seed])
    both = Both(_erratic(seed, loss, late, twice), _PAIR, config, 2, 1 + seed % 3)
    both.check()
    assert len(both.native.completed()) == 3


def test_holes_that_wait_until_the_span_is_full() -> None:
    """A hole near the start stays for long: the ring of 1,024 packets wraps around it."""

    def make() -> Fate:
        data = iter(range(10**9))

        def fate(frame: bytes) -> list[int]:
            if frame[42] == roce.ACKNOWLEDGE:
                return [0]
            number = next(data)
            return [] if number == 3 or 1_030 < number < 1_050 else [0]

        return fate

    config = TransportConfig(mtu_bytes=256, window_packets=1_024, reorder_ps=500_000_000)
    flows = [Flow(0, 3, 4, 5_000 * 256 - 3)]
    both = Both(make, flows, config, 2, 1)  # type: ignore[arg-type]
    both.check()
    assert len(both.native.completed()) == 1
    (queue,) = both.native.hosts[1].receive_queues.values()
    assert queue.stats.reorder_extent >= 1_000


def test_several_hosts_and_chains_of_flows() -> None:
    pairs = [(i, (i + k) % 4) for i in range(4) for k in (1, 2, 3)]
    hosts = [3, 4, 5, 6]
    flows = [
        Flow(n, hosts[i], hosts[j], 40_000 + 4_099 * n, 1_009 * n) for n, (i, j) in enumerate(pairs)
    ]
    # Each waits for one that arrives at its own host.
    for n, (_, j) in enumerate(pairs[:8]):
        size = 9_000 + 13 * n
        flows.append(Flow(len(flows), hosts[j], hosts[(j + 2) % 4], size, 0, (n,), 1, 1_717 * n))
    both = Both(_erratic(9, 0.02, 0.02, 0.01), flows, TransportConfig(), 4, 2)
    both.check()
    assert len(both.native.completed()) == 20
