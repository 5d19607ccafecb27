"""The `sglb` command as a user types it, in the process of the tests."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from sglb.cli import main


class Answer(NamedTuple):
    """How a command ended, and what it wrote to standard output and standard error."""

    code: int
    out: str
    err: str


class Command:
    """`sglb` followed by `words`, and by what it is called with."""

    def __init__(self, capsys: pytest.CaptureFixture[str], *words: str) -> None:
        self._capsys = capsys
        self._words = words

    def __call__(self, *arguments: object) -> Answer:
        with pytest.raises(SystemExit) as ended:
            main([*self._words, *map(str, arguments)])
        out, err = self._capsys.readouterr()
        code = ended.value.code
        return Answer(code if isinstance(code, int) else 0, out, err)

    def refused(self, *arguments: object) -> str:
        """What it says on standard error as it ends with 1, and nothing else."""
        code, out, err = self(*arguments)
        assert (code, out) == (1, "")
        return err
