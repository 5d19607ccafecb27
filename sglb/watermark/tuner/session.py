"""A scenario run twice, with its watermarks as they are and tuned while it runs; what came of it."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from sglb import programs
from sglb.fabric import bounds, metrics
from sglb.fabric.control import ControlPlane, FabricView
from sglb.fabric.kernel.simulation import NativeSimulation
from sglb.fabric.lossless import port_headroom_bytes
from sglb.fabric.metrics import FlowStats, LossStats, PauseStats
from sglb.fabric.scenario import Scenario
from sglb.fabric.simulation import transport_config
from sglb.p4.compiler import compile  # noqa: A004 - the documented name
from sglb.switch.clock import PS_PER_NS, PS_PER_S, PS_PER_US
from sglb.watermark.device import DEVICES, METRES_PER_S, Device, Port
from sglb.watermark.errors import WatermarkError
from sglb.watermark.from_scenario import watermarks
from sglb.watermark.objective import Weights
from sglb.watermark.settings import Watermarks
from sglb.watermark.space import Parameter, Place, SearchSpace, grid
from sglb.watermark.tuner.annealing import Annealer, Schedule, Step
from sglb.watermark.tuner.fabric import Timing, TunedFabric, Watch
from sglb.watermark.tuner.observation import Observation


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run went. `completion_us` is None when it was given up; `score` is the mean of intervals."""

    completion_us: float | None
    flows: FlowStats
    losses: LossStats
    pauses: PauseStats
    score: float
    intervals: int


@dataclass(frozen=True, slots=True)
class Tuned:
    """Both runs; `steps` are the tuner's. `start` is the scenario's setting, `last` the tuner's last.

    A setting that no rule of the space allows is left before the first packet, for the nearest that is
    allowed.
    """

    fixed: Outcome
    tuned: Outcome
    start: Watermarks
    last: Watermarks
    steps: tuple[Step, ...]
    searches: int
    space: SearchSpace


@dataclass(frozen=True, slots=True)
class Options:
    """What of a tuner a user may choose; `watch` makes what sees the fabric (see `TunedFabric`)."""

    weights: Weights = field(default_factory=Weights)
    schedule: Schedule = field(default_factory=Schedule)
    timing: Timing = field(default_factory=Timing)
    watch: Callable[[FabricView], Watch] | None = None


#: Told after each interval: what was seen, the setting, and whether it was the tuner's run.
Tell = Callable[[Observation, bool], None]


def tune(
    scenario: Scenario, policy: str, options: Options | None = None, tell: Tell | None = None
) -> Tuned:
    """Runs a scenario under one policy, fixed and tuned, with the same seed.

    Raises `WatermarkError` for a scenario that has nothing to tune.
    """
    chosen = options or Options()
    space, given = search_space(scenario)
    start = nearest_feasible(space, given)
    rng = random.Random(f"{scenario.model.seed}/tuner")
    annealer = Annealer(space, start, rng, chosen.weights, chosen.schedule)
    settings = watermarks(scenario)

    def hold(seen: Observation) -> Watermarks:
        scores.append(seen)
        if tell is not None:
            tell(seen, False)
        return settings

    def follow(seen: Observation) -> Watermarks:
        scores.append(seen)
        if tell is not None:
            tell(seen, True)
        return space.watermarks(annealer.observed(seen))

    scores: list[Observation] = []
    fixed = _run(scenario, policy, settings, hold, chosen, scores)
    scores = []
    tuned = _run(scenario, policy, space.watermarks(start), follow, chosen, scores)
    return Tuned(
        fixed=fixed,
        tuned=tuned,
        start=settings,
        last=space.watermarks(annealer.place),
        steps=tuple(annealer.steps),
        searches=annealer.searches,
        space=space,
    )


def _run(
    scenario: Scenario,
    policy: str,
    first: Watermarks,
    decide: Callable[[Observation], Watermarks],
    options: Options,
    scores: list[Observation],
) -> Outcome:
    latency_ps = round(scenario.model.switch.pipeline_latency_ns * PS_PER_NS)
    transport = transport_config(scenario)
    ideal = bounds.ideal_fct_ps(scenario.topology, scenario.workload, transport, latency_ps)

    def control(view: FabricView) -> ControlPlane:
        return TunedFabric(view, first, decide, options.timing, options.watch)

    found = NativeSimulation(scenario, policy, compile(programs.glb()), control).run()
    completion = metrics.completion_ps(found.log, scenario.workload)
    counted = [seen.score(options.weights) for seen in scores if not seen.idle]
    return Outcome(
        completion_us=None if completion is None else completion / PS_PER_US,
        flows=metrics.flow_stats(found.log, scenario.workload, ideal),
        losses=metrics.losses(found.log, list(found.hosts.values())),
        pauses=found.pauses,
        score=sum(counted) / len(counted) if counted else 0.0,
        intervals=len(counted),
    )


def search_space(scenario: Scenario) -> tuple[SearchSpace, Place]:
    """The space for a scenario's switches, with the scenario's own setting as one of its places.

    Headroom is the scenario's. Raises `WatermarkError` for a scenario without PFC or DCQCN.
    """
    model = scenario.model
    if not (model.switch.pfc.enabled and model.transport.dcqcn.enabled):
        raise WatermarkError(
            f"{model.name}: there is nothing to tune without switch.pfc.enabled and "
            "transport.dcqcn.enabled"
        )
    if model.switch.pfc.xoff_bytes != "dynamic":
        raise WatermarkError(f"{model.name}: switch.pfc.xoff_bytes must be dynamic to be tuned")
    port, headroom = _port(scenario)
    device = _device(scenario)
    own = watermarks(scenario)
    space = grid(device, port)
    wanted = {
        "kmin_bytes": own.kmin_bytes,
        "kmax_bytes": own.kmax_bytes,
        "pmax": own.pmax,
        "dynamic_th": _exponent(own.alpha),
        "xon_offset_bytes": own.xon_offset_bytes,
        "headroom_bytes": float(headroom),
    }
    parameters, place = [], []
    for parameter in space.parameters:
        levels = _with(parameter, wanted[parameter.name])
        parameters.append(levels)
        place.append(levels.levels.index(wanted[parameter.name]))
    found = SearchSpace(tuple(parameters), device, port, space.queues, space.classes)
    return found, tuple(place)


def nearest_feasible(space: SearchSpace, place: Place) -> Place:
    """The place itself, or the one with the fewest steps from it that the space's rules allow.

    Headroom stays. Raises `WatermarkError` when there is none.
    """
    seen, waiting = {place}, deque([place])
    while waiting:
        one = waiting.popleft()
        if space.why_not(one) is None:
            return one
        for at, parameter in enumerate(space.parameters):
            if parameter.name == "headroom_bytes":
                continue
            for step in (-1, 1):
                other = (*one[:at], one[at] + step, *one[at + 1 :])
                if 0 <= other[at] < len(parameter.levels) and other not in seen:
                    seen.add(other)
                    waiting.append(other)
    raise WatermarkError(f"no setting is allowed beside this headroom: {space.why_not(place)}")


def _exponent(alpha: float) -> float:
    exponent = alpha.hex().split("p")[1]
    if float(2) ** int(exponent) != alpha:
        raise WatermarkError(f"alpha must be a power of 2 to be tuned, got {alpha:g}")
    return float(exponent)


def _with(parameter: Parameter, value: float) -> Parameter:
    """A parameter's levels and one more, alone for headroom; the device's unit gives way to it."""
    levels = () if parameter.name == "headroom_bytes" else parameter.levels
    found = tuple(sorted({*levels, value}))
    step = parameter.step if parameter.name == "dynamic_th" else 0.01
    step = step if parameter.unit != "bytes" else 1.0
    return Parameter(parameter.name, parameter.unit, parameter.low, parameter.high, step, found)


def _device(scenario: Scenario) -> Device:
    total = scenario.buffer.total_bytes
    simulated = DEVICES["simulated"]
    return Device(
        "simulated",
        total,
        simulated.cell_bytes,
        simulated.pipeline_bytes,
        simulated.mac_phy_bytes,
        simulated.dynamic_th,
    )


def _port(scenario: Scenario) -> tuple[Port, int]:
    """The largest switch's ports, with the longest and fastest link of any; and that one's headroom."""
    model, topology = scenario.model, scenario.topology
    spec = max((link.spec for link in topology.links), key=lambda s: s.rate_bps * s.delay_ps)
    port = Port(
        rate_gbps=spec.rate_bps / 1e9,
        cable_m=spec.delay_ps / PS_PER_S * METRES_PER_S,
        mtu_bytes=model.transport.mtu_bytes,
        port_mtu_bytes=model.transport.mtu_bytes,
        ports=max(len(topology.ports(switch.id)) for switch in topology.switches),
        lossless_classes=sum(c.lossless for c in scenario.buffer.classes),
    )
    return port, port_headroom_bytes(spec, model.switch, model.transport)
