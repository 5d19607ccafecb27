"""Compiled code on disk, and code that comes from there."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from sglb.p4.native import cache, jit

TEXT = """
define i64 @answer(i64 %x) {
  %y = add i64 %x, @NUMBER@
  ret i64 %y
}
"""


def text(number: int) -> str:
    return TEXT.replace("@NUMBER@", str(number))


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("SGLB_CACHE_DIR", str(tmp_path))
    return tmp_path / "native"


def answer(code: jit.LoadedCode) -> int:
    function = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(code.addresses["answer"])
    return int(function(40))


def test_code_is_compiled_once(folder: Path) -> None:
    first = jit.load(text(2), ["answer"])
    second = jit.load(text(2), ["answer"])
    other = jit.load(text(3), ["answer"])
    assert [answer(code) for code in (first, second, other)] == [42, 42, 43]
    assert [code.from_cache for code in (first, second, other)] == [False, True, False]
    assert len(list(folder.iterdir())) == 2


@pytest.mark.parametrize(
    "damage",
    [
        lambda whole: whole[:-1],
        lambda whole: whole[:40],
        lambda whole: b"",
        lambda whole: whole[:100] + bytes([whole[100] ^ 1]) + whole[101:],
        lambda whole: bytes(len(whole)),
    ],
    ids=["short", "stub", "empty", "flipped", "zeros"],
)
def test_a_damaged_file_is_compiled_again(folder: Path, damage) -> None:
    jit.load(text(2), ["answer"])
    (path,) = folder.iterdir()
    whole = path.read_bytes()
    path.write_bytes(damage(whole))
    code = jit.load(text(2), ["answer"])
    assert (answer(code), code.from_cache) == (42, False)
    assert path.read_bytes() == whole


def test_without_a_place_to_write_things_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("SGLB_CACHE_DIR", str(blocked / "below"))
    code = jit.load(text(2), ["answer"])
    assert (answer(code), code.from_cache) == (42, False)


def test_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cache.cache_directory() == tmp_path / "native"
    monkeypatch.delenv("SGLB_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "x"))
    assert cache.cache_directory() == tmp_path / "x" / "sglb" / "native"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "me"))
    assert cache.cache_directory() == tmp_path / "me" / ".cache" / "sglb" / "native"


def test_the_longest_unused_files_make_room(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "LIMIT_BYTES", 3 * 132 + 10)
    for age, name in enumerate(["a", "b", "c"]):
        cache.save(name, bytes(100))
        os.utime(folder / f"{name}.o", (1000 + age, 1000 + age))
    assert cache.load("a") == bytes(100)  # used now: b is the oldest
    cache.save("d", bytes(100))
    assert sorted(path.name for path in folder.iterdir()) == ["a.o", "c.o", "d.o"]
