"""A sweep as an SVG drawing: a line with its bands for one key, coloured cells for two."""

from __future__ import annotations

import math
from html import escape

from sglb.collective.savings import words
from sglb.collective.savings.show import at_text
from sglb.collective.savings.sweep import Axis, Sweep

_WIDTH, _HEIGHT = 860, 520
_LEFT, _RIGHT, _TOP, _BOTTOM = 84, 24, 74, 70
_INK, _GREY, _GRID = "#222", "#666", "#ddd"
_LINE, _GAIN, _LOSS = "#1a5fa8", (26, 95, 168), (196, 78, 32)
_STYLE = "font-family:Helvetica,Arial,sans-serif"


def draw(found: Sweep) -> str:
    """An SVG document."""
    body = _line_chart(found) if len(found.axes) == 1 else _cells(found)
    settings = found.points[0].found.settings
    subtitle = (
        f"{found.told('gpus', '{:,}'.format)} GPUs, {found.told('days', words.number)} days, "
        f"{settings.runs:,} runs a point, seed {settings.seed}; other settings as printed by the command"
    )
    head = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        f'width="{_WIDTH}" height="{_HEIGHT}" style="{_STYLE}">',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#fff"/>',
        _text(_LEFT, 26, "GPU-hours that network failover saves, in % of all", size=17),
        _text(_LEFT, 46, subtitle, size=12, colour=_GREY),
    ]
    return "\n".join([*head, *body, "</svg>"]) + "\n"


class _Scale:
    """Values of one axis to pixels."""

    def __init__(self, low: float, high: float, start: float, end: float, log: bool) -> None:
        self._log = log
        self._low, self._high = (math.log(low), math.log(high)) if log else (low, high)
        self._start, self._end = start, end

    def __call__(self, value: float) -> float:
        at = math.log(value) if self._log else value
        share = (at - self._low) / (self._high - self._low)
        return self._start + share * (self._end - self._start)


def _line_chart(found: Sweep) -> list[str]:
    (axis,) = found.axes
    saved = [
        (p.found.saved_gpu_hours, p.found.saved_formula_gpu_hours, p.found.settings.gpu_hours)
        for p in found.points
    ]
    lows = [100 * s.low / total for s, _, total in saved]
    highs = [100 * s.high / total for s, _, total in saved]
    means = [100 * s.mean / total for s, _, total in saved]
    widths = [100 * s.half_width / total for s, _, total in saved]
    formula = [100 * value / total for _, value, total in saved]
    ticks = _ticks(min(0.0, *lows, *formula), max(0.0, *highs, *formula))
    y = _Scale(ticks[0], ticks[-1], _HEIGHT - _BOTTOM, _TOP, log=False)
    xs, parts = _x_axis(axis)
    parts += _y_axis(ticks, y)
    if axis.numeric:
        parts += [
            _band(xs, [y(v) for v in lows], [y(v) for v in highs], 0.13),
            _band(
                xs,
                [y(m - w) for m, w in zip(means, widths, strict=True)],
                [y(m + w) for m, w in zip(means, widths, strict=True)],
                0.45,
            ),
            _path(xs, [y(v) for v in formula], _INK, dashes="5 4"),
            _path(xs, [y(v) for v in means], _LINE),
        ]
    for at, mean, low, high, closed in zip(xs, means, lows, highs, formula, strict=True):
        if not axis.numeric:
            parts.append(_rule(at, y(low), at, y(high), _LINE, width=9, opacity=0.2))
            parts.append(_rule(at - 9, y(closed), at + 9, y(closed), _INK, width=1.5))
        parts.append(f'<circle cx="{at:.1f}" cy="{y(mean):.1f}" r="3" fill="{_LINE}"/>')
    parts += _crossings(found, y)
    return parts + _legend(axis.numeric)


def _crossings(found: Sweep, y: _Scale) -> list[str]:
    (axis,) = found.axes
    parts = []
    for value, pays_above in found.crossings():
        at = _x_scale(axis)(value)
        parts.append(f'<circle cx="{at:.1f}" cy="{y(0):.1f}" r="5" fill="none" stroke="{_INK}"/>')
        text = f"pays {'from' if pays_above else 'up to'} {words.number(value)}"
        anchor = "start" if at < _WIDTH / 2 else "end"
        parts.append(_text(at + (8 if anchor == "start" else -8), y(0) + 18, text, anchor=anchor))
    return parts


def _legend(numeric: bool) -> list[str]:
    x, y = _LEFT, _TOP - 12
    closed = "closed form (dashed)" if numeric else "closed form (bar)"
    text = f"dots: mean of the runs; pale: 90 % of runs; {closed}"
    if numeric:
        text += "; darker: 95 % confidence of the mean"
    return [_text(x, y, text, size=11, colour=_GREY)]


def _x_scale(axis: Axis) -> _Scale:
    values = [float(v) for v in axis.values if isinstance(v, int | float)]
    return _Scale(min(values), max(values), _LEFT + 12, _WIDTH - _RIGHT - 12, axis.log)


def _x_axis(axis: Axis) -> tuple[list[float], list[str]]:
    """Where each value lies, and the axis drawn; words stand evenly apart."""
    bottom = _HEIGHT - _BOTTOM
    if axis.numeric and len(set(axis.values)) > 1:
        scale = _x_scale(axis)
        xs = [scale(float(v)) for v in axis.values]
    else:
        step = (_WIDTH - _LEFT - _RIGHT) / len(axis.values)
        xs = [_LEFT + (i + 0.5) * step for i in range(len(axis.values))]
    parts = [_rule(_LEFT, bottom, _WIDTH - _RIGHT, bottom, _INK)]
    parts += _labels(axis, xs, bottom)
    parts.append(_text((_LEFT + _WIDTH - _RIGHT) / 2, bottom + 46, axis.key, 13, anchor="middle"))
    return xs, parts


def _labels(axis: Axis, xs: list[float], bottom: float) -> list[str]:
    """Values below an axis; one that would run into the one before is left out."""
    parts, last = [], -math.inf
    for at, value in zip(xs, axis.values, strict=True):
        label = at_text((value,))
        # About 7 px a character, and some air.
        half = 3.5 * len(label) + 4
        if at - half > last:
            parts.append(_rule(at, bottom, at, bottom + 5, _INK))
            parts.append(_text(at, bottom + 20, label, anchor="middle"))
            last = at + half
    return parts


def _y_axis(ticks: list[float], y: _Scale) -> list[str]:
    parts = []
    for tick in ticks:
        colour = _INK if tick == 0 else _GRID
        parts.append(_rule(_LEFT, y(tick), _WIDTH - _RIGHT, y(tick), colour))
        parts.append(_text(_LEFT - 8, y(tick) + 4, f"{tick:g} %", anchor="end"))
    return parts


def _ticks(low: float, high: float) -> list[float]:
    """Round numbers from below `low` to above `high`, at most nine."""
    span = (high - low) or 1.0
    rough = span / 7
    power = 10 ** math.floor(math.log10(rough))
    step = next(power * m for m in (1, 2, 5, 10) if power * m >= rough)
    first, last = math.floor(low / step), math.ceil((low + span) / step)
    return [round(number * step, 12) for number in range(first, last + 1)]


def _cells(found: Sweep) -> list[str]:
    rows, columns = found.axes
    shares = [100 * p.found.saved_gpu_hours.mean / p.found.settings.gpu_hours for p in found.points]
    largest = max(abs(v) for v in shares) or 1.0
    left, bottom = _LEFT + 40, _HEIGHT - _BOTTOM
    wide = (_WIDTH - left - _RIGHT) / len(columns.values)
    high = (bottom - _TOP) / len(rows.values)
    parts = []
    for number, share in enumerate(shares):
        row, column = divmod(number, len(columns.values))
        x, y = left + column * wide, bottom - (row + 1) * high
        fill = _shade(share / largest)
        parts.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{wide:.1f}" height="{high:.1f}" '
            f'fill="{fill}" stroke="#fff"/>'
        )
        if wide > 34 and high > 14:
            ink = "#fff" if abs(share) > 0.55 * largest else _INK
            at = y + high / 2 + 4
            parts.append(_text(x + wide / 2, at, f"{share:.2f}", 11, ink, "middle"))
    xs = [left + (column + 0.5) * wide for column in range(len(columns.values))]
    parts += _labels(columns, xs, bottom)
    apart = max(1, math.ceil(13 / high))
    for row, value in list(enumerate(rows.values))[::apart]:
        at = bottom - (row + 0.5) * high
        parts.append(_text(left - 8, at + 4, at_text((value,)), 11, anchor="end"))
    middle = (_TOP + bottom) / 2
    return [
        *parts,
        _text(
            _LEFT, _TOP - 10, "blue: failover saves; red: it costs more than it saves", 11, _GREY
        ),
        _text((left + _WIDTH - _RIGHT) / 2, bottom + 46, columns.key, 13, anchor="middle"),
        f'<g transform="translate(22 {middle:.1f}) rotate(-90)">'
        + _text(0, 0, rows.key, 13, anchor="middle")
        + "</g>",
    ]


def _shade(share: float) -> str:
    """White at 0, full colour at 1 (gain) and -1 (loss)."""
    full = _GAIN if share > 0 else _LOSS
    mixed = (round(255 + (c - 255) * abs(share)) for c in full)
    return "#" + "".join(f"{c:02x}" for c in mixed)


def _text(
    x: float, y: float, text: str, size: int = 12, colour: str = _INK, anchor: str = "start"
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{colour}" '
        f'text-anchor="{anchor}">{escape(text)}</text>'
    )


def _rule(
    x1: float, y1: float, x2: float, y2: float, colour: str, width: float = 1, opacity: float = 1
) -> str:
    return (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" '
        f'stroke-width="{width:g}" opacity="{opacity:g}"/>'
    )


def _path(xs: list[float], ys: list[float], colour: str, dashes: str = "") -> str:
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in zip(xs, ys, strict=True))
    dash = f' stroke-dasharray="{dashes}"' if dashes else ""
    return f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.6"{dash}/>'


def _band(xs: list[float], lows: list[float], highs: list[float], opacity: float) -> str:
    edge = [*zip(xs, lows, strict=True), *zip(reversed(xs), reversed(highs), strict=True)]
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in edge)
    return f'<polygon points="{points}" fill="{_LINE}" opacity="{opacity:g}"/>'
