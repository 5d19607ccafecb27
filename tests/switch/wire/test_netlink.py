"""Messages of rtnetlink, as written down by hand from their structs, and anything else."""

import struct

from hypothesis import given
from hypothesis import strategies as st

from sglb.switch.wire.netlink import LinkChange, changes

UP, RUNNING, LOWER_UP = 0x1, 0x40, 0x10000
NEW, DELETED = 16, 17


def message(kind, index, flags, name, family=0):
    attribute = struct.pack("=HH", 4 + len(name) + 1, 3) + name + b"\0"
    attribute += bytes(-len(attribute) % 4)
    mtu = struct.pack("=HHI", 8, 4, 1500)
    body = struct.pack("=BxHiII", family, 1, index, flags, 0) + mtu + attribute
    return struct.pack("=IHHII", 16 + len(body), kind, 0, 0, 0) + body


def test_what_becomes_of_interfaces():
    data = b"".join(
        (
            message(NEW, 7, UP | RUNNING | LOWER_UP, b"veth0"),
            message(NEW, 7, UP, b"veth0"),
            message(NEW, 300, UP | RUNNING, b"a-longer-name12"),
            message(DELETED, 7, UP | RUNNING | LOWER_UP, b"veth0"),
            message(NEW, 8, UP | RUNNING | LOWER_UP, b"bridged", family=7),
        )
    )
    assert list(changes(data)) == [
        LinkChange(7, "veth0", up=True, gone=False),
        LinkChange(7, "veth0", up=False, gone=False),
        LinkChange(300, "a-longer-name12", up=False, gone=False),
        LinkChange(7, "veth0", up=False, gone=True),
    ]


def test_a_cut_off_message_ends_it():
    whole = message(NEW, 7, UP, b"veth0")
    assert len(list(changes(whole + whole[:-1]))) == 1


@given(st.binary(max_size=200), st.integers(0, 60), st.binary(max_size=8))
def test_anything_can_come(noise, at, change):
    list(changes(noise))
    whole = message(NEW, 7, UP, b"veth0") * 2
    for found in changes(whole[:at] + change + whole[at + len(change) :]):
        assert isinstance(found.name, str)
