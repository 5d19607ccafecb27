"""Runs of `sglb tune` as one HTML page that needs nothing else: tables, and drawings as SVG."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sglb.watermark.objective import Weights
from sglb.watermark.settings import Watermarks
from sglb.watermark.tuner import page_parts as parts
from sglb.watermark.tuner.fabric import PortSetting
from sglb.watermark.tuner.observation import Observation
from sglb.watermark.tuner.session import Outcome, Tuned

_MS = 1e9
#: Of a part of the score; less is no change.
_LEAST_FALL = 0.005
#: In place of a score, and of drawings, of a run in which nothing was.
UNMEASURED = "no interval was measured"

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
    if number is None:
        return "-"
    if isinstance(number, str):
        return number
    return f"{number:,.0f}" if name.endswith("_bytes") else f"{number:.4g}"


def rows(found: Tuned) -> list[tuple[str, str, str]]:
    """The before/after table; a run in no interval of which anything moved has no score."""
    lines = [(label, text(found.fixed), text(found.tuned)) for label, text in ROWS]
    measured = (_measured(found.fixed_seen), _measured(found.tuned_seen))
    label, *scores = lines[0]
    before, after = (
        score if one else UNMEASURED for score, one in zip(scores, measured, strict=True)
    )
    return [(label, before, after), *lines[1:]]


def _measured(seen: Sequence[Observation]) -> bool:
    return not all(one.idle for one in seen)


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
    body: list[str] = []
    for seed, found in runs:
        body += _one(seed, found, weights, interval_us)
    return parts.document(title, weights, f"{interval_us:g} us", body)


def _one(seed: int, found: Tuned, weights: Weights, interval_us: float) -> list[str]:
    tried = len({step.place for step in found.steps})
    both = (("as it is", found.fixed_seen), ("tuned", found.tuned_seen))
    measured = [(label, seen) for label, seen in both if _measured(seen)]
    return [
        parts.heading(f"Seed {seed}: before and after"),
        parts.table(
            ("", "as it is", "tuned"),
            rows(found),
        ),
        *(parts.note(line) for line in price(found, weights)),
        parts.table(
            ("setting", "at first", "at last"),
            [(name, value(found.start, name), value(found.last, name)) for name in SETTINGS],
        ),
        parts.note(
            f"{len(found.steps)} intervals, {tried} settings tried of {len(found.space):,}; "
            f"{found.searches} searches, {found.recalled} times traffic was known again."
        ),
        parts.note(moved_first(found)),
        parts.course("Before and after", measured, weights, interval_us / 1e3, "ms")
        if measured
        else parts.note(f"Nothing to draw: {UNMEASURED}."),
        parts.heading(f"Seed {seed}: the path of the search"),
        parts.path(found.space, found.steps)
        if found.steps
        else parts.note(f"There is none: {UNMEASURED}."),
        *parts.folded(
            f"All {len(found.steps)} intervals", parts.all_steps(found.space, found.steps)
        ),
        parts.heading(f"Seed {seed}: what each port has at the end"),
        ports_table(found.after),
    ]


def ports_table(ports: Sequence[PortSetting]) -> str:
    """What each port has, alike ones of a switch in one row."""
    rows = [
        (port.switch, towards, *(value(port, name) for name in PORT_HEADS[2:]))
        for towards, port in port_groups(ports)
    ]
    return parts.table(PORT_HEADS, rows, kind="ports")


def price(found: Tuned, weights: Weights) -> list[str]:
    """What got worse though the score is higher, and what weight would count it; a line, or none."""
    if found.tuned.score <= found.fixed.score or not _measured(found.fixed_seen):
        return []
    worse = []
    before, after = found.fixed.completion_us, found.tuned.completion_us
    if before is not None and (after is None or after > before):
        now = "none" if after is None else f"{after:,.0f} us"
        worse.append(f"completion is {now}, not {before:,.0f} us")
    p99_before, p99_after = found.fixed.flows.fct_ps.p99, found.tuned.flows.fct_ps.p99
    if p99_after > p99_before:
        worse.append(
            f"flow completion, 99 %, is {p99_after / _MS:,.3f} ms, not {p99_before / _MS:,.3f} ms"
        )
    return price_of(worse, found.fixed_seen, found.tuned_seen, weights)


_FLAGS = (
    ("throughput", "throughput", "--throughput"),
    ("delay", "short queues", "--delay"),
    ("unpaused", "time without pauses", "--pauses"),
)


def price_of(
    worse: Sequence[str],
    before: Sequence[Observation],
    after: Sequence[Observation],
    weights: Weights,
) -> list[str]:
    """`price` of what is known to be worse: the part that fell most is what to weigh more."""
    if not worse:
        return []
    means = [[_mean(seen, name) for name, _, _ in _FLAGS] for seen in (before, after)]
    falls = [was - now for was, now in zip(*means, strict=True)]
    most = max(range(len(_FLAGS)), key=falls.__getitem__)
    text = f"The score is higher, but {' and '.join(worse)}: "
    if falls[most] < _LEAST_FALL:
        return [
            f"{text}no part of the score shows it, as it is a mean over intervals and ports; "
            "--throughput weighs most of what delays flows."
        ]
    _, what, flag = _FLAGS[most]
    weight = (weights.throughput, weights.delay, weights.pauses)[most]
    total = weights.throughput + weights.delay + weights.pauses
    return [
        f"{text}{what} fell from {means[0][most]:.2f} to {means[1][most]:.2f}, which its weight allows; "
        f"give it more ({flag} {2 * weight or total:g})."
    ]


def _mean(seen: Sequence[Observation], name: str) -> float:
    busy = [float(getattr(one, name)) for one in seen if not one.idle]
    return sum(busy) / len(busy) if busy else 0.0
