"""v1model's externs with state, hashes and checksums as LLVM text (operands: see `ir.Extern`).

The behaviour is that of `sglb.p4.interp_extern`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from sglb.p4 import ir
from sglb.p4.native import abi, table_layout
from sglb.p4.native.emit_expr import below, value
from sglb.p4.native.emit_packet import data_pointer, packet_bytes
from sglb.p4.native.emit_stmt import emits, move_bytes, store, zero_bytes
from sglb.p4.native.emit_table import fixed, packed, values_of
from sglb.p4.native.unit import Body

#: The most bytes that a checksum other than csum16 may run over, payload included.
MAX_SUMMED: Final = 1 << 18

_Emitter = Callable[[Body, ir.Extern], None]
OPS: Final[dict[str, _Emitter]] = {}


def op(*names: str) -> Callable[[_Emitter], _Emitter]:
    """Registers the translator of extern calls of these names."""

    def register(function: _Emitter) -> _Emitter:
        for name in names:
            OPS[name] = function
        return function

    return register


@emits(ir.Extern)
def _extern(body: Body, stmt: ir.Extern) -> None:
    emit = OPS.get(stmt.op)
    if emit is None:
        raise ValueError(f"{stmt.span}: native code has no extern {stmt.op!r}")
    emit(body, stmt)


def _instance(body: Body, stmt: ir.Extern) -> tuple[ir.Instance, str]:
    """The instance and the address of its first element."""
    assert stmt.instance is not None
    word = table_layout.instance_word(body.program, stmt.instance)
    return body.program.instances[stmt.instance], body.machine_address(word)


# --- registers, counters, meters ------------------------------------------------------------------


def _at_element(body: Body, stmt: ir.Extern, stride: int, use: Callable[[str], None]) -> None:
    """Lets `use` work on the address of the indexed element; nothing happens beyond the last one."""
    instance, base = _instance(body, stmt)
    index = stmt.ins[0]
    if isinstance(index, ir.Const) and index.value >= instance.size:
        return
    text = value(body, index)
    inside = below(body, text, index.width, instance.size)
    wide = body.resized(text, index.width, 64)
    with body.when(inside, "element"):
        offset = body.fn.op(f"mul nuw i64 {wide}, {stride}")
        pointer = body.fn.op(f"getelementptr inbounds i8, ptr {base}, i64 {offset}")
        _leave(body, stmt, pointer)
        use(pointer)


def _leave(body: Body, stmt: ir.Extern, pointer: str) -> None:
    """Leaves an element's address in the trail."""
    word = body.unit.instance_trails.get((body.block, stmt.instance or 0))
    if word is not None:
        trail = body.machine_address(abi.TRAIL)
        number = body.fn.op(f"ptrtoint ptr {pointer} to i64")
        line = body.resized(body.shifted_right(number, 64, abi.TRAIL_SHIFT), 64, 32)
        body.fn.do(f"store i32 {line}, ptr {body.address(trail, word * 4)}, align 4")


@op("register.read")
def _register_read(body: Body, stmt: ir.Extern) -> None:
    instance, _ = _instance(body, stmt)
    offsets = table_layout.register_offsets(instance)

    def use(pointer: str) -> None:
        leaves = [
            body.load_natural(body.address(pointer, offset), target.width)
            for target, offset in zip(stmt.outs, offsets, strict=True)
        ]
        for target, leaf in zip(stmt.outs, leaves, strict=True):
            store(body, target, leaf)

    _at_element(body, stmt, table_layout.register_stride(instance), use)


@op("register.write")
def _register_write(body: Body, stmt: ir.Extern) -> None:
    instance, _ = _instance(body, stmt)
    offsets = table_layout.register_offsets(instance)

    def use(pointer: str) -> None:
        leaves = [value(body, leaf) for leaf in stmt.ins[1:]]
        for leaf, offset, width in zip(leaves, offsets, instance.elements, strict=True):
            body.store_natural(body.address(pointer, offset), leaf, width)

    _at_element(body, stmt, table_layout.register_stride(instance), use)


@op("counter.count")
def _count(body: Body, stmt: ir.Extern) -> None:
    length = body.load_row(abi.LENGTH)

    def use(pointer: str) -> None:
        body.fn.do(f"call void @count_cell(ptr {pointer}, i32 {length})")

    _at_element(body, stmt, table_layout.COUNTER_BYTES, use)


@op("meter.execute_meter")
def _execute_meter(body: Body, stmt: ir.Extern) -> None:
    target = stmt.outs[0]
    length, now = body.load_row(abi.LENGTH), body.load_word(abi.NOW)

    def use(pointer: str) -> None:
        call = f"call i32 @meter_execute(ptr {pointer}, i32 {length}, i64 {now})"
        store(body, target, body.resized(body.fn.op(call), 32, target.width))

    _at_element(body, stmt, table_layout.METER_BYTES, use)


@op("direct_counter.count", "direct_meter.read", "log_msg")
def _nothing(_body: Body, _stmt: ir.Extern) -> None:
    """The table's apply has counted and metered already; messages are the interpreter's to write."""


# --- hashes and checksums -------------------------------------------------------------------------


def _hashed(body: Body, stmt: ir.Extern, algorithm: str) -> str:
    """The hash as an i64."""
    payload = stmt.op.endswith("_with_payload")
    if algorithm == "csum16":
        return _checksum(body, stmt.data, payload)
    body.unit.hashes.add(algorithm)
    pointer, count = packed(body, stmt.data)
    saved = ""
    if payload:
        saved = body.fn.op("call ptr @llvm.stacksave.p0()")
        pointer, count = _with_payload(body, stmt, pointer, count)
    result = body.fn.op(f"call i64 @hash_{algorithm}(ptr %m, ptr {pointer}, i32 {count})")
    if saved:
        body.fn.do(f"call void @llvm.stackrestore.p0(ptr {saved})")
    return result


def _payload(body: Body) -> tuple[str, str, str]:
    """The stored payload's address, its bytes (i64), and those with what isn't stored."""
    fn = body.fn
    offset = fn.op(f"zext i32 {body.load_row(abi.PAYLOAD_OFFSET)} to i64")
    pointer = fn.op(f"getelementptr inbounds i8, ptr {data_pointer(body)}, i64 {offset}")
    sizes = []
    for field in (abi.STORED, abi.LENGTH):
        left = fn.op(f"call i64 @llvm.usub.sat.i64(i64 {packet_bytes(body, field)}, i64 {offset})")
        sizes.append(left)
    return pointer, sizes[0], sizes[1]


def _with_payload(body: Body, stmt: ir.Extern, head: str, count: str) -> tuple[str, str]:
    """Address and bytes of a copy of the packed fields with the payload behind them."""
    fn = body.fn
    source, stored, whole = _payload(body)
    size = fn.op(f"zext i32 {count} to i64")
    total = fn.op(f"add i64 {size}, {whole}")
    with body.when(fn.op(f"icmp ugt i64 {total}, {MAX_SUMMED}"), "long"):
        body.fail(f"a checksum over more than {MAX_SUMMED} bytes", stmt.span)
    room = fn.op(f"alloca i8, i64 {total}, align 16")
    move_bytes(body, room, head, size)
    behind = fn.op(f"getelementptr inbounds i8, ptr {room}, i64 {size}")
    zero_bytes(body, behind, whole)
    move_bytes(body, behind, source, stored)
    return room, body.resized(total, 64, 32)


def _checksum(body: Body, fields: Sequence[ir.DataField], payload: bool) -> str:
    """The Internet checksum; it folds a sum of 16-bit words, to which zeros add nothing."""
    fn = body.fn
    if fixed(fields):
        total, odd = _word_sum(body, fields)
    else:
        body.unit.hashes.add("csum16")
        pointer, count = packed(body, fields)
        total = fn.op(f"call i64 @hash_csum16(ptr %m, ptr {pointer}, i32 {count})")
        total = fn.op(f"xor i64 {total}, 65535")
        odd = fn.op(f"and i32 {count}, 1")
        odd = fn.op(f"icmp ne i32 {odd}, 0")
    if payload:
        source, stored, _ = _payload(body)
        body.unit.hashes.add("csum16")
        short = body.resized(stored, 64, 32)
        more = fn.op(f"call i64 @hash_csum16(ptr %m, ptr {source}, i32 {short})")
        more = fn.op(f"xor i64 {more}, 65535")
        # Behind an odd number of bytes, the payload's words lie a byte lower: times 256.
        shifted = body.shifted_left(more, 64, 8)
        more = fn.op(f"select i1 {odd}, i64 {shifted}, i64 {more}")
        total = fn.op(f"add i64 {total}, {more}")
    for bits, mask in ((32, 0xFFFFFFFF), (16, 0xFFFF), (16, 0xFFFF), (16, 0xFFFF)):
        total = _folded(body, total, bits, mask)
    return fn.op(f"xor i64 {total}, 65535")


def _folded(body: Body, total: str, bits: int, mask: int) -> str:
    low = body.fn.op(f"and i64 {total}, {mask}")
    return body.fn.op(f"add i64 {low}, {body.shifted_right(total, 64, bits)}")


def _word_sum(body: Body, fields: Sequence[ir.DataField]) -> tuple[str, str]:
    """A sum equal to that of the fields' 16-bit words modulo 0xffff, 0 only if all bits are.

    A word's bits weigh 2**0 to 2**15, and 2**16 is 1 modulo 0xffff: so each field counts with the
    weight of its lowest bit, without being laid out in bytes first. Pieces of 32 bits shifted by at
    most 15 leave room for 2**17 of them. Also gives whether the fields' bytes are odd in number.
    """
    fn = body.fn
    below_bits = sum(data.width for data in fields)
    odd = (below_bits + 7 >> 3) % 2
    below_bits += -below_bits % 16
    total = "0"
    for text, width in values_of(body, fields):
        below_bits -= width
        for low in range(0, width, 32):
            piece = body.shifted_right(text, width, low)
            if width - low > 32:
                piece = body.resized(piece, width, 32)
                piece = body.resized(piece, 32, 64)
            else:
                piece = body.resized(piece, width, 64)
            piece = body.shifted_left(piece, 64, below_bits % 16)
            total = piece if total == "0" else fn.op(f"add i64 {total}, {piece}")
    valid = next((data.valid for data in fields), None)
    if valid is None:
        return total, str(odd)
    known = body.load(valid)
    total = fn.op(f"select i1 {known}, i64 {total}, i64 0")
    return total, fn.op(f"and i1 {known}, {odd}")


@op("hash")
def _hash(body: Body, stmt: ir.Extern) -> None:
    fn = body.fn
    base, maximum = stmt.ins
    target = stmt.outs[0]
    hashed = _hashed(body, stmt, stmt.algorithm)
    rest = _remainder(body, hashed, maximum)
    start = body.resized(value(body, base), base.width, target.width)
    result = fn.op(f"add i{target.width} {start}, {body.resized(rest, 64, target.width)}")
    store(body, target, result)


def _remainder(body: Body, hashed: str, maximum: ir.Expr) -> str:
    """`hashed` modulo a maximum, 0 where that is 0 (i64)."""
    fn = body.fn
    if isinstance(maximum, ir.Const):
        top = maximum.value
        if not top:
            return "0"
        return hashed if top >> 64 else fn.op(f"urem i64 {hashed}, {top}")
    text = value(body, maximum)
    low = body.resized(text, maximum.width, 64)
    none = fn.op(f"icmp eq i64 {low}, 0")
    divisor = fn.op(f"select i1 {none}, i64 1, i64 {low}")
    rest = fn.op(f"urem i64 {hashed}, {divisor}")
    if maximum.width <= 64:
        return rest
    large = fn.op(f"icmp ugt i{maximum.width} {text}, {(1 << 64) - 1}")
    return fn.op(f"select i1 {large}, i64 {hashed}, i64 {rest}")


@op("verify_checksum", "verify_checksum_with_payload")
def _verify_checksum(body: Body, stmt: ir.Extern) -> None:
    fn = body.fn
    wanted, given = stmt.ins
    with body.when(value(body, wanted), "sum"):
        computed = _hashed(body, stmt, stmt.algorithm)
        wide = max(64, given.width)
        expected = body.resized(value(body, given), given.width, wide)
        computed = body.resized(computed, 64, wide)
        with body.when(fn.op(f"icmp ne i{wide} {computed}, {expected}"), "wrong"):
            body.store(body.program.standard_metadata["checksum_error"], "1")


@op("update_checksum", "update_checksum_with_payload")
def _update_checksum(body: Body, stmt: ir.Extern) -> None:
    with body.when(value(body, stmt.ins[0]), "sum"):
        computed = _hashed(body, stmt, stmt.algorithm)
        target = stmt.outs[0]
        store(body, target, body.resized(computed, 64, target.width))


@op("Checksum16.get")
def _checksum16(body: Body, stmt: ir.Extern) -> None:
    target = stmt.outs[0]
    store(body, target, body.resized(_hashed(body, stmt, "csum16"), 64, target.width))


@op("random")
def _random(body: Body, stmt: ir.Extern) -> None:
    low, high = stmt.ins
    target = stmt.outs[0]
    width = max(low.width, high.width)
    body.unit.random_widths.add(width)
    ends = [body.resized(value(body, end), end.width, width) for end in (low, high)]
    drawn = body.fn.op(
        f"call i{width} @random_between_{width}(ptr %m, i{width} {ends[0]}, i{width} {ends[1]})"
    )
    store(body, target, body.resized(drawn, width, target.width))
