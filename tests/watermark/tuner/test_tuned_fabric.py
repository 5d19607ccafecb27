"""The tuner on a fabric: what it sets is what the switches hold, what it sees is what happened."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest
from finsy import P4TableEntry

from sglb import programs
from sglb.fabric import scenario as scenarios
from sglb.fabric.kernel.simulation import NativeSimulation
from sglb.p4.compiler import compile as compile_p4
from sglb.switch.core import model as m
from sglb.switch.core.buffer import class_at, node_at
from sglb.switch.p4runtime.client import InProcessClient
from sglb.watermark.errors import WatermarkError
from sglb.watermark.settings import Watermarks
from sglb.watermark.tuner.fabric import Timing, TunedFabric
from sglb.watermark.tuner.observation import Observation
from sglb.watermark.tuner.session import Options, nearest_feasible, search_space, tune

EXAMPLE = Path(__file__).parents[3] / "examples" / "tune" / "ecn-above-pfc.yaml"
SMALL = {
    "name": "small",
    "seed": 1,
    "engine": "native",
    "topology": {"leaf_spine": {"leaves": 2, "spines": 1, "hosts_per_leaf": 2}},
    "workload": {"incast": {"to": "h3", "from": ["h0", "h1"], "bytes": 4_000_000}},
    "switch": {
        "buffer": {
            "total_bytes": 4_194_304,
            "dynamic_th": -1,
            "classes": [{"class": 3, "lossless": True, "scheduling": "dwrr", "weight": 1}],
        },
        "pfc": {"enabled": True},
        "ecn": {"kmin_bytes": 100_000, "kmax_bytes": 400_000, "pmax": 0.2},
    },
    "transport": {"traffic_class": 3, "window_packets": None, "dcqcn": {"enabled": True}},
    "policies": ["ecmp"],
    "stop_us": 20_000,
}
OTHER = Watermarks(
    kmin_bytes=64_000, kmax_bytes=256_000, pmax=0.5, alpha=0.25, xon_offset_bytes=9_000
)


SHORT = Timing(50, 100, 4)


def run(model, decide, timing=SHORT, first=OTHER):
    simulation = NativeSimulation(
        scenarios.from_dict(model),
        "ecmp",
        compile_p4(programs.glb()),
        lambda view: TunedFabric(view, first, decide, timing),
    )
    return simulation, simulation.run()


def test_a_setting_is_what_every_switch_holds() -> None:
    simulation, found = run(SMALL, lambda seen: OTHER)
    assert found.completed
    for service in simulation.services.values():
        client = InProcessClient(service, 99)
        entries = client.read(P4TableEntry("FabricEgress.ecn.watermarks"))
        own = [e for e in entries if e.match["class"] == 3]
        assert own
        unit = 80  # cells
        for entry in own:
            args = {name: int(value) for name, value in entry.action.args.items()}
            kmin, kmax = 64_000 // unit, 256_000 // unit
            assert args == {"kmin": kmin, "kmax": kmax, "slope": 2**31 // (kmax - kmin)}
        # The other classes keep the controller's.
        others = {int(e.action.args["kmin"]) for e in entries if e.match["class"] != 3}
        assert others == {100_000 // unit}
    core = next(iter(simulation.switches.values())).core
    w = core.memory.world.w
    at = class_at(core.memory.world, node_at(core.memory.world, core.node), 3)
    assert Fraction(int(w[at + m.C_ALPHA_NUM]), int(w[at + m.C_ALPHA_DEN])) == Fraction(1, 4)
    assert w[at + m.C_XON_OFFSET] == 9_000


def test_what_is_seen_is_what_happened() -> None:
    seen: list[Observation] = []

    def watch(one: Observation) -> Watermarks:
        seen.append(one)
        return OTHER

    _, found = run(SMALL, watch)
    assert found.drops.get("headroom exceeded", 0) == 0
    busy = [one for one in seen if not one.idle]
    assert len(busy) > 3
    for one in busy:
        assert one.duration_us == pytest.approx(100.0)
        assert one.lost_packets == 0
        # Two of four hosts send to one.
        assert one.fan_in in (1.0, 2.0)
        assert one.load in (2 / 8, 3 / 8)
        assert 0 < one.throughput <= 1
        assert 0 < one.delay <= 1
        assert 0 <= one.unpaused <= 1
    # 8 MB over one link of 100 Gbit/s take 640 us and more; its queue holds some of that.
    assert busy[0].delay < 0.9


def test_marking_sooner_shortens_queues() -> None:
    def mean_delay(kmin_bytes: float, kmax_bytes: float) -> float:
        setting = Watermarks(kmin_bytes, kmax_bytes, 1.0, 0.5)
        seen: list[Observation] = []

        def watch(one: Observation) -> Watermarks:
            seen.append(one)
            return setting

        run(SMALL, watch, first=setting)
        delays = [one.delay for one in seen if not one.idle]
        return sum(delays) / len(delays)

    assert mean_delay(10_000, 40_000) > mean_delay(1_000_000, 1_500_000)


def test_a_scenario_where_pfc_acts_before_ecn_is_mended() -> None:
    small = SMALL | {
        "topology": {"leaf_spine": {"leaves": 2, "spines": 2, "hosts_per_leaf": 8}},
        "workload": {"all_to_all": {"bytes_per_pair": 1_500_000}},
        "switch": SMALL["switch"]
        | {
            "buffer": SMALL["switch"]["buffer"] | {"dynamic_th": -3},
            "ecn": {"kmin_bytes": 1_048_576, "kmax_bytes": 2_097_152, "pmax": 0.05},
        },
    }
    scenario = scenarios.from_dict(small)
    space, given = search_space(scenario)
    assert space.why_not(given) == "PFC before ECN"
    assert space.why_not(nearest_feasible(space, given)) is None
    found = tune(scenario, "ecmp", Options(timing=Timing(50, 150, 8)))
    assert found.tuned.pauses.paused_us < 0.5 * found.fixed.pauses.paused_us
    assert found.tuned.losses.data == found.fixed.losses.data == 0
    assert found.tuned.score > found.fixed.score
    assert found.start.kmin_bytes == 1_048_576
    assert all(space.why_not(step.place) is None for step in found.steps)


def test_same_seed_same_run() -> None:
    options = Options(timing=Timing(20, 80, 4))
    scenario = scenarios.from_dict(SMALL)
    found = tune(scenario, "ecmp", options)
    assert len(found.steps) > 5
    assert tune(scenario, "ecmp", options) == found
    other = tune(scenarios.from_dict(SMALL | {"seed": 2}), "ecmp", options)
    assert other.steps != found.steps


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"pfc": {"enabled": False}}, "nothing to tune"),
        ({"pfc": {"enabled": True, "xoff_bytes": 200_000}}, "must be dynamic"),
        (
            {"ecn": {"kmin_bytes": 40_000_000, "kmax_bytes": 80_000_000}},
            "own kmin_bytes must be from 0 to .* bytes, got 40000000",
        ),
    ],
)
def test_what_cannot_be_tuned(changes: dict[str, object], text: str) -> None:
    model = SMALL | {"switch": SMALL["switch"] | changes}
    with pytest.raises(WatermarkError, match=text):
        search_space(scenarios.from_dict(model))


def test_the_example_is_one() -> None:
    space, given = search_space(scenarios.load(EXAMPLE))
    assert space.why_not(given) == "PFC before ECN"
