"""A scenario in words: fabric, workload, faults and the timing that a run assumes."""

from __future__ import annotations

from itertools import groupby

from sglb.fabric.faults import Fault, FaultKind
from sglb.fabric.scenario import Scenario
from sglb.fabric.schema import ScenarioModel, TransportBlock
from sglb.fabric.topology import LinkSpec, NodeKind, Topology
from sglb.switch.clock import PS_PER_NS, PS_PER_US

_RATES = ((1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s"), (1.0, "bit/s"))
_PLURALS = {
    NodeKind.LEAF: "leaves",
    NodeKind.SPINE: "spines",
    NodeKind.CORE: "cores",
    NodeKind.HOST: "hosts",
}
_MAX_FAULTS = 6
_MAX_CHANGES = 4
# From here on three digits would show as 1e+03.
_NEXT_UNIT = 999.5


def number(value: float) -> str:
    """A number without needless digits, with thousands set apart."""
    return f"{value:,.3f}".rstrip("0").rstrip(".")


def size(count_bytes: float) -> str:
    """Bytes with three digits, in the largest unit that keeps the number above 1."""
    value, unit = count_bytes, "B"
    for larger in ("kB", "MB", "GB", "TB"):
        if value < _NEXT_UNIT:
            break
        value, unit = value / 1_000, larger
    return f"{value:.3g} {unit}"


def fabric(topology: Topology) -> str:
    """`4 leaves, 4 spines, 16 hosts`."""
    parts = []
    for kind, plural in _PLURALS.items():
        count = sum(node.kind is kind for node in topology.nodes)
        if count:
            parts.append(f"{count} {plural if count > 1 else kind}")
    return ", ".join(parts)


def workload(scenario: Scenario) -> str:
    """`all-to-all, 163,840 bytes a pair: 240 flows`."""
    block = scenario.model.workload
    flows = scenario.workload.flows
    total = sum(flow.size_bytes for flow in flows)
    if block.all_to_all is not None:
        each = block.all_to_all.bytes_per_pair
        what = "uneven all-to-all" if each is None else f"all-to-all, {size(each)} a pair"
    elif block.ring_all_reduce is not None:
        what = f"ring all-reduce of {size(block.ring_all_reduce.bytes)}"
    elif block.incast is not None:
        what = f"incast to {block.incast.to}, {size(block.incast.bytes)} a sender"
    elif block.permutation is not None:
        what = f"permutation, {size(block.permutation.bytes)} a host"
    elif block.flows is not None:
        what = "a list of flows"
    else:
        what = block.kind.replace("_", "-")
    many = f"{len(flows)} flows" if len(flows) > 1 else "1 flow"
    return f"{what} ({many}, {size(total)})"


def faults(scenario: Scenario) -> str:
    """`leaf0-spine1: link down at 60 us, link up at 300,000 us`."""
    if not scenario.faults:
        return "none"
    texts = []
    for label, some in groupby(scenario.faults, key=lambda f: f.label):
        changes = [_fault(fault) for fault in some]
        if len(changes) > _MAX_CHANGES:
            changes[_MAX_CHANGES:] = [f"and {len(changes) - _MAX_CHANGES} more"]
        texts.append(f"{label}: " + ", ".join(changes))
    if len(texts) > _MAX_FAULTS:
        texts[_MAX_FAULTS:] = [f"and {len(texts) - _MAX_FAULTS} more"]
    return "; ".join(texts)


def _fault(fault: Fault) -> str:
    what = str(fault.kind)
    if fault.kind is FaultKind.LINK_RATE:
        what = _rate(fault.rate_bps)
    return f"{what} at {number(fault.time_ps / PS_PER_US)} us"


def links(topology: Topology) -> str:
    """`100 Gbit/s and 500 ns one way, but leaf2-spine3 50 Gbit/s`, by the commonest kind."""
    counts: dict[LinkSpec, int] = {}
    for link in topology.links:
        counts[link.spec] = counts.get(link.spec, 0) + 1
    usual = max(counts, key=lambda spec: counts[spec])
    odd = [link for link in topology.links if link.spec != usual]
    text = f"{_rate(usual.rate_bps)} and {number(usual.delay_ps / PS_PER_NS)} ns one way"
    if not odd:
        return text
    named = [f"{link.name} {_difference(link.spec, usual)}" for link in odd[:_MAX_FAULTS]]
    if len(odd) > len(named):
        named.append(f"{len(odd) - len(named)} others differ too")
    return f"{text}, but {', '.join(named)}"


def _rate(rate_bps: int) -> str:
    """In Gbit/s, below one in what leaves no digit out: live fabrics have links of some Mbit/s."""
    unit, name = next((u for u in _RATES if rate_bps >= u[0]), _RATES[-1])
    return f"{number(rate_bps / unit)} {name}"


def _difference(spec: LinkSpec, usual: LinkSpec) -> str:
    parts = [_rate(spec.rate_bps)] if spec.rate_bps != usual.rate_bps else []
    if spec.delay_ps != usual.delay_ps:
        parts.append(f"{number(spec.delay_ps / PS_PER_NS)} ns")
    return " ".join(parts)


def assumptions(scenario: Scenario) -> list[str]:
    """The timing that the figures stand on, one fact each."""
    model = scenario.model
    switch, slow, host = model.switch, model.control_plane, model.transport
    return [
        f"links: {links(scenario.topology)}",
        f"switches: pipeline {number(switch.pipeline_latency_ns)} ns, port down detected after "
        f"{number(switch.port_down_detection_us)} us, "
        f"{'lossy queues' if switch.pfc.enabled else 'queue limit'} {size(switch.queue_bytes)}",
        f"routing (slow path): failure detection {number(slow.failure_detection_ms)} ms, reaction "
        f"{number(slow.reaction_ms)} ms, restoring {number(slow.restore_ms)} ms",
        f"hosts: RoCEv2 with {host.recovery.replace('_', ' ')}, MTU {host.mtu_bytes} B, "
        f"{_window(host)}, timeout {number(host.rto_us)} us",
        f"congestion: {_congestion(model)}",
        f"engine: {model.engine}",
    ]


_BMV2 = "simple_switch_grpc, ports without a rate (so no bound holds)"


def live_assumptions(scenario: Scenario, target: str) -> list[str]:
    """What the figures of a run on real packets stand on; `scenario` is in real time."""
    model = scenario.model
    live, sync, slow, host = model.live, model.syncmesh, model.control_plane, model.transport
    thread = "real-time threads" if live.realtime else "ordinary threads"
    switches = f"sglb switch, data planes as {thread}" if target == "live" else _BMV2
    return [
        f"links: {links(scenario.topology)} (all rates divided by {live.rate_scale:,}), veth pairs",
        f"switches: {switches}, queue limit {size(model.switch.queue_bytes)}, port down as the kernel "
        "tells it",
        f"heartbeats (glb): every {number(sync.heartbeat_us)} us, {sync.missed_count} missed are a "
        "dead link",
        f"routing (slow path): failure detection {number(slow.failure_detection_ms)} ms, reaction "
        f"{number(slow.reaction_ms)} ms, restoring {number(slow.restore_ms)} ms on top of what the "
        "controller's process takes",
        f"hosts: RoCEv2 with {host.recovery.replace('_', ' ')}, MTU {host.mtu_bytes} B, "
        f"{_window(host)}, timeout {number(host.rto_us)} us; {live.probes_per_s:,} probes a second",
        "all processes share this machine: when its processors are busy, completion times grow",
    ]


def _window(host: TransportBlock) -> str:
    if host.window_packets is None:
        return "no window"
    return f"window {host.window_packets} packets"


def _congestion(model: ScenarioModel) -> str:
    """`PFC for class 3 in 32 MB of shared buffer, DCQCN (paper), ECN 100 kB to 400 kB`."""
    switch, host = model.switch, model.transport
    parts = ["no PFC"]
    if switch.pfc.enabled:
        classes = [str(c.number) for c in switch.buffer.classes if c.lossless]
        total = size(switch.buffer.total_bytes or 0)
        parts = [f"PFC for class {', '.join(classes)} in {total} of shared buffer"]
    dcqcn = host.dcqcn
    parts.append(f"DCQCN ({dcqcn.defaults})" if dcqcn.enabled else "no rate control")
    ecn = switch.ecn_of(host.traffic_class)
    parts.append(f"ECN from {size(ecn.kmin_bytes)} to {size(ecn.kmax_bytes)}")
    return ", ".join(parts)
