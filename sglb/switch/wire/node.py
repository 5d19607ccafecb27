"""The node of a live switch: its memory, laid out and made ready for `loop`."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from typing import Final

from sglb.p4.native.program import NativeProgram
from sglb.switch.config import SwitchConfig
from sglb.switch.core import model as m
from sglb.switch.core.memory import Memory, NodeSpec, PortSpec, Sizes, build
from sglb.switch.core.settings import TrafficSettings, write_settings
from sglb.switch.wire import layout as s
from sglb.switch.wire.links import port_changed
from sglb.switch.wire.loop import clock
from sglb.switch.wire.native import address_of, fair_mutex
from sglb.switch.wire.netlink import open_monitor

#: Bytes of a packet that its row keeps: a frame of the usual MTU, and what stands before it.
_DATA_BYTES: Final = 1_664
#: Room for a program that is loaded later.
_LEAST_FRAME_BYTES: Final = 4_096
_LEAST_HEADER_BYTES: Final = 1_024
_LEAST_ROWS: Final = 4_096
_MOST_ROWS: Final = 1 << 18
_SHORT_FRAME_BYTES: Final = 256  #: mean length that queues are given rows for
_BLOBS: Final = 1_024
_NOTHING: Final = 0xFFFFFFFF  #: no file descriptor, as a field of 32 bits
_POLLIN: Final = 1 << 32


class WireNode:
    """A switch's memory with `rates` ports (bit/s by P4 number; None sends in no time) and a CPU port.

    `program` is one that it must have room for, `buffer_bytes` what lossless classes may hold beside
    the queues' limits. `start_ns` is time 0 on the monotonic clock. Close it once the loop has ended.
    """

    def __init__(
        self,
        config: SwitchConfig,
        rates: Mapping[int, int | None],
        program: NativeProgram | None,
        *,
        start_ns: int,
        epoch_ns: int,
        seed: str,
        buffer_bytes: int = 0,
    ) -> None:
        ports = [PortSpec(number, rate) for number, rate in sorted(rates.items())]
        count = len(ports) + 1
        frame_bytes, header_bytes = _LEAST_FRAME_BYTES, _LEAST_HEADER_BYTES
        if program is not None:
            frame_bytes = max(frame_bytes, 2 * program.frame_bytes)
            header_bytes = max(header_bytes, 2 * program.max_header_bytes)
        queued = (len(ports) * config.queue_limit_bytes + buffer_bytes) // _SHORT_FRAME_BYTES
        sizes = Sizes(
            rows=min(_MOST_ROWS, _LEAST_ROWS + queued),
            frame_bytes=frame_bytes,
            header_bytes=header_bytes,
            data_bytes=_DATA_BYTES,
            blobs=_BLOBS,
            blob_bytes=s.FRAME_BYTES + 512,
            seed=seed,
            sections={m.WIRE_AT: s.section_words(count)},
        )
        self.memory: Memory = build([NodeSpec(1, ports, config)], sizes)
        self.world = self.memory.world
        self.numbers = self.memory.port_numbers[0]
        write_settings(self.world, 0, 0, TrafficSettings.of_config(config))
        self._at = int(self.world.w[m.WIRE_AT])
        self.bell = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._links = open_monitor()
        self._fill(count, config, start_ns, epoch_ns)

    def _fill(self, count: int, config: SwitchConfig, start_ns: int, epoch_ns: int) -> None:
        w, at = self.world.w, self._at
        links = at + s.SECTION_WORDS
        poll = links + s.LINKS_WORDS
        ports = poll + count + 2
        batches = ports + count * s.WIRE_WORDS
        words = {
            s.S_START_NS: start_ns,
            s.S_EPOCH_NS: epoch_ns,
            s.S_WAKE: self._wake,
            s.S_BELL: self.bell,
            s.S_ONE: 1,
            s.S_POLL: poll,
            s.S_PORTS: ports,
            s.S_COUNT: count,
            s.S_RX: batches + count * s.TX_WORDS,
            s.S_LINKS: self._links.fileno(),
            s.S_LINKS_AT: links,
            s.S_EVENTS: config.port_events,
            s.S_EVENT_APP: config.event_app_id,
        }
        for word, value in words.items():
            w[at + word] = value
        for word in (s.S_TURN, s.S_DATA):
            fair_mutex(self._address(at + word))
        for word, name in enumerate(s.FUNCTIONS, s.S_CALL):
            w[at + word] = address_of(name)
        w[poll] = self._wake | _POLLIN
        w[poll + 1 + count] = self._links.fileno() | _POLLIN
        for local in range(count):
            wire = ports + local * s.WIRE_WORDS
            w[wire + s.W_PORT] = self.memory.first_port[0] + local
            w[wire + s.W_TX] = batches + local * s.TX_WORDS
            w[wire + s.W_UP] = 1
            w[wire + s.W_CAPTURE_IN] = w[wire + s.W_CAPTURE_OUT] = -1
            self._attach(local, -1, vnet=False)
        self._fill_receive(batches + count * s.TX_WORDS)

    def _address(self, word: int) -> int:
        return self.world.address + word * 8

    def _fill_receive(self, rx: int) -> None:
        w = self.world.w
        for i in range(s.BATCH):
            message, iov = rx + i * s.MSG_WORDS, rx + s.IOV_AT + i * s.IOV_WORDS
            w[message + 2], w[message + 3] = self._address(iov), 3
            w[message + 4] = self._address(rx + s.CONTROL_AT + i * s.CONTROL_WORDS)
            w[iov], w[iov + 1] = self._address(rx + s.VNET_AT + i * s.VNET_WORDS), s.VNET_BYTES
            w[iov + 3] = int(w[m.ROW_ROOM]) - s.FRONT_BYTES
            w[iov + 4] = self._address(rx + s.OVERFLOW_AT + i * s.OVERFLOW_WORDS)
            w[iov + 5] = s.JOINED_BYTES
            w[rx + s.ROWS_AT + i] = -1

    def _wire(self, local: int) -> int:
        return int(self.world.w[self._at + s.S_PORTS]) + local * s.WIRE_WORDS

    def _attach(self, local: int, fd: int, *, vnet: bool) -> None:
        w, wire = self.world.w, self._wire(local)
        w[wire + s.W_FD] = fd
        # A port that only sends isn't asked for frames.
        w[int(w[self._at + s.S_POLL]) + 1 + local] = (fd if vnet else _NOTHING) | _POLLIN
        if fd < 0:
            w[int(w[self._at + s.S_POLL]) + 1 + local] = _NOTHING
        tx = int(w[wire + s.W_TX])
        for i in range(s.BATCH):
            message, iov = tx + i * s.MSG_WORDS, tx + s.IOV_AT + i * s.IOV_WORDS
            w[iov], w[iov + 1] = self._address(tx + s.VNET_AT), s.VNET_BYTES
            w[message + 2], w[message + 3] = self._address(iov + 2 * (not vnet)), 1 + vnet

    # --- for whoever holds the lock ---

    def attach(self, number: int, fd: int, *, index: int = 0) -> None:
        """A port's frames come from and go to the packet socket of interface `index`, -1 for none.

        Without an index it is no packet socket, which only gets frames, without a virtio_net_hdr.
        """
        local = self.numbers.index(number)
        self._attach(local, fd, vnet=index > 0)
        self.world.w[self._wire(local) + s.W_INDEX] = index

    def carrier(self, number: int, up: bool) -> None:
        """A port has a carrier or not, now: what the loop does by itself if it hears of it."""
        port_changed(self.world, self.numbers.index(number), up, clock(self.world))

    def capture(self, number: int, file_in: int, file_out: int) -> None:
        """Files (descriptors, -1 for none) that get what a port receives and sends."""
        wire = self._wire(self.numbers.index(number))
        self.world.w[wire + s.W_CAPTURE_IN] = file_in
        self.world.w[wire + s.W_CAPTURE_OUT] = file_out

    def count(self, number: int, word: int) -> int:
        """One of a port's words `W_*`."""
        return int(self.world.w[self._wire(self.numbers.index(number)) + word])

    def word(self, word: int) -> int:
        """One of the section's words `S_*`."""
        return int(self.world.w[self._at + word])

    def forget_waits(self) -> None:
        """How long events had to wait is counted from now on."""
        for word in (s.S_LATEST, s.S_LATE, s.S_LOCKED_OUT):
            self.world.w[self._at + word] = 0

    def take_news(self) -> int:
        """What the loop has rung for since last time (HALT_*)."""
        with_news = self.word(s.S_NEWS)
        self.world.w[self._at + s.S_NEWS] = 0
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self.bell)
        return with_news

    def stop(self) -> None:
        """Has the loop end."""
        self.world.w[self._at + s.S_STOP] = 1
        os.eventfd_write(self._wake, 1)

    def close(self) -> None:
        """Closes what was opened here."""
        os.close(self.bell)
        os.close(self._wake)
        self._links.close()
