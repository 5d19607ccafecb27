"""Telemetry of the simulated fabric: it says what the fabric counted, and the tuner sees the same."""

from __future__ import annotations

import numpy as np
import pytest

from sglb import programs
from sglb.fabric import scenario as scenarios
from sglb.fabric.kernel.simulation import NativeSimulation
from sglb.p4.compiler import compile as compile_p4
from sglb.watermark.settings import Watermarks
from sglb.watermark.telemetry.agent import Deadband
from sglb.watermark.telemetry.errors import TelemetryError
from sglb.watermark.telemetry.kernel import KernelSource
from sglb.watermark.telemetry.reading import CLASSES, WHOLE, Field
from sglb.watermark.telemetry.simulated import Cost, ReportedFabric
from sglb.watermark.tuner.fabric import Timing, TunedFabric, _Read
from sglb.watermark.tuner.observation import Observation

TIMING = Timing(0, 100, 10)
SETTING = Watermarks(400_000, 800_000, 0.1, 0.125)
#: Pauses: three into one, thresholds above what alpha allows a port.
SCENARIO = {
    "name": "paused",
    "seed": 3,
    "engine": "native",
    "topology": {"leaf_spine": {"leaves": 2, "spines": 1, "hosts_per_leaf": 3}},
    "workload": {"incast": {"to": "h5", "from": ["h0", "h1", "h2"], "bytes": 3_000_000}},
    "switch": {
        "buffer": {
            "total_bytes": 2_097_152,
            "dynamic_th": -3,
            "classes": [{"class": 3, "lossless": True, "scheduling": "dwrr", "weight": 1}],
        },
        "pfc": {"enabled": True},
    },
    "transport": {"traffic_class": 3, "window_packets": None, "dcqcn": {"enabled": True}},
    "policies": ["ecmp"],
    "stop_us": 20_000,
}


class Both:
    """Reads all and has it told, and keeps the two."""

    def __init__(self, view, deadband: Deadband, cost: Cost) -> None:
        self.read: _Read
        self.told = ReportedFabric(view, deadband, cost)
        self.seen: list[tuple[Observation, Observation]] = []

    def begin(self) -> None:
        self.read.begin()
        self.told.begin()

    def sample(self) -> None:
        self.read.sample()
        self.told.sample()

    def end(self) -> Observation:
        self.seen.append((self.read.end(), self.told.end()))
        return self.seen[-1][1]


def run(deadband: Deadband, cost: Cost):
    watches: list[Both] = []

    def control(view) -> TunedFabric:
        both = Both(view, deadband, cost)
        fabric = TunedFabric(view, SETTING, lambda seen: SETTING, TIMING, lambda _: both)
        both.read = _Read(view, fabric._switches)
        watches.append(both)
        return fabric

    simulation = NativeSimulation(
        scenarios.from_dict(SCENARIO),
        "ecmp",
        compile_p4(programs.glb()),
        control,
    )
    return simulation, simulation.run(), watches[0].seen


def test_told_exactly_it_is_what_is_read() -> None:
    _, found, seen = run(Deadband(steps={}, share=0.0, least=1, every=1), Cost())
    assert found.completed
    assert any(read.unpaused < 0.99 for read, _ in seen)
    assert len(seen) > 5
    for read, told in seen:
        assert told.lost_packets == read.lost_packets
        assert (told.fan_in, told.load) == (read.fan_in, read.load)
        assert told.throughput == pytest.approx(read.throughput, abs=0.02)
        assert told.delay == pytest.approx(read.delay, abs=0.005)
        # What a host was paused for is counted where its switch held it: a little earlier.
        assert told.unpaused == pytest.approx(read.unpaused, abs=0.02)


def test_with_a_deadband_it_is_near_and_takes_less() -> None:
    cost = Cost()
    _, _, seen = run(Deadband.for_rate(100 * 10**9, 100, 1_024), cost)
    assert 0 < cost.bytes < cost.polled_bytes / 5
    assert cost.polled_bytes == cost.intervals // 3 * 8 * (4 + 4 + 2) * 61
    for read, told in seen:
        if not read.idle:
            assert told.throughput == pytest.approx(read.throughput, abs=0.2)
            assert told.delay == pytest.approx(read.delay, abs=0.1)


def test_a_switch_is_read_field_by_field() -> None:
    simulation, found, _ = run(Deadband(), Cost())
    # Three hosts send by leaf0's one uplink: that queue is deep, and the leaf pauses the hosts.
    topology = simulation.scenario.topology
    leaf = simulation.switches[topology.node("leaf0").id]
    source = KernelSource(leaf.core, tuple(topology.ports(leaf.device_id)))
    last = source.read().values.astype(np.int64)
    counters = [leaf.ports[port].counters for port in source.ports]
    by_class = last[:, :CLASSES, Field.SENT_BYTES].sum(axis=1)
    assert by_class.tolist() == [one.tx_bytes for one in counters]
    whole = last[:, WHOLE]
    assert whole[:, Field.RECEIVED_BYTES].tolist() == [one.rx_bytes for one in counters]
    assert whole[:, Field.RECEIVED_PACKETS].tolist() == [one.rx_packets for one in counters]
    assert whole[:, Field.SENT_PACKETS].tolist() == [one.tx_packets for one in counters]
    assert whole[:, Field.LOST_PACKETS].sum() == 0
    assert 0 < whole[:, Field.MARKED_PACKETS].sum() < whole[:, Field.SENT_PACKETS].sum()
    # 9 MB of data, with headers of some 7 % at most.
    assert 9_000_000 < last[:, 3, Field.SENT_BYTES].max() < 9_700_000
    asked = last[:, 3, Field.PAUSES_SENT].sum()
    assert asked == found.pauses.pause_frames > 0
    held_us = last[:, 3, Field.PEER_PAUSED_NS].sum() / 1_000
    assert held_us == pytest.approx(found.pauses.paused_us, rel=0.05)
    assert last[:, 3, Field.PAUSED_NS].sum() == 0


def test_the_deepest_is_of_the_interval() -> None:
    simulation, _, _ = run(Deadband(), Cost())
    leaf = simulation.switches[simulation.scenario.topology.node("leaf0").id]
    source = KernelSource(leaf.core, (1,))
    source.begin()
    assert source.read().values[0, 3, Field.QUEUE_PEAK_BYTES] == 0
    with pytest.raises(TelemetryError, match="no port 77; it has"):
        KernelSource(leaf.core, (77,))
