"""YAML with line numbers: what users get to see when a file is wrong."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sglb.fabric.yaml_source import SourceError, dotted, read, read_bytes, read_file


def _problem(text: str) -> str:
    with pytest.raises(SourceError) as caught:
        read(text, "f.yaml")
    return str(caught.value)


def test_lines_of_keys_and_items() -> None:
    source = read("a: 1\n\nb:\n  - x: 2\n    y: yes\n  - {z: 1.5}\nc: &k [on, true, 0x10]\n", "f")
    assert source.data == {
        "a": 1,
        "b": [{"x": 2, "y": "yes"}, {"z": 1.5}],
        "c": ["on", True, 16],
    }
    assert [type(v) for v in source.data["c"]] == [str, bool, int]
    assert source.line(("a",)) == 1
    assert source.line(("b", 0, "y")) == 5
    assert source.line(("b", 1, "z")) == 6
    assert source.line(("b", 1, "not there", 4)) == 6
    assert dotted(("b", 1, "z")) == "b[1].z"


def test_merged_keys_and_aliases_are_plain_values() -> None:
    source = read("base: &b {p: 1, q: 2}\nuse: {<<: *b, q: 3}\nagain: *b\n", "f")
    assert source.data["use"] == {"q": 3, "p": 1}
    assert source.data["again"] == {"p": 1, "q": 2}
    assert source.line(("use", "p")) == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "f.yaml:1: is empty"),
        ("- 1\n", "f.yaml:1: must be a mapping of keys to values"),
        ("a: 1\nb: [1, 2\nc: 3\n", "f.yaml:3: is not YAML:"),
        ("a: 1\nb: 2\na: 3\n", "f.yaml:3: is not YAML: found duplicate key"),
        ("a:\n  1: x\n", "f.yaml:1: a: key 1 must be text"),
        ("a: 2020-01-02\n", "f.yaml:1: a: a date is not understood here"),
        ("a: " + "[" * 40 + "]" * 40, "nested more than 32 deep"),
        ("a: !!python/object:os.system x\n", "is not understood here"),
    ],
)
def test_one_clear_line_for_what_is_wrong(text: str, message: str) -> None:
    said = _problem(text)
    assert message in said
    assert "\n" not in said


def test_alias_bomb_is_refused() -> None:
    layers = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    for i in range(1, 8):
        layers.append(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]")
    assert "more than 200000 values" in _problem("\n".join(layers))


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"no\.yaml: cannot be read: No such file"):
        read_file(tmp_path / "no.yaml")
    (tmp_path / "bin").write_bytes(b"a: 1\nb: \xff\n")
    with pytest.raises(SourceError, match="bin:2: is not UTF-8 text"):
        read_file(tmp_path / "bin")


@settings(max_examples=300)
@given(st.one_of(st.binary(max_size=80), st.text("a:-[]{}&*!|>%'\"#\n 0,?<", max_size=60)))
def test_any_bytes_give_data_or_a_source_error(raw: bytes | str) -> None:
    raw = raw if isinstance(raw, bytes) else raw.encode()
    with contextlib.suppress(SourceError):
        assert isinstance(read_bytes(raw, "f").data, dict)
