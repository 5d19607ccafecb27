"""Parser value sets."""

from __future__ import annotations

from collections.abc import Sequence
from threading import RLock

import numpy as np

from sglb.p4 import ir
from sglb.p4.native import table_layout as lay
from sglb.switch.errors import BadValue, EntryExists, ValueTooLarge, full
from sglb.switch.keys import MatchField, matches, normalise
from sglb.switch.locking import SwitchLock, locked
from sglb.switch.memory import Arena, Record, Slab, address_of
from sglb.switch.memory_index import make_memory_index


class _Member:
    """A member as an index in memory takes it in."""

    def __init__(self, key: tuple[MatchField, ...], order: int, record: Record) -> None:
        self.key = key
        self.priority = 0
        self.order = order
        self.record = record


class ValueSetTable:
    """State of one `value_set`. A member has one match field per leaf (see `keys.MatchField`)."""

    def __init__(self, decl: ir.ValueSet, lock: SwitchLock | None = None) -> None:
        self.lock: SwitchLock = lock or RLock()
        self.name = decl.name
        self.size = decl.size
        self.widths = decl.widths
        self.kinds = decl.kinds
        self.p4info_id = decl.p4info_id
        self._members: list[tuple[MatchField, ...]] = []
        self._exact = all(kind == "exact" for kind in decl.kinds)
        self._values: set[tuple[int, ...]] = set()
        self._layout = lay.value_set_layout(decl)
        self._slab = Slab(-(-self._layout.end // lay.RECORD_ALIGN) * lay.RECORD_ALIGN)
        self._head = np.zeros(lay.HEAD_WORDS, dtype=np.uint64)
        self._shared = False
        self._stored: list[_Member] = []

    @property
    def members(self) -> tuple[tuple[MatchField, ...], ...]:
        """The members, in the order given."""
        return tuple(self._members)

    def contains(self, values: tuple[int, ...]) -> bool:
        """Whether a member matches the select's operands, one value per leaf."""
        if self._exact:
            return values in self._values
        return any(
            all(map(matches, self.kinds, member, values, self.widths)) for member in self._members
        )

    @locked
    def share(self) -> int:
        """Puts the members where native code finds them, from now on; gives the head's address."""
        if not self._shared:
            self._shared = True
            self._store()
        return address_of(self._head)

    @locked
    def replace(self, members: Sequence[tuple[MatchField, ...]]) -> None:
        """Sets all members at once; on any error nothing changes.

        Raises `TableFull` beyond the size, `EntryExists` for a member given twice, `BadValue` or
        `ValueTooLarge` for one that does not fit the set's leaves.
        """
        if len(members) > self.size:
            raise full("value set", self.name, self.size)
        fresh: list[tuple[MatchField, ...]] = []
        for member in members:
            shaped = self.shape(member)
            if shaped in fresh:
                raise EntryExists(f"value set {self.name} holds {shaped} twice")
            fresh.append(shaped)
        self._members = fresh
        if self._exact:
            self._values = {tuple(f for f in m if isinstance(f, int)) for m in fresh}
        if self._shared:
            self._store()

    def shape(self, member: tuple[MatchField, ...]) -> tuple[MatchField, ...]:
        """A member in canonical form. Raises `BadValue` or `ValueTooLarge` for one that is none."""
        if len(member) != len(self.widths):
            raise BadValue(
                f"value set {self.name}: a member has {len(self.widths)} value(s), "
                f"got {len(member)}"
            )
        try:
            return tuple(map(normalise, self.kinds, member, self.widths))
        except (BadValue, ValueTooLarge) as error:
            raise type(error)(f"value set {self.name}: {error}") from None

    def _store(self) -> None:
        self._stored = [
            _Member(key, order, self._slab.take()) for order, key in enumerate(self._members)
        ]
        self._index = make_memory_index(self._layout, self._head, Arena())
        if self._index is not None:
            for member in self._stored:
                self._index.add(member)
