"""Drawings of the fluid model as SVG: curves in panels above one another, over one axis."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

_WIDTH, _PANEL, _GAP = 860, 190, 34
_LEFT, _RIGHT, _TOP, _BOTTOM = 84, 24, 74, 60
_INK, _GREY, _GRID = "#222", "#666", "#ddd"
_COLOURS = ("#1a5fa8", "#c44e20", "#3a8a3a", "#7a4fa3", "#a8851a", "#2a8f8f", "#b03a6a", "#555")
_STYLE = "font-family:Helvetica,Arial,sans-serif"


@dataclass(frozen=True, slots=True)
class Curve:
    """Values over the panel's axis; `dashed` and `dots` say how it is drawn."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    dashed: bool = False
    dots: bool = False


@dataclass(frozen=True, slots=True)
class Panel:
    """Curves with one vertical axis, from 0 on; `top` None: as high as they go.

    `levels` are what stands at 0, 1, 2 ... of the axis instead of these numbers.
    """

    title: str
    curves: Sequence[Curve]
    top: float | None = None
    levels: Sequence[str] = ()


def draw(title: str, subtitle: str, axis: str, panels: Sequence[Panel], log: bool = False) -> str:
    """An SVG document."""
    height = _TOP + len(panels) * (_PANEL + _GAP) + _BOTTOM - _GAP
    xs = [x for panel in panels for curve in panel.curves for x in curve.x]
    scale = _Scale(min(xs), max(xs), _LEFT, _WIDTH - _RIGHT, log)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" '
        f'width="{_WIDTH}" height="{height}" style="{_STYLE}">',
        f'<rect width="{_WIDTH}" height="{height}" fill="#fff"/>',
        _text(_LEFT, 24, title, 17),
        _text(_LEFT, 43, subtitle, 12, _GREY),
    ]
    for number, panel in enumerate(panels):
        parts += _panel(panel, _TOP + number * (_PANEL + _GAP), scale)
    bottom = height - _BOTTOM
    for tick in scale.ticks():
        x = scale(tick)
        parts.append(_rule(x, bottom, x, bottom + 5, _INK))
        parts.append(_text(x, bottom + 19, f"{tick:g}", anchor="middle"))
    parts.append(_text((_LEFT + _WIDTH - _RIGHT) / 2, bottom + 42, axis, 13, anchor="middle"))
    return "\n".join([*parts, "</svg>"]) + "\n"


class _Scale:
    def __init__(self, low: float, high: float, start: float, end: float, log: bool) -> None:
        if high <= low:
            high = low + 1
        self._log = log and low > 0
        self._low, self._high = low, high
        self._start, self._end = start, end

    def __call__(self, value: float) -> float:
        if self._log:
            share = math.log(value / self._low) / math.log(self._high / self._low)
        else:
            share = (value - self._low) / (self._high - self._low)
        return self._start + share * (self._end - self._start)

    def ticks(self) -> list[float]:
        if self._log:
            powers = range(math.floor(math.log10(self._low)), math.ceil(math.log10(self._high)) + 1)
            found = [m * 10.0**p for p in powers for m in (1, 2, 5)]
        else:
            found = _round_steps(self._low, self._high, 8)
        return [t for t in found if self._low <= t <= self._high * (1 + 1e-12)]


def _round_steps(low: float, high: float, most: int) -> list[float]:
    rough = (high - low) / most
    power = 10 ** math.floor(math.log10(rough))
    step = next(power * m for m in (1, 2, 5, 10) if power * m >= rough * (1 - 1e-9))
    first = math.ceil(low / step - 1e-9)
    return [n * step for n in range(first, math.floor(high / step + 1e-9) + 1)]


def _panel(panel: Panel, top: float, x: _Scale) -> list[str]:
    bottom = top + _PANEL
    highest = max((v for curve in panel.curves for v in curve.y if math.isfinite(v)), default=0.0)
    high = (panel.top if panel.top is not None else highest * 1.05) or 1.0
    y = _Scale(0.0, high, bottom, top, log=False)
    parts = [_text(_LEFT, top - 8, panel.title, 12)]
    shown = range(len(panel.levels)) if panel.levels else _round_steps(0.0, high, 5)
    for tick in shown:
        parts.append(_rule(_LEFT, y(tick), _WIDTH - _RIGHT, y(tick), _INK if tick == 0 else _GRID))
        label = panel.levels[int(tick)] if panel.levels else f"{tick:g}"
        parts.append(_text(_LEFT - 8, y(tick) + 4, label, anchor="end"))
    at = float(_WIDTH - _RIGHT)
    for number, curve in reversed(list(enumerate(panel.curves))):
        colour = _COLOURS[number % len(_COLOURS)]
        points = [
            f"{x(a):.1f},{y(min(b, high)):.1f}"
            for a, b in zip(curve.x, curve.y, strict=True)
            if math.isfinite(b)
        ]
        dash = ' stroke-dasharray="5 4"' if curve.dashed else ""
        parts.append(
            f'<polyline points="{" ".join(points)}" fill="none" stroke="{colour}" '
            f'stroke-width="1.4"{dash}/>'
        )
        if curve.dots:
            parts += [
                f'<circle cx="{p.split(",")[0]}" cy="{p.split(",")[1]}" r="2.6" fill="{colour}"/>'
                for p in points
            ]
        parts.append(_text(at, top - 8, curve.label, 11, colour, "end"))
        at -= 6.2 * len(curve.label) + 14
    return parts


def _text(
    x: float, y: float, text: str, size: int = 12, colour: str = _INK, anchor: str = "start"
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{colour}" '
        f'text-anchor="{anchor}">{escape(text)}</text>'
    )


def _rule(x1: float, y1: float, x2: float, y2: float, colour: str) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}"/>'
