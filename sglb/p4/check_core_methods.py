"""What core.p4's packet_in and packet_out take (specification 13.8, 16)."""

from __future__ import annotations

from sglb.p4 import ast
from sglb.p4.checked import BoundArg
from sglb.p4.scope import Env
from sglb.p4.types import (
    DontCareT,
    StackT,
    StructT,
    TupleT,
    Type,
    TypeVarT,
    VarbitT,
    VoidT,
)


def check_core_method(
    env: Env,
    e: ast.Call,
    extern: str,
    method: str,
    type_args: tuple[Type, ...],
    bound: tuple[BoundArg, ...],
) -> None:
    """Check the types that `extract`, `lookahead` and `emit` are used with."""
    if not type_args:
        return
    t = type_args[0]
    match extern, method:
        case "packet_in", "extract":
            _extract(env, e, t, len([b for b in bound if b.arg is not None]))
        case "packet_in", "lookahead":
            if isinstance(t, VoidT | DontCareT) or has_varbit(t):
                raise env.error(f"lookahead needs a type of fixed width, not {t}", e.span)
        case "packet_out", "emit":
            if not _emittable(t):
                raise env.error(
                    f"emit takes headers, stacks, unions, and structs of them, not {t}", e.span
                )


def _extract(env: Env, e: ast.Call, t: Type, args: int) -> None:
    if isinstance(t, TypeVarT | DontCareT):
        return
    if not (isinstance(t, StructT) and t.kind == "header"):
        raise env.error(f"extract needs a header, not {t}", e.span)
    if args == 1 and has_varbit(t):
        raise env.error(
            f"header {t} has a varbit field: extract needs its length in bits as well", e.span
        )
    if args == 2 and not has_varbit(t):
        raise env.error(f"header {t} has no varbit field to give a length", e.span)


def has_varbit(t: Type) -> bool:
    """Whether the size of a value of `t` can vary."""
    match t:
        case VarbitT() | StructT(kind="header_union"):
            return True
        case StructT(fields=fields):
            return any(has_varbit(f.type) for f in fields)
        case StackT(element=element):
            return has_varbit(element)
        case TupleT(items=items):
            return any(map(has_varbit, items))
    return False


def _emittable(t: Type) -> bool:
    match t:
        case StructT(kind="header" | "header_union") | TypeVarT() | DontCareT():
            return True
        case StructT(fields=fields):
            return all(_emittable(f.type) for f in fields)
        case StackT(element=element):
            return _emittable(element)
        case TupleT(items=items):
            return all(map(_emittable, items))
    return False
