"""What pages of tuned runs are made of, simulated, live and SONiC's: tables, and drawings as SVG."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape

from sglb.watermark.objective import Weights
from sglb.watermark.plot import Curve, Panel, draw
from sglb.watermark.space import SearchSpace
from sglb.watermark.tuner.annealing import Step
from sglb.watermark.tuner.observation import Observation

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


def document(title: str, weights: Weights, interval: str, body: Sequence[str]) -> str:
    """A page; `interval` says how long one is."""
    return (
        "\n".join(
            [
                "<!doctype html>",
                f'<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>',
                f"<style>{_STYLE}</style></head><body>",
                f"<h1>{escape(title)}</h1>",
                note(
                    f"Score: {weights.throughput:g} x throughput + {weights.delay:g} x round trip "
                    f"without queues over that with them + {weights.pauses:g} x time not paused, over "
                    "the weights' sum; 0 for an interval that lost lossless traffic. One interval is "
                    f"{interval}."
                ),
                *body,
                "</body></html>",
            ]
        )
        + "\n"
    )


def note(text: str) -> str:
    """A paragraph in grey."""
    return f'<p class="note">{escape(text)}</p>'


def heading(text: str) -> str:
    """Of a part of the page."""
    return f"<h2>{escape(text)}</h2>"


def folded(summary: str, content: str) -> list[str]:
    """What is shown when it is asked for."""
    return [f"<details><summary>{escape(summary)}</summary>", content, "</details>"]


def table(
    heads: Sequence[str],
    rows: Sequence[Sequence[str]],
    faint: Sequence[bool] = (),
    kind: str = "",
) -> str:
    """Rows of texts; those that are `faint` in grey. `kind` is a class of the style."""
    lines = [
        f'<table class="{kind}"><tr>',
        *(f"<th>{escape(head)}</th>" for head in heads),
        "</tr>",
    ]
    for n, row in enumerate(rows):
        grey = ' class="no"' if faint and faint[n] else ""
        lines.append(f"<tr{grey}>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>")
    return "".join([*lines, "</table>"])


def course(
    title: str,
    runs: Sequence[tuple[str, Sequence[Observation]]],
    weights: Weights,
    interval: float,
    unit: str,
) -> str:
    """The score and its parts over time, of runs by label; one interval is so many of `unit`."""

    def curves(part: Callable[[Observation], float]) -> list[Curve]:
        made = []
        for label, seen in runs:
            busy = [(n, one) for n, one in enumerate(seen, 1) if not one.idle]
            x = [n * interval for n, _ in busy] or [0.0]
            made.append(Curve(label, x, [part(one) for _, one in busy] or [0.0]))
        return made

    panels = [
        Panel("score", curves(lambda one: one.score(weights)), 1.0),
        Panel("throughput of busy ports to hosts", curves(lambda one: one.throughput), 1.0),
        Panel("round trip without queues / with them", curves(lambda one: one.delay), 1.0),
        Panel("time not paused", curves(lambda one: one.unpaused), 1.0),
    ]
    return draw(title, "each interval in which something moved", f"time, {unit}", panels)


def path(space: SearchSpace, steps: Sequence[Step]) -> str:
    """Where in its range each watermark was, over intervals."""
    x = [float(step.number) for step in steps] or [0.0]
    panels = [Panel("score", [Curve("tuned", x, [s.score for s in steps] or [0.0], dots=True)], 1)]
    for at, parameter in enumerate(space.parameters):
        if len({step.place[at] for step in steps}) > 1:
            levels = [float(step.place[at]) for step in steps]
            spelt = ",.0f" if parameter.unit == "bytes" else ".3g"
            names = [f"{level:{spelt}}" for level in parameter.levels]
            label = f"{parameter.name}, {parameter.unit}"
            panels.append(Panel(label, [Curve("", x, levels, dots=True)], len(names) - 1.0, names))
    return draw("The path of the search", "a dot an interval", "interval", panels)


def all_steps(space: SearchSpace, steps: Sequence[Step]) -> str:
    """A table of every interval; those in grey were not kept."""
    names = [parameter.name for parameter in space.parameters]

    def cells(step: Step) -> tuple[str, ...]:
        values = space.values(step.place)
        return (
            str(step.number),
            step.phase,
            f"{step.score:.4f}",
            f"{step.temperature:.4f}",
            *(f"{values[name]:,.6g}" for name in names),
        )

    heads = ("interval", "for", "score", "T", *names)
    return table(heads, [cells(s) for s in steps], [not step.accepted for step in steps])
