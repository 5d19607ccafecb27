import random

import pytest
from finsy.proto import p4r
from hypothesis import given
from hypothesis import strategies as st

from controller.diff import (
    Difference,
    EntityKindError,
    Holdings,
    Stages,
    difference,
    identity,
    normal,
)


def entry(key: int, value: int, table: int = 1, priority: int = 0) -> p4r.Entity:
    made = p4r.Entity()
    made.table_entry.table_id = table
    made.table_entry.priority = priority
    field = made.table_entry.match.add(field_id=1)
    field.exact.value = bytes([key])
    made.table_entry.action.action.action_id = 7
    made.table_entry.action.action.params.add(param_id=1, value=bytes([value]))
    return made


def default(value: int, table: int = 1) -> p4r.Entity:
    made = p4r.Entity()
    made.table_entry.table_id = table
    made.table_entry.is_default_action = True
    made.table_entry.action.action.action_id = value
    return made


def group(number: int, *ports: int) -> p4r.Entity:
    made = p4r.Entity()
    part = made.packet_replication_engine_entry.multicast_group_entry
    part.multicast_group_id = number
    for port in ports:
        part.replicas.add(port=bytes([port]))
    return made


def test_normal_form_ignores_order_padding_and_counters() -> None:
    plain = p4r.Entity()
    two = plain.table_entry.match
    two.add(field_id=1).exact.value = b"\x05"
    two.add(field_id=2).lpm.value = b"\x0a\x00"
    plain.table_entry.match[1].lpm.prefix_len = 8
    padded = p4r.Entity()
    padded.table_entry.match.add(field_id=2).lpm.value = b"\x00\x0a\x00"
    padded.table_entry.match[0].lpm.prefix_len = 8
    padded.table_entry.match.add(field_id=1).exact.value = b"\x00\x00\x05"
    padded.table_entry.counter_data.packet_count = 12
    padded.table_entry.time_since_last_hit.elapsed_ns = 3
    assert normal(padded) == normal(plain)
    assert identity(normal(padded)) == identity(normal(plain))


def test_a_zero_stays_one_byte() -> None:
    assert normal(entry(0, 0)) == entry(0, 0)


def test_replicas_are_a_set_and_both_ways_to_write_a_port_are_one() -> None:
    old = p4r.Entity()
    part = old.packet_replication_engine_entry.multicast_group_entry
    part.multicast_group_id = 4
    part.replicas.add(egress_port=3)
    part.replicas.add(egress_port=2)
    assert normal(old) == normal(group(4, 2, 3))
    assert normal(group(4, 2)) != normal(group(4, 2, 3))


def test_identity_is_table_match_and_priority() -> None:
    names = {
        identity(normal(e))
        for e in (
            entry(1, 1),
            entry(1, 2),
            entry(2, 1),
            entry(1, 1, table=2),
            entry(1, 1, priority=3),
            default(1),
            group(1),
        )
    }
    assert len(names) == 6


def test_other_kinds_are_refused() -> None:
    with pytest.raises(EntityKindError, match="register_entry"):
        normal(p4r.Entity(register_entry=p4r.RegisterEntry()))
    with pytest.raises(EntityKindError, match="neither"):
        normal(p4r.Entity(packet_replication_engine_entry=p4r.PacketReplicationEngineEntry()))


def test_difference() -> None:
    installed = Holdings([entry(1, 1), entry(2, 1), entry(3, 1), group(1, 2)])
    desired = Holdings([entry(1, 1), entry(2, 9), entry(4, 1), group(1, 2, 3)])
    change = difference(installed, desired, {})
    assert change.inserts == (entry(4, 1),)
    assert change.modifies == (normal(entry(2, 9)), normal(group(1, 2, 3)))
    assert change.deletes == (entry(3, 1),)


def test_defaults_are_modified_and_reset_never_deleted() -> None:
    initial = {1: p4r.Action(action_id=100), 2: p4r.Action(action_id=100)}
    change = difference(Holdings(), Holdings([default(5)]), initial)
    assert (change.inserts, change.modifies, change.deletes) == ((), (default(5),), ())
    stray = Holdings([default(5), default(100, table=2)])
    change = difference(stray, Holdings(), initial)
    reset = p4r.Entity(table_entry=p4r.TableEntry(table_id=1, is_default_action=True))
    assert change == Difference(modifies=(reset,))


def test_stages_make_before_break() -> None:
    # Table 2 refers to table 1: what it refers to is made first and broken last.
    change = Difference(
        inserts=(entry(1, 1, table=2), entry(1, 1, table=1)),
        modifies=(group(1, 2),),
        deletes=(entry(9, 1, table=1), entry(9, 1, table=2)),
    )
    stages = Stages.of(change, {1: 0, 2: 1})
    shown = [[(u.type, u.entity.table_entry.table_id) for u in batch] for batch in stages.batches]
    assert shown == [
        [(p4r.Update.MODIFY, 0)],
        [(p4r.Update.INSERT, 1)],
        [(p4r.Update.INSERT, 2)],
        [(p4r.Update.DELETE, 2)],
        [(p4r.Update.DELETE, 1)],
    ]


contents = st.dictionaries(st.integers(0, 8), st.integers(0, 3))


@given(contents, contents, st.randoms(use_true_random=False))
def test_carrying_out_a_difference_gives_what_is_wanted(
    before: dict[int, int], after: dict[int, int], rng: random.Random
) -> None:
    installed = Holdings(entry(k, v) for k, v in before.items())
    desired = Holdings(entry(k, v) for k, v in after.items())
    change = difference(installed, desired, {})
    held = dict(before)
    for batch in Stages.of(change, {1: 0}).batches:
        updates = list(batch)
        rng.shuffle(updates)  # a server may take a batch in any order
        for update in updates:
            part = update.entity.table_entry
            key, value = part.match[0].exact.value[0], part.action.action.params[0].value[0]
            match update.type:
                case p4r.Update.INSERT:
                    assert key not in held
                    held[key] = value
                case p4r.Update.MODIFY:
                    assert held[key] != value
                    held[key] = value
                case _:
                    del held[key]
    assert held == after
