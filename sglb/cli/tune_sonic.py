"""`sglb tune --sonic HOST`: the tuner on SONiC switches."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from sglb.cli import files
from sglb.cli.errors import UserError
from sglb.cli.sonic import addresses_of, nothing_left, show
from sglb.cli.tune_outputs import Outputs

if TYPE_CHECKING:
    from sglb.watermark.sonic.actuator import Journal
    from sglb.watermark.sonic.change import Change
    from sglb.watermark.sonic.database import Address
    from sglb.watermark.sonic.guard import Guard
    from sglb.watermark.sonic.loop import LoopOptions
    from sglb.watermark.sonic.record import Record, Told
    from sglb.watermark.tuner.observation import Observation

#: Prints a line.
Say = Callable[[str], None]
#: Locks last for so many intervals, and the time that a connection may stay away.
_LOCKED = 3


def tune_sonic(
    switches: Sequence[str],
    guard: Path | None,
    options: LoopOptions,
    journal: Path,
    outputs: Outputs,
    *,
    apply: bool,
    intervals: int | None,
    quiet: bool,
) -> None:
    """Watches one interval and shows the first step; with `apply` tunes, until Ctrl-C."""
    from sglb.watermark.sonic.actuator import Journal
    from sglb.watermark.sonic.guard import load_guard
    from sglb.watermark.sonic.record import Record

    if guard is None:
        raise UserError(
            "--sonic needs --guard FILE: it declares what may be tuned, and within what"
        )
    band = load_guard(guard)
    addresses = addresses_of(switches)
    say = partial(typer.echo, err=outputs.on_stderr)
    if not apply:
        for flag, value in (("--html", outputs.html), ("--resume", outputs.resume)):
            if value is not None:
                raise UserError(f"{flag} needs --apply: without it one interval is looked at")
        with files.output(outputs.json_file) as write:
            write(json.dumps(_looked(addresses, band, options, say), indent=1) + "\n")
        return
    notes = Journal(journal)
    nothing_left(notes)
    record = Record(outputs.resume)
    with files.output(outputs.json_file) as write, files.output(outputs.html) as write_page:
        both = (write, write_page)
        _tuned(addresses, band, options, notes, record, both, intervals, say, quiet=quiet)


def _looked(
    addresses: Sequence[Address], band: Guard, options: LoopOptions, say: Say
) -> dict[str, Any]:
    """One interval, and the first step, which is shown and not taken."""
    from sglb.watermark.sonic.database import Database
    from sglb.watermark.sonic.loop import SonicLoop
    from sglb.watermark.sonic.record import written

    databases = [Database(address) for address in addresses]
    try:
        loop = SonicLoop(databases, band, options)
        _say_left(loop.left_alone, say)
        seen, changes = loop.look()
        say(_seen(seen))
        if any(changes.values()):
            for database in databases:
                show(database, changes[str(database.address)], say)
            say("that would be the first step; nothing was written (--apply writes)")
        else:
            why = "counters began anew" if seen is None else "nothing moved"
            say(f"{why}, so there is no first step to show; try again while traffic runs")
    finally:
        for database in databases:
            database.close()
    return {"seen": None if seen is None else asdict(seen), "would_write": written(changes)}


def _tuned(
    addresses: Sequence[Address],
    band: Guard,
    options: LoopOptions,
    notes: Journal,
    record: Record,
    writes: tuple[Callable[[str], None], Callable[[str], None]],
    intervals: int | None,
    say: Say,
    *,
    quiet: bool,
) -> None:
    from sglb.watermark.sonic.actuator import holding
    from sglb.watermark.sonic.errors import SonicError
    from sglb.watermark.sonic.loop import SonicLoop
    from sglb.watermark.sonic.page import document, page, verdict

    ttl_s = _LOCKED * options.interval_s + options.patience_s
    stopped = _Stopped()
    with holding(addresses, ttl_s) as held:
        loop = SonicLoop([one.database for one in held], band, options, record)
        _say_left(loop.left_alone, say)
        if record.kept:
            say(
                f"goes on after {record.kept} intervals, {len(loop.annealer.steps)} of which counted"
            )
        start = time.monotonic()

        def tell(told: Told) -> None:
            if not quiet:
                _tell(told, time.monotonic() - start, say)

        ended = "error"
        try:
            with stopped:
                loop.run(held, notes, tell, stopped, intervals)
            ended = "signal" if stopped() else "intervals"
        except SonicError as error:
            ended = str(error)
            raise
        finally:
            write, write_page = writes
            write(json.dumps(document(loop, ended), indent=1) + "\n")
            names = ", ".join(map(str, loop.addresses))
            write_page(page(f"SONiC, {names}", loop, options.weights, options.interval_s))
    say(f"{verdict(loop)}:")
    for target, value in loop.in_force.items():
        say(f"  {target} {value}")
    say("SONiC keeps it until its next reload; `config save` on the switch keeps it longer")


def _say_left(left: Sequence[str], say: Say) -> None:
    if left:
        say(f"left alone, as a tuner never writes these: {', '.join(left)}")


def _tell(told: Told, after_s: float, say: Say) -> None:
    head = f"{after_s:8.1f} s  "
    if told.seen is None:
        say(f"{head}does not count: {told.why}")
        return
    text = _seen(told.seen)
    if told.step is not None:
        text = f"{told.step.phase}: score {told.step.score:.4f}, {text}"
    say(head + text)
    _changed(told.changes, say)


def _changed(changes: Mapping[str, Sequence[Change]], say: Say) -> None:
    for address, some in changes.items():
        for change in some:
            say(f"            {address} {change.target}: {change.before} -> {change.after}")


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
