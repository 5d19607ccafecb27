"""The data plane in its thread, without interfaces: frames and timers to the CPU port; the lock."""

import asyncio
import threading
from contextlib import asynccontextmanager
from pathlib import Path

import numpy as np
import pytest

from sglb.p4.compiler import compile as compile_p4
from sglb.p4.random_stream import RandomStream
from sglb.switch.clock import PS_PER_MS
from sglb.switch.config import SwitchConfig
from sglb.switch.errors import ConfigError
from sglb.switch.pktgen import TimerApp
from sglb.switch.switch import Switch
from sglb.switch.wall_clock import WallClock
from sglb.switch.wire import layout as s
from sglb.switch.wire.checksum import internet_checksum
from sglb.switch.wire.interfaces import Interfaces
from sglb.switch.wire.port import InterfacePort

CONFIG = SwitchConfig(ingress_latency_ps=0, egress_latency_ps=0, cpu_port=2)
#: To port 2, the controller's.
FOR_CPU = bytes.fromhex("0100 0000 0000 0200 0000 0000 9000")


@asynccontextmanager
async def running():
    clock = WallClock(asyncio.get_running_loop())
    errors = []
    plane = Interfaces([], CONFIG, clock, None, on_error=errors.append)
    text = Path(__file__).with_name("wire.p4").read_text().replace("= 510", "= 2")
    program = compile_p4(text)
    switch = Switch(program, CONFIG, clock, rng=RandomStream(1), engine="native", lock=plane.lock)
    plane.start(switch)
    frames = asyncio.Queue()
    switch.on_cpu = frames.put_nowait
    try:
        yield switch, plane, frames
    finally:
        plane.close()
    assert not errors


def run(test):
    asyncio.run(asyncio.wait_for(test(), 60))


def test_frames_and_timers_wake_the_sleeping_loop():
    async def test():
        async with running() as (switch, plane, frames):
            await asyncio.sleep(0.05)
            # egress_port 2 in 9 bits, 7 of padding, then what is left once that header is gone
            switch.packet_out(bytes.fromhex("0100") + b"round trip")
            assert await frames.get() == bytes.fromhex("0100") + b"round trip"
            switch.start_generator(TimerApp(1, PS_PER_MS, start_ps=20 * PS_PER_MS, batches=3))
            for batch in range(3):
                assert (await frames.get())[-6:] == bytes((1, 0x10, 0, batch, 0, 0))
            sleeps = plane.node.word(s.S_SLEEPS)
            await asyncio.sleep(0.2)
            # It has nothing to do: a loop that spins would look thousands of times.
            assert plane.node.word(s.S_SLEEPS) - sleeps < 50

    run(test)


def test_the_lock_keeps_the_loop_out_and_may_be_taken_again():
    async def test():
        async with running() as (switch, plane, frames):
            with plane.lock:
                with plane.lock:
                    switch.packet_out(bytes.fromhex("0100") + b"waits")
                rounds = plane.node.word(s.S_ROUNDS)
                await asyncio.sleep(0.1)
                assert plane.node.word(s.S_ROUNDS) == rounds
                assert frames.empty()
            assert (await frames.get()).endswith(b"waits")

    run(test)


def test_one_thread_at_a_time():
    async def test():
        async with running() as (_, plane, _):
            inside, most, turns = 0, 0, []

            def work(number):
                nonlocal inside, most
                for _ in range(200):
                    with plane.lock:
                        inside += 1
                        most = max(most, inside)
                        turns.append(number)
                        inside -= 1

            threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                await asyncio.to_thread(thread.join)
            assert (most, len(turns)) == (1, 800)

    run(test)


@pytest.mark.parametrize(
    ("ports", "told"),
    [
        ([InterfacePort(1, "a"), InterfacePort(1, "b")], "port 1 is given twice"),
        ([InterfacePort(1, "a"), InterfacePort(3, "a")], "interface a is given for ports 1 and 3"),
        ([InterfacePort(2, "a")], "port 2 is the switch's own"),
        ([InterfacePort(511, "a")], "port 511 is the switch's own"),
    ],
)
def test_ports_that_cannot_be(ports, told):
    async def test():
        clock = WallClock(asyncio.get_running_loop())
        with pytest.raises(ConfigError, match=told):
            Interfaces(ports, CONFIG, clock, None, on_error=print)

    run(test)


@pytest.mark.parametrize(
    ("data", "found"),
    [
        ("0001 f203 f4f5 f6f7", 0x220D),  # RFC 1071, section 3: the sum is ddf2
        ("4500 0073 0000 4000 4011 0000 c0a8 0001 c0a8 00c7", 0xB861),
        ("ff", 0x00FF),
        ("0001 ff", 0x00FE),
        ("0000", 0xFFFF),
        ("ffff", 0xFFFF),
        ("", 0xFFFF),
    ],
)
def test_checksums(data, found):
    raw = np.frombuffer(bytes.fromhex(data) + bytes(8), np.uint8).copy()
    count = len(bytes.fromhex(data))
    result = internet_checksum(int(raw.ctypes.data), count)
    assert result.to_bytes(2, "little") == found.to_bytes(2, "big")
