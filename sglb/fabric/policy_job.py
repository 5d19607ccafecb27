"""One policy of a scenario, run and summed up: what a worker process does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from sglb.fabric import metrics
from sglb.fabric.bounds import LowerBound
from sglb.fabric.control import ControlPlaneFactory, load_control_plane
from sglb.fabric.packet_trace import Follower, TraceRequest
from sglb.fabric.recovery import recoveries
from sglb.fabric.report import FlowsReport, PolicyReport, RecoveryReport, to_us, worst
from sglb.fabric.scenario import Scenario
from sglb.fabric.simulation import PolicyRun, Simulation
from sglb.p4.compiler import CompiledProgram


@dataclass(frozen=True, slots=True)
class PolicyJob:
    """All that one policy's run needs; `ideal_fct_ps` is by flow id (see `bounds`)."""

    scenario: Scenario
    policy: str
    program: CompiledProgram
    control_plane: str | ControlPlaneFactory
    bound: LowerBound
    ideal_fct_ps: tuple[int, ...]
    trace: TraceRequest | None = None

    def run(self, progress: Callable[[int, int], None] | None = None) -> PolicyReport:
        """Run it. Raises what the control plane raises, and `BoundViolation`."""
        control = self.control_plane
        factory = load_control_plane(control) if isinstance(control, str) else control
        follower = None if self.trace is None else Follower(self.scenario, self.trace)
        recorder = None if follower is None else follower.recorder
        simulation = Simulation(self.scenario, self.policy, self.program, factory, recorder)
        if follower is not None:
            follower.watch(simulation.log)
        report = self._summary(simulation.run(progress))
        if follower is None:
            return report
        return replace(report, trace=follower.tell(self.policy, self.program.p4info))

    def _summary(self, run: PolicyRun) -> PolicyReport:
        scenario = self.scenario
        hosts = list(run.hosts.values())
        completion_ps = metrics.completion_ps(run.log, scenario.workload)
        if completion_ps is not None:
            self.bound.check(completion_ps)
        metrics.in_flight(run.log, hosts)  # raises when packets came out of nowhere
        lost = metrics.losses(run.log, hosts)
        found = tuple(RecoveryReport.of(r) for r in recoveries(run.log, scenario.topology))
        flows = metrics.flow_stats(run.log, scenario.workload, self.ideal_fct_ps)
        best_ps = self.bound.completion_ps
        return PolicyReport(
            policy=self.policy,
            completed=completion_ps is not None,
            completion_us=None if completion_ps is None else to_us(completion_ps),
            lower_bound_us=to_us(best_ps),
            ratio=None if completion_ps is None else completion_ps / best_ps,
            lost_packets=lost.data,
            max_queue_bytes=run.max_queue_bytes,
            max_queue_at=self._place(run.max_queue_at),
            recovery=worst(found),
            recoveries=found,
            flows=FlowsReport.of(flows),
            losses=lost,
            transport=metrics.transport_stats(hosts),
            drops=dict(sorted(run.drops.items())),
            control=run.control,
            end_us=to_us(run.end_ps),
            wire_frames=run.wire_frames,
        )

    def _place(self, at: tuple[int, int]) -> str:
        """`leaf0 to spine1` for a (switch id, port), "" for none."""
        switch_id, port = at
        if not switch_id:
            return ""
        topology = self.scenario.topology
        link = topology.ports(switch_id)[port]
        return f"{topology.by_id(switch_id).name} to {topology.by_id(link.other(switch_id)).name}"
