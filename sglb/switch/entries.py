"""Table entries: what the control plane and the interpreter see of a record in memory."""

from __future__ import annotations

from typing import Final

from sglb.p4 import ir
from sglb.p4.native import table_layout as lay
from sglb.switch.counters import CounterData
from sglb.switch.keys import MatchKey
from sglb.switch.memory import WORD_MASK, ActionData, Record, Slab
from sglb.switch.meters import Meter
from sglb.switch.profiles import (
    ActionCall,
    Choice,
    GroupRef,
    Member,
    MemberRef,
    OneShot,
)

#: What an entry does: an action of its own or, in a table with an action profile, a reference.
Target = ActionCall | MemberRef | GroupRef | OneShot

#: The action index of "nothing runs" (a group without live members).
NO_ACTION: Final = -1


class TableEntry:
    """One entry (or, with `hit` False, the default entry). Change it through its table only.

    `key` is canonical (`sglb.switch.keys`), `priority` larger wins (0 where the table needs none),
    `handle` counts from 1 in order of insertion. `metadata` and `cookie` are the control plane's.
    `counter` and `meter` are the direct ones: without a declaration nothing counts there.
    `idle_timeout_ns` 0 means never idle; `last_hit_ps` is kept for tables with idle timeouts.
    `record` is the entry as native code sees it.
    """

    __slots__ = (
        "_last_hit_at",
        "_last_hit_ps",
        "_meter",
        "action",
        "args",
        "choice",
        "cookie",
        "counter",
        "handle",
        "hit",
        "idle_timeout_ns",
        "is_const",
        "key",
        "member",
        "metadata",
        "notified_ps",
        "order",
        "priority",
        "record",
        "target",
    )

    def __init__(
        self, key: MatchKey, priority: int, handle: int, storage: EntryStorage, *, hit: bool = True
    ) -> None:
        self.key = key
        self.priority = priority
        self.handle = handle
        self.order = handle
        self.hit = hit
        self.action = NO_ACTION
        self.args: tuple[int, ...] = ()
        self.target: Target = ActionCall(0)
        self.choice: Choice | None = None
        self.member: Member | None = None
        self.metadata = b""
        self.cookie = 0
        self.idle_timeout_ns = 0
        self.is_const = False
        self.notified_ps = 0
        self._last_hit_ps = 0
        self.record, self.counter, self._meter, self._last_hit_at = storage.take(hit)

    @property
    def last_hit_ps(self) -> int:
        """When a packet last met the entry."""
        at = self._last_hit_at
        return self._last_hit_ps if at is None else int(self.record.words[at])

    @last_hit_ps.setter
    def last_hit_ps(self, time_ps: int) -> None:
        at = self._last_hit_at
        if at is None:
            self._last_hit_ps = time_ps
        else:
            self.record.words[at] = time_ps & WORD_MASK

    @property
    def meter(self) -> Meter:
        """The direct meter; green for ever, and made on first use, where none is declared."""
        if self._meter is None:
            self._meter = Meter(packets=False)
        return self._meter


class EntryStorage:
    """The records of one table's entries, and what in them belongs to Python's objects."""

    def __init__(self, decl: ir.Table, *, meter_packets: bool) -> None:
        self.layout = lay.record_layout(decl)
        self.data = ActionData(decl, self.layout)
        self._meter_packets = meter_packets
        self._slab = Slab(self.layout.stride, self.layout.before)

    def nothing(self) -> Record:
        """A record with which nothing runs."""
        record = self._slab.take()
        self.data.write(record.bytes, record.at * lay.WORD, NO_ACTION, ())
        return record

    def take(self, hit: bool) -> tuple[Record, CounterData, Meter | None, int | None]:
        """A fresh record, its counter, its meter (if declared) and the word of its last hit."""
        layout = self.layout
        record = self.nothing()
        words, at = record.words, record.at
        record.bytes[at * lay.WORD + lay.HIT] = hit
        counter = (
            CounterData()
            if layout.counter is None
            else CounterData(words, at + layout.counter // lay.WORD)
        )
        meter = None
        if layout.before:
            meter_at = at - layout.before // lay.WORD
            meter = Meter(packets=self._meter_packets, words=words, at=meter_at)
        last_hit = None if layout.last_hit is None else at + layout.last_hit // lay.WORD
        return record, counter, meter, last_hit

    def write(self, entry: TableEntry, choice: int) -> None:
        """Tells native code what an entry runs; `choice` is the address of a choice, or 0."""
        record = entry.record
        self.data.write(record.bytes, record.at * lay.WORD, entry.action, entry.args)
        if self.layout.choice is not None:
            record.words[record.at + self.layout.choice // lay.WORD] = choice


class IndirectMatch:
    """A hit whose action comes from a profile's member; `entry` is what matched."""

    __slots__ = ("action", "args", "entry", "hit")

    def __init__(self, entry: TableEntry, action: int, args: tuple[int, ...]) -> None:
        self.hit = entry.hit
        self.action = action
        self.args = args
        self.entry = entry

    @property
    def counter(self) -> CounterData:
        """The entry's."""
        return self.entry.counter

    @property
    def meter(self) -> Meter:
        """The entry's."""
        return self.entry.meter
