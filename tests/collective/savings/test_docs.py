"""What the documentation shows of `sglb savings` is what the commands give."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from sglb.collective.savings.given import checked
from sglb.collective.savings.settings import Fault, Settings

ROOT = Path(__file__).parents[3]
SCRIPT = runpy.run_path(str(ROOT / "bench" / "savings.py"))
PAGE = ROOT / "docs" / "savings.md"
BLOCKS = [
    pytest.param(block, id=f"{page.name}-{number}")
    for page in SCRIPT["PAGES"]
    for number, block in enumerate(SCRIPT["blocks"](page.read_text(encoding="utf-8")))
]


def test_both_pages_show_something() -> None:
    assert {str(block.id).rpartition("-")[0] for block in BLOCKS} == {"README.md", "savings.md"}


@pytest.mark.parametrize("block", BLOCKS)
def test_a_command_prints_what_is_shown(block: str, tmp_path: Path) -> None:
    found = SCRIPT["again"](block, tmp_path)
    assert found.splitlines() == block.splitlines(), "out of date: run `make figures`"
    for drawing in tmp_path.iterdir():
        stored = SCRIPT["DRAWINGS"] / drawing.name
        assert drawing.read_text() == stored.read_text(), "out of date: run `make figures`"


def test_every_key_is_explained() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for name in [*Settings.model_fields, *Fault.model_fields]:
        assert f"`{name}`" in text, name


def test_the_file_that_is_shown_is_one() -> None:
    (text,) = re.findall(r"^```yaml\n(.*?)^```$", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    settings = checked(YAML(typ="safe", pure=True).load(text))
    assert settings.kinds()["last-hop link"].repair_h == 2


def test_the_python_that_is_shown_runs(capsys: pytest.CaptureFixture[str]) -> None:
    (text,) = re.findall(
        r"^```python\n(.*?)^```$", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE
    )
    exec(compile(text, PAGE.name, "exec"), {})
    saved, break_even = map(float, capsys.readouterr().out.split())
    assert (saved > 0, break_even) == (True, 0)
