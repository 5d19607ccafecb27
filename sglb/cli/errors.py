"""What a user sees of a mistake: one clear line each; a trace only with --debug."""

from __future__ import annotations

import traceback

import typer

from sglb.collective.savings import SettingsError
from sglb.fabric.bounds import BoundError
from sglb.fabric.control import ControlPlaneNotFoundError
from sglb.fabric.live.errors import LiveError
from sglb.fabric.packet_trace import TraceRequestError
from sglb.fabric.run import UnknownPolicyError
from sglb.fabric.workers import WorkerError
from sglb.fabric.yaml_source import SourceError
from sglb.p4.source import P4Errors
from sglb.switch.errors import SwitchError
from sglb.switch.p4runtime.status import P4RuntimeError
from sglb.switch.pcap import PcapError
from sglb.switch.runtime_file import RuntimeFileError
from sglb.syncmesh.key_file import KeyFileError
from sglb.watermark.errors import WatermarkError
from sglb.watermark.sonic.errors import SonicError

#: Exit statuses, beside 2 for a command line that makes no sense.
FAILED = 1
INCOMPLETE = 3
BUG = 70


class UserError(Exception):
    """A mistake in what the user asked for; the text says it all."""


#: Errors that name file and line; no word needs to stand before them.
_PLACED = (P4Errors, RuntimeFileError, SettingsError, SourceError)
_PLAIN = (
    BoundError,
    ControlPlaneNotFoundError,
    KeyFileError,
    LiveError,
    P4RuntimeError,
    PcapError,
    SonicError,
    SwitchError,
    TraceRequestError,
    UnknownPolicyError,
    UserError,
    WatermarkError,
    WorkerError,
)


def _text(error: Exception) -> str | None:
    """The error as a user is told it; None when it is none of theirs."""
    if isinstance(error, _PLACED):
        return str(error)
    if isinstance(error, _PLAIN):
        return f"error: {error}"
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        return f"error: {where}{error.strerror or error}"
    return None


def tell(error: Exception, debug: bool) -> int:
    """Tell an error on standard error; the exit status for it."""
    if debug:
        details = error.details if isinstance(error, WorkerError) else ""
        typer.echo(details or traceback.format_exc(), err=True)
    text = _text(error)
    status = FAILED
    if text is None:
        kind = type(error).__name__
        text = f"error: a bug in sglb, please report it: {kind}: {error} (--debug shows the trace)"
        status = BUG
    typer.echo(text, err=True)
    return status
