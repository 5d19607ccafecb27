"""Random loss and bit errors as faults: spans, directions and probabilities by hand."""

from __future__ import annotations

import random
from typing import Any

import pytest

from sglb.fabric.events import LossReason
from sglb.fabric.faults import FabricState, FaultKind, LinkLoss, frame_loss
from sglb.fabric.scenario import Scenario, from_dict
from sglb.fabric.wires import LossSpan, Wire
from sglb.fabric.yaml_source import SourceError
from sglb.switch.clock import VirtualClock

US = 1_000_000


def _load(*faults: dict[str, Any]) -> Scenario:
    return from_dict(
        {
            "topology": {"leaf_spine": {"leaves": 2, "spines": 1, "hosts_per_leaf": 1}},
            "workload": {"all_to_all": {"bytes_per_pair": 10}},
            "faults": list(faults),
        },
        "f",
    )


def _spans(scenario: Scenario) -> list[tuple[Any, ...]]:
    name = {n.id: n.name for n in scenario.topology.nodes}

    def told(loss: LinkLoss) -> tuple[Any, ...]:
        (edge,) = loss.edges
        way = f"{name[edge.src]}->{name[edge.dst]}"
        return (way, loss.data, loss.syncmesh, loss.ber, loss.from_ps, loss.to_ps)

    return [told(loss) for loss in scenario.losses]


def test_loss_of_one_direction_until_it_is_ended() -> None:
    scenario = _load(
        {"at_us": 1, "loss": {"link": "leaf0->spine0", "data": 0.25}},
        {"at_us": 3, "loss": {"link": "leaf0->spine0", "data": 0.5, "syncmesh": 0.0}},
        {"at_us": 9, "loss": {"link": "leaf0->spine0", "data": 0.0}},
    )
    assert _spans(scenario) == [
        ("leaf0->spine0", 0.25, 0.25, 0.0, 1 * US, 3 * US),
        ("leaf0->spine0", 0.5, 0.0, 0.0, 3 * US, 9 * US),
    ]
    assert [f.kind for f in scenario.faults] == [FaultKind.LOSS] * 3
    assert scenario.faults[1].loss == (0.5, 0.0)


def test_bit_errors_of_both_directions_beside_loss() -> None:
    scenario = _load(
        {"at_us": 1, "bit_errors": {"link": "leaf0-spine0", "ber": 1e-6}},
        {"at_us": 2, "loss": {"link": "spine0->leaf0", "data": 1.0}},
    )
    assert sorted(_spans(scenario)) == [
        ("leaf0->spine0", 0.0, 0.0, 1e-6, 1 * US, None),
        ("spine0->leaf0", 0.0, 0.0, 1e-6, 1 * US, None),
        ("spine0->leaf0", 1.0, 1.0, 0.0, 2 * US, None),
    ]


def test_of_two_at_one_time_the_last_counts() -> None:
    scenario = _load(
        {"at_us": 1, "loss": {"link": "leaf0->spine0", "data": 0.25}},
        {"at_us": 1, "loss": {"link": "leaf0->spine0", "data": 0.75}},
    )
    assert _spans(scenario) == [("leaf0->spine0", 0.75, 0.75, 0.0, 1 * US, None)]


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ({"loss": {"link": "leaf0-spine7", "data": 1.0}}, "faults[0].loss.link: there is no link"),
        ({"bit_errors": {"link": "x", "ber": 0.1}}, "faults[0].bit_errors.link: there is no link"),
        ({"bit_errors": {"link": "leaf0-spine0", "ber": 0.6}}, "ber: should be less than"),
        ({"loss": {"link": "leaf0-spine0", "data": 1.5}}, "data: should be less than"),
    ],
)
def test_mistakes(fault: dict[str, Any], said: str) -> None:
    with pytest.raises(SourceError) as caught:
        _load({"at_us": 1, **fault})
    assert said in str(caught.value)


def test_a_frame_s_chance_by_hand() -> None:
    assert frame_loss(0.5, -3) == pytest.approx(1 - 0.5**8)  # one byte
    assert frame_loss(1e-12, 121) == pytest.approx(1_000e-12, rel=1e-6)  # 125 bytes with the FCS
    assert frame_loss(0.0, 1_500) == 0


def test_a_wire_loses_frames_at_that_rate_and_only_in_the_span() -> None:
    topology = _load().topology
    edge = topology.find_edges("leaf0->spine0")[0]
    clock = VirtualClock()
    lost: list[LossReason] = []
    arrived: list[bytes] = []
    # 121 bytes and FCS are 1000 bits: 1 - (1 - 1e-3)^1000 = 0.632.
    span = LossSpan(0.0, 0.0, 10, None, ber=1e-3)
    wire = Wire(
        edge,
        clock,
        FabricState(topology),
        arrived.append,
        lambda _edge, _frame, reason: lost.append(reason),
        [span],
        random.Random(5),
    )
    wire.send(bytes(121))
    clock.run(until_ps=10)
    assert not lost
    for _ in range(10_000):
        wire.send(bytes(121))
    assert set(lost) == {LossReason.RANDOM_LOSS}
    assert abs(len(lost) - 6_323) < 5 * 48.3
