"""`sglb sonic`: the watermarks of SONiC switches, looked at, changed and watched by hand."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from sglb.cli.errors import UserError
from sglb.cli.table import FILE_WIDTH
from sglb.watermark.sonic.fields import FIELDS, Target

if TYPE_CHECKING:
    from sglb.watermark.sonic.actuator import Journal
    from sglb.watermark.sonic.change import Change
    from sglb.watermark.sonic.database import Address, Database
    from sglb.watermark.sonic.telemetry import Difference, Sample

sonic_app = typer.Typer(
    name="sonic",
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Watermarks of SONiC switches, through their Redis.",
)

Switches = Annotated[
    list[str],
    typer.Option(
        "--switch", "-s", metavar="HOST", help="HOST[:PORT] or unix:PATH of its Redis; repeatable."
    ),
]
Apply = Annotated[bool, typer.Option("--apply", help="Write; without it, only show.")]
JournalFile = Annotated[
    Path,
    typer.Option("--journal", metavar="FILE", help="Where a write is noted before it is made."),
]
_JOURNAL = Path("sonic-journal.jsonl")


def addresses_of(switches: Sequence[str]) -> list[Address]:
    """Where switches are. Raises `UserError` for one that is given twice."""
    from sglb.watermark.sonic.database import Address

    found = [Address.parse(text) for text in switches]
    for address in found:
        if found.count(address) > 1:
            raise UserError(f"switch {address} is given twice")
    return found


def _console() -> Console:
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = FILE_WIDTH
    return console


@sonic_app.command("show", no_args_is_help=True)
def show_command(switch: Switches) -> None:
    """Show the WRED and buffer profiles of switches, and which queues and groups use them."""
    from sglb.watermark.sonic.config import read_config
    from sglb.watermark.sonic.database import Database
    from sglb.watermark.sonic.keys import summary

    for address in addresses_of(switch):
        with Database(address) as database:
            config = read_config(database)
        typer.echo(f"switch {address}")
        for profile in config.profiles.values():
            users = ", ".join(summary(address, profile.users)) or "nobody"
            typer.echo(f"  {profile.table}.{profile.name}: used by {users}")
            for name, value in sorted(profile.fields.items()):
                field = FIELDS.get((profile.table, name))
                unit = "" if field is None else f" {field.unit}"
                typer.echo(f"    {name:<26} {value:>12}{unit}")


@sonic_app.command("set", no_args_is_help=True)
def set_command(
    values: Annotated[
        list[str],
        typer.Argument(
            metavar="FIELD=VALUE...",
            help="As in WRED_PROFILE.AZURE_LOSSLESS.green_min_threshold=500000.",
        ),
    ],
    switch: Switches,
    guard: Annotated[
        Path | None,
        typer.Option("--guard", metavar="FILE", help="What may be written, and within what."),
    ] = None,
    apply: Apply = False,
    journal: JournalFile = _JOURNAL,
) -> None:
    """Change watermarks on one or several switches: on all of them, or on none.

    Shows the difference, and the commands that would make it by hand. Writes with --apply and a
    guard file only.
    """
    from sglb.watermark.sonic.actuator import Journal, holding
    from sglb.watermark.sonic.actuator import apply as write
    from sglb.watermark.sonic.change import plan
    from sglb.watermark.sonic.config import read_config
    from sglb.watermark.sonic.guard import load_guard

    wanted = _wanted(values)
    band = None if guard is None else load_guard(guard)
    if apply and band is None:
        raise UserError("--apply needs --guard FILE: only what it declares is written")
    addresses = addresses_of(switch)
    if not apply:
        for address in addresses:
            with _connected(address) as database:
                show(database, plan(read_config(database), wanted, band))
        typer.echo("nothing was written (--apply writes)")
        return
    notes = Journal(journal)
    nothing_left(notes)
    with holding(addresses) as held:
        changes = {}
        for one in held:
            mine = plan(read_config(one.database), wanted, band)
            show(one.database, mine)
            changes[str(one.database.address)] = mine
        count = sum(len(some) for some in changes.values())
        if not count:
            typer.echo("nothing to write")
            return
        write(held, changes, notes)
    typer.echo(f"wrote {count} fields on {len(addresses)} switches and read them back")
    typer.echo(
        "SONiC keeps them until its next reload; `config save` on the switch keeps them longer"
    )


@sonic_app.command("restore", no_args_is_help=True)
def restore_command(
    switch: Switches, apply: Apply = False, journal: JournalFile = _JOURNAL
) -> None:
    """Take back what a write that was cut short has left, as its journal tells."""
    from sglb.watermark.sonic.actuator import Journal, holding, restore
    from sglb.watermark.sonic.actuator import apply as write

    notes = Journal(journal)
    left = notes.unfinished()
    if not left:
        typer.echo(f"{journal}: no write was cut short")
        return
    addresses = addresses_of(switch)
    missing = sorted(left.keys() - {str(address) for address in addresses})
    if missing:
        raise UserError(
            f"{journal}: the write was on {', '.join(missing)} too: give all its switches"
        )
    if not apply:
        for address in addresses:
            with _connected(address) as database:
                show(database, restore(database, left.get(str(address), [])))
        typer.echo("nothing was written (--apply writes)")
        return
    with holding(addresses) as held:
        back = {
            str(one.database.address): restore(
                one.database, left.get(str(one.database.address), [])
            )
            for one in held
        }
        for one in held:
            show(one.database, back[str(one.database.address)])
        write(held, back)
        notes.end()
    typer.echo(f"took back {sum(len(some) for some in back.values())} fields")


@sonic_app.command("watch", no_args_is_help=True)
def watch_command(
    switch: Switches,
    port: Annotated[
        list[str] | None,
        typer.Option("--port", "-p", metavar="NAME", help="Only this one; repeatable."),
    ] = None,
    interval_s: Annotated[
        float, typer.Option("--interval", min=0.05, metavar="S", help="Between two samples.")
    ] = 1.0,
    count: Annotated[
        int | None, typer.Option("--count", min=1, metavar="N", help="Then end.")
    ] = None,
) -> None:
    """Show what changed in the counters of one switch: rates, marks, drops, pauses, watermarks."""
    from sglb.watermark.sonic.telemetry import Telemetry, difference

    addresses = addresses_of(switch)
    if len(addresses) != 1:
        raise UserError("watch takes one --switch")
    console = _console()
    with _connected(addresses[0]) as database:
        telemetry = Telemetry(database, port)
        before = telemetry.sample()
        shown = 0
        while count is None or shown < count:
            time.sleep(interval_s)
            after = telemetry.sample()
            console.print(_changed(difference(before, after), after))
            before = after
            shown += 1


def _changed(found: Difference, now: Sample) -> Table:
    title = f"in {found.duration_s:.2f} s"
    if found.restarted:
        title += f"; counters began anew: {', '.join(found.restarted)}"
    table = Table(title=title, title_justify="left", box=None)
    for heading in ("object", "name", "counter"):
        table.add_column(heading)
    table.add_column("grew by", justify="right")
    table.add_column("a second", justify="right")
    for kind, objects in found.counts.items():
        for name, counts in objects.items():
            for counter, grown in counts.items():
                if grown:
                    rate = f"{grown / found.duration_s:,.0f}"
                    table.add_row(str(kind), name, counter, f"{grown:,}", rate)
    for kind, levels in now.levels.items():
        for name, values in levels.items():
            for level, value in values.items():
                if value:
                    table.add_row(str(kind), name, level, f"is {value:,}", "")
    return table


def _connected(address: Address) -> Database:
    from sglb.watermark.sonic.database import Database

    return Database(address)


def _wanted(values: Sequence[str]) -> dict[Target, int]:
    wanted: dict[Target, int] = {}
    for text in values:
        field, equals, value = text.partition("=")
        digits = value.removeprefix("-")
        if not (equals and digits.isascii() and digits.isdigit()):
            raise UserError(f"{text!r} is not FIELD=VALUE with a whole number")
        target = Target.parse(field)
        if target in wanted:
            raise UserError(f"{target} is given twice")
        wanted[target] = int(value)
    return wanted


def nothing_left(journal: Journal) -> None:
    """Raises `UserError` for a journal whose last write was cut short."""
    left = journal.unfinished()
    if left:
        raise UserError(
            f"{journal.path}: a write on {', '.join(sorted(left))} was cut short: "
            "`sglb sonic restore` takes it back, or remove the file"
        )


def show(
    database: Database, changes: Sequence[Change], say: Callable[[str], None] = typer.echo
) -> None:
    """Prints changes, and the commands that make them by hand."""
    from sglb.watermark.sonic.change import commands, diff_lines

    nothing = "" if changes else ": nothing to change"
    say(f"switch {database.address}{nothing}")
    for line in diff_lines(changes):
        say(f"  {line}")
    for line in commands(changes):
        say(f"  $ {line}")
