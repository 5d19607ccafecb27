"""Functions, actions, externs, packages, parsers and controls (specification 7.2.9, 10, 13, 14, 15)."""

from __future__ import annotations

from sglb.p4 import ast
from sglb.p4.check_calls import make_signature, signature_of
from sglb.p4.check_parsers import check_states
from sglb.p4.check_stmts import check_block, check_body, declare_params
from sglb.p4.check_types import declare_type_params, unique
from sglb.p4.scope import Env, Frame, Overloads, Place, Signature, decl_rule
from sglb.p4.types import (
    ControlT,
    ExternT,
    IntT,
    ListT,
    PackageT,
    ParserT,
    StringT,
    Type,
    TypeVarT,
    VoidT,
)
from sglb.p4.unify import is_block

# --- functions ------------------------------------------------------------------------------------


@decl_rule(ast.FunctionDecl)
def check_function(env: Env, d: ast.FunctionDecl) -> None:
    """A function with a body, or an extern function."""
    try:
        sig = signature_of(env, d, d.signature)
        _not_overlapping(env, d, sig)
        if d.body is not None:
            _result_is_value(env, d, sig)
            with env.inner():
                declare_type_params(env, d.signature.type_params, d.span)
                check_body(env, d, sig, Place.FUNCTION)
    finally:
        _add_overload(env, d)
    env.signatures[id(d)] = sig


def _result_is_value(env: Env, d: ast.FunctionDecl, sig: Signature) -> None:
    if is_block(sig.result):
        raise env.error(f"a function cannot return {sig.result}", d.span)
    for p, t in zip(sig.params, sig.types, strict=True):
        if p.optional:
            raise env.error(f"'{p.name}' cannot be optional here: the function has a body", p.span)
        if isinstance(t, ParserT | ControlT | PackageT):
            raise env.error(f"parameter '{p.name}' of a function cannot have type {t}", p.span)


def _add_overload(env: Env, d: ast.FunctionDecl) -> None:
    old = env.scope.names.get(d.name)
    if isinstance(old, Overloads):
        old.decls.append(d)
    elif old is None:
        env.scope.names[d.name] = Overloads([d])
    else:
        raise env.error(f"'{d.name}' is already declared{env.place_of(old)}", d.span)


def _not_overlapping(env: Env, d: ast.FunctionDecl, sig: Signature) -> None:
    old = env.scope.names.get(d.name)
    if not isinstance(old, Overloads):
        return
    for other in old.decls:
        theirs = env.signatures.get(id(other))
        if theirs is not None and _same_call(sig, theirs):
            raise env.error(
                f"'{d.name}' with these parameters is already declared at {other.span}", d.span
            )


def _same_call(a: Signature, b: Signature) -> bool:
    """Whether no call could tell two overloads apart."""
    return [p.name for p in a.params] == [p.name for p in b.params]


# --- actions --------------------------------------------------------------------------------------


@decl_rule(ast.ActionDecl)
def check_action(env: Env, d: ast.ActionDecl) -> None:
    """An action, at top level or in a control."""
    try:
        sig = make_signature(env, d, d.params)
        data = False
        for p, t in zip(sig.params, sig.types, strict=True):
            if is_block(t) or isinstance(t, IntT | StringT | ListT):
                raise env.error(f"an action's parameter cannot have type {t}", p.span)
            if p.direction and data:
                raise env.error(
                    f"parameter '{p.name}' must stand before those without direction",
                    p.span,
                    "parameters without direction are set by the control plane and come last",
                )
            data = data or not p.direction
        check_body(env, d, sig, Place.ACTION)
    finally:
        env.declare(d.name, d, d.span)
    env.signatures[id(d)] = sig
    env.decl_types[id(d)] = VoidT()


# --- externs and packages -------------------------------------------------------------------------


@decl_rule(ast.ExternDecl)
def check_extern(env: Env, d: ast.ExternDecl) -> None:
    """An extern type with constructors and methods."""
    env.declare(d.name, d, d.span)
    env.decl_types[id(d)] = ExternT(d.name, _vars(d.type_params), d)
    methods: list[Signature] = []
    constructors: list[Signature] = []
    with env.define(d), env.inner():
        declare_type_params(env, d.type_params, d.span)
        for m in d.methods:
            with env.recovering():
                _method(env, d, m, methods, constructors)
    env.methods[id(d)] = methods
    env.constructors[id(d)] = constructors


def _method(
    env: Env,
    d: ast.ExternDecl,
    m: ast.FunctionSig,
    methods: list[Signature],
    constructors: list[Signature],
) -> None:
    constructor = m.result is None
    if m.name == d.name and (not constructor or m.abstract):
        raise env.error(f"only a constructor can have the extern's name '{d.name}'", m.span)
    if constructor and m.name != d.name:
        raise env.error(f"'{m.name}' needs a result type", m.span, "write void if it has none")
    if constructor and m.type_params:
        raise env.error("a constructor has no type parameters of its own", m.span)
    sig = signature_of(env, d if constructor else m, m, d.type_params if constructor else ())
    for p, t in zip(sig.params, sig.types, strict=True):
        if constructor and p.direction:
            raise env.error("a constructor's parameters have no direction", p.span)
        if isinstance(t, ParserT | ControlT | PackageT):
            raise env.error(f"an extern cannot take {t} as parameter '{p.name}'", p.span)
    others = constructors if constructor else methods
    for other in others:
        if other.name == sig.name and _same_call(sig, other):
            raise env.error(f"'{m.name}' with these parameters is declared twice", m.span)
    others.append(sig)


def _vars(names: tuple[str, ...]) -> tuple[Type, ...]:
    return tuple(map(TypeVarT, names))


@decl_rule(ast.PackageDecl)
def check_package(env: Env, d: ast.PackageDecl) -> None:
    """A package: constructor parameters only."""
    try:
        with env.define(d), env.inner():
            declare_type_params(env, d.type_params, d.span)
            sig = make_signature(env, d, d.params, type_params=d.type_params)
            for p in d.params:
                if p.direction:
                    raise env.error("a package's parameters have no direction", p.span)
    finally:
        env.declare(d.name, d, d.span)
    env.decl_types[id(d)] = PackageT(d.name, _vars(d.type_params), d)
    env.constructors[id(d)] = [sig]


# --- parsers and controls -------------------------------------------------------------------------


@decl_rule(ast.ParserDecl)
def check_parser(env: Env, d: ast.ParserDecl) -> None:
    """A parser or parser type."""
    try:
        with env.define(d), env.inner():
            _block_header(env, d)
            if d.states is not None:
                with env.inner(Frame(Place.PARSER, d)), env.declaring(d.locals):
                    for item in d.locals:
                        env.decl(item)
                    check_states(env, d, d.states)
    finally:
        env.declare(d.name, d, d.span)
    env.decl_types[id(d)] = ParserT(d.name, _vars(d.type_params), d)


@decl_rule(ast.ControlDecl)
def check_control(env: Env, d: ast.ControlDecl) -> None:
    """A control or control type."""
    try:
        with env.define(d), env.inner():
            _block_header(env, d)
            if d.body is not None:
                with env.inner(Frame(Place.CONTROL, d)), env.declaring(d.locals):
                    for item in d.locals:
                        env.decl(item)
                    with env.inner(Frame(Place.APPLY, d)):
                        check_block(env, d.body)
    finally:
        env.declare(d.name, d, d.span)
    env.decl_types[id(d)] = ControlT(d.name, _vars(d.type_params), d)


def _block_header(env: Env, d: ast.ParserDecl | ast.ControlDecl) -> None:
    """Type parameters, parameters and constructor parameters, brought into scope."""
    kind = "parser" if isinstance(d, ast.ParserDecl) else "control"
    declare_type_params(env, d.type_params, d.span)
    both = d.params + d.constructor_params
    unique(env, [(p.name, p.span) for p in both], "parameter")
    sig = make_signature(env, d, d.params, type_params=d.type_params)
    for p, t in zip(sig.params, sig.types, strict=True):
        if isinstance(t, ParserT | ControlT | PackageT):
            raise env.error(f"parameter '{p.name}' of a {kind} cannot have type {t}", p.span)
    made = make_signature(env, d, d.constructor_params, type_params=d.type_params)
    for p, t in zip(made.params, made.types, strict=True):
        if p.direction:
            raise env.error("constructor parameters have no direction", p.span)
        if p.optional:
            raise env.error(f"'{p.name}' cannot be optional here", p.span)
        if isinstance(t, PackageT):
            raise env.error(f"parameter '{p.name}' cannot be a package", p.span)
    env.signatures[id(d)] = sig
    env.constructors[id(d)] = [made]
    declare_params(env, both)
