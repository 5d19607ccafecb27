"""`sglb collective`: what running collectives say of their rails."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from sglb.cli.errors import UserError
from sglb.cli.table import FILE_WIDTH
from sglb.collective.transport.errors import SettingsError
from sglb.collective.transport.observe import ask_all
from sglb.collective.transport.runtime import folder_path
from sglb.collective.transport.settings import Settings

collective_app = typer.Typer(
    name="collective", no_args_is_help=True, help="What running reccl process groups say."
)

_EVENTS = 5


@collective_app.callback()
def collective() -> None:
    """Collectives that survive the network."""


@collective_app.command("status")
def status_command(
    folder: Annotated[
        Path | None,
        typer.Option(
            "--dir", metavar="DIR", help="RECCL_RUNTIME_DIR of the processes; that of this one."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Every number, as JSON.")] = False,
) -> None:
    """Show rails, rates and failovers of all reccl groups of this user on this host."""
    try:
        where = folder_path(str(folder) if folder else Settings.from_env().runtime_dir)
    except SettingsError as error:
        raise UserError(str(error)) from error
    if where.exists() and not where.is_dir():
        raise UserError(f"{where}: not a folder")
    answers = dict(ask_all(where))
    found = {pid: stats for pid, stats in answers.items() if stats}
    silent = [pid for pid, stats in answers.items() if stats is None]
    for pid in silent:
        typer.echo(
            f"pid {pid}: no answer that this sglb understands; is it stopped, or another version?",
            err=True,
        )
    if as_json:
        typer.echo(json.dumps(found, indent=1))
        return
    if not found and not silent:
        raise UserError(f"no process with a reccl group has a socket in {where}")
    console = Console(width=None if sys.stdout.isatty() else FILE_WIDTH)
    for pid, groups in found.items():
        for group in groups:
            _show(console, pid, group)


def _show(console: Console, pid: int, group: dict[str, Any]) -> None:
    peers = group["peers"].values()
    console.print(
        f"[bold]rank {group['rank']} of {group['size']}[/bold]  group {escape(group['group'])}  "
        f"pid {pid}  {escape(group['state'])}"
    )
    table = Table(box=None, pad_edge=False, padding=(0, 2))
    for heading in ("rail", "address", "carrier", "channels"):
        table.add_column(heading)
    for heading in ("MB/s", "sent MB", "received MB", "failovers"):
        table.add_column(heading, justify="right")
    for rail in group["rails"]:
        up, down = rail["channels_up"], rail["channels_down"]
        table.add_row(
            escape(rail["name"]),
            rail["address"] or "-",
            "yes" if rail["carrier"] else "[red]lost[/red]",
            f"{up} up" + (f", [red]{down} down[/red]" if down else ""),
            f"{rail['rate'] / 1e6:,.1f}",
            f"{rail['sent_bytes'] / 1e6:,.1f}",
            f"{rail['received_bytes'] / 1e6:,.1f}",
            str(rail["failovers"]),
        )
    console.print(table)
    total = {name: sum(peer[name] for peer in peers) for name in _TOTALS}
    console.print(
        f"failovers {total['failovers']}, back {total['failbacks']}, "
        f"sent again {total['replayed_bytes'] / 1e6:,.1f} MB, came twice {total['duplicates']}, "
        f"passed on for neighbours {group['relayed_bytes'] / 1e6:,.1f} MB, "
        f"taken from their memory {group['shared_bytes'] / 1e6:,.1f} MB, "
        f"detection bound {group['detection_bound_s'] * 1000:g} ms"
    )
    for event in group["events"][-_EVENTS:]:
        console.print(f"  {escape(event)}")
    console.print()


_TOTALS = ("failovers", "failbacks", "replayed_bytes", "duplicates")
