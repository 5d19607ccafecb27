"""What is to be changed: planned against what stands there, checked, and shown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from sglb.watermark.sonic.config import SwitchConfig
from sglb.watermark.sonic.errors import SonicRefusedError
from sglb.watermark.sonic.fields import BUFFER_PROFILE, COLOURS, WRED_PROFILE, Target
from sglb.watermark.sonic.guard import Guard

#: Options of `ecnconfig` by field.
_ECNCONFIG = {
    f"{colour}_{end}": f"-{colour[0]}{short}"
    for colour in COLOURS
    for end, short in (
        ("min_threshold", "min"),
        ("max_threshold", "max"),
        ("drop_probability", "drop"),
    )
}
_BUFFER_OPTIONS = {"xon": "--xon", "xoff": "--xoff", "size": "--size", "dynamic_th": "--dynamic_th"}


@dataclass(frozen=True, slots=True)
class Change:
    """One field from `before` (None: not set) to `after`."""

    target: Target
    before: int | None
    after: int

    def reversed(self) -> Change | None:
        """What takes it back; None where there was no value."""
        return None if self.before is None else Change(self.target, self.after, self.before)


def plan(config: SwitchConfig, wanted: Mapping[Target, int], guard: Guard | None) -> list[Change]:
    """The changes that lead to `wanted`, none for what stands there already.

    A field that was not set is refused: taking a change back would have to remove it, which SONiC's
    daemons do not follow. Without a guard nothing is checked against one: such a plan is to look at.
    Raises SonicRefusedError, or SonicDataError for an unknown profile.
    """
    changes = []
    for target, value in sorted(wanted.items()):
        target.field.check(value, str(target))
        if guard is not None:
            guard.check(target, value)
        before = config.value(target)
        if before is None:
            raise SonicRefusedError(
                f"{config.address}: {target} is not set: only fields that are can be tuned"
            )
        if before != value:
            changes.append(Change(target, before, value))
    for key in sorted({(t.table, t.profile) for t in wanted}):
        _check_profile(config, key, wanted)
    return changes


def _check_profile(
    config: SwitchConfig, key: tuple[str, str], wanted: Mapping[Target, int]
) -> None:
    """What fields of one profile owe each other, as they will stand."""
    table, name = key

    def will(field: str) -> int | None:
        target = Target(table, name, field)
        return wanted.get(target, config.value(target))

    for low, high, why in _orders(table):
        below, above = will(low), will(high)
        if below is not None and above is not None and below > above:
            raise SonicRefusedError(
                f"{config.address}: {table}.{name}: {low} would be {below} and {high} {above}: {why}"
            )


def _orders(table: str) -> Iterator[tuple[str, str, str]]:
    """(field, field that is not below it, what would happen)."""
    if table == WRED_PROFILE:
        for prefix in (*COLOURS, *(f"ecn_{colour}" for colour in COLOURS)):
            yield (
                f"{prefix}_min_threshold",
                f"{prefix}_max_threshold",
                "SONiC refuses min above max",
            )
    if table == BUFFER_PROFILE:
        yield "xon", "size", "a group that may hold less than it resumes at stays paused"


def diff_lines(changes: Sequence[Change]) -> list[str]:
    """The changes as lines of a diff, by profile."""
    lines: list[str] = []
    key = ""
    for change in changes:
        if change.target.key != key:
            key = change.target.key
            lines.append(f"@@ {key} @@")
        if change.before is not None:
            lines.append(f"-{change.target.name}: {change.before}")
        lines.append(f"+{change.target.name}: {change.after}")
    return lines


def commands(changes: Sequence[Change]) -> list[str]:
    """SONiC's own commands that make the same changes by hand, where there are such."""
    wred: dict[str, list[str]] = {}
    buffer: dict[str, list[str]] = {}
    lines = []
    for change in changes:
        target = change.target
        if target.table == WRED_PROFILE and target.name in _ECNCONFIG:
            options = wred.setdefault(target.profile, [])
            options.append(f"{_ECNCONFIG[target.name]} {change.after}")
        elif target.table == BUFFER_PROFILE and target.name in _BUFFER_OPTIONS:
            options = buffer.setdefault(target.profile, [])
            options.append(f"{_BUFFER_OPTIONS[target.name]} {change.after}")
        else:
            lines.append(f"sonic-db-cli CONFIG_DB hset '{target.key}' {target.name} {change.after}")
    lines += [f"ecnconfig -p {name} {' '.join(options)}" for name, options in wred.items()]
    lines += [
        f"config buffer profile set {name} {' '.join(options)}" for name, options in buffer.items()
    ]
    return lines
