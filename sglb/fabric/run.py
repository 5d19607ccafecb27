"""A scenario under several policies, each in a process of its own: `run` is what `sglb run` calls."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from sglb import programs
from sglb.fabric.advance import Advance
from sglb.fabric.bounds import LowerBound, ideal_fct_ps, lower_bound
from sglb.fabric.control import ControlPlaneFactory, load_control_plane
from sglb.fabric.engine_limits import only_native
from sglb.fabric.packet_trace import TraceRequest, TraceRequestError
from sglb.fabric.policy_job import PolicyJob
from sglb.fabric.report import BoundReport, PolicyReport, RunReport
from sglb.fabric.scenario import Scenario, load, ns_to_ps
from sglb.fabric.simulation import transport_config
from sglb.fabric.topology import closest
from sglb.fabric.workers import JobsInterrupted, run_jobs
from sglb.p4.compiler import CompiledProgram, compile  # noqa: A004 - the documented name
from sglb.versions import versions

#: What runs the switches: virtual time, embedded switches on veth, or BMv2 on veth.
Target = Literal["sim", "live", "bmv2"]
#: `progress(policy, advance)`: how far one policy's run has come.
Progress = Callable[[str, Advance], None]


class RunInterrupted(KeyboardInterrupt):
    """Ctrl-C during a run; `report` has what is known of each policy, and says so."""

    def __init__(self, report: RunReport) -> None:
        super().__init__()
        self.report = report


class UnknownPolicyError(ValueError):
    """A policy that the scenario does not compare."""


@dataclass(frozen=True, slots=True)
class LiveOptions:
    """Options of `on="live"`.

    `rate_scale` goes before the scenario's `live.rate_scale`; `logs` is a folder that gets a folder a
    policy with the logs of all processes.
    """

    rate_scale: int | None = None
    logs: Path | None = None


def run(
    scenario: Scenario | str | Path,
    *,
    policies: Sequence[str] | None = None,
    program: CompiledProgram | str | Path | None = None,
    control_plane: str | ControlPlaneFactory = "default",
    jobs: int | None = None,
    trace: TraceRequest | None = None,
    progress: Progress | None = None,
    on: Target = "sim",
    live: LiveOptions = LiveOptions(),
) -> RunReport:
    """Run a scenario under each policy and report what happened to the packets.

    `on` is where: `sim` in virtual time, `live` on embedded switches in network namespaces (Linux, root;
    `live` has options for it). What follows is about `sim`; on others policies run one after the other,
    and `trace` is not to be had.

    `scenario` is a loaded one or a file's path. `policies` are some of the scenario's, all by default.
    `program` is what every switch runs (a path or a compiled program; by default the one that comes
    with sglb), `control_plane` who fills and steers the switches: the name of an installed one or a
    factory. At most `jobs` policies run at a time, by default one for each processor; the result is
    the same for any number. `trace` asks for one packet's way under the last policy that runs; all
    then run on the reference engine, the only one that can tell.

    Raises `SourceError` for a bad scenario, `P4Errors` for a bad program, `UnknownPolicyError`,
    `ControlPlaneNotFoundError`, `TraceRequestError`, `BoundError` when the workload can never
    complete, `WorkerError` when a run fails, and `BoundViolation` when a result is impossibly good.
    Ctrl-C ends all processes and raises `RunInterrupted`.
    """
    given = scenario if isinstance(scenario, Scenario) else load(scenario)
    chosen = _chosen(given, policies)
    if on != "sim":
        if on == "bmv2" and isinstance(program, CompiledProgram):
            raise TypeError("BMv2 has its own compiler: give the program as a path")
        source = Path(program) if isinstance(program, str | Path) else programs.glb()
        return _run_live(
            given, chosen, _program(program), control_plane, trace, progress, on, live, source
        )
    if trace is not None:
        given = traceable(given)
        trace.check(given)
    compiled = _program(program)
    if isinstance(control_plane, str):
        load_control_plane(control_plane)  # a wrong name is better told before anything runs
    made = make_jobs(given, chosen, compiled, control_plane, trace)
    try:
        reports = run_jobs(made, jobs or _processors(), progress)
    except JobsInterrupted as stopped:
        partial = _report(given, compiled, made[0].bound, stopped.reports)
        raise RunInterrupted(replace(partial, interrupted=True)) from None
    return _report(given, compiled, made[0].bound, reports)


def _run_live(
    scenario: Scenario,
    policies: list[str],
    program: CompiledProgram,
    control_plane: str | ControlPlaneFactory,
    trace: TraceRequest | None,
    progress: Progress | None,
    on: Target,
    options: LiveOptions,
    source: Path,
) -> RunReport:
    # Here, as simulated runs need none of it.
    from sglb.fabric.live.control import load_live_control_plane
    from sglb.fabric.live.run import LiveJob, run_job
    from sglb.fabric.live.scaled import check_time, default_scale, patient, scaled

    if trace is not None:
        raise TraceRequestError(f"packets are traced on --on sim, not on --on {on}")
    if not isinstance(control_plane, str):
        raise TypeError("a live control plane is known by its name")
    load_live_control_plane(control_plane)
    if on == "bmv2":
        scenario = patient(scenario)
    scale = options.rate_scale or scenario.model.live.rate_scale or default_scale(scenario)
    given = scaled(scenario, scale, on)
    transport = transport_config(given)
    bound = lower_bound(given.topology, given.faults, given.workload, transport, 0)
    check_time(given, bound.completion_ps)
    ideal = tuple(ideal_fct_ps(given.topology, given.workload, transport, 0))
    names = tuple(policies)
    job = LiveJob(given, names, program, control_plane, bound, ideal, on, options.logs, source)
    try:
        reports = run_job(job, progress)
    except JobsInterrupted as stopped:
        partial = _report(given, program, bound, stopped.reports)
        raise RunInterrupted(replace(partial, interrupted=True)) from None
    return _report(given, program, bound, reports)


def traceable(scenario: Scenario) -> Scenario:
    """The scenario on the reference engine. Raises `TraceRequestError` when that cannot run it."""
    if scenario.model.engine == "reference":
        return scenario
    for path in only_native(scenario.model):
        key = ".".join(map(str, path))
        raise TraceRequestError(
            f"{scenario.file}: packets are traced on the reference engine, which does not know {key}"
        )
    return replace(scenario, model=scenario.model.model_copy(update={"engine": "reference"}))


def make_jobs(
    scenario: Scenario,
    policies: Sequence[str],
    program: CompiledProgram,
    control_plane: str | ControlPlaneFactory = "default",
    trace: TraceRequest | None = None,
) -> list[PolicyJob]:
    """One job for each policy, the trace in the last; raises `BoundError`."""
    transport = transport_config(scenario)
    latency_ps = ns_to_ps(scenario.model.switch.pipeline_latency_ns)
    bound = lower_bound(
        scenario.topology, scenario.faults, scenario.workload, transport, latency_ps
    )
    ideal = tuple(ideal_fct_ps(scenario.topology, scenario.workload, transport, latency_ps))
    return [
        PolicyJob(
            scenario,
            policy,
            program,
            control_plane,
            bound,
            ideal,
            trace if policy == policies[-1] else None,
        )
        for policy in policies
    ]


def _chosen(scenario: Scenario, policies: Sequence[str] | None) -> list[str]:
    if policies is None:
        return list(scenario.policies)
    for policy in policies:
        if policy not in scenario.policies:
            known = ", ".join(scenario.policies)
            raise UnknownPolicyError(
                f"{scenario.file}: there is no policy {policy!r}, the scenario compares {known}"
                f"{closest(policy, scenario.policies)}"
            )
    return list(dict.fromkeys(policies))


def _program(program: CompiledProgram | str | Path | None) -> CompiledProgram:
    if isinstance(program, CompiledProgram):
        return program
    return compile(programs.glb() if program is None else Path(program))


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _report(
    scenario: Scenario,
    program: CompiledProgram,
    bound: LowerBound,
    reports: Sequence[PolicyReport],
) -> RunReport:
    return RunReport(
        scenario.model.model_dump(mode="json", by_alias=True),
        scenario.name,
        scenario.model.seed,
        versions() | {"program": program.digest},
        BoundReport.all_of(bound),
        {report.policy: report for report in reports},
    )
