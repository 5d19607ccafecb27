"""From a small part of Python to LLVM text: functions over a `World` and 64-bit integers.

Everything is an int64 that wraps around, or the truth of a comparison. What there is: constants of
modules, variables, `world.w[i]` (and `h`, `b`; sign-extended int32, unsigned bytes), arithmetic (`//`
and `%` round down as Python's do; dividing by 0 gives 0), comparisons, `and`, `or`, `not`, `... if ...
else ...`, `min`, `max`, `abs`, calls of such functions, tuples as results; `if`, `while`, `for` over a
range or a tuple, `else` of loops, `break`, `continue`, `return`. Shifts count modulo 64. Nothing checks
an index.

Why not numba: it takes about half a second for each of these functions, and there are hundreds; this
and LLVM together take some milliseconds.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import Final

from sglb.p4.native.text import Function, Label
from sglb.switch.core.translate_expr import (
    Expressions,
    Value,
    constant_value,
    signature_of,
)


@cache
def _functions(file: str) -> dict[int, ast.FunctionDef]:
    """A file's functions by their first line, that of a decorator where there is one."""
    tree = ast.parse(Path(file).read_bytes())
    found = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    return {min([f.lineno, *(d.lineno for d in f.decorator_list)]): f for f in found}


@dataclass(frozen=True, slots=True)
class _Loop:
    on_break: Label
    on_continue: Label


class Translation(Expressions):
    """One function; `text` is its LLVM text, `callees` what it calls, in order of appearance."""

    def __init__(self, function: FunctionType, symbol: str, attributes: str) -> None:
        code = function.__code__
        definition = _functions(code.co_filename)[code.co_firstlineno]
        self.signature = signature_of(function)
        self._loops: list[_Loop] = []
        names = [a.arg for a in definition.args.args]
        parameters = ", ".join(
            f"{'ptr' if world else 'i64'} %{name}.in"
            for name, world in zip(names, self.signature.worlds, strict=True)
        )
        head = f'define internal {self.signature.kind} @"{symbol}"({parameters}) {attributes}'
        super().__init__(function, Function(head))
        for name, world in zip(names, self.signature.worlds, strict=True):
            if world:
                self._worlds.add(name)
            else:
                self._fn.start(f"store i64 %{name}.in, ptr {self._slot(name)}, align 8")
        self._body(definition.body)
        if self.signature.results:
            self._fn.leave(f"{self.signature.kind} zeroinitializer")
        self.text = self._fn.text()

    # --- statements ---

    def _body(self, statements: Sequence[ast.stmt]) -> None:
        for statement in statements:
            method = _STATEMENTS.get(type(statement))
            if method is None:
                raise self._error(statement, "no such statement here")
            method(self, statement)

    def _expression(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Call):
            self._call(node.value)
        elif not isinstance(node.value, ast.Constant):
            raise self._error(node, "a statement without effect")

    def _assign(self, node: ast.Assign) -> None:
        first = node.targets[0]
        if isinstance(first, ast.Tuple):
            self._unpack(first, node.value)
            return
        view = self._view(node.value)
        if view is not None and isinstance(first, ast.Name):
            self._views[first.id] = view
            return
        value = self._number(node.value)
        for target in node.targets:
            self._store(target, value)

    def _unpack(self, target: ast.Tuple, source: ast.expr) -> None:
        names = target.elts
        if isinstance(source, ast.Tuple):
            parts = []
            for name, part in zip(names, source.elts, strict=True):
                view = self._view(part)
                if view is not None and isinstance(name, ast.Name):
                    self._views[name.id] = view
                else:
                    parts.append((name, self._number(part)))
            for name, value in parts:
                self._store(name, value)
            return
        if not isinstance(source, ast.Call):
            raise self._error(source, "not a tuple")
        kind, whole, count = self._call(source)
        if count != len(names):
            raise self._error(source, f"{count} values for {len(names)} names")
        for i, name in enumerate(names):
            self._store(name, Value(self._fn.op(f"extractvalue {kind} {whole}, {i}")))

    def _augment(self, node: ast.AugAssign) -> None:
        target = node.target
        if isinstance(target, ast.Name):
            old = self._number(target)
            self._store(target, self._combine(node, node.op, old, self._number(node.value)))
            return
        if isinstance(target, ast.Subscript):
            view, pointer = self._element(target)
            change = self._number(node.value)  # it may write memory: the old value comes after it
            self._write(
                view, pointer, self._combine(node, node.op, self._read(view, pointer), change)
            )
            return
        raise self._error(node, "no such target")

    def _store(self, target: ast.expr, value: Value) -> None:
        if isinstance(target, ast.Name):
            self._fn.do(f"store i64 {value.text}, ptr {self._slot(target.id)}, align 8")
        elif isinstance(target, ast.Subscript):
            self._write(*self._element(target), value)
        else:
            raise self._error(target, "no such target")

    def _if(self, node: ast.If) -> None:
        fn = self._fn
        then, other, end = fn.label("then"), fn.label("else"), fn.label("end")
        self._branch(node.test, then, other)
        fn.place(then)
        self._body(node.body)
        fn.jump(end)
        fn.place(other)
        self._body(node.orelse)
        fn.place(end)

    def _while(self, node: ast.While) -> None:
        fn = self._fn
        head, body, done, end = (fn.label(n) for n in ("while", "do", "done", "end"))
        fn.place_target(head)
        self._branch(node.test, body, done)
        fn.place(body)
        self._loop(node.body, end, head)
        fn.jump(head)
        fn.place(done)
        self._body(node.orelse)
        fn.place(end)

    def _for(self, node: ast.For) -> None:
        if isinstance(node.iter, ast.Tuple):
            self._for_each(node, node.iter.elts)
        elif isinstance(node.iter, ast.Call) and self._global(node.iter.func) is range:
            self._for_range(node, [self._number(a) for a in node.iter.args])
        else:
            raise self._error(node.iter, "a loop over something else")

    def _for_each(self, node: ast.For, values: Sequence[ast.expr]) -> None:
        fn = self._fn
        end = fn.label("end")
        for value in values:
            following = fn.label("next")
            self._store(node.target, self._number(value))
            self._loop(node.body, end, following)
            fn.place(following)
        self._body(node.orelse)
        fn.place(end)

    def _for_range(self, node: ast.For, bounds: list[Value]) -> None:
        fn = self._fn
        if len(bounds) == 1:
            bounds.insert(0, constant_value(0))
        step = bounds[2] if len(bounds) > 2 else constant_value(1)
        if not step.constant:
            raise self._error(node.iter, "the step is no constant")
        counter = fn.alloca("i64", 8)
        fn.do(f"store i64 {bounds[0].text}, ptr {counter}, align 8")
        head, body, after, done, end = (fn.label(n) for n in ("for", "do", "next", "done", "end"))
        fn.place_target(head)
        value = fn.op(f"load i64, ptr {counter}, align 8")
        order = "slt" if step.constant > 0 else "sgt"
        fn.branch(fn.op(f"icmp {order} i64 {value}, {bounds[1].text}"), body, done)
        fn.place(body)
        self._store(node.target, Value(value))
        self._loop(node.body, end, after)
        fn.place(after)
        fn.do(f"store i64 {fn.op(f'add i64 {value}, {step.text}')}, ptr {counter}, align 8")
        fn.jump(head)
        fn.place(done)
        self._body(node.orelse)
        fn.place(end)

    def _loop(self, body: Sequence[ast.stmt], on_break: Label, on_continue: Label) -> None:
        self._loops.append(_Loop(on_break, on_continue))
        self._body(body)
        self._loops.pop()

    def _break(self, _node: ast.Break) -> None:
        self._fn.jump(self._loops[-1].on_break)

    def _continue(self, _node: ast.Continue) -> None:
        self._fn.jump(self._loops[-1].on_continue)

    def _pass(self, _node: ast.Pass) -> None:
        pass

    def _return(self, node: ast.Return) -> None:
        fn, kind = self._fn, self.signature.kind
        if node.value is None:
            fn.leave("void")
        elif isinstance(node.value, ast.Tuple):
            whole = "poison"
            for i, part in enumerate(node.value.elts):
                value = self._number(part)
                whole = fn.op(f"insertvalue {kind} {whole}, i64 {value.text}, {i}")
            fn.leave(f"{kind} {whole}")
        elif self.signature.results == 1:
            fn.leave(f"i64 {self._number(node.value).text}")
        elif isinstance(node.value, ast.Call) and self.signature.results:
            _, whole, _ = self._call(node.value)
            fn.leave(f"{kind} {whole}")
        else:
            raise self._error(node, "a result that was not announced")


_STATEMENTS: Final[dict[type, Callable[..., None]]] = {
    ast.Expr: Translation._expression,
    ast.Assign: Translation._assign,
    ast.AugAssign: Translation._augment,
    ast.If: Translation._if,
    ast.While: Translation._while,
    ast.For: Translation._for,
    ast.Break: Translation._break,
    ast.Continue: Translation._continue,
    ast.Pass: Translation._pass,
    ast.Return: Translation._return,
}
