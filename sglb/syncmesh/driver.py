"""Drivers: they give an `Agent` time and a switch.

`ScheduledAgent` lives on a `Scheduler` with a client whose calls return at once: virtual time with the
in-process client. `AsyncAgent` lives in asyncio with a client that is awaited: finsy's `Switch`, for any
P4Runtime target.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any, Protocol

from finsy import P4PacketIn, P4PacketOut

from sglb.switch.clock import PS_PER_NS, PS_PER_S, Handle, Scheduler
from sglb.switch.p4runtime.status import Code, P4RuntimeError
from sglb.syncmesh.agent import Agent
from sglb.syncmesh.config import AgentConfig
from sglb.syncmesh.effects import Effect, LinkDown, LinkRecovered, NeighbourChanged
from sglb.syncmesh.stats import AgentStats
from sglb.syncmesh.tables import ANNOUNCED, OWNED, AgentTables, announced_codes

Event = NeighbourChanged | LinkDown | LinkRecovered


def _ignore(_: Event) -> None:
    pass


class SwitchClient(Protocol):
    """What `ScheduledAgent` needs of a P4Runtime client (`InProcessClient` is one)."""

    def write(self, updates: Any) -> None:
        """Writes finsy updates and packet-outs."""

    def read(self, entities: Any) -> list[Any]:
        """Reads what finsy entities select."""

    def on_packet_in(self, callback: Callable[[P4PacketIn], None]) -> None:
        """Calls back with each packet-in."""


class AsyncSwitchClient(Protocol):
    """What `AsyncAgent` needs of a P4Runtime client (finsy's `Switch` is one)."""

    async def write(self, entities: Any) -> None:
        """Writes finsy updates and packet-outs."""

    def read(self, entities: Any) -> AsyncIterator[Any]:
        """Reads what finsy entities select."""

    def read_packets(self) -> AsyncIterator[P4PacketIn]:
        """All packet-ins from now on."""


def _uncounted(_: int) -> None:
    pass


def _none() -> Iterable[int]:
    return ()


class ScheduledAgent:
    """An agent on a scheduler. `on_event` is told of neighbours and links, in the middle of a call.

    `ports_down` gives the switch's ports without a link, as `P4RuntimeService.port_states` knows them:
    P4Runtime has no message for that, and the data plane had no event of a port that was down before.

    `on_write` is told how many table and replication entries were written. The client belongs to the
    agent: its packet-ins go nowhere else. When the switch is down (UNAVAILABLE) the agent falls silent
    for good, as it would with its switch; another one starts when the switch is back. Other errors of
    the client pass through.
    """

    def __init__(
        self,
        config: AgentConfig,
        client: SwitchClient,
        clock: Scheduler,
        rng: random.Random,
        on_event: Callable[[Event], None] = _ignore,
        ports_down: Callable[[], Iterable[int]] = _none,
        on_write: Callable[[int], None] = _uncounted,
    ) -> None:
        self._agent = Agent(config, rng)
        self._client = client
        self._clock = clock
        self._on_write = on_write
        self._on_event = on_event
        self._ports_down = ports_down
        self._tables = AgentTables()
        self._timer: Handle | None = None
        self._timer_ps = 0
        self._running = False

    @property
    def config(self) -> AgentConfig:
        """What the agent was told."""
        return self._agent.config

    def start(self) -> None:
        """Reads what the switch holds, fills the agent's tables and goes on from there."""
        try:
            self._tables.found(self._client.read(OWNED))
            announced, neighbours = {}, {}
            if not self.config.new_data_plane:
                announced = announced_codes(self._client.read(ANNOUNCED))
                neighbours = self._tables.neighbours()
        except P4RuntimeError as error:
            self._failed(error)
            return
        self._running = True
        self._client.on_packet_in(self._packet_in)
        self._do(self._agent.start(self._clock.now_ps, announced, neighbours))
        self._do(self._agent.without_carrier(self._clock.now_ps, self._ports_down()))
        self._write(self._tables.leftovers())

    def stop(self) -> None:
        """Says BYE and falls silent."""
        self._do(self._agent.stop(self._clock.now_ps))
        self.kill()

    def kill(self) -> None:
        """Falls silent without a word, as an agent that crashed."""
        self._running = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def clear_link(self, port: int) -> None:
        """See `Agent.clear_link`; an agent that fell silent does nothing."""
        if self._running:
            self._do(self._agent.clear_link(self._clock.now_ps, port))

    def stats(self) -> AgentStats:
        """See `Agent.stats`."""
        return self._agent.stats()

    def _packet_in(self, packet: P4PacketIn) -> None:
        if self._running:
            port, reason = _header(packet)
            self._do(self._agent.packet_in(self._clock.now_ps, port, reason, packet.payload))

    def _wake(self) -> None:
        self._timer = None
        self._do(self._agent.timer(self._clock.now_ps))

    def _do(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, NeighbourChanged | LinkDown | LinkRecovered):
                self._on_event(effect)
            else:
                self._write(self._tables.updates(effect))
        if self._running:
            self._arm()

    def _write(self, updates: list[Any]) -> None:
        if not self._running:
            return
        try:
            self._client.write(updates)
        except P4RuntimeError as error:
            self._failed(error)
            return
        entries = sum(not isinstance(update, P4PacketOut) for update in updates)
        if entries:
            self._on_write(entries)

    def _failed(self, error: P4RuntimeError) -> None:
        if error.code is not Code.UNAVAILABLE:
            raise error
        self.kill()

    def _arm(self) -> None:
        due_ps = self._agent.deadline_ps
        if self._timer is not None:
            if due_ps == self._timer_ps:
                return
            self._timer.cancel()
            self._timer = None
        if due_ps is not None:
            self._timer_ps = due_ps
            self._timer = self._clock.call_at(max(due_ps, self._clock.now_ps), self._wake)


class AsyncAgent:
    """An agent in asyncio: `run` until it is cancelled or `stop` is called.

    `recall` reads the data plane's announcements from its registers when the agent starts on one that
    has been running; targets that cannot read registers (BMv2) want False. `ports_down` gives the
    switch's ports without a link, as gNMI or the platform tells them.
    """

    def __init__(
        self,
        config: AgentConfig,
        client: AsyncSwitchClient,
        rng: random.Random,
        on_event: Callable[[Event], None] = _ignore,
        *,
        recall: bool = True,
        ports_down: Callable[[], Iterable[int]] = _none,
        now_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._agent = Agent(config, rng)
        self._client = client
        self._on_event = on_event
        self._ports_down = ports_down
        self._recall = recall and not config.new_data_plane
        self._now_ns = now_ns
        self._tables = AgentTables()
        self._inputs: asyncio.Queue[P4PacketIn | int | Exception | None] = asyncio.Queue()

    async def run(self) -> None:
        """Starts, then serves packets and timers; says BYE after `stop`, nothing when cancelled.

        Errors of the client pass through; ConnectionError when its packet-ins end.
        """
        receiver = asyncio.create_task(self._receive())
        try:
            await asyncio.sleep(0)  # packet-ins are listened for before the first HELLO leaves
            await self._serve()
        finally:
            receiver.cancel()
            await asyncio.gather(receiver, return_exceptions=True)

    def stop(self) -> None:
        """Makes `run` say BYE and return."""
        self._inputs.put_nowait(None)

    def clear_link(self, port: int) -> None:
        """See `Agent.clear_link`; carried out by `run`."""
        self._inputs.put_nowait(port)

    def stats(self) -> AgentStats:
        """See `Agent.stats`."""
        return self._agent.stats()

    async def _receive(self) -> None:
        try:
            async for packet in self._client.read_packets():
                self._inputs.put_nowait(packet)
        except Exception as error:
            self._inputs.put_nowait(error)
        else:
            self._inputs.put_nowait(ConnectionError("the switch's packet-ins ended"))

    async def _serve(self) -> None:
        self._tables.found([entity async for entity in self._client.read(OWNED)])
        announced, neighbours = {}, {}
        if self._recall:
            announced = announced_codes([e async for e in self._client.read(ANNOUNCED)])
            neighbours = self._tables.neighbours()
        await self._do(self._agent.start(self._now_ps(), announced, neighbours))
        await self._do(self._agent.without_carrier(self._now_ps(), self._ports_down()))
        leftovers = self._tables.leftovers()
        if leftovers:
            await self._client.write(leftovers)
        while await self._serve_one():
            pass

    async def _serve_one(self) -> bool:
        """One timer or input; False after the last one."""
        wait_s = self._wait_s()
        if wait_s == 0:  # before inputs, so that a flood of them stops no timer
            await self._do(self._agent.timer(self._now_ps()))
            return True
        try:
            async with asyncio.timeout(wait_s):
                taken = await self._inputs.get()
        except TimeoutError:
            return True
        now_ps = self._now_ps()
        match taken:
            case None:
                await self._do(self._agent.stop(now_ps))
                return False
            case Exception():
                raise taken
            case int():
                await self._do(self._agent.clear_link(now_ps, taken))
            case P4PacketIn():
                port, reason = _header(taken)
                await self._do(self._agent.packet_in(now_ps, port, reason, taken.payload))
        return True

    def _now_ps(self) -> int:
        return self._now_ns() * PS_PER_NS

    def _wait_s(self) -> float | None:
        due_ps = self._agent.deadline_ps
        return None if due_ps is None else max(0, due_ps - self._now_ps()) / PS_PER_S

    async def _do(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, NeighbourChanged | LinkDown | LinkRecovered):
                self._on_event(effect)
            else:
                await self._client.write(self._tables.updates(effect))


def _header(packet: P4PacketIn) -> tuple[int, int]:
    return int(packet["ingress_port"]), int(packet["reason"])
