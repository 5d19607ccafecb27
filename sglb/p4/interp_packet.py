"""Reading headers from a packet and writing them to one, as Python source.

The cursor `m.pos` counts bits. A header goes through `struct` as the machine words between the byte
boundaries of its fields, which are then split by shifts; one with a varbit, or in a program whose
headers aren't whole bytes, as one big number. Errors come in BMv2's order: ParserInvalidArgument,
then PacketTooShort, then HeaderTooShort; a failed extract leaves header and cursor alone, so that
what it would have taken stays in the payload.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from sglb.p4 import ir
from sglb.p4.interp_code import Body, literal, span_name, total_width
from sglb.p4.interp_expr import assigned, condition
from sglb.p4.interp_stmt import emits, header_at
from sglb.p4.runtime import Trace
from sglb.p4.source import Span

_CODES = {8: "B", 16: "H", 32: "I", 64: "Q"}


def read_bits(data: bytes, pos: int, width: int) -> int:
    """`width` bits from bit `pos`; the caller has made sure that they exist."""
    end = pos + width
    last = end + 7 >> 3
    return int.from_bytes(data[pos >> 3 : last], "big") >> (last * 8 - end) & (1 << width) - 1


# --- extract --------------------------------------------------------------------------------------


@emits(ir.Extract)
def _extract(body: Body, stmt: ir.Extract) -> None:
    if stmt.header is None:
        width = _checked_end(body, stmt.width, stmt.var_bits, stmt.span)[1]
        body.line(f"m.pos += {width}")
        return
    header, offset, test = header_at(body, stmt.header)
    if test:
        with body.block(test):
            _extract_header(body, header, offset, stmt.var_bits, stmt.span)
    else:
        _extract_header(body, header, offset, stmt.var_bits, stmt.span)


@emits(ir.ExtractNext)
def _extract_next(body: Body, stmt: ir.ExtractNext) -> None:
    array = body.unit.program.arrays[stmt.array]
    index, offset = body.temp("i"), body.temp("o")
    body.line(f"{index} = f[{array.next}]")
    with body.block(f"if {index} >= {array.size}:"):
        _fail(body, "StackOutOfBounds", stmt.span)
    body.line(f"{offset} = {index} * {array.stride}")
    header = body.unit.program.headers[array.headers[0]]
    _extract_header(body, header, f"{offset} + ", stmt.var_bits, stmt.span)
    body.line(f"f[{array.next}] = {index} + 1")


def _fail(body: Body, error: str, span: Span) -> None:
    if body.unit.traced:
        body.line(f"m.trace.error({error!r}, {span_name(body.unit, span)})")
    body.fail(error)


def _checked_end(
    body: Body, width: int, var_bits: ir.Expr | None, span: Span, limit: int | None = None
) -> tuple[str, str, str]:
    """Tests what an extract needs; gives names of its end, whole width and varying bits."""
    variable = ""
    whole = str(width)
    if var_bits is not None:
        variable, whole = body.temp("n"), body.temp("w")
        body.line(f"{variable} = {assigned(body, var_bits)}")
        with body.block(f"if {variable} & 7:"):
            _fail(body, "ParserInvalidArgument", span)
        body.line(f"{whole} = {width} + {variable}")
    end = body.temp("q")
    body.line(f"{end} = m.pos + {whole}")
    with body.block(f"if {end} > m.end:"):
        _fail(body, "PacketTooShort", span)
    if variable and limit is not None:
        with body.block(f"if {variable} > {limit}:"):
            _fail(body, "HeaderTooShort", span)
    return end, whole, variable


def _extract_header(
    body: Body, header: ir.Header, offset: str, var_bits: ir.Expr | None, span: Span
) -> None:
    fields = header.fields
    width = total_width(fields)
    limit = sum(f.width for f in fields if f.varbit)
    if not width and var_bits is None:
        body.line(f"f[{offset}{header.valid}] = 1")
    else:
        end, whole, variable = _checked_end(body, width, var_bits, span, limit)
        body.line(f"f[{offset}{header.valid}] = 1")
        if body.unit.unaligned or limit:
            number = body.temp("v")
            body.line(f"{number} = {_number(body, end, whole)}")
            _take_apart(body, header, offset, number, variable)
        else:
            _unpack(body, header, offset)
        body.line(f"m.pos = {end}")
    if body.unit.traced:
        show = body.unit.bind("show_header", _show_header)
        bound = body.unit.bind("header", header)
        at = offset.removesuffix(" + ") or "0"
        body.line(f"{show}(m.trace, f, {bound}, {at}, {span_name(body.unit, span)})")


def _number(body: Body, end: str, whole: str) -> str:
    if body.unit.unaligned:
        return f"{body.unit.bind('read_bits', read_bits)}(m.data, m.pos, {whole})"
    return f"from_bytes(m.data[m.pos >> 3:{end} >> 3], 'big')"


@dataclass(frozen=True, slots=True)
class _Group:
    """Neighbouring fields that end at a whole byte, and the machine words that hold their bits."""

    fields: tuple[ir.HeaderField, ...]
    words: tuple[int, ...]


def _groups(header: ir.Header) -> list[_Group]:
    """A header of fixed fields, cut at every byte boundary between two of them."""
    groups = []
    fields: list[ir.HeaderField] = []
    width = 0
    for field in header.fields:
        fields.append(field)
        width += field.width
        if width % 8 == 0:
            words = []
            while width:
                word = next(w for w in (64, 32, 16, 8) if w <= width)
                words.append(word)
                width -= word
            groups.append(_Group(tuple(fields), tuple(words)))
            fields = []
    return groups


def _struct(groups: Sequence[_Group]) -> struct.Struct:
    return struct.Struct(">" + "".join(_CODES[word] for g in groups for word in g.words))


def _unpack(body: Body, header: ir.Header, offset: str) -> None:
    """Reads a header by one `struct` call, then splits the words that hold several fields."""
    groups = _groups(header)
    targets: list[str] = []
    splits: list[tuple[_Group, list[str]]] = []
    for group in groups:
        if len(group.fields) == len(group.words) == 1:
            targets.append(f"f[{offset}{group.fields[0].slot}]")
        else:
            names = [body.temp("v") for _ in group.words]
            targets += names
            splits.append((group, names))
    unpack = body.unit.bind("unpack", _struct(groups).unpack_from)
    body.line(f"{', '.join(targets)}, = {unpack}(m.data, m.pos >> 3)")
    for group, names in splits:
        below = sum(group.words)
        whole = ""
        for name, word in zip(names, group.words, strict=True):
            below -= word
            whole += (" | " if whole else "") + (f"{name} << {below}" if below else name)
        if len(group.fields) == 1:
            body.line(f"f[{offset}{group.fields[0].slot}] = {whole}")
            continue
        if len(names) > 1:
            body.line(f"{names[0]} = {whole}")
        _split(body, group.fields, offset, names[0])


def _split(body: Body, fields: Sequence[ir.HeaderField], offset: str, number: str) -> None:
    below = sum(f.width for f in fields)
    for at, field in enumerate(fields):
        below -= field.width
        mask = f" & {literal((1 << field.width) - 1)}" if at else ""
        body.line(f"f[{offset}{field.slot}] = {_shifted(number, below, '')}{mask}")


def _take_apart(body: Body, header: ir.Header, offset: str, number: str, variable: str) -> None:
    """Assigns every field from the number that the header's bits make."""
    below = header_width = total_width(header.fields)
    moving = bool(variable)  # the varbit still lies below
    for field in header.fields:
        slot = f"f[{offset}{field.slot}]"
        if field.varbit:
            moving = False
            size = variable or "0"
            body.line(f"{slot} = {_shifted(number, below, '')} & (1 << {size}) - 1")
            body.line(f"f[{offset}{field.slot + 1}] = {size}")
            continue
        top = below == header_width and not moving and not variable
        below -= field.width
        part = _shifted(number, below, variable if moving else "")
        mask = "" if top else f" & {literal((1 << field.width) - 1)}"
        body.line(f"{slot} = {part}{mask}")


def _shifted(number: str, below: int, variable: str) -> str:
    if variable:
        return f"{number} >> {below} + {variable}"
    return f"{number} >> {below}" if below else number


def _show_header(
    trace: Trace, frame: list[int], header: ir.Header, offset: int, span: Span
) -> None:
    fields = {field.name: frame[offset + field.slot] for field in header.fields}
    trace.extract(header.name, fields, span)


# --- the rest of packet_in ------------------------------------------------------------------------


@emits(ir.StackLast)
def _stack_last(body: Body, stmt: ir.StackLast) -> None:
    array = body.unit.program.arrays[stmt.array]
    with body.block(f"if not f[{array.next}]:"):
        _fail(body, "StackOutOfBounds", stmt.span)


@emits(ir.Advance)
def _advance(body: Body, stmt: ir.Advance) -> None:
    bits = body.temp("n")
    body.line(f"{bits} = {assigned(body, stmt.bits)}")
    with body.block(f"if {bits} & 7:"):
        _fail(body, "ParserInvalidArgument", stmt.span)
    with body.block(f"if m.pos + {bits} > m.end:"):
        _fail(body, "PacketTooShort", stmt.span)
    body.line(f"m.pos += {bits}")


@emits(ir.Lookahead)
def _lookahead(body: Body, stmt: ir.Lookahead) -> None:
    with body.block(f"if m.pos + {stmt.width} > m.end:"):
        _fail(body, "PacketTooShort", stmt.span)
    if body.unit.unaligned:
        read = body.unit.bind("read_bits", read_bits)
        body.line(f"f[{stmt.target}] = {read}(m.data, m.pos, {stmt.width})")
        return
    last = f"m.pos + {stmt.width + 7} >> 3"
    spare = -stmt.width % 8
    shift = f" >> {spare}" if spare else ""
    body.line(f"f[{stmt.target}] = from_bytes(m.data[m.pos >> 3:{last}], 'big'){shift}")


@emits(ir.Verify)
def _verify(body: Body, stmt: ir.Verify) -> None:
    with body.block(f"if not {condition(body, stmt.cond)}:"):
        body.line(f"m.error = {assigned(body, stmt.error)}")
        if body.unit.traced:
            names = body.unit.bind("errors", body.unit.program.errors)
            body.line(f"m.trace.error({names}[m.error], {span_name(body.unit, stmt.span)})")
        body.stop()


# --- emit -----------------------------------------------------------------------------------------


@emits(ir.Emit)
def _emit(body: Body, stmt: ir.Emit) -> None:
    header = body.unit.program.headers[stmt.header]
    with body.block(f"if f[{header.valid}]:"):
        if body.unit.traced:
            span = span_name(body.unit, stmt.span)
            body.line(f"m.trace.emit({body.unit.bind('name', header.name)}, {span})")
        if body.unit.unaligned:
            for field in header.fields:
                width = f"f[{field.slot + 1}]" if field.varbit else str(field.width)
                body.line(f"m.put(f[{field.slot}], {width})")
        elif header.fields:
            body.line(f"m.out.append({_header_bytes(body, header)})")


def _header_bytes(body: Body, header: ir.Header) -> str:
    varying = next((f for f in header.fields if f.varbit), None)
    if varying is None:
        groups = _groups(header)
        words = ", ".join(_words(body, group) for group in groups)
        return f"{body.unit.bind('pack', _struct(groups).pack)}({words})"
    length = f"f[{varying.slot + 1}]"
    below, moving = total_width(header.fields), True
    size = f"{below} + {length} >> 3"
    parts = []
    for field in header.fields:
        if field.varbit:
            moving = False
        else:
            below -= field.width
        shift = f"{below} + {length}" if moving else str(below)
        parts.append(f"f[{field.slot}]" + ("" if shift == "0" else f" << {shift}"))
    return f"({' | '.join(parts)}).to_bytes({size}, 'big')"


def _words(body: Body, group: _Group) -> str:
    """The machine words that a group's fields make, as arguments."""
    below = sum(group.words)
    parts = []
    for field in group.fields:
        below -= field.width
        parts.append(f"f[{field.slot}] << {below}" if below else f"f[{field.slot}]")
    whole = " | ".join(parts)
    if len(group.words) == 1:
        return whole
    if len(group.fields) > 1:
        name = body.temp("v")
        body.line(f"{name} = {whole}")
        whole = name
    below = sum(group.words)
    words = []
    for at, word in enumerate(group.words):
        below -= word
        shifted = f"{whole} >> {below}" if below else whole
        words.append(f"{shifted} & {literal((1 << word) - 1)}" if at else shifted)
    return ", ".join(words)
