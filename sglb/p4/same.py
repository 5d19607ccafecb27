"""Whether two expressions are written alike."""

from __future__ import annotations

from dataclasses import fields

from sglb.p4 import ast


def same_expr(a: object, b: object) -> bool:
    """Whether two syntax trees are equal but for their places and how literals are spelled."""
    if isinstance(a, ast.IntLit) and isinstance(b, ast.IntLit):
        return (a.value, a.width, a.signed) == (b.value, b.width, b.signed)
    if isinstance(a, ast.StructExpr) and isinstance(b, ast.StructExpr):
        pairs = sorted(a.fields, key=_name), sorted(b.fields, key=_name)
        return a.dots == b.dots and same_expr(tuple(pairs[0]), tuple(pairs[1]))
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(map(same_expr, a, b))
    if isinstance(a, ast.Node) and isinstance(b, ast.Node):
        if type(a) is not type(b):
            return False
        return all(
            same_expr(getattr(a, f.name), getattr(b, f.name)) for f in fields(a) if f.name != "span"
        )
    return a == b


def _name(pair: tuple[str, ast.Expr]) -> str:
    return pair[0]
