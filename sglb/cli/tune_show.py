"""Tables of `sglb tune`: before and after, settings, the path of the search, ports."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from sglb.cli.table import FILE_WIDTH

if TYPE_CHECKING:
    from sglb.watermark.objective import Weights
    from sglb.watermark.tuner.session import Tuned


def show(found: Tuned, title: str, weights: Weights, on_stderr: bool) -> None:
    """Prints all tables of a pair of runs."""
    from sglb.watermark.tuner.page import (
        PORT_HEADS,
        SETTINGS,
        moved_first,
        port_groups,
        price,
        rows,
        value,
    )

    console = Console(stderr=on_stderr, highlight=False)
    if not console.is_terminal:
        console.width = FILE_WIDTH
    table = _table(title, "", "as it is", "tuned")
    for row in rows(found):
        table.add_row(*row)
    console.print(table)
    for line in price(found, weights):
        console.print(line, soft_wrap=True)
    settings = _table("setting", "", "at first", "at last")
    for name in SETTINGS:
        settings.add_row(name, value(found.start, name), value(found.last, name))
    console.print(settings)
    console.print(_path(found))
    ports = _table(
        "ports at last", *PORT_HEADS[:2], "Kmin", "Kmax", "Pmax", "alpha", "XON", "headroom"
    )
    for towards, port in port_groups(found.after):
        ports.add_row(port.switch, towards, *(value(port, name) for name in PORT_HEADS[2:]))
    console.print(ports)
    tried = len({step.place for step in found.steps})
    again = f", traffic known again {found.recalled} times" if found.recalled else ""
    console.print(
        f"{len(found.steps)} intervals, {tried} settings tried of {len(found.space):,}, "
        f"{found.searches} searches{again}. The score is the mean over intervals, from 0 to 1."
    )
    moved = moved_first(found)
    if moved:
        console.print(moved)


def _path(found: Tuned) -> Table:
    """Every setting that a search kept, and how it scored when it was tried."""
    title = f"steps taken, of {len(found.steps)} intervals (--json and --html have all)"
    table = _table(title, "interval", "for", "score", "Kmin", "Kmax", "Pmax", "alpha")
    before = None
    for step in found.steps:
        if not step.accepted or step.phase == "restore" or step.place == before:
            continue
        before = step.place
        marks = found.space.watermarks(step.place)
        table.add_row(
            str(step.number),
            str(step.phase),
            f"{step.score:.4f}",
            f"{marks.kmin_bytes:,.0f}",
            f"{marks.kmax_bytes:,.0f}",
            f"{marks.pmax:g}",
            f"{marks.alpha:g}",
        )
    return table


def _table(title: str, *heads: str) -> Table:
    table = Table(title=title, title_justify="left", box=None)
    for n, heading in enumerate(heads):
        text = not n or heading in ("for", "towards")
        table.add_column(heading, justify="left" if text else "right")
    return table
