"""Parser states, `select` and value sets (specification chapter 13)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from sglb.p4 import ast
from sglb.p4.check_stmts import check_block
from sglb.p4.check_types import resolve, unique
from sglb.p4.coerce import coerce, const_of
from sglb.p4.scope import Env, Frame, Place, decl_rule
from sglb.p4.types import (
    BitsT,
    BoolT,
    DontCareT,
    EnumT,
    ErrorT,
    IntT,
    SerEnumT,
    SetT,
    StructT,
    TupleT,
    Type,
    TypeVarT,
)
from sglb.p4.unify import bare

_FINAL: Final = ("accept", "reject")


@decl_rule(ast.ValueSetDecl)
def check_value_set(env: Env, d: ast.ValueSetDecl) -> None:
    """`value_set<T>(size) name;`."""
    try:
        t = resolve(env, d.type)
        if not _selectable(t, structs=True):
            raise env.error(f"there are no value sets of {t}", d.span)
        size_type = env.expr(d.size)
        if not isinstance(size_type, BitsT | IntT):
            raise env.error(f"a value set's size must be an integer, not {size_type}", d.size.span)
        if not env.known(d.size):
            raise env.error("a value set's size must be known at compile time", d.size.span)
        size = const_of(env, d.size)
        if isinstance(size, int) and size < 0:
            raise env.error(f"a value set's size cannot be {size}", d.size.span)
    finally:
        env.declare(d.name, d, d.span)
    env.decl_types[id(d)] = SetT(t)


def _selectable(t: Type, *, structs: bool = False) -> bool:
    t = bare(t)
    if isinstance(t, BitsT | BoolT | EnumT | SerEnumT | ErrorT | TypeVarT):
        return True
    if structs and isinstance(t, StructT):
        return t.kind == "struct" and all(_selectable(f.type, structs=True) for f in t.fields)
    if structs and isinstance(t, TupleT):
        return all(_selectable(i, structs=True) for i in t.items)
    return False


# --- states ---------------------------------------------------------------------------------------


def check_states(env: Env, d: ast.ParserDecl, states: Sequence[ast.ParserState]) -> None:
    """Check the states of a parser, its declarations in scope."""
    with env.recovering():
        unique(env, [(s.name, s.span) for s in states], "state")
    names = {s.name for s in states}
    for s in states:
        if s.name in _FINAL:
            env.complain(f"state '{s.name}' is built in and cannot be declared", s.span)
    if "start" not in names:
        env.complain(
            f"parser '{d.name}' has no state 'start'",
            d.span,
            env.near("start", tuple(names)),
        )
    for s in states:
        with env.inner(Frame(Place.STATE, d)):
            check_block(env, ast.Block(span=s.span, body=s.body))
            with env.recovering():
                _transition(env, s, names)
    if not env.found:
        _can_end(env, d, states)


def _transition(env: Env, s: ast.ParserState, names: set[str]) -> None:
    match s.transition:
        case str(name):
            _target(env, name, names, s)
        case ast.Select() as select:
            _select(env, select, names)


def _target(env: Env, name: str, names: set[str], node: ast.Node) -> None:
    if name not in names and name not in _FINAL:
        known = (*names, *_FINAL)
        what = env.find(name)
        hint = env.near(name, known) if what is None else f"'{name}' is no state"
        raise env.error(f"state '{name}' is not declared", node.span, hint)


def _targets(s: ast.ParserState) -> list[str]:
    match s.transition:
        case str(name):
            return [name]
        case ast.Select(cases=cases):
            return [c.state for c in cases] + ["reject"]
    return ["reject"]


def _can_end(env: Env, d: ast.ParserDecl, states: Sequence[ast.ParserState]) -> None:
    by_name = {s.name: s for s in states}
    todo, seen = ["start"], {"start"}
    while todo:
        state = by_name.get(todo.pop())
        if state is None:
            return  # accept or reject
        for name in _targets(state):
            if name not in seen:
                seen.add(name)
                todo.append(name)
    raise env.error(f"parser '{d.name}' never reaches accept or reject", d.span)


# --- select ---------------------------------------------------------------------------------------


def _select(env: Env, select: ast.Select, names: set[str]) -> None:
    types = []
    for e in select.exprs:
        t = env.expr(e)
        if isinstance(t, IntT):
            raise env.error("cannot select on an int, which has no width", e.span)
        if not _selectable(t, structs=isinstance(e, ast.ListExpr)):
            raise env.error(f"cannot select on a value of type {t}", e.span)
        types.append(t)
    default = False
    for case in select.cases:
        with env.recovering():
            _target(env, case.state, names, case)
        if default:
            env.warn("this case is never reached: an earlier one matches all", case.span)
        with env.recovering(), env.at(replace(env.frame, place=Place.KEYSET)):
            check_keys(env, case.keys, types, case)
        default = default or all(isinstance(k, ast.Default) for k in case.keys)


def check_keys(env: Env, keys: Sequence[ast.Expr], types: Sequence[Type], node: ast.Node) -> None:
    """Check the key sets of one case or entry against the operands' types."""
    keys = spread(env, keys, types)
    if len(keys) == 1:
        t = env.expr(keys[0])
        if isinstance(t, DontCareT):
            whole = TupleT(tuple(types)) if len(types) != 1 else types[0]
            env.checked.coercions[id(keys[0])] = whole
            return
        whole_set = isinstance(t, SetT) and not isinstance(keys[0], ast.Binary)
        if whole_set and isinstance(t, SetT) and leaves(t.element) == list(types):
            return
    if len(keys) != len(types):
        raise env.error(
            f"this has {len(keys)} key set{'s' * (len(keys) != 1)}, but {len(types)} "
            f"{'are' if len(types) != 1 else 'is'} needed",
            node.span,
        )
    for key, t in zip(keys, types, strict=True):
        check_key(env, key, t)


def spread(env: Env, keys: Sequence[ast.Expr], types: Sequence[Type]) -> Sequence[ast.Expr]:
    """The key sets, `{a, b}` standing for `(a, b)`."""
    if len(keys) != 1 or not isinstance(keys[0], ast.ListExpr):
        return keys
    env.checked.types[id(keys[0])] = TupleT(tuple(types))
    return keys[0].items


def leaves(t: Type) -> list[Type]:
    """The types that a value set's element matches, one after another."""
    match t:
        case StructT(fields=fields):
            return [leaf for f in fields for leaf in leaves(f.type)]
        case TupleT(items=items):
            return [leaf for i in items for leaf in leaves(i)]
    return [t]


def check_key(env: Env, key: ast.Expr, want: Type) -> None:
    """Check one key set against its operand's type."""
    t = env.checked.types.get(id(key)) or env.expr(key)
    if isinstance(t, SetT):
        if leaves(t.element) == leaves(want) and not isinstance(key, ast.Binary):
            return  # a value set
        if isinstance(want, SerEnumT) and t.element in (IntT(), want.underlying):
            want = want.underlying
        coerce(env, key, SetT(want), "the key set")
    else:
        coerce(env, key, want, "the key set")
