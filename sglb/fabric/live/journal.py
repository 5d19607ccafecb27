"""Events of several processes on one clock: each writes lines of JSON, one reader merges them.

Times in a journal are nanoseconds of the monotonic clock, which all processes of a machine share.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from sglb.fabric.events import Event, EventLog, SlowPathSaw, SlowPathTold, TableWritten
from sglb.switch.clock import PS_PER_NS

_KINDS: Final[dict[str, type[Event]]] = {
    kind.__name__: kind for kind in (SlowPathSaw, SlowPathTold, TableWritten)
}


class Journal(EventLog):
    """An event log that goes to a file as well. `start_ns` is when its clock showed 0."""

    def __init__(self, path: Path, start_ns: int) -> None:
        super().__init__()
        self._start_ns = start_ns
        self._file = path.open("a", buffering=1)

    def append(self, event: Event) -> None:
        """Adds a record, at once; of kinds that a journal knows."""
        values: dict[str, Any] = {
            name: getattr(event, name) for name in type(event).__dataclass_fields__
        }
        time_ns = self._start_ns + values.pop("time_ps") // PS_PER_NS
        line = {"ns": time_ns, "kind": type(event).__name__, **values}
        self._file.write(json.dumps(line) + "\n")

    def close(self) -> None:
        """Closes the file."""
        self._file.close()


def read(path: Path, start_ns: int) -> Iterator[Event]:
    """The records of a journal, with times from `start_ns` on; a line that was cut short is left out."""
    if not path.exists():
        return
    for line in path.read_bytes().splitlines():
        try:
            values = json.loads(line)
            kind = _KINDS[values.pop("kind")]
            yield kind((values.pop("ns") - start_ns) * PS_PER_NS, **values)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            continue
