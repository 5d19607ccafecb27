"""Reading headers from a packet and writing them to one, as LLVM text.

The slot POSITION counts bytes, or bits in a program whose headers aren't whole bytes. Errors come in
the interpreter's order: ParserInvalidArgument, PacketTooShort, HeaderTooShort; a failed extract leaves
header and position alone. Where a parser's reach has no bound, STORED is watched too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sglb.p4 import ir
from sglb.p4.native import abi, table_layout
from sglb.p4.native.emit_bits import (
    load_bits,
    load_fields,
    put_bits,
    store_fields,
)
from sglb.p4.native.emit_expr import element_at, value
from sglb.p4.native.emit_stmt import at_header, emits, zero_bytes
from sglb.p4.native.unit import ERROR, POSITION, Body

Fields = Sequence[ir.HeaderField]


def fixed_width(fields: Fields) -> int:
    """Bits of the fields that are no varbits."""
    return sum(f.width for f in fields if not f.varbit)


def data_pointer(body: Body) -> str:
    """Where the packet's stored bytes lie."""
    pointer = body.row_word(abi.DATA)
    return body.fn.at_start(f"load ptr, ptr {pointer}, align 8")


def packet_bytes(body: Body, index: int) -> str:
    """LENGTH or STORED as an i64."""
    pointer = body.row(index)
    short = body.fn.at_start(f"load i32, ptr {pointer}, align 4")
    return body.fn.at_start(f"zext i32 {short} to i64")


def _in_units(body: Body, count: str) -> str:
    """A number of bytes (i64) in the unit of POSITION."""
    return body.shifted_left(count, 64, 3) if body.unit.unaligned else count


def in_bits(body: Body, position: str) -> str:
    """A position in bits."""
    return position if body.unit.unaligned else body.shifted_left(position, 64, 3)


def parser_error(body: Body, cond: str, name: str) -> None:
    """Stops the parser with a core error if the i1 holds."""
    with body.when(cond, "error"):
        body.store(ERROR, str(body.unit.error(name)))
        body.fn.jump(body.exits.on_stop)


# --- extract --------------------------------------------------------------------------------------


@emits(ir.Extract)
def _extract(body: Body, stmt: ir.Extract) -> None:
    if stmt.header is None:
        end, _ = _checked_end(body, stmt.width, stmt.var_bits, None)
        body.store(POSITION, end)
        return
    at_header(
        body,
        stmt.header,
        lambda header, shift: _extract_header(body, header, shift, stmt.var_bits),
    )


@emits(ir.ExtractNext)
def _extract_next(body: Body, stmt: ir.ExtractNext) -> None:
    fn, array = body.fn, body.program.arrays[stmt.array]
    assert array.next is not None
    index = body.load(array.next)
    parser_error(body, fn.op(f"icmp uge i32 {index}, {array.size}"), "StackOutOfBounds")
    if not array.size:
        return
    _, shift = element_at(body, array, index, 32)
    _extract_header(body, body.program.headers[array.headers[0]], shift, stmt.var_bits)
    body.store(array.next, fn.op(f"add i32 {index}, 1"))


def _checked_end(
    body: Body, width: int, var_bits: ir.Expr | None, limit: int | None
) -> tuple[str, str]:
    """Tests what an extract needs; gives the position behind it and the varying bits (i64)."""
    fn = body.fn
    unit_bits = 1 if body.unit.unaligned else 8
    whole, variable = str(width // unit_bits), ""
    if var_bits is not None:
        given = value(body, var_bits)
        odd = fn.op(f"and i32 {given}, 7")
        parser_error(body, fn.op(f"icmp ne i32 {odd}, 0"), "ParserInvalidArgument")
        variable = fn.op(f"zext i32 {given} to i64")
        moving = variable if body.unit.unaligned else body.shifted_right(variable, 64, 3)
        whole = fn.op(f"add i64 {moving}, {width // unit_bits}")
    end = fn.op(f"add i64 {body.load(POSITION)}, {whole}")
    _must_exist(body, end)
    if variable and limit is not None:
        parser_error(body, fn.op(f"icmp ugt i64 {variable}, {limit}"), "HeaderTooShort")
    return end, variable


def _must_exist(body: Body, end: str) -> None:
    """PacketTooShort unless the packet goes on to `end`."""
    length = _in_units(body, packet_bytes(body, abi.LENGTH))
    parser_error(body, body.fn.op(f"icmp ugt i64 {end}, {length}"), "PacketTooShort")


def _must_be_stored(body: Body, end: str) -> None:
    """STATUS_SHORT_ROW unless the bytes up to `end` are there, where nobody promised that."""
    if body.unit.max_parse_bytes is None:
        stored = _in_units(body, packet_bytes(body, abi.STORED))
        with body.when(body.fn.op(f"icmp ugt i64 {end}, {stored}"), "short"):
            body.fail_with(str(abi.STATUS_SHORT_ROW))


def _extract_header(
    body: Body, header: ir.Header, shift: str | None, var_bits: ir.Expr | None
) -> None:
    fields = header.fields
    width = fixed_width(fields)
    if not width and var_bits is None:
        body.store(header.valid, "1", shift)
        return
    limit = sum(f.width for f in fields if f.varbit)
    start = body.load(POSITION)
    end, variable = _checked_end(body, width, var_bits, limit)
    _must_be_stored(body, end)
    body.store(header.valid, "1", shift)
    if body.unit.unaligned or limit:
        _take_bits(body, fields, shift, in_bits(body, start), variable)
    else:
        source = body.fn.op(f"getelementptr inbounds i8, ptr {data_pointer(body)}, i64 {start}")
        values = load_fields(body, source, [f.width for f in fields])
        for field, text in zip(fields, values, strict=True):
            body.store(field.slot, text, shift)
    body.store(POSITION, end)


def _take_bits(body: Body, fields: Fields, shift: str | None, position: str, variable: str) -> None:
    """Reads fields one by one from bit `position` on."""
    fn, data = body.fn, data_pointer(body)
    for field in fields:
        if field.varbit:
            bits = variable or "0"
            _take_varbit(body, field, shift, position, bits)
            position = fn.op(f"add i64 {position}, {bits}")
        else:
            body.store(field.slot, load_bits(body, data, position, field.width), shift)
            position = fn.op(f"add i64 {position}, {field.width}")


def _take_varbit(
    body: Body, field: ir.HeaderField, shift: str | None, position: str, bits: str
) -> None:
    fn = body.fn
    target, data = body.pointer(field.slot, shift), data_pointer(body)
    zero_bytes(body, target, table_layout.natural_bytes(field.width))
    count = body.shifted_right(bits, 64, 3)

    def each(index: str) -> None:
        ahead = fn.op(f"shl i64 {index}, 3")
        at = fn.op(f"add i64 {position}, {ahead}")
        byte = load_bits(body, data, at, 8)
        down = fn.op(f"sub i64 {count}, {index}")
        to = fn.op(f"getelementptr i8, ptr {target}, i64 {down}")
        to = fn.op(f"getelementptr i8, ptr {to}, i64 -1")
        fn.do(f"store i8 {byte}, ptr {to}, align 1")

    repeat(body, count, each)
    body.store(field.slot + 1, body.resized(bits, 64, 32), shift)


def repeat(body: Body, count: str, each: Callable[[str], None]) -> None:
    """Runs `each` with the numbers (i64) from 0 on that are less than `count`."""
    fn = body.fn
    head, run, after = fn.label("each"), fn.label("run"), fn.label("end")
    index = fn.alloca("i64")
    fn.do(f"store i64 0, ptr {index}")
    fn.place_target(head)
    now = fn.op(f"load i64, ptr {index}")
    fn.branch(fn.op(f"icmp ult i64 {now}, {count}"), run, after)
    fn.place(run)
    each(now)
    fn.do(f"store i64 {fn.op(f'add i64 {now}, 1')}, ptr {index}")
    fn.jump(head)
    fn.place(after)


# --- the rest of packet_in ------------------------------------------------------------------------


@emits(ir.StackLast)
def _stack_last(body: Body, stmt: ir.StackLast) -> None:
    array = body.program.arrays[stmt.array]
    assert array.next is not None
    empty = body.fn.op(f"icmp eq i32 {body.load(array.next)}, 0")
    parser_error(body, empty, "StackOutOfBounds")


@emits(ir.Advance)
def _advance(body: Body, stmt: ir.Advance) -> None:
    fn = body.fn
    bits = value(body, stmt.bits)
    odd = fn.op(f"and i32 {bits}, 7")
    parser_error(body, fn.op(f"icmp ne i32 {odd}, 0"), "ParserInvalidArgument")
    ahead = body.resized(bits, 32, 64)
    if not body.unit.unaligned:
        ahead = body.shifted_right(ahead, 64, 3)
    end = fn.op(f"add i64 {body.load(POSITION)}, {ahead}")
    _must_exist(body, end)
    body.store(POSITION, end)


@emits(ir.Lookahead)
def _lookahead(body: Body, stmt: ir.Lookahead) -> None:
    fn = body.fn
    start = body.load(POSITION)
    ahead = stmt.width if body.unit.unaligned else stmt.width + 7 >> 3
    end = fn.op(f"add i64 {start}, {ahead}")
    _must_exist(body, end)
    if not stmt.width:
        body.store(stmt.target, "0")
        return
    _must_be_stored(body, end)
    data = data_pointer(body)
    if body.unit.unaligned:
        body.store(stmt.target, load_bits(body, data, start, stmt.width))
        return
    source = fn.op(f"getelementptr inbounds i8, ptr {data}, i64 {start}")
    (text,) = load_fields(body, source, [stmt.width])
    body.store(stmt.target, text)


@emits(ir.Verify)
def _verify(body: Body, stmt: ir.Verify) -> None:
    with body.when(body.fn.op(f"xor i1 {value(body, stmt.cond)}, 1"), "error"):
        body.store(ERROR, value(body, stmt.error))
        body.fn.jump(body.exits.on_stop)


# --- emit -----------------------------------------------------------------------------------------


@emits(ir.Emit)
def _emit(body: Body, stmt: ir.Emit) -> None:
    header = body.program.headers[stmt.header]
    if not header.fields:
        return
    with body.when(body.load(header.valid), "emit"):
        if body.unit.watch_output:
            _must_fit(body, header, stmt)
        out = body.load_address(abi.OUT)
        position = body.load(POSITION)
        if body.unit.unaligned or any(f.varbit for f in header.fields):
            at = put_fields(body, header.fields, out, in_bits(body, position))
            body.store(POSITION, at if body.unit.unaligned else body.shifted_right(at, 64, 3))
            return
        target = body.fn.op(f"getelementptr inbounds i8, ptr {out}, i64 {position}")
        fields = [(body.load(f.slot), f.width) for f in header.fields]
        size = store_fields(body, target, fields)
        body.store(POSITION, body.fn.op(f"add i64 {position}, {size}"))


def _must_fit(body: Body, header: ir.Header, stmt: ir.Emit) -> None:
    most = sum(f.width for f in header.fields) + 7 >> 3
    room = (body.unit.max_header_bytes - 8 - most) * (8 if body.unit.unaligned else 1)
    with body.when(body.fn.op(f"icmp ugt i64 {body.load(POSITION)}, {room}"), "full"):
        body.fail(
            f"the deparser writes more than {body.unit.max_header_bytes - 8} bytes of headers",
            stmt.span,
        )


def put_fields(body: Body, fields: Fields, out: str, position: str) -> str:
    """Appends a header's fields from bit `position` on; gives the next position."""
    for field in fields:
        if field.varbit:
            bits = body.fn.op(f"zext i32 {body.load(field.slot + 1)} to i64")
            position = put_varbit(body, out, position, body.pointer(field.slot), bits)
        else:
            text = body.load(field.slot)
            position = put_bits(body, out, position, text, field.width)
    return position


def put_varbit(body: Body, out: str, position: str, source: str, bits: str) -> str:
    """Appends a varbit's `bits` (i64) lowest bits, which lie at `source`; gives the next position."""
    fn = body.fn
    count = body.shifted_right(bits, 64, 3)

    def each(index: str) -> None:
        down = fn.op(f"sub i64 {count}, {index}")
        at = fn.op(f"getelementptr i8, ptr {source}, i64 {down}")
        at = fn.op(f"getelementptr i8, ptr {at}, i64 -1")
        byte = fn.op(f"load i8, ptr {at}, align 1")
        ahead = fn.op(f"shl i64 {index}, 3")
        put_bits(body, out, fn.op(f"add i64 {position}, {ahead}"), byte, 8)

    repeat(body, count, each)
    return fn.op(f"add i64 {position}, {bits}")
