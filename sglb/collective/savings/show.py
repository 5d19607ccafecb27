"""An assessment and a sweep as people read them."""

from __future__ import annotations

from collections.abc import Callable

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from sglb.collective.savings import words
from sglb.collective.savings.assessment import LONGEST_RESTART_MIN, Assessment, Side
from sglb.collective.savings.settings import Settings
from sglb.collective.savings.sweep import Sweep, Value

_ROWS: tuple[tuple[str, Callable[[Side], str]], ...] = (
    ("work that was kept", lambda s: words.plus_minus(s.kept.mean, s.kept.half_width)),
    ("  the same by the closed form", lambda s: words.percent(s.kept_formula)),
    ("lost work since the last checkpoint", lambda s: words.percent(s.lost)),
    ("detection and restart", lambda s: words.percent(s.recovery)),
    ("writing checkpoints", lambda s: words.percent(s.writing)),
    ("failover stalls", lambda s: words.percent(s.stalled)),
    ("slower on fewer rails", lambda s: words.percent(s.slowed)),
    ("faults that ended the job, a run", lambda s: f"{s.restarts:,.1f}"),
    ("faults that it survived, a run", lambda s: f"{s.failovers:,.1f}"),
)


def show(found: Assessment, console: Console, *, brief: bool = False) -> None:
    """Print the comparison, savings, break-even and all assumptions; `brief`: one line of faults."""
    settings = found.settings
    title = _title(settings.runs, words.number(settings.days), f"{settings.gpus:,}", settings.seed)
    console.print(title, style="bold", highlight=False)
    console.print()
    table = _table("share of all GPU-hours", "no failover", "failover")
    for name, cell in _ROWS:
        table.add_row(name, cell(found.without), cell(found.failover))
    console.print(table)
    console.print()
    for line in savings(found):
        _say(console, line)
    console.print()
    _say(console, "What this assumes:")
    for fact in words.assumptions(found):
        _say(console, f"- {fact}")
    _say(console, f"- {_faults_in_brief(settings)}")
    if not brief:
        console.print()
        console.print(_faults(settings))


def savings(found: Assessment) -> list[str]:
    """What failover saves, and from which restart time on it pays."""
    saved, total = found.saved_gpu_hours, found.settings.gpu_hours
    return [
        f"failover saves {words.gpu_hours(saved.mean)} GPU-hours "
        f"({words.plus_minus(saved.mean / total, saved.half_width / total)} of all; 95 % confidence); "
        f"closed form {words.gpu_hours(found.saved_formula_gpu_hours)}",
        f"in 90 % of runs between {words.gpu_hours(saved.low)} and {words.gpu_hours(saved.high)}",
        _break_even(found),
    ]


def _break_even(found: Assessment) -> str:
    point = found.break_even
    if point.first_order_min is None:
        return "failover has nothing to save here: no fault that it could take comes at all"
    if point.restart_min == 0:
        text = "failover pays from any restart time"
    elif point.restart_min is None:
        text = f"failover does not pay up to a restart time of {words.minutes(LONGEST_RESTART_MIN)}"
    else:
        text = f"failover pays from a restart time of {words.minutes(point.restart_min)} on"
    first = max(0.0, point.first_order_min)
    return f"{text} (closed form; first order: {words.minutes(first)})"


def show_sweep(found: Sweep, console: Console, *, brief: bool = False) -> None:
    """Print a table of the points, where failover begins to pay and, unless `brief`, all assumptions."""
    first = found.points[0].found
    settings = first.settings
    days, gpus = found.told("days", words.number), found.told("gpus", "{:,}".format)
    title = _title(settings.runs, days, gpus, settings.seed)
    console.print(title, style="bold", highlight=False)
    console.print()
    console.print(_long(found) if len(found.axes) == 1 else _matrix(found))
    console.print()
    for line in turns(found):
        _say(console, line)
    if brief:
        return
    console.print()
    names = " and ".join(axis.key for axis in found.axes)
    _say(console, f"What this assumes, at the first point ({names} {at_text(found.points[0].at)}):")
    for fact in words.assumptions(first):
        _say(console, f"- {fact}")
    _say(console, f"- {_faults_in_brief(settings)}")


def turns(found: Sweep) -> list[str]:
    """Where the savings change sign along a sweep of one key."""
    if len(found.axes) > 1:
        return ["saved GPU-hours in % of all; simulated; below 0 failover costs more than it saves"]
    lines = [
        f"failover pays {'from' if pays_above else 'up to'} {found.axes[0].key} = "
        f"{words.number(value)}{' on' if pays_above else ''} (between two points by a straight line)"
        for value, pays_above in found.crossings()
    ]
    if not lines and found.axes[0].numeric:
        always = all(point.found.saved_gpu_hours.mean > 0 for point in found.points)
        never = all(point.found.saved_gpu_hours.mean <= 0 for point in found.points)
        lines = ["failover pays at every point"] if always else lines
        lines = ["failover pays at no point"] if never else lines
    return [*lines, "+- is the 95 % confidence interval of the mean; ranges hold 90 % of runs"]


def _long(found: Sweep) -> Table:
    table = _table(
        found.axes[0].key,
        "saved GPU-hours",
        "of all",
        "90 % of runs",
        "closed form",
        "kept without",
        "kept with",
        "pays from restart",
    )
    for point in found.points:
        here = point.found
        saved, total = here.saved_gpu_hours, here.settings.gpu_hours
        pays = here.break_even.restart_min
        table.add_row(
            at_text(point.at),
            words.gpu_hours(saved.mean),
            words.plus_minus(saved.mean / total, saved.half_width / total),
            f"{words.percent(saved.low / total)} to {words.percent(saved.high / total)}",
            words.percent(here.saved_formula_gpu_hours / total),
            words.percent(here.without.kept.mean),
            words.percent(here.failover.kept.mean),
            "never" if pays is None else "any" if pays == 0 else words.minutes(pays),
        )
    return table


def _matrix(found: Sweep) -> Table:
    rows, columns = found.axes
    table = _table(f"{rows.key} \\ {columns.key}", *(at_text((v,)) for v in columns.values))
    width = len(columns.values)
    for number, value in enumerate(rows.values):
        cells = [p.found for p in found.points[number * width : (number + 1) * width]]
        table.add_row(
            at_text((value,)),
            *(words.percent(c.saved_gpu_hours.mean / c.settings.gpu_hours) for c in cells),
        )
    return table


def _title(runs: int, days: str, gpus: str, seed: int) -> str:
    return (
        f"What network failover saves: {runs:,} simulated runs of {days} days on {gpus} GPUs "
        f"(seed {seed})"
    )


def _faults_in_brief(settings: Settings) -> str:
    rate = settings.rate_per_hour()
    kinds, saved = settings.kinds().values(), words.saved_parts(settings)
    taken = sum(f.per_gpu_hour * settings.gpus for f in kinds if f.loses in saved)
    table = "Llama 3 405B, table 5" if settings.fault_table == "llama3" else "as given"
    if settings.faults and settings.fault_table == "llama3":
        table += f", and given: {', '.join(settings.faults)}"
    scale = "".join(
        f"; {key} {words.number(value)}"
        for key, value in (
            ("fault_scale", settings.fault_scale),
            ("network_fault_scale", settings.network_fault_scale),
        )
        if value != 1
    )
    return (
        f"faults: {_every(rate, settings.gpus)}, of which failover takes "
        f"{_every(taken, settings.gpus)}: {table}{scale}"
    )


def _every(rate: float, gpus: int) -> str:
    if rate == 0:
        return "none"
    return f"one every {words.number(1 / rate)} h ({rate / gpus:.3g} per GPU-hour)"


def _faults(settings: Settings) -> Table:
    table = _table("fault", "per GPU-hour", "one in")
    table.add_column("with failover")
    table.add_column("source")
    for name, fault in settings.kinds().items():
        rate = fault.per_gpu_hour * settings.gpus
        table.add_row(
            escape(name),
            f"{fault.per_gpu_hour:.3g}",
            f"{words.number(1 / rate)} h" if rate else "-",
            words.what_happens(settings, fault),
            escape(fault.source),
        )
    return table


def at_text(values: tuple[Value, ...]) -> str:
    """The values of a point: `10 and balanced`."""
    texts = []
    for value in values:
        if isinstance(value, tuple):
            texts.append("+".join(value))
        elif isinstance(value, bool | str):
            texts.append(str(value).lower())
        else:
            texts.append(words.number(value))
    return " and ".join(texts)


def _table(first: str, *others: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column(escape(first), no_wrap=True)
    for name in others:
        table.add_column(escape(name), justify="right")
    return table


def _say(console: Console, text: str) -> None:
    console.print(escape(text), highlight=False)
