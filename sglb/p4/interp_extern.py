"""v1model's externs as Python source, with BMv2's behaviour (operands: see `ir.Extern`).

Reads outside a register or meter leave their result unwritten. `hash` gives base + H mod max, base
when max is 0, cut to the result's width. A session id keeps its low 15 bits. The last clone,
resubmit or recirculate of a block holds; several truncates leave the shortest. `random` with lo >
hi gives lo.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Final

from sglb.p4 import ir
from sglb.p4.hashing import fold_sum
from sglb.p4.interp_code import Body, literal, span_name
from sglb.p4.interp_expr import assigned, condition, largest, value
from sglb.p4.interp_stmt import emits, store
from sglb.p4.interp_table import packed
from sglb.p4.runtime import ExternFailure, PacketContext, Request, Trace
from sglb.p4.source import Span

#: Where `log_msg` writes.
LOGGER: Final = logging.getLogger("sglb.p4.log_msg")

#: v1model's port that means "drop".
DROP_PORT: Final = 511

#: The highest field list index and clone session that BMv2 keeps.
SESSION_MASK: Final = 0x7FFF

_Emitter = Callable[[Body, ir.Extern], None]
_OPS: dict[str, _Emitter] = {}


def _op(*names: str) -> Callable[[_Emitter], _Emitter]:
    def register(function: _Emitter) -> _Emitter:
        for name in names:
            _OPS[name] = function
        return function

    return register


@emits(ir.Extern)
def _extern(body: Body, stmt: ir.Extern) -> None:
    emit = _OPS.get(stmt.op)
    if emit is None:
        raise ValueError(f"{stmt.span}: the interpreter has no extern {stmt.op!r}")
    if not body.unit.traced:
        emit(body, stmt)
        return
    ins = body.temp("ins")
    body.line(f"{ins} = ({''.join(f'{assigned(body, e)}, ' for e in stmt.ins)})")
    emit(body, stmt)
    instance = "" if stmt.instance is None else body.unit.program.instances[stmt.instance].name
    slots = [o.slot for o in stmt.outs if isinstance(o, ir.SlotRef)]
    outs = "".join(f"f[{slot}], " for slot in slots)
    name, op = body.unit.bind("name", instance), body.unit.bind("name", stmt.op)
    body.line(f"m.trace.extern({op}, {name}, {ins}, ({outs}), {span_name(body.unit, stmt.span)})")


def _instance(body: Body, stmt: ir.Extern, role: str) -> str:
    assert stmt.instance is not None
    return body.unit.link(role, stmt.instance)


# --- registers, counters, meters ------------------------------------------------------------------


@_op("register.read")
def _register_read(body: Body, stmt: ir.Extern) -> None:
    element = body.temp("e")
    if len(stmt.outs) == 1:
        _at_element(body, stmt, lambda text: store(body, stmt.outs[0], text, stmt.span))
        return

    def each_leaf(text: str) -> None:
        body.line(f"{element} = {text}")
        for leaf, target in enumerate(stmt.outs):
            store(body, target, f"{element}[{leaf}]", stmt.span)

    _at_element(body, stmt, each_leaf)


@_op("register.write")
def _register_write(body: Body, stmt: ir.Extern) -> None:
    leaves = [value(body, leaf) for leaf in stmt.ins[1:]]
    new = assigned(body, stmt.ins[1]) if len(leaves) == 1 else f"({', '.join(leaves)})"
    _at_element(body, stmt, lambda text: body.line(f"{text} = {new}"))


def _at_element(body: Body, stmt: ir.Extern, use: Callable[[str], None]) -> None:
    """Writes what `use` makes of the indexed element, under a test unless the index always fits."""
    register = _instance(body, stmt, "register")
    index = stmt.ins[0]
    assert stmt.instance is not None
    size = body.unit.program.instances[stmt.instance].size
    if largest(index) < size:
        use(f"{register}.values[{assigned(body, index)}]")
        return
    values, at = body.temp("v"), body.temp("i")
    body.line(f"{at} = {assigned(body, index)}")
    body.line(f"{values} = {register}.values")
    with body.block(f"if {at} < len({values}):"):
        use(f"{values}[{at}]")


@_op("counter.count")
def _count(body: Body, stmt: ir.Extern) -> None:
    count = _instance(body, stmt, "tally")
    body.line(f"{count}({assigned(body, stmt.ins[0])}, m.length)")


@_op("meter.execute_meter")
def _execute_meter(body: Body, stmt: ir.Extern) -> None:
    execute = _instance(body, stmt, "execute")
    colour = body.temp("c")
    body.line(f"{colour} = {execute}({assigned(body, stmt.ins[0])}, m.length, m.now_ps)")
    with body.block(f"if {colour} is not None:"):
        store(body, stmt.outs[0], f"int({colour})", stmt.span)


@_op("direct_counter.count", "direct_meter.read")
def _done_by_the_table(_body: Body, _stmt: ir.Extern) -> None:
    """The table's apply has counted and metered already."""


# --- hashes and checksums -------------------------------------------------------------------------


def _hashed(body: Body, stmt: ir.Extern, algorithm: str) -> str:
    if algorithm == "csum16" and not stmt.op.endswith("_with_payload"):
        total = _word_sum(body, stmt.data)
        if total:
            return f"{body.unit.bind('fold', fold_sum)}({total})"
    function = body.unit.link("hash", algorithm)
    data = packed(body, stmt.data)
    if stmt.op.endswith("_with_payload"):
        data = f"{data} + m.data[m.context.payload_offset:]"
    return f"{function}({data})"


def _word_sum(body: Body, fields: Sequence[ir.DataField]) -> str:
    """Source of a sum equal to that of the fields' 16-bit words modulo 0xffff; "" if it may vary.

    A word's bits weigh 2**0 to 2**15, and 2**16 is 1 modulo 0xffff: so each field counts with the
    weight of its lowest bit alone, without being laid out in bytes first.
    """
    valid = {data.valid for data in fields}
    if len(valid) != 1 or any(data.length is not None for data in fields):
        return ""
    below = sum(data.width for data in fields)
    below += -below % 16
    parts = []
    for data in fields:
        below -= data.width
        part = value(body, data.value)
        parts.append(f"({part} << {below % 16})" if below % 16 else part)
    slot = next(iter(valid))
    total = " + ".join(parts)
    return total if slot is None else f"{total} if f[{slot}] else 0"


def _store_cut(body: Body, target: ir.LValue, text: str, known_bits: int, span: Span) -> None:
    """Stores a result of at most `known_bits` bits, cut to the target's width where it must be."""
    cut = "" if known_bits <= target.width else f" & {literal((1 << target.width) - 1)}"
    store(body, target, text + cut, span)


_HASH_BITS = {"crc16": 16, "crc16_custom": 16, "csum16": 16, "xor16": 16, "identity": 64}


@_op("hash")
def _hash(body: Body, stmt: ir.Extern) -> None:
    base, maximum = stmt.ins
    hashed = _hashed(body, stmt, stmt.algorithm)
    target = stmt.outs[0]
    start = value(body, base)
    if isinstance(maximum, ir.Const):
        top = maximum.value
        if top & (top - 1) == 0 and top:
            hashed = f"({hashed} & {literal(top - 1)})"
        else:
            hashed = f"{hashed} % {literal(top)}" if top else "0"
        known = max(top - 1, 0).bit_length()
    else:
        hashed = f"{hashed} % ({value(body, maximum)} or 1)"
        known = target.width + 1
    if isinstance(base, ir.Const) and base.value == 0:
        bits = min(known, _HASH_BITS.get(stmt.algorithm, 32))
        _store_cut(body, target, hashed, bits, stmt.span)
    else:
        _store_cut(body, target, f"{start} + {hashed}", target.width + 1, stmt.span)


@_op("verify_checksum", "verify_checksum_with_payload")
def _verify_checksum(body: Body, stmt: ir.Extern) -> None:
    wanted, given = stmt.ins
    with body.block(f"if {condition(body, wanted)}:"):
        computed = _hashed(body, stmt, stmt.algorithm)
        with body.block(f"if {computed} != {value(body, given)}:"):
            slot = body.unit.program.standard_metadata["checksum_error"]
            body.line(f"f[{slot}] = 1")


@_op("update_checksum", "update_checksum_with_payload")
def _update_checksum(body: Body, stmt: ir.Extern) -> None:
    with body.block(f"if {condition(body, stmt.ins[0])}:"):
        computed = _hashed(body, stmt, stmt.algorithm)
        bits = _HASH_BITS.get(stmt.algorithm, 32)
        _store_cut(body, stmt.outs[0], computed, bits, stmt.span)


@_op("Checksum16.get")
def _checksum16(body: Body, stmt: ir.Extern) -> None:
    _store_cut(body, stmt.outs[0], _hashed(body, stmt, "csum16"), 16, stmt.span)


@_op("random")
def _random(body: Body, stmt: ir.Extern) -> None:
    low, high = (value(body, e) for e in stmt.ins)
    target = stmt.outs[0]
    mask = literal((1 << target.width) - 1)
    store(body, target, f"rng.between({low}, {high}) & {mask}", stmt.span)


# --- what a packet asks of the target -------------------------------------------------------------


@_op("mark_to_drop")
def _mark_to_drop(body: Body, stmt: ir.Extern) -> None:
    egress_spec, mcast_grp = stmt.outs
    store(body, egress_spec, str(DROP_PORT), stmt.span)
    store(body, mcast_grp, "0", stmt.span)


def _preserved(body: Body, stmt: ir.Extern) -> tuple[int | None, tuple[int, ...]]:
    """The field list's index and slots that a request keeps."""
    if stmt.op.endswith("_preserving_field_list"):
        return stmt.number, tuple(body.unit.program.field_lists.get(stmt.number, ()))
    return None, stmt.preserved


@_op("clone", "clone3", "clone_preserving_field_list")
def _clone(body: Body, stmt: ir.Extern) -> None:
    kind, session = stmt.ins
    request, kept = (
        body.unit.bind("request", Request),
        body.unit.bind("kept", _preserved(body, stmt)),
    )
    made = f"{request}({value(body, session)} & {SESSION_MASK}, *{kept})"
    if isinstance(kind, ir.Const):
        body.line(f"m.context.{'clone_egress' if kind.value else 'clone'} = {made}")
        return
    with body.block(f"if {condition(body, kind)}:"):
        body.line(f"m.context.clone_egress = {made}")
    with body.block("else:"):
        body.line(f"m.context.clone = {made}")


@_op("resubmit", "resubmit_preserving_field_list")
def _resubmit(body: Body, stmt: ir.Extern) -> None:
    _again(body, stmt, "resubmit")


@_op("recirculate", "recirculate_preserving_field_list")
def _recirculate(body: Body, stmt: ir.Extern) -> None:
    _again(body, stmt, "recirculate")


def _again(body: Body, stmt: ir.Extern, name: str) -> None:
    request, kept = (
        body.unit.bind("request", Request),
        body.unit.bind("kept", _preserved(body, stmt)),
    )
    body.line(f"m.context.{name} = {request}(0, *{kept})")


@_op("truncate")
def _truncate(body: Body, stmt: ir.Extern) -> None:
    body.line(f"{body.unit.bind('cut', _cut)}(m.context, {assigned(body, stmt.ins[0])})")


def _cut(context: PacketContext, length: int) -> None:
    before = context.truncate_bytes
    context.truncate_bytes = length if before is None else min(before, length)


@_op("digest")
def _digest(body: Body, stmt: ir.Extern) -> None:
    values = "".join(f"{assigned(body, data.value)}, " for data in stmt.data)
    body.line(f"m.context.digests.append(({stmt.instance}, ({values})))")


# --- assert, assume, log_msg ----------------------------------------------------------------------


@_op("assert", "assume")
def _assert(body: Body, stmt: ir.Extern) -> None:
    with body.block(f"if not {condition(body, stmt.ins[0])}:"):
        give_up = body.unit.bind("give_up", _give_up)
        op = body.unit.bind("name", stmt.op)
        body.line(f"{give_up}({op}, {span_name(body.unit, stmt.span)})")


def _give_up(op: str, span: Span) -> None:
    raise ExternFailure(f"{op}() does not hold", span)


@_op("log_msg")
def _log_msg(body: Body, stmt: ir.Extern) -> None:
    log = body.unit.bind("log", _log)
    values = "".join(f"{assigned(body, data.value)}, " for data in stmt.data)
    signs = tuple(data.width if data.signed else 0 for data in stmt.data)
    text, widths = body.unit.bind("text", stmt.text), body.unit.bind("signs", signs)
    span = span_name(body.unit, stmt.span)
    body.line(f"{log}(m.trace, {text}, ({values}), {widths}, {span})")


def _log(
    trace: Trace | None, text: str, values: Sequence[int], signs: Sequence[int], span: Span
) -> None:
    if trace is None and not LOGGER.isEnabledFor(logging.INFO):
        return
    message = ""
    rest = text
    for number, width in zip(values, signs, strict=True):
        head, braces, rest = rest.partition("{}")
        high = 1 << (width - 1) if width else 0
        shown = (number ^ high) - high if width else number
        message += head + (str(shown) if braces else "")
    LOGGER.info("%s: %s", span, message + rest)
    if trace is not None:
        trace.log(message + rest, span)
