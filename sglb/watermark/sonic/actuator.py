"""Writing changes: all of a switch's or none, read back, and taken back on every switch if one fails.

A script in the server compares each field with what the plan saw, and the lock with its holder, before
it writes the first: a switch never holds half of a plan. When the answer to a write is lost, the
fields themselves tell on the next connection what became of it.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sglb.watermark.sonic.change import Change
from sglb.watermark.sonic.config import number
from sglb.watermark.sonic.database import Address, Database, Db
from sglb.watermark.sonic.errors import (
    SonicConflictError,
    SonicConnectionError,
    SonicDataError,
    SonicError,
    SonicLockedError,
    SonicUncertainError,
)
from sglb.watermark.sonic.fields import Target
from sglb.watermark.sonic.lock import LOCK_KEY, TunerLock

# Arguments: lock key, token, number of fields, then key, field, before, after of each.
_WRITE = f"""
redis.call('SELECT', {int(Db.STATE)})
if redis.call('GET', ARGV[1]) ~= ARGV[2] then return {{'unlocked'}} end
redis.call('SELECT', {int(Db.CONFIG)})
local count = tonumber(ARGV[3])
for i = 0, count - 1 do
    local now = redis.call('HGET', ARGV[4 + 4 * i], ARGV[5 + 4 * i])
    if now ~= ARGV[6 + 4 * i] then return {{'conflict', tostring(i), now or ''}} end
end
for i = 0, count - 1 do
    redis.call('HSET', ARGV[4 + 4 * i], ARGV[5 + 4 * i], ARGV[7 + 4 * i])
end
return {{'ok'}}
"""
_PAUSE_S = 0.2


@dataclass(frozen=True, slots=True)
class Held:
    """A switch that this tuner holds."""

    database: Database
    lock: TunerLock


def write(held: Held, changes: Sequence[Change], patience_s: float = 10.0) -> None:
    """Writes all changes of one switch, or none; returns when they have been read back.

    Raises SonicConflictError, SonicLockedError or SonicConnectionError, whose text says whether
    anything was written. `patience_s`: how long a lost connection is tried again.
    """
    if not changes:
        return
    address = held.database.address
    args = [LOCK_KEY, held.lock.token, str(len(changes))]
    for change in changes:
        args += [change.target.key, change.target.name, str(change.before), str(change.after)]
    try:
        answer = held.database.evaluate("write", _WRITE, args)
    except SonicConnectionError as error:
        if _settled(held.database, changes, patience_s, error):
            return
        raise SonicConnectionError(f"{error}; nothing was written") from error
    if answer[0] == "unlocked":
        raise SonicLockedError(f"{address}: the lock is not ours any more; nothing was written")
    if answer[0] == "conflict":
        change = changes[int(answer[1])]
        raise SonicConflictError(
            f"{address}: {change.target} is {answer[2] or 'not set'} now, not {change.before}: "
            "somebody else changed it; nothing was written"
        )
    try:
        _read_back(held.database, changes)
    except SonicConnectionError as error:
        if not _settled(held.database, changes, patience_s, error):
            raise SonicConflictError(
                f"{address}: {len(changes)} fields were written and read as before: somebody else "
                "writes them too"
            ) from error


def _values(database: Database, changes: Sequence[Change]) -> list[int | None]:
    keys = sorted({change.target.key for change in changes})
    found = dict(zip(keys, database.hashes(Db.CONFIG, keys), strict=True))
    return [_value(database.address, change.target, found) for change in changes]


def _value(address: Address, target: Target, found: Mapping[str, dict[str, str]]) -> int | None:
    text = found[target.key].get(target.name)
    return None if text is None else number(address, target, text)


def _settled(
    database: Database, changes: Sequence[Change], patience_s: float, cause: SonicConnectionError
) -> bool:
    """After a lost answer: whether everything was written. Raises when that can't be told."""
    end_s = time.monotonic() + patience_s
    while True:
        try:
            now = _values(database, changes)
            break
        except SonicConnectionError as error:
            if time.monotonic() >= end_s:
                raise SonicUncertainError(
                    f"{cause}; it stayed away for {patience_s:g} s: whether "
                    f"{len(changes)} fields were written is not known"
                ) from error
            time.sleep(_PAUSE_S)
    if now == [change.after for change in changes]:
        return True
    if now == [change.before for change in changes]:
        return False
    raise SonicUncertainError(
        f"{database.address}: the connection was lost in a write, and the fields are neither as they "
        "were nor as they should be: somebody else changed them"
    )


def _read_back(database: Database, changes: Sequence[Change]) -> None:
    for change, value in zip(changes, _values(database, changes), strict=True):
        if value != change.after:
            raise SonicConflictError(
                f"{database.address}: {change.target} was written as {change.after} and reads "
                f"{'not set' if value is None else value}: somebody else writes it too"
            )


class Journal:
    """A file of what is being written, so that what a killed tuner left can be taken back.

    One JSON object a line: `{"do": [...]}` before a write, `{"done": true}` when all of it stands or has
    been taken back. Each line is on disk before the switch is touched.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def begin(self, changes: Mapping[str, Sequence[Change]]) -> None:
        """Notes what is about to be written, by address."""
        entries = [
            {"switch": address, "field": str(c.target), "before": c.before, "after": c.after}
            for address, some in sorted(changes.items())
            for c in some
        ]
        self._append({"do": entries})

    def end(self) -> None:
        """Notes that nothing is half done."""
        self._append({"done": True})

    def unfinished(self) -> dict[str, list[Change]]:
        """What the last write may have left, by address; empty when it ended.

        Raises SonicDataError for a file that is no journal; a last line that was cut off is no write.
        """
        if self.path.exists() and not self.path.is_file():  # a device may have no end
            raise SonicDataError(f"{self.path}: no file; a journal is kept in one")
        try:
            lines = self.path.read_text().splitlines()
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise SonicDataError(f"{self.path}: cannot be read: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise SonicDataError(f"{self.path}: cannot be read: {error}") from error
        pending: list[dict[str, object]] = []
        for count, line in enumerate(lines, start=1):
            try:
                record = json.loads(line)
                pending = [] if "done" in record else list(record["do"])
            except (ValueError, KeyError, TypeError) as error:
                if count == len(lines):
                    break
                raise SonicDataError(f"{self.path}:{count}: no line of a journal") from error
        return self._changes(pending)

    def _changes(self, entries: list[dict[str, object]]) -> dict[str, list[Change]]:
        found: dict[str, list[Change]] = {}
        for entry in entries:
            match entry:
                case {"switch": str(at), "field": str(field), "before": int(was), "after": int(to)}:
                    found.setdefault(at, []).append(Change(Target.parse(field), was, to))
                case _:
                    raise SonicDataError(f"{self.path}: no entry of a journal: {entry!r}")
        return found

    def _append(self, record: object) -> None:
        try:
            with self.path.open("a") as file:
                file.write(json.dumps(record) + "\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise SonicError(f"{self.path}: cannot be written: {error.strerror}") from error


def apply(
    switches: Sequence[Held],
    changes: Mapping[str, Sequence[Change]],
    journal: Journal | None = None,
    patience_s: float = 10.0,
) -> None:
    """Writes changes (by address) to several switches; when one fails, takes back the others'.

    Raises the error of the switch that failed; where taking back fails too, its text says where. The
    journal stays unfinished when something may be half done.
    """
    if journal is not None:
        journal.begin(changes)
    done: list[tuple[Held, Sequence[Change]]] = []
    try:
        for held in switches:
            mine = changes.get(str(held.database.address), ())
            write(held, mine, patience_s)
            done.append((held, mine))
    except SonicError as error:
        left = _take_back(done, patience_s)
        if left:
            raise type(error)(f"{error}; not taken back: {'; '.join(left)}") from error
        if not isinstance(error, SonicUncertainError):
            _finish(journal)
        raise
    _finish(journal)


def _finish(journal: Journal | None) -> None:
    if journal is not None:
        journal.end()


def _take_back(done: Sequence[tuple[Held, Sequence[Change]]], patience_s: float) -> list[str]:
    """Restores switches, the last first; what could not be, as texts."""
    left = []
    for held, changes in reversed(done):
        back = [reverse for c in changes if (reverse := c.reversed()) is not None]
        try:
            write(held, back, patience_s)
        except SonicError as error:
            left.append(str(error))
    return left


def restore(database: Database, changes: Sequence[Change]) -> list[Change]:
    """What takes an unfinished write back on one switch: for fields that still hold what it wrote."""
    back = []
    for change, value in zip(changes, _values(database, changes), strict=True):
        reverse = change.reversed()
        if value == change.after and reverse is not None:
            back.append(reverse)
    return back


@contextmanager
def holding(
    addresses: Sequence[Address],
    ttl_s: float = 30.0,
    connect: Callable[[Address], Database] = Database,
) -> Iterator[list[Held]]:
    """Holds several switches, in order of address, so that two tuners don't block each other.

    Raises SonicLockedError or SonicConnectionError; lets go of all on the way out.
    """
    held: list[Held] = []
    databases: list[Database] = []
    try:
        for address in sorted(set(addresses), key=str):
            database = connect(address)
            databases.append(database)
            lock = TunerLock(database, ttl_s)
            lock.renew()
            held.append(Held(database, lock))
        yield held
    finally:
        for one in held:
            one.lock.__exit__(None, None, None)
        for database in databases:
            database.close()
