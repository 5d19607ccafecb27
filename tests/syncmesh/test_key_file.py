"""A fabric's key in a file: what is taken, and what is refused in one line."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sglb.syncmesh.key_file import KeyFileError, read_key, write_fresh_key
from sglb.syncmesh.messages import FabricKey


def key_file(folder: Path, content: bytes, mode: int = 0o600) -> Path:
    path = folder / "fabric.key"
    path.unlink(missing_ok=True)
    path.write_bytes(content)
    path.chmod(mode)
    return path


@pytest.mark.parametrize("mode", [0o600, 0o400, 0o700])
def test_hexadecimal_digits_are_the_key(tmp_path: Path, mode: int) -> None:
    found = read_key(key_file(tmp_path, b"000102030405060708090a0b0c0d0E0F\n", mode))
    assert found.verifies(b"message", FabricKey(bytes(range(16))).tag(b"message"))


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o601])
def test_a_key_that_others_may_use_is_refused(tmp_path: Path, mode: int) -> None:
    path = key_file(tmp_path, b"00" * 32, mode)
    with pytest.raises(KeyFileError) as told:
        read_key(path)
    assert str(told.value) == (
        f"{path}: other users may use this key (mode {mode:04o}): chmod 600 {path}"
    )


@pytest.mark.parametrize(
    "content",
    [b"", b"00" * 15, b"00" * 16 + b"0", b"not hexadecimal" * 4, b"\xff" * 64, b"0" * 4096],
)
def test_what_is_no_key_is_refused(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(KeyFileError, match="must be 32 hexadecimal digits or more, on one line"):
        read_key(key_file(tmp_path, content))


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(KeyFileError, match=r"gone: cannot be read: No such file"):
        read_key(tmp_path / "gone")
    with pytest.raises(KeyFileError, match="is no plain file"):
        read_key(tmp_path)
    os.mkfifo(tmp_path / "pipe", 0o600)
    with pytest.raises(KeyFileError, match="is no plain file"):
        read_key(tmp_path / "pipe")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to give a file away")
def test_a_key_of_another_user_is_refused(tmp_path: Path) -> None:
    path = key_file(tmp_path, b"00" * 32)
    os.chown(path, 12_345, -1)
    with pytest.raises(KeyFileError, match="belongs to another user"):
        read_key(path)


def test_fresh_keys_are_private_and_differ(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    for path in (one, two):
        write_fresh_key(path)
        assert path.stat().st_mode & 0o777 == 0o600
    assert read_key(one).tag(b"m") != read_key(two).tag(b"m")
    with pytest.raises(FileExistsError):
        write_fresh_key(one)


@given(st.binary(max_size=80))
def test_any_bytes_are_a_key_or_refused(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    path = key_file(tmp_path_factory.getbasetemp(), content)
    try:
        read_key(path)
    except KeyFileError:
        return
    assert len(bytes.fromhex(content.decode())) >= 16
