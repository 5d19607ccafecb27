"""finsy over a socket: every kind of entity that it has, and what the switch sends by itself."""

import asyncio
import contextlib

import finsy as fy
import pytest
from finsy.p4entity import P4Replica, P4ValueSetMember
from p4runtime_kit import frame, kitchen

from sglb.switch.live import LiveSwitch, ServeOptions

OPTIONS = ServeOptions(grpc="127.0.0.1:0", ports=(1, 2, 3), device_id=5)


@contextlib.asynccontextmanager
async def session():
    """A live switch and finsy's primary."""
    async with (
        LiveSwitch(kitchen(), OPTIONS) as live,
        fy.Switch("s1", live.address, fy.SwitchOptions(device_id=5)) as switch,
    ):
        yield live, switch


def run(test):
    """Runs a coroutine to its end; a hang is a failure."""
    asyncio.run(asyncio.wait_for(test(), 60))


def forward(port):
    return fy.Action("forward", port=port)


ENTITIES = [
    fy.P4TableEntry("lpm_t", match=fy.Match(a=(0x0A000000, 8)), action=forward(1)),
    fy.P4TableEntry(
        "mixed_t",
        match=fy.Match(src=(0x10, 0xF0), b=(1, 5), c=7, etype=0x800),
        action=forward(1),
        priority=3,
        metadata=b"m",
    ),
    fy.P4TableEntry("exact_t", match=fy.Match(dst=1), action=forward(1), idle_timeout_ns=10**12),
    fy.P4TableEntry(
        "spread_t",
        match=fy.Match(a=1),
        action=fy.IndirectAction([(2, forward(1)), (1, forward(2))]),
    ),
    fy.P4ActionProfileMember("shared", member_id=1, action=forward(1)),
    fy.P4MulticastGroupEntry(3, replicas=(1, 2)),
    fy.P4CloneSessionEntry(3, replicas=(P4Replica(1, instance=7),), packet_length_bytes=64),
    fy.P4DigestEntry("learn_t", max_list_size=2, max_timeout_ns=10**6, ack_timeout_ns=10**6),
]


@pytest.mark.parametrize("entity", ENTITIES, ids=lambda entity: type(entity).__name__)
def test_inserted_read_and_deleted(entity):
    async def test():
        async with session() as (_, switch):
            await switch.insert([entity])
            ask = entity
            if isinstance(entity, fy.P4TableEntry):
                ask = fy.P4TableEntry(entity.table_id)
            assert [found async for found in switch.read(ask)] == [entity]
            await switch.delete([entity])
            assert [found async for found in switch.read(ask)] == []

    run(test)


ASSIGNED = [
    fy.P4CounterEntry("hits", index=2, data=fy.P4CounterData(packet_count=1, byte_count=5)),
    fy.P4MeterEntry("police", index=1, config=fy.P4MeterConfig(cir=1, cburst=2, pir=3, pburst=4)),
    fy.P4RegisterEntry("plain", index=3, data=7),
    fy.P4ValueSetEntry("body_types", members=[P4ValueSetMember(0x800)]),
    fy.P4TableEntry("exact_t", is_default_action=True, action=forward(1)),
]


@pytest.mark.parametrize("entity", ASSIGNED, ids=lambda entity: type(entity).__name__)
def test_modified_and_read(entity):
    async def test():
        async with session() as (_, switch):
            await switch.modify([entity])
            ask = entity
            if isinstance(entity, fy.P4TableEntry):
                ask = fy.P4TableEntry(entity.table_id, is_default_action=True)
            assert [found async for found in switch.read(ask)] == [entity]

    run(test)


def test_direct_counters_and_meters():
    async def test():
        async with session() as (live, switch):
            entry = fy.P4TableEntry("exact_t", match=fy.Match(dst=1), action=forward(1))
            meter = fy.P4MeterConfig(cir=1, cburst=2, pir=3, pburst=4)
            await switch.write([+entry])
            await switch.write([~fy.P4DirectMeterEntry(table_entry=entry, config=meter)])
            live.switch.receive(2, frame(dst=1))
            counter = fy.P4DirectCounterEntry("exact_counter", table_entry=entry)
            while not (found := [c.data async for c in switch.read(counter)])[0].packet_count:
                await asyncio.sleep(0.01)
            assert found == [fy.P4CounterData(packet_count=1, byte_count=14)]
            ask = fy.P4DirectMeterEntry(table_entry=entry)
            (read,) = [m async for m in switch.read(ask)]
            assert read.config == meter

    run(test)


def test_digests_and_idle_entries_are_heard():
    async def test():
        async with session() as (live, switch):
            learn = fy.P4TableEntry("exact_t", is_default_action=True, action=fy.Action("learn"))
            idle = fy.P4TableEntry(
                "exact_t", match=fy.Match(dst=1), action=forward(1), idle_timeout_ns=10**7
            )
            await switch.write([~learn, +fy.P4DigestEntry("learn_t", max_list_size=1)])
            digests = switch.read_digests("learn_t")
            idles = switch.read_idle_timeouts()
            heard = [asyncio.ensure_future(anext(stream)) for stream in (digests, idles)]
            await asyncio.sleep(0)
            await switch.write([+idle])
            live.switch.receive(3, frame(src=0xABC, dst=9))
            learned, expired = await asyncio.gather(*heard)
            assert list(learned) == [{"mac": 0xABC, "port": 3}]
            await switch.write([learned.ack()])
            assert [entry.match for entry in expired.table_entry] == [fy.Match(dst=1)]
            await digests.aclose()
            await idles.aclose()

    run(test)
