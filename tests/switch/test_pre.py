"""Multicast groups and clone sessions."""

from __future__ import annotations

from typing import Any

import pytest

from sglb.switch.errors import BadValue, EntryExists, NoSuchEntry, SwitchError
from sglb.switch.pre import CloneSession, MulticastGroup, Replica, ReplicationEngine


def engine() -> tuple[ReplicationEngine, set[int]]:
    down: set[int] = set()
    return ReplicationEngine(lambda port: port not in down), down


def test_copies_come_in_the_order_given() -> None:
    pre, _ = engine()
    pre.insert_group(MulticastGroup(1, (Replica(7, 1), Replica(3, 2), Replica(7, 2))))
    assert pre.copies(1) == ((7, 1), (3, 2), (7, 2))
    assert pre.copies(2) is None
    pre.modify_group(MulticastGroup(1, (Replica(4),)))
    assert pre.copies(1) == ((4, 0),)
    pre.delete_group(1)
    assert pre.copies(1) is None


def test_the_first_live_backup_takes_over_and_gives_back() -> None:
    pre, down = engine()
    pre.insert_group(MulticastGroup(1, (Replica(1, 10, backups=((2, 20), (3, 30))), Replica(4))))
    for dead, copies in [
        (set(), ((1, 10), (4, 0))),
        ({1}, ((2, 20), (4, 0))),
        ({1, 2}, ((3, 30), (4, 0))),
        ({1, 2, 3}, ((4, 0),)),
        ({4}, ((1, 10), (4, 0))),  # without backups the copy is made, and lost at its port
    ]:
        down.clear()
        down.update(dead)
        pre.ports_changed()
        assert pre.copies(1) == copies


def test_clone_sessions() -> None:
    pre, down = engine()
    session = CloneSession(0, (Replica(5, 1, backups=((6, 2),)),), 3, 64)
    pre.insert_session(session)
    assert pre.session(0) == session
    assert pre.session_copies(0) == ((5, 1),)
    down.add(5)
    pre.ports_changed()
    assert pre.session_copies(0) == ((6, 2),)
    pre.modify_session(CloneSession(0, (Replica(9),)))
    assert pre.session_copies(0) == ((9, 0),)
    pre.delete_session(0)
    assert pre.session(0) is None


def _refusals() -> list[tuple[type[SwitchError], str, Any]]:
    group, session = MulticastGroup(1, ()), CloneSession(1, ())
    twice = (Replica(1, 2), Replica(3, 4, backups=((1, 2),)))
    return [
        (EntryExists, "multicast group 1 exists", lambda p: p.insert_group(group)),
        (NoSuchEntry, "no multicast group 2", lambda p: p.modify_group(MulticastGroup(2))),
        (NoSuchEntry, "no multicast group 2", lambda p: p.delete_group(2)),
        (BadValue, "ids start at 1", lambda p: p.insert_group(MulticastGroup(0))),
        (
            BadValue,
            "multicast group 2: port 1, instance 2 is given twice",
            lambda p: p.insert_group(MulticastGroup(2, twice)),
        ),
        (EntryExists, "clone session 1 exists", lambda p: p.insert_session(session)),
        (NoSuchEntry, "no clone session 2", lambda p: p.modify_session(CloneSession(2))),
        (NoSuchEntry, "no clone session 2", lambda p: p.delete_session(2)),
        (BadValue, "given twice", lambda p: p.insert_session(CloneSession(2, twice))),
        (BadValue, "negative", lambda p: p.insert_session(CloneSession(2, (), -1))),
    ]


@pytest.mark.parametrize(("error", "text", "do"), _refusals())
def test_refusals_change_nothing(error: type[SwitchError], text: str, do: Any) -> None:
    pre, _ = engine()
    pre.insert_group(MulticastGroup(1, (), b"mine"))
    pre.insert_session(CloneSession(1, ()))
    with pytest.raises(error, match=text):
        do(pre)
    assert pre.groups() == (MulticastGroup(1, (), b"mine"),)
    assert pre.sessions() == (CloneSession(1, ()),)


def test_reset_forgets_everything() -> None:
    pre, _ = engine()
    pre.insert_group(MulticastGroup(1, (Replica(1),)))
    pre.insert_session(CloneSession(1, (Replica(1),)))
    pre.reset()
    assert (pre.groups(), pre.sessions(), pre.copies(1)) == ((), (), None)
