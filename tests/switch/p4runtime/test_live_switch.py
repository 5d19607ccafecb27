"""Capture files as ports, real time, and `serve` as a process."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from p4runtime_kit import compiled, frame, kitchen
from test_pipeline_config import SMALL

from sglb.switch.clock import PS_PER_MS, ClockError
from sglb.switch.live import LiveSwitch, ServeOptions, serve
from sglb.switch.pcap import PcapError, PcapWriter, read_pcap
from sglb.switch.wall_clock import WallClock

#: Packets 9 go to port 9, others are dropped.
PROGRAM = SMALL.replace("SIZE", "8").replace("EXTRA", "").replace("APPLY", "")


def write(path, *packets):
    with PcapWriter(path) as out:
        for time_ns, data in packets:
            out.write(time_ns, data)


def options(folder, **kw):
    return ServeOptions(**{"grpc": None, "pcap_dir": folder, "exit_when_done": True, **kw})


def test_files_in_and_out(tmp_path):
    write(tmp_path / "1.pcap", (1_000_000_000, b"\x09first"), (1_000_020_000, b"\x09third"))
    write(tmp_path / "2.pcap", (1_000_010_000, b"\x09second"), (1_000_030_000, b"\x08lost"))
    serve(compiled(PROGRAM), options(tmp_path, ports=(9, 4)))
    assert [p.data for p in read_pcap(tmp_path / "9_out.pcap")] == [
        b"\x09first",
        b"\x09second",
        b"\x09third",
    ]
    for port in (1, 2, 4):
        assert read_pcap(tmp_path / f"{port}_out.pcap") == []
    # Outputs are no inputs of a second run.
    serve(compiled(PROGRAM), options(tmp_path, ports=(9,), speed=0))
    assert len(read_pcap(tmp_path / "9_out.pcap")) == 3


def test_gaps_between_packets_are_kept(tmp_path):
    write(tmp_path / "1.pcap", (5 * 10**9, b"\x09a"), (5 * 10**9 + 80_000_000, b"\x09b"))
    start_ns = time.time_ns()
    serve(compiled(PROGRAM), options(tmp_path, ports=(9,)))
    _, second = read_pcap(tmp_path / "9_out.pcap")
    assert second.time_ns >= start_ns + 80_000_000


def test_a_pipe_is_followed(tmp_path):
    os.mkfifo(tmp_path / "1.pcap")

    async def test():
        async with LiveSwitch(
            compiled(PROGRAM), options(tmp_path, ports=(9,), exit_when_done=False)
        ) as live:
            feeding = threading.Thread(target=write, args=(tmp_path / "1.pcap", (0, b"\x09x")))
            feeding.start()
            while not live.switch.port(9).counters.tx_packets:
                await asyncio.sleep(0.005)
            feeding.join()

    asyncio.run(asyncio.wait_for(test(), 20))
    assert [p.data for p in read_pcap(tmp_path / "9_out.pcap")] == [b"\x09x"]


def test_a_pipe_is_used_up_when_it_ends(tmp_path):
    os.mkfifo(tmp_path / "1.pcap")
    feeding = threading.Thread(target=write, args=(tmp_path / "1.pcap", (0, b"\x09x")))
    feeding.start()
    serve(compiled(PROGRAM), options(tmp_path, ports=(9,)))
    feeding.join()
    assert [p.data for p in read_pcap(tmp_path / "9_out.pcap")] == [b"\x09x"]


def test_a_run_until_input_is_used_up_needs_some(tmp_path):
    with pytest.raises(PcapError, match=r"no input: it has no N\.pcap file"):
        serve(compiled(PROGRAM), options(tmp_path, ports=(9,)))
    assert list(tmp_path.iterdir()) == []


def test_damage_in_a_pipe_ends_the_run(tmp_path):
    os.mkfifo(tmp_path / "1.pcap")
    feeding = threading.Thread(target=(tmp_path / "1.pcap").write_bytes, args=(b"garbage" * 9,))
    feeding.start()
    with pytest.raises(PcapError, match=r"1\.pcap: it is no pcap file"):
        serve(compiled(PROGRAM), options(tmp_path, exit_when_done=False))
    feeding.join()


@pytest.mark.parametrize(
    ("prepare", "text"),
    [
        (lambda d: None, "no ports: it has no N.pcap file"),
        (lambda d: (d / "1.pcap").write_bytes(b"x"), "1.pcap: it ends inside the file header"),
        (lambda d: d.rmdir(), "there is no such folder"),
    ],
)
def test_bad_folders(tmp_path, prepare, text):
    folder = tmp_path / "ports"
    folder.mkdir()
    prepare(folder)
    with pytest.raises(PcapError, match=text):
        serve(compiled(PROGRAM), options(folder))


def test_serve_stops_on_a_signal(tmp_path):
    """As a process of its own, the way the command line runs it."""
    (tmp_path / "p.p4").write_text(PROGRAM)
    code = (
        "from pathlib import Path\n"
        "from sglb.p4.compiler import compile\n"
        "from sglb.switch.live import ServeOptions, serve\n"
        f"program = compile(Path({str(tmp_path / 'p.p4')!r}))\n"
        "serve(program, ServeOptions(grpc='127.0.0.1:0', ports=(1,),"
        " on_ready=lambda live: print(live.address, flush=True)))\n"
        "print('stopped')\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parent
    )
    try:
        address = process.stdout.readline().strip()
        assert address.startswith("127.0.0.1:")
        process.send_signal(signal.SIGTERM)
        assert process.communicate(timeout=60)[0] == "stopped\n"
        assert process.returncode == 0
    finally:
        process.kill()
        process.wait()


# --- wall clock -----------------------------------------------------------------------------------


def test_order_of_events():
    async def test():
        clock = WallClock(asyncio.get_running_loop())
        order = []
        now = clock.now_ps
        clock.call_at(now + 5 * PS_PER_MS, order.append, "late")
        clock.call_at(now, order.append, "a")
        clock.call_at(now, order.append, "b")
        clock.call_at(now - PS_PER_MS, order.append, "past")
        clock.call_later(0, order.append, "no").cancel()
        assert order == []
        done = asyncio.Event()
        clock.call_at(now + 6 * PS_PER_MS, done.set)
        await asyncio.wait_for(done.wait(), 20)
        assert order == ["past", "a", "b", "late"]
        assert clock.now_ps >= now + 6 * PS_PER_MS
        assert clock.next_ps() is None

    asyncio.run(test())


def test_endless_events_leave_room_for_others():
    async def test():
        clock = WallClock(asyncio.get_running_loop())
        count = 0

        def again():
            nonlocal count
            count += 1
            clock.call_later(0, again)

        again()
        await asyncio.sleep(0.01)
        assert count > 1
        clock.stop()
        seen = count
        await asyncio.sleep(0.01)
        assert count == seen

    asyncio.run(asyncio.wait_for(test(), 20))


def test_times_are_integers():
    async def test():
        clock = WallClock(asyncio.get_running_loop())
        with pytest.raises(ClockError, match="integer picoseconds"):
            clock.call_at(1.5, print)

    asyncio.run(test())


def test_a_failing_callback_does_not_stop_the_clock():
    async def test():
        loop = asyncio.get_running_loop()
        problems = []
        loop.set_exception_handler(lambda _, context: problems.append(context["exception"]))
        clock = WallClock(loop)
        done = asyncio.Event()
        clock.call_later(0, lambda: 1 // 0)
        clock.call_later(0, done.set)
        await asyncio.wait_for(done.wait(), 20)
        assert [type(p) for p in problems] == [ZeroDivisionError]

    asyncio.run(test())


def test_an_empty_switch_drops_packets(tmp_path):
    write(tmp_path / "1.pcap", (0, frame()))
    serve(None, options(tmp_path))
    assert read_pcap(tmp_path / "1_out.pcap") == []


def test_kitchen_switch_starts():
    async def test():
        async with LiveSwitch(kitchen(), ServeOptions(grpc="127.0.0.1:0", ports=(1,))) as live:
            assert live.address.rpartition(":")[2].isdecimal()

    asyncio.run(test())
