"""A tuning loop on SONiC switches as plain data, and as one HTML page that needs nothing else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from sglb.watermark.objective import Weights
from sglb.watermark.sonic.fields import Target
from sglb.watermark.sonic.loop import SonicLoop
from sglb.watermark.sonic.record import Changes, Told, written
from sglb.watermark.tuner import page_parts as parts
from sglb.watermark.tuner.observation import Observation


def document(loop: SonicLoop, ended: str) -> dict[str, Any]:
    """Everything of a loop: each interval with its score, its setting and what was written after it."""
    record = loop.record
    return {
        "switches": [str(address) for address in loop.addresses],
        "parameters": {p.name: {"unit": p.unit, "levels": p.levels} for p in loop.space.parameters},
        "left_alone": list(loop.left_alone),
        "start": _plain(record.start or {}),
        "best": _plain(loop.best),
        "in_force": _plain(loop.in_force),
        "searches": loop.annealer.searches,
        "recalled": loop.annealer.recalled,
        "kept_intervals": record.kept,
        "ended": ended,
        "verdict": verdict(loop),
        "written_first": written(record.began),
        "intervals": [_interval(loop, n, told) for n, told in enumerate(record.intervals, 1)],
    }


def _plain(fields: Mapping[Target, int]) -> dict[str, int]:
    return {str(target): value for target, value in fields.items()}


def _interval(loop: SonicLoop, number: int, told: Told) -> dict[str, Any]:
    step = None
    if told.step is not None:
        step = asdict(told.step)
        step["setting"] = _plain(loop.fields(told.step.place))
        del step["place"]
    return {
        "number": number,
        "seen": None if told.seen is None else asdict(told.seen),
        "why": told.why,
        "step": step,
        "written": written(told.changes),
    }


def verdict(loop: SonicLoop) -> str:
    """What came of a loop, before the setting that is in force."""
    counted = Counter(_kind(told) for told in loop.record.intervals)
    total = sum(counted.values())
    tried = len({step.place for step in loop.annealer.steps})
    rest = [
        text
        for text, count in (
            (f"nothing moved in {counted['idle']}", counted["idle"]),
            (f"counters began anew in {counted['anew']}", counted["anew"]),
        )
        if count
    ]
    of = f"of {total} interval{'s' if total != 1 else ''} " + " and ".join(rest) if rest else ""
    if not tried:
        why = of or "it ended before its first interval was over"
        there = "what stood there at the start is in force"
        if loop.in_force != loop.record.start:
            there = "the setting nearest to the start that the rules allow is in force"
        return f"nothing was tried: {why}; {there}"
    also = f" ({of})" if of else ""
    if tried == 1:
        return f"only the first setting was tried, and none compared{also}; it is in force"
    if loop.in_force != loop.best:
        return f"{tried} settings were tried{also}; the last, not the best, is in force"
    return f"the best of {tried} settings tried is in force{also}"


def _kind(told: Told) -> str:
    if told.seen is None:
        return "anew"
    return "idle" if told.seen.idle else "moved"


def page(title: str, loop: SonicLoop, weights: Weights, interval_s: float) -> str:
    """The page: before and after, the course, the path, every interval with what was written."""
    record = loop.record
    seen = [told.seen for told in record.intervals if told.seen is not None]
    start, now = record.start or {}, loop.in_force
    text = verdict(loop)
    body = [
        parts.note(f"{text[0].upper()}{text[1:]}."),
        parts.heading("Before and after"),
        parts.table(
            ("field", "at first", "at last"),
            [(str(target), f"{start[target]:,}", f"{now[target]:,}") for target in now],
        ),
        *_scores(loop),
        parts.note(
            f"{len(record.intervals)} intervals, {record.kept} of them from earlier runs of the same "
            f"loop; {loop.annealer.searches} searches over {len(loop.space):,} settings."
        ),
        *_drawings(loop, seen, weights, interval_s),
        *parts.folded(
            f"All {len(record.intervals)} intervals, and what was written after each",
            _written_table(record.began, record.intervals),
        ),
        parts.heading("What each switch has at the end"),
        parts.table(
            ("field", *(str(one) for one in loop.addresses)),
            [(str(target), *[f"{value:,}"] * len(loop.addresses)) for target, value in now.items()],
        ),
    ]
    return parts.document(title, weights, f"{interval_s:g} s", body)


def _drawings(
    loop: SonicLoop, seen: Sequence[Observation], weights: Weights, interval_s: float
) -> list[str]:
    """The course and the path; none of a loop in no interval of which anything moved."""
    if all(one.idle for one in seen):
        return [parts.note("Nothing to draw: no interval was measured in which something moved.")]
    return [
        parts.course("The course", (("tuned", seen),), weights, interval_s, "s"),
        parts.heading("The path of the search"),
        parts.path(loop.space, loop.annealer.steps),
    ]


def _scores(loop: SonicLoop) -> list[str]:
    """The mean score under the first setting, and under the one that is in force."""
    steps = loop.annealer.steps
    if not steps:
        return []
    first, last = steps[0].place, loop.place_in_force
    rows = []
    for label, place in (("first setting", first), ("setting in force", last)):
        scores = [step.score for step in steps if step.place == place]
        mean = f"{sum(scores) / len(scores):.4f}" if scores else "-"
        rows.append((label, mean, str(len(scores))))
    return [parts.table(("", "mean score", "intervals"), rows)]


def _written_table(began: Changes, intervals: Sequence[Told]) -> str:
    rows = [("at the start", "", "", _texts(began))] if began else []
    for number, told in enumerate(intervals, 1):
        if told.step is not None:
            what, score = str(told.step.phase), f"{told.step.score:.4f}"
        else:
            what, score = told.why or "nothing moved", ""
        rows.append((str(number), what, score, _texts(told.changes)))
    return parts.table(("interval", "for", "score", "written"), rows)


def _texts(changes: Changes) -> str:
    """Fields with their values; all switches are set alike, so of the first one."""
    some = next(iter(changes.values()), ())
    return "; ".join(f"{one.target}: {one.before} to {one.after}" for one in some)
