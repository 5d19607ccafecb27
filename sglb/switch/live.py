"""A switch in real time: P4Runtime over gRPC; Linux interfaces or capture files as ports.

With interfaces the data plane is native code in a thread of its own (`sglb.switch.wire`).

With files port N reads `N.pcap` and writes `N_out.pcap` in one folder. Packets of regular files are
merged in order of their times and keep their gaps (`speed` scales them; 0 sends all at once); a named
pipe is read as packets come, so that another program can feed the switch. What a controller installs
before the first packet counts: `input_delay_s` holds the input back, like BMv2's `--use-files`.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import stat
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import grpc.aio
from finsy.proto import p4r

from sglb.p4.native.program import compile_native
from sglb.p4.random_stream import RandomStream
from sglb.switch.buffers import BufferSettings
from sglb.switch.clock import PS_PER_NS, PS_PER_S
from sglb.switch.config import SwitchConfig
from sglb.switch.gnmi import PortStates, add_to_server
from sglb.switch.gnmi_buffers import BufferPaths
from sglb.switch.p4runtime.client import InProcessClient
from sglb.switch.p4runtime.grpc_server import GrpcServer
from sglb.switch.p4runtime.service import P4RuntimeService, ServiceOptions
from sglb.switch.p4runtime.tls import TlsFiles
from sglb.switch.pcap import CapturedPacket, PcapError, PcapReader, PcapWriter, read_pcap
from sglb.switch.pktgen import TimerApp
from sglb.switch.switch import Switch
from sglb.switch.wall_clock import WallClock
from sglb.switch.wire.port import InterfacePort

if TYPE_CHECKING:
    from sglb.p4.compiler import CompiledProgram
    from sglb.switch.wire.interfaces import Interfaces


class PcapPorts:
    """Capture files as the ports of a switch.

    Attaching opens an output file per port and takes over `switch.on_transmit`. `ports` defaults to
    the numbers of the files found. Raises `PcapError` when there is no port, an input is damaged, or
    `need_input` is set and there is none.
    """

    def __init__(
        self,
        switch: Switch,
        clock: WallClock,
        folder: Path,
        *,
        ports: Sequence[int] | None = None,
        speed: float = 1.0,
        need_input: bool = False,
        on_error: Callable[[PcapError], None],
    ) -> None:
        if not folder.is_dir():
            raise PcapError(f"{folder}: there is no such folder")
        found = _input_files(folder)
        numbers = sorted(set(found) | set(ports or ()))
        if not numbers:
            raise PcapError(f"{folder}: no ports: it has no N.pcap file and no port was named")
        if need_input and not found:
            raise PcapError(f"{folder}: no input: it has no N.pcap file, so none can be used up")
        self._switch = switch
        self._clock = clock
        self._speed = speed
        self._on_error = on_error
        self._loop = asyncio.get_running_loop()
        self._pipes = {n: p for n, p in found.items() if stat.S_ISFIFO(p.stat().st_mode)}
        packets = [
            (packet.time_ns, number, i, packet)
            for number, path in sorted(found.items())
            if number not in self._pipes
            for i, packet in enumerate(read_pcap(path))
        ]
        self._packets = [(number, packet) for _, number, _, packet in sorted(packets, key=_order)]
        self._pending = len(self._packets) + len(self._pipes)
        self._outputs = {n: PcapWriter(folder / f"{n}_out.pcap") for n in numbers}
        for number in numbers:
            if number not in switch.ports:
                switch.add_port(number, None)
        switch.on_transmit = self._transmit

    @property
    def done(self) -> bool:
        """Whether the switch has received all packets, and each pipe has ended."""
        return self._pending == 0

    def start(self) -> None:
        """Starts the input now."""
        if self._packets:
            first_ns = self._packets[0][1].time_ns
            start_ps = self._clock.now_ps
            for number, packet in self._packets:
                gap_ps = (packet.time_ns - first_ns) * PS_PER_NS
                wait_ps = int(gap_ps / self._speed) if self._speed else 0
                self._clock.call_at(start_ps + wait_ps, self._receive, number, packet)
        for number, path in self._pipes.items():
            # A thread blocks in the pipe; it is a daemon, as nothing can wake it up for good.
            threading.Thread(target=self._follow, args=(number, path), daemon=True).start()

    def close(self) -> None:
        """Closes the outputs."""
        for writer in self._outputs.values():
            writer.close()

    def _receive(self, number: int, packet: CapturedPacket) -> None:
        self._pending -= 1
        self._switch.receive(number, packet.data)

    def _ended(self) -> None:
        self._pending -= 1

    def _transmit(self, port: int, data: bytes, start_ps: int, end_ps: int) -> None:  # noqa: ARG002
        writer = self._outputs.get(port)
        if writer is not None:
            writer.write(self._clock.epoch_ns + end_ps // PS_PER_NS, data)

    def _follow(self, number: int, path: Path) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody listens any more
            try:
                with path.open("rb") as stream:
                    for packet in PcapReader(stream, str(path)):
                        self._loop.call_soon_threadsafe(self._switch.receive, number, packet.data)
                self._loop.call_soon_threadsafe(self._ended)
            except PcapError as error:
                self._loop.call_soon_threadsafe(self._on_error, error)


def _order(item: tuple[int, int, int, CapturedPacket]) -> tuple[int, int, int]:
    """Time, then port, then place in the file."""
    return item[:3]


def _input_files(folder: Path) -> dict[int, Path]:
    """The N.pcap files of a folder, by port."""
    return {int(path.stem): path for path in sorted(folder.glob("*.pcap")) if path.stem.isdecimal()}


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """What `serve` runs.

    `interfaces` are Linux interfaces as ports, `capture_dir` a folder for captures of them, `realtime`
    the data plane's priority among real-time threads (SCHED_RR, 1 to 99; 0: it is none). `timers` are
    of the packet generator and start at once. `grpc` is "host:port", "unix:PATH" or None for no server,
    `tls` what that shows and asks of clients. `pcap_dir` holds the
    ports' files; `ports` are further ports without input. `exit_when_done` ends the run when all input
    has been read (pipes to their end) and `linger_s` has passed after that; otherwise it ends on SIGINT
    or SIGTERM. `entries` are written before anything is served (`runtime_file` reads some).
    `buffers` is the buffer of a switch on interfaces (None: its queues have limits, nobody is paused).
    `seed` is for the program's random numbers. `on_ready` is called once everything listens.
    """

    grpc: str | None = "127.0.0.1:9559"
    tls: TlsFiles | None = None
    pcap_dir: Path | None = None
    ports: tuple[int, ...] = ()
    interfaces: tuple[InterfacePort, ...] = ()
    capture_dir: Path | None = None
    entries: tuple[p4r.Update, ...] = ()
    timers: tuple[TimerApp, ...] = ()
    realtime: int = 0
    speed: float = 1.0
    input_delay_s: float = 0.0
    exit_when_done: bool = False
    linger_s: float = 0.2
    buffers: BufferSettings | None = None
    seed: int = 0
    device_id: int = 1
    name: str = "switch"
    switch: SwitchConfig = field(default_factory=SwitchConfig)
    service: ServiceOptions = field(default_factory=ServiceOptions)
    on_ready: Callable[[LiveSwitch], None] | None = None


class LiveSwitch:
    """A running switch with its service, server and files; use it as an async context manager.

    `address` is where gRPC listens ("host:port", the port filled in), empty without a server.
    """

    def __init__(self, program: CompiledProgram | None, options: ServeOptions) -> None:
        self.address = ""
        self._program = program
        self._options = options
        self._failed: asyncio.Future[None]
        self.clock: WallClock
        self.switch: Switch
        self.service: P4RuntimeService
        self.files: PcapPorts | None = None
        self.interfaces: Interfaces | None = None
        self._server: GrpcServer | None = None

    async def __aenter__(self) -> LiveSwitch:
        loop = asyncio.get_running_loop()
        self._failed = loop.create_future()
        self.clock = WallClock(loop)
        try:
            await self._open()
        except BaseException:
            await self.close()
            raise
        return self

    async def _open(self) -> None:
        options = self._options
        if options.interfaces:
            self.interfaces = self._make_interfaces()
        config = options.switch
        if self.interfaces is not None:
            # The data plane makes these itself, without waiting for Python.
            config = replace(config, port_events=False)
        self.switch = Switch(
            self._program,
            config,
            self.clock,
            name=options.name,
            device_id=options.device_id,
            rng=RandomStream(f"{options.seed}"),
            engine="native" if options.interfaces else None,
            lock=None if self.interfaces is None else self.interfaces.lock,
        )
        service = replace(options.service, epoch_ns=self.clock.epoch_ns)
        self.service = P4RuntimeService(self.switch, self.clock, service)
        if options.pcap_dir is not None:
            self.files = PcapPorts(
                self.switch,
                self.clock,
                options.pcap_dir,
                ports=options.ports,
                speed=options.speed,
                need_input=options.exit_when_done,
                on_error=self._fail,
            )
        else:
            for number in options.ports:
                self.switch.add_port(number, None)
        if self.interfaces is not None:
            self.interfaces.start(self.switch)
        if options.entries:
            client = InProcessClient(self.service)
            client.write(options.entries)
            client.close()
        if options.grpc is not None:
            credentials = None if options.tls is None else options.tls.credentials()
            self._server = GrpcServer(
                self.service, options.grpc, credentials=credentials, beside=(self._gnmi(),)
            )
            await self._server.start()
            self.address = options.grpc
            if not options.grpc.startswith("unix:"):
                self.address = f"{options.grpc.rpartition(':')[0]}:{self._server.port}"
        for timer in options.timers:
            self.switch.start_generator(timer)
        if self.files is not None:
            self.clock.call_later(int(options.input_delay_s * PS_PER_S), self.files.start)

    def _gnmi(self) -> Callable[[grpc.aio.Server], None]:
        """Port state, by interface's name or, without one, by port number."""
        cpu_port = self.switch.config.cpu_port
        names = {number: f"{number}" for number in self.switch.ports if number != cpu_port}
        names |= {port.number: port.interface for port in self._options.interfaces}
        states = PortStates(names, self.switch.port_live)
        self.service.on_port_state(lambda number, _: states.changed(number))
        buffers = None if self.interfaces is None else self.interfaces.buffers
        paths = None if buffers is None else BufferPaths(buffers, names)
        return partial(add_to_server, states, buffers=paths)

    def _make_interfaces(self) -> Interfaces:
        # Here, as its compiled functions would be made for whatever else runs in this process.
        from sglb.switch.wire.interfaces import Interfaces

        options, program = self._options, self._program
        return Interfaces(
            options.interfaces,
            options.switch,
            self.clock,
            None if program is None else compile_native(program.ir),
            capture=options.capture_dir,
            seed=f"{options.seed}",
            realtime=options.realtime,
            buffers=options.buffers,
            on_error=self._fail,
        )

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Stops the server, drops what is under way and closes the files."""
        if self._server is not None:
            await self._server.stop()
        if self.interfaces is not None:
            self.interfaces.close()
        self.clock.stop()
        if self.files is not None:
            self.files.close()

    async def run(self, stop: asyncio.Event | None = None) -> None:
        """Runs until `stop` is set or, with `exit_when_done`, the input is used up.

        Raises `PcapError` when a pipe delivers damaged data.
        """
        waits: list[asyncio.Future[object]] = [asyncio.ensure_future(self._guard())]
        if stop is not None:
            waits.append(asyncio.ensure_future(stop.wait()))
        if self._options.exit_when_done and self.files is not None:
            waits.append(asyncio.ensure_future(self._drained(self.files)))
        try:
            finished, _ = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            for wait in finished:
                await wait
        finally:
            for wait in waits:
                wait.cancel()

    async def _guard(self) -> None:
        await asyncio.shield(self._failed)

    async def _drained(self, files: PcapPorts) -> None:
        await asyncio.sleep(self._options.input_delay_s)
        while not files.done:
            await asyncio.sleep(0.02)
        await asyncio.sleep(self._options.linger_s)

    def _fail(self, error: Exception) -> None:
        if not self._failed.done():
            self._failed.set_exception(error)


def serve(program: CompiledProgram | None, options: ServeOptions) -> None:
    """Runs a switch until it is told to stop (SIGINT, SIGTERM) or its input is used up.

    Raises `PcapError`, a `SwitchError`, ValueError or OSError with one line for what the user can put
    right (a bad file, an address in use, a forbidden device id).
    """
    asyncio.run(_serve(program, options))


async def _serve(program: CompiledProgram | None, options: ServeOptions) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    async with LiveSwitch(program, options) as live:
        if options.on_ready is not None:
            options.on_ready(live)
        await live.run(stop)
