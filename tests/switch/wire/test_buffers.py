"""The buffer of a running switch: read, changed, refused; over gNMI; and pauses on real wires."""

from __future__ import annotations

import asyncio
import re
import socket
import time
from collections import defaultdict
from contextlib import contextmanager, suppress
from fractions import Fraction
from pathlib import Path

import grpc
import numpy as np
import pytest
from finsy.proto import gnmi, gnmi_grpc
from wire_kit import frames, lab, silent, why_not

from sglb.cli import main
from sglb.p4.random_stream import RandomStream
from sglb.switch.buffer_file import load_buffers
from sglb.switch.buffers import ALPHA, HEADROOM, XOFF, XON_OFFSET, Buffers
from sglb.switch.clock import VirtualClock
from sglb.switch.config import SwitchConfig
from sglb.switch.core import model as m
from sglb.switch.core.bind import bind
from sglb.switch.core.buffer import class_at, group_at, node_at
from sglb.switch.core.memory import NodeSpec, PortSpec, Sizes, build
from sglb.switch.errors import ConfigError
from sglb.switch.gnmi import PortStates, add_to_server
from sglb.switch.gnmi_buffers import BufferPaths
from sglb.switch.switch import Switch
from sglb.watermark.telemetry.collector import Collector
from sglb.watermark.telemetry.reading import Field

FILE = """
total_bytes: 1000000
classes:
  3: {alpha: 0.25, xon_offset_bytes: 3000, headroom_bytes: 40000}
"""
GBPS = 10**9


@contextmanager
def buffers(tmp_path: Path):
    """Of a switch with ports 1 and 2; and the world that it is in."""
    path = tmp_path / "buffers.yaml"
    path.write_text(FILE)
    config = SwitchConfig()
    memory = build(
        [NodeSpec(1, [PortSpec(1, GBPS), PortSpec(2, GBPS)], config)],
        Sizes(rows=64, frame_bytes=4_096),
    )
    switch = Switch(None, config, VirtualClock(), rng=RandomStream("1"), engine="native")
    for number in (1, 2):
        switch.add_port(number, GBPS)
    core = bind(memory, 0, switch)
    yield Buffers(core, load_buffers(path, (1, 2), 500_000), switch.lock), memory.world


def test_it_is_what_the_file_says(tmp_path: Path) -> None:
    with buffers(tmp_path) as (found, world):
        assert found.read() == {
            (3, ALPHA): 0.25,
            (3, XOFF): 0,
            (3, XON_OFFSET): 3_000,
            (3, HEADROOM, 1): 40_000,
            (3, HEADROOM, 2): 40_000,
        }
        assert found.shared_bytes == 1_000_000 - 2 * 40_000
        node = node_at(world, 0)
        assert world.w[node + m.N_SHARED_BYTES] == 920_000
        assert world.w[class_at(world, node, 3) + m.C_LOSSLESS] == 1
        assert world.w[class_at(world, node, 0) + m.C_LIMIT] == 500_000
        assert world.w[group_at(world, 0, 3) + m.G_ROOM] == 40_000


def test_changes_reach_the_data_plane_all_or_none(tmp_path: Path) -> None:
    with buffers(tmp_path) as (found, world):
        node = node_at(world, 0)
        at = class_at(world, node, 3)
        found.change({(3, ALPHA): 2.0, (3, XON_OFFSET): 5_000, (3, HEADROOM, 2): 60_000})
        assert Fraction(int(world.w[at + m.C_ALPHA_NUM]), int(world.w[at + m.C_ALPHA_DEN])) == 2
        assert world.w[at + m.C_XON_OFFSET] == 5_000
        assert world.w[group_at(world, 0, 3) + m.G_ROOM] == 40_000
        assert world.w[group_at(world, 1, 3) + m.G_ROOM] == 60_000
        assert world.w[node + m.N_SHARED_BYTES] == found.shared_bytes == 900_000
        before = found.read()
        with pytest.raises(ConfigError, match="headroom-bytes of port 1, class 3 can't be 39999"):
            found.change({(3, ALPHA): 1.0, (3, HEADROOM, 1): 39_999})
        assert found.read() == before
        assert world.w[at + m.C_ALPHA_NUM] == 2
        found.change({(3, HEADROOM, 2): 40_000})  # back to what the link asks for
        assert found.shared_bytes == 920_000


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({(3, ALPHA): 0}, "alpha of class 3 must be from"),
        ({(3, ALPHA): -1}, "alpha of class 3 must be from"),
        ({(2, ALPHA): 1.0}, "no alpha of class 2: its class is not lossless"),
        ({(3, HEADROOM, 7): 50_000}, "no headroom-bytes of class 3 of port 7"),
        ({(3, HEADROOM, 1): 960_000}, "leaves nothing of the shared pool"),
        ({(3, XOFF): 920_001}, "nobody would be paused in time"),
        ({(3, XOFF): 1.5}, "whole bytes"),
        ({(3, XON_OFFSET): -1}, "whole bytes"),
    ],
)
def test_what_could_lose_or_is_nonsense_is_refused(tmp_path: Path, changes, text: str) -> None:
    with buffers(tmp_path) as (found, _):
        before = found.read()
        with pytest.raises(ConfigError, match=text):
            found.change(changes)
        assert found.read() == before


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("total_bytes: 1000", "classes: Field required"),
        ("total_bytes: 1000\nclasses: {9: {headroom_bytes: 1}}", "less than 8"),
        ("total_bytes: 1000\nclasses: {3: {headroom_bytes: -1, alpha: 1.0}}", "classes.3.headroom"),
        ("total_bytes: 1000\nclasses: {3: {headroom_bytes: 500, alpha: 1.0}}", "headroom alone"),
        ("total_bytes: 9000\nclasses: {3: {headroom_bytes: 500}}", "class 3 is lossless: give"),
        ("{", "cannot be read"),
        (
            "total_bytes: 9000\nclasses: {3: {headroom_bytes: 1, size: 1}}",
            "classes.3.size: Extra inputs",
        ),
    ],
)
def test_files_that_are_none(tmp_path: Path, text: str, what: str) -> None:
    path = tmp_path / "b.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=re.escape(what)) as caught:
        load_buffers(path, (1, 2), 1_000)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


def path_of(text: str) -> gnmi.Path:
    """A path like `a/b[k=v]/c`."""
    found = []
    for part in text.split("/"):
        name, _, keys = part.partition("[")
        key = dict([keys.rstrip("]").split("=")]) if keys else {}
        found.append(gnmi.PathElem(name=name, key=key))
    return gnmi.Path(elem=found)


CLASS = "sglb-buffers/class[number=3]/config"
PORT = "sglb-buffers/interface[name=p2]/class[number=3]/config/headroom-bytes"


def update(path: str, **value) -> gnmi.Update:
    return gnmi.Update(path=path_of(path), val=gnmi.TypedValue(**value))


def test_over_gnmi(tmp_path: Path) -> None:
    async def test(found: Buffers) -> None:
        server = grpc.aio.server()
        names = {1: "p1", 2: "p2"}
        add_to_server(PortStates(names, lambda _: True), server, BufferPaths(found, names))
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            stub = gnmi_grpc.gNMIStub(channel)

            async def get(path: str, kind: int = gnmi.GetRequest.ALL) -> dict[str, object]:
                request = gnmi.GetRequest(path=[path_of(path)], type=kind)
                answer = await stub.Get(request)
                return {
                    one.path.elem[-1].name: getattr(one.val, one.val.WhichOneof("value"))
                    for one in answer.notification[0].update
                }

            async def refused(*updates: gnmi.Update, **more) -> tuple[grpc.StatusCode, str]:
                with pytest.raises(grpc.aio.AioRpcError) as caught:
                    await stub.Set(gnmi.SetRequest(update=updates, **more))
                return caught.value.code(), caught.value.details()

            now = {"alpha": 0.25, "xoff-bytes": 0, "xon-offset-bytes": 3_000}
            assert await get(CLASS) == now
            assert await get("sglb-buffers/state") == {"shared-bytes": 920_000}
            done = await stub.Set(
                gnmi.SetRequest(
                    update=[
                        update(f"{CLASS}/alpha", double_val=0.5),
                        update(f"{CLASS}/xon-offset-bytes", uint_val=4_000),
                        update(PORT, uint_val=50_000),
                    ]
                )
            )
            assert [one.op for one in done.response] == [gnmi.UpdateResult.UPDATE] * 3
            after = {"alpha": 0.5, "xoff-bytes": 0, "xon-offset-bytes": 4_000}
            assert await get(CLASS, gnmi.GetRequest.CONFIG) == after
            assert await get(PORT) == {"headroom-bytes": 50_000}
            invalid, nothing = grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.UNIMPLEMENTED
            bad = update(PORT, uint_val=1)
            code, text = await refused(update(f"{CLASS}/alpha", double_val=1.0), bad)
            assert (code, "can lose packets" in text) == (invalid, True)
            for wrong, what in (
                (update(f"{CLASS}/alpha", double_val=float("nan")), "takes a number"),
                (update(f"{CLASS}/alpha", string_val="1"), "takes a number"),
                (
                    update("interfaces/interface[name=p1]/state/name", string_val="x"),
                    "nothing that",
                ),
                (update("sglb-buffers/state/shared-bytes", uint_val=9), "nothing that"),
            ):
                code, text = await refused(wrong)
                assert (code, what in text) == (invalid, True)
            twice = update(f"{CLASS}/alpha", double_val=1.0)
            assert "given twice" in (await refused(twice, twice))[1]
            assert (await refused(delete=[path_of(CLASS)]))[0] == nothing
            assert await get(CLASS) == after
        await server.stop(0)

    with buffers(tmp_path) as (found, _):
        asyncio.run(asyncio.wait_for(test(found), 30))


def test_buffers_need_rates(tmp_path: Path, capsys) -> None:
    path = tmp_path / "b.yaml"
    path.write_text(FILE)
    with pytest.raises(SystemExit):
        main(["switch", "--buffers", str(path)])
    assert "--buffers needs --port and a --rate" in capsys.readouterr().err


PAUSE = bytes.fromhex("0180c2000001")


def pauses(wire) -> int:
    """The next frame, which is a pause frame for class 0 alone: its time."""
    frame = frames(wire, 1)[0]
    assert frame[:6] == PAUSE
    assert frame[12:18] == bytes.fromhex("8808 0101 0001")
    return int.from_bytes(frame[18:20], "big")


@pytest.mark.live
@pytest.mark.skipif(bool(why_not()), reason=why_not())
def test_pauses_on_the_wire(tmp_path: Path) -> None:
    """Class 0 is lossless: what waits for a slow port pauses who sent it, and a port obeys."""
    path = tmp_path / "buffers.yaml"
    path.write_text(
        "total_bytes: 400000\n"
        "classes: {0: {xoff_bytes: 20000, xon_offset_bytes: 5000, headroom_bytes: 50000}}\n"
    )
    program = Path(__file__).with_name("wire.p4")
    told = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    told.bind(str(tmp_path / "told"))
    told.settimeout(0.01)
    with lab(2) as net, told:
        ports = [f"--port={n}:{net.port(n)}" for n in net.hosts]
        net.switch(
            str(program),
            *ports,
            "--grpc=127.0.0.1:0",
            "--rate=1:1G",
            "--rate=2:4M",
            f"--buffers={path}",
            f"--telemetry=unix:{tmp_path}/told",
            "--telemetry-ms=20",
        )
        one, two = net.wire(1), net.wire(2)
        data = bytes.fromhex("040000000002 0200000000aa 9000") + bytes(986)
        for _ in range(40):  # 40 KB, 80 ms at 4 Mbit/s
            one.send(data)
        assert pauses(one) == 0xFFFF
        # All of it comes; when less than 15 KB wait, the sender may go on.
        assert frames(two, 40) == [data] * 40
        times = [pauses(one)]
        while times[-1]:
            times.append(pauses(one))  # the pause was renewed
        assert silent(one)
        # The slow port is paused itself: nothing leaves until it may again.
        stop = PAUSE + bytes.fromhex("0200000000bb 8808 0101 0001 ffff") + bytes(40)
        two.send(stop)
        one.send(data)
        two.settimeout(0.3)
        with pytest.raises(TimeoutError):
            two.recv(2_000)
        two.settimeout(5)
        two.send(stop.replace(b"\xff\xff", b"\0\0"))
        assert frames(two, 1) == [data]
        time.sleep(0.1)
        seen = reported(told)
    # What the switch has told: the burst that waited, its sender held back, the pause that it obeyed.
    assert max(seen[2, 0, Field.QUEUE_PEAK_BYTES]) == pytest.approx(39_000, rel=0.2)
    assert max(seen[1, 0, Field.PEER_PAUSED_NS]) > 10e6
    assert max(seen[2, 0, Field.PAUSED_NS]) > 10e6
    assert max(seen[1, 0, Field.PAUSED_NS]) == 0


def reported(told: socket.socket) -> dict[tuple[int, int, int], list[int]]:
    """What was known after each message: by port, class and field."""
    collector = Collector()
    found: dict[tuple[int, int, int], list[int]] = defaultdict(list)
    with suppress(TimeoutError):
        while True:
            view = collector.switches[collector.take(told.recv(1 << 16))]
            for at, port in enumerate(view.ports):
                for row, field in np.ndindex(view.values.shape[1:]):
                    found[port, row, field].append(int(view.values[at, row, field]))
    return found
