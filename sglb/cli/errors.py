"""What a user sees of a mistake: one clear line each; a trace only with --debug."""

from __future__ import annotations

import traceback

import typer

#: Exit statuses, beside 2 for a command line that makes no sense.
FAILED = 1
INCOMPLETE = 3
BUG = 70


class UserError(Exception):
    """A mistake in what the user asked for; the text says it all."""


#: Errors that name file and line; no word needs to stand before them. By name, as importing all that
#: could fail takes longer than most commands.
PLACED = frozenset(
    {
        "sglb.collective.savings.settings.SettingsError",
        "sglb.fabric.yaml_source.SourceError",
        "sglb.p4.source.P4Errors",
        "sglb.switch.runtime_file.RuntimeFileError",
    }
)
PLAIN = frozenset(
    {
        "sglb.cli.errors.UserError",
        "sglb.fabric.bounds.BoundError",
        "sglb.fabric.control.ControlPlaneNotFoundError",
        "sglb.fabric.live.errors.LiveError",
        "sglb.fabric.packet_trace.TraceRequestError",
        "sglb.fabric.run.UnknownPolicyError",
        "sglb.fabric.workers.WorkerError",
        "sglb.switch.errors.SwitchError",
        "sglb.switch.p4runtime.status.P4RuntimeError",
        "sglb.switch.pcap.PcapError",
        "sglb.syncmesh.key_file.KeyFileError",
        "sglb.watermark.errors.WatermarkError",
        "sglb.watermark.sonic.errors.SonicError",
    }
)


def _is_one(error: Exception, kinds: frozenset[str]) -> bool:
    return any(f"{kind.__module__}.{kind.__qualname__}" in kinds for kind in type(error).__mro__)


def _text(error: Exception) -> str | None:
    """The error as a user is told it; None when it is none of theirs."""
    if _is_one(error, PLACED):
        return str(error)
    if _is_one(error, PLAIN):
        return f"error: {error}"
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        return f"error: {where}{error.strerror or error}"
    return None


def tell(error: Exception, debug: bool) -> int:
    """Tell an error on standard error; the exit status for it."""
    if debug:
        # A worker's own trace says more than where it was told of.
        details = getattr(error, "details", None)
        details = details if isinstance(details, str) else ""
        typer.echo(details or traceback.format_exc(), err=True)
    text = _text(error)
    status = FAILED
    if text is None:
        kind = type(error).__name__
        text = f"error: a bug in sglb, please report it: {kind}: {error} (--debug shows the trace)"
        status = BUG
    typer.echo(text, err=True)
    return status
