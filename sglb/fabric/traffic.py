"""Drives a workload through hosts: posts each flow when its conditions are met."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from functools import partial

from sglb.fabric.events import EventLog, FlowCompleted, FlowStarted
from sglb.fabric.host import Host, connect
from sglb.fabric.qp import SendQueue
from sglb.fabric.roce import split_over_qps
from sglb.fabric.workload import Workload
from sglb.switch.clock import Scheduler


class TrafficDriver:
    """Runs one workload once.

    `hosts` by node id. Each ordered pair of hosts that talks gets `qps_per_pair` queue pairs when
    its first flow starts and keeps them; a flow is spread over them by `split_over_qps`. A flow
    is complete when its receiver has every byte; flows that wait for it may start in that
    instant. Starts and completions are recorded in `log`.
    """

    def __init__(
        self,
        workload: Workload,
        hosts: Mapping[int, Host],
        scheduler: Scheduler,
        log: EventLog,
        qps_per_pair: int = 1,
    ) -> None:
        self.workload = workload
        self._hosts = hosts
        self._scheduler = scheduler
        self._log = log
        self._qps = qps_per_pair
        self._queues: dict[tuple[int, int], list[SendQueue]] = {}
        # Flow id of each message posted and not yet delivered, per queue pair, in order.
        self._posted: dict[tuple[int, int, int], deque[int]] = {}
        self._parts_left = [0] * len(workload.flows)
        # A flow waits for its start time and its gate, a gate for its members.
        self._waits = [1 + bool(flow.after) for flow in workload.flows]
        gates = workload.gates()
        self._closed_by = [len(members) for members in gates.members]
        self._behind: list[list[int]] = [[] for _ in gates.members]
        self._opens: list[list[int]] = [[] for _ in workload.flows]
        for gate, members in enumerate(gates.members):
            for flow_id in members:
                self._opens[flow_id].append(gate)
        for flow_id, gate in enumerate(gates.of_flow):
            if gate >= 0:
                self._behind[gate].append(flow_id)
        self._open = len(workload.flows)

    @property
    def done(self) -> bool:
        """Whether every flow is complete."""
        return self._open == 0

    @property
    def open_flows(self) -> int:
        """Number of flows that are not complete."""
        return self._open

    def start(self) -> None:
        """Schedule the flows' start times; call once, not after the first of them."""
        for flow in self.workload.flows:
            self._scheduler.call_at(flow.start_ps, self._condition_met, flow.id)

    def _condition_met(self, flow_id: int) -> None:
        self._waits[flow_id] -= 1
        if not self._waits[flow_id]:
            self._post(flow_id)

    def _post(self, flow_id: int) -> None:
        flow = self.workload.flows[flow_id]
        self._log.append(FlowStarted(self._scheduler.now_ps, flow_id))
        pair = (flow.src, flow.dst)
        if pair not in self._queues:
            src, dst = self._hosts[flow.src], self._hosts[flow.dst]
            self._queues[pair] = [
                connect(src, dst, partial(self._delivered, (*pair, n))) for n in range(self._qps)
            ]
            self._posted |= {(*pair, n): deque() for n in range(self._qps)}
        mtu = self._hosts[flow.src].config.mtu_bytes
        sizes = split_over_qps(flow.size_bytes, self._qps, mtu)
        self._parts_left[flow_id] = len(sizes)
        for n, size in enumerate(sizes):
            self._posted[(*pair, n)].append(flow_id)
            self._queues[pair][n].post(size)

    def _delivered(self, queue: tuple[int, int, int], _message: int) -> None:
        flow_id = self._posted[queue].popleft()
        self._parts_left[flow_id] -= 1
        if self._parts_left[flow_id]:
            return
        self._open -= 1
        self._log.append(FlowCompleted(self._scheduler.now_ps, flow_id))
        for gate in self._opens[flow_id]:
            self._closed_by[gate] -= 1
            if not self._closed_by[gate]:
                for waiting in self._behind[gate]:
                    self._open_after(self.workload.flows[waiting].delay_ps, waiting)

    def _open_after(self, delay_ps: int, flow_id: int) -> None:
        if delay_ps:
            self._scheduler.call_later(delay_ps, self._condition_met, flow_id)
        else:
            self._condition_met(flow_id)
