"""What a packet asks of the target, as LLVM text: drops, copies, digests, giving up.

A request goes into the row's head, the last one of a block holds. A copy's slots are read by
`p4_preserve` from the row as it stands at the end of the block. What has no effect where it is called
(I2E clones and resubmits behind ingress, E2E clones and recirculates before egress) leaves no request.
"""

from __future__ import annotations

from typing import Final

from sglb.p4 import ir
from sglb.p4.interp_extern import DROP_PORT, SESSION_MASK
from sglb.p4.native import abi
from sglb.p4.native.emit_expr import value
from sglb.p4.native.emit_extern import op
from sglb.p4.native.emit_stmt import store
from sglb.p4.native.unit import Body

#: The blocks whose resubmits and I2E clones, E2E clones, and recirculates the target looks at.
INGRESS_SIDE: Final = ("parser", "verify_checksum", "ingress")
EGRESS_SIDE: Final = ("egress", "compute_checksum", "deparser")

_LARGEST: Final = (1 << 31) - 1


@op("mark_to_drop")
def _mark_to_drop(body: Body, stmt: ir.Extern) -> None:
    egress_spec, mcast_grp = stmt.outs
    store(body, egress_spec, str(DROP_PORT & (1 << egress_spec.width) - 1))
    store(body, mcast_grp, "0")


def _list_of(body: Body, stmt: ir.Extern) -> int:
    """The number of the list of slots that a request keeps."""
    if stmt.op.endswith("_preserving_field_list"):
        return body.unit.preserve_list(body.program.field_lists.get(stmt.number, ()))
    return body.unit.preserve_list(stmt.preserved)


@op("clone", "clone3", "clone_preserving_field_list")
def _clone(body: Body, stmt: ir.Extern) -> None:
    kind, session = stmt.ins
    here = {"egress": 1, "compute_checksum": None, "deparser": None}.get(body.block, 0)
    kept = _list_of(body, stmt)
    if here is None:
        return
    text = value(body, kind)
    asked = body.fn.op(f"icmp ne i{kind.width} {text}, 0")
    if not here:
        asked = body.fn.op(f"xor i1 {asked}, 1")
    with body.when(asked, "clone"):
        number = body.resized(value(body, session), session.width, 32)
        number = body.fn.op(f"and i32 {number}, {SESSION_MASK}")
        body.store_row(abi.CLONE, body.fn.op(f"add i32 {number}, 1"))
        body.store_row(abi.CLONE_LIST, str(kept))


@op("resubmit", "resubmit_preserving_field_list")
def _resubmit(body: Body, stmt: ir.Extern) -> None:
    kept = _list_of(body, stmt)
    if body.block in INGRESS_SIDE:
        body.store_row(abi.RESUBMIT, str(kept + 1))


@op("recirculate", "recirculate_preserving_field_list")
def _recirculate(body: Body, stmt: ir.Extern) -> None:
    kept = _list_of(body, stmt)
    if body.block in EGRESS_SIDE:
        body.store_row(abi.RECIRCULATE, str(kept + 1))


@op("truncate")
def _truncate(body: Body, stmt: ir.Extern) -> None:
    fn, length = body.fn, stmt.ins[0]
    wide = max(length.width, 64)
    text = body.resized(value(body, length), length.width, wide)
    text = fn.op(f"call i{wide} @llvm.umin.i{wide}(i{wide} {text}, i{wide} {_LARGEST - 1})")
    asked = fn.op(f"add i32 {body.resized(text, wide, 32)}, 1")
    # 0 is none: one less than it is the largest number.
    before = fn.op(f"sub i32 {body.load_row(abi.TRUNCATE)}, 1")
    less = fn.op(f"sub i32 {asked}, 1")
    least = fn.op(f"call i32 @llvm.umin.i32(i32 {before}, i32 {less})")
    body.store_row(abi.TRUNCATE, fn.op(f"add i32 {least}, 1"))


@op("digest")
def _digest(body: Body, stmt: ir.Extern) -> None:
    """Appends (instance, number of words, words of the values) to the machine's buffer."""
    fn = body.fn
    assert stmt.instance is not None
    widths = tuple(data.width for data in stmt.data)
    body.unit.digests.setdefault(stmt.instance, widths)
    words: list[str] = []
    for data in stmt.data:
        text = value(body, data.value)
        for low in range(0, data.width, 64):
            piece = body.shifted_right(text, data.width, low)
            words.append(body.resized(piece, data.width, 64))
    used_at, lost_at = (body.address("%m", 8 * w) for w in (abi.DIGEST_USED, abi.DIGEST_LOST))
    used = fn.op(f"load i64, ptr {used_at}, align 8")
    after = fn.op(f"add i64 {used}, {len(words) + 2}")
    room_at = body.address("%m", 8 * abi.DIGEST_CAPACITY)
    room = fn.op(f"load i64, ptr {room_at}, align 8")
    fits, full, done = fn.label("digest"), fn.label("full"), fn.label("end")
    fn.branch(fn.op(f"icmp ule i64 {after}, {room}"), fits, full)
    fn.place(fits)
    buffer_at = body.address("%m", 8 * abi.DIGEST_BUFFER)
    buffer = fn.op(f"load ptr, ptr {buffer_at}, align 8")
    record = fn.op(f"getelementptr inbounds i64, ptr {buffer}, i64 {used}")
    for offset, word in enumerate([str(stmt.instance), str(len(words)), *words]):
        fn.do(f"store i64 {word}, ptr {body.address(record, 8 * offset)}, align 8")
    fn.do(f"store i64 {after}, ptr {used_at}, align 8")
    body.store_row(abi.DIGESTS, fn.op(f"add i32 {body.load_row(abi.DIGESTS)}, 1"))
    fn.jump(done)
    fn.place(full)
    lost = fn.op(f"load i64, ptr {lost_at}, align 8")
    fn.do(f"store i64 {fn.op(f'add i64 {lost}, 1')}, ptr {lost_at}, align 8")
    fn.place(done)


@op("assert", "assume")
def _assert(body: Body, stmt: ir.Extern) -> None:
    with body.when(body.fn.op(f"xor i1 {value(body, stmt.ins[0])}, 1"), "broken"):
        body.fail(f"{stmt.op}() does not hold", stmt.span)
