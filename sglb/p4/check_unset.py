"""Warnings about local variables that are read before anything can have set them.

Reads of such variables give zero, which is seldom what was meant. The walk follows the
text, so a variable set in one branch and read in another passes: what is warned about is certain.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from sglb.p4 import ast
from sglb.p4.scope import Env
from sglb.p4.types import BitsT, BoolT, EnumT, ErrorT, SerEnumT
from sglb.p4.unify import bare


def warn_unset(env: Env) -> None:
    """Walk a program without errors and warn about reads of unset local variables."""
    walker = _Walker(env)
    for d in env.checked.program.decls:
        if not env.sources.is_builtin(d.span):
            walker.visit(d)


class _Walker:
    def __init__(self, env: Env) -> None:
        self.env = env
        #: Kind of node -> its fields that can hold expressions or statements.
        self.parts: dict[type[ast.Node], tuple[str, ...]] = {}
        #: id(VarDecl) of local scalars that nothing has set yet.
        self.unset: set[int] = set()

    def visit(self, node: Any) -> None:
        """Follow a node, or a tuple of nodes, in the order of the text."""
        match node:
            case tuple():
                for item in node:
                    self.visit(item)
            case ast.DeclStmt(decl=ast.VarDecl(init=None) as decl):
                if _scalar(self.env, decl):
                    self.unset.add(id(decl))
            case ast.Assign():
                self._assign(node)
            case ast.Call():
                self._call(node)
            case ast.For() | ast.ForIn():
                self._loop(node)
            case ast.Name():
                self._read(node)
            case ast.Node():
                self._children(node)

    def _children(self, node: ast.Node) -> None:
        kind = type(node)
        if kind not in self.parts:
            names = [f.name for f in fields(kind)]
            self.parts[kind] = tuple(n for n in names if n not in ("span", "annotations", "type"))
        for name in self.parts[kind]:
            self.visit(getattr(node, name))

    def _read(self, e: ast.Name) -> None:
        decl = self.env.checked.refs.get(id(e))
        if id(decl) in self.unset:
            self.unset.discard(id(decl))  # say it once
            self.env.warn(f"'{e.name}' is read before it is set, which gives zero", e.span)

    def _assign(self, s: ast.Assign) -> None:
        self.visit(s.value)
        if s.op:
            self.visit(s.target)
        self._write(s.target)

    def _write(self, target: ast.Expr) -> None:
        """A write of a variable, or of a part of one."""
        match target:
            case ast.Name():
                self.unset.discard(id(self.env.checked.refs.get(id(target))))
            case ast.Member(base=base) | ast.Slice(base=base):
                self._write(base)
            case ast.Index(base=base, index=index):
                self.visit(index)
                self._write(base)

    def _call(self, e: ast.Call) -> None:
        info = self.env.checked.calls.get(id(e))
        self.visit(e.callee)
        if info is None or not info.args:
            self.visit(e.args)
            return
        written = []
        for b in info.args:
            if b.arg is None or b.arg.value is None:
                continue
            if b.param.direction != "out":
                self.visit(b.arg.value)
            if b.param.direction in ("out", "inout"):
                written.append(b.arg.value)
        for target in written:
            self._write(target)

    def _loop(self, s: ast.For | ast.ForIn) -> None:
        """What a loop's body sets may reach its beginning: of outer variables nothing is certain."""
        self.visit(s.init if isinstance(s, ast.For) else s.collection)
        self.unset = set()
        self._children(s)


def _scalar(env: Env, decl: ast.VarDecl) -> bool:
    t = env.decl_types.get(id(decl))
    return t is not None and isinstance(bare(t), BitsT | BoolT | EnumT | SerEnumT | ErrorT)
