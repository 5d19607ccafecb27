"""One policy of a scenario, run and summed up: what a worker process does."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sglb.fabric import metrics
from sglb.fabric.advance import Stop, Tell, never
from sglb.fabric.bounds import LowerBound
from sglb.fabric.control import ControlPlaneFactory, load_control_plane
from sglb.fabric.packet_trace import Follower, TraceRequest
from sglb.fabric.recovery import recoveries
from sglb.fabric.report import FlowsReport, PolicyReport, RecoveryReport, to_us, worst
from sglb.fabric.scenario import Scenario
from sglb.fabric.simulation import PolicyRun, Simulation
from sglb.p4.compiler import CompiledProgram
from sglb.switch.trace import TraceRecorder

if TYPE_CHECKING:
    from sglb.fabric.kernel.simulation import NativeSimulation


class PolicyInterrupted(KeyboardInterrupt):
    """Ctrl-C during a policy's run; `report` is what had happened by then."""

    def __init__(self, report: PolicyReport) -> None:
        super().__init__()
        self.report = report


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

    def run(self, tell: Tell | None = None, stop: Stop = never) -> PolicyReport:
        """Run it, or until it is asked to `stop`: then the report says `interrupted`.

        Raises what the control plane raises, `BoundViolation`, `KernelError`, and on Ctrl-C
        `PolicyInterrupted` once there is anything to report.
        """
        control = self.control_plane
        factory = load_control_plane(control) if isinstance(control, str) else control
        follower = None if self.trace is None else Follower(self.scenario, self.trace)
        recorder = None if follower is None else follower.recorder
        simulation = self._simulation(factory, recorder)
        if follower is not None:
            follower.watch(simulation.log)
        try:
            report = self._summary(simulation.run(tell, stop))
        except KeyboardInterrupt:
            so_far = simulation.result()
            if not so_far.wire_frames:
                raise  # there is nothing to tell yet
            partial = replace(self._summary(so_far), interrupted=True)
            raise PolicyInterrupted(partial) from None
        if not report.completed and stop():
            report = replace(report, interrupted=True)
        if follower is None:
            return report
        return replace(report, trace=follower.tell(self.policy, self.program.p4info))

    def _simulation(
        self, control: ControlPlaneFactory, recorder: TraceRecorder | None
    ) -> Simulation | NativeSimulation:
        """What runs the scenario; only the reference engine can trace a packet."""
        if self.scenario.model.engine == "native":
            # Imported where it is needed: it loads a compiler.
            from sglb.fabric.kernel.simulation import NativeSimulation

            return NativeSimulation(self.scenario, self.policy, self.program, control)
        return Simulation(self.scenario, self.policy, self.program, control, recorder)

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
            pauses=run.pauses,
            bus_gbps=self._bus_gbps(completion_ps),
        )

    def _bus_gbps(self, completion_ps: int | None) -> float | None:
        return (completion_ps and self.scenario.workload.bus_gbps(completion_ps)) or None

    def _place(self, at: tuple[int, int]) -> str:
        """`leaf0 to spine1` for a (switch id, port), "" for none."""
        switch_id, port = at
        if not switch_id:
            return ""
        topology = self.scenario.topology
        link = topology.ports(switch_id)[port]
        return f"{topology.by_id(switch_id).name} to {topology.by_id(link.other(switch_id)).name}"
