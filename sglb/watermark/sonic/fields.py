"""The fields of CONFIG_DB that a tuner may write: names, units and limits of SONiC's YANG models.

WRED_PROFILE: thresholds in bytes and probabilities in percent, by colour (sonic-wred-profile.yang).
BUFFER_PROFILE: sizes in bytes; `dynamic_th` is n of alpha = 2^n, -8 to 8 (mmuconfig).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from sglb.watermark.sonic.errors import SonicRefusedError

WRED_PROFILE: Final = "WRED_PROFILE"
BUFFER_PROFILE: Final = "BUFFER_PROFILE"
COLOURS: Final = ("green", "yellow", "red")

_UINT64: Final = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class Field:
    """A field that may be written: `low` to `high`, in `unit` (bytes, percent, or log2)."""

    table: str
    name: str
    unit: str
    low: int
    high: int

    def check(self, value: int, where: str) -> None:
        """Raises SonicRefusedError for a value that the field can't hold."""
        if not self.low <= value <= self.high:
            raise SonicRefusedError(
                f"{where} = {value}: {self.name} is {self.low} to {self.high} {self.unit}"
            )


def _all() -> Mapping[tuple[str, str], Field]:
    fields = []
    for colour in COLOURS:
        for prefix in (colour, f"ecn_{colour}"):
            for end in ("min", "max"):
                name = f"{prefix}_{end}_threshold"
                fields.append(Field(WRED_PROFILE, name, "bytes", 0, _UINT64))
        fields.append(Field(WRED_PROFILE, f"{colour}_drop_probability", "percent", 0, 100))
        fields.append(Field(WRED_PROFILE, f"ecn_{colour}_mark_probability", "percent", 0, 100))
    fields.append(Field(BUFFER_PROFILE, "dynamic_th", "(n of alpha = 2^n)", -8, 8))
    fields += [
        Field(BUFFER_PROFILE, name, "bytes", 0, _UINT64)
        for name in ("static_th", "xon", "xoff", "xon_offset", "size")
    ]
    return MappingProxyType({(field.table, field.name): field for field in fields})


#: By (table, field name).
FIELDS: Final = _all()


@dataclass(frozen=True, slots=True, order=True)
class Target:
    """A field of a profile, written `TABLE.profile.field`."""

    table: str
    profile: str
    name: str

    @property
    def key(self) -> str:
        """The Redis key of the profile."""
        return f"{self.table}|{self.profile}"

    @property
    def field(self) -> Field:
        """What the field may hold."""
        return FIELDS[self.table, self.name]

    def __str__(self) -> str:
        return f"{self.table}.{self.profile}.{self.name}"

    @classmethod
    def parse(cls, text: str) -> Target:
        """Reads `WRED_PROFILE.AZURE_LOSSLESS.green_min_threshold`. Raises SonicRefusedError."""
        table, dot, rest = text.partition(".")
        profile, dot2, name = rest.rpartition(".")
        if not (dot and dot2 and profile):
            raise SonicRefusedError(
                f"{text!r} names no field: it is TABLE.profile.field, as in "
                f"{WRED_PROFILE}.AZURE_LOSSLESS.green_min_threshold"
            )
        if (table, name) not in FIELDS:
            tables = sorted({t for t, _ in FIELDS})
            known = sorted(n for t, n in FIELDS if t == table)
            raise SonicRefusedError(
                f"{text}: {table} has no field {name} that may be written; there are "
                + ", ".join(known)
                if known
                else f"{text}: no table {table} that may be written; there are {', '.join(tables)}"
            )
        return cls(table, profile, name)
