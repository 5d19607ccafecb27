"""Real switches on a chain, with agents: the P4 program, virtual time, wires that can lose frames."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from typing import Any

from finsy import Action, Match, P4MulticastGroupEntry, P4RegisterEntry, P4TableEntry

from sglb import p4
from sglb.p4.random_stream import RandomStream
from sglb.programs import glb
from sglb.switch.clock import PS_PER_NS, PS_PER_US, VirtualClock
from sglb.switch.config import SwitchConfig
from sglb.switch.p4runtime.client import InProcessClient
from sglb.switch.p4runtime.service import P4RuntimeService
from sglb.switch.pktgen import TimerApp
from sglb.switch.switch import Switch
from sglb.syncmesh import dataplane as dp
from sglb.syncmesh import messages as m
from sglb.syncmesh.config import AgentConfig, FabricPort, Heard, Timers
from sglb.syncmesh.driver import Event, ScheduledAgent

KEY = m.FabricKey(b"the fabric's key")
WIRE_PS = 500 * PS_PER_NS
TIMERS = Timers()
US = PS_PER_US
MS = 1_000 * PS_PER_US


@cache
def program() -> p4.CompiledProgram:
    return p4.compile(glb())


def mac(node: int) -> bytes:
    return bytes((2, 0, 0, 0, 0, node))


Lose = Callable[[int, int, bytes], bool]


class Chain:
    """Switches 1 to n in a row: port 1 of each leads to the one before, port 2 to the one after.

    Every switch announces, by subject index 1, the last switch, reached by port 2 (lane 1), and by index
    2 the first, reached by port 1 (lane 0); both through profile 1 and 2. Each hears of the last from
    port 2 and of the first from port 1, and relays it.
    """

    def __init__(self, nodes: int, *, timers: Timers = TIMERS, alone: bool = True) -> None:
        self.nodes = nodes
        self.clock = VirtualClock()
        self.timers = timers
        self.alone = alone
        self.lose: Lose = lambda node, port, frame: False
        self.sent: list[tuple[int, int, bytes]] = []
        self.events: dict[int, list[Event]] = {}
        self.switches: dict[int, Switch] = {}
        self.services: dict[int, P4RuntimeService] = {}
        self.clients: dict[int, InProcessClient] = {}
        self.agents: dict[int, ScheduledAgent] = {}
        for node in range(1, nodes + 1):
            self._add(node)

    def ports(self, node: int) -> dict[int, int]:
        """Fabric port -> neighbour."""
        found = {1: node - 1, 2: node + 1}
        return {port: peer for port, peer in found.items() if 1 <= peer <= self.nodes}

    def _add(self, node: int) -> None:
        config = SwitchConfig(port_events=True)
        switch = Switch(
            program(),
            config,
            self.clock,
            name=f"s{node}",
            device_id=node,
            rng=RandomStream(node),
        )
        for port in (1, 2, 3):  # 3 is a host's
            switch.add_port(port, 100_000_000_000)
        switch.on_transmit = partial(self._transmitted, node)
        self.switches[node] = switch
        self.services[node] = P4RuntimeService(switch, self.clock)
        self.clients[node] = InProcessClient(self.services[node])
        self.events[node] = []
        self.install(node, 1)

    def _transmitted(self, node: int, port: int, frame: bytes, _start: int, end_ps: int) -> None:
        self.sent.append((node, port, frame))
        peer = self.ports(node).get(port)
        if peer is not None and not self.lose(node, port, frame):
            self.clock.call_at(end_ps + WIRE_PS, self.switches[peer].receive, 3 - port, frame)

    def install(self, node: int, incarnation: int) -> None:
        """What the controller would install, as far as the agents' work needs it."""
        self.clients[node].write(self.entities(node, incarnation))

    def identify(self, node: int, incarnation: int) -> None:
        """Tells a data plane who it is."""
        self.clients[node].write(self._identity(node, incarnation))

    def entities(self, node: int, incarnation: int) -> list[Any]:
        """What `install` writes, as updates."""
        found = self._identity(node, incarnation)
        ports = tuple(self.ports(node))
        found.append(+P4MulticastGroupEntry(dp.FABRIC_GROUP, replicas=ports))
        for port in ports:
            entries = [self._quality(port), *self._subject(port, self.nodes if port == 2 else 1)]
            found += [+entry for entry in entries]
        return found

    @staticmethod
    def _identity(node: int, incarnation: int) -> list[Any]:
        identity = {"node_id": node, "incarnation": incarnation}
        return [
            ~P4TableEntry(
                "FabricIngress.ports.switch_info",
                action=Action("FabricIngress.ports.set_switch", **identity, hash_seed=1),
                is_default_action=True,
            ),
            ~P4TableEntry(
                "FabricEgress.sender",
                action=Action("FabricEgress.set_switch", **identity),
                is_default_action=True,
            ),
        ]

    @staticmethod
    def _quality(port: int) -> P4TableEntry:
        return P4TableEntry(
            "FabricEgress.quality.port_quality",
            match=Match(port=port),
            action=Action(
                "FabricEgress.quality.set_port",
                of_subject=3 - port,
                of_bank=0,
                with_lane_shift=8 * (port - 1),
                with_load_shift=0,
                with_queue_shift=0,
                with_beat_timeout_us=3_500,
                with_scan_first=0,
                with_scan_count=0,
                **{f"v{i}": 1_000_000 * i for i in range(1, 8)},
            ),
        )

    @staticmethod
    def _subject(port: int, destination: int) -> list[P4TableEntry]:
        return [
            P4TableEntry(
                "FabricEgress.announce.subjects",
                match=Match(subject=3 - port),
                action=Action(
                    "FabricEgress.announce.set_subject",
                    of_bank=0,
                    of_members=0x80 << 8 * (port - 1),
                    with_profile=3 - port,
                    with_spacing_us=0,
                    with_refresh_us=10_000,
                    with_copies=0,
                ),
            ),
            P4TableEntry(
                dp.T_ANNOUNCEMENTS,
                match=Match(subject=3 - port),
                action=Action(
                    "FabricEgress.build_note.set_destination",
                    of_dst=destination,
                    with_capacity_mbps=100_000 * port,
                ),
            ),
        ]

    def config(
        self, node: int, incarnation: int = 1, *, new_data_plane: bool = True
    ) -> AgentConfig:
        ports = self.ports(node)
        heard = []
        if 2 in ports and node + 1 != self.nodes:
            heard.append(Heard(self.nodes, 1, self.alone, 1, (2,)))
        if 1 in ports and node - 1 != 1:
            heard.append(Heard(1, 2, self.alone, 2, (1,)))
        if not self.alone:  # somebody who shares the profile, and is well
            heard += [replace(h, subject=h.subject + 100) for h in heard]
        return AgentConfig(
            node=node,
            incarnation=incarnation,
            mac=mac(node),
            key=KEY,
            ports={p: FabricPort(dp.Lane(0, p - 1), 3 - p, peer) for p, peer in ports.items()},
            heard=tuple(heard),
            timers=self.timers,
            new_data_plane=new_data_plane,
        )

    def start(self, *nodes: int) -> None:
        for node in nodes or range(1, self.nodes + 1):
            self.start_agent(self.config(node))

    def start_agent(self, config: AgentConfig) -> ScheduledAgent:
        agent = ScheduledAgent(
            config,
            self.clients[config.node],
            self.clock,
            random.Random(100 * config.node + config.incarnation),
            self.events[config.node].append,
            partial(self._ports_down, config.node),
        )
        self.agents[config.node] = agent
        agent.start()
        return agent

    def _ports_down(self, node: int) -> list[int]:
        return [port for port, up in self.services[node].port_states().items() if not up]

    def beat(self) -> None:
        """Starts the heartbeats, staggered."""
        for node, switch in self.switches.items():
            switch.start_generator(
                TimerApp(
                    dp.APP_BEAT_TIMER,
                    self.timers.heartbeat_ps,
                    bytes(40),
                    start_ps=node * 10 * US,
                )
            )

    def run(self, time_ps: int) -> None:
        """Lets time pass."""
        self.clock.run(self.clock.now_ps + time_ps)

    # --- what stands in the data plane ---

    def register(self, node: int, name: str, index: int) -> int:
        found = self.clients[node].read(P4RegisterEntry(name, index=index))
        return int(found[0].data)

    def codes(self, node: int, profile: int) -> int:
        """The lanes of a profile in bank 0."""
        return self.register(node, "remote_codes", profile * dp.BANKS)

    def down(self, node: int) -> int:
        """The set of lanes that are marked down."""
        return self.register(node, "local_down", 0)

    def table(self, node: int, name: str, key: str) -> dict[int, dict[str, int]]:
        """Entries of a table: key -> action parameters."""
        return {
            int(entry.match[key]): {k: int(v) for k, v in entry.action.args.items()}
            for entry in self.clients[node].read(P4TableEntry(name))
            if entry.match is not None
        }

    def counters(self, node: int) -> dict[str, int]:
        return dict(self.agents[node].stats().counters)

    def inject(self, node: int, port: int, frame: bytes) -> None:
        """A frame arrives at a port."""
        self.switches[node].receive(port, frame)


def message_type(frame: bytes) -> int:
    """A SyncMesh frame's type, 0 for other frames."""
    return frame[14] & 0xF if frame[12:14] == b"\x88\xb5" else 0
