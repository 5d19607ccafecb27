"""Implicit conversions, explicit casts and which values can be compared (specification 8.5, 8.11)."""

from __future__ import annotations

from typing import Final

from sglb.p4 import ast
from sglb.p4.checked import Const
from sglb.p4.constants import convert, default_value, fits
from sglb.p4.scope import Env
from sglb.p4.source import Span
from sglb.p4.types import (
    BitsT,
    BoolT,
    DontCareT,
    EnumT,
    ErrorT,
    IntT,
    InvalidT,
    ListT,
    MatchKindT,
    NewT,
    SerEnumT,
    SetT,
    StackT,
    StringT,
    StructT,
    TupleT,
    Type,
    TypeVarT,
    VarbitT,
)
from sglb.p4.unify import bare

#: Name of the type that a struct expression has before it meets a declared one.
ANONYMOUS: Final = "{…}"


def coerce(env: Env, e: ast.Expr, target: Type, what: str) -> None:
    """Make a typed expression fit `target`, recording implicit conversions; an error if it cannot.

    `what` says what the expression is for ("argument 'x'").
    """
    source = env.type(e)
    if source == target and not isinstance(e, ast.StructExpr):
        return
    match e:
        case ast.Default() if isinstance(source, DontCareT):
            env.checked.coercions[id(e)] = target
        case ast.ListExpr():
            _coerce_list(env, e, target, what)
        case ast.StructExpr():
            _coerce_struct(env, e, target, what)
        case ast.Ternary():
            _coerce_ternary(env, e, target, what)
        case _ if isinstance(source, SetT) and isinstance(target, SetT):
            _coerce_set(env, e, target, what)
        case _:
            _coerce_scalar(env, e, target, what)


def _coerce_scalar(env: Env, e: ast.Expr, target: Type, what: str) -> None:
    source = env.type(e)
    match source, target:
        case IntT(), BitsT() | NewT() if isinstance(under := bare(target), BitsT):
            value = env.const(e)
            if isinstance(value, int) and not fits(value, under):
                env.warn(f"{value} does not fit {target} and is cut to its width", e.span)
        case SerEnumT(underlying=under), _ if under == target:
            pass
        case InvalidT(), StructT(kind="header" | "header_union"):
            pass
        case _:
            mismatch(env, target, source, e.span, what)
    env.checked.coercions[id(e)] = target


def mismatch(env: Env, want: Type, got: Type, span: Span, what: str) -> None:
    """Raise the error for a value of the wrong type."""
    raise env.error(f"{what} must have type {want}, but this is {got}", span, _cast_hint(want, got))


def _cast_hint(want: Type, got: Type) -> str:
    if isinstance(got, BitsT) and isinstance(want, BitsT):
        if got.width == want.width or got.signed == want.signed:
            return f"P4 never changes width or sign by itself: write ({want}) before it"
        return f"cast the width first, then the sign: ({want})({BitsT(want.width, got.signed)})"
    if castable(got, want):
        return f"write ({want}) before it"
    return ""


def _coerce_list(env: Env, e: ast.ListExpr, target: Type, what: str) -> None:
    match target:
        case StructT(kind="struct" | "header", fields=fields):
            wants = [f.type for f in fields]
            names = [f"field '{f.name}' of {target}" for f in fields]
        case TupleT(items=items):
            wants = list(items)
            names = [f"item {i} of {target}" for i in range(len(items))]
        case StackT(element=element, size=size):
            wants = [element] * size
            names = [f"element {i} of {target}" for i in range(size)]
        case ListT(item=item):
            wants = [item] * len(e.items)
            names = [f"item {i} of {target}" for i in range(len(wants))]
        case _:
            mismatch(env, target, env.type(e), e.span, what)
            return
    if len(e.items) > len(wants) or (len(e.items) < len(wants) and not e.dots):
        raise env.error(
            f"{what} must have type {target} with {len(wants)} values, but this has {len(e.items)}",
            e.span,
            "" if len(e.items) > len(wants) else "end the list in ... to fill it with defaults",
        )
    for value, want, name in zip(e.items, wants, names, strict=False):
        coerce(env, value, want, name)
    env.checked.coercions[id(e)] = target


def _coerce_struct(env: Env, e: ast.StructExpr, target: Type, what: str) -> None:
    if not isinstance(target, StructT) or target.kind == "header_union":
        mismatch(env, target, env.type(e), e.span, what)
        return
    types = {f.name: f.type for f in target.fields}
    for name, value in e.fields:
        if name not in types:
            raise env.error(
                f"{target.kind} {target} has no field '{name}'",
                value.span,
                env.near(name, tuple(types)),
            )
        coerce(env, value, types[name], f"field '{name}' of {target}")
    given = {name for name, _ in e.fields}
    missing = [name for name in types if name not in given]
    if missing and not e.dots:
        raise env.error(
            f"no value for {', '.join(missing)} of {target}",
            e.span,
            "end the braces in ... to give the rest their defaults",
        )
    env.checked.coercions[id(e)] = target


def _coerce_ternary(env: Env, e: ast.Ternary, target: Type, what: str) -> None:
    coerce(env, e.then, target, what)
    coerce(env, e.other, target, what)
    env.checked.types[id(e)] = target
    cond = env.const(e.cond)
    if cond is not None:
        value = const_of(env, e.then if cond else e.other)
        if value is not None:
            env.set_const(e, value)


def _coerce_set(env: Env, e: ast.Expr, target: SetT, what: str) -> None:
    source = env.type(e)
    assert isinstance(source, SetT)
    if isinstance(e, ast.Binary):
        for side in (e.left, e.right):
            coerce(env, side, target.element, what)
    elif source.element != target.element:
        mismatch(env, target.element, source.element, e.span, what)
    env.checked.coercions[id(e)] = target


# --- values after conversion ----------------------------------------------------------------------


def const_of(env: Env, e: ast.Expr) -> Const | None:
    """An expression's compile-time value after its implicit conversion, None when not known."""
    target = env.checked.coercions.get(id(e))
    if target is None:
        return env.const(e)
    return const_as(env, e, target)


def const_as(env: Env, e: ast.Expr, target: Type) -> Const | None:
    """An expression's value as one of `target`, to which it has been converted or cast."""
    match e:
        case ast.Default():
            return default_value(target)
        case ast.ListExpr(items=items):
            wants = _parts(target)
            rest = [default_value(t) for t in wants[len(items) :]] if e.dots else []
            return _whole([const_of(env, i) for i in items] + rest)
        case ast.StructExpr() if isinstance(target, StructT):
            given = dict(e.fields)
            return _whole(
                [
                    const_of(env, given[f.name]) if f.name in given else default_value(f.type)
                    for f in target.fields
                ]
            )
    value = env.const(e)
    return None if value is None else convert(value, target)


def _parts(t: Type) -> list[Type]:
    match t:
        case StructT(fields=fields):
            return [f.type for f in fields]
        case TupleT(items=items):
            return list(items)
        case StackT(element=element, size=size):
            return [element] * size
    return []


def _whole(values: list[Const | None]) -> Const | None:
    out = [v for v in values if v is not None]
    return tuple(out) if len(out) == len(values) else None


# --- explicit casts (spec 8.11.1) -----------------------------------------------------------------


def castable(source: Type, target: Type) -> bool:
    """Whether `(target) value` is legal for a scalar value of type `source`."""
    if source == target:
        return True
    match source, target:
        case NewT(underlying=under), _ if castable_same(under, target):
            return True
        case _, NewT(underlying=under) if castable_same(source, under):
            return True
        case IntT(), _:
            return isinstance(bare(target), BitsT | BoolT | SerEnumT)
        case BitsT(), BitsT():
            return source.width == target.width or source.signed == target.signed
        case (BitsT(width=1, signed=False), BoolT()) | (BoolT(), BitsT(width=1, signed=False)):
            return True
        case SerEnumT(underlying=a), SerEnumT(underlying=b):
            return a == b
        case (BitsT() as plain, SerEnumT(underlying=under)) | (
            SerEnumT(underlying=under),
            BitsT() as plain,
        ):
            return plain == under
    return isinstance(source, BitsT) and isinstance(target, IntT)


def castable_same(a: Type, b: Type) -> bool:
    """Whether `a` is `b`, or a type made of it."""
    return a == b or (isinstance(a, NewT) and castable_same(a.underlying, b))


# --- comparison -----------------------------------------------------------------------------------


def comparable(t: Type) -> bool:
    """Whether `==` is defined on values of `t`."""
    match t:
        case StructT(fields=fields):
            return all(comparable(f.type) for f in fields)
        case StackT(element=element):
            return comparable(element)
        case TupleT(items=items):
            return all(map(comparable, items))
        case NewT(underlying=under):
            return comparable(under)
        case TypeVarT():
            return False
    return isinstance(
        t, BitsT | IntT | BoolT | EnumT | SerEnumT | ErrorT | VarbitT | StringT | MatchKindT
    )
