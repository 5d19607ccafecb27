"""Table entries: what the control plane and the interpreter see of a record in memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final, Generic, TypeVar, cast

from sglb.p4 import ir
from sglb.p4.identity import once_for_each
from sglb.p4.native import table_layout as lay
from sglb.switch.counters import CounterData
from sglb.switch.keys import MatchKey
from sglb.switch.memory import WORD_MASK, ActionData, Arena, OwnRecord, Record, Slab
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

#: The target of an entry that was not aimed at anything, or let go of it.
NOTHING: Final = ActionCall(0)

T = TypeVar("T")


@dataclass(slots=True)
class _More:
    """What few entries have (see `TableEntry`)."""

    priority: int = 0
    order: int = 0
    choice: Choice | None = None
    member: Member | None = None
    metadata: bytes = b""
    cookie: int = 0
    idle_timeout_ns: int = 0
    is_const: bool = False
    notified_ps: int = 0


class _Extra(Generic[T]):
    """An attribute that lies apart, once one of them is not what it is by default."""

    def __init__(self, default: T) -> None:
        self._default = default

    def __set_name__(self, owner: type[TableEntry], name: str) -> None:
        self._name = name

    def __get__(self, entry: TableEntry, owner: type[TableEntry]) -> T:
        more = entry.more
        return self._default if more is None else cast(T, getattr(more, self._name))

    def __set__(self, entry: TableEntry, value: T) -> None:
        if entry.more is not None or value != self._default:
            setattr(entry.extras(), self._name, value)


class TableEntry:
    """One entry of a table. Change it through its table only.

    `key` is canonical (`sglb.switch.keys`), `priority` larger wins (0 where the table needs none),
    of equal ones the smaller `order` (counted in tables with priorities). `metadata` and `cookie` are
    the control plane's. `counter` and `meter` are the direct ones: without a declaration nothing
    counts there. `idle_timeout_ns` 0 means never idle; `last_hit_ps` is kept for tables with idle
    timeouts. `record` is the entry as native code sees it.

    A fabric has hundreds of thousands of entries, so what few have lies apart, in `more`.
    """

    __slots__ = ("_number", "_storage", "action", "args", "key", "more", "target")

    #: Whether it is not the default entry.
    hit: ClassVar[bool] = True

    choice = _Extra[Choice | None](None)
    member = _Extra[Member | None](None)
    metadata = _Extra(b"")
    cookie = _Extra(0)
    idle_timeout_ns = _Extra(0)
    is_const = _Extra(False)
    notified_ps = _Extra(0)

    def __init__(self, key: MatchKey, storage: EntryStorage) -> None:
        self.key = key
        self.action = NO_ACTION
        self.args: tuple[int, ...] = ()
        self.target: Target = NOTHING
        self.more: _More | None = None
        self._storage = storage
        self._number = storage.slab.take_number()

    def extras(self) -> _More:
        """What lies apart, for changes."""
        if self.more is None:
            self.more = _More()
        return self.more

    @property
    def priority(self) -> int:
        """The larger wins."""
        return 0 if self.more is None else self.more.priority

    @property
    def order(self) -> int:
        """Its place among those of one priority."""
        return 0 if self.more is None else self.more.order

    def __del__(self) -> None:
        self._storage.slab.give_back(self._number)

    @property
    def record(self) -> Record:
        """Where native code finds the entry."""
        return self._storage.slab.record(self._number)

    @property
    def last_hit_ps(self) -> int:
        """When a packet last met the entry; 0 in tables without idle timeouts."""
        at = self._storage.layout.last_hit
        if at is None:
            return 0
        record = self.record
        return int(record.words[record.at + at // lay.WORD])

    @last_hit_ps.setter
    def last_hit_ps(self, time_ps: int) -> None:
        at = self._storage.layout.last_hit
        if at is not None:
            record = self.record
            record.words[record.at + at // lay.WORD] = time_ps & WORD_MASK

    @property
    def counter(self) -> CounterData:
        """The direct counter; one of nobody where none is declared."""
        at = self._storage.layout.counter
        if at is None:
            return CounterData()
        record = self.record
        return CounterData(record.words, record.at + at // lay.WORD)

    @property
    def meter(self) -> Meter:
        """The direct meter; one of nobody, green for ever, where none is declared."""
        storage = self._storage
        before = storage.layout.before
        if not before:
            return Meter(packets=False)
        record = self.record
        at = record.at - before // lay.WORD
        return Meter(packets=storage.meter_packets, words=record.words, at=at)


class DefaultEntry(TableEntry):
    """What a table does when nothing matches."""

    __slots__ = ()

    hit: ClassVar[bool] = False


@once_for_each(1024)
def _data_of(decl: ir.Table) -> tuple[lay.RecordLayout, ActionData]:
    layout = lay.record_layout(decl)
    return layout, ActionData(decl, layout)


class EntryStorage:
    """The records of one table's entries, and what in them belongs to Python's objects."""

    def __init__(self, decl: ir.Table, *, meter_packets: bool, arena: Arena) -> None:
        self.layout, self.data = _data_of(decl)
        self.meter_packets = meter_packets
        self.slab = Slab(self.layout.stride, self.layout.before, arena)

    def nothing(self) -> OwnRecord:
        """A record with which nothing runs."""
        record = self.slab.take()
        self.data.write(record, NO_ACTION, ())
        return record

    def write(self, entry: TableEntry, choice: int) -> None:
        """Tells native code what an entry runs; `choice` is the address of a choice, or 0."""
        record = entry.record
        self.data.write(record, entry.action, entry.args)
        record.bytes[record.at * lay.WORD + lay.HIT] = entry.hit
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
