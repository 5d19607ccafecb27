"""A scenario as it can be run in real time on one machine: rates divided, times stretched by one number.

A fabric of 100 Gbit/s does not fit a computer, so every rate is divided by `scale`, and every time that
goes with rates (start times and delays of flows, faults, the hosts' transport timers, how often quality
is sampled) is multiplied by it: the same packets meet in the same queues, only slower. Times of the
control plane and of SyncMesh are no matter of rates and stay as they are, in real time.

Delays of links and pipelines become 0: those of the machine are in their place. As many more heartbeats
may be missed as come due while a link sends one packet of full size.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Final

from sglb.fabric.engine_limits import only_native
from sglb.fabric.faults import Fault
from sglb.fabric.live.errors import LiveError
from sglb.fabric.live.lossless import slower_dcqcn
from sglb.fabric.roce import wire_bytes
from sglb.fabric.scenario import Scenario
from sglb.fabric.schema import ScenarioModel
from sglb.fabric.topology import Edge, Link, Topology
from sglb.switch.clock import PS_PER_S, PS_PER_US

#: Data packets a second that all hosts together may send: what one process can see to on a busy CPU.
PACKETS_PER_S: Final = 4_000
#: The same for BMv2, which takes some hundred us for each packet in each switch.
BMV2_PACKETS_PER_S: Final = 300
_BMV2_PROBES_PER_S: Final = 100
_BMV2_STOP_S: Final = 300.0
_STEPS: Final = (1, 2, 5)
_US_PER_S: Final = 1_000_000
_BY_HAND_US: Final = 100_000
_SLIGHT: Final = 0.1  #: of a heartbeat: such a delay needs no patience


def default_scale(scenario: Scenario, packets_per_s: int = PACKETS_PER_S) -> int:
    """The least of 1, 2, 5, 10, 20.. at which all that send, at full rate, send so many packets or less.

    Without a workload that is every host.
    """
    topology = scenario.topology
    packet_bits = 8 * wire_bytes(scenario.model.transport.mtu_bytes)
    senders = {flow.src for flow in scenario.workload.flows} or {host.id for host in topology.hosts}
    rate_bps = sum(topology.attachment(host).spec.rate_bps for host in senders)
    needed = rate_bps / packet_bits / packets_per_s
    scale, step = 1, 0
    while scale < needed:
        step += 1
        scale = _STEPS[step % 3] * 10 ** (step // 3)
    return scale


def packet_ps(topology: Topology, mtu_bytes: int) -> int:
    """How long a full packet takes on the slowest link."""
    slowest_bps = min(link.spec.rate_bps for link in topology.links)
    return 8 * wire_bytes(mtu_bytes) * PS_PER_S // slowest_bps


def patient(scenario: Scenario) -> Scenario:
    """What BMv2 can follow, and its control plane by packet-outs.

    Rates are divided by more and probes are fewer, unless they are so already; heartbeats and samples
    are further apart; a scenario that doesn't say when it is given up has more time.
    """
    live = scenario.model.live
    changes: dict[str, Any] = {
        name: max(getattr(live, name), _BY_HAND_US)
        for name in ("heartbeat_us", "quality_sample_us")
    }
    changes["probes_per_s"] = min(live.probes_per_s, _BMV2_PROBES_PER_S)
    changes["rate_scale"] = max(live.rate_scale or 1, default_scale(scenario, BMV2_PACKETS_PER_S))
    if "stop_s" not in live.model_fields_set:
        changes["stop_s"] = _BMV2_STOP_S
    model = scenario.model.model_copy(update={"live": live.model_copy(update=changes)})
    return replace(scenario, model=model)


#: What live switches and hosts of ours have, and BMv2 does not.
_OURS: Final = {
    ("switch", "buffer", "total_bytes"),
    ("switch", "buffer", "classes"),
    ("switch", "pfc", "enabled"),
    ("transport", "traffic_class"),
    ("transport", "dcqcn", "enabled"),
}
#: What the hosts and the P4 program have of that beside BMv2.
_BESIDE_BMV2: Final = {("transport", "traffic_class"), ("transport", "dcqcn", "enabled")}


def check(scenario: Scenario, target: str = "live") -> None:
    """Raises `LiveError` for what only the simulated fabric has, naming the key.

    Lossless classes are had together: buffer, pauses, and hosts that obey them. Beside BMv2, which has
    classes and marks, hosts control their rates without pauses.
    """
    asked = only_native(scenario.model)
    lossless = scenario.model.switch.pfc.enabled and target == "live"
    for path in asked:
        if (lossless and path in _OURS) or (target == "bmv2" and path in _BESIDE_BMV2):
            continue
        key = ".".join(map(str, path))
        raise LiveError(f"{scenario.file}: {key}: the live fabric does not have that; use --on sim")
    for fault in scenario.faults:
        if fault.ber:
            raise LiveError(
                f"{scenario.file}: {fault.label}: bit errors are for --on sim; use loss"
            )


def check_time(scenario: Scenario, least_ps: int) -> None:
    """Raises `LiveError` when a scenario in real time is given up before `least_ps` are over."""
    least_us, stop_us = least_ps / PS_PER_US, scenario.model.stop_us
    if least_us > stop_us:
        raise LiveError(
            f"{scenario.file}: with all rates divided by {scenario.model.live.rate_scale:,} it takes "
            f"{least_us / _US_PER_S:,.0f} s at least, but is given up after "
            f"{stop_us / _US_PER_S:,.0f} s; divide by less (--rate-scale) or raise live.stop_s"
        )


def scaled(scenario: Scenario, scale: int, target: str = "live") -> Scenario:
    """The scenario in real time; `model.live.rate_scale` is the scale. Raises as `check`."""
    check(scenario, target)
    topology = _topology(scenario.topology, scale)
    links = topology.links

    def moved(fault: Fault) -> Fault:
        return replace(
            fault,
            time_ps=fault.time_ps * scale,
            rate_bps=_divided(fault.rate_bps, scale) if fault.rate_bps else 0,
            links=tuple(links[link.id] for link in fault.links),
            edges=tuple(Edge(links[e.link.id], e.src, e.dst) for e in fault.edges),
        )

    flows = tuple(
        replace(flow, start_ps=flow.start_ps * scale, delay_ps=flow.delay_ps * scale)
        for flow in scenario.workload.flows
    )
    workload = replace(
        scenario.workload,
        flows=flows,
        lead_ps=scenario.workload.lead_ps * scale,
        tail_ps=scenario.workload.tail_ps * scale,
    )
    losses = tuple(
        replace(
            loss,
            edges=tuple(Edge(links[e.link.id], e.src, e.dst) for e in loss.edges),
            from_ps=loss.from_ps * scale,
            to_ps=None if loss.to_ps is None else loss.to_ps * scale,
        )
        for loss in scenario.losses
    )
    return replace(
        scenario,
        model=_model(scenario, topology, scale),
        topology=topology,
        workload=workload,
        faults=tuple(moved(fault) for fault in scenario.faults),
        losses=losses,
    )


def _divided(rate_bps: int, scale: int) -> int:
    return max(1, rate_bps // scale)


def _topology(topology: Topology, scale: int) -> Topology:
    def slower(link: Link) -> Link:
        spec = replace(link.spec, rate_bps=_divided(link.spec.rate_bps, scale), delay_ps=0)
        return replace(link, spec=spec)

    return Topology(topology.nodes, [slower(link) for link in topology.links])


def _model(scenario: Scenario, topology: Topology, scale: int) -> ScenarioModel:
    model, live = scenario.model, scenario.model.live
    switch = {
        "pipeline_latency_ns": 0.0,
        "flowlet_idle_us": model.switch.flowlet_idle_us * scale,
        "quality_sample_us": live.quality_sample_us,
    }
    timers = ("rto_us", "rto_max_us", "reorder_us")
    transport: dict[str, Any] = {name: getattr(model.transport, name) * scale for name in timers}
    transport["dcqcn"] = slower_dcqcn(model.transport.dcqcn, scale)
    names = ("hello_us", "hold_us", "full_us", "heartbeat_us", "notify_gap_us")
    syncmesh = {name: getattr(live, name) for name in names} | {"refresh_us": live.full_us}
    # A heartbeat may have to wait until a data packet has left.
    packet_us = packet_ps(topology, model.transport.mtu_bytes) / PS_PER_US
    syncmesh["missed_count"] = live.missed_count + math.ceil(
        packet_us / live.heartbeat_us - _SLIGHT
    )
    return model.model_copy(
        update={
            "switch": model.switch.model_copy(update=switch),
            "transport": model.transport.model_copy(update=transport),
            "syncmesh": model.syncmesh.model_copy(update=syncmesh),
            "live": live.model_copy(update={"rate_scale": scale}),
            "stop_us": min(model.stop_us * scale, live.stop_s * _US_PER_S),
        }
    )
