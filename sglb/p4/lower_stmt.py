"""Lowering of statements."""

from __future__ import annotations

from sglb.p4 import ast, ir
from sglb.p4.checked import CallKind
from sglb.p4.ir import BinOp
from sglb.p4.ir_build import binary, const, resize
from sglb.p4.layout import (
    ElementPlace,
    SlicePlace,
    SlotPlace,
    is_header,
    is_scalar,
    is_signed,
    scalar_width,
    strip,
)
from sglb.p4.lower_core import BUILDERS, CALLS, STMTS, Body
from sglb.p4.lower_env import Known, Value, problem, scalar_const
from sglb.p4.lower_expr import item_into, operate, rule
from sglb.p4.lower_table import apply_table
from sglb.p4.types import ErrorT, IntT, ListT, StackT, Type


@rule(STMTS, ast.Empty)
def empty(body: Body, stmt: ast.Empty) -> None:
    """`;`."""


@rule(STMTS, ast.Block)
def block(body: Body, stmt: ast.Block) -> None:
    """`{ … }`."""
    body.stmts(stmt.body)


@rule(STMTS, ast.DeclStmt)
def declaration(body: Body, stmt: ast.DeclStmt) -> None:
    """A variable or constant of a body."""
    declare(body, stmt.decl)


def declare(body: Body, decl: ast.VarDecl | ast.ConstDecl | ast.Instance) -> None:
    """Give a variable its storage and its first value: what is not initialised is zero each time."""
    if isinstance(decl, ast.VarDecl):
        type_ = body.typeref(decl.type)
        place = body.frame.allocate(type_, f"{body.name}.{decl.name}", decl.span)
        body.env.bindings[id(decl)] = place
        body.span = decl.span
        if decl.init is None:
            body.zero(place)
        else:
            item_into(body, decl.init, place)
    elif isinstance(decl, ast.ConstDecl):
        declare_const(body, decl)
    else:
        raise problem(
            f"instance {decl.name} must be declared among the declarations of its parser or control",
            decl.span,
        )


def declare_const(body: Body, decl: ast.ConstDecl) -> None:
    """Bind a constant, whose value may depend on constructor arguments."""
    type_ = body.typeref(decl.type)
    value = body.known(decl.value)
    if value is None:
        if not is_scalar(type_):  # of match_kinds, say: nothing at run time can use it
            return
        value = body.constant(decl.value, f"the value of {decl.name}")
    body.env.bindings[id(decl)] = Known(value, type_)


# --- assignment -----------------------------------------------------------------------------------


@rule(STMTS, ast.Assign)
def assign(body: Body, stmt: ast.Assign) -> None:
    """`target = value` and `target op= value`; the target's index is settled first."""
    target = body.place(stmt.target, fix=True)
    if stmt.op:
        with body.captured() as effects:
            value = body.expr(stmt.value)
        old: Value = body.load(target)
        if effects:
            old = body.keep(old)
            body.emit(*effects)
        assert isinstance(old, ir.Expr)
        body.store(target, operate(stmt.op, target.type, old, value, stmt))
        return
    if isinstance(target, SlicePlace) or is_scalar(target.type):
        body.store(target, _fitting(body, stmt.value, target.type))
        return
    if isinstance(stmt.value, ast.InvalidHeader) and is_header(target.type):
        with body.header(target) as header:
            body.emit(ir.SetInvalid(header=header, span=stmt.span))
        return
    body.copy(target, _source(body, stmt.value, target.type))


def _fitting(body: Body, expr: ast.Expr, type_: Type) -> ir.Expr:
    """A scalar of the target's width; an `int` constant adapts."""
    known = body.known(expr)
    if known is not None:
        return scalar_const(known, type_, expr.span)
    return body.expr(expr)


def _source(body: Body, expr: ast.Expr, type_: Type) -> SlotPlace | ElementPlace:
    if type(expr) in BUILDERS:
        temp = body.temp(type_)
        BUILDERS[type(expr)](body, expr, temp)
        return temp
    return body.storage(expr)


# --- calls ----------------------------------------------------------------------------------------


@rule(STMTS, ast.CallStmt)
def call_statement(body: Body, stmt: ast.CallStmt) -> None:
    """A call for its effects."""
    info = body.call_info(stmt.call)
    if info.kind is CallKind.TABLE_APPLY:
        apply_table(body, stmt.call)
    else:
        CALLS[info.kind](body, stmt.call, info)


# --- control flow ---------------------------------------------------------------------------------


@rule(STMTS, ast.If)
def if_statement(body: Body, stmt: ast.If) -> None:
    """`if`; a condition known at compile time leaves one branch only."""
    cond = body.expr(stmt.cond)
    if isinstance(cond, ir.Const):
        if cond.value:
            body.stmt(stmt.then)
        elif stmt.other is not None:
            body.stmt(stmt.other)
        return
    then = body.block([stmt.then])
    other = body.block([stmt.other]) if stmt.other is not None else ()
    if then or other:
        body.emit(ir.If(cond=cond, then=then, other=other, span=stmt.span))


@rule(STMTS, ast.Switch)
def switch_statement(body: Body, stmt: ast.Switch) -> None:
    """`switch` on a table's action or on a value; labels without a body share the next one's."""
    subject, value_of = _switch_subject(body, stmt)
    cases: list[tuple[tuple[int, ...], tuple[ir.Stmt, ...]]] = []
    default: tuple[ir.Stmt, ...] = ()
    labels: list[int] = []
    is_default = False
    for case in stmt.cases:
        if isinstance(case.label, ast.Default):
            is_default = True
        else:
            labels.append(value_of(case.label))
        if case.body is None:
            continue
        lowered = body.block([case.body])
        if is_default:
            default = lowered
        if labels:
            cases.append((tuple(labels), lowered))
        labels, is_default = [], False
    body.emit(ir.Switch(subject=subject, cases=tuple(cases), default=default, span=stmt.span))


def _switch_subject(body: Body, stmt: ast.Switch):  # type: ignore[no-untyped-def]
    subject = stmt.subject
    if isinstance(subject, ast.Member) and isinstance(subject.base, ast.Call):
        info = body.call_info(subject.base)
        if info.kind is CallKind.TABLE_APPLY:
            slot = body.temp(ErrorT())
            table = apply_table(body, subject.base, action_run=slot.base)

            def action_index(label: ast.Expr) -> int:
                decl = body.checked.refs.get(id(label))
                for i, action in enumerate(table.actions):
                    if action.decl is decl:
                        return i
                raise problem(f"table {table.name} has no such action", label.span)

            return ir.Load(32, slot.base), action_index
    type_ = body.type_of(subject)
    lowered = body.in_temp(body.expr(subject))

    def value(label: ast.Expr) -> int:
        found = body.known(label)
        if found is None:
            found = body.constant(label, "a switch label")
        return scalar_const(found, type_, label.span).value

    return lowered, value


@rule(STMTS, ast.For)
def for_statement(body: Body, stmt: ast.For) -> None:
    """`for (init; cond; update) body`."""
    for init in stmt.init:
        body.stmt(init)
    with body.captured() as setup:
        cond = body.expr(stmt.cond)
    inner = body.block([stmt.body])
    update = body.block(stmt.update)
    body.emit(
        ir.Loop(cond_setup=tuple(setup), cond=cond, body=inner, update=update, span=stmt.span)
    )


@rule(STMTS, ast.ForIn)
def for_in_statement(body: Body, stmt: ast.ForIn) -> None:
    """`for (x in collection) body`, over a range, a stack or a list."""
    variable = _loop_variable(body, stmt)
    collection = stmt.collection
    if isinstance(collection, ast.Binary) and collection.op == "..":
        _for_range(body, stmt, collection, variable)
    else:
        _for_elements(body, stmt, variable)


def _loop_variable(body: Body, stmt: ast.ForIn) -> SlotPlace:
    if stmt.type is not None:
        type_ = body.typeref(stmt.type)
        place = body.frame.allocate(type_, f"{body.name}.{stmt.name}", stmt.span)
        body.env.bindings[id(stmt)] = place
        return place
    bound = body.binding(stmt)
    if not isinstance(bound, SlotPlace):
        raise problem(f"{stmt.name} is no variable", stmt.span)
    return bound


def _for_range(body: Body, stmt: ast.ForIn, ends: ast.Binary, variable: SlotPlace) -> None:
    """One bit more than the variable's, so that the last value of its type does not wrap around."""
    if not is_scalar(variable.type):
        raise problem(f"a loop over a range needs a scalar, not {variable.type}", stmt.span)
    width = scalar_width(variable.type)
    signed = is_signed(variable.type)
    values = body.ordered(
        [
            lambda: _fitting(body, ends.left, variable.type),
            lambda: _fitting(body, ends.right, variable.type),
        ]
    )
    low, high = (v for v in values if isinstance(v, ir.Expr))
    last = body.keep(resize(high, width + 1, signed))
    index = body.in_temp(resize(low, width + 1, signed))
    assert isinstance(last, ir.Expr)
    with body.captured() as inner:
        body.store(variable, resize(index, width, signed=False))
        body.stmts([stmt.body])
    _count_up(body, stmt, index, binary(_le(signed), index, last), inner)


def _le(signed: bool) -> BinOp:
    return BinOp.LE_S if signed else BinOp.LE


def _count_up(
    body: Body, stmt: ast.ForIn, index: ir.Load, cond: ir.Expr, inner: list[ir.Stmt]
) -> None:
    step = ir.Assign(
        target=ir.SlotRef(index.slot, index.width),
        value=binary(BinOp.ADD, index, const(index.width, 1)),
        span=stmt.span,
    )
    body.emit(ir.Loop(cond_setup=(), cond=cond, body=tuple(inner), update=(step,), span=stmt.span))


def _for_elements(body: Body, stmt: ast.ForIn, variable: SlotPlace) -> None:
    """The collection is copied first: the body may change what it came from."""
    type_ = strip(body.type_of(stmt.collection))
    if isinstance(type_, ListT):
        count = _list_length(body, stmt.collection)
        type_ = StackT(variable.type, count)
    if not isinstance(type_, StackT):
        raise problem(f"a loop cannot go over a {type_}", stmt.collection.span)
    if type_.size == 0:
        return
    copy = body.temp(type_)
    known = body.known(stmt.collection)
    if known is not None:
        body.const_into(known, copy, stmt.span)
    elif type(stmt.collection) in BUILDERS:
        BUILDERS[type(stmt.collection)](body, stmt.collection, copy)
    else:
        body.into(stmt.collection, copy)
    index = body.in_temp(const(32, 0))
    element = ElementPlace(body.frame.array_at[copy.base, type_], index, 0, type_.element)
    with body.captured() as inner:
        body.copy(variable, element)
        body.stmts([stmt.body])
    cond = binary(BinOp.LT, index, const(32, type_.size))
    _count_up(body, stmt, index, cond, inner)


def _list_length(body: Body, expr: ast.Expr) -> int:
    known = body.known(expr)
    if isinstance(known, tuple):
        return len(known)
    if isinstance(expr, ast.ListExpr):
        return len(expr.items)
    raise problem("the length of this list is not known", expr.span)


@rule(STMTS, ast.Return)
def return_statement(body: Body, stmt: ast.Return) -> None:
    """`return`; a value goes to the procedure's result first."""
    if stmt.value is not None:
        if body.result is None:
            raise problem("there is nothing to return a value to", stmt.span)
        if is_scalar(body.result.type):
            body.store(body.result, _fitting(body, stmt.value, body.result.type))
        elif not isinstance(body.result.type, IntT):
            body.copy(body.result, _source(body, stmt.value, body.result.type))
    body.emit(ir.Return(span=stmt.span))


@rule(STMTS, ast.Exit)
def exit_statement(body: Body, stmt: ast.Exit) -> None:
    """`exit`."""
    body.emit(ir.Exit(span=stmt.span))


@rule(STMTS, ast.Break)
def break_statement(body: Body, stmt: ast.Break) -> None:
    """`break`."""
    body.emit(ir.Break(span=stmt.span))


@rule(STMTS, ast.Continue)
def continue_statement(body: Body, stmt: ast.Continue) -> None:
    """`continue`."""
    body.emit(ir.Continue(span=stmt.span))
