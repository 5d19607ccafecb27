"""Collects what is wrong with a scenario, so that a user is told everything at once."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from sglb.fabric.topology import TopologyError
from sglb.fabric.workload import WorkloadError
from sglb.fabric.yaml_source import KeyPath, Problem, Source, SourceError


class Problems:
    """Problems (and warnings) found in one file so far."""

    def __init__(self, source: Source) -> None:
        self.found: list[Problem] = []
        self.warnings: list[Problem] = []
        self._source = source

    def bad(self, path: KeyPath, message: object) -> None:
        """Note what is wrong at a key."""
        self.found.append(self._source.problem(path, str(message)))

    def warn(self, path: KeyPath, message: str) -> None:
        """Note what is probably not meant at a key."""
        self.warnings.append(self._source.problem(path, message))

    @contextlib.contextmanager
    def blame(self, path: KeyPath) -> Iterator[None]:
        """Turn a name, size or shape error in the block into a problem at `path`."""
        try:
            yield
        except (TopologyError, WorkloadError) as error:
            self.bad(path, error)

    def error(self) -> SourceError:
        """All problems, in the order of the file."""
        return SourceError(sorted(self.found, key=lambda p: p.line))

    def path(self, name: str) -> Path:
        """A file that the scenario names, relative to the scenario's own folder."""
        return Path(self._source.file).parent / name
