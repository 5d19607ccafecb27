"""From the keys of `faults` to single changes in time, and to spans of random loss."""

from __future__ import annotations

from collections.abc import Iterable

from sglb.fabric.faults import Fault, FaultKind, Flap, LinkLoss
from sglb.fabric.problems import Problems
from sglb.fabric.schema import FAULT_KINDS, FaultBlock
from sglb.fabric.topology import Edge, Topology, TopologyError
from sglb.fabric.units import gbps_to_bps, us_to_ps
from sglb.switch.clock import PS_PER_US

_OPPOSITE = {
    FaultKind.LINK_UP: FaultKind.LINK_DOWN,
    FaultKind.SWITCH_UP: FaultKind.SWITCH_DOWN,
    FaultKind.HEAL: FaultKind.BLACKHOLE,
}


def faults(
    blocks: Iterable[FaultBlock], topology: Topology, problems: Problems
) -> tuple[Fault, ...]:
    """All changes in order of time; `problems` hears of unknown names and wrong orders."""
    found: list[Fault] = []
    previous = 0.0
    for i, block in enumerate(blocks):
        if block.start_us < previous:
            problems.bad(
                ("faults", i),
                f"is at {block.start_us:g} us, before the fault above it ({previous:g} us); "
                "put them in order of time",
            )
        previous = block.start_us
        try:
            found += _fault(topology, block)
        except TopologyError as error:
            key = next(k for k in FAULT_KINDS if getattr(block, k) is not None)
            deeper = ("link",) if key in ("rate", "flap", "loss", "bit_errors") else ()
            problems.bad(("faults", i, key, *deeper), error)
    found.sort(key=lambda f: f.time_ps)
    _check_ups(found, problems)
    return tuple(found)


def _check_ups(found: list[Fault], problems: Problems) -> None:
    """What comes up must have been down before: anything else is a slip of the pen."""
    for i, fault in enumerate(found):
        wanted = _OPPOSITE.get(fault.kind)
        if wanted is None:
            continue
        before = [_targets(f) for f in found[:i] if f.kind is wanted]
        if not _targets(fault) <= set().union(*before):
            problems.bad(
                ("faults",),
                f"{fault.label} at {fault.time_ps / PS_PER_US:g} us: {fault.kind} without "
                f"{wanted} before it",
            )


def _targets(fault: Fault) -> set[object]:
    links: set[object] = {link.id for link in fault.links}
    return links | {edge.key for edge in fault.edges} | ({fault.switch_id} - {0})


def _fault(topology: Topology, block: FaultBlock) -> list[Fault]:
    at_ps = us_to_ps(block.start_us)
    if block.flap is not None:
        flap = block.flap
        links = topology.find_links(flap.link)
        spans = (us_to_ps(flap.down_us), us_to_ps(flap.up_us))
        return Flap(flap.link, links, at_ps, *spans, flap.count).faults()
    if block.rate is not None:
        links = topology.find_links(block.rate.link)
        rate = gbps_to_bps(block.rate.gbps)
        return [Fault(at_ps, FaultKind.LINK_RATE, block.rate.link, links, rate)]
    if block.loss is not None or block.bit_errors is not None:
        return [_random_loss(topology, block, at_ps)]
    for name, kind in ((block.down, FaultKind.LINK_DOWN), (block.up, FaultKind.LINK_UP)):
        if name is not None:
            return [Fault(at_ps, kind, name, topology.find_links(name))]
    for name, kind in ((block.blackhole, FaultKind.BLACKHOLE), (block.heal, FaultKind.HEAL)):
        if name is not None:
            return [Fault(at_ps, kind, name, edges=topology.find_edges(name))]
    for name, kind in (
        (block.down_switch, FaultKind.SWITCH_DOWN),
        (block.up_switch, FaultKind.SWITCH_UP),
    ):
        if name is not None:
            switch = topology.switch(name)
            return [Fault(at_ps, kind, name, switch_id=switch.id)]
    raise AssertionError("the schema lets no fault through without a kind")


def _random_loss(topology: Topology, block: FaultBlock, at_ps: int) -> Fault:
    if (loss := block.loss) is not None:
        edges = topology.find_edges(loss.link)
        sync = loss.data if loss.syncmesh is None else loss.syncmesh
        chances = (loss.data, sync)
        return Fault(at_ps, FaultKind.LOSS, loss.link, edges=edges, loss=chances)
    errors = block.bit_errors
    assert errors is not None
    edges = topology.find_edges(errors.link)
    return Fault(at_ps, FaultKind.BIT_ERRORS, errors.link, edges=edges, ber=errors.ber)


def loss_spans(found: Iterable[Fault]) -> tuple[LinkLoss, ...]:
    """Random loss that faults bring, as spans: each lasts until the next of its kind on a direction.

    Of several at one time the last one counts.
    """
    open_spans: dict[tuple[FaultKind, tuple[int, int]], tuple[Fault, Edge]] = {}
    spans: list[LinkLoss] = []

    def close(begun: Fault, edge: Edge, to_ps: int | None) -> None:
        harmless = not any(begun.loss) and not begun.ber
        if not harmless and to_ps != begun.time_ps:
            data, sync = begun.loss
            spans.append(LinkLoss((edge,), sync, data, begun.time_ps, to_ps, begun.ber))

    for fault in found:
        if fault.kind in (FaultKind.LOSS, FaultKind.BIT_ERRORS):
            for edge in fault.edges:
                key = (fault.kind, edge.key)
                if key in open_spans:
                    close(*open_spans[key], fault.time_ps)
                open_spans[key] = (fault, edge)
    for begun, edge in open_spans.values():
        close(begun, edge, None)
    return tuple(spans)
