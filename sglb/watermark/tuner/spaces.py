"""From a scenario to what the tuner searches, and to what the fluid model needs of its links."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import networkx as nx

from sglb.fabric.headroom import PAUSE_WIRE_BYTES, QUANTUM_BITS, peer_response_quanta
from sglb.fabric.lossless import port_headroom_bytes
from sglb.fabric.roce import frame_bytes, wire_bytes
from sglb.fabric.scenario import Scenario
from sglb.fabric.topology import LinkSpec
from sglb.switch.clock import PS_PER_NS, PS_PER_S, PS_PER_US
from sglb.watermark.device import DEVICES, METRES_PER_S, Device, Port
from sglb.watermark.errors import WatermarkError
from sglb.watermark.from_scenario import watermarks
from sglb.watermark.space import Parameter, Place, SearchSpace, grid
from sglb.watermark.tuner.prior import Links, Prior

#: Levels of a tuner's grid, beside the scenario's own values. XON moves no score that the model knows
#: of, so it stays.
LEVELS: Mapping[str, int] = {
    "kmin_bytes": 6,
    "kmax_bytes": 6,
    "pmax": 4,
    "dynamic_th": 6,
    "xon_offset_bytes": 1,
}


def search_space(
    scenario: Scenario, levels: Mapping[str, Sequence[float]] | None = None
) -> tuple[SearchSpace, Place]:
    """The space for a scenario's switches, with the scenario's own setting as one of its places.

    Headroom is the scenario's, or if that is too small the one that `headroom_bytes: auto` means, too.
    `levels` replaces those of the parameters that it names. Raises `WatermarkError` for a scenario
    without PFC or DCQCN, or with a setting that the device does not take.
    """
    model = scenario.model
    if not (model.switch.pfc.enabled and model.transport.dcqcn.enabled):
        raise WatermarkError(
            f"{model.name}: there is nothing to tune without switch.pfc.enabled and "
            "transport.dcqcn.enabled"
        )
    if model.switch.pfc.xoff_bytes != "dynamic":
        raise WatermarkError(f"{model.name}: switch.pfc.xoff_bytes must be dynamic to be tuned")
    port, headroom, enough = _port(scenario)
    device = _device(scenario)
    own = watermarks(scenario)
    space = grid(device, port, levels=LEVELS)
    wanted = {
        "kmin_bytes": own.kmin_bytes,
        "kmax_bytes": own.kmax_bytes,
        "pmax": own.pmax,
        "dynamic_th": _exponent(own.alpha),
        "xon_offset_bytes": own.xon_offset_bytes,
        "headroom_bytes": float(headroom),
    }
    rooms = {float(headroom)}
    if headroom < space.needed_headroom_bytes:
        rooms.add(float(enough))
    given = {"xon_offset_bytes": (), "headroom_bytes": tuple(rooms), **(levels or {})}
    parameters, place = [], []
    for parameter in space.parameters:
        try:
            parameter.check(wanted[parameter.name])
        except WatermarkError as error:
            raise WatermarkError(f"{model.name}: the scenario's own {error}") from None
        found = _with(
            parameter, wanted[parameter.name], given.get(parameter.name, parameter.levels)
        )
        parameters.append(found)
        place.append(found.levels.index(wanted[parameter.name]))
    return SearchSpace(tuple(parameters), device, port, space.queues, space.classes), tuple(place)


def nearest_feasible(space: SearchSpace, place: Place) -> Place:
    """The place itself, or the one with the fewest steps from it that the space's rules allow.

    Headroom stays, unless it is too small. Raises `WatermarkError` when there is none.
    """
    at = [p.name for p in space.parameters].index("headroom_bytes")
    enough = [
        level
        for level, room in enumerate(space.parameters[at].levels)
        if room >= space.needed_headroom_bytes
    ]
    if enough and place[at] not in enough:
        place = (*place[:at], enough[0], *place[at + 1 :])
    seen, waiting = {place}, deque([place])
    while waiting:
        one = waiting.popleft()
        if space.why_not(one) is None:
            return one
        for n, parameter in enumerate(space.parameters):
            if n == at:
                continue
            for step in (-1, 1):
                other = (*one[:n], one[n] + step, *one[n + 1 :])
                if 0 <= other[n] < len(parameter.levels) and other not in seen:
                    seen.add(other)
                    waiting.append(other)
    raise WatermarkError(f"no setting is allowed beside this headroom: {space.why_not(place)}")


def prior_of(
    scenario: Scenario,
    space: SearchSpace,
    start: Place,
    progress: Callable[[int, int], None] = lambda _done, _of: None,
) -> Prior:
    """The fluid model's word on all of a space, with the headroom of `start`. Takes seconds."""
    at = [p.name for p in space.parameters].index("headroom_bytes")
    return Prior(space, links_of(scenario), start[at], progress)


def links_of(scenario: Scenario) -> Links:
    """What the fluid model needs of a scenario's links; nothing of its traffic."""
    model, topology = scenario.model, scenario.topology
    spec = max((topology.attachment(host.id).spec for host in topology.hosts), key=_rate)
    wire = wire_bytes(model.transport.mtu_bytes, model.transport.ip_version)
    frame = frame_bytes(model.transport.mtu_bytes, model.transport.ip_version)
    pipeline_ps = round(model.switch.pipeline_latency_ns * PS_PER_NS)
    graph = nx.Graph()
    for link in topology.links:
        graph.add_edge(link.a, link.b, delay=link.spec.delay_ps + pipeline_ps)
    reach = nx.single_source_dijkstra_path_length(graph, topology.hosts[0].id, weight="delay")
    back_ps = max(reach[host.id] for host in topology.hosts)
    quanta = model.switch.pfc.peer_response_quanta
    if quanta == "auto":
        quanta = peer_response_quanta(spec.rate_bps)
    pause_bits = PAUSE_WIRE_BYTES * 8 + quanta * QUANTUM_BITS
    link_us = (spec.delay_ps + wire * 8 * PS_PER_S // spec.rate_bps) / PS_PER_US
    share = frame / wire
    dcqcn = scenario.dcqcn
    return Links(
        rate_gbps=spec.rate_bps / 1e9 * share,
        feedback_us=link_us + back_ps / PS_PER_US,
        pause_us=(spec.delay_ps + pause_bits * PS_PER_S // spec.rate_bps) / PS_PER_US,
        link_us=link_us + pipeline_ps / PS_PER_US,
        packet_bytes=frame,
        dcqcn=replace(
            dcqcn,
            rate_ai_bps=round(dcqcn.rate_ai_bps * share),
            min_rate_bps=round(dcqcn.min_rate_bps * share),
        ),
    )


def _rate(spec: LinkSpec) -> int:
    return spec.rate_bps


def _exponent(alpha: float) -> float:
    exponent = alpha.hex().split("p")[1]
    if float(2) ** int(exponent) != alpha:
        raise WatermarkError(f"alpha must be a power of 2 to be tuned, got {alpha:g}")
    return float(exponent)


def _with(parameter: Parameter, value: float, levels: Sequence[float]) -> Parameter:
    """A parameter with these levels and a value; the device's unit gives way to it."""
    found = tuple(sorted({*(float(level) for level in levels), value}))
    step = parameter.step if parameter.name == "dynamic_th" else 0.01
    step = step if parameter.unit != "bytes" else 1.0
    return Parameter(parameter.name, parameter.unit, parameter.low, parameter.high, step, found)


def _device(scenario: Scenario) -> Device:
    total = scenario.buffer.total_bytes
    simulated = DEVICES["simulated"]
    return Device(
        "simulated",
        total,
        simulated.cell_bytes,
        simulated.pipeline_bytes,
        simulated.mac_phy_bytes,
        simulated.dynamic_th,
    )


def _port(scenario: Scenario) -> tuple[Port, int, int]:
    """The largest switch's ports, with the longest, fastest link of any; its headroom, and `auto`'s."""
    model, topology = scenario.model, scenario.topology
    spec = max((link.spec for link in topology.links), key=lambda s: s.rate_bps * s.delay_ps)
    port = Port(
        rate_gbps=spec.rate_bps / 1e9,
        cable_m=spec.delay_ps / PS_PER_S * METRES_PER_S,
        mtu_bytes=model.transport.mtu_bytes,
        port_mtu_bytes=model.transport.mtu_bytes,
        ports=max(len(topology.ports(switch.id)) for switch in topology.switches),
        lossless_classes=sum(c.lossless for c in scenario.buffer.classes),
    )
    auto = model.switch.model_copy(
        update={"pfc": model.switch.pfc.model_copy(update={"headroom_bytes": "auto"})}
    )
    return (
        port,
        port_headroom_bytes(spec, model.switch, model.transport),
        port_headroom_bytes(spec, auto, model.transport),
    )
