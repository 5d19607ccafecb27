"""Packets that the switch makes itself: port events and timers, laid out like Tofino's generator's.

Every such packet enters ingress on `SwitchConfig.event_port` as an Ethernet frame: destination and
source MAC all zero, EtherType `SwitchConfig.event_ethertype` (0x88B6), then 6 bytes, big endian:

    byte 0     bits 7..5 zero, bits 4..3 pipe (0), bits 2..0 application id
    byte 1     bits 7..4 kind: 0 port event, 1 timer; bits 3..1 zero; bit 0: the port is up
    bytes 2-3  port event: port number; timer: batch id
    bytes 4-5  packet id: counts up, modulo 2**16

In P4:

    header pktgen_t { bit<3> pad1; bit<2> pipe; bit<3> app; bit<4> kind; bit<3> pad2; bit<1> up;
                      bit<16> port_or_batch; bit<16> packet_id; }

A timer's frame carries its application's payload behind these bytes. On Tofino, where the kind follows
from the application id, byte 1 is padding and the frame begins at byte 0 of the header.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sglb.switch.clock import Handle, Scheduler
from sglb.switch.errors import BadValue

KIND_PORT = 0
KIND_TIMER = 1
EVENT_BYTES = 6
#: Fills a timer's frame up to 60 bytes.
TIMER_PAYLOAD = bytes(40)


def event_frame(
    ethertype: int, app_id: int, kind: int, up: bool, middle: int, packet: int
) -> bytes:
    """The frame described above, without payload."""
    return (
        bytes(12)
        + ethertype.to_bytes(2, "big")
        + bytes((app_id, kind << 4 | up))
        + (middle & 0xFFFF).to_bytes(2, "big")
        + (packet & 0xFFFF).to_bytes(2, "big")
    )


@dataclass(frozen=True, slots=True)
class TimerApp:
    """A timer of the packet generator.

    Every `period_ps` (first after `start_ps`) a batch of `batch_packets` frames enters, `gap_ps`
    apart; `batches` ends it after that many (None: never). `payload` follows the event header.
    """

    app_id: int
    period_ps: int
    payload: bytes = b""
    start_ps: int = 0
    batch_packets: int = 1
    gap_ps: int = 0
    batches: int | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.app_id <= 7:
            raise BadValue(f"packet generator: application id {self.app_id} is outside 0..7")
        if self.period_ps < 1 or self.start_ps < 0 or self.gap_ps < 0 or self.batch_packets < 1:
            raise BadValue(
                "packet generator: period and batch must be above 0, delays not negative"
            )
        if (self.batch_packets - 1) * self.gap_ps >= self.period_ps and self.batch_packets > 1:
            raise BadValue("packet generator: a batch must end before the next one begins")


class PacketGenerator:
    """Runs timer applications on a scheduler; `inject` takes each frame into ingress."""

    def __init__(self, clock: Scheduler, inject: Callable[[bytes], None], ethertype: int) -> None:
        self._clock = clock
        self._inject = inject
        self._ethertype = ethertype
        self._running: dict[int, Handle] = {}

    @property
    def running(self) -> tuple[int, ...]:
        """Ids of the applications that are still to send."""
        return tuple(sorted(a for a, handle in self._running.items() if handle.active))

    def start(self, app: TimerApp) -> None:
        """Starts an application, in place of one with the same id."""
        self.stop(app.app_id)
        self._running[app.app_id] = self._clock.call_later(app.start_ps, self._batch, app, 0)

    def stop(self, app_id: int) -> None:
        """Stops an application; harmless when it is not running."""
        handle = self._running.pop(app_id, None)
        if handle is not None:
            handle.cancel()

    def stop_all(self) -> None:
        """Stops every application."""
        for app_id in self.running:
            self.stop(app_id)

    def _batch(self, app: TimerApp, batch: int) -> None:
        if app.batches is None or batch + 1 < app.batches:
            self._running[app.app_id] = self._clock.call_later(
                app.period_ps, self._batch, app, batch + 1
            )
        self._packet(app, batch, 0)

    def _packet(self, app: TimerApp, batch: int, packet: int) -> None:
        head = event_frame(self._ethertype, app.app_id, KIND_TIMER, False, batch, packet)
        if packet + 1 < app.batch_packets:
            self._clock.call_later(app.gap_ps, self._packet, app, batch, packet + 1)
        self._inject(head + app.payload)
