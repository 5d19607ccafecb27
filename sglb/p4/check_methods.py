"""Call expressions: functions, actions, methods, `apply`, built-in methods, unnamed instances."""

from __future__ import annotations

from typing import Final

from sglb.p4 import ast
from sglb.p4.check_calls import block_signature, call, choose, specialise
from sglb.p4.check_core_methods import check_core_method
from sglb.p4.check_instances import construct
from sglb.p4.check_refs import check_lvalue
from sglb.p4.check_types import describe, resolve, type_decl
from sglb.p4.checked import CallInfo, CallKind
from sglb.p4.coerce import const_of
from sglb.p4.scope import Env, Overloads, Place, Poisoned, expr_rule
from sglb.p4.source import Span
from sglb.p4.types import (
    ApplyResultT,
    BitsT,
    BoolT,
    ControlT,
    ExternT,
    IntT,
    ParserT,
    SerEnumT,
    StackT,
    StructT,
    TableT,
    TupleT,
    Type,
    VarbitT,
    VoidT,
)
from sglb.p4.unify import bare

_SIZES: Final = ("minSizeInBits", "minSizeInBytes", "maxSizeInBits", "maxSizeInBytes")
_VALIDITY: Final = ("isValid", "setValid", "setInvalid")
_STACK: Final = ("push_front", "pop_front")
#: Functions of core.p4 that only parsers may call.
_PARSER_ONLY: Final = ("verify",)


def not_here(env: Env, what: str, span: Span, hint: str = "") -> Exception:
    """The error for something that cannot stand in the body being checked."""
    return env.error(f"{what} {env.frame.place.value}", span, hint)


@expr_rule(ast.Call)
def check_call(env: Env, e: ast.Call) -> Type:
    """Any call expression."""
    callee = e.callee
    match callee:
        case ast.Name():
            info = _named_call(env, e, callee)
        case ast.TypeExpr():
            info = construct(env, callee.type, e.args, e.span)
            _no_abstract(env, e, info)
            env.checked.types[id(callee)] = info.result
            env.known_ids.add(id(e))
        case ast.Member(base=ast.TypeExpr() as base):
            info = _type_call(env, e, callee, base)
        case ast.Member():
            info = _method_call(env, e, callee)
        case _:
            raise env.error("this cannot be called", callee.span)
    env.checked.calls[id(e)] = info
    return info.result


def _no_abstract(env: Env, e: ast.Call, info: CallInfo) -> None:
    decl = info.target
    if isinstance(decl, ast.ExternDecl) and any(m.abstract for m in decl.methods):
        raise env.error(
            f"'{decl.name}' has abstract methods: it needs a declaration that implements them",
            e.span,
            f"declare {info.result}(…) name = {{ … }};",
        )


def _no_calls_in_keysets(env: Env, e: ast.Call) -> None:
    if env.frame.place is Place.KEYSET:
        raise not_here(env, "a function cannot be called", e.span)


# --- functions and actions ------------------------------------------------------------------------


def _named_call(env: Env, e: ast.Call, callee: ast.Name) -> CallInfo:
    entity = env.lookup(callee.name, callee.span, "function", absolute=callee.absolute)
    if isinstance(entity, ast.ActionDecl):
        return _action_call(env, e, callee, entity)
    if not isinstance(entity, Overloads):
        raise env.error(
            f"'{callee.name}' is {describe(entity)} and cannot be called",
            callee.span,
            _apply_hint(entity),
        )
    _no_calls_in_keysets(env, e)
    sigs = [env.signatures[id(d)] for d in entity.decls if id(d) in env.signatures]
    if not sigs:
        raise Poisoned  # their own declarations have failed
    sig = choose(env, sigs, e.args, e.span)
    decl = sig.decl
    assert isinstance(decl, ast.FunctionDecl)
    _parser_only(env, e, decl)
    type_args, bound, result = call(env, sig, _type_args(env, e), e.args, e.span)
    env.checked.refs[id(callee)] = decl
    kind = CallKind.FUNCTION if decl.body is not None else CallKind.EXTERN_FUNCTION
    info = CallInfo(kind, callee.name, decl, None, type_args, bound, result)
    if callee.name == "static_assert" and decl.body is None:
        _static_assert(env, e, info)
    return info


def _apply_hint(entity: object) -> str:
    if isinstance(entity, ast.TableDecl | ast.Instance):
        return f"did you mean {entity.name}.apply(…)?"
    return ""


def _type_args(env: Env, e: ast.Call) -> tuple[Type, ...]:
    return tuple(resolve(env, a) for a in e.type_args)


def _parser_only(env: Env, e: ast.Call, decl: ast.FunctionDecl) -> None:
    if decl.body is None and decl.name in _PARSER_ONLY and env.frame.place is not Place.STATE:
        raise not_here(env, f"'{decl.name}' cannot be called", e.span, "only parsers may call it")


def _static_assert(env: Env, e: ast.Call, info: CallInfo) -> None:
    values = [const_of(env, b.arg.value) for b in info.args if b.arg and b.arg.value]
    env.known_ids.add(id(e))
    if not values or values[0] is None:
        return
    if not values[0]:
        text = f": {values[1]}" if len(values) > 1 else ""
        raise env.error(f"static assertion failed{text}", e.span)
    env.set_const(e, True)


def _action_call(env: Env, e: ast.Call, callee: ast.Name, action: ast.ActionDecl) -> CallInfo:
    if env.frame.place not in (Place.ACTION, Place.APPLY, Place.METHOD, Place.TABLE):
        raise not_here(env, f"action '{action.name}' cannot be called", e.span)
    if e.type_args:
        raise env.error("actions take no type arguments", e.span)
    env.decl_type(action)
    sig = choose(env, [env.signatures[id(action)]], e.args, e.span)
    _, bound, result = call(env, sig, (), e.args, e.span, action=True)
    env.checked.refs[id(callee)] = action
    return CallInfo(CallKind.ACTION, action.name, action, None, (), bound, result)


# --- Type.method ----------------------------------------------------------------------------------


def _type_call(env: Env, e: ast.Call, callee: ast.Member, base: ast.TypeExpr) -> CallInfo:
    if callee.name in _SIZES:
        t = resolve(env, base.type)
        env.checked.types[id(base)] = t
        return _size(env, e, callee.name, t, None)
    if callee.name != "apply":
        t = resolve(env, base.type)
        raise env.error(f"type {t} has no method '{callee.name}'", e.span)
    return _direct_apply(env, e, base)


def _direct_apply(env: Env, e: ast.Call, base: ast.TypeExpr) -> CallInfo:
    """`T.apply(…)`: an instance of its own, applied at once (specification 14.1.2, 15.1)."""
    decl = type_decl(env, base.type) if isinstance(base.type, ast.NamedType) else None
    if not isinstance(decl, ast.ParserDecl | ast.ControlDecl):
        raise env.error("only a parser or control can be applied", e.span)
    made = construct(env, base.type, (), e.span)
    t = made.result
    assert isinstance(t, ParserT | ControlT)
    env.checked.types[id(base)] = t
    return _block_call(env, e, t, None)


def _block_call(
    env: Env, e: ast.Call, t: ParserT | ControlT, receiver: ast.Expr | None
) -> CallInfo:
    parser = isinstance(t, ParserT)
    allowed = Place.STATE if parser else Place.APPLY
    if env.frame.place is not allowed:
        word = "parser" if parser else "control"
        raise not_here(env, f"{word} '{t.name}' cannot be applied", e.span)
    sig = block_signature(env, t)
    chosen = choose(env, [sig], e.args, e.span)
    _, bound, _ = call(env, chosen, (), e.args, e.span)
    kind = CallKind.PARSER_APPLY if parser else CallKind.CONTROL_APPLY
    direct = receiver is None
    return CallInfo(kind, "apply", t.decl, receiver, t.args, bound, VoidT(), direct)


# --- value.method ---------------------------------------------------------------------------------


def _method_call(env: Env, e: ast.Call, callee: ast.Member) -> CallInfo:
    base = env.expr(callee.base)
    if callee.name in _SIZES and not isinstance(base, ExternT):
        return _size(env, e, callee.name, base, callee.base)
    match base:
        case ExternT():
            return _extern_method(env, e, callee, base)
        case TableT() if callee.name == "apply":
            return _table_apply(env, e, callee, base)
        case ParserT() | ControlT() if callee.name == "apply":
            return _block_call(env, e, base, callee.base)
        case StructT() if callee.name in _VALIDITY:
            return _validity(env, e, callee, base)
        case StackT() if callee.name in _STACK:
            return _push_pop(env, e, callee, base)
    choices = _SIZES + _VALIDITY + _STACK + ("apply",)
    raise env.error(
        f"a value of type {base} has no method '{callee.name}'",
        e.span,
        env.near(callee.name, choices),
    )


def _extern_method(env: Env, e: ast.Call, callee: ast.Member, base: ExternT) -> CallInfo:
    _no_calls_in_keysets(env, e)
    assert base.decl is not None
    env.decl_type(base.decl)
    own = dict(zip(base.decl.type_params, base.args, strict=False))
    methods = env.methods[id(base.decl)]
    sigs = [specialise(s, own) for s in methods if s.name == callee.name]
    if not sigs:
        raise env.error(
            f"extern {base} has no method '{callee.name}'",
            e.span,
            env.near(callee.name, tuple(s.name for s in methods)),
        )
    sig = choose(env, sigs, e.args, e.span)
    type_args, bound, result = call(env, sig, _type_args(env, e), e.args, e.span)
    check_core_method(env, e, base.name, callee.name, type_args, bound)
    return CallInfo(CallKind.METHOD, callee.name, sig.decl, callee.base, type_args, bound, result)


def _table_apply(env: Env, e: ast.Call, callee: ast.Member, base: TableT) -> CallInfo:
    if env.frame.place not in (Place.APPLY, Place.TABLE):
        hint = "apply it in the control's apply block" if env.frame.place is Place.ACTION else ""
        raise not_here(env, f"table '{base.name}' cannot be applied", e.span, hint)
    if e.args or e.type_args:
        raise env.error("a table's apply takes no arguments", e.span)
    result = ApplyResultT(base.name, base.decl)
    return CallInfo(CallKind.TABLE_APPLY, "apply", base.decl, callee.base, (), (), result)


def _no_args(env: Env, e: ast.Call, name: str) -> None:
    if e.args or e.type_args:
        raise env.error(f"'{name}' takes no arguments", e.span)


def _builtin(name: str, receiver: ast.Expr | None, result: Type) -> CallInfo:
    return CallInfo(CallKind.BUILTIN, name, None, receiver, (), (), result)


def _validity(env: Env, e: ast.Call, callee: ast.Member, base: StructT) -> CallInfo:
    name = callee.name
    allowed = base.kind == "header" or (base.kind == "header_union" and name == "isValid")
    if not allowed:
        raise env.error(f"a {base.kind.replace('_', ' ')} has no method '{name}'", e.span)
    _no_args(env, e, name)
    if name == "isValid":
        return _builtin(name, callee.base, BoolT())
    check_lvalue(env, callee.base, f"the header of '{name}'")
    return _builtin(name, callee.base, VoidT())


def _push_pop(env: Env, e: ast.Call, callee: ast.Member, base: StackT) -> CallInfo:
    name = callee.name
    if not (isinstance(base.element, StructT) and base.element.kind != "struct"):
        raise env.error(f"'{name}' needs a header stack, but this is {base}", e.span)
    if len(e.args) != 1 or e.args[0].value is None or e.type_args:
        raise env.error(f"'{name}' takes one argument, the number of elements", e.span)
    count = e.args[0].value
    t = env.expr(count)
    if not isinstance(t, IntT | BitsT):
        raise env.error(f"the number of elements must be an integer, not {t}", count.span)
    value = const_of(env, count)
    if not env.known(count):
        raise env.error(f"the argument of '{name}' must be known at compile time", count.span)
    if isinstance(value, int) and value < 0:
        raise env.error("the number of elements cannot be negative", count.span)
    check_lvalue(env, callee.base, f"the stack of '{name}'")
    return _builtin(name, callee.base, VoidT())


# --- sizes (specification 9) ----------------------------------------------------------------------


def _size(env: Env, e: ast.Call, name: str, t: Type, receiver: ast.Expr | None) -> CallInfo:
    _no_args(env, e, name)
    sizes = size_in_bits(t)
    if sizes is None:
        raise env.error(f"values of type {t} have no size", e.span)
    bits = sizes[0] if name.startswith("min") else sizes[1]
    env.set_const(e, bits if name.endswith("Bits") else (bits + 7) // 8)
    return _builtin(name, receiver, IntT())


def size_in_bits(t: Type) -> tuple[int, int] | None:
    """The smallest and largest size of a value of `t` in bits, None where it has none."""
    match bare(t):
        case BitsT(width=w) | SerEnumT(underlying=BitsT(width=w)):
            return w, w
        case BoolT():
            return 1, 1
        case VarbitT(width=w):
            return 0, w
        case StructT(kind="header_union", fields=fields):
            parts = [size_in_bits(f.type) for f in fields]
            some = [p for p in parts if p is not None]
            return min((p[0] for p in some), default=0), max((p[1] for p in some), default=0)
        case StructT(fields=fields):
            return _sum([size_in_bits(f.type) for f in fields])
        case TupleT(items=items):
            return _sum([size_in_bits(i) for i in items])
        case StackT(element=element, size=size):
            return _sum([size_in_bits(element)] * size)
    return None


def _sum(parts: list[tuple[int, int] | None]) -> tuple[int, int] | None:
    some = [p for p in parts if p is not None]
    if len(some) != len(parts):
        return None
    return sum(p[0] for p in some), sum(p[1] for p in some)
