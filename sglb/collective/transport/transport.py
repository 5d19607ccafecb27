"""The transport that the backend uses."""

from __future__ import annotations

import os
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from sglb.collective.transport import absence, commons, observe, segment
from sglb.collective.transport.commons import Late, Round
from sglb.collective.transport.connections import listen
from sglb.collective.transport.errors import ClosedError, RendezvousError, TransportError
from sglb.collective.transport.group import Group
from sglb.collective.transport.messages import Done, Label, Receive, Transfer
from sglb.collective.transport.rails import find_rails, same_host_text
from sglb.collective.transport.rendezvous import (
    Met,
    RailRecord,
    Store,
    agree,
    begin,
    meet,
    own_record,
)
from sglb.collective.transport.runtime import close_door, open_door
from sglb.collective.transport.settings import Settings
from sglb.collective.transport.stats import Stats
from sglb.collective.transport.status import snapshot

_FLUSH_S = 5.0
_open: weakref.WeakSet[Transport] = weakref.WeakSet()


class Transport:
    """Messages between the ranks of one group, over several rails that may fail.

    Safe to use from several threads. A transfer's buffer must stay as it is until it is done. Once
    something fatal happened (mismatch, a lost rank, abort) every transfer ends with that error.
    """

    def __init__(self, group: Group, door: str) -> None:
        self._group = group
        self._door = door
        self._engine = group.engine
        self._closed = False
        _open.add(self)

    @classmethod
    def open(
        cls, store: Store, rank: int, size: int, *, settings: Settings, timeout_s: float
    ) -> Transport:
        """Meet the other ranks by the store and connect to all. All ranks must call it.

        Raises SettingsError, RendezvousError naming the ranks that are missing.
        """
        if not 0 <= rank < size:
            raise RendezvousError(f"rank {rank} of {size} ranks")
        rails = find_rails(settings.rails)
        limit_s = min(timeout_s, settings.connect_s)
        deadline = time.monotonic() + limit_s
        doors = []
        door = ""
        own = segment.make(size) if settings.shared_memory else None
        try:
            for rail in rails:
                doors.append(listen(rail))
            prefix = begin(store, settings.group, rank)
            records = [
                RailRecord(rail.name, rail.address, listening.getsockname()[1])
                for rail, listening in zip(rails, doors, strict=True)
            ]
            if settings.shared_memory:
                door, listening = open_door(settings.runtime_dir)
                doors.append(listening)
            name = "" if own is None else own.name.hex()
            mine = own_record(rank, settings.host or same_host_text(), door, name, records)
            met = meet(store, prefix, mine, size, limit_s)
            shared = _share(store, met, own, rank, settings, deadline - time.monotonic())
        except BaseException as error:  # Ctrl-C as well: no socket stays behind
            for listening in doors:
                listening.close()
            close_door(door)
            if isinstance(error, OSError):
                why = f"rank {rank} cannot listen on its rails: {error}"
                raise RendezvousError(why) from error
            if isinstance(error, RuntimeError) and not isinstance(error, TransportError):
                lines = str(error).splitlines() or [type(error).__name__]
                why = f"rank {rank} cannot use the group's store: {lines[0]}"
                raise RendezvousError(why) from error
            raise
        finally:
            if own is not None:
                own.unname()
        group = Group(rank, size, rails, settings)
        group.commons = shared
        transport = cls(group, door)
        group.begin(met, doors)
        group.engine.start()
        try:
            transport._connect(deadline, limit_s)
            observe.show(transport.stats, settings, rank)
        except BaseException:
            transport._shut()
            raise
        return transport

    def _connect(self, deadline: float, limit_s: float) -> None:
        """To all that are to be reached at once. Raises RendezvousError, the group's error."""
        group = self._group
        if not group.engine.wait_until(group.connected, deadline - time.monotonic()):
            raise RendezvousError(
                f"rank {group.rank} has no connection after {limit_s:g} s: {group.missing()}"
            )
        if group.error is not None:
            raise group.error

    @property
    def rank(self) -> int:
        """This rank."""
        return self._group.rank

    @property
    def size(self) -> int:
        """How many ranks there are."""
        return self._group.size

    @property
    def place(self) -> str:
        """A prefix of keys in the store that only this opening of this group has."""
        return self._group.met.name

    def send(
        self,
        peer: int,
        stream: int,
        data: memoryview | Any,
        *,
        fingerprint: int = 0,
        label: Label = "",
        done: Done | None = None,
    ) -> Transfer:
        """Send a message of any length, 0 allowed; it meets the peer's receive of equal place.

        stream, fingerprint: 64 bits. label: what the call is, for errors; made late when callable.
        A message that is small enough to be copied is done at once, others once they have arrived.
        """
        view = _bytes_of(data)
        transfer = Transfer(self._engine, peer, stream, len(view))
        if done is not None:
            transfer.on_done(done)
        with self._engine.lock:
            if self._may(transfer):
                target = self._group.peers[peer]
                target.send(stream, view, fingerprint, label, transfer)
                target.pump()
                self._group.activate()
        self._engine.run_callbacks()
        return transfer

    def recv(
        self,
        peer: int,
        stream: int,
        into: memoryview | Any,
        *,
        fingerprint: int = 0,
        label: Label = "",
        done: Done | None = None,
    ) -> Transfer:
        """Receive a message of exactly the buffer's length into it; otherwise as `send`."""
        return self._receive(peer, stream, into, fingerprint, label, done)

    def recv_any(
        self,
        stream: int,
        into: memoryview | Any,
        *,
        fingerprint: int = 0,
        label: Label = "",
        done: Done | None = None,
    ) -> Transfer:
        """Receive from whoever sends first on this stream; `Transfer.peer` tells who."""
        return self._receive(-1, stream, into, fingerprint, label, done)

    def _receive(
        self,
        peer: int,
        stream: int,
        into: Any,
        fingerprint: int,
        label: Label,
        done: Done | None,
    ) -> Transfer:
        view = _bytes_of(into)
        if view.readonly:
            raise ValueError("the buffer to receive into is read-only")
        transfer = Transfer(self._engine, peer, stream, len(view))
        if done is not None:
            transfer.on_done(done)
        group = self._group
        with self._engine.lock:
            if self._may(transfer):
                order = group.matching.next_order()
                receive = Receive(stream, view, fingerprint, label, transfer, order)
                if peer >= 0:
                    group.peers[peer].post(receive)
                    group.peers[peer].pump()
                else:
                    found = group.matching.post_any(receive)
                    if found is not None:
                        group.peers[found[0]].meet(found[1], receive)
                        group.peers[found[0]].pump()
                group.activate()
        self._engine.run_callbacks()
        return transfer

    def _may(self, transfer: Transfer) -> bool:
        """Whether a transfer can begin; ends it with the group's error otherwise."""
        if self._closed:
            raise ClosedError("the transport is closed")
        if transfer.peer not in self._group.peers and transfer.peer != -1:
            raise ValueError(
                f"rank {transfer.peer} is no peer of rank {self.rank} in a group of {self.size}"
            )
        if self._group.error is not None:
            self._group.finished(transfer, self._group.error)
            return False
        return True

    def check(self) -> None:
        """Raises the group's error, if it has one; ClosedError."""
        if self._closed:
            raise ClosedError("the transport is closed")
        if self._group.error is not None:
            raise self._group.error

    def round(self, call: commons.Call, look: Callable[[Late], None]) -> Round | None:
        """This rank's part of a call in memory that all ranks share; None: they do not.

        All ranks make the same calls. `look` is called now and then while the rank waits, with what
        tells for whom; what it raises ends the round. Raises the group's error.
        """
        self.check()
        group = self._group
        if group.commons is None:
            return None

        def look_all(late: Late) -> None:
            absence.look(group, late)
            look(late)

        return group.commons.round(call, commons.Watch(partial(absence.awaiting, group), look_all))

    def progress(self, timeout_s: float = 0.0) -> None:
        """Drive the transport for a moment; callbacks run here."""
        deadline = time.monotonic() + timeout_s
        self._engine.wait_until(lambda: time.monotonic() >= deadline, timeout_s + 0.001)

    def abort(self, reason: str) -> None:
        """Give the group up, here and, as far as they can be told, on all ranks."""
        self._group.abort(reason)
        self._engine.run_callbacks()

    def close(self) -> None:
        """Wait until what was sent has arrived (5 s at most), say good-bye, close. Idempotent."""
        if self._closed:
            return
        self._closed = True
        self._engine.wait_until(self._group.flushed, _FLUSH_S)
        self._shut()

    def _shut(self) -> None:
        self._closed = True
        observe.hide(self.stats)
        _open.discard(self)
        self._engine.stop()
        self._group.shut()
        close_door(self._door)

    def disown(self) -> None:
        """In a forked child: the connections are the parent's, and must end when it does."""
        self._closed = True
        self._group.disown()

    def stats(self) -> Stats:
        """Counters and state now."""
        with self._engine.lock:
            return snapshot(self._group)


def _share(
    store: Store,
    met: Met,
    own: segment.Segment | None,
    rank: int,
    settings: Settings,
    left_s: float,
) -> commons.Commons | None:
    """The memory that all ranks share, if they are on one host and all of them can."""
    names = [record.commons for record in met.records]
    hosts = {record.host for record in met.records}
    if own is None or len(hosts) > 1 or not all(names):
        return None
    segments, can = segment.attach(own, rank, names)
    can = min(can, 2 if settings.single_copy else 1)
    level = agree(store, met.name, rank, len(names), can, left_s)
    return commons.Commons(rank, segments, lends=level > 1) if level else None


def _disown_all() -> None:
    for transport in list(_open):
        with suppress(OSError, ValueError):  # it was being closed when the fork came
            transport.disown()
    observe.disown()


os.register_at_fork(after_in_child=_disown_all)


def _bytes_of(buffer: Any) -> memoryview:
    view = memoryview(buffer)
    if view.format == "B" and view.ndim == 1:
        return view
    return view.cast("B")
