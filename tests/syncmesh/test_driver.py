"""Agents in asyncio: over a client in memory, and over gRPC with finsy against running switches."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import finsy as fy
import pytest
from syncmesh_kit import KEY, Chain, mac, program

from sglb.switch.config import SwitchConfig
from sglb.switch.live import LiveSwitch, ServeOptions
from sglb.syncmesh import dataplane as dp
from sglb.syncmesh import messages as m
from sglb.syncmesh.config import AgentConfig, FabricPort, Timers
from sglb.syncmesh.driver import AsyncAgent, Event
from sglb.syncmesh.effects import LinkRecovered, NeighbourChanged, NeighbourState

CONFIG = AgentConfig(
    node=10, incarnation=5, mac=mac(10), key=KEY, ports={1: FabricPort(dp.Lane(0, 0), neighbour=20)}
)


def run(test: Coroutine[Any, Any, None]) -> None:
    """Runs a coroutine to its end; a hang is a failure."""
    asyncio.run(asyncio.wait_for(test, 60))


async def until(condition: Callable[[], object]) -> None:
    while not condition():
        await asyncio.sleep(0.005)


def kind_of(entity: Any) -> tuple[type, str]:
    """A table's entries by its short name, other entities by their type."""
    return type(entity), str(getattr(entity, "table_id", "")).rpartition(".")[2]


class Memory:
    """A client that keeps what is written and gives what it is told to."""

    def __init__(self) -> None:
        self.written: list[Any] = []
        self.holds: list[Any] = []
        self.packets: asyncio.Queue[fy.P4PacketIn | None] = asyncio.Queue()
        self.failure: Exception | None = None

    async def write(self, entities: Any) -> None:
        if self.failure is not None:
            raise self.failure
        self.written += entities

    async def read(self, entities: Any) -> AsyncIterator[Any]:
        wanted = {kind_of(e) for e in entities}
        for entity in self.holds:
            if kind_of(entity) in wanted:
                yield entity

    async def read_packets(self) -> AsyncIterator[fy.P4PacketIn]:
        while (packet := await self.packets.get()) is not None:
            yield packet

    def arrive(self, port: int, reason: int, frame: bytes) -> None:
        metadata = {"ingress_port": port, "reason": reason}
        self.packets.put_nowait(fy.P4PacketIn(frame, metadata=metadata))

    def sent(self, kind: type[m.Message]) -> list[m.Message]:
        frames = [w.payload for w in self.written if isinstance(w, fy.P4PacketOut)]
        found = [m.decode(m.payload(frame), KEY) for frame in frames]
        return [message for message in found if isinstance(message, kind)]


def hello(seq: int, **changes: Any) -> bytes:
    head = {"origin": 20, "incarnation": 1, "seq": seq}
    return m.frame(mac(20), m.Hello(**head, hold_us=10_000_000, nonce=9, **changes).encode(KEY))


def test_it_starts_talks_and_says_bye() -> None:
    async def test() -> None:
        client, events = Memory(), list[Event]()
        agent = AsyncAgent(CONFIG, client, random.Random(1), events.append)
        running = asyncio.create_task(agent.run())
        await until(lambda: len(client.sent(m.Hello)) >= 3)  # by the timer, too
        client.arrive(1, dp.REASON_AGENT, hello(1))
        await until(lambda: events)
        assert events == [NeighbourChanged(1, 20, NeighbourState.HEARD)]
        up = bytes(12) + b"\x88\xb6" + bytes((0, 1, 0, 1, 0, 0))
        client.arrive(1, dp.REASON_PORT_EVENT, up)
        await until(lambda: LinkRecovered(1) in events)
        agent.clear_link(1)
        await until(lambda: client.sent(m.Set))
        agent.stop()
        await running
        assert len(client.sent(m.Bye)) == 1
        assert agent.stats().counters["hello_in"] == 1
        assert client.sent(m.Set)[0].what == m.SET_LINK  # type: ignore[attr-defined]

    run(test())


def test_it_takes_over_what_the_switch_holds() -> None:
    async def test() -> None:
        client = Memory()
        old = fy.Action(
            dp.A_SET_FABRIC, neighbour=20, incarnation=1, bank=0, lane_shift=0, subject=0
        )
        kept = fy.P4TableEntry(dp.T_PORTS, match=fy.Match(port=1), action=old)
        stray = fy.P4TableEntry("ports", match=fy.Match(port=7), action=old)
        announcement = fy.P4TableEntry(
            "announcements",
            match=fy.Match(subject=4),
            action=fy.Action("set_destination", of_dst=33, with_capacity_mbps=1),
        )
        code = fy.P4RegisterEntry("announced", index=4, data=8)
        client.holds = [kept, stray, fy.P4CloneSessionEntry(dp.URGENT_SESSION)]
        agent = AsyncAgent(CONFIG, client, random.Random(1))
        running = asyncio.create_task(agent.run())
        await until(lambda: len(client.written) > 5)
        updates = [w for w in client.written if not isinstance(w, fy.P4PacketOut)]
        # The port's entry and one session are there already, the rest is not, port 7 is nobody's.
        assert [(type(u), u._update_type.name) for u in updates] == [
            (fy.P4TableEntry, "MODIFY"),
            (fy.P4MulticastGroupEntry, "INSERT"),
            (fy.P4CloneSessionEntry, "INSERT"),
            (fy.P4CloneSessionEntry, "MODIFY"),
            (fy.P4TableEntry, "DELETE"),
        ]
        assert updates[-1].match["port"] == 7
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running
        assert client.sent(m.Bye) == []

        client.holds = [announcement, code, kept]
        client.written.clear()
        agent = AsyncAgent(replace(CONFIG, new_data_plane=False), client, random.Random(1))
        running = asyncio.create_task(agent.run())
        own = m.Echo(10, 5, random.Random(1).getrandbits(64))
        client.arrive(1, dp.REASON_AGENT, hello(1, echo=own, wants_notes=True))
        await until(lambda: client.sent(m.Delta))
        assert client.sent(m.Delta)[0].entries == (m.Entry(33, 8, 0, 0),)  # type: ignore[attr-defined]
        (port, *_) = [w for w in client.written if isinstance(w, fy.P4TableEntry)]
        assert port.action.args["incarnation"] == 1  # still heard, before it has said a word
        agent.stop()
        await running

    run(test())


def test_errors_of_the_client_end_it() -> None:
    async def test() -> None:
        client = Memory()
        client.failure = OSError("the switch is gone")
        with pytest.raises(OSError, match="the switch is gone"):
            await AsyncAgent(CONFIG, client, random.Random(1)).run()
        client = Memory()
        client.packets.put_nowait(None)
        with pytest.raises(ConnectionError, match="packet-ins ended"):
            await AsyncAgent(CONFIG, client, random.Random(1)).run()

    run(test())


def test_agents_over_grpc_with_finsy(tmp_path: Path) -> None:
    """Switches 1 and 2 of a chain of 3, in real time; 2 loses its link to 3."""
    info = tmp_path / "p4info.txtpb"
    info.write_text(str(program().p4info))
    chain = Chain(3)  # for its entries and configurations only
    timers = Timers()
    timers = replace(timers, hello_ps=50 * timers.hello_ps, hold_ps=10**13, full_ps=10**13)

    async def test() -> None:
        async with contextlib.AsyncExitStack() as stack:
            live, clients, agents, tasks = {}, {}, {}, []
            for node in (1, 2):
                options = ServeOptions(
                    grpc="127.0.0.1:0",
                    ports=(1, 2),
                    device_id=node,
                    name=f"s{node}",
                    switch=SwitchConfig(port_events=True),
                )
                live[node] = await stack.enter_async_context(LiveSwitch(program(), options))
            wire(live)
            for node in (1, 2):
                settings = fy.SwitchOptions(p4info=info, device_id=node)
                clients[node] = await stack.enter_async_context(
                    fy.Switch(f"s{node}", live[node].address, settings)
                )
                await clients[node].write(chain.entities(node, 1))
                config = replace(chain.config(node), timers=timers)
                agents[node] = AsyncAgent(config, clients[node], random.Random(node))
                tasks.append(asyncio.create_task(agents[node].run()))
            session = fy.P4CloneSessionEntry(dp.URGENT_SESSION)
            listeners: list[tuple[int, ...]] = []
            while listeners != [(1, dp.CPU_PORT)]:
                listeners = [e.replicas async for e in clients[2].read(session)]
            live[2].switch.set_port_state(2, False)
            await until(lambda: 3 in agents[1].stats().neighbours[0].subjects)
            assert agents[1].stats().neighbours[0].subjects[3].code == dp.CODE_DOWN
            register = fy.P4RegisterEntry("remote_codes", index=dp.BANKS)
            assert [e.data async for e in clients[1].read(register)] == [0x0800]
            for agent in agents.values():
                agent.stop()
            await asyncio.gather(*tasks)

    def wire(live: dict[int, LiveSwitch]) -> None:
        def transmitted(node: int, port: int, data: bytes, *_: object) -> None:
            if (node, port) in ((1, 2), (2, 1)):
                peer = live[3 - node]
                peer.clock.call_later(0, peer.switch.receive, 3 - port, data)

        for node, running in live.items():
            running.switch.on_transmit = partial(transmitted, node)

    run(test())
