"""What a switch is configured to: profiles, and the queues and priority groups that use them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from sglb.watermark.sonic.database import Address, Database
from sglb.watermark.sonic.errors import SonicDataError
from sglb.watermark.sonic.fields import BUFFER_PROFILE, WRED_PROFILE, Target

#: Table, and the field by which its entries name a profile of the other table.
_USERS = (
    ("QUEUE", "wred_profile", WRED_PROFILE),
    ("BUFFER_PG", "profile", BUFFER_PROFILE),
    ("BUFFER_QUEUE", "profile", BUFFER_PROFILE),
)


@dataclass(frozen=True, slots=True)
class Profile:
    """A profile as it stands in CONFIG_DB; `users` are entries like `QUEUE|Ethernet0|3`."""

    table: str
    name: str
    fields: Mapping[str, str]
    users: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SwitchConfig:
    """All profiles, by (table, name)."""

    address: Address
    profiles: Mapping[tuple[str, str], Profile]

    def profile(self, target: Target) -> Profile:
        """The profile of a field. Raises SonicDataError when the switch has none of that name."""
        return self.named(target.table, target.profile)

    def named(self, table: str, name: str) -> Profile:
        """A profile. Raises SonicDataError that names those there are."""
        found = self.profiles.get((table, name))
        if found is None:
            known = sorted(other for of, other in self.profiles if of == table)
            raise SonicDataError(
                f"{self.address}: no {table} is named {name}; there are {', '.join(known) or 'none'}"
            )
        return found

    def value(self, target: Target) -> int | None:
        """A field's number, None where it is not set. Raises SonicDataError for what is no number."""
        text = self.profile(target).fields.get(target.name)
        return None if text is None else number(self.address, target, text)

    def having(self, values: Mapping[Target, int]) -> SwitchConfig:
        """The same with other values in fields. Raises SonicDataError for an unknown profile."""
        profiles = dict(self.profiles)
        for target, value in values.items():
            self.profile(target)
            key = (target.table, target.profile)
            fields = {**profiles[key].fields, target.name: str(value)}
            profiles[key] = replace(profiles[key], fields=fields)
        return SwitchConfig(self.address, profiles)


def number(address: Address, target: Target, text: str) -> int:
    """A field's text as a number: digits, and a sign for `dynamic_th`. Raises SonicDataError."""
    digits = text.removeprefix("-") if target.field.low < 0 else text
    if not (digits.isascii() and digits.isdigit()):
        raise SonicDataError(f"{address}: {target} is {text!r}, not a number")
    return int(text)


def read_config(database: Database) -> SwitchConfig:
    """Reads the profiles, and who uses them."""
    users: dict[tuple[str, str], list[str]] = {}
    for table, field, of_table in _USERS:
        for name, fields in database.table(table).items():
            used = _reference(fields.get(field, ""), of_table)
            if used:
                users.setdefault((of_table, used), []).append(f"{table}|{name}")
    profiles = {}
    for table in (WRED_PROFILE, BUFFER_PROFILE):
        for name, fields in database.table(table).items():
            key = (table, name)
            profiles[key] = Profile(table, name, fields, tuple(users.get(key, ())))
    return SwitchConfig(database.address, profiles)


def _reference(text: str, table: str) -> str:
    """A profile's name; before release 202111 it stood as `[TABLE|name]`."""
    if text.startswith("[") and text.endswith("]"):
        return text[1:-1].removeprefix(f"{table}|")
    return text
