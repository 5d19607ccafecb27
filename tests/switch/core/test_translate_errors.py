"""What compiled functions do not have is refused, with its place."""

from __future__ import annotations

from pathlib import Path

import pytest
from plain_kit import a_world, module_of

from sglb.switch.core.translate_source import TranslationError

HEAD = """\
import math
from sglb.switch.core.jit import compiled
from sglb.switch.core.world import World
TEXT = "text"

@compiled
def two(a: int) -> tuple[int, int]:
    return a, a

@compiled
def none() -> None:
    pass

@compiled
def tried(world: World, a: int) -> int:
"""

LINES = {
    "return a ** 2": "no such operation here: a ** 2",
    "return a / 2": "no such operation here: a / 2",
    "return 1.5": "no integer: 1.5",
    "return TEXT": "no integer: TEXT",
    "return math.pi": "no integer: math.pi",
    "return math.tau.real": "unknown name: math.tau.real",
    "return missing": "unknown name: missing",
    "return world": "not to be used like this: world",
    "return a is a": "no such comparison here: a is a",
    "return a in range(3)": "not a tuple: range(3)",
    "return [a][0]": "no view of a world: [a][0]",
    "return world.x[0]": "no view of a world: world.x[0]",
    "return sum((a, a))": "no compiled function: sum((a, a))",
    "return min(a)": "other arguments are wanted: min(a)",
    "return a()": "not to be used like this: a",
    "return two(a)": "no single value: two(a)",
    "return none()": "no single value: none()",
    "return two(a=a)[0]": "no view of a world: two(a=a)[0]",
    "return": "not the result that was announced: return",
    "return None": "not the result that was announced: return None",
    "return a, a": "no such expression here: (a, a)",
    "pass": "its end can be reached without a result: tried",
    "if a: return 1": "its end can be reached without a result: tried",
    "a, b = two(a, a)": "arguments are wanted for a: two(a, a)",
    "a, b, c = two(a)": "2 values for 3 names: two(a)",
    "a, b = a, a, a": "no 2 values: (a, a, a)",
    "a, b = a": "no 2 values: a",
    "c = (a, b) = two(a)": "several targets, one a tuple: c = a, b = two(a)",
    "a + 1": "a statement without effect: a + 1",
    "w = world.w; w = a": "a view elsewhere: w",
    "w = world.w; w = world.h": "w is another view elsewhere: w = world.h",
    "a = world.w": "a is a view elsewhere: tried",
    "world = a": "a world cannot be replaced: world",
    "tried(a, a)": "not a world: a",
    "for n in TEXT: pass": "a loop over neither a range nor a tuple: TEXT",
    "for n in range(0, a, a): pass": "the step is no constant: range(0, a, a)",
    "del a": "no such statement here: del a",
    "import math": "no such statement here: import math",
    "a.b = 1": "no such target: a.b",
}


@pytest.mark.parametrize("line", LINES)
def test_a_line_that_there_is_not(line: str, tmp_path: Path) -> None:
    module = module_of(tmp_path, f"{HEAD}    {line}\n")
    place = HEAD.count("\n") + (0 if LINES[line].endswith("tried") else 1)
    with pytest.raises(TranslationError) as caught:
        module.tried(a_world(), 1)
    text = str(caught.value)
    assert text.startswith(f"{module.__file__}:")
    assert text.split(": ", 1)[1] == LINES[line]
    line_number = int(text.removeprefix(f"{module.__file__}:").split(":")[0])
    assert line_number in (place, place - 1 if LINES[line].endswith("tried") else place)


@pytest.mark.parametrize(
    ("head", "message"),
    [
        ("def f(a: float) -> int:", "f: a must be a World, an int or a bool"),
        ("def f(a) -> int:", "f: a must be a World, an int or a bool"),
        ("def f(a: int):", "f: must give None, int, bool or a tuple of these, not None"),
        (
            "def f(a: int) -> list[int]:",
            "must give None, int, bool or a tuple of these, not list[int]",
        ),
        ("def f(a: int = 1) -> int:", "f: only plain parameters, without defaults"),
        ("def f(*a: int) -> int:", "f: only plain parameters, without defaults"),
        ("def f(*, a: int) -> int:", "f: only plain parameters, without defaults"),
        ("def f(a: World, b: World) -> int:", "f: two worlds"),
    ],
)
def test_a_signature_that_there_is_not(head: str, message: str, tmp_path: Path) -> None:
    start = HEAD[: HEAD.index("@compiled")]
    with pytest.raises(TranslationError) as caught:
        module_of(tmp_path, f"{start}@compiled\n{head}\n    return 1\n")
    assert str(caught.value).endswith(message)
    assert f".py:{start.count(chr(10)) + 1}: f: " in str(caught.value)


def test_a_function_within_another_has_only_its_own_variables(tmp_path: Path) -> None:
    source = f"{HEAD}    return 1\n\ndef outer(n):\n    @compiled\n    def f(a: int) -> int:\n"
    module = module_of(tmp_path, f"{source}        return a + n\n    return f\n")
    with pytest.raises(TranslationError, match="uses variables of a function around it"):
        module.outer(1)


def test_a_file_that_has_changed_is_noticed(tmp_path: Path) -> None:
    module = module_of(tmp_path, f"{HEAD}    return 1\n")
    Path(module.__file__).write_text("# gone\n", encoding="utf-8")
    assert module.tried(a_world(), 1) == 1  # as it was imported


def test_a_function_needs_its_source() -> None:
    with pytest.raises(TranslationError, match="<typed>: no source, which compiled functions need"):
        exec(compile(f"{HEAD}    return 1\n", "<typed>", "exec"), {"__name__": "typed"})
