"""A SyncMesh agent as a process: P4Runtime to its switch, a Unix socket for controllers."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import time
from collections.abc import Coroutine, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from finsy import P4MeterConfig, P4MeterEntry
from finsy.proto import p4r

from controller.agents import agent_config, allocation_of, named_key_file
from controller.layout import FabricLayout
from controller.live.identity import incarnation_of
from controller.live.news import LinkNews, NewsServer
from controller.live.process import run_process
from sglb.fabric.live.control import LiveView
from sglb.switch.clock import PS_PER_MS, PS_PER_S
from sglb.switch.p4runtime.client import InProcessClient
from sglb.switch.p4runtime.remote import RemoteService
from sglb.switch.p4runtime.status import P4RuntimeError
from sglb.switch.wall_clock import WallClock
from sglb.syncmesh.driver import Event, ScheduledAgent
from sglb.syncmesh.effects import LinkDown, LinkRecovered, NeighbourChanged, NeighbourState
from sglb.syncmesh.key_file import read_key
from sglb.syncmesh.serial import SEQ_BITS

_log = logging.getLogger(__name__)
_ROLE: Final = "syncmesh"
_AGAIN_S: Final = 0.1
_NS_PER_MS: Final = 1_000_000
_BEATS_PER_S, _BEATS = 50, 4
#: A message through two processes in Python takes milliseconds, on a busy machine many.
PATIENCE_PS: Final = {
    "delta_ps": 10 * PS_PER_MS,
    "retransmit_ps": 250 * PS_PER_MS,
    "retransmit_max_ps": 2_000 * PS_PER_MS,
    "set_timeout_ps": 500 * PS_PER_MS,
    "settle_ps": 50 * PS_PER_MS,
}


def agent_name(switch_name: str) -> str:
    """The name of a switch's agent process."""
    return f"agent-{switch_name}"


def key_path(view: LiveView) -> Path:
    """The file with the key that this fabric's agents share."""
    return named_key_file(view.scenario) or view.folder / "syncmesh.key"


@dataclass(frozen=True)
class AgentProcess:
    """The target of a process: the agent of switch `switch_id`, until SIGTERM."""

    view: LiveView
    switch_id: int

    def __call__(self) -> None:
        """Runs it."""
        logging.basicConfig(stream=sys.stderr, level=logging.WARNING)
        asyncio.run(self._run())

    async def _run(self) -> None:
        agent = _Agent(self.view, self.switch_id)
        # A switch that comes back may refuse a packet-out until the agent is primary again.
        await run_process(agent.tasks(), agent.report, callbacks_may_fail=True)


class _Agent:
    def __init__(self, view: LiveView, switch_id: int) -> None:
        topology = view.scenario.topology
        fabric = FabricLayout(topology)
        node = topology.by_id(switch_id)
        profiles = view.scenario.model.syncmesh.profiles
        self._view = view
        self._id = switch_id
        self._name = agent_name(node.name)
        self._layout = fabric.layout(switch_id)
        self._allocation = allocation_of(fabric, switch_id, profiles)
        self._key = read_key(key_path(view))
        self._clock = WallClock(asyncio.get_running_loop())
        self._service = RemoteService(node.name, switch_id, view.addresses[switch_id], self._clock)
        self._gone = asyncio.Event()
        self._service.on_power(lambda on: None if on else self._gone.set())
        self._agent: ScheduledAgent | None = None
        self._said: dict[int, LinkNews] = {}
        self._up: set[int] = set()
        self._news = NewsServer(view.folder / f"{self._name}.sock", self._marked, self._clear)

    def tasks(self) -> Iterator[Coroutine[Any, Any, None]]:
        """What has to run."""
        yield self._service.run()
        yield self._serve()

    def report(self) -> None:
        """Writes what the agent counted, and falls silent for controllers."""
        self._news.close()
        counters = {} if self._agent is None else dict(self._agent.stats().counters)
        self._view.report(self._name).write_text(json.dumps(counters))

    async def _serve(self) -> None:
        """One agent after the other, as its switch comes and goes."""
        await self._news.start()
        await self._service.ready.wait()
        # Newer than whatever was here before, who may still be connected.
        now_ms = time.monotonic_ns() // _NS_PER_MS
        role = p4r.Role(name=_ROLE)
        client = InProcessClient(self._service, now_ms, role=role)  # type: ignore[arg-type]
        while True:
            self._gone.clear()
            with suppress(P4RuntimeError):
                await self._start(client)
                await self._gone.wait()
            if self._agent is not None:
                self._agent.kill()
            self._said.clear()
            self._up.clear()
            await asyncio.sleep(_AGAIN_S)

    async def _start(self, client: InProcessClient) -> None:
        while not (client.is_primary and (incarnation := incarnation_of(client))):
            await asyncio.sleep(_AGAIN_S)
        scenario = self._view.scenario
        now_ms = time.monotonic_ns() // _NS_PER_MS
        config = agent_config(self._layout, self._allocation, scenario, incarnation, self._key)
        config = replace(
            config,
            timers=replace(config.timers, beat_gap_ps=PS_PER_S // _BEATS_PER_S, **PATIENCE_PS),
            new_data_plane=False,
            first_seq=now_ms % (1 << SEQ_BITS),
        )
        client.modify(self._told_rates())
        rng = scenario.rng(f"agent {self._id} {now_ms}")
        self._agent = ScheduledAgent(
            config, client, self._clock, rng, self._event, self._ports_down
        )
        self._agent.start()

    def _told_rates(self) -> list[P4MeterEntry]:
        """How often heartbeats on a marked link reach the agent, which hears of other things too."""
        rate = {"cir": _BEATS_PER_S, "cburst": _BEATS, "pir": _BEATS_PER_S, "pburst": _BEATS}
        return [
            P4MeterEntry("beats_told", index=port, config=P4MeterConfig(**rate))
            for port in self._layout.neighbours
        ]

    def _ports_down(self) -> list[int]:
        states = self._service.port_states()
        return [port for port in self._layout.neighbours if not states.get(port, False)]

    def _event(self, event: Event) -> None:
        match event:
            case NeighbourChanged(port, _, state):
                if state is NeighbourState.UP:
                    self._up.add(port)
                    if len(self._up) == len(self._layout.neighbours):
                        self._view.ready(self._name).touch()
            case LinkDown(port) | LinkRecovered(port):
                self._said[port] = event
                self._news.tell(event)

    def _marked(self) -> Iterator[LinkNews]:
        if self._agent is not None:
            marked = {n.port for n in self._agent.stats().neighbours if n.link_marked_down}
            yield from (news for port, news in sorted(self._said.items()) if port in marked)

    def _clear(self, port: int) -> None:
        if self._agent is not None:
            self._agent.clear_link(port)
