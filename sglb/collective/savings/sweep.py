"""Savings over one or two keys: `restart_min=1..120`, `reroute=balanced,neighbour`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from sglb.collective.savings.assessment import Assessment, assess
from sglb.collective.savings.given import checked
from sglb.collective.savings.settings import Settings, SettingsError

#: Points of a range, unless it says how many; of each of two ranges.
POINTS = 13
POINTS_OF_TWO = 7
MAX_POINTS = 400
_FORM = "write KEY=FROM..TO, KEY=FROM..TO:POINTS, KEY=FROM..TO:POINTS:log or KEY=VALUE,VALUE"
#: Not what is assessed, but how.
_FIXED = ("faults", "runs", "seed")

Value = float | int | str | bool


@dataclass(frozen=True, slots=True)
class Axis:
    """A key and the values that it takes, numbers upwards; `log`: they are spaced by ratio."""

    key: str
    values: tuple[Value, ...]
    log: bool = False

    @property
    def numeric(self) -> bool:
        """Whether values are numbers, so that something can lie between them."""
        return all(isinstance(v, int | float) and not isinstance(v, bool) for v in self.values)


@dataclass(frozen=True, slots=True)
class Point:
    """An assessment, and the values that the axes have there."""

    at: tuple[Value, ...]
    found: Assessment


@dataclass(frozen=True, slots=True)
class Sweep:
    """All points, the last axis fastest."""

    axes: tuple[Axis, ...]
    points: tuple[Point, ...]

    def told(self, key: str, show: Callable[[Any], str]) -> str:
        """A setting of the points, from the first to the last where it is swept."""
        values = [getattr(p.found.settings, key) for p in (self.points[0], self.points[-1])]
        texts = [show(value) for value in values]
        return texts[0] if values[0] == values[1] else " to ".join(texts)

    def as_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "sweep": [{"key": axis.key, "values": list(axis.values)} for axis in self.axes],
            "points": [
                {"at": dict(zip([a.key for a in self.axes], point.at, strict=True))}
                | point.found.as_dict()
                for point in self.points
            ],
        }

    def crossings(self) -> list[tuple[float, bool]]:
        """Where the mean saving changes sign along the one numeric axis, and whether it pays above.

        Between points by a straight line. Empty for words or two axes.
        """
        if len(self.axes) != 1 or not self.axes[0].numeric:
            return []
        found = []
        for one, two in zip(self.points, self.points[1:], strict=False):
            a, b = one.found.saved_gpu_hours.mean, two.found.saved_gpu_hours.mean
            if (a > 0) != (b > 0):
                x, y = float(one.at[0]), float(two.at[0])
                found.append((x + (y - x) * a / (a - b), b > a))
        return found


def parse(texts: Sequence[str]) -> tuple[Axis, ...]:
    """Axes from what a user wrote, one or two. Raises `SettingsError`."""
    if not 1 <= len(texts) <= 2:
        raise SettingsError(f"a sweep goes over one or two keys, not {len(texts)}")
    usual = POINTS if len(texts) == 1 else POINTS_OF_TWO
    axes = tuple(_axis(text, usual) for text in texts)
    if len({axis.key for axis in axes}) < len(axes):
        raise SettingsError(f"{texts[1]}: {axes[1].key} is swept twice")
    count = math.prod(len(axis.values) for axis in axes)
    if count > MAX_POINTS:
        raise SettingsError(f"{count} points are too many, at most {MAX_POINTS}")
    return axes


def _axis(text: str, usual: int) -> Axis:
    key, equals, rest = text.partition("=")
    key = key.strip().replace("-", "_")
    if not equals or not rest:
        raise SettingsError(f"{text}: {_FORM}")
    known = [name for name in Settings.model_fields if name not in _FIXED]
    if key not in known:
        raise SettingsError(f"{text}: {key} is no key to sweep; those are {', '.join(known)}")
    if ".." not in rest:
        axis = Axis(key, tuple(_value(key, word.strip()) for word in rest.split(",")))
        # Numbers upwards: what lies between two points is told and drawn.
        return Axis(key, tuple(sorted(set(axis.values)))) if axis.numeric else axis
    return _range(text, key, rest, usual)


def _value(key: str, word: str) -> Value | Any:
    """A word as the key's own kind of value, as far as it is one; the check complains of the rest."""
    if word in ("true", "false"):
        return word == "true"
    if key == "failover_saves":
        return tuple(word.split("+"))
    for kind in (int, float):
        try:
            return kind(word)
        except ValueError:
            continue
    return word


def _range(text: str, key: str, rest: str, usual: int) -> Axis:
    span, _, options = rest.partition(":")
    count_text, _, spacing = options.partition(":")
    low_text, _, high_text = span.partition("..")
    try:
        low, high = float(low_text), float(high_text)
        count = int(count_text) if count_text else usual
    except ValueError:
        raise SettingsError(f"{text}: {_FORM}") from None
    if spacing not in ("", "log") or not (math.isfinite(low) and math.isfinite(high)):
        raise SettingsError(f"{text}: {_FORM}")
    if not low < high:
        raise SettingsError(f"{text}: the range must go up")
    if not 2 <= count <= MAX_POINTS:
        raise SettingsError(f"{text}: needs 2 to {MAX_POINTS} points, got {count}")
    if spacing == "log" and low <= 0:
        raise SettingsError(f"{text}: a log range must begin above 0")
    steps = [i / (count - 1) for i in range(count)]
    if spacing == "log":
        values = [low * (high / low) ** step for step in steps]
    else:
        values = [low + (high - low) * step for step in steps]
    values[-1] = high
    if Settings.model_fields[key].annotation is int:
        return Axis(key, tuple(sorted({round(v) for v in values})), spacing == "log")
    # Rounded to where it no longer shows, so that 0.1 does not come as 0.1000000001.
    return Axis(key, tuple(float(f"{v:.6g}") for v in values), spacing == "log")


def settings_at(settings: Settings, axes: Sequence[Axis], at: Sequence[Value]) -> Settings:
    """The settings of one point. Raises `SettingsError` that names the key."""
    given = {name: getattr(settings, name) for name in settings.model_fields_set}
    swept = dict(zip([axis.key for axis in axes], at, strict=True))
    return checked(given | swept)


def sweep(
    settings: Settings,
    axes: Sequence[Axis],
    progress: Callable[[int, int], None] = lambda _done, _of: None,
) -> Sweep:
    """Assess every combination, all with the same seed. Raises `SettingsError` before it begins."""
    places = list(product(*(axis.values for axis in axes)))
    each = [settings_at(settings, axes, at) for at in places]
    points = []
    for number, (at, here) in enumerate(zip(places, each, strict=True)):
        progress(number, len(places))
        points.append(Point(at, assess(here)))
    return Sweep(tuple(axes), tuple(points))
