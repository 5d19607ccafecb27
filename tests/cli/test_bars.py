"""Progress bars: on a terminal, once the work takes longer than a glance."""

from __future__ import annotations

import os
import sys

import pytest

from sglb.cli.bars import Bars


@pytest.mark.parametrize(
    ("quiet", "after_s", "come"), [(False, 0.0, True), (False, 3_600.0, False), (True, 0.0, False)]
)
def test_bars_come_when_their_time_has_come_but_not_to_who_wants_quiet(
    quiet: bool, after_s: float, come: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    ours, theirs = os.openpty()
    with os.fdopen(ours, "rb", buffering=0) as sent, os.fdopen(theirs, "w") as terminal:
        os.set_blocking(ours, False)
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stderr", terminal)
            with Bars(quiet, after_s=after_s) as bars:
                bars._shown.add_task("work", total=1)
                if come:
                    bars._start.join()
        terminal.flush()
        assert (b"work" in (sent.read() or b"")) == come
