"""What the fluid model is solved on: sources, queues, ingresses and the flows over them.

A *queue* is the lossless class of a switch's egress port; an *ingress* is what that class has in a
switch of what came in by one port: it is what shared buffer, headroom and PFC count, and it pauses the
one source or queue at the other end of its link. A flow goes from its source over hops, each of which
says into which queue, by which ingress, how long after leaving the hop before (`link_us`), and how long
after a mark there its sender reacts (`feedback_us`: to the receiver, up to it, and back).

`count` of a flow, its source and an ingress makes that many of them that are all alike: they then cost
as much as one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from sglb.fabric.dcqcn_config import DcqcnConfig, resolve
from sglb.fabric.schema_lossless import DcqcnBlock
from sglb.fabric.topology import closest
from sglb.watermark.errors import WatermarkError

#: From marking to the sender's reaction, as in the published fluid model.
FEEDBACK_US = 85.0


def paper_dcqcn() -> DcqcnConfig:
    """The paper's constants, enabled."""
    return resolve(DcqcnBlock(enabled=True))


@dataclass(frozen=True, slots=True)
class Switch:
    """`buffer_bytes` hold headroom of all ingresses and the pool that they share; inf: no bound."""

    name: str
    buffer_bytes: float = math.inf


@dataclass(frozen=True, slots=True)
class Source:
    """A sending NIC."""

    name: str
    rate_gbps: float
    count: int = 1


@dataclass(frozen=True, slots=True)
class Queue:
    """An egress queue, limited by its switch's buffer alone."""

    name: str
    switch: str
    rate_gbps: float


@dataclass(frozen=True, slots=True)
class Ingress:
    """What one port lets into a switch.

    `pauses` is the source or queue at the other end of the link; it obeys `delay_us` after the
    decision (link, and its response). With `pfc` False nothing is paused and there is no headroom:
    what is above the threshold is lost. `headroom_bytes` are for settings that name none. `count` ports
    that are all alike, each with its own bytes.
    """

    name: str
    switch: str
    pauses: str
    delay_us: float = 0.0
    pfc: bool = True
    count: int = 1
    headroom_bytes: float = 100_000


@dataclass(frozen=True, slots=True)
class Hop:
    """A flow's passage through `queue`, into whose switch it comes by `ingress`."""

    queue: str
    ingress: str
    link_us: float = 0.0
    feedback_us: float = FEEDBACK_US


@dataclass(frozen=True, slots=True)
class Flow:
    """`count` alike senders of `source`; each sends `size_bytes` from `start_us` on; None: without end.

    They begin at `start_gbps`, by default the source's rate.
    """

    name: str
    source: str
    hops: tuple[Hop, ...]
    count: int = 1
    start_us: float = 0.0
    size_bytes: float | None = None
    start_gbps: float | None = None


class _Named(Protocol):
    @property
    def name(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Network:
    """A network whose names and sizes fit together, else `WatermarkError`.

    `packet_bytes` is the unit of marking, of DCQCN's byte counter and of its rates. `pause_us`: a pause
    lasts so long and is then decided anew, as where nobody calls pauses off; None: until XON.
    """

    switches: tuple[Switch, ...]
    sources: tuple[Source, ...]
    queues: tuple[Queue, ...]
    ingresses: tuple[Ingress, ...]
    flows: tuple[Flow, ...]
    dcqcn: DcqcnConfig = field(default_factory=paper_dcqcn)
    packet_bytes: float = 1_000.0
    pause_us: float | None = None

    def __post_init__(self) -> None:
        for what, parts in self.parts():
            names = [part.name for part in parts]
            if not names:
                raise WatermarkError(f"a network needs a {what}")
            twice = next((n for i, n in enumerate(names) if n in names[:i]), None)
            if twice is not None:
                raise WatermarkError(f"two {what}s are called {twice!r}")
        self._check_numbers()
        self._check_names()
        _check_dcqcn(self.dcqcn)

    def parts(self) -> Iterable[tuple[str, Sequence[_Named]]]:
        """All parts, by kind."""
        yield "switch", self.switches
        yield "source", self.sources
        yield "queue", self.queues
        yield "ingress", self.ingresses
        yield "flow", self.flows

    def _check_numbers(self) -> None:
        for switch in self.switches:
            _above("switch", switch.name, "buffer_bytes", switch.buffer_bytes, infinite=True)
        for source in self.sources:
            _above("source", source.name, "rate_gbps", source.rate_gbps)
            _above("source", source.name, "count", source.count)
        for queue in self.queues:
            _above("queue", queue.name, "rate_gbps", queue.rate_gbps)
        for ingress in self.ingresses:
            _above("ingress", ingress.name, "count", ingress.count)
            _not_negative("ingress", ingress.name, "delay_us", ingress.delay_us)
            _not_negative("ingress", ingress.name, "headroom_bytes", ingress.headroom_bytes)
        for flow in self.flows:
            self._check_flow(flow)
        _above("network", "", "packet_bytes", self.packet_bytes)
        if self.pause_us is not None:
            _above("network", "", "pause_us", self.pause_us)

    def _check_flow(self, flow: Flow) -> None:
        _above("flow", flow.name, "count", flow.count)
        _not_negative("flow", flow.name, "start_us", flow.start_us)
        if flow.size_bytes is not None:
            _above("flow", flow.name, "size_bytes", flow.size_bytes)
        if flow.start_gbps is not None:
            _above("flow", flow.name, "start_gbps", flow.start_gbps)
        if not flow.hops:
            raise WatermarkError(f"flow {flow.name!r} passes no queue")
        for hop in flow.hops:
            _not_negative("flow", flow.name, "link_us", hop.link_us)
            _above("flow", flow.name, "feedback_us", hop.feedback_us)

    def _check_names(self) -> None:
        switches = {s.name for s in self.switches}
        sources = {s.name: s for s in self.sources}
        queues = {q.name: q for q in self.queues}
        ingresses = {i.name: i for i in self.ingresses}
        both = next((n for n in queues if n in sources), None)
        if both is not None:
            raise WatermarkError(f"a source and a queue are both called {both!r}")
        for queue in self.queues:
            _known("queue", queue.name, "switch", queue.switch, switches)
        paused: dict[str, str] = {}
        for ingress in self.ingresses:
            _known("ingress", ingress.name, "switch", ingress.switch, switches)
            _known("ingress", ingress.name, "source or queue", ingress.pauses, {*sources, *queues})
            other = paused.setdefault(ingress.pauses, ingress.name)
            if other != ingress.name:
                raise WatermarkError(
                    f"ingresses {other!r} and {ingress.name!r} both pause {ingress.pauses!r}: a link "
                    f"has one end"
                )
        for flow in self.flows:
            _known("flow", flow.name, "source", flow.source, sources)
            before = flow.source
            for hop in flow.hops:
                _known("flow", flow.name, "queue", hop.queue, queues)
                _known("flow", flow.name, "ingress", hop.ingress, ingresses)
                ingress = ingresses[hop.ingress]
                if ingress.switch != queues[hop.queue].switch:
                    raise WatermarkError(
                        f"flow {flow.name!r}: queue {hop.queue!r} is in switch "
                        f"{queues[hop.queue].switch!r}, ingress {hop.ingress!r} in {ingress.switch!r}"
                    )
                if ingress.pauses != before:
                    raise WatermarkError(
                        f"flow {flow.name!r} comes to ingress {hop.ingress!r} from {before!r}, but "
                        f"that pauses {ingress.pauses!r}"
                    )
                before = hop.queue

    def with_dcqcn(self, dcqcn: DcqcnConfig) -> Network:
        """The same network with other senders."""
        return replace(self, dcqcn=dcqcn)


def _check_dcqcn(dcqcn: DcqcnConfig) -> None:
    if not dcqcn.enabled:
        raise WatermarkError(
            "the fluid model is one of DCQCN; enable it (transport.dcqcn.enabled: true)"
        )
    if dcqcn.first_cnp_rate_bps:
        raise WatermarkError(
            "the fluid model has no rate that the first CNP sets; leave out first_cnp_rate_mbps "
            "(rate_to_set_on_first_cnp)"
        )


def _above(kind: str, name: str, key: str, value: float, infinite: bool = False) -> None:
    if not (value > 0 and (infinite or math.isfinite(value))):
        raise WatermarkError(f"{_place(kind, name)}: {key} must be above 0, got {value!r}")


def _not_negative(kind: str, name: str, key: str, value: float) -> None:
    if not (value >= 0 and math.isfinite(value)):
        raise WatermarkError(f"{_place(kind, name)}: {key} must be 0 or more, got {value!r}")


def _known(kind: str, name: str, key: str, value: str, known: Iterable[str]) -> None:
    if value not in known:
        raise WatermarkError(
            f"{_place(kind, name)}: there is no {key} {value!r}{closest(value, known)}"
        )


def _place(kind: str, name: str) -> str:
    return f"{kind} {name!r}" if name else kind


def incast(
    flows: int,
    rate_gbps: float = 40.0,
    *,
    feedback_us: float = FEEDBACK_US,
    pause_delay_us: float = 2.0,
    buffer_bytes: float = math.inf,
    pfc: bool = True,
    size_bytes: float | None = None,
    start_gbps: float | None = None,
    dcqcn: DcqcnConfig | None = None,
    packet_bytes: float = 1_000.0,
    apart: bool = False,
) -> Network:
    """`flows` hosts on one switch send to one other host of it, all links of one rate.

    They are solved as one flow that counts `flows` times, unless `apart`, which costs as many times as
    much. Raises `WatermarkError`.
    """
    if flows < 1:
        raise WatermarkError(f"an incast needs at least 1 flow, got {flows}")
    number, each = (flows, 1) if apart else (1, flows)
    hop = [Hop("port", f"in{i}", feedback_us=feedback_us) for i in range(number)]
    return Network(
        switches=(Switch("switch", buffer_bytes),),
        sources=tuple(Source(f"host{i}", rate_gbps, each) for i in range(number)),
        queues=(Queue("port", "switch", rate_gbps),),
        ingresses=tuple(
            Ingress(f"in{i}", "switch", f"host{i}", pause_delay_us, pfc, each)
            for i in range(number)
        ),
        flows=tuple(
            Flow(
                f"flow{i}",
                f"host{i}",
                (hop[i],),
                each,
                size_bytes=size_bytes,
                start_gbps=start_gbps,
            )
            for i in range(number)
        ),
        dcqcn=dcqcn or paper_dcqcn(),
        packet_bytes=packet_bytes,
    )


def behind_uplink(
    flows: int,
    rate_gbps: float = 40.0,
    *,
    feedback_us: float = FEEDBACK_US,
    link_us: float = 1.0,
    pause_delay_us: float = 2.0,
    buffer_bytes: float = math.inf,
    uplink_gbps: float | None = None,
    start_gbps: float | None = None,
    dcqcn: DcqcnConfig | None = None,
    packet_bytes: float = 1_000.0,
) -> Network:
    """`flows` hosts of switch `near` send over one uplink to one host of switch `far`.

    All that the far port's queue holds came in by one ingress: PFC sets in there as early as it can. The
    uplink has `uplink_gbps`, by default twice the hosts' rate, so that the queue is at the far end.
    Raises `WatermarkError`.
    """
    if flows < 1:
        raise WatermarkError(f"an incast needs at least 1 flow, got {flows}")
    return Network(
        switches=(Switch("near", buffer_bytes), Switch("far", buffer_bytes)),
        sources=(Source("hosts", rate_gbps, flows),),
        queues=(
            Queue("uplink", "near", 2 * rate_gbps if uplink_gbps is None else uplink_gbps),
            Queue("port", "far", rate_gbps),
        ),
        ingresses=(
            Ingress("from hosts", "near", "hosts", pause_delay_us, count=flows),
            Ingress("from near", "far", "uplink", pause_delay_us),
        ),
        flows=(
            Flow(
                "flows",
                "hosts",
                (
                    Hop("uplink", "from hosts", feedback_us=feedback_us),
                    Hop("port", "from near", link_us, feedback_us),
                ),
                flows,
                start_gbps=start_gbps,
            ),
        ),
        dcqcn=dcqcn or paper_dcqcn(),
        packet_bytes=packet_bytes,
    )
