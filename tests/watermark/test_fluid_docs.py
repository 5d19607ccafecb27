"""What docs/watermarks.md shows of `sglb fluid` is what the commands give."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from sglb.cli import main

PAGE = Path(__file__).parents[2] / "docs" / "watermarks.md"
TEXT = PAGE.read_text(encoding="utf-8")
BLOCKS = re.findall(r"(?<=^```\n)\$ sglb fluid.*?(?=^```$)", TEXT, re.DOTALL | re.MULTILINE)


def test_the_page_shows_commands() -> None:
    assert len(BLOCKS) >= 3


@pytest.mark.parametrize("block", BLOCKS)
def test_a_command_prints_what_is_shown(
    block: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command, _, shown = block.partition("\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        main(shlex.split(command)[2:])
    assert not ended.value.code
    found = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert found == shown.splitlines()
    for drawing in tmp_path.iterdir():
        assert drawing.read_text() == (PAGE.parent / "watermarks" / drawing.name).read_text()


def test_the_python_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    exec(compile(code, str(PAGE), "exec"), {})
    assert capsys.readouterr().out.count("[") == 2
