"""Both runs of `sglb tune --on live` as plain data, table rows, and one HTML page."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any, Final

from sglb.watermark.live.session import LiveRun, LiveTuned
from sglb.watermark.objective import Weights
from sglb.watermark.tuner import page_parts as parts
from sglb.watermark.tuner.page import SETTINGS, ports_table, price_of, value
from sglb.watermark.tuner.store import parameters_of, steps_of

#: Two runs on one machine differ by less whatever is set.
_WORSE: Final = 1.01


def _completion(run: LiveRun) -> str:
    us = run.report.completion_us
    if us is not None:
        return f"{us / 1e6:,.2f} s"
    done, of = run.report.flows.completed, run.report.flows.all
    return f"{done} of {of} flows" if run.report.interrupted else "not complete"


def _mean(name: str) -> Callable[[LiveRun], str]:
    def text(run: LiveRun) -> str:
        if name == "unpaused" and run.report.live and run.report.live.target == "bmv2":
            return "-"
        seen = [getattr(one, name) for one in run.seen if not one.idle]
        return f"{sum(seen) / len(seen):.3f}" if seen else "-"

    return text


def _telemetry(run: LiveRun) -> str:
    seconds = sum(one.duration_us for one in run.seen) / 1e6
    return f"{run.tuner['telemetry_bytes'] / max(seconds, 1e-9):,.0f} bytes/s"


def _queue(run: LiveRun) -> str:
    deepest = run.report.max_queue_bytes
    return "-" if deepest is None else f"{deepest:,} bytes"


def _p99(run: LiveRun) -> str:
    fct = run.report.flows.fct_us
    return f"{fct.p99 / 1e6:,.2f} s" if fct.count else "-"


def _lost(run: LiveRun) -> str:
    count = f"{run.report.lost_packets:,}"
    return f"{count}, or on the way" if run.report.interrupted else count


#: Lines of a before/after table: what, and how it is written.
ROWS: tuple[tuple[str, Callable[[LiveRun], str]], ...] = (
    ("score", lambda run: f"{run.score:.4f}"),
    ("completion", _completion),
    ("flow completion, 99 %", _p99),
    ("throughput", _mean("throughput")),
    ("base / (base + queueing)", _mean("delay")),
    ("share of time without pauses", _mean("unpaused")),
    ("deepest queue", _queue),
    ("data packets lost", _lost),
    ("telemetry", _telemetry),
)


def rows(found: LiveTuned) -> list[tuple[str, str, str]]:
    """What, before, after; `-` for a run that there is not."""

    def text(write: Callable[[LiveRun], str], run: LiveRun | None) -> str:
        return "-" if run is None else write(run)

    return [(label, text(write, found.fixed), text(write, found.tuned)) for label, write in ROWS]


def settings(found: LiveTuned) -> list[tuple[str, str, str]]:
    """Each watermark, at first and at last."""
    return [(name, value(found.start, name), value(found.last, name)) for name in SETTINGS]


def heads(found: LiveTuned) -> tuple[str, ...]:
    """Of the before/after table; says which run was cut off."""
    return ("", *(f"{name}{', partial' if _partial(run) else ''}" for name, run in _runs(found)))


def _runs(found: LiveTuned) -> list[tuple[str, LiveRun | None]]:
    return [("as it is", found.fixed), ("tuned", found.tuned)]


def _partial(run: LiveRun | None) -> bool:
    return run is not None and run.report.interrupted


def summary(found: LiveTuned) -> str:
    """How much was tried."""
    steps = () if found.tuned is None else found.tuned.steps
    tried = len({step.place for step in steps})
    said: Mapping[str, Any] = {} if found.tuned is None else found.tuned.tuner
    again = said.get("overwritten", 0)
    more = f" A controller that took over had set it back (seen: {again})." if again else ""
    return (
        f"{len(steps)} intervals, {tried} settings tried of {len(found.space):,}, "
        f"{said.get('searches', 0)} searches. The score is the mean over intervals, 0 to 1.{more}"
    )


def price(found: LiveTuned, weights: Weights) -> list[str]:
    """What got worse though the score is higher, and what weight would count it; a line, or none."""
    before, after = found.fixed, found.tuned
    if before is None or after is None or found.interrupted or after.score <= before.score:
        return []
    was, now = before.report, after.report
    worse = []
    if was.completion_us is not None and (
        now.completion_us is None or now.completion_us > was.completion_us * _WORSE
    ):
        worse.append(f"completion is {_completion(after)}, not {_completion(before)}")
    if now.flows.fct_us.p99 > was.flows.fct_us.p99 * _WORSE:
        worse.append(
            f"flow completion, 99 %, is {now.flows.fct_us.p99 / 1e6:,.2f} s, not "
            f"{was.flows.fct_us.p99 / 1e6:,.2f} s"
        )
    return price_of(worse, before.seen, after.seen, weights)


def document(found: LiveTuned) -> dict[str, Any]:
    """Everything, as plain data; `partial` where it was interrupted."""
    steps = () if found.tuned is None else found.tuned.steps
    return {
        "partial": found.interrupted,
        "rate_scale": found.scale,
        "start": asdict(found.start),
        "last": asdict(found.last),
        "parameters": parameters_of(found.space),
        "fixed": _run(found.fixed),
        "tuned": _run(found.tuned),
        "steps": steps_of(found.space, steps),
        "ports": [] if found.tuned is None else found.tuned.tuner["ports"],
    }


def _run(run: LiveRun | None) -> dict[str, Any] | None:
    if run is None:
        return None
    return {
        "partial": run.report.interrupted,
        "score": run.score,
        "report": asdict(run.report),
        "tuner": dict(run.tuner),
    }


def page(title: str, found: LiveTuned, weights: Weights, interval_s: float) -> str:
    """The page: before and after, the course, the path of the search, what each port has."""
    seen = [(label, run.seen) for label, run in _runs(found) if run is not None]
    steps = () if found.tuned is None else found.tuned.steps
    last = found.tuned or found.fixed
    body = [
        *([parts.note("Interrupted: what is here is partial.")] if found.interrupted else []),
        parts.heading("Before and after"),
        parts.table(heads(found), rows(found)),
        *(parts.note(line) for line in price(found, weights)),
        parts.table(("setting", "at first", "at last"), settings(found)),
        parts.note(summary(found)),
        parts.course("Before and after", seen, weights, interval_s, "s"),
        parts.heading("The path of the search"),
        parts.path(found.space, steps),
        *parts.folded(f"All {len(steps)} intervals", parts.all_steps(found.space, steps)),
        parts.heading("What each port has at the end"),
        ports_table(() if last is None else last.ports),
    ]
    return parts.document(title, weights, f"{interval_s:g} s", body)
