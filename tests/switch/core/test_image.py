"""Images: made once, found again, and made anew only when something in them has changed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from plain_kit import a_world, module_of

FIRST = """\
from sglb.switch.core.jit import compiled, inlined
from parts import numbers

OWN = 5

@inlined
def twice(a: int) -> int:
    return a * 2

@compiled
def inner(a: int) -> int:
    return twice(a) + numbers.FAR

@compiled
def first(a: int) -> int:
    return inner(a) + OWN
"""
SECOND = """\
from sglb.switch.core.jit import compiled
from parts import one

@compiled
def second(a: int) -> int:
    return one.inner(a) * 3
"""
SCRIPT = """\
import importlib, json, sys
from sglb.p4.native import jit
from sglb.switch.core import image
translated, images = [], []
made, load = image.Translation, jit.load_stamped

def translate(function, *rest):
    translated.append(function.__name__)
    return made(function, *rest)

def loads(*given, **more):
    code = load(*given, **more)
    images.append(code.from_cache)
    return code

image.Translation, jit.load_stamped = translate, loads
for name in sys.argv[1].split():
    importlib.import_module(name)
from parts import one, two
results = one.first(10), two.second(10), one.inner(10), one.twice(10)
answer = {"results": results, "translated": sorted(translated), "found": images}
answer["text"] = image.image_text(image._image_of(one.first))
print(json.dumps(answer))
"""


class Program:
    """A package of two modules and their constants, run in a process of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.package = folder / "parts"
        self.package.mkdir()
        (self.package / "__init__.py").touch()
        (self.package / "numbers.py").write_text("FAR = 1000\nOTHER = 1\n")
        (self.package / "one.py").write_text(FIRST)
        (self.package / "two.py").write_text(SECOND)
        (folder / "script.py").write_text(SCRIPT)

    def run(self, imports: str = "parts.one parts.two") -> dict[str, Any]:
        paths = os.pathsep.join([str(self._folder), *sys.path])
        environment = {
            **os.environ,
            "PYTHONPATH": paths,
            "SGLB_CACHE_DIR": str(self._folder),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        done = subprocess.run(
            [sys.executable, "script.py", imports],
            cwd=self._folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer


@pytest.fixture
def program(tmp_path: Path) -> Program:
    return Program(tmp_path)


def test_an_image_is_found_again_and_nothing_is_translated(program: Program) -> None:
    results = [1025, 3060, 1020, 20]
    once = program.run()
    text = once.pop("text")
    assert once == {
        "results": results,
        # `first` and `second` are made together, what they call beside them and on its own
        "translated": ["first", "inner", "second", "twice"],
        "found": [False, False],
    }
    again = program.run("parts.two parts.one")  # an order of imports changes nothing
    assert again == {"results": results, "translated": [], "found": [True, True], "text": text}


@pytest.mark.parametrize(
    ("file", "old", "new", "results"),
    [
        ("numbers.py", "FAR = 1000", "FAR = 2000", [2025, 6060, 2020, 20]),
        ("one.py", "OWN = 5", "OWN = 6", [1026, 3060, 1020, 20]),
        ("one.py", "a * 2", "a * 4", [1045, 3120, 1040, 40]),
    ],
)
def test_what_changes_is_made_anew(
    file: str, old: str, new: str, results: list[int], program: Program
) -> None:
    program.run()
    path = program.package / file
    path.write_text(path.read_text().replace(old, new))
    assert program.run()["results"] == results


def test_functions_that_come_later_are_there_too(tmp_path: Path) -> None:
    head = "from sglb.switch.core.jit import compiled\nfrom sglb.switch.core.world import World\n"
    function = (
        "@compiled\ndef {}(world: World, a: int) -> int:\n    world.w[0] += {}\n    return a\n"
    )
    source = head + function.format("called", "1") + function.format("apart", "20")
    early = module_of(tmp_path, source, package="later")
    world = a_world()
    assert (early.called(world, 3), early.apart(world, 4)) == (3, 4)
    before = early.apart.code()
    source = f"{head}import sys\nearly = sys.modules[{early.__name__!r}]\n"
    late = module_of(
        tmp_path, source + function.format("late", "early.called(world, a)"), package="later"
    )
    assert late.late(world, 300) == 300
    assert early.apart.code() is not before  # one image holds both
    assert (early.called(world, 5), early.apart(world, 6)) == (5, 6)
    assert world.w[0] == (1 + 20) + 300 + (1 + 20)  # the 1 within the sum with 300 is lost
