"""Runs of `sglb tune` as one HTML page that needs nothing else: tables, and drawings as SVG."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape

from sglb.watermark.objective import Weights
from sglb.watermark.plot import Curve, Panel, draw
from sglb.watermark.settings import Watermarks
from sglb.watermark.tuner.annealing import Step
from sglb.watermark.tuner.fabric import PortSetting
from sglb.watermark.tuner.observation import Observation
from sglb.watermark.tuner.session import Outcome, Tuned

_STYLE = """
body { font: 15px/1.45 Helvetica, Arial, sans-serif; color: #222; max-width: 900px; margin: 2em auto;
  padding: 0 1em; }
h1 { font-size: 1.5em; } h2 { font-size: 1.15em; margin-top: 2em; }
table { border-collapse: collapse; margin: .6em 0; font-variant-numeric: tabular-nums; }
td, th { padding: .15em .9em .15em 0; text-align: right; font-weight: normal; }
th { color: #666; border-bottom: 1px solid #bbb; } td:first-child, th:first-child { text-align: left; }
tr.no td { color: #999; } svg { max-width: 100%; height: auto; }
table.ports td:nth-child(2), table.ports th:nth-child(2) { text-align: left; }
summary { cursor: pointer; } .note { color: #666; }
"""
_MS = 1e9

#: Lines of a before/after table: what, and how it is written.
ROWS: tuple[tuple[str, Callable[[Outcome], str]], ...] = (
    ("score", lambda run: f"{run.score:.4f}"),
    (
        "completion",
        lambda run: "not complete" if run.completion_us is None else f"{run.completion_us:,.0f} us",
    ),
    ("flow completion, median", lambda run: f"{run.flows.fct_ps.p50 / _MS:,.3f} ms"),
    ("flow completion, 99 %", lambda run: f"{run.flows.fct_ps.p99 / _MS:,.3f} ms"),
    ("pause frames", lambda run: f"{run.pauses.pause_frames:,}"),
    ("ports were paused for", lambda run: f"{run.pauses.paused_us:,.0f} us"),
    ("data packets lost", lambda run: f"{run.losses.data:,}"),
)
SETTINGS = ("kmin_bytes", "kmax_bytes", "pmax", "alpha", "xon_offset_bytes")
PORT_HEADS = ("switch", "towards", *SETTINGS, "headroom_bytes")


def value(setting: Watermarks | PortSetting, name: str) -> str:
    """A watermark as it is written in tables."""
    number = getattr(setting, name)
    if isinstance(number, str):
        return number
    return f"{number:,.0f}" if name.endswith("_bytes") else f"{number:.4g}"


def port_groups(ports: Sequence[PortSetting]) -> list[tuple[str, PortSetting]]:
    """Ports of a switch with the same setting together: the neighbours they lead to, and the setting."""
    found: dict[tuple[object, ...], list[PortSetting]] = {}
    for port in ports:
        key = (port.switch, *(getattr(port, name) for name in PORT_HEADS[2:]))
        found.setdefault(key, []).append(port)
    return [(", ".join(p.towards for p in alike), alike[0]) for alike in found.values()]


def moved_first(found: Tuned) -> str:
    """Says that the tuner began elsewhere than the scenario stands; empty where it did not."""
    if not found.steps:
        return ""
    began = found.space.watermarks(found.steps[0].place)
    names = ("kmin_bytes", "kmax_bytes", "pmax", "alpha")
    other = [name for name in names if value(began, name) != value(found.start, name)]
    if not other:
        return ""
    return (
        f"The setting at first breaks a rule of the space: {', '.join(other)} moved to the nearest "
        "that does not before the first packet."
    )


def page(
    title: str, runs: Sequence[tuple[int, Tuned]], weights: Weights, interval_us: float
) -> str:
    """The page of runs by seed, one after another."""
    parts = [
        "<!doctype html>",
        f'<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>',
        f"<style>{_STYLE}</style></head><body>",
        f"<h1>{escape(title)}</h1>",
        '<p class="note">Score: '
        f"{weights.throughput:g} x throughput + {weights.delay:g} x round trip without queues over that "
        f"with them + {weights.pauses:g} x time not paused, over the weights' sum; 0 for an interval "
        f"that lost lossless traffic. One interval is {interval_us:g} us.</p>",
    ]
    for seed, found in runs:
        parts += _one(seed, found, weights, interval_us)
    return "\n".join([*parts, "</body></html>"]) + "\n"


def _one(seed: int, found: Tuned, weights: Weights, interval_us: float) -> list[str]:
    tried = len({step.place for step in found.steps})
    return [
        f"<h2>Seed {seed}: before and after</h2>",
        _table(
            ("", "as it is", "tuned"),
            [(label, text(found.fixed), text(found.tuned)) for label, text in ROWS],
        ),
        _table(
            ("setting", "at first", "at last"),
            [(name, value(found.start, name), value(found.last, name)) for name in SETTINGS],
        ),
        f'<p class="note">{len(found.steps)} intervals, {tried} settings tried of '
        f"{len(found.space):,}; {found.searches} searches, {found.recalled} times traffic was known "
        "again.</p>",
        f'<p class="note">{escape(moved_first(found))}</p>',
        _course(found, weights, interval_us),
        f"<h2>Seed {seed}: the path of the search</h2>",
        _path(found),
        f"<details><summary>All {len(found.steps)} intervals</summary>",
        _steps(found),
        "</details>",
        f"<h2>Seed {seed}: what each port has at the end</h2>",
        _table(
            PORT_HEADS,
            [
                (port.switch, towards, *(value(port, name) for name in PORT_HEADS[2:]))
                for towards, port in port_groups(found.after)
            ],
            kind="ports",
        ),
    ]


def _table(
    heads: Sequence[str],
    rows: Sequence[Sequence[str]],
    faint: Sequence[bool] = (),
    kind: str = "",
) -> str:
    lines = [
        f'<table class="{kind}"><tr>',
        *(f"<th>{escape(head)}</th>" for head in heads),
        "</tr>",
    ]
    for n, row in enumerate(rows):
        grey = ' class="no"' if faint and faint[n] else ""
        lines.append(f"<tr{grey}>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>")
    return "".join([*lines, "</table>"])


def _course(found: Tuned, weights: Weights, interval_us: float) -> str:
    """The score and its parts over time, both runs."""

    def curves(part: Callable[[Observation], float]) -> list[Curve]:
        made = []
        for label, seen in (("as it is", found.fixed_seen), ("tuned", found.tuned_seen)):
            busy = [(n, one) for n, one in enumerate(seen, 1) if not one.idle]
            x = [n * interval_us / 1e3 for n, _ in busy] or [0.0]
            made.append(Curve(label, x, [part(one) for _, one in busy] or [0.0]))
        return made

    panels = [
        Panel("score", curves(lambda one: one.score(weights)), 1.0),
        Panel("throughput of busy ports to hosts", curves(lambda one: one.throughput), 1.0),
        Panel("round trip without queues / with them", curves(lambda one: one.delay), 1.0),
        Panel("time not paused", curves(lambda one: one.unpaused), 1.0),
    ]
    return draw("Before and after", "each interval of both runs", "time, ms", panels)


def _path(found: Tuned) -> str:
    """Where in its range each watermark was, over intervals."""
    x = [float(step.number) for step in found.steps] or [0.0]
    panels = [
        Panel("score", [Curve("tuned", x, [s.score for s in found.steps] or [0.0], dots=True)], 1)
    ]
    for at, parameter in enumerate(found.space.parameters):
        if len({step.place[at] for step in found.steps}) > 1:
            levels = [float(step.place[at]) for step in found.steps]
            spelt = ",.0f" if parameter.unit == "bytes" else ".3g"
            names = [f"{level:{spelt}}" for level in parameter.levels]
            label = f"{parameter.name}, {parameter.unit}"
            panels.append(Panel(label, [Curve("", x, levels, dots=True)], len(names) - 1.0, names))
    return draw("The path of the search", "a dot an interval", "interval", panels)


def _steps(found: Tuned) -> str:
    names = [parameter.name for parameter in found.space.parameters]

    def cells(step: Step) -> tuple[str, ...]:
        values = found.space.values(step.place)
        return (
            str(step.number),
            step.phase,
            f"{step.score:.4f}",
            f"{step.temperature:.4f}",
            *(f"{values[name]:,.6g}" for name in names),
        )

    heads = ("interval", "for", "score", "T", *names)
    return _table(
        heads, [cells(s) for s in found.steps], [not step.accepted for step in found.steps]
    )
