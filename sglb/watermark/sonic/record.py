"""A tuning loop's course in a file, so that one that ended or was killed goes on where it was.

One JSON object a line, on disk before the loop goes on: the head says what the loop tunes and where it
began; then, for each interval, what was seen (`{"seen": ..., "step": ...}`) before anything is written,
and what was written afterwards (`{"written": ...}`). A line that was cut off is none. Reading it shows
the annealer the same intervals again: the same seed and observations give the same places, so nothing
else of it has to be kept. That they do is checked.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError

from sglb.watermark.sonic.change import Change
from sglb.watermark.sonic.errors import SonicDataError, SonicError
from sglb.watermark.sonic.fields import Target
from sglb.watermark.tuner.annealing import Annealer, Step
from sglb.watermark.tuner.observation import Observation

FORMAT: Final = "sglb tune --sonic 1"
_OBSERVATION = TypeAdapter(Observation)
_STEP = TypeAdapter(Step)


#: Changes by address of the switch.
Changes = Mapping[str, Sequence[Change]]


@dataclass(slots=True)
class Told:
    """What came of an interval: None for `seen` when it didn't count, and `why`.

    `step` is None when nothing moved. `changes` is what was written after it.
    """

    seen: Observation | None
    step: Step | None
    changes: Changes
    why: str = ""


class Record:
    """See the module. Without a path nothing is kept but in memory.

    Raises SonicDataError for a file that is none of a loop's.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._head: dict[str, Any] | None = None
        self.intervals: list[Told] = []
        self.began: Changes = {}  #: what was written before the first interval
        self.kept = 0  #: intervals that the file had
        if path is not None and path.exists():
            if not path.is_file():  # a device may have no end
                raise SonicDataError(f"{path}: no file; the course of a loop is kept in one")
            self._read(path)
            self.kept = len(self.intervals)

    @property
    def start(self) -> dict[Target, int] | None:
        """The fields as they stood when the loop began; None when it has not."""
        if self._head is None:
            return None
        try:
            return {Target.parse(str(name)): int(v) for name, v in self._head["start"].items()}
        except (KeyError, AttributeError, ValueError, TypeError):
            raise self._damaged(1) from None

    def begin(self, of: Mapping[str, Any], start: Mapping[Target, int]) -> None:
        """A loop that is what `of` says begins, or goes on. Raises SonicDataError for another's file."""
        given = json.loads(json.dumps(of))
        if self._head is None:
            self._head = {
                "format": FORMAT,
                "of": given,
                "start": {str(target): value for target, value in start.items()},
            }
            self._append(self._head)
            return
        kept = self._head.get("of")
        if kept != given:
            kept = kept if isinstance(kept, dict) else {}
            other = [name for name in given if kept.get(name) != given[name]]
            raise SonicDataError(
                f"{self._path}: of a loop with other {' and '.join(other) or 'options'}; name another "
                "file, or tune as it did"
            )

    def replay(self, annealer: Annealer) -> None:
        """Shows an annealer what was seen. Raises SonicDataError when it takes other steps."""
        for number, one in enumerate(self.intervals, 1):
            if one.seen is None:
                continue
            count = len(annealer.steps)
            annealer.observed(one.seen)
            step = annealer.steps[-1] if len(annealer.steps) > count else None
            if step != one.step:
                raise SonicDataError(
                    f"{self._path}: interval {number} led elsewhere then: another version of the tuner "
                    "made it; name another file"
                )

    def saw(self, one: Told) -> None:
        """An interval is over; nothing has been written because of it yet."""
        self.intervals.append(one)
        self._append(
            {
                "seen": None if one.seen is None else asdict(one.seen),
                "step": None if one.step is None else asdict(one.step),
                "why": one.why,
            }
        )

    def wrote(self, changes: Changes) -> None:
        """What has been written after the last interval, or before the first."""
        if any(changes.values()):
            self._note(changes)
            self._append({"written": written(changes)})

    def _note(self, changes: Changes) -> None:
        if not self.intervals:
            self.began = _both(self.began, changes)
        else:
            self.intervals[-1].changes = _both(self.intervals[-1].changes, changes)

    # --- the file ---

    def _append(self, record: Mapping[str, Any]) -> None:
        if self._path is None:
            return
        try:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(record) + "\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise SonicDataError(f"{self._path}: cannot be written: {error.strerror}") from error

    def _read(self, path: Path) -> None:
        for count, line in _lines(path):
            try:
                found = json.loads(line)
            except ValueError:
                found = None
            if not isinstance(found, dict):
                raise self._damaged(count)
            if self._head is None:
                if found.get("format") != FORMAT:
                    raise SonicDataError(f"{path}: no course of a tuning loop; name another file")
                self._head = found
                continue
            try:
                self._take(found)
            except (ValidationError, SonicError, KeyError, TypeError, ValueError, AttributeError):
                raise self._damaged(count) from None

    def _take(self, found: Mapping[str, Any]) -> None:
        if "written" in found:
            self._note(_changes(found["written"]))
            return
        seen, step = found["seen"], found["step"]
        self.intervals.append(
            Told(
                None if seen is None else _OBSERVATION.validate_python(seen),
                None if step is None else _STEP.validate_python(step),
                {},
                str(found["why"]),
            )
        )

    def _damaged(self, line: int) -> SonicDataError:
        return SonicDataError(
            f"{self._path}:{line}: no course of a tuning loop, or damaged; name another file"
        )


def _both(first: Changes, then: Changes) -> Changes:
    return {
        address: [*first.get(address, ()), *then.get(address, ())] for address in {**first, **then}
    }


def written(changes: Changes) -> dict[str, list[dict[str, Any]]]:
    """Changes as plain data, by address."""
    return {
        address: [
            {"field": str(one.target), "before": one.before, "after": one.after} for one in some
        ]
        for address, some in sorted(changes.items())
        if some
    }


def _changes(found: Mapping[str, Any]) -> dict[str, list[Change]]:
    return {
        str(address): [
            Change(
                Target.parse(str(one["field"])),
                None if one["before"] is None else int(one["before"]),
                int(one["after"]),
            )
            for one in some
        ]
        for address, some in found.items()
    }


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Whole lines by number; cuts off what was left half written, so that others can follow it."""
    try:
        data = path.read_bytes()
        whole = data[: data.rfind(b"\n") + 1]
        text = whole.decode("utf-8")
        if data and not whole:
            raise SonicDataError(f"{path}: no course of a tuning loop; name another file")
        if len(whole) < len(data) and text.startswith('{"format": ' + json.dumps(FORMAT)):
            os.truncate(path, len(whole))
    except UnicodeDecodeError:
        raise SonicDataError(f"{path}: no course of a tuning loop; name another file") from None
    except OSError as error:
        raise SonicDataError(f"{path}: cannot be read: {error.strerror}") from error
    yield from enumerate(text.splitlines(), 1)
