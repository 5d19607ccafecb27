"""A scenario run twice on live switches, with its watermarks as they are and tuned while packets run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, Literal, Protocol

from pydantic import TypeAdapter

from sglb import programs
from sglb.fabric.advance import Advance
from sglb.fabric.bounds import ideal_fct_ps, lower_bound
from sglb.fabric.live.lossless import RESPONSE_PS
from sglb.fabric.live.run import LiveJob, run_job
from sglb.fabric.live.scaled import default_scale, patient, scaled
from sglb.fabric.lossless import port_headroom_bytes
from sglb.fabric.report import PolicyReport
from sglb.fabric.scenario import Scenario
from sglb.fabric.schema_lossless import BufferBlock, PfcBlock
from sglb.fabric.simulation import transport_config
from sglb.fabric.workers import JobsInterrupted
from sglb.p4.compiler import compile  # noqa: A004 - the documented name
from sglb.switch.clock import PS_PER_S
from sglb.watermark.errors import WatermarkError
from sglb.watermark.from_scenario import watermarks
from sglb.watermark.live.process import NAME, LiveTuner
from sglb.watermark.objective import Weights
from sglb.watermark.settings import Watermarks
from sglb.watermark.space import Place, SearchSpace
from sglb.watermark.tuner.annealing import Schedule, Step
from sglb.watermark.tuner.fabric import PortSetting
from sglb.watermark.tuner.observation import Observation
from sglb.watermark.tuner.spaces import nearest_feasible, search_space

#: What runs the switches.
Target = Literal["live", "bmv2"]

_STEPS: Final = TypeAdapter(list[Step])


@dataclass(frozen=True, slots=True)
class LiveOptions:
    """What a user may choose."""

    interval_s: float = 0.5
    weights: Weights = field(default_factory=Weights)
    schedule: Schedule = field(default_factory=Schedule)
    target: Target = "live"

    def judging(self) -> Weights:
        """The weights that count there: BMv2 has no pauses, so theirs is 0."""
        return replace(self.weights, pauses=0.0) if self.target == "bmv2" else self.weights


@dataclass(frozen=True, slots=True)
class LiveRun:
    """One of the runs: how it went, and what the tuner's process said of it.

    One that was interrupted (`report.interrupted`) says what had happened by then.
    """

    report: PolicyReport
    tuner: Mapping[str, Any]

    @property
    def score(self) -> float:
        """The mean over intervals in which something moved."""
        scores = self.tuner["score"]
        return sum(scores) / len(scores) if scores else 0.0

    @property
    def seen(self) -> tuple[Observation, ...]:
        """What was seen in each interval."""
        return tuple(Observation(**one) for one in self.tuner["seen"])

    @property
    def steps(self) -> tuple[Step, ...]:
        """The tuner's."""
        return tuple(_STEPS.validate_python(self.tuner["steps"]))

    @property
    def ports(self) -> tuple[PortSetting, ...]:
        """What each port had at the end, as the tuner read it back."""
        return tuple(PortSetting(**one) for one in self.tuner["ports"])


@dataclass(frozen=True, slots=True)
class LiveTuned:
    """Both runs, rates divided by `scale`; `start` is the scenario's setting, `last` the tuner's.

    When it was `interrupted`, the run that was cut off is the last that is not None.
    """

    fixed: LiveRun | None
    tuned: LiveRun | None
    start: Watermarks
    last: Watermarks
    space: SearchSpace
    scale: int
    interrupted: bool = False


class Kept(Protocol):
    """Where runs that have ended are kept, by kind (`fixed`, `tuned`)."""

    def run(self, kind: str) -> LiveRun | None:
        """A run that ended earlier."""

    def keep(self, kind: str, run: LiveRun) -> None:
        """A run that has ended."""


def tune_live(
    scenario: Scenario,
    policy: str,
    options: LiveOptions | None = None,
    progress: Callable[[str, Advance], None] | None = None,
    kept: Kept | None = None,
) -> LiveTuned:
    """Runs a scenario under one policy on live switches, fixed and tuned; needs root.

    `progress` is told the kind of the run. Ctrl-C ends it with what is known by then. Raises
    `LiveError` for what cannot be had here, `WatermarkError` for what has nothing to tune, or a switch
    that can't be set, `WorkerError` for a run that failed.
    """
    chosen = options or LiveOptions()
    real, space, given = _real(scenario, chosen.target)
    start = nearest_feasible(space, given)
    seed, weights = scenario.model.seed, chosen.judging()
    watch = LiveTuner(None, (), chosen.interval_s, seed, weights, chosen.schedule)
    tuner = LiveTuner(space, start, chosen.interval_s, seed, weights, chosen.schedule)
    runs: dict[str, LiveRun] = {}
    interrupted = False
    for kind, beside in (("fixed", watch), ("tuned", tuner)):
        run = None if kept is None else kept.run(kind)
        if run is None:
            run, interrupted = _run(
                real, policy, beside, chosen.target, partial(_told, progress, kind)
            )
            if run is not None and not interrupted and kept is not None:
                kept.keep(kind, run)
        if run is not None:
            runs[kind] = run
        if interrupted:
            break
    tuned = runs.get("tuned")
    settings = tuned.tuner["settings"] if tuned else []
    return LiveTuned(
        fixed=runs.get("fixed"),
        tuned=tuned,
        start=watermarks(scenario),
        last=Watermarks(**settings[-1]) if settings else space.watermarks(start),
        space=space,
        scale=real.model.live.rate_scale or 1,
        interrupted=interrupted,
    )


def _real(scenario: Scenario, target: Target) -> tuple[Scenario, SearchSpace, Place]:
    """The scenario in real time, its search space, and where it stands in that."""
    if target == "bmv2":
        space, given = ecn_space(scenario)
        slow = patient(scenario)
        scale = slow.model.live.rate_scale
        assert scale is not None
        return scaled(without_pauses(slow), scale, target), space, given
    scale = scenario.model.live.rate_scale or default_scale(scenario)
    real = scaled(scenario, scale)
    return real, *live_space(real)


class EcnSpace(SearchSpace):
    """A search space of switches without pauses and shared buffer, like BMv2: only marking is judged."""

    @property
    def needed_headroom_bytes(self) -> int:
        """None."""
        return 0

    def why_not(self, place: Place) -> str | None:
        """Which rule forbids a setting."""
        value = self.values(place)
        return "Kmin above Kmax" if value["kmin_bytes"] > value["kmax_bytes"] else None


def ecn_space(scenario: Scenario) -> tuple[EcnSpace, Place]:
    """Kmin, Kmax and Pmax, with all else as the scenario has it. Raises as `search_space`."""
    found, given = search_space(scenario, {"dynamic_th": ()})
    space = EcnSpace(found.parameters, found.device, found.port, found.queues, found.classes)
    return space, given


def without_pauses(scenario: Scenario) -> Scenario:
    """The scenario as BMv2 can have it: no PFC, queues of the buffer's size, the class's marking."""
    model = scenario.model
    total = model.switch.buffer.total_bytes or model.switch.queue_bytes
    switch = model.switch.model_copy(
        update={
            "pfc": PfcBlock(),
            "buffer": BufferBlock(),
            "ecn": model.switch.ecn_of(model.transport.traffic_class),
            "queue_bytes": total,
        }
    )
    return replace(scenario, model=model.model_copy(update={"switch": switch}))


def _told(
    progress: Callable[[str, Advance], None] | None, kind: str, _policy: str, advance: Advance
) -> None:
    if progress is not None:
        progress(kind, advance)


def live_space(scenario: Scenario) -> tuple[SearchSpace, Place]:
    """The search space of a scenario in real time: headroom is what live switches are given."""
    model, topology = scenario.model, scenario.topology
    sizes = [
        port_headroom_bytes(link.spec, model.switch, model.transport)
        + link.spec.rate_bps * RESPONSE_PS // PS_PER_S // 8
        for link in topology.links
    ]
    pfc = model.switch.pfc.model_copy(update={"headroom_bytes": max(sizes)})
    switch = model.switch.model_copy(update={"pfc": pfc})
    return search_space(replace(scenario, model=model.model_copy(update={"switch": switch})))


def _run(
    scenario: Scenario,
    policy: str,
    tuner: LiveTuner,
    target: Target,
    progress: Callable[[str, Advance], None],
) -> tuple[LiveRun | None, bool]:
    """A run, None if it was interrupted before its traffic began; and whether it was interrupted."""
    transport = transport_config(scenario)
    bound = lower_bound(scenario.topology, scenario.faults, scenario.workload, transport, 0)
    ideal = tuple(ideal_fct_ps(scenario.topology, scenario.workload, transport, 0))
    job = LiveJob(
        scenario,
        (policy,),
        compile(programs.glb()),
        "default",
        bound,
        ideal,
        target,
        None,
        programs.glb(),
        tuner,
    )
    interrupted = False
    try:
        reports = run_job(job, progress)
    except JobsInterrupted as stopped:
        reports, interrupted = stopped.reports, True
    if not reports:
        return None, interrupted
    said = reports[0].control.get(NAME)
    if not isinstance(said, dict) or "score" not in said:
        if interrupted:
            return None, True
        raise WatermarkError(f"{scenario.model.name}: the tuner's process left no report")
    return LiveRun(reports[0], said), interrupted
