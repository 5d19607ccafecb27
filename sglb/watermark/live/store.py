"""Live runs of `sglb tune` in a file: what ended is kept, so that an interrupted comparison goes on."""

from __future__ import annotations

from pathlib import Path

from pydantic import TypeAdapter

from sglb.fabric.scenario import Scenario
from sglb.watermark.live.session import LiveOptions, LiveRun
from sglb.watermark.tuner.store import RunFile, fingerprint

_RUN = TypeAdapter(LiveRun)


class LiveResults:
    """Finished runs, `fixed` and `tuned`. Without a path nothing is kept.

    A file belongs to one scenario, policy, target and set of options. Raises `WatermarkError` as
    `sglb.watermark.tuner.store.RunFile`.
    """

    def __init__(
        self, path: Path | None, scenario: Scenario, policy: str, options: LiveOptions
    ) -> None:
        self._seed = scenario.model.seed
        self._file = RunFile(path, fingerprint(scenario, policy, ["live", options]))

    def run(self, kind: str) -> LiveRun | None:
        """The run `fixed` or `tuned`, if it is kept."""
        found: LiveRun | None = self._file.found(_RUN, self._seed, kind)
        return found

    def keep(self, kind: str, run: LiveRun) -> None:
        """Adds a run that ended by itself."""
        self._file.keep(_RUN, self._seed, kind, run)
