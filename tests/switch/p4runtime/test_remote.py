"""A switch in another thread, reached through the face of the service itself."""

import asyncio
import contextlib
import threading

import pytest
from finsy import Action, Match, P4TableEntry
from p4runtime_kit import frame, kitchen

from sglb.switch.live import LiveSwitch, ServeOptions
from sglb.switch.p4runtime.client import Atomicity, InProcessClient
from sglb.switch.p4runtime.remote import RemoteService
from sglb.switch.p4runtime.status import Code, P4RuntimeError
from sglb.switch.wall_clock import WallClock


class Served:
    """A switch on a loop of its own: calls of the remote service block the caller's."""

    def __init__(self, address):
        self._options = ServeOptions(grpc=address, ports=(1, 2, 3), device_id=5)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self.live = LiveSwitch(kitchen(), self._options)
        self._do(self.live.__aenter__())

    def _do(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(20)

    def call(self, function, *args):
        async def run():
            return function(*args)

        return self._do(run())

    def stop(self):
        self._do(self.live.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


@contextlib.asynccontextmanager
async def remote(address):
    service = RemoteService("s1", 5, address, WallClock(asyncio.get_running_loop()))
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
    served = Served(address)
    try:
        async with remote(address) as service:
            await service.ready.wait()
            yield served, service
    finally:
        served.stop()


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
        async with reached(address) as (served, service):
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
            served.call(served.live.switch.receive, 3, frame(dst=99))
            await until(lambda: heard)
            assert (heard[0].payload, heard[0]["ingress_port"]) == (frame(dst=99), 3)
            assert service.port_states() == {1: True, 2: True, 3: True}
            client.close()

    run(test())


def test_a_port_that_goes_down_is_told_once(tmp_path):
    address = f"unix:{tmp_path}/s.sock"

    async def test():
        async with reached(address) as (served, service):
            told = []
            service.on_port_state(lambda *news: told.append(news))
            served.call(served.live.switch.set_port_state, 2, False)
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
                served = Served(address)
                try:
                    await until(lambda t=times: power == [True, False] * (t - 1) + [True])
                    await until(lambda: client.is_primary)
                    client.insert([entry(1, 2)])  # it comes back empty
                finally:
                    served.stop()
                await until(lambda t=times: power == [True, False] * t)
                assert not service.up

    run(test())
