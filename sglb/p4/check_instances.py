"""Instantiation: constructor calls, where instances may stand, abstract methods (spec 11.3, 7.2.9)."""

from __future__ import annotations

from collections.abc import Sequence

from sglb.p4 import ast
from sglb.p4.check_calls import call, choose, signature_of, specialise
from sglb.p4.check_stmts import check_body
from sglb.p4.check_types import apply_type, describe, resolve, type_decl, type_params
from sglb.p4.checked import CallInfo, CallKind
from sglb.p4.scope import Env, Frame, Overloads, Place, Signature, TypeParam, decl_rule
from sglb.p4.source import Span
from sglb.p4.types import DontCareT, ExternT, PackageT, Type

_INSTANTIABLE = ast.ExternDecl | ast.ParserDecl | ast.ControlDecl | ast.PackageDecl


def construct(env: Env, ref: ast.TypeRef, args: Sequence[ast.Argument], span: Span) -> CallInfo:
    """Check a constructor call of the type `ref`; its result is the instance's type."""
    decl = _constructed(env, ref)
    sigs = env.constructors[id(decl)]
    if not sigs:
        raise env.error(f"{describe(decl)} '{decl.name}' has no constructor", span)
    given = _given(env, ref)
    sig = choose(env, sigs, args, span)
    _no_packages_inside(env, decl, span)
    type_args, bound, _ = call(env, sig, given, args, span, constructor=True)
    params = type_params(decl)
    t = env.decl_type(decl)
    if params:
        t = apply_type(env, decl, type_args, span, [span] * len(type_args))
    env.checked.typerefs[id(ref)] = t
    return CallInfo(CallKind.CONSTRUCTOR, decl.name, decl, None, type_args, bound, t)


def _constructed(env: Env, ref: ast.TypeRef) -> _INSTANTIABLE:
    decl = type_decl(env, ref) if isinstance(ref, ast.NamedType) else None
    if isinstance(decl, ast.TypedefDecl):
        if isinstance(ref, ast.NamedType) and ref.args:
            raise env.error(f"'{decl.name}' is not generic", ref.span)
        decl = _behind(env, decl)
    if decl is None or isinstance(decl, TypeParam) or not isinstance(decl, _INSTANTIABLE):
        what = resolve(env, ref) if not isinstance(decl, TypeParam) else decl.name
        raise env.error(f"there are no instances of {what}", ref.span)
    if any(decl is d for d in env.defining) and not isinstance(decl, ast.ExternDecl):
        raise env.error(f"'{decl.name}' cannot contain an instance of itself", ref.span)
    env.decl_type(decl)
    no_body = (isinstance(decl, ast.ControlDecl) and decl.body is None) or (
        isinstance(decl, ast.ParserDecl) and decl.states is None
    )
    if no_body:
        raise env.error(f"'{decl.name}' is only a type, without a body to instantiate", ref.span)
    return decl


def _behind(env: Env, decl: ast.TypedefDecl) -> ast.Decl | TypeParam:
    """What a typedef of an extern or control stands for."""
    inner = decl.type
    return type_decl(env, inner) if isinstance(inner, ast.NamedType) else decl


def _given(env: Env, ref: ast.TypeRef) -> tuple[Type, ...]:
    assert isinstance(ref, ast.NamedType)
    if ref.args:
        return tuple(resolve(env, a) for a in ref.args)
    decl = env.find(ref.name, absolute=ref.absolute)
    if isinstance(decl, ast.TypedefDecl) and isinstance(decl.type, ast.NamedType):
        return tuple(resolve(env, a) for a in decl.type.args)
    return ()


def _no_packages_inside(env: Env, decl: ast.Decl, span: Span) -> None:
    place = env.frame.place
    if isinstance(decl, ast.PackageDecl) and place is not Place.TOP:
        raise env.error(f"package '{decl.name}' cannot be instantiated {place.value}", span)
    if place in (Place.FUNCTION, Place.ACTION, Place.METHOD, Place.KEYSET):
        raise env.error(f"'{decl.name}' cannot be instantiated {place.value}", span)


@decl_rule(ast.Instance)
def check_instance(env: Env, d: ast.Instance) -> None:
    """`Type(args) name;`."""
    try:
        info = construct(env, d.type, d.args, d.span)
        _placed(env, d, info)
    except Exception:
        env.declare(d.name, d, d.span)  # known, so that its uses say nothing more
        raise
    env.declare(d.name, d, d.span)
    env.decl_types[id(d)] = info.result
    env.checked.calls[id(d)] = info
    if isinstance(info.result, ExternT):
        _abstract_methods(env, d, info.result)
    elif d.body:
        raise env.error("only extern instances can have a body", d.span)
    if d.name == "main" and env.frame.place is Place.TOP:
        if not isinstance(info.result, PackageT):
            raise env.error(f"'main' must be a package, not {info.result}", d.span)
        env.checked.main = d


def _placed(env: Env, d: ast.Instance, info: CallInfo) -> None:
    place = env.frame.place
    t = info.target
    if place is Place.TOP and isinstance(t, ast.ParserDecl | ast.ControlDecl):
        kind = "parser" if isinstance(t, ast.ParserDecl) else "control"
        raise env.error(f"a {kind} cannot be instantiated at top level", d.span)
    if place is Place.APPLY or place is Place.STATE:
        raise env.error(
            f"'{t.name if t else d.name}' cannot be instantiated {place.value}",
            d.span,
            "move the instance before it",
        )
    if place is Place.PARSER and isinstance(t, ast.ControlDecl):
        raise env.error(f"a parser cannot hold an instance of the control '{t.name}'", d.span)
    if place is Place.CONTROL and isinstance(t, ast.ParserDecl):
        raise env.error(f"a control cannot hold an instance of the parser '{t.name}'", d.span)


# --- abstract methods -----------------------------------------------------------------------------


def _abstract_methods(env: Env, d: ast.Instance, t: ExternT) -> None:
    """Check the methods that an instance's body gives."""
    assert t.decl is not None
    own = dict(zip(t.decl.type_params, t.args, strict=False))
    wanted: dict[str, Signature] = {}
    for sig in env.methods[id(t.decl)]:
        if any(m.abstract and m is sig.decl for m in t.decl.methods):
            wanted[sig.name] = specialise(sig, own)
    if d.body and not wanted:
        raise env.error(f"extern {t} has no abstract methods to implement", d.span)
    given: set[str] = set()
    with env.inner(Frame(Place.METHOD, d)):
        env.scope.names["this"] = d
        for item in d.body:
            if isinstance(item, ast.FunctionDecl):
                with env.recovering():
                    _implementation(env, t, item, wanted)
                given.add(item.name)
            else:
                with env.at(Frame(Place.CONTROL, d)):
                    env.decl(item)
    missing = [name for name in wanted if name not in given and not _optional(t, name)]
    if missing:
        raise env.error(
            f"'{d.name}' must implement the abstract method{'s' * (len(missing) > 1)} "
            f"{', '.join(missing)} of {t}",
            d.span,
        )


def _optional(t: ExternT, name: str) -> bool:
    assert t.decl is not None
    return any(
        m.name == name and any(a.name == "optional" for a in m.annotations) for m in t.decl.methods
    )


def _implementation(
    env: Env, t: ExternT, item: ast.FunctionDecl, wanted: dict[str, Signature]
) -> None:
    want = wanted.get(item.name)
    if want is None:
        raise env.error(
            f"extern {t} has no abstract method '{item.name}'",
            item.span,
            env.near(item.name, tuple(wanted)),
        )
    if item.signature.type_params:
        raise env.error("a method's implementation cannot be generic", item.span)
    sig = signature_of(env, item, item.signature)
    same = (
        sig.types == want.types
        and sig.result == want.result
        and [p.direction for p in sig.params] == [p.direction for p in want.params]
        and not any(isinstance(x, DontCareT) for x in sig.types)
    )
    if not same:
        raise env.error(
            f"'{item.name}' does not have the parameters and result of the abstract method",
            item.span,
            f"it is declared as {want} returning {want.result}",
        )
    env.signatures[id(item)] = sig
    check_body(env, item, sig, Place.METHOD)
    if item.name not in env.scope.names:
        env.scope.names[item.name] = Overloads([item])
