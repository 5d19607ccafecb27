"""What an engine cannot run, what no switch could do, and what is hardly meant."""

from __future__ import annotations

from sglb.fabric.lossless import (
    CLASSES,
    least_port_headroom_bytes,
    port_headroom_bytes,
    resolve,
    switch_headroom_bytes,
)
from sglb.fabric.problems import Problems
from sglb.fabric.schema import ScenarioModel
from sglb.fabric.topology import LinkSpec, Topology
from sglb.fabric.yaml_source import KeyPath


def only_native(model: ScenarioModel) -> list[KeyPath]:
    """Keys that are set to what the reference engine does not have."""
    switch, transport = model.switch, model.transport
    asked: list[tuple[KeyPath, bool]] = [
        (("switch", "buffer", "total_bytes"), switch.buffer.total_bytes is not None),
        (("switch", "buffer", "classes"), bool(switch.buffer.classes)),
        (("switch", "pfc", "enabled"), switch.pfc.enabled),
        (("transport", "recovery"), transport.recovery != "selective_repeat"),
        (("transport", "ack_timer_us"), transport.ack_timer_us > 0),
        (("transport", "traffic_class"), transport.traffic_class > 0),
        (("transport", "dcqcn", "enabled"), transport.dcqcn.enabled),
    ]
    return [path for path, is_set in asked if is_set]


def check_engine(model: ScenarioModel, topology: Topology, problems: Problems) -> None:
    """Complains of what the scenario's engine cannot run."""
    if model.engine == "reference":
        for path in only_native(model):
            problems.bad(path, "is not known to the reference engine; add `engine: native`")
        return
    for link in topology.links:
        if not link.spec.delay_ps:
            problems.bad(
                ("links",),
                f"{link.name} has no delay, which is how far the native engine looks ahead; give it "
                "a delay_ns above 0, or use `engine: reference`",
            )
            return


def check_lossless(model: ScenarioModel, topology: Topology, problems: Problems) -> None:
    """Complains of buffers that cannot be, and warns of thresholds that cannot work."""
    switch, transport = model.switch, model.transport
    lossless = [c for c in switch.buffer.classes if c.lossless]
    if not switch.pfc.enabled:
        for block in lossless:
            problems.warn(
                ("switch", "buffer", "classes"),
                f"class {block.number} is lossless, but pfc is off: its packets can be lost",
            )
        return
    if transport.traffic_class not in [c.number for c in lossless]:
        problems.warn(
            ("transport", "traffic_class"),
            f"is {transport.traffic_class}, which is not a lossless class: PFC protects no host's data",
        )
    _check_room(model, topology, problems)
    _warn_of_headroom(model, topology, problems)
    _warn_of_ecn(model, topology, problems)


def _check_room(model: ScenarioModel, topology: Topology, problems: Problems) -> None:
    """The buffer must hold all headroom and reservations."""
    total = model.switch.buffer.total_bytes or 0
    worst, needed, where = 0, 0, ""
    reserved = sum(c.reserved_bytes for c in resolve(model.switch, model.transport).classes)
    for node in topology.switches:
        headroom = switch_headroom_bytes(topology, node.id, model.switch, model.transport)
        ports = len(topology.ports(node.id))
        if headroom + ports * reserved > needed:
            worst, needed, where = (
                headroom,
                headroom + ports * reserved,
                f"{node.name} ({ports} ports)",
            )
    if needed >= total:
        rest = f" and {needed - worst} bytes of reservations" if needed > worst else ""
        problems.bad(
            ("switch", "buffer", "total_bytes"),
            f"is {total}, and {where} needs {worst} bytes of headroom{rest} alone; give it more",
        )


def _specs(topology: Topology) -> dict[LinkSpec, str]:
    """Every kind of link, and one of its links."""
    found: dict[LinkSpec, str] = {}
    for link in topology.links:
        found.setdefault(link.spec, link.name)
    return found


def _warn_of_headroom(model: ScenarioModel, topology: Topology, problems: Problems) -> None:
    for spec, name in _specs(topology).items():
        given = port_headroom_bytes(spec, model.switch, model.transport)
        least = least_port_headroom_bytes(spec, model.switch, model.transport)
        if given < least:
            problems.warn(
                ("switch", "pfc", "headroom_bytes"),
                f"is {given}, and {least} bytes can arrive on {name} after a pause was decided: a "
                "lossless class can lose packets",
            )
            return


def _warn_of_ecn(model: ScenarioModel, topology: Topology, problems: Problems) -> None:
    """ECN must speak before PFC: kmin below the lowest threshold at which a port pauses its peer."""
    config = resolve(model.switch, model.transport)
    largest = max(
        switch_headroom_bytes(topology, s.id, model.switch, model.transport)
        for s in topology.switches
    )
    for block in config.classes[: CLASSES - 1]:
        if not block.lossless:
            continue
        # One port alone against the dynamic threshold: T = alpha (B - T).
        shared = max(0, config.total_bytes - largest)
        alone = shared * block.alpha_num // (block.alpha_num + block.alpha_den)
        xoff = block.xoff_bytes or alone
        if block.kmin_bytes >= xoff:
            problems.warn(
                ("switch", "ecn", "kmin_bytes"),
                f"of class {block.number} is {block.kmin_bytes}, not below the {xoff} bytes at which a "
                "port is paused: PFC acts before ECN",
            )
