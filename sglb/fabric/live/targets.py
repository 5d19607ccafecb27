"""What can run the switches of a live fabric."""

from __future__ import annotations

from sglb.fabric.live.fabric import LiveFabric, SwitchMaker
from sglb.fabric.live.processes import ProcessSpec
from sglb.fabric.live.switches import SwitchProcess, live_config, warm_up
from sglb.fabric.scenario import Scenario
from sglb.p4.compiler import CompiledProgram
from sglb.switch.wire.port import InterfacePort


def embedded(scenario: Scenario, program: CompiledProgram) -> tuple[SwitchMaker, int]:
    """`sglb switch` in each namespace; the second is the unit of queue depths in bytes."""
    warm_up(program)
    config = live_config(scenario.model.switch.queue_bytes)

    def make(fabric: LiveFabric, switch_id: int) -> ProcessSpec:
        topology = fabric.topology
        name = topology.by_id(switch_id).name
        ports = tuple(
            InterfacePort(port, fabric.ends[switch_id, port].interface, link.spec.rate_bps)
            for port, link in topology.ports(switch_id).items()
        )
        timers = fabric.plane.timers(switch_id)
        target = SwitchProcess(fabric.view, name, switch_id, program, ports, timers, config)
        return ProcessSpec(name, target, fabric.namespaces[switch_id], nice=-20)

    return make, config.cell_bytes
