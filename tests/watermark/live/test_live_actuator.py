"""Watermarks of served switches: set over P4Runtime and gNMI, read back, taken back."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc
import grpc.aio
import pytest
from finsy import Action, P4TableEntry, P4TableMatch
from finsy.proto import p4r

from sglb import programs
from sglb.p4.compiler import compile as compile_p4
from sglb.p4.random_stream import RandomStream
from sglb.switch.buffer_file import load_buffers
from sglb.switch.buffers import ALPHA, XON_OFFSET, Buffers
from sglb.switch.clock import VirtualClock
from sglb.switch.config import SwitchConfig
from sglb.switch.core.bind import bind
from sglb.switch.core.memory import NodeSpec, PortSpec, Sizes, build
from sglb.switch.gnmi import PortStates, add_to_server
from sglb.switch.gnmi_buffers import BufferPaths as Paths
from sglb.switch.p4runtime.client import InProcessClient
from sglb.switch.p4runtime.service import P4RuntimeService
from sglb.switch.switch import Switch
from sglb.watermark.live.actuator import (
    WATERMARKS,
    BufferPaths,
    EcnTable,
    FabricActuator,
    Marks,
    SwitchActuator,
)
from sglb.watermark.live.errors import LiveTuneError
from sglb.watermark.settings import Watermarks

GBPS = 10**9
OLD = Marks(100, 400, 7)
NEW = Watermarks(8_000, 80_000, 0.5, alpha=0.5, xon_offset_bytes=4_000)
NEWER = Watermarks(16_000, 80_000, 0.5, alpha=0.5, xon_offset_bytes=4_000)
#: In cells of 80 bytes; the slope is Pmax x 2^32 over the cells in between.
NEW_MARKS = Marks(100, 1_000, (1 << 31) // 900)


class Served:
    """A switch with two ports, watermarks of classes 3 and 0, a buffer, and gNMI on a thread's loop."""

    def __init__(self, folder: Path, name: str, serve) -> None:
        path = folder / f"{name}.yaml"
        path.write_text(
            "total_bytes: 1000000\n"
            "classes: {3: {alpha: 0.25, xon_offset_bytes: 3000, headroom_bytes: 40000}}\n"
        )
        config = SwitchConfig(depth_unit="cells")
        memory = build(
            [NodeSpec(1, [PortSpec(1, GBPS), PortSpec(2, GBPS)], config)],
            Sizes(rows=64, frame_bytes=4_096, header_bytes=1_024),
        )
        program = compile_p4(programs.glb())
        clock = VirtualClock()
        self.switch = Switch(program, config, clock, rng=RandomStream("1"), engine="native")
        for number in (1, 2):
            self.switch.add_port(number, GBPS)
        core = bind(memory, 0, self.switch)
        self.buffers = Buffers(core, load_buffers(path, (1, 2), 500_000), self.switch.lock)
        self.service = P4RuntimeService(self.switch, clock)
        controller = InProcessClient(self.service, 5)
        controller.insert(
            [
                P4TableEntry(
                    WATERMARKS,
                    match=P4TableMatch({"port": port, "class": cls}),
                    action=Action(
                        "FabricEgress.ecn.set_watermark",
                        kmin=OLD.kmin,
                        kmax=OLD.kmax,
                        slope=OLD.slope,
                    ),
                )
                for port in (1, 2)
                for cls in (0, 3)
            ]
        )
        client = InProcessClient(self.service, role=p4r.Role(name="sglb.tuner"))
        self.ecn = EcnTable(name, client, 3)
        self.other = EcnTable(name, client, 0)
        self.channel = grpc.insecure_channel(serve(self.buffers))
        self.paths = BufferPaths(name, self.channel, 3)
        self.actuator = SwitchActuator(name, self.ecn, self.paths, 80)


@contextmanager
def served(folder: Path, *names: str) -> Iterator[list[Served]]:
    from threading import Thread

    loop = asyncio.new_event_loop()
    thread = Thread(target=loop.run_forever)
    thread.start()
    servers = []

    async def start(buffers: Buffers) -> str:
        server = grpc.aio.server()
        ports = {1: "p1", 2: "p2"}
        add_to_server(PortStates(ports, lambda _: True), server, Paths(buffers, ports))
        number = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        servers.append(server)
        return f"127.0.0.1:{number}"

    def serve(buffers: Buffers) -> str:
        return asyncio.run_coroutine_threadsafe(start(buffers), loop).result(10)

    found: list[Served] = []
    try:
        found += [Served(folder, name, serve) for name in names]
        yield found
    finally:
        for one in found:
            one.channel.close()
        for server in servers:
            asyncio.run_coroutine_threadsafe(server.stop(0), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def test_a_setting_is_in_force_and_no_other_class_is_touched(tmp_path: Path) -> None:
    with served(tmp_path, "a") as (one,):
        assert one.ecn.read() == {1: OLD, 2: OLD}
        assert one.paths.read() == {ALPHA: 0.25, XON_OFFSET: 3_000.0}
        one.actuator.set(NEW, one.actuator.state())
        assert one.ecn.read() == {1: NEW_MARKS, 2: NEW_MARKS}
        assert one.paths.read() == {ALPHA: 0.5, XON_OFFSET: 4_000.0}
        assert one.other.read() == {1: OLD, 2: OLD}
        assert one.buffers.shared_bytes == 920_000  # headroom is as it was


def test_what_one_switch_refuses_is_taken_back_on_all(tmp_path: Path) -> None:
    with served(tmp_path, "a", "b") as (one, two):
        fabric = FabricActuator([one.actuator, two.actuator])

        class Refusing(EcnTable):
            def write(self, wanted) -> None:
                if Marks(1, 2, 3) not in wanted.values() and OLD not in wanted.values():
                    raise LiveTuneError("b: no room")
                super().write(wanted)

        two.actuator._ecn = Refusing("b", two.ecn._client, 3)
        with pytest.raises(LiveTuneError, match=r"^b: no room$"):
            fabric.set(NEW)
        for each in (one, two):
            assert each.ecn.read() == {1: OLD, 2: OLD}
            assert each.paths.read() == {ALPHA: 0.25, XON_OFFSET: 3_000.0}


def test_a_value_that_a_switch_cannot_have_changes_nothing(tmp_path: Path) -> None:
    absurd = Watermarks(8_000, 80_000, 0.5, alpha=1e6)
    with served(tmp_path, "a") as (one,):
        with pytest.raises(LiveTuneError, match="a: gNMI: alpha of class 3 must be from"):
            one.actuator.set(absurd, one.actuator.state())
        assert one.ecn.read() == {1: OLD, 2: OLD}
        # Not even what else stood in the same request.
        assert one.paths.read() == {ALPHA: 0.25, XON_OFFSET: 3_000.0}


def test_what_somebody_else_writes_is_noticed(tmp_path: Path) -> None:
    with served(tmp_path, "a") as (one,):

        class Meddled(EcnTable):
            def read(self) -> dict[int, Marks]:
                return super().read() | {2: Marks(1, 1, 1)}

        with pytest.raises(LiveTuneError, match=r"port 2 were written .* 3 times: somebody else"):
            Meddled("a", one.ecn._client, 3).write({1: NEW_MARKS, 2: NEW_MARKS})


def test_bmv2_has_ecn_alone(tmp_path: Path) -> None:
    with served(tmp_path, "a") as (one,):
        bare = SwitchActuator("a", one.ecn, None, 80, {1: "h0", 2: "spine0"})
        assert not bare.set(NEW, bare.state())
        assert one.ecn.read() == {1: NEW_MARKS, 2: NEW_MARKS}
        assert one.paths.read() == {ALPHA: 0.25, XON_OFFSET: 3_000.0}
        first = bare.in_force()[0]
        assert (first.towards, first.kmin_bytes, first.kmax_bytes) == ("h0", 8_000, 80_000)
        assert first.pmax == pytest.approx(0.5)
        assert (first.alpha, first.xon_offset_bytes, first.headroom_bytes) == (None, None, None)


def test_what_a_controller_makes_undone_is_seen(tmp_path: Path) -> None:
    with served(tmp_path, "a", "b") as (one, two):
        fabric = FabricActuator([one.actuator, two.actuator])
        fabric.set(NEW)
        assert fabric.keep()
        assert fabric.overwritten == 0
        two.ecn.write({2: OLD})
        assert not fabric.keep()
        assert fabric.overwritten == 1
        assert two.ecn.read() == {1: NEW_MARKS, 2: NEW_MARKS}
        assert fabric.keep()
        # Between two settings it is seen as well.
        one.ecn.write({1: OLD})
        fabric.set(NEWER)
        assert fabric.overwritten == 2
        assert one.ecn.read() == two.ecn.read() == dict.fromkeys((1, 2), Marks.of(NEWER, 80))


def test_a_controller_that_takes_over_while_a_setting_is_written(tmp_path: Path) -> None:
    with served(tmp_path, "a", "b") as (one, two):

        class TakenOver(EcnTable):
            times = 1

            def read(self) -> dict[int, Marks]:
                if self.times and super().read() == {1: NEW_MARKS, 2: NEW_MARKS}:
                    self.times -= 1
                    super()._modify({1: OLD, 2: OLD})
                return super().read()

        two.actuator._ecn = TakenOver("b", two.ecn._client, 3)
        fabric = FabricActuator([one.actuator, two.actuator])
        fabric.set(NEW)
        assert fabric.overwritten == 1
        assert two.ecn.read() == {1: NEW_MARKS, 2: NEW_MARKS}
        assert fabric.keep()


def test_what_each_port_has_is_read_from_the_switch(tmp_path: Path) -> None:
    with served(tmp_path, "a") as (one,):
        one.actuator.set(NEW, one.actuator.state())
        first, second = FabricActuator([one.actuator]).in_force()
        assert (first.towards, second.towards) == ("port 1", "port 2")
        assert (second.alpha, second.xon_offset_bytes, second.headroom_bytes) == (
            0.5,
            4_000,
            40_000,
        )


def test_a_switch_without_a_lossless_class_is_told(tmp_path: Path) -> None:
    with served(tmp_path, "a") as (one,):
        with pytest.raises(LiveTuneError, match=r"class 2 is not lossless|nothing at"):
            BufferPaths("a", one.channel, 2).read()
        lone = SwitchActuator("a", EcnTable("a", one.ecn._client, 5), one.paths, 80)
        with pytest.raises(LiveTuneError, match="no port has watermarks"):
            lone.set(NEW, lone.state())


def test_marks_in_packets_and_at_the_edges() -> None:
    assert Marks.of(Watermarks(10_240, 20_480, 1.0), 1_024) == Marks(10, 20, (1 << 32) // 10)
    # The same threshold twice: no slope, and no division by 0.
    assert Marks.of(Watermarks(1_000, 1_000, 1.0), 1_000) == Marks(1, 1, (1 << 32) - 1)
