"""What hosts counted, in the shapes that `sglb.fabric.metrics` reads."""

from __future__ import annotations

from dataclasses import dataclass

from sglb.fabric.host import NicStats
from sglb.fabric.kernel import layout as k
from sglb.fabric.kernel.host_memory import HostPlan
from sglb.fabric.qp import ReceiveStats, SendStats
from sglb.switch.core import model as m
from sglb.switch.core.world import World


@dataclass(frozen=True, slots=True)
class SendView:
    """A sender: `naks` and `cnps` that came for it, and its rate now (None: the link's)."""

    stats: SendStats
    naks: int
    cnps: int
    rate_bps: int | None


@dataclass(frozen=True, slots=True)
class ReceiveView:
    """A receiver: `naks` and `cnps` that it asked the NIC to send.

    With go-back-N `stats.out_of_range` are all packets that came after a hole.
    """

    stats: ReceiveStats
    naks: int
    cnps: int


@dataclass(frozen=True, slots=True)
class HostView:
    """A host's counters as they stood when this was made.

    `stats.acks_sent` and `acks_received` count NAKs too, CNPs are counted apart.
    """

    name: str
    stats: NicStats
    send_queues: dict[int, SendView]
    receive_queues: dict[int, ReceiveView]
    cnps_sent: int
    cnps_received: int


def host_views(plan: HostPlan, world: World) -> dict[int, HostView]:
    """All hosts by their id in the topology; queue pairs by number."""
    w = world.w
    views = {}
    for place, host in enumerate(plan.hosts):
        at = int(w[m.HOSTS_AT]) + place * k.HOST_WORDS
        view = HostView(
            host.name,
            _nic(world, at),
            {},
            {},
            int(w[at + k.HS_CNPS_SENT]),
            int(w[at + k.HS_CNPS_RECEIVED]),
        )
        for index in range(int(w[at + k.H_QPS])):
            end = int(w[at + k.H_FIRST_QP]) + index * k.QP_WORDS
            number = k.FIRST_QPN + index
            if w[end + k.E_SENDS]:
                view.send_queues[number] = _sender(world, end)
            else:
                view.receive_queues[number] = _receiver(world, end)
        views[host.id] = view
    return views


def data_received(world: World) -> int:
    """Data frames that have reached hosts so far."""
    first, words = int(world.w[m.HOSTS_AT]), k.HOST_WORDS
    hosts = int(world.w[m.HOSTS])
    records = world.w[first : first + hosts * words].reshape(hosts, words)
    return int(records[:, k.HS_DATA_RECEIVED].sum())


def _nic(world: World, at: int) -> NicStats:
    w = world.w
    drops = int(w[w[m.PORTS_AT] + w[at + k.H_PORT] * m.PORT_WORDS + m.P_DROPS])
    bad = {text: int(w[at + k.HS_BAD + i]) for i, text in enumerate(k.BAD_REASONS)}
    return NicStats(
        data_sent=int(w[at + k.HS_DATA_SENT]),
        acks_sent=int(w[at + k.HS_ACKS_SENT]),
        data_received=int(w[at + k.HS_DATA_RECEIVED]),
        acks_received=int(w[at + k.HS_ACKS_RECEIVED]),
        cut_data=int(w[drops + m.DROP_CUT]),
        cut_acks=int(w[drops + m.DROP_CUT_ACK]),
        dropped={text: count for text, count in bad.items() if count},
    )


def _sender(world: World, end: int) -> SendView:
    w = world.w
    words = (k.SS_SENT, k.SS_RESENT, k.SS_TIMEOUTS, k.SS_LOSSES, k.SS_ACKS, k.SS_BAD_ACKS)
    return SendView(
        SendStats(*(int(w[end + word]) for word in words)),
        int(w[end + k.SS_NAKS]),
        int(w[end + k.SS_CNPS]),
        int(w[end + k.D_RATE]) if w[end + k.D_ACTIVE] else None,
    )


def _receiver(world: World, end: int) -> ReceiveView:
    w = world.w
    words = (
        k.RS_RECEIVED,
        k.RS_DUPLICATES,
        k.RS_OUT_OF_RANGE,
        k.RS_REORDERED,
        k.RS_EXTENT,
        k.RS_CE,
    )
    return ReceiveView(
        ReceiveStats(*(int(w[end + word]) for word in words)),
        int(w[end + k.RS_NAKS]),
        int(w[end + k.RS_CNPS]),
    )
