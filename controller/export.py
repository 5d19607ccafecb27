"""A fabric as files of the P4 tutorials: `topology.json`, and what each switch holds.

With them a fabric runs in Mininet, or wherever such files are read; without a controller, if the policy
asks for no more than entries.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from finsy import P4Schema

from controller.agents import static_ports
from controller.layout import FabricLayout
from controller.paths import LinkState
from controller.plan import Entity, PlanInputs, plan_switch
from controller.timers import timers_of
from sglb.fabric.live.switches import PRIORITY
from sglb.fabric.scenario import Scenario
from sglb.fabric.schema import Policy
from sglb.fabric.topology import Topology
from sglb.switch import runtime_file
from sglb.switch.clock import PS_PER_US
from sglb.whole_file import write_whole

#: Policies that need neither an agent nor a timer beside what the tables say.
STATIC_POLICIES: tuple[Policy, ...] = ("ecmp", "flowlet", "spray")

# A host's gateway: the leaf answers no ARP, so its address stands in the host's neighbour table.
_GATEWAY = "169.254.1.1"


def export(
    scenario: Scenario,
    policy: Policy,
    folder: Path,
    schema: P4Schema,
    program: Path,
    fastest_mbps: float | None = None,
) -> None:
    """Writes `topology.json` and a runtime file for each switch into a folder that is there.

    `schema` is that of `program`, whose path goes into `topology.json`. With `fastest_mbps` links have
    rates in proportion to the scenario's, the fastest that much; without, none. Delays are left out:
    Linux has none as short. `policy` is one of `STATIC_POLICIES`. Raises `PlanError`, OSError.
    """
    topology = scenario.topology
    names = {s.id: f"{s.name}-runtime.json" for s in topology.switches}
    inputs = PlanInputs(
        FabricLayout(topology), scenario.model, policy, LinkState.healthy(topology), {}
    )
    for switch_id, name in names.items():
        text = runtime_file.to_json(_entities(inputs, switch_id), schema, target="bmv2")
        write_whole(folder / name, text)
    switches = {
        s.name: {
            "runtime_json": names[s.id],
            "program": str(program.resolve()),
            "device_id": s.id,
        }
        for s in topology.switches
    }
    _write(folder, topology, switches, fastest_mbps)


def export_controlled(
    scenario: Scenario,
    policy: Policy,
    folder: Path,
    program: Path,
    fabric: str,
    mbps: float | None,
) -> None:
    """Writes `topology.json` of a fabric that `sglb control` fills, into a folder that is there.

    `scenario` is in real time (`sglb.fabric.live.scaled`); links have its rates, switches its timers.
    `fabric` and `mbps` are what `sglb control` is to be told. Raises OSError.
    """
    topology = scenario.topology
    count = len(topology.switches)
    switches = {}
    for index, node in enumerate(topology.switches):
        timers = timers_of(scenario.model, policy, index, count)
        switches[node.name] = {
            "program": str(program.resolve()),
            "device_id": node.id,
            "timers": [f"{app.app_id}:{app.period_ps // PS_PER_US}" for app in timers],
            "realtime": PRIORITY if scenario.model.live.realtime else 0,
        }
    fastest_bps = max(link.spec.rate_bps for link in topology.links)
    control = {"fabric": fabric, "policy": policy, "mbps": mbps}
    _write(folder, topology, switches, fastest_bps / 1e6, control=control)


def _write(
    folder: Path,
    topology: Topology,
    switches: Mapping[str, object],
    fastest_mbps: float | None,
    **more: object,
) -> None:
    data = {
        "hosts": dict(_hosts(topology)),
        "switches": switches,
        "links": list(_links(topology, fastest_mbps)),
        **more,
    }
    write_whole(folder / "topology.json", json.dumps(data, indent=1) + "\n")


def _entities(inputs: PlanInputs, switch_id: int) -> Iterator[Entity]:
    yield from plan_switch(inputs, switch_id)
    yield from static_ports(inputs.fabric.layout(switch_id))


def _hosts(topology: Topology) -> Iterator[tuple[str, dict[str, object]]]:
    for host in topology.hosts:
        address = topology.address(host.id)
        leaf = topology.switch_of(host.id)
        yield (
            host.name,
            {
                "ip": f"{address.ipv4}/32",
                "mac": address.mac.hex(":"),
                "commands": [
                    f"ip neigh add {_GATEWAY} lladdr {leaf.mac.hex(':')} dev eth0",
                    f"ip route add {_GATEWAY} dev eth0",
                    f"ip route add default via {_GATEWAY} dev eth0",
                ],
            },
        )


def _links(topology: Topology, fastest_mbps: float | None) -> Iterator[list[object]]:
    fastest_bps = max((link.spec.rate_bps for link in topology.links), default=1)
    for link in topology.links:
        ends: list[object] = []
        for node_id, port in ((link.a, link.a_port), (link.b, link.b_port)):
            node = topology.by_id(node_id)
            ends.append(node.name if node.is_host else f"{node.name}-p{port}")
        if fastest_mbps is not None:
            ends += ["0", fastest_mbps * link.spec.rate_bps / fastest_bps]
        yield ends
