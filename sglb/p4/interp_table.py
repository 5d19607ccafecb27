"""Table applications and field lists as Python source.

A table is asked through its state's `lookup`, whatever its entries are; only the actions it may run
are translated.
"""

from __future__ import annotations

from collections.abc import Sequence

from sglb.p4 import ir
from sglb.p4.interp_code import Body
from sglb.p4.interp_expr import assigned, value
from sglb.p4.interp_stmt import emit_all, emits, run_proc, store
from sglb.p4.runtime import Match, Trace


@emits(ir.Apply)
def _apply(body: Body, stmt: ir.Apply) -> None:
    unit = body.unit
    table = unit.program.tables[stmt.table]
    match = body.temp("t")
    key = "".join(f"{assigned(body, k.expr)}, " for k in table.keys)
    selector = packed(body, table.selector) if table.selector else "b''"
    lookup = unit.link("lookup", stmt.table)
    if unit.traced:
        kept = body.temp("k")
        body.line(f"{kept} = ({key})")
        key = f"*{kept},"
    body.line(f"{match} = {lookup}(({key}), {selector}, m.now_ps)")
    if table.direct_counter is not None:
        body.line(f"{unit.link('count', stmt.table)}({match}, m.length)")
    if table.direct_meter is not None:
        _direct_meter(body, table, unit.link("meter", stmt.table), match)
    if unit.traced:
        show = unit.bind("show_table", _show_table)
        body.line(f"{show}(m.trace, {unit.bind('table', table)}, {kept}, {match})")
    if stmt.hit is not None:
        body.line(f"f[{stmt.hit}] = 1 if {match}.hit else 0")
    if stmt.action_run is not None:
        body.line(f"f[{stmt.action_run}] = {match}.action")
    _run_action(body, table, match)


def _direct_meter(body: Body, table: ir.Table, meter: str, match: str) -> None:
    with body.block(f"if {match}.hit:"):
        run = f"{meter}({match}, m.length, m.now_ps)"
        if table.meter_result is None:
            body.line(run)
        else:
            store(body, table.meter_result, f"int({run})", table.span)


def _run_action(body: Body, table: ir.Table, match: str) -> None:
    unit = body.unit
    busy = [
        (index, entry)
        for index, entry in enumerate(table.actions)
        if entry.params or entry.setup or entry.copy_out or unit.program.procs[entry.proc].body
    ]
    if not busy:
        return
    action = body.temp("a")
    body.line(f"{action} = {match}.action")
    head = "if"
    for index, entry in busy:
        with body.block(f"{head} {action} == {index}:"):
            if entry.params:
                slots = "".join(f"f[{slot}], " for slot, _ in entry.params)
                body.line(f"{slots}= {match}.args")
            emit_all(body, entry.setup)
            run_proc(body, entry.proc, entry.copy_out)
        head = "elif"


def _show_table(trace: Trace, table: ir.Table, key: tuple[int, ...], match: Match) -> None:
    named = {k.name: v for k, v in zip(table.keys, key, strict=True)}
    action = table.actions[match.action].name if table.actions and match.action >= 0 else ""
    trace.table(table.name, named, match.hit, action, match.args, table.span)


# --- field lists ----------------------------------------------------------------------------------


def packed(body: Body, fields: Sequence[ir.DataField]) -> str:
    """Source of the fields' bits as bytes, without gaps, zero bits at the end of the last byte."""
    valid = {data.valid for data in fields}
    if len(valid) <= 1 and all(data.length is None for data in fields):
        width = sum(data.width for data in fields)
        pad = -width % 8
        text = f"({joined(body, fields, pad)}).to_bytes({(width + pad) // 8}, 'big')"
        slot = next(iter(valid), None)
        return text if slot is None else f"({text} if f[{slot}] else b'')"
    bits, count = body.temp("v"), body.temp("w")
    body.line(f"{bits} = {count} = 0")
    for data in fields:
        if data.valid is None:
            _append_bits(body, data, bits, count)
        else:
            with body.block(f"if f[{data.valid}]:"):
                _append_bits(body, data, bits, count)
    return f"({bits} << -{count} % 8).to_bytes({count} + 7 >> 3, 'big')"


def joined(body: Body, fields: Sequence[ir.DataField], pad: int) -> str:
    """Source of the number that fixed fields make, with `pad` zero bits after them."""
    below = sum(data.width for data in fields) + pad
    parts = []
    for data in fields:
        below -= data.width
        part = value(body, data.value)
        parts.append(f"{part} << {below}" if below else part)
    return " | ".join(parts) or "0"


def _append_bits(body: Body, data: ir.DataField, bits: str, count: str) -> None:
    width = str(data.width) if data.length is None else value(body, data.length)
    body.line(f"{bits} = {bits} << {width} | {value(body, data.value)}")
    body.line(f"{count} += {width}")
