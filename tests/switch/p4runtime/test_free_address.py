"""Addresses that a server cannot have: told before gRPC takes half of one, or somebody else's."""

import socket

import pytest

from sglb.switch.p4runtime.free_address import check_free


def listening(family, where):
    found = socket.socket(family, socket.SOCK_STREAM)
    found.bind(where)
    found.listen()
    return found


def test_a_port_in_use_is_told_by_every_name_of_it():
    with listening(socket.AF_INET, ("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        for host in ("127.0.0.1", "0.0.0.0", "localhost"):
            with pytest.raises(
                OSError, match=rf"P4Runtime on {host}:{port}: Address already in use"
            ):
                check_free(f"{host}:{port}")
    check_free(f"127.0.0.1:{port}")
    check_free("localhost:0")


def test_an_address_of_another_machine_or_of_none():
    with pytest.raises(OSError, match=r"on 192\.0\.2\.1:0: Cannot assign requested address"):
        check_free("192.0.2.1:0")
    with pytest.raises(OSError, match=r"on no\.such\.invalid:9559: "):
        check_free("no.such.invalid:9559")


def test_a_socket_that_somebody_serves_is_not_taken_from_them(tmp_path):
    path = tmp_path / "s1.sock"
    address = f"unix:{path}"
    check_free(address)
    in_use = pytest.raises(OSError, match="Address already in use")
    with listening(socket.AF_UNIX, str(path)), in_use:
        check_free(address)
    check_free(address)  # what a killed server leaves


def test_a_file_or_folder_is_no_socket(tmp_path):
    (tmp_path / "file").touch()
    for path in (tmp_path, tmp_path / "file"):
        with pytest.raises(
            OSError, match=f"on unix:{path}: there is something of that name that is"
        ):
            check_free(f"unix:{path}")
