"""Linux interfaces as the ports of a switch: its data plane in a thread, the rest on an asyncio loop."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import logging
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from sglb.p4.native.program import NativeProgram
from sglb.switch.buffers import Buffers, BufferSettings
from sglb.switch.config import SwitchConfig
from sglb.switch.core import model as m
from sglb.switch.core.bind import CoreSwitch, bind, unbind
from sglb.switch.errors import ConfigError, SwitchError
from sglb.switch.pcap import PcapWriter
from sglb.switch.switch import Switch
from sglb.switch.wall_clock import WallClock
from sglb.switch.wire import layout as s
from sglb.switch.wire import loop as machine
from sglb.switch.wire import netlink
from sglb.switch.wire.lock import DataLock
from sglb.switch.wire.node import WireNode
from sglb.switch.wire.port import InterfacePort
from sglb.switch.wire.sockets import (
    InterfaceError,
    has_carrier,
    interface_index,
    open_socket,
    switch_off_joining,
)

_log = logging.getLogger(__name__)

_PR_SET_TIMERSLACK: Final = 29
_LOOK_S: Final = 1.0  #: between looks at what went wrong with frames
_CPU_BUFFER_BYTES: Final = 4 << 20
_CPU_FRAMES: Final = 64  #: to the control plane, before other things get their turn
_NETLINK_BYTES: Final = 1 << 16
#: What to tell of a port's counters when they grow.
_TROUBLES: Final = {
    s.W_SEND_FAILED: "frames were not taken by the interface: {error}",
    s.W_UNKNOWN: "frames came joined in a way that is not known and were dropped; switch that off at "
    "the other end (ethtool -K NAME gso off)",
    s.W_LONG: f"frames were longer than {s.FRAME_BYTES} bytes and were dropped",
    s.W_CAPTURE_FAILED: "frames could not be written to the capture",
}


class _Attached:
    """An interface that is a port now."""

    def __init__(self, name: str) -> None:
        self.socket = open_socket(name)
        self.index = interface_index(name)
        switch_off_joining(name)


class Interfaces:
    """The data plane of a live switch.

    Make it before the `Switch`, give that `lock`, then `start`; `close` ends it. All of this, and what
    comes of it, on the clock's loop. `capture` is a folder for N_in.pcap and N_out.pcap of each port.
    `realtime` is the data plane's priority as a real-time thread (SCHED_RR), 0 for none.
    `buffers` is what it starts with instead of queues with limits; `self.buffers` then changes it.
    `on_error` gets what makes the data plane end by itself. Raises `ConfigError` for ports that cannot
    be.
    """

    def __init__(
        self,
        ports: Sequence[InterfacePort],
        config: SwitchConfig,
        clock: WallClock,
        program: NativeProgram | None,
        *,
        capture: Path | None = None,
        seed: str = "",
        realtime: int = 0,
        buffers: BufferSettings | None = None,
        on_error: Callable[[SwitchError], None],
    ) -> None:
        _check(ports, config)
        self._ports = {port.number: port for port in ports}
        self._capture = capture
        self._realtime = realtime
        self._settings = buffers
        self.buffers: Buffers | None = None
        self._on_error = on_error
        self._loop = asyncio.get_running_loop()
        self._attached: dict[int, _Attached] = {}
        self._files: list[int] = []
        self._seen: dict[tuple[int, int], int] = {}
        self._look: asyncio.TimerHandle | None = None
        self._switch: Switch
        self._core: CoreSwitch | None = None
        self._thread: threading.Thread | None = None
        self.node = WireNode(
            config,
            {port.number: port.rate_bps for port in ports},
            program,
            start_ns=clock.start_ns,
            epoch_ns=clock.epoch_ns,
            seed=seed,
            buffer_bytes=0 if buffers is None else buffers.total_bytes,
        )
        self.lock = DataLock(self.node.world)
        self._cpu, self._cpu_far = socket.socketpair(
            socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK
        )
        self._cpu_far.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _CPU_BUFFER_BYTES)
        self._links = netlink.open_monitor()

    # --- start and end ---

    def start(self, switch: Switch) -> None:
        """Gives a switch its ports and this data plane, and lets packets in.

        Raises `InterfaceError`, or `PcapError` when captures cannot be written.
        """
        self._switch = switch
        for port in self._ports.values():
            switch.add_port(port.number, port.rate_bps)
        self._core = bind(self.node.memory, 0, switch)
        if self._settings is not None:
            self.buffers = Buffers(self._core, self._settings, self.lock)
        self.node.attach(switch.config.cpu_port, self._cpu_far.fileno())
        for port in self._ports.values():
            self._attach(port)
            if self._capture is not None:
                self.node.capture(port.number, *self._captures(port.number, self._capture))
        for port in self._ports.values():
            self._learn(port, has_carrier(port.interface))
        self._loop.add_reader(self._links.fileno(), self._links_changed)
        self._loop.add_reader(self._cpu.fileno(), self._to_cpu)
        self._loop.add_reader(self.node.bell, self._news)
        self._look = self._loop.call_later(_LOOK_S, self._look_at_troubles)
        self._thread = threading.Thread(target=self._run, name="data plane", daemon=True)
        self._thread.start()

    def _captures(self, number: int, folder: Path) -> tuple[int, int]:
        found = []
        for direction in ("in", "out"):
            path = folder / f"{number}_{direction}.pcap"
            try:
                PcapWriter(path).close()
                found.append(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC))
            except OSError as error:
                raise InterfaceError(f"capture {path}: {error.strerror}") from error
        self._files += found
        return found[0], found[1]

    def _run(self) -> None:
        # Signals are for the main thread; sleeps end when they should, not up to 50 us later.
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, ctypes.c_ulong(1))
        if self._realtime:
            try:
                os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(self._realtime))
            except OSError as refused:
                _log.warning("the data plane is no real-time thread: %s", refused.strerror)
        machine.serve(self.node.world)
        if not self.node.word(s.S_STOP):
            error = ConfigError("the data plane has ended: its list of events is full")
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._on_error, error)

    def close(self) -> None:
        """Ends the data plane; frames under way are lost. The switch keeps its counters."""
        if self._look is not None:
            self._look.cancel()
        for fd in (self._links.fileno(), self._cpu.fileno(), self.node.bell):
            self._loop.remove_reader(fd)
        if self._thread is not None:
            self.node.stop()
            self._thread.join()
            self._look_at_troubles(again=False)
        if self._core is not None:
            unbind(self._core)
        for attached in self._attached.values():
            attached.socket.close()
        for fd in self._files:
            os.close(fd)
        for one in (self._links, self._cpu, self._cpu_far):
            one.close()
        self.node.close()

    # --- frames and news for Python ---

    def _to_cpu(self) -> None:
        for _ in range(_CPU_FRAMES):
            try:
                frame = self._cpu.recv(s.FRAME_BYTES)
            except BlockingIOError:
                return
            if self._switch.on_cpu is not None:
                self._switch.on_cpu(frame)

    def _news(self) -> None:
        with self.lock:
            news = self.node.take_news()
            if news & m.HALT_DIGEST and self._core is not None:
                self._core.take_digests()
        if news & m.HALT_PROGRAM:
            _log.warning("a packet was dropped: native code could not run the program on it")

    def _look_at_troubles(self, again: bool = True) -> None:
        for number, port in self._ports.items():
            error = os.strerror(self.node.count(number, s.W_ERRNO))
            for word, text in _TROUBLES.items():
                what = text.format(error=error)
                self._grown(
                    number, word, self.node.count(number, word), f"{port.interface}: {what}"
                )
        what = "packets found no room in the switch's memory"
        self._grown(-1, s.S_LOST_ROWS, self.node.word(s.S_LOST_ROWS), what)
        if again:
            self._look = self._loop.call_later(_LOOK_S, self._look_at_troubles)

    def _grown(self, number: int, word: int, count: int, what: str) -> None:
        before = self._seen.get((number, word), 0)
        self._seen[number, word] = count
        if count > before:
            where = "" if number < 0 else f"port {number}, "
            _log.warning("%s%s (%d)", where, what, count - before)

    # --- interfaces that come and go ---

    def _attach(self, port: InterfacePort) -> None:
        attached = self._attached[port.number] = _Attached(port.interface)
        with self.lock:
            self.node.attach(port.number, attached.socket.fileno(), index=attached.index)
            self.node.carrier(port.number, has_carrier(port.interface))
        _log.info("port %d is interface %s (index %d)", port.number, port.interface, attached.index)

    def _detach(self, port: InterfacePort) -> None:
        attached = self._attached.pop(port.number)
        with self.lock:
            self.node.carrier(port.number, False)
            self.node.attach(port.number, -1)
        attached.socket.close()

    def _links_changed(self) -> None:
        try:
            found = list(netlink.changes(self._links.recv(_NETLINK_BYTES)))
        except BlockingIOError:
            return
        except OSError:  # there were more than its buffer holds (ENOBUFS): look at all
            # The data plane may have missed some, too.
            found = [one for port in self._ports.values() for one in self._look_anew(port)]
            for port in self._ports.values():
                with self.lock:
                    self.node.carrier(port.number, has_carrier(port.interface))
        for change in found:
            for port in self._ports.values():
                self._changed(port, change)

    def _look_anew(self, port: InterfacePort) -> Iterator[netlink.LinkChange]:
        index, attached = interface_index(port.interface), self._attached.get(port.number)
        if attached is not None and attached.index != index:
            yield netlink.LinkChange(attached.index, port.interface, up=False, gone=True)
        if index:
            up = has_carrier(port.interface)
            yield netlink.LinkChange(index, port.interface, up, gone=False)

    def _changed(self, port: InterfacePort, change: netlink.LinkChange) -> None:
        attached = self._attached.get(port.number)
        if attached is None:
            if change.name != port.interface or change.gone:
                return
            try:
                self._attach(port)
            except InterfaceError as error:
                _log.warning("port %d stays down: %s", port.number, error)
                return
        elif change.index != attached.index:
            return
        elif change.gone:
            self._detach(port)
        self._learn(port, change.up)

    def _learn(self, port: InterfacePort, up: bool) -> None:
        """A port's carrier, for the switch around the data plane, which knows by itself (`links`)."""
        if self._switch.port(port.number).up != up:
            _log.info("port %d (%s) is %s", port.number, port.interface, _state(up))
            self._switch.set_port_state(port.number, up)


def _state(up: bool) -> str:
    return "up" if up else "down"


def _check(ports: Sequence[InterfacePort], config: SwitchConfig) -> None:
    numbers: set[int] = set()
    names: dict[str, int] = {}
    for port in ports:
        if port.number in numbers:
            raise ConfigError(f"port {port.number} is given twice")
        if port.number in (config.cpu_port, config.drop_port, config.event_port):
            raise ConfigError(f"port {port.number} is the switch's own (CPU, drop or event port)")
        if port.interface in names:
            raise ConfigError(
                f"interface {port.interface} is given for ports {names[port.interface]} and "
                f"{port.number}"
            )
        numbers.add(port.number)
        names[port.interface] = port.number
