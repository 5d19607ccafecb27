"""`sglb tune --sonic HOST`: the tuner on SONiC switches."""

from __future__ import annotations

import signal
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from sglb.cli.errors import UserError
from sglb.cli.sonic import addresses_of, nothing_left, show

if TYPE_CHECKING:
    from sglb.watermark.sonic.change import Change
    from sglb.watermark.sonic.loop import LoopOptions, Told
    from sglb.watermark.tuner.observation import Observation

#: Locks last for so many intervals, and the time that a connection may stay away.
_LOCKED = 3


def tune_sonic(
    switches: Sequence[str],
    guard: Path | None,
    options: LoopOptions,
    journal: Path,
    *,
    apply: bool,
    intervals: int | None,
    quiet: bool,
) -> None:
    """Watches one interval and shows the first step; with `apply` tunes, until Ctrl-C."""
    from sglb.watermark.sonic.actuator import Journal, holding
    from sglb.watermark.sonic.database import Database
    from sglb.watermark.sonic.guard import load_guard
    from sglb.watermark.sonic.loop import SonicLoop

    if guard is None:
        raise UserError(
            "--sonic needs --guard FILE: it declares what may be tuned, and within what"
        )
    band = load_guard(guard)
    addresses = addresses_of(switches)
    notes = Journal(journal)
    if not apply:
        databases = [Database(address) for address in addresses]
        try:
            loop = SonicLoop(databases, band, options)
            _say_left(loop.left_alone)
            seen, changes = loop.look()
            typer.echo(_seen(seen))
            for database in databases:
                show(database, changes[str(database.address)])
        finally:
            for database in databases:
                database.close()
        typer.echo("that would be the first step; nothing was written (--apply writes)")
        return
    nothing_left(notes)
    ttl_s = _LOCKED * options.interval_s + options.patience_s
    stopped = _Stopped()
    with holding(addresses, ttl_s) as held:
        loop = SonicLoop([one.database for one in held], band, options)
        _say_left(loop.left_alone)
        start = time.monotonic()

        def tell(told: Told) -> None:
            if not quiet:
                _tell(told, time.monotonic() - start)

        with stopped:
            loop.run(held, notes, tell, stopped, intervals)
    typer.echo("the best setting is in force:")
    for target, value in loop.best.items():
        typer.echo(f"  {target} {value}")
    typer.echo("SONiC keeps it until its next reload; `config save` on the switch keeps it longer")


def _say_left(left: Sequence[str]) -> None:
    if left:
        typer.echo(f"left alone, as a tuner never writes these: {', '.join(left)}")


def _tell(told: Told, after_s: float) -> None:
    head = f"{after_s:8.1f} s  "
    if told.seen is None:
        typer.echo(f"{head}does not count: {told.why}")
        return
    text = _seen(told.seen)
    if told.step is not None:
        text = f"{told.step.phase}: score {told.step.score:.4f}, {text}"
    typer.echo(head + text)
    _changed(told.changes)


def _changed(changes: Mapping[str, Sequence[Change]]) -> None:
    for address, some in changes.items():
        for change in some:
            typer.echo(f"            {address} {change.target}: {change.before} -> {change.after}")


def _seen(seen: Observation | None) -> str:
    if seen is None:
        return "counters began anew in this interval"
    if seen.idle:
        return "nothing moved"
    return (
        f"throughput {seen.throughput:.2f}, delay {seen.delay:.2f}, unpaused {seen.unpaused:.2f}, "
        f"{seen.lost_packets} lost"
    )


class _Stopped:
    """Whether SIGINT or SIGTERM has come, while entered; the second SIGINT is Python's."""

    def __init__(self) -> None:
        self._stopped = False

    def __enter__(self) -> _Stopped:
        self._before = {
            number: signal.signal(number, self._on_signal)
            for number in (signal.SIGINT, signal.SIGTERM)
        }
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _on_signal(self, number: int, _frame: object) -> None:
        if self._stopped and number == signal.SIGINT:
            raise KeyboardInterrupt
        self._stopped = True

    def __call__(self) -> bool:
        return self._stopped
