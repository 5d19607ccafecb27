"""Statements, and the bodies of functions, actions and methods (specification chapter 12)."""

from __future__ import annotations

from dataclasses import replace

from sglb.p4 import ast
from sglb.p4.check_ops import arith_type, check_divisor, shift_amount
from sglb.p4.check_refs import check_lvalue
from sglb.p4.check_types import resolve
from sglb.p4.checked import CallKind, Const
from sglb.p4.coerce import coerce, comparable, const_of
from sglb.p4.scope import Env, Frame, Place, Signature, decl_rule, stmt_rule
from sglb.p4.types import (
    ActionRunT,
    ApplyResultT,
    BitsT,
    BoolT,
    CallableT,
    ControlT,
    DontCareT,
    EnumT,
    ErrorT,
    ExternT,
    IntT,
    ListT,
    MatchKindT,
    NewT,
    PackageT,
    ParserT,
    SerEnumT,
    SetT,
    StackT,
    StringT,
    Type,
    VoidT,
)

# --- bodies ---------------------------------------------------------------------------------------


def check_body(
    env: Env, d: ast.FunctionDecl | ast.ActionDecl, sig: Signature, place: Place
) -> None:
    """Check the body of a function, action or method, its parameters in scope."""
    body = d.body
    assert body is not None
    with env.define(d), env.inner(Frame(place, d, sig.result)):
        declare_params(env, sig.params)
        with env.inner():
            check_block(env, body)
    if not isinstance(sig.result, VoidT) and not always_returns(body):
        env.complain(
            f"'{d.name}' must return {sig.result}, but can reach its end without a return",
            d.span,
        )


def declare_params(env: Env, params: tuple[ast.Param, ...]) -> None:
    """Bring typed parameters into the innermost scope."""
    for p in params:
        env.declare(p.name, p, p.span)


def check_block(env: Env, block: ast.Block) -> None:
    """Check the statements of a block in the current scope."""
    for s in block.body:
        env.stmt(s)


def always_returns(s: ast.Stmt | None) -> bool:
    """Whether every way through a statement returns or exits."""
    match s:
        case ast.Return() | ast.Exit():
            return True
        case ast.Block(body=body):
            return any(map(always_returns, body))
        case ast.If(then=then, other=other):
            return always_returns(then) and always_returns(other)
        case ast.Switch(cases=cases):
            bodies = [c.body for c in cases if c.body is not None]
            default = any(isinstance(c.label, ast.Default) for c in cases)
            return default and bool(bodies) and all(map(always_returns, bodies))
    return False


# --- declarations in bodies -----------------------------------------------------------------------


@decl_rule(ast.VarDecl)
def check_var(env: Env, d: ast.VarDecl) -> None:
    """`type name = init;`."""
    try:
        t = resolve(env, d.type)
        _variable_type(env, d, t)
        if d.init is not None:
            env.expr(d.init)
            coerce(env, d.init, t, f"the initial value of '{d.name}'")
    finally:
        env.declare(d.name, d, d.span)
    env.decl_types[id(d)] = t


def _variable_type(env: Env, d: ast.VarDecl, t: Type) -> None:
    if isinstance(t, ExternT | ParserT | ControlT | PackageT):
        raise env.error(
            f"'{d.name}' cannot be a variable of type {t}",
            d.span,
            f"make an instance, with its arguments in brackets: {t}(…) {d.name};",
        )
    if isinstance(t, IntT | StringT | VoidT | ListT | SetT | MatchKindT | DontCareT):
        hint = "give it a width, like bit<32>" if isinstance(t, IntT) else ""
        raise env.error(f"there are no variables of type {t}", d.span, hint)


@decl_rule(ast.ConstDecl)
def check_const(env: Env, d: ast.ConstDecl) -> None:
    """`const type name = value;`."""
    try:
        t = resolve(env, d.type)
        if isinstance(t, ExternT | ParserT | ControlT | PackageT | VoidT | DontCareT):
            raise env.error(f"there are no constants of type {t}", d.span)
        env.expr(d.value)
        coerce(env, d.value, t, f"the value of '{d.name}'")
        if not env.known(d.value):
            raise env.error(f"the value of '{d.name}' must be known at compile time", d.value.span)
        value = const_of(env, d.value)
    finally:
        env.declare(d.name, d, d.span)
    env.decl_types[id(d)] = t
    if value is not None:
        env.decl_consts[id(d)] = value


# --- simple statements ----------------------------------------------------------------------------


@stmt_rule(ast.Block)
def _block(env: Env, s: ast.Block) -> None:
    with env.inner():
        check_block(env, s)


@stmt_rule(ast.Empty)
def _empty(env: Env, s: ast.Empty) -> None:
    pass


@stmt_rule(ast.DeclStmt)
def _decl(env: Env, s: ast.DeclStmt) -> None:
    env.decl(s.decl)


@stmt_rule(ast.Assign)
def _assign(env: Env, s: ast.Assign) -> None:
    target = env.expr(s.target)
    check_lvalue(env, s.target, "the left side of an assignment")
    if s.op:
        _op_assign(env, s, target)
        return
    env.expr(s.value)
    coerce(env, s.value, target, "the assigned value")


def _op_assign(env: Env, s: ast.Assign, target: Type) -> None:
    """`target op= value` means `target = target op value`, the target evaluated once."""
    if isinstance(target, SerEnumT):
        raise env.error(f"'{s.op}=' is not defined on enum {target}", s.span)
    match s.op:
        case "<<" | ">>":
            if not isinstance(target, BitsT):
                raise env.error(f"cannot shift a value of type {target}", s.target.span)
            shift_amount(env, s, target, s.value, s.op)
        case "&&" | "||":
            env.expr(s.value)
            if not isinstance(target, BoolT):
                raise env.error(f"'{s.op}=' is not defined on {target}", s.span)
            coerce(env, s.value, target, "the assigned value")
        case "++":
            raise env.error("'++=' would change the width of its target", s.span)
        case _:
            arith_type(env, s.value, s.op, s.target, s.value)
            if s.op in ("/", "%"):
                check_divisor(env, s, s.op, s.value)


@stmt_rule(ast.CallStmt)
def _call(env: Env, s: ast.CallStmt) -> None:
    env.expr(s.call)
    info = env.checked.calls[id(s.call)]
    if info.kind is CallKind.CONSTRUCTOR:
        raise env.error(f"this makes an instance of '{info.name}' without a name", s.span)


@stmt_rule(ast.If)
def _if(env: Env, s: ast.If) -> None:
    with env.recovering():
        condition(env, s.cond, "the condition of 'if'")
    with env.inner():
        env.stmt(s.then)
    if s.other is not None:
        with env.inner():
            env.stmt(s.other)


def condition(env: Env, e: ast.Expr, what: str) -> None:
    """Check an expression that must be a bool."""
    t = env.expr(e)
    if not isinstance(t, BoolT):
        hint = "compare it with something, like '!= 0'" if isinstance(t, BitsT) else ""
        if isinstance(t, ApplyResultT):
            hint = "add .hit or .miss"
        raise env.error(f"{what} must be bool, but this is {t}", e.span, hint)


@stmt_rule(ast.Return)
def _return(env: Env, s: ast.Return) -> None:
    place, want = env.frame.place, env.frame.result
    if place is Place.STATE:
        raise env.error("a parser state cannot return", s.span, "use 'transition accept;'")
    if place not in (Place.FUNCTION, Place.METHOD) or want is None:
        if s.value is not None:
            raise env.error(f"nothing can be returned {place.value}", s.value.span)
        return
    if isinstance(want, VoidT):
        if s.value is not None:
            raise env.error("a function returning void cannot return a value", s.value.span)
        return
    if s.value is None:
        raise env.error(f"this must return a value of type {want}", s.span)
    env.expr(s.value)
    coerce(env, s.value, want, "the returned value")


@stmt_rule(ast.Exit)
def _exit(env: Env, s: ast.Exit) -> None:
    if env.frame.place in (Place.STATE, Place.FUNCTION):
        raise env.error(f"'exit' cannot be used {env.frame.place.value}", s.span)


# --- loops ----------------------------------------------------------------------------------------


@stmt_rule(ast.Break)
def _break(env: Env, s: ast.Break) -> None:
    if not env.frame.loops:
        raise env.error("'break' can be used only in a loop", s.span)


@stmt_rule(ast.Continue)
def _continue(env: Env, s: ast.Continue) -> None:
    if not env.frame.loops:
        raise env.error("'continue' can be used only in a loop", s.span)


@stmt_rule(ast.For)
def _for(env: Env, s: ast.For) -> None:
    with env.inner():
        for init in s.init:
            env.stmt(init)
        with env.recovering():
            condition(env, s.cond, "the condition of 'for'")
        for update in s.update:
            env.stmt(update)
        _loop_body(env, s.body)


def _loop_body(env: Env, body: ast.Stmt) -> None:
    with env.inner(replace(env.frame, loops=env.frame.loops + 1)):
        env.stmt(body)


@stmt_rule(ast.ForIn)
def _for_in(env: Env, s: ast.ForIn) -> None:
    items = env.expr(s.collection)
    with env.inner():
        if s.type is not None:
            t = resolve(env, s.type)
            env.decl_types[id(s)] = t
            env.declare(s.name, s, s.span)
        else:
            entity = env.lookup(s.name, s.span, "variable")
            if not isinstance(entity, ast.VarDecl | ast.Param):
                raise env.error(f"'{s.name}' is no variable", s.span)
            t = env.decl_type(entity)
            env.checked.refs[id(s)] = entity
        _collection(env, s, items, t)
        _loop_body(env, s.body)


def _collection(env: Env, s: ast.ForIn, items: Type, t: Type) -> None:
    match items:
        case SetT():
            coerce(env, s.collection, SetT(t), "the range")
            if not (isinstance(s.collection, ast.Binary) and s.collection.op == ".."):
                raise env.error("a loop runs over a range, list or stack", s.collection.span)
        case StackT(element=element) if element == t:
            pass
        case ListT(item=item) if item == t:
            pass
        case _ if isinstance(s.collection, ast.ListExpr):
            coerce(env, s.collection, ListT(t), "the list")
        case StackT(element=element) | ListT(item=element):
            raise env.error(f"'{s.name}' has type {t}, but the elements are {element}", s.span)
        case _:
            raise env.error(f"a loop cannot run over a value of type {items}", s.collection.span)


# --- switch ---------------------------------------------------------------------------------------


@stmt_rule(ast.Switch)
def _switch(env: Env, s: ast.Switch) -> None:
    subject = env.expr(s.subject)
    for i, case in enumerate(s.cases):
        if isinstance(case.label, ast.Default) and i + 1 < len(s.cases):
            with env.recovering():
                raise env.error("'default' must be the last label", case.span)
    if isinstance(subject, ActionRunT):
        _action_labels(env, s, subject)
    else:
        _value_labels(env, s, subject)
    if s.cases and s.cases[-1].body is None:
        env.warn("the last label of this switch has no body to fall through to", s.cases[-1].span)
    for case in s.cases:
        if case.body is not None:
            env.stmt(case.body)


def _action_labels(env: Env, s: ast.Switch, subject: ActionRunT) -> None:
    listed = {a.name for a in subject.decl.actions}
    seen: set[str] = set()
    for case in s.cases:
        label = case.label
        if isinstance(label, ast.Default):
            continue
        with env.recovering():
            if not isinstance(label, ast.Name):
                raise env.error("a label of this switch must be an action's name", label.span)
            if label.name not in listed or (label.absolute and not _listed(subject, label)):
                raise env.error(
                    f"'{label.name}' is not an action of table '{subject.table}'",
                    label.span,
                    env.near(label.name, tuple(listed)),
                )
            if label.name in seen:
                raise env.error(f"label '{label.name}' appears twice", label.span)
            seen.add(label.name)
            for ref in subject.decl.actions:
                target = env.checked.refs.get(id(ref))
                if ref.name == label.name and target is not None:
                    env.checked.refs[id(label)] = target
            env.checked.types[id(label)] = CallableT(label.name)


def _listed(subject: ActionRunT, label: ast.Name) -> bool:
    return any(a.name == label.name and a.absolute for a in subject.decl.actions)


def _value_labels(env: Env, s: ast.Switch, subject: Type) -> None:
    ok = isinstance(subject, BitsT | BoolT | EnumT | SerEnumT | ErrorT | NewT | IntT)
    if not ok or not comparable(subject):
        raise env.error(f"cannot switch on a value of type {subject}", s.subject.span)
    if isinstance(subject, IntT):
        raise env.error("cannot switch on an int, which has no width", s.subject.span)
    seen: set[Const] = set()
    for case in s.cases:
        if isinstance(case.label, ast.Default):
            continue
        with env.recovering():
            _value_label(env, case.label, subject, seen)


def _value_label(env: Env, label: ast.Expr, subject: Type, seen: set[Const]) -> None:
    env.expr(label)
    coerce(env, label, subject, "the label")
    value = const_of(env, label)
    if value is None:
        raise env.error("a label must be known at compile time", label.span)
    if value in seen:
        raise env.error("this label appears twice", label.span)
    seen.add(value)
