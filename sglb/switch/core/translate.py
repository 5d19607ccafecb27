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
import builtins
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Final, Protocol, runtime_checkable

from sglb.p4.native.text import Function, Label

_BITS: Final = {"w": 64, "h": 32, "b": 8}
_WRAP: Final = 1 << 64


class TranslationError(Exception):
    """Something that this part of Python does not have, with its place."""


@runtime_checkable
class Callee(Protocol):
    """What a translated function can call."""

    symbol: str
    signature: Signature


@dataclass(frozen=True, slots=True)
class Signature:
    """Parameters (True for a `World`) and results: how many values, and whether it is a truth."""

    worlds: tuple[bool, ...]
    results: int
    is_truth: bool

    @property
    def kind(self) -> str:
        """The LLVM type of the result."""
        if self.results == 0:
            return "void"
        return "i64" if self.results == 1 else "{" + ", ".join(["i64"] * self.results) + "}"


def signature_of(function: FunctionType) -> Signature:
    """A function's signature, from its annotations."""
    notes = {k: v if isinstance(v, str) else str(v) for k, v in function.__annotations__.items()}
    names = list(inspect.signature(function).parameters)
    result = notes.get("return", "None")
    count = {"None": 0, "int": 1, "bool": 1}.get(result, result.count(",") + 1)
    return Signature(tuple(notes[n] == "World" for n in names), count, result == "bool")


@cache
def _functions(file: str) -> dict[int, ast.FunctionDef]:
    """A file's functions by their first line, that of a decorator where there is one."""
    tree = ast.parse(Path(file).read_bytes())
    found = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    return {min([f.lineno, *(d.lineno for d in f.decorator_list)]): f for f in found}


@dataclass(frozen=True, slots=True)
class _Value:
    """An i64 or i1; `constant` is its value where that is known."""

    text: str
    is_truth: bool = False
    constant: int | None = None


def _constant(value: int) -> _Value:
    number = (int(value) + _WRAP // 2) % _WRAP - _WRAP // 2
    return _Value(str(number), constant=number)


@dataclass(frozen=True, slots=True)
class _Loop:
    on_break: Label
    on_continue: Label


class Translation:
    """One function; `text` is its LLVM text, `callees` what it calls, in order of appearance."""

    def __init__(self, function: FunctionType, symbol: str, attributes: str) -> None:
        self.callees: list[Callee] = []
        self._function = function
        self._file = function.__code__.co_filename
        definition = _functions(self._file)[function.__code__.co_firstlineno]
        self.signature = signature_of(function)
        self._views: dict[str, str] = {}
        self._worlds: set[str] = set()
        self._slots: dict[str, str] = {}
        self._loops: list[_Loop] = []
        names = [a.arg for a in definition.args.args]
        parameters = ", ".join(
            f"{'ptr' if world else 'i64'} %{name}.in"
            for name, world in zip(names, self.signature.worlds, strict=True)
        )
        head = f'define internal {self.signature.kind} @"{symbol}"({parameters}) {attributes}'
        self._fn = Function(head)
        for name, world in zip(names, self.signature.worlds, strict=True):
            if world:
                self._worlds.add(name)
            else:
                self._fn.start(f"store i64 %{name}.in, ptr {self._slot(name)}, align 8")
        self._body(definition.body)
        if self.signature.results:
            self._fn.leave(f"{self.signature.kind} zeroinitializer")
        self.text = self._fn.text()

    def _error(self, node: ast.AST, what: str) -> TranslationError:
        line = getattr(node, "lineno", 0)
        return TranslationError(f"{self._file}:{line}: {what}: {ast.unparse(node)}")

    # --- variables ---

    def _slot(self, name: str) -> str:
        slot = self._slots.get(name)
        if slot is None:
            slot = self._slots[name] = self._fn.alloca("i64", 8)
            self._fn.start(f"store i64 0, ptr {slot}, align 8")
        return slot

    def _global(self, node: ast.expr) -> object:
        """The object that a name or a module's attribute stands for."""
        if isinstance(node, ast.Name):
            known = self._function.__globals__
            if node.id in known:
                return known[node.id]
            if hasattr(builtins, node.id):
                return getattr(builtins, node.id)
        elif isinstance(node, ast.Attribute):
            module = self._global(node.value)
            if isinstance(module, ModuleType) and hasattr(module, node.attr):
                return getattr(module, node.attr)
        raise self._error(node, "unknown name")

    def _view(self, node: ast.expr) -> str | None:
        """Which view of the world an expression is."""
        if isinstance(node, ast.Name):
            return self._views.get(node.id)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            return node.attr if node.value.id in self._worlds and node.attr in _BITS else None
        return None

    def _world(self, node: ast.expr) -> str:
        if isinstance(node, ast.Name) and node.id in self._worlds:
            return f"%{node.id}.in"
        raise self._error(node, "not a world")

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
            self._store(name, _Value(self._fn.op(f"extractvalue {kind} {whole}, {i}")))

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

    def _store(self, target: ast.expr, value: _Value) -> None:
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

    def _for_range(self, node: ast.For, bounds: list[_Value]) -> None:
        fn = self._fn
        if len(bounds) == 1:
            bounds.insert(0, _constant(0))
        step = bounds[2] if len(bounds) > 2 else _constant(1)
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
        self._store(node.target, _Value(value))
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

    # --- memory ---

    def _element(self, node: ast.Subscript) -> tuple[str, str]:
        """The view of an element and a pointer to it."""
        view = self._view(node.value)
        if view is None:
            raise self._error(node, "no view of a world")
        index = self._number(node.slice)
        kind = f"i{_BITS[view]}"
        world = f"%{next(iter(sorted(self._worlds)))}.in"
        return view, self._fn.op(f"getelementptr {kind}, ptr {world}, i64 {index.text}")

    def _read(self, view: str, pointer: str) -> _Value:
        bits = _BITS[view]
        value = self._fn.op(f"load i{bits}, ptr {pointer}, align {bits // 8}")
        if bits == 64:
            return _Value(value)
        return _Value(self._fn.op(f"{'zext' if bits == 8 else 'sext'} i{bits} {value} to i64"))

    def _write(self, view: str, pointer: str, value: _Value) -> None:
        bits, text = _BITS[view], value.text
        if bits != 64:
            text = self._fn.op(f"trunc i64 {text} to i{bits}")
        self._fn.do(f"store i{bits} {text}, ptr {pointer}, align {bits // 8}")

    # --- expressions ---

    def _number(self, node: ast.expr) -> _Value:
        """An expression as an i64."""
        value = self._value(node)
        if value.is_truth:
            return _Value(self._fn.op(f"zext i1 {value.text} to i64"))
        return value

    def _truth(self, node: ast.expr) -> str:
        """An expression as an i1."""
        value = self._value(node)
        if value.is_truth:
            return value.text
        return self._fn.op(f"icmp ne i64 {value.text}, 0")

    def _branch(self, node: ast.expr, then: Label, other: Label) -> None:
        """Goes where an expression's truth says."""
        fn = self._fn
        if isinstance(node, ast.BoolOp):
            for part in node.values[:-1]:
                following = fn.label("also")
                if isinstance(node.op, ast.And):
                    self._branch(part, following, other)
                else:
                    self._branch(part, then, following)
                fn.place(following)
            self._branch(node.values[-1], then, other)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            self._branch(node.operand, other, then)
        else:
            fn.branch(self._truth(node), then, other)

    def _value(self, node: ast.expr) -> _Value:
        method = _EXPRESSIONS.get(type(node))
        if method is None:
            raise self._error(node, "no such expression here")
        return method(self, node)

    def _literal(self, node: ast.Constant) -> _Value:
        if not isinstance(node.value, int):
            raise self._error(node, "no integer")
        return _constant(node.value)

    def _name(self, node: ast.Name | ast.Attribute) -> _Value:
        if isinstance(node, ast.Name) and node.id in self._slots:
            return _Value(self._fn.op(f"load i64, ptr {self._slots[node.id]}, align 8"))
        known = self._global(node)
        if not isinstance(known, int):
            raise self._error(node, "no integer")
        return _constant(known)

    def _subscript(self, node: ast.Subscript) -> _Value:
        return self._read(*self._element(node))

    def _unary(self, node: ast.UnaryOp) -> _Value:
        if isinstance(node.op, ast.Not):
            return _Value(self._fn.op(f"xor i1 {self._truth(node.operand)}, true"), is_truth=True)
        value = self._number(node.operand)
        if value.constant is not None:
            return _constant(-value.constant if isinstance(node.op, ast.USub) else ~value.constant)
        if isinstance(node.op, ast.USub):
            return _Value(self._fn.op(f"sub i64 0, {value.text}"))
        return _Value(self._fn.op(f"xor i64 {value.text}, -1"))

    def _binary(self, node: ast.BinOp) -> _Value:
        left = self._number(node.left)
        return self._combine(node, node.op, left, self._number(node.right))

    def _combine(self, node: ast.AST, op: ast.operator, a: _Value, b: _Value) -> _Value:
        fold = _FOLDS.get(type(op))
        if fold is None:
            raise self._error(node, "no such operation here")
        if a.constant is not None and b.constant is not None:
            return _constant(fold(a.constant, b.constant))
        plain = _PLAIN.get(type(op))
        if plain is not None:
            return _Value(self._fn.op(f"{plain} i64 {a.text}, {b.text}"))
        if isinstance(op, ast.LShift | ast.RShift):
            count = b.text if b.constant is not None else self._fn.op(f"and i64 {b.text}, 63")
            kind = "shl" if isinstance(op, ast.LShift) else "ashr"
            return _Value(self._fn.op(f"{kind} i64 {a.text}, {count}"))
        return self._divide(a, b, remainder=isinstance(op, ast.Mod))

    def _divide(self, a: _Value, b: _Value, *, remainder: bool) -> _Value:
        """Rounds down. What the processor refuses to divide by is not asked of it."""
        fn = self._fn
        by = b.text
        if b.constant in (None, 0, -1):
            odd = fn.op(f"icmp ult i64 {fn.op(f'add i64 {by}, 1')}, 2")
            by = fn.op(f"select i1 {odd}, i64 1, i64 {by}")
        rest = fn.op(f"srem i64 {a.text}, {by}")
        signs = fn.op(f"xor i64 {rest}, {by}")
        nonzero = fn.op(f"icmp ne i64 {rest}, 0")
        low = fn.op(f"and i1 {nonzero}, {fn.op(f'icmp slt i64 {signs}, 0')}")
        if remainder:
            more = fn.op(f"select i1 {low}, i64 {by}, i64 0")
            return _Value(fn.op(f"add i64 {rest}, {more}"))
        quotient = fn.op(f"sdiv i64 {a.text}, {by}")
        quotient = fn.op(f"sub i64 {quotient}, {fn.op(f'zext i1 {low} to i64')}")
        if b.constant in (None, 0, -1):
            minus = fn.op(f"mul i64 {a.text}, {b.text}")  # by 0 or by -1
            quotient = fn.op(f"select i1 {odd}, i64 {minus}, i64 {quotient}")
        return _Value(quotient)

    def _compare(self, node: ast.Compare) -> _Value:
        left = self._number(node.left)
        whole = ""
        for op, operand in zip(node.ops, node.comparators, strict=True):
            if isinstance(op, ast.In | ast.NotIn):
                part = self._member(left, operand, isinstance(op, ast.NotIn))
            else:
                right = self._number(operand)
                order = _ORDERS.get(type(op))
                if order is None:
                    raise self._error(node, "no such comparison here")
                part = self._fn.op(f"icmp {order} i64 {left.text}, {right.text}")
                left = right
            whole = self._fn.op(f"and i1 {whole}, {part}") if whole else part
        return _Value(whole, is_truth=True)

    def _member(self, value: _Value, within: ast.expr, negate: bool) -> str:
        if not isinstance(within, ast.Tuple):
            raise self._error(within, "not a tuple")
        found = "false"
        for part in within.elts:
            same = self._fn.op(f"icmp eq i64 {value.text}, {self._number(part).text}")
            found = self._fn.op(f"or i1 {found}, {same}")
        return self._fn.op(f"xor i1 {found}, true") if negate else found

    def _logic(self, node: ast.BoolOp) -> _Value:
        """`and`, `or`: the operand that decides, or its truth where all are truths."""
        fn = self._fn
        result, end = fn.alloca("i64", 8), fn.label("end")
        truths = True
        for part in node.values:
            value = self._value(part)
            truths &= value.is_truth
            number = value.text
            if value.is_truth:
                number = fn.op(f"zext i1 {value.text} to i64")
            fn.do(f"store i64 {number}, ptr {result}, align 8")
            if part is not node.values[-1]:
                following = fn.label("also")
                holds = fn.op(f"icmp ne i64 {number}, 0")
                if isinstance(node.op, ast.And):
                    fn.branch(holds, following, end)
                else:
                    fn.branch(holds, end, following)
                fn.place(following)
        fn.place(end)
        value = _Value(fn.op(f"load i64, ptr {result}, align 8"))
        return _Value(fn.op(f"icmp ne i64 {value.text}, 0"), is_truth=True) if truths else value

    def _choice(self, node: ast.IfExp) -> _Value:
        fn = self._fn
        result = fn.alloca("i64", 8)
        then, other, end = fn.label("then"), fn.label("else"), fn.label("end")
        self._branch(node.test, then, other)
        for label, part in ((then, node.body), (other, node.orelse)):
            fn.place(label)
            fn.do(f"store i64 {self._number(part).text}, ptr {result}, align 8")
            fn.jump(end)
        fn.place(end)
        return _Value(fn.op(f"load i64, ptr {result}, align 8"))

    # --- calls ---

    def _call_value(self, node: ast.Call) -> _Value:
        known = self._global(node.func)
        simple = _BUILTINS.get(known) if isinstance(known, Callable) else None  # type: ignore[arg-type]
        if simple is not None:
            return simple(self, [self._number(a) for a in node.args])
        _, value, count = self._call(node)
        if count != 1:
            raise self._error(node, "no single value")
        return _Value(value)

    def _call(self, node: ast.Call) -> tuple[str, str, int]:
        """Type, text and number of values of a call's result."""
        callee = self._global(node.func)
        if not isinstance(callee, Callee):
            raise self._error(node, "no compiled function")
        signature = callee.signature
        if node.keywords or len(node.args) != len(signature.worlds):
            raise self._error(node, f"{len(signature.worlds)} arguments are wanted")
        if callee not in self.callees:
            self.callees.append(callee)
        arguments = ", ".join(
            f"ptr {self._world(a)}" if world else f"i64 {self._number(a).text}"
            for a, world in zip(node.args, signature.worlds, strict=True)
        )
        text = f'call {signature.kind} @"{callee.symbol}"({arguments})'
        if signature.results == 0:
            self._fn.do(text)
            return "void", "", 0
        return signature.kind, self._fn.op(text), signature.results

    def _extreme(self, order: str, values: list[_Value]) -> _Value:
        found = values[0]
        for value in values[1:]:
            first = self._fn.op(f"icmp {order} i64 {found.text}, {value.text}")
            found = _Value(self._fn.op(f"select i1 {first}, i64 {found.text}, i64 {value.text}"))
        return found

    def _min(self, values: list[_Value]) -> _Value:
        return self._extreme("sle", values)

    def _max(self, values: list[_Value]) -> _Value:
        return self._extreme("sge", values)

    def _abs(self, values: list[_Value]) -> _Value:
        minus = _Value(self._fn.op(f"sub i64 0, {values[0].text}"))
        return self._extreme("sge", [values[0], minus])

    def _int(self, values: list[_Value]) -> _Value:
        return values[0]

    def _bool(self, values: list[_Value]) -> _Value:
        return _Value(self._fn.op(f"icmp ne i64 {values[0].text}, 0"), is_truth=True)


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
_EXPRESSIONS: Final[dict[type, Callable[..., _Value]]] = {
    ast.Constant: Translation._literal,
    ast.Name: Translation._name,
    ast.Attribute: Translation._name,
    ast.Subscript: Translation._subscript,
    ast.UnaryOp: Translation._unary,
    ast.BinOp: Translation._binary,
    ast.Compare: Translation._compare,
    ast.BoolOp: Translation._logic,
    ast.IfExp: Translation._choice,
    ast.Call: Translation._call_value,
}
_BUILTINS: Final[dict[object, Callable[[Translation, list[_Value]], _Value]]] = {
    min: Translation._min,
    max: Translation._max,
    abs: Translation._abs,
    int: Translation._int,
    bool: Translation._bool,
}
_PLAIN: Final[dict[type, str]] = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.BitAnd: "and",
    ast.BitOr: "or",
    ast.BitXor: "xor",
}
_FOLDS: Final[dict[type, Callable[[int, int], int]]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.BitAnd: lambda a, b: a & b,
    ast.BitOr: lambda a, b: a | b,
    ast.BitXor: lambda a, b: a ^ b,
    ast.LShift: lambda a, b: a << b,
    ast.RShift: lambda a, b: a >> b,
    ast.FloorDiv: lambda a, b: a // b,
    ast.Mod: lambda a, b: a % b,
}
_ORDERS: Final[dict[type, str]] = {
    ast.Eq: "eq",
    ast.NotEq: "ne",
    ast.Lt: "slt",
    ast.LtE: "sle",
    ast.Gt: "sgt",
    ast.GtE: "sge",
}
