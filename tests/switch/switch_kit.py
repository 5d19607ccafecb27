"""Small IR tables and instances, made by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sglb.p4 import ir
from sglb.switch.clock import VirtualClock
from sglb.switch.profiles import ActionCall
from sglb.switch.tables import Table

#: P4Info ids of the actions that `make_table` gives its table: set(bit<8>), nop(), wide(bit<9>, bit<4>).
SET, NOP, WIDE = 0x01000001, 0x01000002, 0x01000003

ACTIONS = (
    ir.TableAction("C.set", 0, params=((0, 8),), p4info_id=SET),
    ir.TableAction("NoAction", 1, p4info_id=NOP),
    ir.TableAction("C.wide", 2, params=((1, 9), (2, 4)), p4info_id=WIDE),
)


def key(kind: str, width: int, *, signed: bool = False, name: str = "") -> ir.Key:
    return ir.Key(name or f"k{width}", ir.Const(width, 0), width, kind, signed)


def set_(value: int) -> ActionCall:
    return ActionCall(SET, (value,))


def make_decl(keys: Sequence[ir.Key], **changes: Any) -> ir.Table:
    values: dict[str, Any] = {
        "name": "C.t",
        "keys": tuple(keys),
        "actions": ACTIONS,
        "default_action": 1,
        "default_args": (),
        "const_default": False,
        "size": 64,
        **changes,
    }
    return ir.Table(**values)


def make_table(keys: Sequence[ir.Key], clock: VirtualClock | None = None, **changes: Any) -> Table:
    return Table(make_decl(keys, **changes), clock or VirtualClock())


def found(table: Table, *values: int, selector: bytes = b"", now_ps: int = 0) -> int | None:
    """The parameter of the `set` action that a key finds; None when the default runs."""
    match = table.lookup(values, selector, now_ps)
    return match.args[0] if match.hit else None
