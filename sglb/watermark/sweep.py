"""Watermarks (and flows, and feedback) varied over ranges: what `sglb fluid --sweep` solves."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import product

from sglb.fabric.topology import closest
from sglb.watermark.errors import WatermarkError
from sglb.watermark.layout import Timing
from sglb.watermark.network import Network
from sglb.watermark.settings import Watermarks
from sglb.watermark.solve import FluidResult, Progress, solve

#: More points than this are no sweep but a search: see `sglb.watermark.prune`.
MAX_POINTS = 20_000
_USUAL_POINTS = 9
_FORM = "write KEY=A..B, KEY=A..B:POINTS, KEY=A..B:POINTS:log or KEY=VALUE,VALUE"
_MARKS = tuple(field.name for field in fields(Watermarks))
_WHOLE = ("flows",)
#: What can be swept: each watermark, and what makes the network.
KEYS = (*_MARKS, "flows", "feedback_us")


@dataclass(frozen=True, slots=True)
class Axis:
    """A key and its values, in the order they were given."""

    key: str
    values: tuple[float, ...]
    log: bool = False


@dataclass(frozen=True, slots=True)
class Point:
    """One point of a sweep: its values by key, and the result in which `place` is its setting."""

    at: Mapping[str, float]
    result: FluidResult
    place: int


def parse(texts: Sequence[str]) -> tuple[Axis, ...]:
    """Axes from their spelling. Raises `WatermarkError` that repeats it."""
    axes = tuple(_axis(text) for text in texts)
    if len(axes) > 2:
        raise WatermarkError(f"sweeps at most two keys, got {len(axes)}")
    if len({axis.key for axis in axes}) < len(axes):
        raise WatermarkError(f"{axes[0].key} is swept twice")
    points = math.prod(len(axis.values) for axis in axes)
    if points > MAX_POINTS:
        raise WatermarkError(f"{points:,} points are more than {MAX_POINTS:,}; take fewer")
    return axes


def _axis(text: str) -> Axis:
    key, equals, rest = text.partition("=")
    if key not in KEYS:
        raise WatermarkError(
            f"{text}: cannot sweep {key!r}{closest(key, KEYS)} (known: {', '.join(KEYS)})"
        )
    if not equals or not rest:
        raise WatermarkError(f"{text}: {_FORM}")
    if ".." not in rest:
        return Axis(key, tuple(_number(text, key, word) for word in rest.split(",")))
    span, _, options = rest.partition(":")
    count_text, _, spacing = options.partition(":")
    first, _, last = span.partition("..")
    low, high = _number(text, key, first), _number(text, key, last)
    if spacing not in ("", "log") or not (count_text or str(_USUAL_POINTS)).isdecimal():
        raise WatermarkError(f"{text}: {_FORM}")
    count = int(count_text or _USUAL_POINTS)
    if not low < high:
        raise WatermarkError(f"{text}: the range must go up")
    if not 2 <= count <= MAX_POINTS:
        raise WatermarkError(f"{text}: needs 2 to {MAX_POINTS:,} points, got {count}")
    if spacing and low <= 0:
        raise WatermarkError(f"{text}: a log range must begin above 0")
    return Axis(key, _between(key, low, high, count, bool(spacing)), bool(spacing))


def _between(key: str, low: float, high: float, count: int, log: bool) -> tuple[float, ...]:
    steps = [i / (count - 1) for i in range(count)]
    if log:
        values = [low * (high / low) ** step for step in steps]
    else:
        values = [low + (high - low) * step for step in steps]
    if key in _WHOLE:
        return tuple(sorted({float(round(value)) for value in values}))
    return tuple(float(f"{value:.6g}") for value in values)


def _number(text: str, key: str, word: str) -> float:
    try:
        value = float(word)
    except ValueError:
        raise WatermarkError(f"{text}: {_FORM}") from None
    if not math.isfinite(value):
        raise WatermarkError(f"{text}: {_FORM}")
    if key in _WHOLE and value != round(value):
        raise WatermarkError(f"{text}: {key} must be whole, got {word}")
    return value


def sweep(
    axes: Sequence[Axis],
    marks: Watermarks,
    network: Callable[[Mapping[str, float]], Network],
    timing: Timing,
    progress: Progress = lambda _done, _of: None,
) -> tuple[Point, ...]:
    """Solve every combination, the last axis changing first; those with one network in one batch.

    `network` makes it of the swept values that are no watermarks. All points are checked before any is
    solved. Raises `WatermarkError` that names the point.
    """
    places = [
        dict(zip([axis.key for axis in axes], values, strict=True))
        for values in product(*(axis.values for axis in axes))
    ]
    batches: dict[tuple[float, ...], list[int]] = {}
    settings = [_setting(marks, at) for at in places]
    for i, at in enumerate(places):
        batches.setdefault(tuple(v for k, v in at.items() if k not in _MARKS), []).append(i)
    networks = [
        network({k: v for k, v in places[members[0]].items() if k not in _MARKS})
        for members in batches.values()
    ]
    found: list[Point | None] = [None] * len(places)
    before = 0
    for members, made in zip(batches.values(), networks, strict=True):
        result = solve(
            made,
            [settings[i] for i in members],
            timing,
            progress=lambda done, _, base=before: progress(base + done, len(places)),  # type: ignore[misc]
        )
        before += len(members)
        for place, i in enumerate(members):
            found[i] = Point(places[i], result, place)
    return tuple(point for point in found if point is not None)


def _setting(marks: Watermarks, at: Mapping[str, float]) -> Watermarks:
    given = {key: value for key, value in at.items() if key in _MARKS}
    try:
        return replace(marks, **given)
    except WatermarkError as error:
        place = ", ".join(f"{key}={value:g}" for key, value in at.items())
        raise WatermarkError(f"at {place}: {error}") from None
