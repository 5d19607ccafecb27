"""Names, members, indices and slices: what they refer to, and which can be written to."""

from __future__ import annotations

from typing import Final

from sglb.p4 import ast
from sglb.p4.check_types import TYPE_DECLS, describe, resolve
from sglb.p4.coerce import const_of
from sglb.p4.constants import cut
from sglb.p4.scope import Env, Overloads, Place, TypeParam, expr_rule
from sglb.p4.source import Span
from sglb.p4.types import (
    ActionRunT,
    ApplyResultT,
    BitsT,
    BoolT,
    CallableT,
    EnumT,
    ErrorT,
    ExternT,
    IntT,
    ListT,
    MatchKindT,
    NewT,
    SerEnumT,
    StackT,
    StructT,
    TupleT,
    Type,
)
from sglb.p4.unify import bare

_STACK_MEMBERS: Final = ("next", "last", "lastIndex", "size")


# --- names ----------------------------------------------------------------------------------------


@expr_rule(ast.Name)
def _name(env: Env, e: ast.Name) -> Type:
    entity = env.find(e.name, absolute=e.absolute)
    if entity is None and e.name in env.match_kinds:
        env.known_ids.add(id(e))
        env.checked.refs[id(e)] = env.match_kinds[e.name]
        return MatchKindT()
    if entity is None:
        raise env.undeclared(e.name, e.span, "name")
    if isinstance(entity, Overloads):
        return CallableT(e.name)
    if isinstance(entity, (TypeParam, *TYPE_DECLS)):
        raise env.error(f"'{e.name}' is {describe(entity)}; a value is needed here", e.span)
    env.checked.refs[id(e)] = entity
    _note_known(env, e, entity)
    if isinstance(entity, ast.ActionDecl | ast.ParserState):
        return CallableT(e.name)
    return env.decl_type(entity)


def _note_known(env: Env, e: ast.Name, entity: ast.Node) -> None:
    """Record the value of a constant, or that a constructor argument has one."""
    match entity:
        case ast.ConstDecl():
            value = env.decl_consts.get(id(entity))
            if value is not None:
                env.set_const(e, value)
            else:
                env.known_ids.add(id(e))
        case ast.Instance() | ast.ValueSetDecl() | ast.TableDecl():
            env.known_ids.add(id(e))
        case ast.Param(direction="") if env.frame.place is Place.ACTION and _is_data(env, entity):
            env.data_ids.add(id(e))
        case ast.Param(direction=""):
            env.known_ids.add(id(e))


def _is_data(env: Env, p: ast.Param) -> bool:
    """Whether a parameter is data that the control plane gives to the action being checked."""
    owner = env.frame.owner
    return isinstance(owner, ast.ActionDecl) and any(p is q for q in owner.params)


@expr_rule(ast.TypeExpr)
def _type_expr(env: Env, e: ast.TypeExpr) -> Type:
    t = resolve(env, e.type)
    raise env.error(f"{t} is a type; a value is needed here", e.span)


# --- members --------------------------------------------------------------------------------------


@expr_rule(ast.Member)
def _member(env: Env, e: ast.Member) -> Type:
    if isinstance(e.base, ast.TypeExpr):
        return _type_member(env, e, e.base)
    base = env.expr(e.base)
    match base:
        case StructT():
            return _field(env, e, base)
        case StackT():
            return _stack_member(env, e, base)
        case ApplyResultT():
            return _apply_member(env, e, base)
        case ExternT():
            raise env.error(f"'{e.name}' of {base} is a method and must be called", e.span)
    raise env.error(f"a value of type {base} has no member '{e.name}'", e.span)


def _field(env: Env, e: ast.Member, base: StructT) -> Type:
    for i, f in enumerate(base.fields):
        if f.name == e.name:
            whole = env.const(e.base)
            if isinstance(whole, tuple) and len(whole) == len(base.fields):
                env.set_const(e, whole[i])
            return f.type
    kind = base.kind.replace("_", " ")
    hint = env.near(e.name, tuple(f.name for f in base.fields))
    if not hint and e.name in ("isValid", "setValid", "setInvalid"):
        hint = f"{e.name} is a method: write {e.name}()"
    elif not hint and e.name == "valid" and base.kind == "header":
        hint = "whether a header is valid is asked by isValid()"
    raise env.error(f"{kind} {base} has no field '{e.name}'", e.span, hint)


def _stack_member(env: Env, e: ast.Member, base: StackT) -> Type:
    header = isinstance(base.element, StructT) and base.element.kind != "struct"
    if e.name not in _STACK_MEMBERS or not header:
        hint = env.near(e.name, _STACK_MEMBERS) if header else ""
        raise env.error(f"an array {base} has no member '{e.name}'", e.span, hint)
    if e.name == "size":
        env.set_const(e, base.size)
        return BitsT(32)
    if not env.in_parser:
        raise env.error(
            f"'{e.name}' of a header stack can be used only in a parser state",
            e.span,
            "elsewhere, use an index",
        )
    return BitsT(32) if e.name == "lastIndex" else base.element


def _apply_member(env: Env, e: ast.Member, base: ApplyResultT) -> Type:
    if e.name in ("hit", "miss"):
        return BoolT()
    if e.name == "action_run":
        return ActionRunT(base.table, base.decl)
    raise env.error(
        f"the result of applying a table has no member '{e.name}'",
        e.span,
        "it has hit, miss and action_run",
    )


def _type_member(env: Env, e: ast.Member, base: ast.TypeExpr) -> Type:
    t = resolve(env, base.type)
    env.checked.types[id(base)] = t
    match t:
        case ErrorT():
            index = env.error_index.get(e.name)
            if index is None:
                raise env.error(
                    f"error '{e.name}' is not declared",
                    e.span,
                    env.near(e.name, tuple(env.error_index)),
                )
            env.set_const(e, index)
        case EnumT(members=members) | SerEnumT(members=members):
            if e.name not in members:
                raise env.error(
                    f"enum {t} has no member '{e.name}'", e.span, env.near(e.name, members)
                )
            index = members.index(e.name)
            env.set_const(e, t.values[index] if isinstance(t, SerEnumT) else index)
        case _:
            raise env.error(f"type {t} has no member '{e.name}'", e.span)
    return t


# --- indices and slices ---------------------------------------------------------------------------


@expr_rule(ast.Index)
def _index(env: Env, e: ast.Index) -> Type:
    base = env.expr(e.base)
    index = env.expr(e.index)
    if isinstance(index, SerEnumT):
        env.checked.coercions[id(e.index)] = index.underlying
        index = index.underlying
    value = const_of(env, e.index)
    if not isinstance(base, StackT | TupleT | ListT):
        raise env.error(f"a value of type {base} has no elements to index", e.span)
    if not isinstance(index, BitsT | IntT):
        raise env.error(f"an index must be an integer, but this is {index}", e.index.span)
    if isinstance(value, int):
        _in_range(env, base, value, e.index.span)
    elif not isinstance(base, StackT) and not env.known(e.index):
        raise env.error(f"the index of a {base} must be known at compile time", e.index.span)
    return _element(env, e, base, value if isinstance(value, int) else None)


def _in_range(env: Env, base: StackT | TupleT | ListT, value: int, span: Span) -> None:
    if value < 0:
        raise env.error(f"an index cannot be negative, but this is {value}", span)
    size = base.size if isinstance(base, StackT) else None
    if isinstance(base, TupleT):
        size = len(base.items)
    if size is not None and value >= size:
        raise env.error(f"index {value} is beyond the last element, {size - 1}, of {base}", span)


def _element(env: Env, e: ast.Index, base: StackT | TupleT | ListT, value: int | None) -> Type:
    whole = env.const(e.base)
    if isinstance(whole, tuple) and value is not None and value < len(whole):
        env.set_const(e, whole[value])
    match base:
        case StackT(element=element):
            return element
        case ListT(item=item):
            return item
        case TupleT(items=items):
            if value is None:
                raise env.error("the index of a tuple must be a constant", e.index.span)
            return items[value]
    raise AssertionError(base)


@expr_rule(ast.Slice)
def _slice(env: Env, e: ast.Slice) -> Type:
    base = env.expr(e.base)
    under = base.underlying if isinstance(base, SerEnumT) else bare(base)
    if not isinstance(under, BitsT) or (isinstance(base, NewT)):
        raise env.error(f"only bit<W> and int<W> can be sliced, but this is {base}", e.base.span)
    if isinstance(base, SerEnumT):
        env.checked.coercions[id(e.base)] = under
    if e.width is not None:
        return _plus_slice(env, e, e.width, under)
    assert e.hi is not None
    hi, lo = _bit(env, e.hi, under), _bit(env, e.lo, under)
    if lo > hi:
        raise env.error(f"the slice [{hi}:{lo}] is empty: the higher bit stands first", e.span)
    value = const_of(env, e.base)
    if isinstance(value, int):
        env.set_const(e, cut(value, hi, lo))
    return BitsT(hi - lo + 1)


def _bit(env: Env, e: ast.Expr, base: BitsT) -> int:
    value = _slice_const(env, e, "a slice's bound")
    if value >= base.width:
        raise env.error(
            f"bit {value} is beyond the highest bit, {base.width - 1}, of {base}", e.span
        )
    return value


def _slice_const(env: Env, e: ast.Expr, what: str) -> int:
    t = env.expr(e)
    if isinstance(t, SerEnumT):
        env.checked.coercions[id(e)] = t.underlying
        t = t.underlying
    if not isinstance(t, BitsT | IntT):
        raise env.error(f"{what} must be an integer, but this is {t}", e.span)
    value = const_of(env, e)
    if not isinstance(value, int):
        raise env.error(f"{what} must be a constant known at compile time", e.span)
    if value < 0:
        raise env.error(f"{what} cannot be negative, but this is {value}", e.span)
    return value


def _plus_slice(env: Env, e: ast.Slice, width_expr: ast.Expr, base: BitsT) -> Type:
    """`base[lo+:width]`: the width is constant, the lowest bit need not be."""
    width = _slice_const(env, width_expr, "a slice's width")
    if width == 0:
        raise env.error("a slice's width must be at least 1", width_expr.span)
    t = env.expr(e.lo)
    if not isinstance(t, BitsT | IntT) or (isinstance(t, BitsT) and t.signed):
        raise env.error(
            f"a slice's lowest bit must be an unsigned integer, but this is {t}", e.lo.span
        )
    lo = const_of(env, e.lo)
    if isinstance(lo, int):
        _slice_const(env, e.lo, "a slice's lowest bit")
        if lo + width > base.width:
            raise env.error(
                f"bit {lo + width - 1} is beyond the highest bit, {base.width - 1}, of {base}",
                e.span,
            )
        value = const_of(env, e.base)
        if isinstance(value, int):
            env.set_const(e, cut(value, lo + width - 1, lo))
    elif width > base.width:
        raise env.error(f"the slice is wider than {base}", e.span)
    return BitsT(width)


# --- what can be written to -----------------------------------------------------------------------


def check_lvalue(env: Env, e: ast.Expr, what: str) -> None:
    """Fail unless a typed expression can be written to; `what` says by whom, for the message."""
    match e:
        case ast.Name():
            _writable(env, e, what)
        case ast.Member(base=base) if not isinstance(base, ast.TypeExpr):
            if e.name in ("lastIndex", "size") and isinstance(env.type(base), StackT):
                raise env.error(f"{what} cannot be '{e.name}', which can only be read", e.span)
            if isinstance(env.type(base), ApplyResultT):
                raise env.error(f"{what} must be something that can be written to", e.span)
            check_lvalue(env, base, what)
        case ast.Index(base=base) if isinstance(env.type(base), StackT | TupleT):
            check_lvalue(env, base, what)
        case ast.Slice(base=base):
            check_lvalue(env, base, what)
        case _:
            raise env.error(f"{what} must be something that can be written to", e.span)


def _writable(env: Env, e: ast.Name, what: str) -> None:
    entity = env.checked.refs.get(id(e))
    match entity:
        case ast.VarDecl():
            return
        case ast.ForIn():
            return
        case ast.Param(direction="out" | "inout"):
            return
        case ast.Param(direction=direction):
            kind = "an 'in' parameter" if direction else "a parameter without direction"
            raise env.error(
                f"'{e.name}' is {kind} and can only be read; {what} must be writable",
                e.span,
                "copy it into a variable" + (", or declare it inout" if direction else ""),
            )
        case None:
            raise env.error(f"{what} must be something that can be written to", e.span)
        case _:
            raise env.error(f"'{e.name}' is {describe(entity)}; {what} must be writable", e.span)
