"""Entries of a table: key sets by match kind, actions, priorities (specification 14.2.1.4)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sglb.p4 import ast
from sglb.p4.check_action_lists import bind_whole, find_listed
from sglb.p4.check_parsers import check_keys, spread
from sglb.p4.coerce import const_of
from sglb.p4.scope import Env
from sglb.p4.types import BitsT, DontCareT, IntT, SerEnumT, SetT, Type
from sglb.p4.unify import bare

#: Match kinds whose entries need an order among themselves.
_ORDERED: Final = ("ternary", "range", "optional")


def check_entries(env: Env, d: ast.TableDecl, types: Sequence[Type | None]) -> None:
    """Check the entries of a table whose key fields have `types` (None: in error)."""
    if not d.keys and d.entries:
        raise env.error(
            f"table '{d.name}' has no key, so it cannot have entries",
            d.span,
            "use default_action instead",
        )
    whole = [t for t in types if t is not None]
    for e in d.entries or ():
        with env.recovering():
            if len(whole) == len(types):
                _keys(env, d, e, whole)
            _priority(env, d, e)
            _action(env, d, e)


def _action(env: Env, d: ast.TableDecl, e: ast.TableEntry) -> None:
    ref = find_listed(env, d, e.action)
    if any(a.name == "defaultonly" for a in ref.annotations):
        raise env.error(f"'{ref.name}' is @defaultonly and cannot stand in an entry", e.action.span)
    env.checked.refs[id(e.action)] = env.checked.refs[id(ref)]
    env.checked.calls[id(e.action)] = bind_whole(env, ref, e.action.args or (), e.action)


def _priority(env: Env, d: ast.TableDecl, e: ast.TableEntry) -> None:
    if e.priority is None:
        if not d.entries_const and _needs_priority(d, e):
            raise env.error(
                "this entry needs a priority, since others have one",
                e.span,
                "write priority = …: before its key, or make all the entries const",
            )
        return
    t = env.expr(e.priority)
    value = const_of(env, e.priority)
    if not isinstance(t, BitsT | IntT):
        raise env.error(f"a priority must be an integer, not {t}", e.priority.span)
    if not env.known(e.priority):
        raise env.error("a priority must be known at compile time", e.priority.span)
    if isinstance(value, int) and value < 0:
        raise env.error(f"a priority cannot be negative, but this is {value}", e.priority.span)
    if not any(k.match_kind in _ORDERED for k in d.keys or ()):
        raise env.error(
            f"entries of '{d.name}' take no priority: its key has only exact and lpm fields",
            e.priority.span,
        )


def _needs_priority(d: ast.TableDecl, e: ast.TableEntry) -> bool:
    """Whether the first entry lacks a priority although a later one has one."""
    entries = d.entries or ()
    return e is entries[0] and any(x.priority is not None for x in entries)


def _keys(env: Env, d: ast.TableDecl, e: ast.TableEntry, types: Sequence[Type]) -> None:
    check_keys(env, e.keys, types, e)
    assert d.keys is not None
    keys = spread(env, e.keys, types)
    if len(keys) != len(d.keys):
        return  # one `default` for all fields
    for key, field, t in zip(keys, d.keys, types, strict=True):
        if not env.known(key):
            raise env.error("an entry's key must be known at compile time", key.span)
        _by_kind(env, key, field.match_kind, t)


def _by_kind(env: Env, key: ast.Expr, kind: str, t: Type) -> None:
    """What may stand in the key of an entry for one match kind."""
    mine = env.type(key)
    if isinstance(mine, DontCareT):
        if kind == "exact":
            raise env.error("an exact field needs a value, not '_'", key.span)
        return
    if not isinstance(mine, SetT) or not isinstance(key, ast.Binary):
        return
    if key.op == "&&&":
        if kind not in ("ternary", "lpm"):
            raise env.error(f"a mask cannot be used on a field matched by {kind}", key.span)
        if kind == "lpm":
            _prefix(env, key, t)
    elif kind != "range":
        raise env.error(f"a range of values cannot be used on a field matched by {kind}", key.span)


def _prefix(env: Env, key: ast.Binary, t: Type) -> None:
    """An lpm field's mask is ones followed by zeros."""
    mask = const_of(env, key.right)
    under = bare(t)
    if isinstance(under, SerEnumT):
        under = under.underlying
    if not isinstance(mask, int) or not isinstance(under, BitsT):
        return
    mask &= (1 << under.width) - 1
    holes = mask ^ ((1 << under.width) - 1)
    if holes & (holes + 1):
        raise env.error(
            f"{mask:#x} is no prefix: an lpm field's mask is ones followed by zeros",
            key.right.span,
        )
