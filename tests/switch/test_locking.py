"""A write waits for whoever runs packets, and the other way round."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from switch_kit import key, make_table, set_

from sglb.p4 import ir
from sglb.p4.runtime import Colour
from sglb.switch.locking import Lockable
from sglb.switch.profiles import ActionProfile, GroupMember
from sglb.switch.registers import RegisterArray
from sglb.switch.value_sets import ValueSetTable


def table_writes() -> tuple[Lockable, list[Callable[[], object]]]:
    table = make_table([key("exact", 8)])
    return table, [
        lambda: table.insert((1,), set_(1)),
        lambda: table.modify((1,), set_(2)),
        lambda: table.set_default(set_(3)),
        table.reset_default,
        lambda: table.delete((1,)),
        table.clear,
    ]


def profile_writes() -> tuple[Lockable, list[Callable[[], object]]]:
    instance = ir.Instance(ir.InstanceKind.ACTION_SELECTOR, "C.s", size=8)
    profile = ActionProfile(instance, lambda _: True, lambda _: 0)
    return profile, [
        lambda: profile.insert_member(1, set_(1)),
        lambda: profile.modify_member(1, set_(2)),
        lambda: profile.insert_group(1, [GroupMember(1)]),
        lambda: profile.modify_group(1, []),
        lambda: profile.port_changed(1),
        lambda: profile.delete_group(1),
        lambda: profile.delete_member(1),
        profile.reset,
    ]


def other_writes() -> tuple[Lockable, list[Callable[[], object]]]:
    lock = threading.RLock()
    values = ValueSetTable(ir.ValueSet("P.v", (8,), ("exact",), 4), lock)
    instance = ir.Instance(ir.InstanceKind.REGISTER, "C.r", size=4, elements=(128,))
    register = RegisterArray(instance, lock)
    assert register.lock is lock
    return values, [
        lambda: values.replace([(1,)]),
        lambda: register.write(0, 1 << 100),
        register.reset,
    ]


@pytest.mark.parametrize("make", [table_writes, profile_writes, other_writes])
def test_a_write_waits_until_the_batch_is_over(
    make: Callable[[], tuple[Lockable, list[Callable[[], object]]]],
) -> None:
    locked, writes = make()
    for write in writes:
        done = threading.Event()
        writer = threading.Thread(target=lambda w=write, d=done: (w(), d.set()))
        with locked.lock:
            writer.start()
            assert not done.wait(0.02)
        writer.join()
        assert done.is_set()


def test_whoever_holds_the_lock_may_write() -> None:
    table = make_table([key("exact", 8)], direct_meter=0)
    with table.lock:
        entry = table.insert((1,), set_(1))
    assert table.meter(entry, 60, 0) is Colour.GREEN
