"""Files that commands leave: whole, or as they were."""

from __future__ import annotations

import errno
import os
import re
import resource
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sglb.whole_file import check_writable, write_whole


@contextmanager
def room_for(size: int) -> Iterator[None]:
    """As on a disk with so little room: no file of this process may grow beyond."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_text_that_finds_no_room_leaves_the_old_one_and_nothing_else(tmp_path: Path) -> None:
    old, new = tmp_path / "old.json", tmp_path / "new.json"
    old.write_text("kept")
    for path in (old, new):
        check_writable(path)
        with room_for(100), pytest.raises(OSError, match=re.escape(str(path))) as error:
            write_whole(path, "x" * 101)
        assert error.value.errno == errno.EFBIG
    assert [p.name for p in tmp_path.iterdir()] == ["old.json"]
    assert old.read_text() == "kept"


def test_a_new_text_takes_the_place_of_the_old_one_with_its_mode_and_links(tmp_path: Path) -> None:
    file, link = tmp_path / "folder" / "f", tmp_path / "link"
    file.parent.mkdir()
    file.write_text("a longer one")
    file.chmod(0o640)
    link.symlink_to(file)
    write_whole(link, "short")
    assert link.is_symlink()
    assert (file.read_text(), stat.S_IMODE(file.stat().st_mode)) == ("short", 0o640)
    assert os.listdir(file.parent) == ["f"]  # noqa: PTH208


def test_what_is_no_file_is_written_to(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with os.fdopen(os.open(pipe, os.O_RDONLY | os.O_NONBLOCK), "rb") as reader:
        check_writable(pipe)
        write_whole(pipe, "through")
        assert reader.read() == b"through"
    assert pipe.is_fifo()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_device_is_named() -> None:
    with pytest.raises(OSError, match=r"No space left on device: '/dev/full'"):
        write_whole(Path("/dev/full"), "text")


def test_a_bad_path_is_told_before_there_is_anything_to_write(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path, number in (
        (tmp_path, errno.EISDIR),
        (tmp_path / "none" / "f", errno.ENOENT),
        (tmp_path / "file" / "f", errno.ENOTDIR),
    ):
        with pytest.raises(OSError, match=re.escape(str(path))) as error:
            check_writable(path)
        assert error.value.errno == number
    assert os.listdir(tmp_path) == ["file"]  # noqa: PTH208
