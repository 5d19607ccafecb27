"""Gates of a workload as hosts that are some way apart can keep them.

In `sglb.fabric.traffic` everybody knows of a completion in that instant. Natively a host knows what it
has received, and what it has sent and had acknowledged; of anything else it hears a link's delay later
at the earliest. So a flow may wait

- for flows to its own host;
- for any flows, if its `delay_ps` is at least the least delay of a link;
- else for flows to and from its own host, the latter being over when the last acknowledge is back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from sglb.fabric.workload import Flow, Workload, WorkloadError


@dataclass(slots=True)
class Gate:
    """Opens for the flows `behind` it when `received` have arrived and `sent` are acknowledged."""

    received: Sequence[int]
    sent: Sequence[int] = ()
    behind: list[int] = field(default_factory=list)


def native_gates(workload: Workload, lookahead_ps: int) -> list[Gate]:
    """The gates of a workload. Raises `WorkloadError` for a flow that would have to hear too early."""
    gates = workload.gates()
    shared: dict[int, Gate] = {}
    own: dict[tuple[int, int], Gate] = {}
    receivers = [{workload.flows[f].dst for f in members} for members in gates.members]
    for flow in workload.flows:
        number = gates.of_flow[flow.id]
        if number < 0:
            continue
        members = gates.members[number]
        if receivers[number] == {flow.src} or flow.delay_ps >= lookahead_ps:
            gate = shared.setdefault(number, Gate(members))
        else:
            key = (number, flow.src)
            gate = own.get(key) or _own(workload, flow, members, lookahead_ps)
            own[key] = gate
        gate.behind.append(flow.id)
    return [*shared.values(), *own.values()]


def _own(workload: Workload, flow: Flow, members: Sequence[int], lookahead_ps: int) -> Gate:
    received, sent = [], []
    for number in members:
        before = workload.flows[number]
        if before.dst == flow.src:
            received.append(number)
        elif before.src == flow.src:
            sent.append(number)
        else:
            raise WorkloadError(
                f"flow {flow.id} starts at host {flow.src} but waits for flow {number} from host "
                f"{before.src} to host {before.dst}; a flow can wait only for flows to or from its "
                f"own host, unless its delay is at least that of a link ({lookahead_ps} ps)"
            )
    return Gate(received, sent)
