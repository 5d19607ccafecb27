"""The comparison as a table that needs no manual."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from sglb.cli import words
from sglb.fabric.live.scaled import patient, scaled
from sglb.fabric.report import LossWindow, PolicyReport, RunReport, SplitReport
from sglb.fabric.scenario import Scenario

#: Columns of what goes to a file or a pipe, where nothing is to be broken at 80.
FILE_WIDTH = 140

_MAX_ROLES = 20


@dataclass(frozen=True, slots=True)
class _Column:
    """A column: heading, what to show, by what to find the best (smallest), and a footnote."""

    heading: str
    show: Callable[[PolicyReport], str]
    rank: Callable[[PolicyReport], float | None]
    note: str


def _time(value_us: float) -> str:
    return f"{value_us:,.1f}"


def _completion(found: PolicyReport) -> str:
    if found.completion_us is None:
        left = found.flows.all - found.flows.completed
        return f"{left:,} flow{'s' if left > 1 else ''} open"
    return _time(found.completion_us)


def _recovery(found: PolicyReport) -> str:
    if found.recovery is None:
        return "-"
    # A policy that happened to use nothing of what was cut had nothing to recover from.
    return _time(found.recovery.total_us) if found.recovery.total_us else "not hit"


def _recovery_rank(found: PolicyReport) -> float | None:
    return (found.recovery.total_us or None) if found.recovery is not None else None


def _part(found: PolicyReport, part: Callable[[SplitReport], float], unseen: str = "-") -> str:
    split = found.recovery
    if split is None or not split.total_us:
        return "-"
    return unseen if split.detected_by == "nobody" else _time(part(split))


def _side(split: SplitReport) -> str:
    return _time(split.total_us) if split.total_us else "-"


def _columns(report: RunReport) -> list[_Column]:
    found = [
        _Column(
            "completion\nus",
            _completion,
            lambda p: p.completion_us,
            "from the first byte's start until every receiver has every byte",
        ),
        _Column(
            "times\nbound",
            lambda p: "-" if p.ratio is None else f"{p.ratio:,.{3 if p.ratio < 100 else 1}f}",
            lambda p: p.ratio,
            f"completion over the lower bound of {_time(report.lower_bound_us)} us that no "
            f"balancing can beat (here: {report.lower_bounds[0].what})",
        ),
        _Column(
            "packets\nlost",
            lambda p: f"{p.lost_packets:,}",
            lambda p: p.lost_packets,
            "data packets sent that never arrived; the hosts send them again",
        ),
    ]
    if any(p.recoveries for p in report.policies.values()):
        found += [
            _Column(
                "recovery\nus",
                _recovery,
                _recovery_rank,
                "from the cut to the last packet lost by it or sent into the dead path (the longest, "
                "if there are several cuts); a run that ends before its path is given up shows its "
                "last loss",
            ),
            _Column(
                "=\ndetect",
                lambda p: _part(p, lambda split: split.detection_us, "nobody"),
                lambda _: None,
                "until a switch, or routing, saw that something was cut",
            ),
            _Column(
                "+\nnotify",
                lambda p: _part(p, lambda split: split.notification_us),
                lambda _: None,
                "until the last switch that still sent there was told by another one",
            ),
            _Column(
                "+\nreact",
                lambda p: _part(p, lambda split: split.reaction_us),
                lambda _: None,
                "until it stopped, and the last packet under way was lost",
            ),
        ]
    if any(p.pauses.pause_frames for p in report.policies.values()):
        found.append(
            _Column(
                "pause\nframes",
                lambda p: f"{p.pauses.pause_frames:,}",
                lambda p: p.pauses.pause_frames,
                "priority flow control: frames that told a neighbour to stop, or to go on",
            )
        )
    if any(p.pauses.cnps for p in report.policies.values()):
        found.append(
            _Column(
                "CNPs",
                lambda p: f"{p.pauses.cnps:,}",
                lambda p: p.pauses.cnps,
                "congestion notification packets: receivers told senders to slow down (DCQCN)",
            )
        )
    found.append(
        _Column(
            "max\nqueue",
            lambda p: "n/a" if p.max_queue_bytes is None else words.size(p.max_queue_bytes),
            lambda p: p.max_queue_bytes,
            "the deepest that any switch port's queue ever was",
        )
    )
    return found


def show(scenario: Scenario, report: RunReport, console: Console) -> None:
    """Print title, table, footnotes and assumptions."""
    found = next((p.live for p in report.policies.values() if p.live is not None), None)
    if found is not None:
        given = patient(scenario) if found.target == "bmv2" else scenario
        scenario = scaled(given, found.rate_scale)
    console.print(Text(report.name, style="bold"), Text(f"(seed {report.seed})"))
    for name, text in (
        ("fabric", words.fabric(scenario.topology)),
        ("workload", words.workload(scenario)),
        ("faults", words.faults(scenario)),
    ):
        console.print(f"{name:9} {escape(text)}", highlight=False)
    columns = _columns(report)
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    table.add_column("\npolicy")
    for number, column in enumerate(columns, 1):
        table.add_column(f"{column.heading} [dim]{number}[/]", justify="right", no_wrap=True)
    best = [_best(column, report) for column in columns]
    for row in report.policies.values():
        cells = [row.policy]
        for column, smallest in zip(columns, best, strict=True):
            text = column.show(row)
            is_best = text == smallest
            pad = "" if smallest is None else " "
            cells.append(f"[bold green]{text}*[/]" if is_best else text + pad)
        table.add_row(*cells)
    console.print()
    console.print(table)
    console.print()
    for number, column in enumerate(columns, 1):
        console.print(f"[dim]{number}[/] {escape(column.note)}", highlight=False)
    if any(smallest is not None for smallest in best):
        console.print("* best of the column", highlight=False)
    console.print()
    if found is None:
        console.print("All times are virtual; what they assume:", highlight=False)
        facts = words.assumptions(scenario)
    else:
        console.print("All times are real; what they stand on:", highlight=False)
        facts = words.live_assumptions(scenario, found.target)
    for fact in facts:
        console.print(f"- {escape(fact)}", highlight=False)
    _show_roles(report, console)
    _show_losses(report, console)


def _show_losses(report: RunReport, console: Console) -> None:
    """What each fault of a live run cost, and how exactly that is known."""
    lines = [
        f"  {p.policy}, {window.fault}: {_losses(window)}"
        for p in report.policies.values()
        if p.live is not None
        for window in p.live.windows
    ]
    if lines:
        console.print()
        console.print("Lost because of a fault:", highlight=False)
        for line in lines[:_MAX_ROLES]:
            console.print(escape(line), highlight=False)


def _losses(window: LossWindow) -> str:
    step = "none" if window.step_us is None else f"one every {_time(window.step_us)} us"
    passed = f"packets that it could touch: {step}"
    if window.first_us is None or window.last_us is None:
        return f"nothing ({passed})"
    return (
        f"{window.data_lost:,} data packets and {window.probes_lost:,} probes, sent from "
        f"{_time(window.first_us)} to {_time(window.last_us)} us after the cut ({passed})"
    )


def _best(column: _Column, report: RunReport) -> str | None:
    """The smallest value of a column as it is shown, None when all look alike."""
    ranked = [
        (rank, column.show(p))
        for p in report.policies.values()
        if (rank := column.rank(p)) is not None
    ]
    return min(ranked)[1] if len({text for _, text in ranked}) > 1 else None


def _show_roles(report: RunReport, console: Console) -> None:
    """Recovery seen from switches at the cut and from others, where there was a cut."""
    lines = [
        f"  {p.policy}, {r.fault}: {_side(r.local)} at the cut, {_side(r.remote)} elsewhere"
        for p in report.policies.values()
        for r in p.recoveries
    ]
    if not lines:
        return
    if len(lines) > _MAX_ROLES:
        lines[_MAX_ROLES:] = [f"  and {len(lines) - _MAX_ROLES} more: see --json"]
    console.print()
    console.print("Recovery (us) of switches at the cut, and of others:", highlight=False)
    for line in lines:
        console.print(escape(line), highlight=False)
