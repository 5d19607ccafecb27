"""A switch in another process, reached through the face of the service itself."""

import asyncio
import contextlib
import sys
from pathlib import Path

import pytest
from finsy import Action, Match, P4TableEntry
from p4runtime_kit import DEVICE, frame

from sglb.switch.p4runtime.client import Atomicity, InProcessClient
from sglb.switch.p4runtime.remote import RemoteService
from sglb.switch.p4runtime.status import Code, P4RuntimeError
from sglb.switch.wall_clock import WallClock

SWITCH = Path(__file__).with_name("served_switch.py")


@contextlib.asynccontextmanager
async def served(address):
    """A switch in a process of its own; what is called with words tells it what to do."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        SWITCH,
        address,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        assert await process.stdout.readline() == b"ready\n"
        yield lambda *words: process.stdin.write(f"{' '.join(words)}\n".encode())
        process.stdin.close()
        assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


@contextlib.asynccontextmanager
async def remote(address):
    service = RemoteService("s1", DEVICE, address, WallClock(asyncio.get_running_loop()))
    running = asyncio.ensure_future(service.run())
    try:
        yield service
    finally:
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running


@contextlib.asynccontextmanager
async def reached(address):
    """A switch that is served, and the remote service that is in touch with it."""
    async with served(address) as switch, remote(address) as service:
        await service.ready.wait()
        yield switch, service


async def until(condition):
    while not condition():
        await asyncio.sleep(0.01)


def run(test):
    asyncio.run(asyncio.wait_for(test, 60))


def entry(key, port):
    return P4TableEntry("exact_t", match=Match(dst=key), action=Action("forward", port=port))


def test_a_client_works_on_it_as_on_the_service_itself(tmp_path):
    address = f"unix:{tmp_path}/s.sock"

    async def test():
        async with reached(address) as (switch, service):
            client = InProcessClient(service)
            await until(lambda: client.is_primary)
            client.insert([entry(key, 2) for key in range(4)])
            assert len(list(client.read(P4TableEntry("exact_t")))) == 4
            with pytest.raises(P4RuntimeError) as info:
                client.write([+entry(1, 3), +entry(40, 3), -entry(41, 3)])
            codes = [e.canonical_code for e in info.value.details]
            assert codes == [Code.ALREADY_EXISTS, 0, Code.NOT_FOUND]
            with pytest.raises(P4RuntimeError) as info:
                client.write([+entry(42, 3), +entry(1, 3)], atomicity=Atomicity.ROLLBACK_ON_ERROR)
            assert len(list(client.read(P4TableEntry("exact_t")))) == 5
            heard = []
            client.on_packet_in(heard.append)
            switch("receive", "3", frame(dst=99).hex())
            await until(lambda: heard)
            assert (heard[0].payload, heard[0]["ingress_port"]) == (frame(dst=99), 3)
            assert service.port_states() == {1: True, 2: True, 3: True}
            client.close()

    run(test())


def test_a_port_that_goes_down_is_told_once(tmp_path):
    address = f"unix:{tmp_path}/s.sock"

    async def test():
        async with reached(address) as (switch, service):
            told = []
            service.on_port_state(lambda *news: told.append(news))
            switch("down", "2")
            await until(lambda: told)
            assert told == [(2, False)]
            assert service.port_states() == {1: True, 2: False, 3: True}

    run(test())


def test_a_switch_may_come_late_go_and_come_back(tmp_path):
    address = f"unix:{tmp_path}/s.sock"

    async def test():
        async with remote(address) as service:
            power = []
            service.on_power(power.append)
            client = InProcessClient(service)
            with pytest.raises(P4RuntimeError, match="s1") as info:
                client.insert([entry(1, 2)])
            assert info.value.code is Code.UNAVAILABLE
            for times in (1, 2):
                async with served(address):
                    await until(lambda t=times: power == [True, False] * (t - 1) + [True])
                    await until(lambda: client.is_primary)
                    client.insert([entry(1, 2)])  # it comes back empty
                await until(lambda t=times: power == [True, False] * t)
                assert not service.up

    run(test())
