"""Table applications and field lists as LLVM text.

The lookup is a function of `emit_lookup`; the actions are written out behind it.
"""

from __future__ import annotations

from collections.abc import Sequence

from sglb.p4 import ir
from sglb.p4.native import abi, table_layout
from sglb.p4.native.emit_bits import Bits, put_bits, store_fields
from sglb.p4.native.emit_expr import value
from sglb.p4.native.emit_packet import put_varbit
from sglb.p4.native.emit_stmt import emit_all, emits, run_proc, store
from sglb.p4.native.unit import Body


@emits(ir.Apply)
def _apply(body: Body, stmt: ir.Apply) -> None:
    fn, table = body.fn, body.program.tables[stmt.table]
    keys = "".join(f"i{key.width} {value(body, key.expr)}, " for key in table.keys)
    selector, count = packed(body, table.selector) if table.selector else ("null", "0")
    head = body.machine_address(table_layout.table_word(stmt.table))
    now = body.load_word(abi.NOW)
    trail = body.machine_address(abi.TRAIL)
    found = fn.op(
        f"call {{ptr, ptr}} @lookup_{stmt.table}"
        f"(ptr {head}, {keys}ptr {selector}, i32 {count}, i64 {now}, ptr {trail})"
    )
    result = fn.op(f"extractvalue {{ptr, ptr}} {found}, 0")
    entry = fn.op(f"extractvalue {{ptr, ptr}} {found}, 1")
    if table.direct_counter is not None:
        length = body.load_row(abi.LENGTH)
        fn.do(f"call void @count_entry(ptr {entry}, i32 {length})")
    hit = _is_hit(body, entry) if stmt.hit is not None or table.direct_meter is not None else ""
    if table.direct_meter is not None:
        _direct_meter(body, table, entry, hit)
    if stmt.hit is not None:
        body.store(stmt.hit, hit)
    pointer = body.address(result, table_layout.ACTION)
    action = fn.op(f"load i32, ptr {pointer}, align 4")
    if stmt.action_run is not None:
        body.store(stmt.action_run, body.resized(action, 32, body.width(stmt.action_run)))
    _run_action(body, table, result, action)


def _is_hit(body: Body, entry: str) -> str:
    pointer = body.address(entry, table_layout.HIT)
    flag = body.fn.op(f"load i32, ptr {pointer}, align 4")
    return body.fn.op(f"icmp ne i32 {flag}, 0")


def _direct_meter(body: Body, table: ir.Table, entry: str, hit: str) -> None:
    with body.when(hit, "hit"):
        length, now = body.load_row(abi.LENGTH), body.load_word(abi.NOW)
        colour = body.fn.op(f"call i32 @entry_meter(ptr {entry}, i32 {length}, i64 {now})")
        if table.meter_result is not None:
            store(body, table.meter_result, body.resized(colour, 32, table.meter_result.width))


def _run_action(body: Body, table: ir.Table, result: str, action: str) -> None:
    fn, procs = body.fn, body.program.procs
    offsets = table_layout.param_offsets(table)
    arms = [
        (number, fn.label("action"), entry)
        for number, entry in enumerate(table.actions)
        if entry.params or entry.setup or entry.copy_out or procs[entry.proc].body
    ]
    if not arms:
        return
    after = fn.label("applied")
    fn.switch("i32", action, after, [(number, label) for number, label, _ in arms])
    for number, label, entry in arms:
        fn.place(label)
        for offset, (slot, width) in zip(offsets[number], entry.params, strict=True):
            body.store(slot, body.load_natural(body.address(result, offset), width))
        emit_all(body, entry.setup)
        run_proc(body, entry.proc, entry.copy_out)
        fn.jump(after)
    fn.place(after)


# --- field lists ----------------------------------------------------------------------------------


def fixed(fields: Sequence[ir.DataField]) -> bool:
    """Whether the fields take the same bits whatever the packet, unless all of them are left out."""
    return len({data.valid for data in fields}) <= 1 and all(data.length is None for data in fields)


def values_of(body: Body, fields: Sequence[ir.DataField]) -> list[Bits]:
    """The fields' values and widths."""
    return [(value(body, data.value), data.width) for data in fields]


def packed(body: Body, fields: Sequence[ir.DataField]) -> tuple[str, str]:
    """Address and number (i32) of the fields' bytes, without gaps, zero bits at the end of the last."""
    fn = body.fn
    most = sum(data.width for data in fields) + 7 >> 3
    room = fn.alloca(f"[{most + 8} x i8]", 16)
    if fixed(fields):
        store_fields(body, room, values_of(body, fields))
        valid = next((data.valid for data in fields), None)
        if valid is None:
            return room, str(most)
        return room, fn.op(f"select i1 {body.load(valid)}, i32 {most}, i32 0")
    position = fn.alloca("i64")
    fn.do(f"store i64 0, ptr {position}")
    for data in fields:
        if data.valid is None:
            _append(body, data, room, position)
        else:
            with body.when(body.load(data.valid), "field"):
                _append(body, data, room, position)
    bits = fn.op(f"load i64, ptr {position}")
    up = fn.op(f"add i64 {bits}, 7")
    return room, body.resized(body.shifted_right(up, 64, 3), 64, 32)


def _append(body: Body, data: ir.DataField, room: str, position: str) -> None:
    fn = body.fn
    at = fn.op(f"load i64, ptr {position}")
    text = value(body, data.value)
    if data.length is None:
        after = put_bits(body, room, at, text, data.width)
    else:
        spill = fn.alloca(f"i{8 * table_layout.natural_bytes(data.width)}", 16)
        body.store_natural(spill, text, data.width)
        bits = body.resized(value(body, data.length), data.length.width, 64)
        after = put_varbit(body, room, at, spill, bits)
    fn.do(f"store i64 {after}, ptr {position}")
