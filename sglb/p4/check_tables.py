"""Tables: keys, action lists, properties (specification 14.2). Entries are in `check_entries`."""

from __future__ import annotations

from typing import Final

from sglb.p4 import ast
from sglb.p4.check_action_lists import bind_whole, check_actions, find_listed
from sglb.p4.check_entries import check_entries
from sglb.p4.check_types import describe
from sglb.p4.coerce import coerce, const_of
from sglb.p4.scope import Env, Frame, Place, decl_rule
from sglb.p4.types import (
    BitsT,
    BoolT,
    EnumT,
    ErrorT,
    ExternT,
    IntT,
    SerEnumT,
    TableT,
    Type,
    TypeVarT,
    VarbitT,
    VoidT,
)
from sglb.p4.unify import bare

#: Properties whose value is an expression with a meaning of its own.
_INTEGER: Final = ("size", "priority_delta")
_BOOLEAN: Final = ("largest_priority_wins", "support_timeout")
_OBJECT: Final = ("counters", "meters", "implementation")
#: Prefixes of other architectures' properties, which are not worth a warning.
_FOREIGN: Final = ("psa_", "pna_", "dpdk_", "ubpf_", "ebpf_", "idle_", "add_on_miss")


@decl_rule(ast.TableDecl)
def check_table(env: Env, d: ast.TableDecl) -> None:
    """A table of a control."""
    try:
        with env.define(d), env.at(Frame(Place.TABLE, d)):
            keys = _keys(env, d)
            check_actions(env, d)
            _properties(env, d)
            if d.entries is not None:
                check_entries(env, d, keys)
    finally:
        env.declare(d.name, d, d.span)
    env.decl_types[id(d)] = TableT(d.name, d)


def _keys(env: Env, d: ast.TableDecl) -> list[Type | None]:
    """Types of the key fields; None for one that is in error."""
    out: list[Type | None] = []
    for key in d.keys or ():
        t: Type | None = None
        with env.recovering():
            t = _key(env, key)
        out.append(t)
    longest = [key for key in d.keys or () if key.match_kind == "lpm"]
    if len(longest) > 1:
        env.complain(
            f"table '{d.name}' has a second lpm key: of two prefixes none is the longest",
            longest[1].span,
            "make one of them ternary",
        )
    return out


def _key(env: Env, key: ast.TableKey) -> Type:
    t = env.expr(key.expr)
    if not isinstance(bare(t), BitsT | BoolT | EnumT | SerEnumT | ErrorT | VarbitT | TypeVarT):
        hint = "cast it, like (bit<8>)…" if isinstance(t, IntT) else "match on its fields instead"
        raise env.error(f"a key field cannot have type {t}", key.expr.span, hint)
    decl = env.match_kinds.get(key.match_kind)
    if decl is None:
        raise env.error(
            f"match_kind '{key.match_kind}' is not declared",
            key.span,
            env.near(key.match_kind, tuple(env.match_kinds))
            or f"the match kinds are {', '.join(env.match_kinds)}",
        )
    return t


# --- properties -----------------------------------------------------------------------------------


def _properties(env: Env, d: ast.TableDecl) -> None:
    seen: set[str] = set()
    for p in d.properties:
        with env.recovering():
            if p.name in seen:
                raise env.error(f"table '{d.name}' has '{p.name}' twice", p.span)
            seen.add(p.name)
            _property(env, d, p)
    if "default_action" not in seen:
        _needs_no_action(env, d)


def _needs_no_action(env: Env, d: ast.TableDecl) -> None:
    found = env.find("NoAction", absolute=True)
    if not isinstance(found, ast.ActionDecl) or found.params:
        env.complain(
            f"table '{d.name}' has no default_action, and there is no action NoAction()",
            d.span,
            "include core.p4, or give the table a default_action",
        )


def _property(env: Env, d: ast.TableDecl, p: ast.TableProperty) -> None:
    if p.name == "default_action":
        _default_action(env, d, p)
    elif p.name in _INTEGER:
        _integer(env, p)
    elif p.name in _BOOLEAN:
        t = env.expr(p.value)
        if not isinstance(t, BoolT) or not env.known(p.value):
            raise env.error(f"'{p.name}' must be true or false", p.value.span)
    elif p.name in _OBJECT:
        t = env.expr(p.value)
        if not isinstance(t, ExternT):
            raise env.error(f"'{p.name}' must be an extern instance, not {t}", p.value.span)
    elif not p.name.startswith(_FOREIGN):
        near = env.near(p.name, ("default_action", *_INTEGER, *_BOOLEAN, *_OBJECT))
        env.warn(
            f"the table property '{p.name}' is unknown and ignored; {near}".rstrip("; "), p.span
        )


def _integer(env: Env, p: ast.TableProperty) -> None:
    t = env.expr(p.value)
    if not isinstance(t, BitsT | IntT):
        raise env.error(f"'{p.name}' must be an integer, not {t}", p.value.span)
    if not env.known(p.value):
        raise env.error(f"'{p.name}' must be known at compile time", p.value.span)
    value = const_of(env, p.value)
    least = 1 if p.name == "priority_delta" else 0
    if isinstance(value, int) and value < least:
        raise env.error(f"'{p.name}' must be at least {least}, not {value}", p.value.span)
    if isinstance(t, IntT) and isinstance(value, int):
        coerce(env, p.value, BitsT(64), f"'{p.name}'")


def _default_action(env: Env, d: ast.TableDecl, p: ast.TableProperty) -> None:
    match p.value:
        case ast.Name() as name:
            args: tuple[ast.Argument, ...] = ()
        case ast.Call(callee=ast.Name() as name, args=args, type_args=()):
            pass
        case _:
            raise env.error("default_action must name an action", p.value.span)
    entity = env.lookup(name.name, name.span, "action", absolute=name.absolute)
    if not isinstance(entity, ast.ActionDecl):
        raise env.error(f"'{name.name}' is {describe(entity)}, not an action", name.span)
    ref = find_listed(env, d, name)
    if any(a.name == "tableonly" for a in ref.annotations):
        raise env.error(f"'{name.name}' is @tableonly and cannot be the default", p.value.span)
    info = bind_whole(env, ref, args, p.value)
    env.checked.refs[id(name)] = entity
    env.checked.types[id(name)] = VoidT()
    env.checked.types[id(p.value)] = VoidT()
    env.checked.calls[id(p.value)] = info
