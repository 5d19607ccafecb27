"""Adjacency: who is on each port, whether both sides hear each other, and for how long that holds.

A port is DOWN until a HELLO comes, HEARD from then on, UP once a HELLO echoes this agent's node id,
incarnation and nonce: the neighbour hears this very start of this agent, so the HELLO is no recording.
Only then is its incarnation given to the data plane, which then takes its notifications.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from sglb.switch.clock import PS_PER_US
from sglb.syncmesh import messages as m
from sglb.syncmesh.config import FabricPort
from sglb.syncmesh.effects import NeighbourChanged, NeighbourState, WriteListeners, WritePort
from sglb.syncmesh.outbox import Outbox, earliest
from sglb.syncmesh.serial import INCARNATION_BITS, SEQ_BITS, newer
from sglb.syncmesh.stats import Count


class AdjacencyListener(Protocol):
    """Who is told of changes."""

    def neighbour_up(self, port: int) -> None:
        """Both sides hear each other."""

    def neighbour_unheard(self, port: int) -> None:
        """The neighbour no longer hears this side, or is gone."""

    def neighbour_gone(self, port: int) -> None:
        """What the neighbour said no longer counts."""


@dataclass(slots=True)
class Neighbour:
    """State of one port. `agent_seq` is the last sequence number of its agent."""

    port: int
    setup: FabricPort
    state: NeighbourState = NeighbourState.DOWN
    since_ps: int = 0
    node: int = 0
    incarnation: int = 0
    nonce: int = 0
    agent_seq: int | None = None
    hold_ps: int = 0
    hold_due_ps: int | None = None
    hello_due_ps: int | None = None
    listens: bool = False
    adopted: tuple[int, int] = (0, 0)

    @property
    def up(self) -> bool:
        """Whether both sides hear each other."""
        return self.state is NeighbourState.UP

    @property
    def echo(self) -> m.Echo:
        """Whom this port's HELLO says it hears."""
        if self.state is NeighbourState.DOWN:
            return m.NOBODY
        return m.Echo(self.node, self.incarnation, self.nonce)


class Neighbours:
    """All fabric ports."""

    def __init__(self, out: Outbox, rng: random.Random, listener: AdjacencyListener) -> None:
        self._out = out
        self._rng = rng
        self._listener = listener
        self._nonce = rng.getrandbits(64)
        self.by_port = {port: Neighbour(port, s) for port, s in out.config.ports.items()}

    def start(self, heard: Mapping[int, tuple[int, int]]) -> None:
        """Writes the ports and says HELLO everywhere.

        `heard`: (node, incarnation) that the data plane hears already, by port.
        """
        for neighbour in self.by_port.values():
            neighbour.since_ps = self._out.now_ps
            expected = neighbour.setup.neighbour or 0
            node, incarnation = heard.get(neighbour.port, (0, 0))
            if expected not in (0, node):
                node, incarnation = expected, 0
            self._out.emit(WritePort(neighbour.port, neighbour.setup, node, incarnation))
            if not self._out.config.new_data_plane:
                neighbour.hold_due_ps = self._out.now_ps + self._out.config.timers.hold_ps
            self._say_hello(neighbour)
        self._out.emit(WriteListeners(()))

    def stop(self) -> None:
        """Says BYE to whoever can hear it."""
        for neighbour in self.by_port.values():
            if neighbour.state is not NeighbourState.DOWN:
                self._out.send(
                    neighbour.port,
                    lambda origin, incarnation, seq: m.Bye(
                        origin=origin, incarnation=incarnation, seq=seq
                    ),
                )
                self._out.count(Count.BYE_OUT)
            neighbour.hello_due_ps = neighbour.hold_due_ps = None

    @property
    def deadline_ps(self) -> int | None:
        """When `timer` must be called."""
        return earliest(
            *(n.hello_due_ps for n in self.by_port.values()),
            *(n.hold_due_ps for n in self.by_port.values()),
        )

    def timer(self) -> None:
        """Says HELLO and lets silent neighbours go."""
        now_ps = self._out.now_ps
        for neighbour in self.by_port.values():
            if neighbour.hold_due_ps is not None and neighbour.hold_due_ps <= now_ps:
                self._out.count(Count.HOLD_EXPIRED)
                self._lose(neighbour)
            if neighbour.hello_due_ps is not None and neighbour.hello_due_ps <= now_ps:
                self._say_hello(neighbour)

    def settled_ps(self, port: int) -> int | None:
        """When a neighbour that is UP has had the time to say what is not neutral; None for others."""
        neighbour = self.by_port[port]
        if not neighbour.up:
            return None
        return neighbour.since_ps + self._out.config.timers.settle_ps

    # --- what comes in ---

    def admit(self, port: int, message: m.AnyAgentMessage) -> Neighbour | None:
        """The sender of a genuine message, if it is who it should be and the message is news.

        Only a HELLO may come from a stranger or a newer incarnation.
        """
        neighbour = self.by_port.get(port)
        refusal = self._refusal(neighbour, message)
        if neighbour is None or refusal is not None:
            self._out.count(refusal or Count.UNKNOWN_PORT)
            return None
        who = (message.origin, message.incarnation)
        if who != (neighbour.node, neighbour.incarnation):
            if neighbour.node:
                self._restarted(neighbour)
            neighbour.node, neighbour.incarnation = who
        neighbour.agent_seq = message.seq
        return neighbour

    def _refusal(self, neighbour: Neighbour | None, message: m.AnyAgentMessage) -> Count | None:
        if neighbour is None:
            return Count.UNKNOWN_PORT
        if message.origin == self._out.config.node:
            return Count.OWN_ORIGIN
        down = neighbour.state is NeighbourState.DOWN
        expected = neighbour.setup.neighbour or (0 if down else neighbour.node)
        if expected not in (0, message.origin):
            return Count.UNEXPECTED_ORIGIN
        if not message.incarnation:
            return Count.OLD_INCARNATION
        if message.origin == neighbour.node:
            stale = self._staleness(neighbour, message)
            if stale is not None:
                return stale
        known = (message.origin, message.incarnation) == (neighbour.node, neighbour.incarnation)
        if not isinstance(message, m.Hello) and (down or not known):
            return Count.NOT_ADJACENT
        return None

    @staticmethod
    def _staleness(neighbour: Neighbour, message: m.AnyAgentMessage) -> Count | None:
        if message.incarnation != neighbour.incarnation:
            later = newer(message.incarnation, neighbour.incarnation, INCARNATION_BITS)
            return None if later else Count.OLD_INCARNATION
        last = neighbour.agent_seq
        if last is not None and not newer(message.seq, last, SEQ_BITS):
            return Count.OLD_SEQUENCE
        return None

    def hello(self, neighbour: Neighbour, hello: m.Hello) -> None:
        """A HELLO that was admitted."""
        if not hello.version_min <= m.VERSION <= hello.version_max or hello.hold_us == 0:
            self._out.count(Count.BAD_VERSION if hello.hold_us else Count.MALFORMED)
            return
        self._out.count(Count.HELLO_IN)
        first = neighbour.state is NeighbourState.DOWN
        if neighbour.nonce != hello.nonce and not first:
            self._restarted(neighbour)  # its agent alone
            first = True
        neighbour.nonce = hello.nonce
        neighbour.hold_ps = hello.hold_us * PS_PER_US
        neighbour.hold_due_ps = self._out.now_ps + neighbour.hold_ps
        config = self._out.config
        hears_us = hello.echo == m.Echo(config.node, config.incarnation, self._nonce)
        self._become(neighbour, NeighbourState.UP if hears_us else NeighbourState.HEARD)
        if hears_us:
            self._set_listening(neighbour, hello.wants_notes)
        if first:
            self._say_hello(neighbour)  # so that it learns at once that it is heard

    def bye(self, neighbour: Neighbour) -> None:
        """A BYE that was admitted."""
        self._out.count(Count.BYE_IN)
        self._lose(neighbour)
        self._set_listening(neighbour, False)

    def carrier(self, port: int, up: bool) -> None:
        """The link went down or came up."""
        neighbour = self.by_port[port]
        if up:
            self._say_hello(neighbour)
        else:
            neighbour.hello_due_ps = None
            self._lose(neighbour)

    # --- inside ---

    def _become(self, neighbour: Neighbour, state: NeighbourState) -> None:
        if neighbour.state is state:
            return
        was_up = neighbour.up
        neighbour.state = state
        neighbour.since_ps = self._out.now_ps
        self._out.emit(NeighbourChanged(neighbour.port, neighbour.node, state))
        if neighbour.up:
            self._adopt(neighbour)
            self._listener.neighbour_up(neighbour.port)
        elif was_up:
            self._listener.neighbour_unheard(neighbour.port)

    def _adopt(self, neighbour: Neighbour) -> None:
        """Lets the data plane take notifications of this incarnation."""
        who = (neighbour.node, neighbour.incarnation)
        if neighbour.adopted != who:
            neighbour.adopted = who
            self._out.emit(WritePort(neighbour.port, neighbour.setup, *who))

    def _restarted(self, neighbour: Neighbour) -> None:
        self._out.count(Count.RESTART_SEEN)
        self._lose(neighbour)

    def _lose(self, neighbour: Neighbour) -> None:
        """What it said no longer counts. The entry in `ports` stays, and so does its wish for notes.

        Its agent may have died while its data plane goes on, which then still hears of changes here,
        and what it tells is taken as long as its heartbeats come.
        """
        neighbour.hold_due_ps = None
        self._become(neighbour, NeighbourState.DOWN)
        self._listener.neighbour_gone(neighbour.port)

    def _set_listening(self, neighbour: Neighbour, listens: bool) -> None:
        if neighbour.listens != listens:
            neighbour.listens = listens
            ports = sorted(n.port for n in self.by_port.values() if n.listens)
            self._out.emit(WriteListeners(tuple(ports)))

    def _say_hello(self, neighbour: Neighbour) -> None:
        timers, config = self._out.config.timers, self._out.config
        self._out.send(
            neighbour.port,
            lambda origin, incarnation, seq: m.Hello(
                origin=origin,
                incarnation=incarnation,
                seq=seq,
                hold_us=timers.hold_ps // PS_PER_US,
                nonce=self._nonce,
                echo=neighbour.echo,
                wants_notes=config.wants_notes(neighbour.port),
            ),
        )
        self._out.count(Count.HELLO_OUT)
        # Up to an eighth early, so that agents that started together do not stay in step.
        early_ps = self._rng.randrange(timers.hello_ps // 8 + 1)
        neighbour.hello_due_ps = self._out.now_ps + timers.hello_ps - early_ps
