"""Parsers of the IR as LLVM text: a label a state, jumps between them.

Also what is known of parsers before any packet: how far they can look, and whether they can go round.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

from sglb.p4 import ir
from sglb.p4.interp_parser import STATE_LIMIT
from sglb.p4.native import table_layout
from sglb.p4.native.emit_expr import value
from sglb.p4.native.emit_packet import fixed_width, parser_error
from sglb.p4.native.emit_stmt import PARSERS, emit_all
from sglb.p4.native.text import Label
from sglb.p4.native.unit import STEPS, Body
from sglb.p4.native.usage import statements


def _emit_parser(body: Body, proc: ir.Proc) -> None:
    fn = body.fn
    labels = [fn.label("state") for _ in proc.states]
    emit_all(body, proc.body)
    fn.jump(labels[0])
    for state, label in zip(proc.states, labels, strict=True):
        fn.place_target(label)
        if body.unit.cyclic:
            _count_step(body)
        emit_all(body, state.body)
        if isinstance(state.next, ir.Select):
            _select(body, state.next, labels)
        else:
            fn.jump(_target(body, state.next, labels))


PARSERS.append(_emit_parser)


def _count_step(body: Body) -> None:
    left = body.fn.op(f"sub i64 {body.load(STEPS)}, 1")
    body.store(STEPS, left)
    parser_error(body, body.fn.op(f"icmp slt i64 {left}, 0"), "ParserTimeout")


def _target(body: Body, state: int, labels: Sequence[Label]) -> Label:
    if state == ir.ACCEPT:
        return body.exits.on_return
    return body.exits.on_stop if state == ir.REJECT else labels[state]


# --- select ---------------------------------------------------------------------------------------


def _select(body: Body, select: ir.Select, labels: Sequence[Label]) -> None:
    operands = [value(body, operand) for operand in select.operands]
    if _by_value(body, select, operands, labels):
        return
    fn = body.fn
    for case in select.cases:
        to = _target(body, case.state, labels)
        test = _case_test(body, select, case, operands)
        if not test:
            fn.jump(to)
            return
        other = fn.label("next")
        fn.branch(test, to, other)
        fn.place(other)
    fn.jump(body.exits.on_stop)


def _by_value(
    body: Body, select: ir.Select, operands: Sequence[str], labels: Sequence[Label]
) -> bool:
    """One LLVM switch where all cases but a last default are plain constants."""
    if len(operands) != 1:
        return False
    cases: list[tuple[int, Label]] = []
    default = body.exits.on_stop
    for at, case in enumerate(select.cases):
        (key,) = case.keys
        if isinstance(key, ir.MatchAny) and at == len(select.cases) - 1:
            default = _target(body, case.state, labels)
        elif (
            isinstance(key, ir.MatchMask)
            and isinstance(key.value, ir.Const)
            and isinstance(key.mask, ir.Const)
            and key.mask.value == (1 << key.mask.width) - 1
        ):
            cases.append((key.value.value, _target(body, case.state, labels)))
        else:
            return False
    body.fn.switch(f"i{select.operands[0].width}", operands[0], default, cases)
    return True


def _case_test(body: Body, select: ir.Select, case: ir.SelectCase, operands: Sequence[str]) -> str:
    """An i1 for the case, empty when it always holds."""
    first = case.keys[0] if case.keys else None
    if isinstance(first, ir.MatchSet):
        return _in_set(body, select, first.index, operands)
    result = ""
    for key, text, operand in zip(case.keys, operands, select.operands, strict=True):
        test = _key_test(body, key, text, operand.width)
        if test:
            result = test if not result else body.fn.op(f"and i1 {result}, {test}")
    return result


def _in_set(body: Body, select: ir.Select, index: int, operands: Sequence[str]) -> str:
    head = body.machine_address(table_layout.value_set_word(body.program, index))
    given = "".join(
        f", i{operand.width} {text}"
        for operand, text in zip(select.operands, operands, strict=True)
    )
    return body.fn.op(f"call i1 @in_set_{index}(ptr {head}{given})")


def _key_test(body: Body, key: ir.KeySet, text: str, width: int) -> str:
    fn = body.fn
    if isinstance(key, ir.MatchMask):
        other = fn.op(f"xor i{width} {text}, {value(body, key.value)}")
        masked = fn.op(f"and i{width} {other}, {value(body, key.mask)}")
        return fn.op(f"icmp eq i{width} {masked}, 0")
    if isinstance(key, ir.MatchRange):
        order = "sge" if key.signed else "uge"
        above = fn.op(f"icmp {order} i{width} {text}, {value(body, key.lo)}")
        under = fn.op(f"icmp {order} i{width} {value(body, key.hi)}, {text}")
        return fn.op(f"and i1 {above}, {under}")
    if isinstance(key, ir.MatchAny):
        return ""
    raise ValueError("a value set stands alone in a select case")


# --- what is known before any packet --------------------------------------------------------------


def _targets(state: ir.State) -> Iterator[int]:
    if isinstance(state.next, int):
        yield state.next
    else:
        for case in state.next.cases:
            yield case.state


class Reach:
    """How a program's parsers can go; `bits` is None where there is no bound, as is `steps`."""

    def __init__(self, program: ir.Program) -> None:
        self._program = program
        self._of_proc = lru_cache(maxsize=None)(self._longest)
        longest = self._of_proc(program.parser)
        self.bits = None if longest is None else longest[0]
        self.steps = None if longest is None else longest[1]
        if self.steps is not None and self.steps > STATE_LIMIT:
            self.steps = None

    def _longest(self, index: int) -> tuple[int, int] | None:
        """The most bits and states of any way through a parser; None if it can go round."""
        proc = self._program.procs[index]
        done: dict[int, tuple[int, int] | None] = {ir.ACCEPT: (0, 0), ir.REJECT: (0, 0)}
        open_: set[int] = set()

        def visit(state: int) -> tuple[int, int] | None:
            if state in done:
                return done[state]
            if state in open_:
                return None
            open_.add(state)
            own = self._own(proc.states[state].body)
            ways = [visit(to) for to in _targets(proc.states[state])]
            known = [way for way in ways if way is not None]
            done[state] = (
                None
                if own is None or len(known) < len(ways)
                else (
                    own[0] + max((bits for bits, _ in known), default=0),
                    own[1] + max((steps for _, steps in known), default=0) + 1,
                )
            )
            return done[state]

        return visit(0)

    def _own(self, body: Sequence[ir.Stmt]) -> tuple[int, int] | None:
        """The most bits a state's statements pass or look at, and states of parsers they call."""
        bits = steps = 0
        for stmt in statements([body]):
            if isinstance(stmt, ir.Loop) and self._reads(stmt):
                return None
            if isinstance(stmt, ir.Call):
                inner = (
                    self._of_proc(stmt.proc)
                    if self._program.procs[stmt.proc].kind == "parser"
                    else (0, 0)
                )
                if inner is None:
                    return None
                bits, steps = bits + inner[0], steps + inner[1]
            else:
                own = self._taken(stmt)
                if own is None:
                    return None
                bits += own
        return bits, steps

    def _reads(self, loop: ir.Loop) -> bool:
        """Whether a loop may pass or look at bits, or enter states."""
        inside = statements([loop.cond_setup, loop.body, loop.update])
        procs = self._program.procs
        return any(
            procs[stmt.proc].kind == "parser"
            if isinstance(stmt, ir.Call)
            else self._taken(stmt) != 0
            for stmt in inside
        )

    def _taken(self, stmt: ir.Stmt) -> int | None:
        program = self._program
        if isinstance(stmt, ir.Advance):
            return stmt.bits.value if isinstance(stmt.bits, ir.Const) else None
        if isinstance(stmt, ir.Lookahead):
            return stmt.width
        if isinstance(stmt, ir.ExtractNext):
            return _whole(program.headers, program.arrays[stmt.array].headers[:1])
        if not isinstance(stmt, ir.Extract):
            return 0
        if stmt.header is None:
            return stmt.width if stmt.var_bits is None else None
        if isinstance(stmt.header, ir.HeaderAt):
            return _whole(program.headers, (stmt.header.header,))
        return _whole(program.headers, program.arrays[stmt.header.array].headers[:1])


def _whole(headers: Sequence[ir.Header], chosen: Sequence[int]) -> int:
    """The most bits of the chosen headers on the wire."""
    return sum(
        fixed_width(headers[h].fields) + sum(f.width for f in headers[h].fields if f.varbit)
        for h in chosen
    )
