"""The actions of a table, and the arguments they get from the program (specification 14.2.1.2)."""

from __future__ import annotations

from collections.abc import Sequence

from sglb.p4 import ast
from sglb.p4.check_calls import accepts, call, choose
from sglb.p4.check_types import describe
from sglb.p4.checked import BoundArg, CallInfo, CallKind
from sglb.p4.same import same_expr
from sglb.p4.scope import Env, Signature
from sglb.p4.types import VoidT


def check_actions(env: Env, d: ast.TableDecl) -> None:
    """Check the `actions` of a table and the arguments they bind."""
    seen: set[str] = set()
    for ref in d.actions:
        with env.recovering():
            if ref.name in seen:
                raise env.error(f"action '{ref.name}' is listed twice", ref.span)
            seen.add(ref.name)
            _listed_action(env, ref)


def _listed_action(env: Env, ref: ast.ActionRef) -> None:
    action = env.lookup(ref.name, ref.span, "action", absolute=ref.absolute)
    if not isinstance(action, ast.ActionDecl):
        raise env.error(f"'{ref.name}' is {describe(action)}, not an action", ref.span)
    env.decl_type(action)
    env.checked.refs[id(ref)] = action
    sig = env.signatures[id(action)]
    bound = _bind_listed(env, ref, sig)
    env.checked.calls[id(ref)] = CallInfo(
        CallKind.ACTION, ref.name, action, None, (), bound, VoidT()
    )


def _bind_listed(env: Env, ref: ast.ActionRef, sig: Signature) -> tuple[BoundArg, ...]:
    """Bind the parameters with a direction; the others belong to the control plane."""
    n = sum(1 for p in sig.params if p.direction)
    args = ref.args or ()
    data = {p.name for p in sig.params[n:]}
    for a in args:
        if a.name in data:
            raise env.error(
                f"parameter '{a.name}' has no direction: the control plane sets it", a.span
            )
    if len(args) > n and not any(a.name for a in args) and len(args) <= len(sig.params):
        raise env.error(
            f"parameter '{sig.params[n].name}' has no direction: the control plane sets it",
            args[n].span,
            f"it is declared as {sig}",
        )
    part = Signature(sig.name, (), sig.params[:n], sig.types[:n], sig.result, sig.decl)
    if len(args) < n and not any(a.name for a in args):
        raise env.error(
            f"the table must bind parameter '{sig.params[len(args)].name}' of '{sig.name}'",
            ref.span,
            f"it is declared as {sig}",
        )
    choose(env, [part], args, ref.span)
    _, bound, _ = call(env, part, (), args, ref.span, action=True)
    return bound


def find_listed(env: Env, d: ast.TableDecl, name: ast.Name | ast.ActionRef) -> ast.ActionRef:
    """The element of a table's action list that `name` means."""
    for ref in d.actions:
        if ref.name == name.name and (ref.absolute == name.absolute or not name.absolute):
            if id(ref) not in env.checked.calls:
                break
            return ref
    listed = tuple(ref.name for ref in d.actions)
    known = env.find(name.name, absolute=name.absolute)
    if known is None:
        raise env.undeclared(name.name, name.span, "action")
    raise env.error(
        f"action '{name.name}' is not in the actions of table '{d.name}'",
        name.span,
        env.near(name.name, listed) or f"add it to the list: {name.name};",
    )


def bind_whole(
    env: Env, ref: ast.ActionRef, args: Sequence[ast.Argument], node: ast.Node
) -> CallInfo:
    """Check an action with all its arguments, as a default action or entry names it.

    Arguments for parameters that the list binds must be written again, and equal (14.2.1.3).
    """
    listed = env.checked.calls[id(ref)]
    assert isinstance(listed.target, ast.ActionDecl)
    sig = env.signatures[id(listed.target)]
    if not accepts(sig, args) and listed.args and len(args) == len(sig.params) - len(listed.args):
        raise env.error(
            f"'{sig.name}' needs an argument for {listed.args[0].param.name} here too",
            node.span,
            "repeat the arguments that the actions list binds",
        )
    choose(env, [sig], args, node.span)
    _, bound, _ = call(env, sig, (), args, node.span, action=True)
    first = {b.param.name: b.arg for b in listed.args}
    for b in bound:
        given = b.arg.value if b.arg is not None else None
        if b.param.name in first:
            _same_bound(env, b, first[b.param.name])
        elif given is not None and not env.known(given):
            raise env.error(f"argument '{b.param.name}' must be known at compile time", given.span)
    return CallInfo(CallKind.ACTION, sig.name, listed.target, None, (), bound, VoidT())


def _same_bound(env: Env, b: BoundArg, first: ast.Argument | None) -> None:
    mine = b.arg.value if b.arg is not None else None
    theirs = first.value if first is not None else None
    if mine is not None and theirs is not None and not same_expr(mine, theirs):
        raise env.error(
            f"argument '{b.param.name}' differs from the one in the actions list", mine.span
        )
