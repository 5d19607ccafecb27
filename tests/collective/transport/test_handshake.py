"""Who is let in."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sglb.collective.transport.errors import RendezvousError, WireError
from sglb.collective.transport.handshake import Incoming, Outgoing, RefusedError, group_id
from sglb.collective.transport.wire import VERSION, Hello, Step, pack_answer

SECRET = b"s" * 32
HELLO = Hello(VERSION, 0, 0, 1, 1, 0, 0, group_id("g"), b"")


def talk(out: Outgoing, into: Incoming) -> None:
    message = out.begin()
    while out.need:
        message = into.feed(message)
        message = out.feed(message)


def test_both_sides_are_sure_of_each_other() -> None:
    out, into = Outgoing(SECRET, HELLO), Incoming(SECRET, lambda hello: "")
    talk(out, into)
    assert out.need == into.need == 0
    assert into.hello == HELLO._replace(nonce=out.nonce)


def test_the_side_that_connects_finds_out_who_does_not_know_the_secret() -> None:
    with pytest.raises(WireError, match="does not know the group's secret"):
        talk(Outgoing(SECRET, HELLO), Incoming(b"x" * 32, lambda hello: ""))


def test_the_side_that_accepts_does_too() -> None:
    into = Incoming(SECRET, lambda hello: "")
    into.feed(Outgoing(b"x" * 32, HELLO).begin())
    with pytest.raises(RefusedError, match="wrong secret") as caught:
        into.feed(pack_answer(Step.PROOF, b"n" * 16, b"m" * 32))
    with pytest.raises(RendezvousError, match="refused: wrong secret"):
        Outgoing(SECRET, HELLO).feed(caught.value.last)


def test_a_proof_cannot_be_mirrored() -> None:
    into = Incoming(SECRET, lambda hello: "")
    challenge = into.feed(Outgoing(b"x" * 32, HELLO).begin())
    mirrored = bytearray(challenge)
    mirrored[10] = Step.PROOF
    with pytest.raises(RefusedError, match="wrong secret"):
        into.feed(bytes(mirrored))


def test_another_version_is_told_which_one() -> None:
    old = Outgoing(SECRET, HELLO._replace(version=VERSION + 6))
    with pytest.raises(RefusedError) as caught:
        Incoming(SECRET, lambda hello: "").feed(old.begin())
    assert str(caught.value) == f"version {VERSION} here, not {VERSION + 6}"
    answer = bytearray(caught.value.last)
    answer[8] = 9
    with pytest.raises(RendezvousError, match="speaks version 9"):
        Outgoing(SECRET, HELLO).feed(bytes(answer))


def test_who_is_not_wanted_is_told_why() -> None:
    with pytest.raises(RefusedError, match="not this group"):
        Incoming(SECRET, lambda hello: "not this group").feed(Outgoing(SECRET, HELLO).begin())


@given(st.data())
def test_no_other_bytes_get_in(data) -> None:
    into = Incoming(SECRET, lambda hello: "")
    first = data.draw(st.binary(min_size=into.need, max_size=into.need))
    with pytest.raises(WireError):
        into.feed(first)
    into = Incoming(SECRET, lambda hello: "")
    into.feed(Outgoing(b"x" * 32, HELLO).begin())
    with pytest.raises(WireError):
        into.feed(data.draw(st.binary(min_size=into.need, max_size=into.need)))
