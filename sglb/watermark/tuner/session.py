"""A scenario run twice, with its watermarks as they are and tuned while it runs; what came of it."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from sglb import programs
from sglb.fabric import bounds, metrics
from sglb.fabric.control import ControlPlane, FabricView
from sglb.fabric.kernel.simulation import NativeSimulation
from sglb.fabric.metrics import FlowStats, LossStats, PauseStats
from sglb.fabric.scenario import Scenario
from sglb.fabric.simulation import transport_config
from sglb.p4.compiler import compile  # noqa: A004 - the documented name
from sglb.switch.clock import PS_PER_NS, PS_PER_US
from sglb.watermark.from_scenario import watermarks
from sglb.watermark.objective import Weights
from sglb.watermark.settings import Watermarks
from sglb.watermark.space import Place, SearchSpace
from sglb.watermark.tuner.annealing import Annealer, Schedule, Step
from sglb.watermark.tuner.fabric import PortSetting, Timing, TunedFabric, Watch
from sglb.watermark.tuner.observation import Observation
from sglb.watermark.tuner.spaces import nearest_feasible, prior_of, search_space

__all__ = [
    "Held",
    "Options",
    "Outcome",
    "Tuned",
    "hold",
    "nearest_feasible",
    "run",
    "search_space",
    "setting",
    "tune",
]


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
class Held:
    """A run: how it went, what was seen in each interval, what every port had at the end."""

    outcome: Outcome
    seen: tuple[Observation, ...]
    ports: tuple[PortSetting, ...]


@dataclass(frozen=True, slots=True)
class Tuned:
    """Both runs; `steps` are the tuner's. `start` is the scenario's setting, `last` the tuner's last.

    A setting that no rule of the space allows is left before the first packet, for the nearest that is
    allowed. `before` and `after` are the ends of the two runs, port by port; `fixed_seen` and
    `tuned_seen` their intervals. `recalled`: how often the tuner knew traffic again.
    """

    fixed: Outcome
    tuned: Outcome
    start: Watermarks
    last: Watermarks
    steps: tuple[Step, ...]
    searches: int
    recalled: int
    space: SearchSpace
    fixed_seen: tuple[Observation, ...]
    tuned_seen: tuple[Observation, ...]
    before: tuple[PortSetting, ...]
    after: tuple[PortSetting, ...]


@dataclass(frozen=True, slots=True)
class Options:
    """What of a tuner a user may choose; `watch` makes what sees the fabric (see `TunedFabric`).

    `use_model`: search with the fluid model's prior. `schedule` None: the usual one, with a model a
    fourth as many tries of each temperature.
    """

    weights: Weights = field(default_factory=Weights)
    schedule: Schedule | None = None
    timing: Timing = field(default_factory=Timing)
    watch: Callable[[FabricView], Watch] | None = None
    use_model: bool = True


#: Told after each interval: what was seen, the setting, and whether it was the tuner's run.
Tell = Callable[[Observation, bool], None]


def tune(
    scenario: Scenario,
    policy: str,
    options: Options | None = None,
    tell: Tell | None = None,
    model_progress: Callable[[int, int], None] = lambda _done, _of: None,
    fixed: Held | None = None,
) -> Tuned:
    """Runs a scenario under one policy, fixed and tuned, with the same seed.

    `fixed` is the first of the runs, where it is known already. Raises `WatermarkError` for a scenario
    that has nothing to tune.
    """
    chosen = options or Options()
    space, given = search_space(scenario)
    start = nearest_feasible(space, given)
    settings = watermarks(scenario)

    def heard(seen: Observation) -> None:
        if tell is not None:
            tell(seen, False)

    held = fixed or hold(scenario, policy, settings, chosen, heard)
    prior = prior_of(scenario, space, start, model_progress) if chosen.use_model else None
    rng = random.Random(f"{scenario.model.seed}/tuner")
    schedule = chosen.schedule or Schedule(tries=1 if chosen.use_model else Schedule().tries)
    annealer = Annealer(space, start, rng, chosen.weights, schedule, prior)

    def follow(seen: Observation) -> Watermarks:
        if tell is not None:
            tell(seen, True)
        return setting(space, given, annealer.observed(seen))

    tuned = run(scenario, policy, setting(space, given, start), follow, chosen)
    return Tuned(
        fixed=held.outcome,
        tuned=tuned.outcome,
        start=settings,
        last=setting(space, given, annealer.place),
        steps=tuple(annealer.steps),
        searches=annealer.searches,
        recalled=annealer.recalled,
        space=space,
        fixed_seen=held.seen,
        tuned_seen=tuned.seen,
        before=held.ports,
        after=tuned.ports,
    )


def setting(space: SearchSpace, given: Place, place: Place) -> Watermarks:
    """What a place stands for; headroom as it is in `given` is left to the ports, each its own."""
    found = space.watermarks(place)
    at = [p.name for p in space.parameters].index("headroom_bytes")
    return replace(found, headroom_bytes=None) if place[at] == given[at] else found


def hold(
    scenario: Scenario,
    policy: str,
    settings: Watermarks,
    options: Options | None = None,
    heard: Callable[[Observation], None] = lambda _seen: None,
) -> Held:
    """Runs a scenario with one setting from beginning to end."""

    def same(seen: Observation) -> Watermarks:
        heard(seen)
        return settings

    return run(scenario, policy, settings, same, options or Options())


def run(
    scenario: Scenario,
    policy: str,
    first: Watermarks,
    decide: Callable[[Observation], Watermarks],
    options: Options,
) -> Held:
    """Runs a scenario in which `decide` judges each interval and says what comes next."""
    latency_ps = round(scenario.model.switch.pipeline_latency_ns * PS_PER_NS)
    transport = transport_config(scenario)
    ideal = bounds.ideal_fct_ps(scenario.topology, scenario.workload, transport, latency_ps)
    seen: list[Observation] = []
    planes: list[TunedFabric] = []

    def note(one: Observation) -> Watermarks:
        seen.append(one)
        return decide(one)

    def control(view: FabricView) -> ControlPlane:
        planes.append(TunedFabric(view, first, note, options.timing, options.watch))
        return planes[-1]

    found = NativeSimulation(scenario, policy, compile(programs.glb()), control).run()
    completion = metrics.completion_ps(found.log, scenario.workload)
    counted = [one.score(options.weights) for one in seen if not one.idle]
    outcome = Outcome(
        completion_us=None if completion is None else completion / PS_PER_US,
        flows=metrics.flow_stats(found.log, scenario.workload, ideal),
        losses=metrics.losses(found.log, list(found.hosts.values())),
        pauses=found.pauses,
        score=sum(counted) / len(counted) if counted else 0.0,
        intervals=len(counted),
    )
    return Held(outcome, tuple(seen), planes[0].in_force())
