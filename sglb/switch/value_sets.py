"""Parser value sets."""

from __future__ import annotations

from collections.abc import Sequence

from sglb.p4 import ir
from sglb.switch.errors import BadValue, EntryExists, ValueTooLarge, full
from sglb.switch.keys import MatchField, matches, normalise


class ValueSetTable:
    """State of one `value_set`. A member has one match field per leaf (see `keys.MatchField`)."""

    def __init__(self, decl: ir.ValueSet) -> None:
        self.name = decl.name
        self.size = decl.size
        self.widths = decl.widths
        self.kinds = decl.kinds
        self.p4info_id = decl.p4info_id
        self._members: list[tuple[MatchField, ...]] = []
        self._exact = all(kind == "exact" for kind in decl.kinds)
        self._values: set[tuple[int, ...]] = set()

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

    def replace(self, members: Sequence[tuple[MatchField, ...]]) -> None:
        """Sets all members at once; on any error nothing changes.

        Raises `TableFull` beyond the size, `EntryExists` for a member given twice, `BadValue` or
        `ValueTooLarge` for one that does not fit the set's leaves.
        """
        if len(members) > self.size:
            raise full("value set", self.name, self.size)
        fresh: list[tuple[MatchField, ...]] = []
        for member in members:
            if len(member) != len(self.widths):
                raise BadValue(
                    f"value set {self.name}: a member has {len(self.widths)} value(s), "
                    f"got {len(member)}"
                )
            try:
                shaped = tuple(map(normalise, self.kinds, member, self.widths))
            except (BadValue, ValueTooLarge) as error:
                raise type(error)(f"value set {self.name}: {error}") from None
            if shaped in fresh:
                raise EntryExists(f"value set {self.name} holds {shaped} twice")
            fresh.append(shaped)
        self._members = fresh
        if self._exact:
            self._values = {tuple(f for f in m if isinstance(f, int)) for m in fresh}
