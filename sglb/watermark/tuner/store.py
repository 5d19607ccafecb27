"""Runs of `sglb tune` in a file, so that one that was interrupted goes on where it was."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from sglb.fabric.scenario import Scenario
from sglb.watermark.errors import WatermarkError
from sglb.watermark.space import SearchSpace
from sglb.watermark.tuner.annealing import Step
from sglb.watermark.tuner.session import Held, Options, Tuned
from sglb.whole_file import write_whole

_HELD = TypeAdapter(Held)
_TUNED = TypeAdapter(Tuned)
_FORMAT = "sglb tune results 1"


class RunFile:
    """Runs by seed and kind, as plain data, in a file of one `fingerprint`. Without a path: none.

    Raises `WatermarkError` for a file that is another's, or no such file.
    """

    def __init__(self, path: Path | None, fingerprint: str) -> None:
        self._path = path
        self._of = fingerprint
        self._runs: dict[str, dict[str, Any]] = {}
        if path is not None and path.exists():
            if not (path.is_file() or path.is_dir()):  # a device may have no end
                raise WatermarkError(f"{path}: no file; results are kept in one")
            self._runs = self._read(path)

    def found(self, adapter: TypeAdapter[Any], seed: int, kind: str) -> Any:
        """A run that was kept; None for one that was not. Raises `WatermarkError`."""
        kept = self._runs.get(str(seed), {}).get(kind)
        if kept is None:
            return None
        try:
            return adapter.validate_python(kept)
        except ValidationError as error:
            where = ".".join(str(part) for part in error.errors()[0]["loc"])
            raise WatermarkError(
                f"{self._path}: damaged at runs.{seed}.{kind}.{where}; name another file"
            ) from None

    def keep(self, adapter: TypeAdapter[Any], seed: int, kind: str, run: object) -> None:
        """Adds a run; the file is replaced as a whole, so it is never half."""
        if self._path is None:
            return
        self._runs.setdefault(str(seed), {})[kind] = adapter.dump_python(run, mode="json")
        text = json.dumps({"format": _FORMAT, "of": self._of, "runs": self._runs})
        try:
            write_whole(self._path, text + "\n")
        except OSError as error:
            raise WatermarkError(f"{self._path}: can't be written: {error.strerror}") from None

    def _read(self, path: Path) -> dict[str, dict[str, Any]]:
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise WatermarkError(f"{path}: can't be read: {error.strerror}") from None
        except ValueError:
            raise WatermarkError(f"{path}: no results of sglb tune; name another file") from None
        if not isinstance(document, dict) or document.get("format") != _FORMAT:
            raise WatermarkError(f"{path}: no results of sglb tune; name another file")
        if document.get("of") != self._of:
            raise WatermarkError(
                f"{path}: results of another scenario, policy or options; name another file"
            )
        runs = document.get("runs")
        if not isinstance(runs, dict) or not all(isinstance(one, dict) for one in runs.values()):
            raise WatermarkError(f"{path}: damaged; name another file")
        return runs


class Results:
    """Finished runs by seed: `fixed` ones, and both together. Without a path nothing is kept.

    A file belongs to one scenario, policy and set of options. Raises `WatermarkError` as `RunFile`.
    """

    def __init__(
        self, path: Path | None, scenario: Scenario, policy: str, options: Options
    ) -> None:
        chosen = [options.weights, options.schedule, options.timing, options.use_model]
        self._file = RunFile(path, fingerprint(scenario, policy, chosen))

    def fixed(self, seed: int) -> Held | None:
        """The run with the scenario's own setting."""
        found: Held | None = self._file.found(_HELD, seed, "fixed")
        return found

    def tuned(self, seed: int) -> Tuned | None:
        """Both runs."""
        found: Tuned | None = self._file.found(_TUNED, seed, "tuned")
        return found

    def keep(self, seed: int, run: Held | Tuned) -> None:
        """Adds a run."""
        if isinstance(run, Held):
            self._file.keep(_HELD, seed, "fixed", run)
        else:
            self._file.keep(_TUNED, seed, "tuned", run)


def fingerprint(scenario: Scenario, policy: str, chosen: Sequence[object]) -> str:
    """Of all that makes a run what it is, but for the seed; `chosen` are options by their `repr`."""
    model = scenario.model.model_dump(mode="json", by_alias=True)
    model.pop("seed")
    text = json.dumps([model, policy, repr(list(chosen))], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def parameters_of(space: SearchSpace) -> dict[str, dict[str, Any]]:
    """What can be set, as plain data by name."""
    return {p.name: {"unit": p.unit, "levels": p.levels} for p in space.parameters}


def steps_of(space: SearchSpace, steps: Sequence[Step]) -> list[dict[str, Any]]:
    """The steps of a search as plain data, each with its place's values by name."""
    names = [parameter.name for parameter in space.parameters]
    return [
        {
            "number": step.number,
            "phase": step.phase,
            "score": step.score,
            "temperature": step.temperature,
            "accepted": step.accepted,
            "setting": dict(zip(names, space.values(step.place).values(), strict=True)),
        }
        for step in steps
    ]
