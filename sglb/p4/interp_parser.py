"""Parsers of the IR as Python source: a function a state, and a driver that steps through them.

What a parser does before its start state (resets, first values) is a function too.

A state's function returns the next state's index, ACCEPT or REJECT. A parser that enters more than
STATE_LIMIT states beyond one for each bit of the packet loops without reading: it stops with
ParserTimeout (BMv2 would hang).
"""

from __future__ import annotations

from typing import Final

from sglb.p4 import ir
from sglb.p4.interp_code import STOP, Body, Unit, literal, span_name
from sglb.p4.interp_expr import assigned, value
from sglb.p4.interp_stmt import emit_all

#: State entries that a parse may take beyond one per bit of the packet.
STATE_LIMIT: Final = 4096


def emit_parser(unit: Unit, proc: ir.Proc, name: str) -> None:
    """Writes the functions of a parser; `name` returns STOP when it rejects, else None."""
    for index, state in enumerate(proc.states):
        body = Body(unit, state=True)
        if unit.traced:
            label = unit.bind("name", state.name)
            body.line(f"m.trace.state({label}, {span_name(unit, state.span)})")
        emit_all(body, state.body)
        if isinstance(state.next, ir.Select):
            _select(body, state.next)
        else:
            body.line(f"return {state.next}")
        unit.sources.append(body.text(f"{name}_{index}"))
    first = "0"
    if proc.body:
        body = Body(unit, state=True)
        emit_all(body, proc.body)
        body.line("return 0")
        unit.sources.append(body.text(f"{name}_prologue"))
        first = f"{name}_prologue(f)"
    states = ", ".join(f"{name}_{index}" for index in range(len(proc.states)))
    timeout = unit.error("ParserTimeout")
    told = f"        m.trace.error('ParserTimeout', {span_name(unit, proc.span)})\n"
    unit.sources.append(
        f"{name}_states = ({states},)\n"
        f"def {name}(f):\n"
        f"    state = {first}\n"
        f"    while state >= 0:\n"
        f"        m.steps -= 1\n"
        f"        if m.steps < 0:\n"
        f"            m.error = {timeout}\n"
        + (f"    {told}" if unit.traced else "")
        + f"            return {STOP}\n"
        f"        state = {name}_states[state](f)\n"
        f"    return {STOP} if state == {ir.REJECT} else None"
    )


def _select(body: Body, select: ir.Select) -> None:
    if _select_by_value(body, select):
        return
    operands = []
    for operand in select.operands:
        name = body.temp("k")
        body.line(f"{name} = {assigned(body, operand)}")
        operands.append(name)
    for case in select.cases:
        test = _case_test(body, select, case, operands)
        if not test:
            body.line(f"return {case.state}")
            return
        with body.block(f"if {test}:"):
            body.line(f"return {case.state}")
    body.line(f"return {ir.REJECT}")


def _select_by_value(body: Body, select: ir.Select) -> bool:
    """One dictionary access where all cases but a last default are plain constants."""
    if len(select.operands) != 1:
        return False
    table: dict[int, int] = {}
    default = ir.REJECT
    for at, case in enumerate(select.cases):
        (key,) = case.keys
        if isinstance(key, ir.MatchAny):
            if at != len(select.cases) - 1:
                return False
            default = case.state
        elif isinstance(key, ir.MatchMask) and _is_exact(key):
            assert isinstance(key.value, ir.Const)
            table.setdefault(key.value.value, case.state)
        else:
            return False
    if len(table) < 3:
        return False
    name = body.unit.bind("cases", table)
    operand = assigned(body, select.operands[0])
    body.line(f"return {name}_get({operand}, {default})")
    body.unit.space[f"{name}_get"] = table.get
    return True


def _is_exact(key: ir.MatchMask) -> bool:
    return (
        isinstance(key.value, ir.Const)
        and isinstance(key.mask, ir.Const)
        and key.mask.value == (1 << key.mask.width) - 1
    )


def _case_test(body: Body, select: ir.Select, case: ir.SelectCase, operands: list[str]) -> str:
    """A condition for the case, empty when it always holds."""
    first = case.keys[0] if case.keys else None
    if isinstance(first, ir.MatchSet):
        contains = body.unit.link("contains", first.index)
        return f"{contains}(({', '.join(operands)},))"
    tests = []
    for key, name, operand in zip(case.keys, operands, select.operands, strict=True):
        test = _key_test(body, key, name, operand.width)
        if test:
            tests.append(test)
    return " and ".join(tests)


def _key_test(body: Body, key: ir.KeySet, name: str, width: int) -> str:
    if isinstance(key, ir.MatchMask):
        if _is_exact(key):
            return f"{name} == {value(body, key.value)}"
        mask = value(body, key.mask)
        if isinstance(key.value, ir.Const) and isinstance(key.mask, ir.Const):
            return f"{name} & {mask} == {literal(key.value.value & key.mask.value)}"
        return f"({name} ^ {value(body, key.value)}) & {mask} == 0"
    if isinstance(key, ir.MatchRange):
        low, high = value(body, key.lo), value(body, key.hi)
        if key.signed:
            flip = literal(1 << (width - 1))
            return f"({low} ^ {flip}) <= ({name} ^ {flip}) <= ({high} ^ {flip})"
        return f"{low} <= {name} <= {high}"
    if isinstance(key, ir.MatchAny):
        return ""
    raise ValueError("a value set stands alone in a select case")
