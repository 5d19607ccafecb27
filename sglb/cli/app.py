"""The commands, each of which is imported when it is asked for: that takes a second for most."""

from __future__ import annotations

import sys
from collections.abc import Iterator, MutableMapping
from dataclasses import dataclass
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from sglb.cli.entry import Interrupted, raise_on_signals
from sglb.cli.errors import tell
from sglb.versions import versions


@dataclass(frozen=True, slots=True)
class _Entry:
    """Where a command, or a group of them, is, and its line in the list of commands."""

    module: str
    name: str
    line: str
    no_args_is_help: bool = True

    def load(self, called: str) -> Any:
        """The command."""
        found = getattr(import_module(self.module), self.name)
        if isinstance(found, typer.Typer):
            return typer.main.get_group(found)
        alone = typer.Typer(add_completion=False, rich_markup_mode=None)
        alone.command(called, no_args_is_help=self.no_args_is_help)(found)
        return typer.main.get_command(alone)


COMMANDS = {
    "run": _Entry("sglb.cli.run", "run_command", "Run a scenario under each policy and compare."),
    "compile": _Entry("sglb.cli.compiling", "compile_command", "Compile a P4 program."),
    "check": _Entry("sglb.cli.compiling", "check_command", "Check scenarios and P4 programs."),
    "switch": _Entry("sglb.cli.serving", "switch_command", "Run a switch with P4Runtime.", False),
    "export": _Entry("sglb.cli.lab", "export_command", "Write a fabric as tutorial files."),
    "load": _Entry("sglb.cli.lab", "load_command", "Load a program and entries into a switch."),
    "tutorial": _Entry(
        "sglb.cli.tutorial", "tutorial_command", "Run a P4 tutorial exercise in Mininet.", False
    ),
    "control": _Entry("sglb.cli.control", "control_command", "Control a fabric of switches."),
    "savings": _Entry(
        "sglb.cli.savings", "savings_command", "GPU-hours that network failover saves.", False
    ),
    "fluid": _Entry("sglb.cli.fluid", "fluid_command", "Fluid model of DCQCN, ECN and PFC.", False),
    "tune": _Entry("sglb.cli.tune", "tune_command", "Tune buffer watermarks while traffic runs."),
    "collective": _Entry(
        "sglb.cli.collective", "collective_app", "What running reccl process groups say."
    ),
    "sonic": _Entry("sglb.cli.sonic", "sonic_app", "Watermarks of SONiC switches, through Redis."),
    "version": _Entry("sglb.cli.app", "version_command", "Versions of sglb and its parts.", False),
}


class _Lazy(MutableMapping[str, Any]):
    """Commands by name, as the library looks them up."""

    def __init__(self) -> None:
        self._loaded: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._loaded:
            self._loaded[name] = COMMANDS[name].load(name)
        return self._loaded[name]

    def __setitem__(self, name: str, command: Any) -> None:
        self._loaded[name] = command

    def __delitem__(self, name: str) -> None:
        del self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)


class _Commands(TyperGroup):
    """The commands; what Ctrl-C does to one of them is ours to tell, not the library's."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings | {"commands": None})
        self.commands = _Lazy()

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - the library's
        return list(COMMANDS)

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.line) for name, entry in COMMANDS.items()])

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        found = super().resolve_command(ctx, args)
        raise_on_signals()  # not before its modules are imported
        return found

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise Interrupted from None


app = typer.Typer(
    cls=_Commands,
    name="sglb",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help=(
        "Keeps AI training fast on a faulty, congested Ethernet fabric: P4 switches that balance load "
        "by whole paths (simulated, or on real packets), collectives that survive the network, "
        "watermarks that fit the traffic.\n\n--debug, anywhere, shows the trace of an error."
    ),
)


def _version(wanted: bool) -> None:
    if wanted:
        found = versions()
        typer.echo(f"sglb {found['sglb']} (Python {found['python']})")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_version, is_eager=True, help="Print the version and end."
        ),
    ] = False,
) -> None:
    """Options that stand before a command."""


def version_command() -> None:
    """Print the versions of sglb and of what it stands on."""
    for name, number in versions().items():
        typer.echo(f"{name} {number}")


def execute(arguments: list[str]) -> None:
    """Run the command that the arguments say. Ends by SystemExit or `Interrupted`."""
    debug = "--debug" in arguments
    try:
        app([a for a in arguments if a != "--debug"])
    except Exception as error:
        sys.exit(tell(error, debug))
