"""Calls: binding arguments to parameters, inferring type arguments, and who may call what where.

Rules of specification 6.8 (calling convention), 8.17 to 8.20 and 8.12 (functions and methods).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sglb.p4 import ast
from sglb.p4.check_refs import check_lvalue
from sglb.p4.check_types import counted, declare_type_params, resolve, revalidate, unique
from sglb.p4.checked import BoundArg
from sglb.p4.coerce import coerce
from sglb.p4.scope import Env, Signature
from sglb.p4.source import Span
from sglb.p4.types import (
    CallableT,
    ControlT,
    DontCareT,
    ExternT,
    IntT,
    ListT,
    PackageT,
    ParserT,
    StackT,
    StringT,
    StructT,
    TableT,
    TupleT,
    Type,
    TypeVarT,
    VoidT,
)
from sglb.p4.unify import Unifier, bare, has_vars, is_block, matches, substitute

# --- signatures -----------------------------------------------------------------------------------


def make_signature(
    env: Env,
    decl: ast.Decl,
    params: tuple[ast.Param, ...],
    *,
    type_params: tuple[str, ...] = (),
    result: Type | None = None,
) -> Signature:
    """The signature of a callable; its type parameters must be in scope. Checks the parameters."""
    unique(env, [(p.name, p.span) for p in params], "parameter")
    types = tuple(_param_type(env, p) for p in params)
    for p, t in zip(params, types, strict=True):
        env.decl_types[id(p)] = t
    return Signature(decl.name, type_params, params, types, result or VoidT(), decl)


def _param_type(env: Env, p: ast.Param) -> Type:
    t = resolve(env, p.type)
    if isinstance(t, ExternT | StringT | ParserT | ControlT | PackageT | IntT) and p.direction:
        raise env.error(
            f"parameter '{p.name}' of type {t} cannot have a direction",
            p.span,
            f"remove '{p.direction}'",
        )
    if isinstance(t, VoidT):
        raise env.error(f"parameter '{p.name}' cannot have type {t}", p.span)
    if isinstance(t, ParserT | ControlT) and _has_body(t):
        kind = "parser" if isinstance(t, ParserT) else "control"
        raise env.error(
            f"the type of parameter '{p.name}' is {kind} {t} itself, not a {kind} type",
            p.span,
            f"declare a {kind} type without a body",
        )
    if p.default is not None:
        _default_value(env, p, t)
    return t


def _has_body(t: ParserT | ControlT) -> bool:
    decl = t.decl
    if isinstance(decl, ast.ParserDecl):
        return decl.states is not None
    return decl is not None and decl.body is not None


def _default_value(env: Env, p: ast.Param, t: Type) -> None:
    assert p.default is not None
    if p.direction in ("out", "inout"):
        raise env.error(f"the {p.direction} parameter '{p.name}' cannot have a default", p.span)
    got = env.expr(p.default)
    if is_block(t):
        _object(env, p, t, got, ast.Argument(span=p.default.span, value=p.default))
        return
    coerce(env, p.default, t, f"the default of '{p.name}'")
    if not env.known(p.default):
        raise env.error(f"the default of '{p.name}' must be known at compile time", p.default.span)


def signature_of(
    env: Env, decl: ast.Decl, sig: ast.FunctionSig, outer: tuple[str, ...] = ()
) -> Signature:
    """The signature of a function, extern function or extern method; `decl` is what calls name.

    `outer` are an extern's own type parameters, for its constructors.
    """
    with env.inner():
        declare_type_params(env, sig.type_params, sig.span)
        result = None if sig.result is None else resolve(env, sig.result)
        if isinstance(result, IntT | StringT | TableT | ParserT | ControlT | PackageT):
            raise env.error(f"'{sig.name}' cannot return {result}", sig.span)
        made = make_signature(
            env, decl, sig.params, type_params=outer + sig.type_params, result=result
        )
    return Signature(sig.name, made.type_params, made.params, made.types, made.result, decl)


def block_signature(env: Env, t: ParserT | ControlT) -> Signature:
    """The apply parameters of a parser or control type, its type arguments put in."""
    assert t.decl is not None
    env.decl_type(t.decl)
    sig = env.signatures[id(t.decl)]
    return specialise(sig, dict(zip(sig.type_params, t.args, strict=False)))


def block_declaration(env: Env, t: ParserT | ControlT) -> str:
    """How a parser or control type is declared, for a hint."""
    return f"{t.name} is declared as {env.signatures[id(t.decl)]}"


def specialise(sig: Signature, mapping: Mapping[str, Type]) -> Signature:
    """A signature with some type parameters replaced."""
    if not mapping:
        return sig
    return Signature(
        sig.name,
        tuple(p for p in sig.type_params if p not in mapping),
        sig.params,
        tuple(substitute(t, mapping) for t in sig.types),
        substitute(sig.result, mapping),
        sig.decl,
    )


def block_params(env: Env, t: Type) -> tuple[tuple[str, Type], ...] | None:
    """The apply parameters of a parser or control type as (direction, type), None for others."""
    if not isinstance(t, ParserT | ControlT):
        return None
    sig = block_signature(env, t)
    return tuple((p.direction, pt) for p, pt in zip(sig.params, sig.types, strict=True))


# --- binding --------------------------------------------------------------------------------------


def accepts(sig: Signature, args: Sequence[ast.Argument]) -> bool:
    """Whether the arguments fit the parameters by number and name."""
    named = {a.name for a in args if a.name is not None}
    if named:
        names = {p.name for p in sig.params}
        given = named <= names and len(named) == len(args)
        return given and all(p.name in named or _omittable(p) for p in sig.params)
    if len(args) > len(sig.params):
        return False
    return all(_omittable(p) for p in sig.params[len(args) :])


def _omittable(p: ast.Param) -> bool:
    return p.optional or p.default is not None


def choose(
    env: Env, sigs: Sequence[Signature], args: Sequence[ast.Argument], span: Span
) -> Signature:
    """The one overload that the arguments fit by number and name (specification 8.17)."""
    fits = [s for s in sigs if accepts(s, args)]
    if len(fits) == 1:
        return fits[0]
    if not fits:
        if len(sigs) == 1:
            raise wrong_arguments(env, sigs[0], args, span)
        listed = "; ".join(map(str, sigs))
        raise env.error(f"no '{sigs[0].name}' takes these arguments", span, f"there is: {listed}")
    listed = "; ".join(map(str, fits))
    raise env.error(f"'{sigs[0].name}' is ambiguous here", span, f"it could be: {listed}")


def wrong_arguments(
    env: Env, sig: Signature, args: Sequence[ast.Argument], span: Span
) -> Exception:
    """The error for arguments that do not fit the only candidate."""
    hint = f"it is declared as {sig}"
    names = tuple(p.name for p in sig.params)
    for a in args:
        if a.name is not None and a.name not in names:
            near = env.near(a.name, names)
            return env.error(f"'{sig.name}' has no parameter '{a.name}'", a.span, near or hint)
    named = [a.name for a in args if a.name is not None]
    for name in named:
        if named.count(name) > 1:
            return env.error(f"parameter '{name}' is given twice", span, hint)
    if named and len(named) != len(args):
        return env.error("either all arguments are named or none", span, hint)
    missing = [p.name for p in sig.params if not _omittable(p)]
    if named:
        missing = [m for m in missing if m not in named]
    else:
        missing = [p.name for p in sig.params[len(args) :] if not _omittable(p)]
    if missing:
        return env.error(f"'{sig.name}' needs an argument for {', '.join(missing)}", span, hint)
    n = len(sig.params)
    takes = f"{n} argument{'' if n == 1 else 's'}" if n else "no arguments"
    return env.error(f"'{sig.name}' takes {takes}, but is given {len(args)}", span, hint)


def pair(sig: Signature, args: Sequence[ast.Argument]) -> list[ast.Argument | None]:
    """The arguments in parameter order; None where one is left out. `accepts` must hold."""
    if args and args[0].name is not None:
        by_name = {a.name: a for a in args}
        return [by_name.get(p.name) for p in sig.params]
    return [args[i] if i < len(args) else None for i in range(len(sig.params))]


def call(
    env: Env,
    sig: Signature,
    type_args: Sequence[Type],
    args: Sequence[ast.Argument],
    span: Span,
    *,
    constructor: bool = False,
    action: bool = False,
) -> tuple[tuple[Type, ...], tuple[BoundArg, ...], Type]:
    """Check a call of `sig`, which must accept `args`: (type arguments, bound arguments, result).

    `constructor`: every argument must be known at compile time, and may be a parser or control.
    `action`: parameters without direction take run-time values.
    """
    paired = pair(sig, args)
    for p, a in zip(sig.params, paired, strict=True):
        if a is not None and a.value is None and p.direction != "out":
            raise env.error(f"only an out parameter can be given '_', not '{p.name}'", a.span)
    for arg in args:
        if arg.value is not None and id(arg.value) not in env.checked.types:
            env.expr(arg.value)
    mapping = _infer(env, sig, type_args, paired, span)
    bound = []
    for p, t, a in zip(sig.params, sig.types, paired, strict=True):
        concrete = substitute(t, mapping)
        if mapping:
            revalidate(env, concrete, a.span if a is not None else span)
        if a is not None:
            _argument(env, p, concrete, a, constructor=constructor, action=action)
        bound.append(BoundArg(p, concrete, a))
    result = substitute(sig.result, mapping)
    if mapping:
        revalidate(env, result, span)
    return tuple(mapping[p] for p in sig.type_params), tuple(bound), result


def _infer(
    env: Env,
    sig: Signature,
    type_args: Sequence[Type],
    paired: Sequence[ast.Argument | None],
    span: Span,
) -> dict[str, Type]:
    """Type arguments, given or inferred from the arguments."""
    params = sig.type_params
    if type_args and len(type_args) != len(params):
        raise env.error(
            f"'{sig.name}' has {counted(len(params), 'type parameter')}, but is given "
            f"{counted(len(type_args), 'type argument')}",
            span,
            f"it is declared as {sig}",
        )
    if not params:
        return {}
    given = dict(zip(params, type_args, strict=False))
    if given and not any(isinstance(t, DontCareT) for t in given.values()):
        return given
    unifier = Unifier(lambda t: block_params(env, t))
    fresh: dict[str, Type] = {
        p: t if not isinstance(t := given.get(p, DontCareT()), DontCareT) else TypeVarT(p + "#")
        for p in params
    }
    for p, t, a in zip(sig.params, sig.types, paired, strict=True):
        if a is None or a.value is None:
            continue
        if not unifier.unify(substitute(t, fresh), env.type(a.value)):
            raise _inference_clash(env, sig, p, substitute(t, fresh), a, unifier)
    return {
        p: DontCareT()
        if has_vars(t := unifier.resolve(fresh[p])) and (p in given or _absent(sig, p, paired))
        else _inferred(env, sig, p, t, span)
        for p in params
    }


def _absent(sig: Signature, name: str, paired: Sequence[ast.Argument | None]) -> bool:
    """Whether every parameter with the type parameter in its type is optional and left out."""
    probe = {name: TypeVarT("#")}
    users = [a for t, a in zip(sig.types, paired, strict=True) if has_vars(substitute(t, probe))]
    return bool(users) and all(a is None for a in users)


def _inferred(env: Env, sig: Signature, name: str, t: Type, span: Span) -> Type:
    if isinstance(t, StructT) and t.decl is None:
        raise env.error(
            f"cannot infer the type argument {name} of '{sig.name}' from a struct expression",
            span,
            "write its type before it, like (S){…}",
        )
    if isinstance(t, StringT) and _at_run_time(sig, name):
        raise env.error(f"'{sig.name}' cannot be given a string here", span)
    if has_vars(t):
        raise env.error(
            f"cannot infer the type argument {name} of '{sig.name}'",
            span,
            f"write it: {sig.name}<…>; it is declared as {sig}",
        )
    if _no_width(t) and _at_run_time(sig, name):
        raise env.error(
            f"cannot infer a width for {name} of '{sig.name}' from a plain int",
            span,
            "give the number a width, like 32w0 or (bit<32>)0",
        )
    return t


def _no_width(t: Type) -> bool:
    match t:
        case IntT():
            return True
        case TupleT(items=items):
            return any(map(_no_width, items))
        case StructT(decl=None, fields=fields):
            return any(_no_width(f.type) for f in fields)
    return False


def _at_run_time(sig: Signature, name: str) -> bool:
    """Whether values of the type parameter are passed or computed at run time."""
    if isinstance(sig.decl, ast.FunctionDecl) and sig.decl.body is not None:
        return True
    probe = {name: TypeVarT("#")}
    return any(
        p.direction and has_vars(substitute(t, probe))
        for p, t in zip(sig.params, sig.types, strict=True)
    )


def _inference_clash(
    env: Env, sig: Signature, p: ast.Param, t: Type, a: ast.Argument, unifier: Unifier
) -> Exception:
    assert a.value is not None
    got = env.type(a.value)
    hint = f"it is declared as {sig}"
    if isinstance(t, ParserT | ControlT) and isinstance(got, ParserT | ControlT):
        return block_mismatch(env, p, t, got, a.span, unifier)
    if unifier.clash is not None:
        want, other = unifier.clash
        hint = f"{want} and {other} do not agree; ".replace("#", "") + hint
    return env.error(f"argument '{p.name}' of '{sig.name}' cannot be {got}", a.span, hint)


def block_mismatch(
    env: Env,
    p: ast.Param,
    want: ParserT | ControlT,
    got: ParserT | ControlT,
    span: Span,
    unifier: Unifier,
) -> Exception:
    """The error for a parser or control whose parameters are not those of the type asked for."""
    kind = "parser" if isinstance(got, ParserT) else "control"
    message = f"{kind} {got} does not fit parameter '{p.name}' of type {want}"
    if isinstance(want, ParserT) is not isinstance(got, ParserT):
        return env.error(message, span)
    mine, theirs = block_signature(env, got), block_signature(env, want)
    declared = block_declaration(env, want)
    if len(mine.params) != len(theirs.params):
        message += f": it has {len(mine.params)} parameters instead of {len(theirs.params)}"
        return env.error(message, span, declared)
    for i, (a, b) in enumerate(zip(mine.params, theirs.params, strict=True), 1):
        if a.direction != b.direction:
            message += (
                f": parameter {i} ('{a.name}') is {a.direction or 'without direction'} "
                f"instead of {b.direction or 'without direction'}"
            )
            return env.error(message, span, declared)
    for i, (p1, t1, t2) in enumerate(zip(mine.params, mine.types, theirs.types, strict=True), 1):
        needed = unifier.resolve(t2)
        if not matches(needed, t1) and not has_vars(needed):
            message += f": parameter {i} ('{p1.name}') has type {t1}, but {needed} is needed"
            break
    return env.error(message, span, declared)


# --- one argument ---------------------------------------------------------------------------------


def _argument(
    env: Env, p: ast.Param, t: Type, a: ast.Argument, *, constructor: bool, action: bool
) -> None:
    what = f"argument '{p.name}'"
    if a.value is None:
        if isinstance(t, DontCareT):
            raise env.error(f"cannot infer the type of {what} from '_'", a.span)
        return
    got = env.type(a.value)
    _not_an_object(env, got, t, a, constructor=constructor)
    if p.direction in ("out", "inout"):
        check_lvalue(env, a.value, f"the {p.direction} argument '{p.name}'")
        if got != t:
            raise env.error(
                f"{what} must have type {t} exactly, but this is {got}",
                a.span,
                f"an {p.direction} argument is not converted: use a variable of type {t}",
            )
        return
    if is_block(t):
        _object(env, p, t, got, a)
        return
    coerce(env, a.value, t, what)
    if not constructor and (p.direction or action or id(a.value) in env.data_ids):
        return
    if not env.known(a.value):
        raise env.error(f"{what} must be known at compile time", a.span)


def _not_an_object(env: Env, got: Type, t: Type, a: ast.Argument, *, constructor: bool) -> None:
    if isinstance(got, TableT | CallableT | PackageT) and not (
        constructor and isinstance(got, PackageT)
    ):
        raise env.error(f"{got} cannot be an argument", a.span)
    if isinstance(got, ParserT | ControlT) and not constructor:
        raise env.error(f"{got} cannot be an argument here", a.span)
    if isinstance(bare(t), ListT | StackT) and isinstance(got, VoidT):
        raise env.error("this call returns nothing", a.span)


def _object(env: Env, p: ast.Param, want: Type, got: Type, a: ast.Argument) -> None:
    """An extern, parser, control or package as an argument."""
    if want == got:
        return
    if isinstance(want, ParserT | ControlT) and isinstance(got, ParserT | ControlT):
        unifier = Unifier(lambda t: block_params(env, t))
        if not unifier.unify(want, got):
            raise block_mismatch(env, p, want, got, a.span, unifier)
        return
    if isinstance(want, ExternT | PackageT) and matches(want, got):
        return
    raise env.error(f"argument '{p.name}' must be a {want}, but this is {got}", a.span)
