"""One switch's SyncMesh agent, without input or output of its own.

A driver calls `start`, `without_carrier`, `packet_in`, `timer`, `clear_link` and `stop`, each with the
time in picoseconds, carries out the effects that they return, in order, and calls `timer` again at
`deadline_ps`. Nothing here waits, reads a clock or draws from a global generator: the same calls give
the same effects.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping

from sglb.syncmesh import dataplane as dp
from sglb.syncmesh import messages as m
from sglb.syncmesh.announcer import Announcer
from sglb.syncmesh.config import AgentConfig
from sglb.syncmesh.effects import Effect, WriteProfile
from sglb.syncmesh.links import Links
from sglb.syncmesh.neighbours import Neighbour, Neighbours
from sglb.syncmesh.orders import Orders, Target
from sglb.syncmesh.outbox import Outbox, earliest
from sglb.syncmesh.repair import Repair
from sglb.syncmesh.stats import AgentStats, Count, NeighbourView

_EVENT_ETHERTYPE = b"\x88\xb6"
_EVENT_BYTES = 6


class Agent:
    """See the module. `rng` gives the nonce and the jitter of HELLOs."""

    def __init__(self, config: AgentConfig, rng: random.Random) -> None:
        self.config = config
        self._out = Outbox(config)
        self._orders = Orders(self._out)
        self._repair = Repair(self._out, self._orders)
        self._neighbours = Neighbours(self._out, rng, self)
        self._links = Links(self._out, self._order_link, self._neighbours.settled_ps)
        self._announcer = Announcer(self._out, self._neighbours)

    # --- inputs -----------------------------------------------------------------------------------

    def start(
        self,
        now_ps: int,
        announced: Mapping[int, int] | None = None,
        neighbours: Mapping[int, tuple[int, int]] | None = None,
    ) -> list[Effect]:
        """Fills the agent's tables and says HELLO.

        For an agent that starts on a data plane that has been running: `announced` is the code that
        this announced last by subject, where known; `neighbours` by port the (node, incarnation) that it
        hears. It goes on hearing them: a link is not dead because an agent is new.
        """
        self._out.now_ps = now_ps
        for heard in self.config.heard:
            self._out.emit(WriteProfile(heard, self.config.lanes(heard)))
        self._announcer.start(announced or {})
        self._neighbours.start(neighbours or {})
        return self._out.take()

    def without_carrier(self, now_ps: int, ports: Iterable[int]) -> list[Effect]:
        """These ports have no link: to be called after `start`, when the agent's tables stand.

        A data plane hears of a port that goes down, not of one that was down before it had its
        tables. Ports that are no fabric ports are ignored.
        """
        self._out.now_ps = now_ps
        for port in ports:
            if port in self.config.ports:
                self._links.without_carrier(port)
                self._neighbours.carrier(port, False)
        return self._out.take()

    def stop(self, now_ps: int) -> list[Effect]:
        """Says BYE. The agent must not be used afterwards."""
        self._out.now_ps = now_ps
        self._neighbours.stop()
        return self._out.take()

    def packet_in(self, now_ps: int, port: int, reason: int, frame: bytes) -> list[Effect]:
        """A packet-in: its header's ingress port and reason, and the frame behind."""
        self._out.now_ps = now_ps
        try:
            self._packet_in(port, reason, frame)
        except m.TagError:
            self._out.count(Count.BAD_TAG)
        except m.DecodeError:
            self._out.count(Count.MALFORMED)
        return self._out.take()

    def timer(self, now_ps: int) -> list[Effect]:
        """Does what is due; harmless before `deadline_ps`."""
        self._out.now_ps = now_ps
        self._neighbours.timer()
        self._announcer.timer()
        self._links.timer()
        for target in self._orders.overdue():
            if target.what == m.SET_LINK:
                self._links.again(target.port)
            else:
                self._repair.again(target)
        return self._out.take()

    def clear_link(self, now_ps: int, port: int) -> list[Effect]:
        """The routes over a recovered link are restored: the data plane may use it again.

        It does once the neighbour is UP and has had the time to say what is wrong behind it, or has
        been silent for a hold time. Refused, and counted, when the link is not good any more: it is
        reported again when it is.
        Raises KeyError for a port that is no fabric port.
        """
        self._out.now_ps = now_ps
        self._links.clear(port)
        return self._out.take()

    @property
    def deadline_ps(self) -> int | None:
        """When `timer` must be called next; None while nothing is due (before `start`)."""
        return earliest(
            self._neighbours.deadline_ps,
            self._announcer.deadline_ps,
            self._links.deadline_ps,
            self._orders.deadline_ps,
        )

    def stats(self) -> AgentStats:
        """How things stand after the last call."""
        views = [
            NeighbourView(
                port=port,
                state=n.state,
                neighbour=n.node or n.setup.neighbour or 0,
                incarnation=n.incarnation,
                since_ps=n.since_ps,
                listens=n.listens,
                link_marked_down=self._links.marked_down(port),
                subjects=self._repair.known(port),
            )
            for port, n in self._neighbours.by_port.items()
        ]
        counters = {c.value: n for c, n in sorted(self._out.counters.items())}
        return AgentStats(
            now_ps=self._out.now_ps,
            counters=counters,
            neighbours=tuple(views),
            sets_pending=len(self._orders),
            unacknowledged=self._announcer.unacknowledged,
        )

    # --- AdjacencyListener ------------------------------------------------------------------------

    def neighbour_up(self, port: int) -> None:
        """Both sides hear each other."""
        self._repair.neighbour_up(port)
        self._announcer.neighbour_up(port)

    def neighbour_unheard(self, port: int) -> None:
        """The neighbour no longer hears this side."""
        self._announcer.neighbour_unheard(port)

    def neighbour_gone(self, port: int) -> None:
        """What the neighbour said no longer counts."""
        self._repair.neutralise(port)

    # --- packets ----------------------------------------------------------------------------------

    def _packet_in(self, port: int, reason: int, frame: bytes) -> None:
        if reason == dp.REASON_PORT_EVENT:
            self._port_event(frame)
            return
        if reason == dp.REASON_PROBE:
            return  # routing's
        message = m.decode(m.payload(frame), self.config.key)
        match (reason, message):
            case (dp.REASON_AGENT, m.Hello() | m.Full() | m.Delta() | m.Ack() | m.Bye()):
                neighbour = self._neighbours.admit(port, message)
                if neighbour is not None:
                    self._from_agent(neighbour, message)
            case (dp.REASON_OWN_NOTE, m.Note()):
                self._announcer.note(message)
            case (dp.REASON_SET, m.Set()):
                self._carried_out(message)
            case (dp.REASON_NOTE, m.Note()) | (dp.REASON_BEAT, m.Beat()) if (
                port not in self.config.ports
            ):
                self._out.count(Count.UNKNOWN_PORT)
            case (dp.REASON_NOTE, m.Note()):
                self._note(port, message)
            case (dp.REASON_BEAT, m.Beat()):
                self._links.beat(port, message.lost)
            case _:
                self._out.count(Count.MALFORMED)

    def _from_agent(self, neighbour: Neighbour, message: m.AnyAgentMessage) -> None:
        port = neighbour.port
        match message:
            case m.Hello():
                self._neighbours.hello(neighbour, message)
            case m.Bye():
                self._neighbours.bye(neighbour)
            case _ if not neighbour.up:
                self._out.count(Count.NOT_ADJACENT)
            case m.Full():
                self._out.count(Count.FULL_IN)
                self._repair.entries(port, message.entries, full=True)
            case m.Delta():
                self._out.count(Count.DELTA_IN)
                self._repair.entries(port, message.entries, full=False)
                self._acknowledge(port, message)
            case m.Ack():
                self._announcer.ack(port, message)

    def _acknowledge(self, port: int, delta: m.Delta) -> None:
        self._out.send(
            port,
            lambda origin, incarnation, seq: m.Ack(
                origin=origin,
                incarnation=incarnation,
                seq=seq,
                acked_node=delta.origin,
                acked_incarnation=delta.incarnation,
                acked_seq=delta.seq,
            ),
        )
        self._out.count(Count.ACK_OUT)

    def _note(self, port: int, note: m.Note) -> None:
        neighbour = self._neighbours.by_port[port]
        if (note.origin, note.incarnation) != neighbour.adopted:
            self._out.count(Count.OLD_INCARNATION)  # taken in just before its successor was adopted
            return
        self._out.count(Count.NOTE_IN)
        self._repair.note(port, note)

    def _carried_out(self, order: m.Set) -> None:
        target = self._orders.confirmed(order)
        if order.what == m.SET_LINK and order.port in self.config.ports:
            self._links.cleared(order.port)
        elif order.what == m.SET_REMOTE:
            self._repair.confirmed(target, order.code)

    def _port_event(self, frame: bytes) -> None:
        event = frame[m.ETHERNET_BYTES :]
        if frame[12:14] != _EVENT_ETHERTYPE or len(event) < _EVENT_BYTES or event[1] >> 4:
            raise m.DecodeError("no port event", 0)
        port, up = int.from_bytes(event[2:4], "big"), bool(event[1] & 1)
        if port in self.config.ports:
            self._links.carrier(port, up)
            self._neighbours.carrier(port, up)

    def _order_link(self, port: int, code: int) -> None:
        self._orders.give(Target(m.SET_LINK, 0, port, 0), code)
