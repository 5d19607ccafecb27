"""Routing's own watch over links: probes by packet-out, as BFD does it (RFC 5880, asynchronous mode).

Every switch sends a probe out of each fabric port three times a detection time. An end that has heard
none for that long no longer hears its neighbour, unless too few have been sent by then: a controller
that was held up has only itself to blame. This finds what no port event tells of: a link that
swallows frames, in one direction or both, while its ports stay up.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from finsy import P4PacketIn

from sglb.fabric.topology import Topology
from sglb.switch.clock import Handle, Scheduler
from sglb.switch.p4runtime.status import Code, P4RuntimeError
from sglb.syncmesh import messages
from sglb.syncmesh.dataplane import REASON_PROBE

#: As BFD's detection multiplier: so many probes in a row have to be missed.
DETECT_MULTIPLIER = 3


class Client(Protocol):
    """What probing needs of a P4Runtime session."""

    def packet_out(self, payload: bytes, **metadata: Any) -> None:
        """Sends a packet with the metadata of the program's packet_out header."""

    def on_packet_in(self, callback: Callable[[P4PacketIn], None], **wanted: int) -> None:
        """Calls back with each packet-in whose metadata are as wanted."""


@dataclass(slots=True)
class _Ear:
    """One end of a link, as listener."""

    neighbour: int
    port_up: bool = True
    hears: bool = True
    since_ps: int = 0
    deadline: Handle | None = None


class Prober:
    """Probes all links between switches, with a client per switch (its packet-ins are taken over).

    `on_hearing(switch_id, port, hears)` is called when an end stops to hear its neighbour, and when
    it hears it again. An end whose port is down is not watched: the port says it all. Probes of
    different switches are spread evenly over the interval. `detection_ps` 0 switches probing off.
    """

    def __init__(
        self,
        topology: Topology,
        clock: Scheduler,
        clients: Mapping[int, Client],
        detection_ps: int,
        on_hearing: Callable[[int, int, bool], None],
    ) -> None:
        self._topology = topology
        self._clock = clock
        self._clients = clients
        self._detection_ps = detection_ps
        self._interval_ps = detection_ps // DETECT_MULTIPLIER
        self._on_hearing = on_hearing
        self._seq = dict.fromkeys(clients, 0)
        self._spoke_ps = {switch_id: deque[int](maxlen=DETECT_MULTIPLIER) for switch_id in clients}
        self._ears = {
            switch_id: {
                port: _Ear(link.other(switch_id))
                for port, link in topology.ports(switch_id).items()
                if not topology.by_id(link.other(switch_id)).is_host
            }
            for switch_id in clients
        }

    def start(self) -> None:
        """Starts to probe and to listen."""
        if not self._interval_ps:
            return
        for index, (switch_id, client) in enumerate(self._clients.items()):
            client.on_packet_in(partial(self._packet_in, switch_id), reason=REASON_PROBE)
            first_ps = self._interval_ps * (index + 1) // len(self._clients)
            self._clock.call_later(first_ps, self._probe, switch_id)
            for port, ear in self._ears[switch_id].items():
                self._watch(switch_id, port, ear)

    def port_state(self, switch_id: int, port: int, up: bool) -> None:
        """A port was seen to go down or come up."""
        ear = self._ears[switch_id].get(port)
        if ear is None or not self._interval_ps:
            return
        ear.port_up = up
        if up:
            self._watch(switch_id, port, ear)
        else:
            self._unwatch(ear)
            self._tell(switch_id, port, ear, True)  # what it hears is no longer the question

    # --- speaking ---

    def _probe(self, switch_id: int) -> None:
        self._clock.call_later(self._interval_ps, self._probe, switch_id)
        self._spoke_ps[switch_id].append(self._clock.now_ps)
        try:
            self._send(switch_id)
        except P4RuntimeError as error:
            if error.code is not Code.UNAVAILABLE:
                raise  # a switch that is down says nothing

    def _send(self, switch_id: int) -> None:
        mac = self._topology.by_id(switch_id).mac
        for port, ear in self._ears[switch_id].items():
            if ear.port_up:
                self._seq[switch_id] = (self._seq[switch_id] + 1) & 0xFFFFFFFF
                probe = messages.Probe(origin=switch_id, incarnation=0, seq=self._seq[switch_id])
                frame = messages.frame(mac, probe.encode())
                frame = frame.ljust(messages.MIN_FRAME_BYTES, b"\0")
                self._clients[switch_id].packet_out(frame, egress_port=port, to_pipeline=0, pad=0)

    # --- listening ---

    def _packet_in(self, switch_id: int, packet: P4PacketIn) -> None:
        port = int(packet["ingress_port"])
        ear = self._ears[switch_id].get(port)
        if ear is not None and ear.port_up:
            self._watch(switch_id, port, ear)
            self._tell(switch_id, port, ear, True)

    def _watch(self, switch_id: int, port: int, ear: _Ear) -> None:
        self._unwatch(ear)
        ear.since_ps = self._clock.now_ps
        ear.deadline = self._clock.call_later(
            self._detection_ps, self._silent, switch_id, port, ear
        )

    def _silent(self, switch_id: int, port: int, ear: _Ear) -> None:
        """Nothing was heard for a detection time: of enough probes that had the time to come?"""
        come_ps = self._clock.now_ps - self._interval_ps
        missed = sum(ear.since_ps < at_ps <= come_ps for at_ps in self._spoke_ps[ear.neighbour])
        if missed < DETECT_MULTIPLIER - 1:
            ear.deadline = self._clock.call_later(
                self._interval_ps, self._silent, switch_id, port, ear
            )
            return
        ear.deadline = None
        self._tell(switch_id, port, ear, False)

    @staticmethod
    def _unwatch(ear: _Ear) -> None:
        if ear.deadline is not None:
            ear.deadline.cancel()
            ear.deadline = None

    def _tell(self, switch_id: int, port: int, ear: _Ear, hears: bool) -> None:
        if ear.hears != hears:
            ear.hears = hears
            self._on_hearing(switch_id, port, hears)
