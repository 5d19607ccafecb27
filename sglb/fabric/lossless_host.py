"""A host whose data travels in a lossless class: it obeys pauses (PFC), and controls its rates by DCQCN.

What `host.Host` does, and: CNPs leave first, then acknowledges, then data, as far as its class is not
paused and its sender's rate lets it. Acknowledges travel in the class of data. Pauses are those of IEEE
802.1Qbb; a host never pauses its switch.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from sglb.fabric import roce
from sglb.fabric.dcqcn_config import DcqcnConfig
from sglb.fabric.host import Host
from sglb.fabric.qp import SendQueue, TransportConfig
from sglb.fabric.rate_control import RateControl
from sglb.fabric.roce import Framer, Path, RocePacket
from sglb.fabric.topology import HostAddress
from sglb.switch.clock import PS_PER_S, Scheduler

_PAUSE_MAC: Final = bytes.fromhex("0180c2000001")
_PAUSE_TYPE: Final = bytes.fromhex("88080101")
_TIMES: Final = 18
_QUANTUM_BITS: Final = 512


@dataclass(frozen=True, slots=True)
class LosslessConfig:
    """Classes of data and of CNPs; `dcqcn` None sends by window alone."""

    traffic_class: int
    cnp_class: int
    dcqcn: DcqcnConfig | None


class LosslessHost(Host):
    """See the module; arguments as of `Host`."""

    def __init__(
        self,
        name: str,
        address: HostAddress,
        gateway_mac: bytes,
        rate_bps: int,
        config: TransportConfig,
        lossless: LosslessConfig,
        scheduler: Scheduler,
        send: Callable[[bytes], object],
        rng: random.Random,
    ) -> None:
        super().__init__(name, address, gateway_mac, rate_bps, config, scheduler, send, rng)
        self._lossless = lossless
        self._rates: dict[int, RateControl] = {}
        self._by_queue: dict[int, RateControl] = {}
        self._cnp_framers: dict[int, Framer] = {}
        self._last_cnp_ps: dict[int, int] = {}
        self._urgent: deque[bytes] = deque()
        self._paused_until_ps = 0
        self._looks = False
        self.pauses = 0

    # --- what comes in ---

    def receive(self, frame: bytes) -> None:
        """Take a frame from the link; a pause frame takes effect now."""
        if frame[:6] == _PAUSE_MAC and frame[12:16] == _PAUSE_TYPE:
            self._on_pause(frame)
        else:
            super().receive(frame)

    def _on_pause(self, frame: bytes) -> None:
        cls = self._lossless.traffic_class
        at = _TIMES + 2 * cls
        if len(frame) < at + 2 or not frame[17] >> cls & 1:
            return
        quanta = int.from_bytes(frame[at : at + 2], "big")
        self.pauses += quanta > 0
        now = self._scheduler.now_ps
        self._paused_until_ps = now + quanta * _QUANTUM_BITS * PS_PER_S // self._rate_bps
        if quanta:
            self._scheduler.call_at(self._paused_until_ps, self._pump)
        else:
            self._pump()

    def _on_marked(self, packet: RocePacket) -> None:
        config, now = self._lossless.dcqcn, self._scheduler.now_ps
        framer = self._cnp_framers.get(packet.dest_qp)
        last = self._last_cnp_ps.get(packet.dest_qp)
        if config is None or framer is None:
            return
        if last is None or now - last >= config.cnp_interval_ps:
            self._last_cnp_ps[packet.dest_qp] = now
            self._urgent.append(framer.cnp())
            self._pump()

    def _on_cnp(self, packet: RocePacket) -> None:
        rate = self._rates.get(packet.dest_qp)
        if rate is None:
            raise roce.FrameError("no such queue pair")
        rate.notified()

    # --- what goes out ---

    def _paused(self) -> bool:
        return self._scheduler.now_ps < self._paused_until_ps

    def _pump(self) -> None:
        if self._sending or not self._link_up:
            return
        if self._urgent:
            self._start(self._urgent.popleft(), None)
            return
        if self._acks:
            if not self._paused():
                self._start(self._acks.popleft(), None)
            return
        if self._paused():
            return
        for _ in range(len(self._waiting)):
            queue = self._waiting.popleft()
            self._is_waiting.discard(id(queue))
            if not queue.ready():
                continue
            rate = self._rate_of(queue)
            if rate is not None and rate.next_ps > self._scheduler.now_ps:
                self._is_waiting.add(id(queue))
                self._waiting.append(queue)
                continue
            frame = queue.next_frame()
            if rate is not None:
                rate.sent(len(frame))
            self._start(frame, queue)
            return
        self._look_later()

    def _rate_of(self, queue: SendQueue) -> RateControl | None:
        return self._by_queue.get(id(queue))

    def _look_later(self) -> None:
        """All that waits waits for its rate: looks again when the first may send."""
        times = [r.next_ps for q in self._waiting if (r := self._rate_of(q)) is not None]
        if times and not self._looks:
            self._looks = True
            self._scheduler.call_at(min(times), self._look)

    def _look(self) -> None:
        self._looks = False
        self._pump()

    # --- queue pairs ---

    def _path_to(self, peer: Host) -> Path:
        return replace(super()._path_to(peer), traffic_class=self._lossless.traffic_class)

    def _sends_by(self, number: int, queue: SendQueue) -> None:
        config = self._lossless.dcqcn
        if config is not None and config.enabled:
            rate = RateControl(config, self._scheduler, lambda: self._rate_bps, self._pump)
            self._rates[number] = self._by_queue[id(queue)] = rate

    def _receives_by(self, number: int, path: Path, peer_qp: int) -> None:
        if self._lossless.dcqcn is not None and self._lossless.dcqcn.enabled:
            path = replace(path, traffic_class=self._lossless.cnp_class)
            self._cnp_framers[number] = Framer(path, peer_qp)
