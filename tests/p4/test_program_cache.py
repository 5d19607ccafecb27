"""Compiled programs on disk: the same program again, until something that it is made of changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from sglb.p4 import front_end
from sglb.p4.compiler import compile as compile_p4
from sglb.p4.source import P4Errors

MAIN = """
#include <core.p4>
#include <v1model.p4>
#include "sizes.p4"
#warning look here
struct headers_t {}
struct meta_t {}
parser P(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    state start { transition accept; }
}
control V(inout headers_t h, inout meta_t m) { apply {} }
control I(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    register<bit<32>>(SIZE) r;
    apply { s.egress_spec = PORT; r.write(0, 1); }
}
control E(inout headers_t h, inout meta_t m, inout standard_metadata_t s) { apply {} }
control D(packet_out p, in headers_t h) { apply {} }
V1Switch(P(), V(), I(), E(), V(), D()) main;
"""


class Folder:
    """A program of two files, and how often it was compiled."""

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.main = path / "main.p4"
        self.first, self.second = path / "first", path / "second"
        for folder in (self.first, self.second):
            folder.mkdir()
        self.main.write_text(MAIN)
        (self.second / "sizes.p4").write_text("#define SIZE 8")
        self.compiled = 0
        real = front_end.compile_text

        def counted(*arguments):
            self.compiled += 1
            return real(*arguments)

        monkeypatch.setattr(front_end, "compile_text", counted)

    def compile(self, **more: object):
        options = {"defines": {"PORT": "3"}, "include_dirs": [self.first, self.second]}
        return compile_p4(self.main, **(options | more))

    def size(self, **more: object) -> int:
        return next(i.size for i in self.compile(**more).ir.instances)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folder:
    monkeypatch.setenv("SGLB_CACHE_DIR", str(tmp_path / "cache"))
    return Folder(tmp_path, monkeypatch)


def test_a_kept_program_is_the_same(folder: Folder) -> None:
    first, second = folder.compile(), folder.compile()
    assert folder.compiled == 1
    assert second is not first
    assert second == first
    assert [w.message for w in second.warnings] == ["#warning look here"]
    assert second.sources.line_text(second.warnings[0].span) == "#warning look here"


def test_a_text_is_not_kept(folder: Folder) -> None:
    for _ in range(2):
        compile_p4(
            MAIN, defines={"PORT": "3"}, include_dirs=[folder.second], filename=str(folder.main)
        )
    assert folder.compiled == 2


def test_what_changes_is_compiled_again(folder: Folder) -> None:
    assert folder.size() == 8
    (folder.second / "sizes.p4").write_text("#define SIZE 16")
    assert folder.size() == 16
    # One that comes first now, and goes again.
    (folder.first / "sizes.p4").write_text("#define SIZE 32")
    assert folder.size() == 32
    (folder.first / "sizes.p4").unlink()
    assert folder.size() == 16
    folder.main.write_text(MAIN.replace("SIZE", "SIZE + 1"))
    assert folder.size() == 17
    assert folder.compiled == 5
    assert folder.size() == 17
    assert folder.compiled == 5


def test_other_options_are_other_programs(folder: Folder) -> None:
    folder.compile()
    folder.compile(defines={"PORT": "4"})
    folder.compile(include_dirs=[folder.second])
    folder.compile(filename="other.p4")
    assert folder.compiled == 4


def test_another_working_directory_is_another_program(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = []
    for place, size in ((folder.first, 5), (folder.second, 6)):
        (place / "here").mkdir()
        (place / "here" / "sizes.p4").write_text(f"#define SIZE {size}")
        monkeypatch.chdir(place)
        sizes.append(folder.size(include_dirs=["here"]))
    assert sizes == [5, 6]


def test_errors_and_damage_are_not_kept(folder: Folder, tmp_path: Path) -> None:
    for _ in range(2):
        with pytest.raises(P4Errors, match="PORT"):
            folder.compile(defines={})
    assert not list(tmp_path.glob("cache/**/*.p4"))
    folder.compile()
    (kept,) = tmp_path.glob("cache/**/*.p4")
    kept.write_bytes(kept.read_bytes()[:-1])
    assert folder.size() == 8
    assert folder.compiled == 4
