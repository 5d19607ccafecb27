"""Type expressions and type declarations (specification chapter 7): what they denote, what may nest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sglb.p4 import ast
from sglb.p4.coerce import coerce, const_of
from sglb.p4.constants import bounds, fits
from sglb.p4.scope import Entity, Env, Overloads, TypeParam, decl_rule
from sglb.p4.source import Span
from sglb.p4.types import (
    BitsT,
    BoolT,
    ControlT,
    DontCareT,
    EnumT,
    ErrorT,
    ExternT,
    FieldT,
    IntT,
    ListT,
    MatchKindT,
    NewT,
    PackageT,
    ParserT,
    SerEnumT,
    StackT,
    StringT,
    StructT,
    TupleT,
    Type,
    TypeVarT,
    VarbitT,
    VoidT,
)
from sglb.p4.unify import bare, is_block, substitute

#: No header field or variable is wider than this; p4c stops at 2048.
MAX_WIDTH: Final = 1 << 16

TYPE_DECLS: Final = (
    ast.StructDecl,
    ast.EnumDecl,
    ast.TypedefDecl,
    ast.ExternDecl,
    ast.ParserDecl,
    ast.ControlDecl,
    ast.PackageDecl,
)

_SIMPLE: Final[dict[str, Type]] = {
    "bool": BoolT(),
    "error": ErrorT(),
    "string": StringT(),
    "int": IntT(),
    "match_kind": MatchKindT(),
    "void": VoidT(),
}


def resolve(env: Env, ref: ast.TypeRef) -> Type:
    """The type a type expression denotes; recorded in `Checked.typerefs`."""
    done = env.checked.typerefs.get(id(ref))
    if done is None:
        done = _resolve(env, ref)
        env.checked.typerefs[id(ref)] = done
    return done


def _resolve(env: Env, ref: ast.TypeRef) -> Type:
    match ref:
        case ast.BaseType():
            return _base(env, ref)
        case ast.NamedType():
            return _named(env, ref)
        case ast.StackType():
            return _stack(env, ref)
        case ast.TupleType(args=args, is_list=is_list):
            items = tuple(resolve(env, a) for a in args)
            for item, arg in zip(items, args, strict=True):
                if is_block(item) or isinstance(item, VoidT):
                    raise env.error(
                        f"a {'list' if is_list else 'tuple'} cannot hold {item}", arg.span
                    )
            return ListT(items[0]) if is_list else TupleT(items)
        case ast.DontCareType():
            return DontCareT()
    raise AssertionError(ref)


def _base(env: Env, ref: ast.BaseType) -> Type:
    simple = _SIMPLE.get(ref.kind)
    if simple is not None:
        return simple
    width = 1 if ref.width is None else _size(env, ref.width, "width")
    if ref.kind == "varbit":
        return VarbitT(width)
    if ref.kind == "fixint" and width == 0:
        raise env.error("the width of a signed type must be at least 1", ref.span)
    return BitsT(width, ref.kind == "fixint")


def _size(env: Env, e: ast.Expr, what: str) -> int:
    """A width or array size: a non-negative compile-time integer."""
    t = env.expr(e)
    value = env.const(e)
    if not isinstance(t, IntT | BitsT | SerEnumT):
        raise env.error(f"the {what} must be an integer, but this is {t}", e.span)
    if not isinstance(value, int):
        raise env.error(f"the {what} must be a constant known at compile time", e.span)
    if value < 0:
        raise env.error(f"the {what} cannot be negative, but this is {value}", e.span)
    if value > MAX_WIDTH:
        raise env.error(
            f"the {what} {value} is too large; at most {MAX_WIDTH} is supported", e.span
        )
    return value


def type_decl(env: Env, ref: ast.NamedType) -> ast.Decl | TypeParam:
    """The declaration that a type name means; recorded in `Checked.refs`."""
    entity = env.lookup(ref.name, ref.span, "type", absolute=ref.absolute)
    if isinstance(entity, TypeParam):
        return entity
    if isinstance(entity, TYPE_DECLS):
        env.checked.refs[id(ref)] = entity
        return entity
    raise env.error(f"'{ref.name}' is {describe(entity)}, not a type", ref.span)


def describe(entity: Entity) -> str:
    """An entity's kind, with its article."""
    names: dict[type[object], str] = {
        ast.Param: "a parameter",
        ast.VarDecl: "a variable",
        ast.ConstDecl: "a constant",
        ast.Instance: "an instance",
        ast.ForIn: "a loop variable",
        ast.TableDecl: "a table",
        ast.ActionDecl: "an action",
        ast.ValueSetDecl: "a value set",
        ast.ParserState: "a parser state",
        ast.ExternDecl: "an extern type",
        ast.ParserDecl: "a parser",
        ast.ControlDecl: "a control",
        ast.PackageDecl: "a package",
        ast.StructDecl: "a struct or header type",
        ast.EnumDecl: "an enum",
        ast.TypedefDecl: "a type",
        TypeParam: "a type parameter",
        Overloads: "a function",
    }
    return names.get(type(entity), "something else")


def type_params(decl: ast.Decl) -> tuple[str, ...]:
    """The type parameters of a declaration, () where it has none."""
    params: tuple[str, ...] = getattr(decl, "type_params", ())
    return params


def _named(env: Env, ref: ast.NamedType) -> Type:
    decl = type_decl(env, ref)
    if isinstance(decl, TypeParam):
        if ref.args:
            raise env.error(f"the type parameter '{decl.name}' takes no type arguments", ref.span)
        return TypeVarT(decl.name)
    if any(decl is d for d in env.defining) and not isinstance(decl, ast.ExternDecl):
        raise env.error(f"'{decl.name}' cannot refer to itself", ref.span)
    params = type_params(decl)
    if not params and not ref.args:
        return env.decl_type(decl)
    args = tuple(resolve(env, a) for a in ref.args)
    if not args:
        raise env.error(
            f"'{ref.name}' is generic and needs type arguments",
            ref.span,
            f"it is declared as {ref.name}<{', '.join(params)}>",
        )
    return apply_type(env, decl, args, ref.span, [a.span for a in ref.args])


def apply_type(
    env: Env, decl: ast.Decl, args: tuple[Type, ...], span: Span, spans: Sequence[Span]
) -> Type:
    """A generic type applied to type arguments, checked again for what may nest."""
    params = type_params(decl)
    if len(args) != len(params):
        raise env.error(
            f"'{decl.name}' has {counted(len(params), 'type parameter')}, "
            f"but is given {counted(len(args), 'type argument')}",
            span,
            f"it is declared as {decl.name}<{', '.join(params)}>" if params else "",
        )
    for arg, where in zip(args, spans, strict=False):
        if isinstance(arg, VoidT) and isinstance(decl, ast.ExternDecl):
            continue
        if isinstance(arg, ParserT | ControlT | PackageT | VoidT):
            raise env.error(f"{arg} cannot be a type argument", where)
        if isinstance(arg, ExternT) and isinstance(decl, ast.StructDecl):
            raise env.error(f"extern {arg} cannot be a type argument of a {decl.kind}", where)
    t = substitute(env.decl_type(decl), dict(zip(params, args, strict=True)))
    if isinstance(t, StructT):
        check_fields(env, t, span)
    return t


def counted(n: int, what: str) -> str:
    """`n` things, in words that fit the number."""
    return f"{n or 'no'} {what}{'' if n == 1 else 's'}"


def _stack(env: Env, ref: ast.StackType) -> Type:
    element = resolve(env, ref.element)
    size = _size(env, ref.size, "size of an array")
    _array_element(env, element, ref.span)
    return StackT(element, size)


def _array_element(env: Env, element: Type, span: Span) -> None:
    bad = isinstance(element, ParserT | ControlT | PackageT | ExternT | VoidT | StringT | IntT)
    if bad or isinstance(element, DontCareT | ListT | MatchKindT):
        raise env.error(f"there are no arrays of {element}", span)


def revalidate(env: Env, t: Type, span: Span) -> None:
    """Check a type that substitution made: what may nest is known only now."""
    match t:
        case StructT():
            check_fields(env, t, span)
        case StackT(element=element):
            _array_element(env, element, span)
            revalidate(env, element, span)
        case TupleT(items=items):
            for item in items:
                if is_block(item):
                    raise env.error(f"a tuple cannot hold {item}", span)
                revalidate(env, item, span)


# --- what may nest (spec 7.2.8) -------------------------------------------------------------------


def check_fields(env: Env, t: StructT, span: Span) -> None:
    """Check that every field of a struct, header or union may stand in it."""
    varbits = [f.name for f in t.fields if isinstance(f.type, VarbitT)]
    if t.kind == "header" and len(varbits) > 1:
        raise env.error(f"header {t} has more than one varbit field: {', '.join(varbits)}", span)
    allowed = {"struct": _in_struct, "header": _in_header, "header_union": _in_union}[t.kind]
    for f in t.fields:
        if not allowed(f.type):
            raise env.error(
                f"field '{f.name}' of {t.kind.replace('_', ' ')} {t} cannot have type {f.type}",
                _field_span(t, f.name, span),
                "a header union holds headers only" if t.kind == "header_union" else "",
            )


def _field_span(t: StructT, name: str, span: Span) -> Span:
    if t.decl is not None and t.decl.span == span:
        return next((f.span for f in t.decl.fields if f.name == name), span)
    return span


def _in_struct(t: Type) -> bool:
    t = bare(t)
    if isinstance(t, BitsT | VarbitT | BoolT | ErrorT | EnumT | SerEnumT | StructT | TypeVarT):
        return True
    return isinstance(t, StackT | TupleT | MatchKindT)


def _in_header(t: Type) -> bool:
    return isinstance(t, VarbitT) or _plain(t)


def _plain(t: Type) -> bool:
    t = bare(t)
    if isinstance(t, StackT):
        return _plain(t.element)
    if isinstance(t, StructT):
        return t.kind == "struct" and all(_plain(f.type) for f in t.fields)
    return isinstance(t, BitsT | BoolT | SerEnumT | TypeVarT)


def _in_union(t: Type) -> bool:
    return isinstance(t, TypeVarT) or (isinstance(t, StructT) and t.kind == "header")


# --- declarations ---------------------------------------------------------------------------------


def declare_type_params(env: Env, names: tuple[str, ...], span: Span) -> None:
    """Bring type parameters into the innermost scope."""
    for name in names:
        if name in env.scope.names:
            raise env.error(f"type parameter '{name}' is declared twice", span)
        env.scope.names[name] = TypeParam(name)


def unique(env: Env, items: Sequence[tuple[str, Span]], what: str) -> None:
    """Complain about the second of two equal names."""
    seen: dict[str, Span] = {}
    for name, span in items:
        if name in seen:
            raise env.error(f"{what} '{name}' is declared twice", span, f"first at {seen[name]}")
        seen[name] = span


@decl_rule(ast.StructDecl)
def check_struct(env: Env, d: ast.StructDecl) -> None:
    """A struct, header or header union."""
    env.declare(d.name, d, d.span)
    unique(env, [(f.name, f.span) for f in d.fields], "field")
    with env.define(d), env.inner():
        declare_type_params(env, d.type_params, d.span)
        fields = tuple(FieldT(f.name, resolve(env, f.type), f.annotations) for f in d.fields)
    t = StructT(d.name, d.kind, fields, tuple(map(TypeVarT, d.type_params)), d)
    env.decl_types[id(d)] = t  # before its fields are judged: uses of it are checked all the same
    check_fields(env, t, d.span)


@decl_rule(ast.EnumDecl)
def check_enum(env: Env, d: ast.EnumDecl) -> None:
    """An enum, with or without values."""
    env.declare(d.name, d, d.span)
    unique(env, [(m.name, m.span) for m in d.members], "enum member")
    if d.underlying is None:
        env.decl_types[id(d)] = EnumT(d.name, tuple(m.name for m in d.members))
        return
    with env.define(d):
        under = resolve(env, d.underlying)
    if not isinstance(under, BitsT):
        raise env.error(f"an enum's values are bit<W> or int<W>, not {under}", d.underlying.span)
    values = tuple(_enum_value(env, m, under) for m in d.members)
    env.decl_types[id(d)] = SerEnumT(d.name, under, tuple(m.name for m in d.members), values)


def _enum_value(env: Env, m: ast.EnumMember, under: BitsT) -> int:
    if m.value is None:
        raise env.error(f"enum member '{m.name}' needs a value", m.span)
    env.expr(m.value)
    raw = env.const(m.value)
    if isinstance(raw, int) and isinstance(env.type(m.value), IntT) and not fits(raw, under):
        low, high = bounds(under)
        raise env.error(f"{raw} does not fit {under} ({low} to {high})", m.value.span)
    coerce(env, m.value, under, f"the value of '{m.name}'")
    value = const_of(env, m.value)
    if not isinstance(value, int):
        raise env.error("an enum's values must be constants known at compile time", m.value.span)
    return value


@decl_rule(ast.TypedefDecl)
def check_typedef(env: Env, d: ast.TypedefDecl) -> None:
    """`typedef` or `type`."""
    env.declare(d.name, d, d.span)
    with env.define(d):
        t = resolve(env, d.type)
    if not d.is_new:
        env.decl_types[id(d)] = t
        return
    if not isinstance(bare(t), BitsT | BoolT):
        raise env.error(
            f"'type' can make a new type of bit<W>, int<W> or bool, not of {t}", d.type.span
        )
    env.decl_types[id(d)] = NewT(d.name, t, d)


@decl_rule(ast.ErrorDecl)
def check_error(env: Env, d: ast.ErrorDecl) -> None:
    """`error { … }` adds to the one error type."""
    for name in d.members:
        if name in env.error_index:
            raise env.error(f"error '{name}' is declared twice", d.span)
        env.error_index[name] = len(env.error_index)


@decl_rule(ast.MatchKindDecl)
def check_match_kind(env: Env, d: ast.MatchKindDecl) -> None:
    """`match_kind { … }` adds match kinds."""
    for name in d.members:
        if name in env.match_kinds:
            raise env.error(f"match_kind '{name}' is declared twice", d.span)
        env.match_kinds[name] = d
