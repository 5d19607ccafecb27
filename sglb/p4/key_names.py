"""Control-plane names of table keys, rendered from their expressions as p4c renders them."""

from __future__ import annotations

from sglb.p4 import ast
from sglb.p4.layout import strip
from sglb.p4.lower_core import Body
from sglb.p4.lower_env import name_annotation
from sglb.p4.types import StructT


def key_name(body: Body, key: ast.TableKey) -> str | None:
    """A key's name: its `@name`, else its expression; None where that needs a `@name`."""
    for annotation in key.annotations:
        if annotation.name == "name":
            return name_annotation([annotation], "").removeprefix(".")
    return _render(body, key.expr)


def _render(body: Body, expr: ast.Expr) -> str | None:
    if isinstance(expr, ast.Name):
        return _name(body, expr)
    if isinstance(expr, ast.IntLit):
        return _literal(expr.value, expr.radix)
    if isinstance(expr, ast.Member):
        return _member(body, expr)
    if isinstance(expr, ast.Index):
        return _joined(body, [expr.base, expr.index], "{}[{}]")
    if isinstance(expr, ast.Slice) and expr.hi is not None:
        return _joined(body, [expr.base, expr.hi, expr.lo], "{}[{}:{}]")
    if isinstance(expr, ast.Binary) and expr.op == "&":
        return _joined(body, [expr.left, expr.right], "{} & {}")
    if isinstance(expr, ast.Call) and not expr.args and isinstance(expr.callee, ast.Member):
        base = _render(body, expr.callee.base)
        if base is not None and expr.callee.name == "isValid":
            return f"{base}.$valid$"
    return _folded(body, expr)


def _folded(body: Body, expr: ast.Expr) -> str | None:
    """A compile-time value, in the radix of its first literal, as p4c's constant folding keeps it."""
    value = body.known(expr)
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    while isinstance(expr, ast.Binary | ast.Cast | ast.Unary):
        expr = expr.left if isinstance(expr, ast.Binary) else expr.operand
    return _literal(value, expr.radix if isinstance(expr, ast.IntLit) else 10)


def _joined(body: Body, parts: list[ast.Expr], form: str) -> str | None:
    rendered = [_render(body, p) for p in parts]
    return None if None in rendered else form.format(*rendered)


def _name(body: Body, expr: ast.Name) -> str:
    """A variable's name; a constant shows its value, in the radix it was written in."""
    decl = body.checked.refs.get(id(expr))
    value = body.known(expr)
    if isinstance(value, int) and not isinstance(value, bool):
        literal = decl.value if isinstance(decl, ast.ConstDecl) else None
        while isinstance(literal, ast.Cast):
            literal = literal.operand
        radix = literal.radix if isinstance(literal, ast.IntLit) else 10
        return _literal(value, radix)
    return expr.name


def _member(body: Body, expr: ast.Member) -> str | None:
    type_ = strip(body.own_type(expr.base))
    name = expr.name
    if isinstance(type_, StructT):
        for field in type_.fields:
            if field.name == name:
                name = name_annotation(field.annotations, name)
    if name.startswith("."):
        return name[1:]
    base = _render(body, expr.base)
    return None if base is None else f"{base}.{name}"


def _literal(value: int, radix: int) -> str:
    digits = {2: "0b{:b}", 8: "0o{:o}", 16: "0x{:x}"}.get(radix, "{}").format(abs(value))
    return f"-{digits}" if value < 0 else digits
