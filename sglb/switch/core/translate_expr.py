"""The expressions of the part of Python that `translate` knows, as LLVM instructions."""

from __future__ import annotations

import ast
import builtins
import inspect
from collections.abc import Callable
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class Value:
    """An i64 or i1; `constant` is its value where that is known."""

    text: str
    is_truth: bool = False
    constant: int | None = None


def constant_value(value: int) -> Value:
    """A constant, wrapped to 64 bits."""
    number = (int(value) + _WRAP // 2) % _WRAP - _WRAP // 2
    return Value(str(number), constant=number)


class Expressions:
    """What a translation knows of names, and how it writes values."""

    def __init__(self, function: FunctionType, fn: Function) -> None:
        self.callees: list[Callee] = []
        self._function = function
        self._fn = fn
        self._views: dict[str, str] = {}
        self._worlds: set[str] = set()
        self._slots: dict[str, str] = {}

    def _error(self, node: ast.AST, what: str) -> TranslationError:
        place = f"{self._function.__code__.co_filename}:{getattr(node, 'lineno', 0)}"
        return TranslationError(f"{place}: {what}: {ast.unparse(node)}")

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

    def _read(self, view: str, pointer: str) -> Value:
        bits = _BITS[view]
        value = self._fn.op(f"load i{bits}, ptr {pointer}, align {bits // 8}")
        if bits == 64:
            return Value(value)
        return Value(self._fn.op(f"{'zext' if bits == 8 else 'sext'} i{bits} {value} to i64"))

    def _write(self, view: str, pointer: str, value: Value) -> None:
        bits, text = _BITS[view], value.text
        if bits != 64:
            text = self._fn.op(f"trunc i64 {text} to i{bits}")
        self._fn.do(f"store i{bits} {text}, ptr {pointer}, align {bits // 8}")

    # --- expressions ---

    def _number(self, node: ast.expr) -> Value:
        """An expression as an i64."""
        value = self._value(node)
        if value.is_truth:
            return Value(self._fn.op(f"zext i1 {value.text} to i64"))
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

    def _value(self, node: ast.expr) -> Value:
        method = _EXPRESSIONS.get(type(node))
        if method is None:
            raise self._error(node, "no such expression here")
        return method(self, node)

    def _literal(self, node: ast.Constant) -> Value:
        if not isinstance(node.value, int):
            raise self._error(node, "no integer")
        return constant_value(node.value)

    def _name(self, node: ast.Name | ast.Attribute) -> Value:
        if isinstance(node, ast.Name) and node.id in self._slots:
            return Value(self._fn.op(f"load i64, ptr {self._slots[node.id]}, align 8"))
        known = self._global(node)
        if not isinstance(known, int):
            raise self._error(node, "no integer")
        return constant_value(known)

    def _subscript(self, node: ast.Subscript) -> Value:
        return self._read(*self._element(node))

    def _unary(self, node: ast.UnaryOp) -> Value:
        if isinstance(node.op, ast.Not):
            return Value(self._fn.op(f"xor i1 {self._truth(node.operand)}, true"), is_truth=True)
        value = self._number(node.operand)
        if value.constant is not None:
            return constant_value(
                -value.constant if isinstance(node.op, ast.USub) else ~value.constant
            )
        if isinstance(node.op, ast.USub):
            return Value(self._fn.op(f"sub i64 0, {value.text}"))
        return Value(self._fn.op(f"xor i64 {value.text}, -1"))

    def _binary(self, node: ast.BinOp) -> Value:
        left = self._number(node.left)
        return self._combine(node, node.op, left, self._number(node.right))

    def _combine(self, node: ast.AST, op: ast.operator, a: Value, b: Value) -> Value:
        fold = _FOLDS.get(type(op))
        if fold is None:
            raise self._error(node, "no such operation here")
        if a.constant is not None and b.constant is not None:
            return constant_value(fold(a.constant, b.constant))
        plain = _PLAIN.get(type(op))
        if plain is not None:
            return Value(self._fn.op(f"{plain} i64 {a.text}, {b.text}"))
        if isinstance(op, ast.LShift | ast.RShift):
            count = b.text if b.constant is not None else self._fn.op(f"and i64 {b.text}, 63")
            kind = "shl" if isinstance(op, ast.LShift) else "ashr"
            return Value(self._fn.op(f"{kind} i64 {a.text}, {count}"))
        return self._divide(a, b, remainder=isinstance(op, ast.Mod))

    def _divide(self, a: Value, b: Value, *, remainder: bool) -> Value:
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
            return Value(fn.op(f"add i64 {rest}, {more}"))
        quotient = fn.op(f"sdiv i64 {a.text}, {by}")
        quotient = fn.op(f"sub i64 {quotient}, {fn.op(f'zext i1 {low} to i64')}")
        if b.constant in (None, 0, -1):
            minus = fn.op(f"mul i64 {a.text}, {b.text}")  # by 0 or by -1
            quotient = fn.op(f"select i1 {odd}, i64 {minus}, i64 {quotient}")
        return Value(quotient)

    def _compare(self, node: ast.Compare) -> Value:
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
        return Value(whole, is_truth=True)

    def _member(self, value: Value, within: ast.expr, negate: bool) -> str:
        if not isinstance(within, ast.Tuple):
            raise self._error(within, "not a tuple")
        found = "false"
        for part in within.elts:
            same = self._fn.op(f"icmp eq i64 {value.text}, {self._number(part).text}")
            found = self._fn.op(f"or i1 {found}, {same}")
        return self._fn.op(f"xor i1 {found}, true") if negate else found

    def _logic(self, node: ast.BoolOp) -> Value:
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
        value = Value(fn.op(f"load i64, ptr {result}, align 8"))
        return Value(fn.op(f"icmp ne i64 {value.text}, 0"), is_truth=True) if truths else value

    def _choice(self, node: ast.IfExp) -> Value:
        fn = self._fn
        result = fn.alloca("i64", 8)
        then, other, end = fn.label("then"), fn.label("else"), fn.label("end")
        self._branch(node.test, then, other)
        for label, part in ((then, node.body), (other, node.orelse)):
            fn.place(label)
            fn.do(f"store i64 {self._number(part).text}, ptr {result}, align 8")
            fn.jump(end)
        fn.place(end)
        return Value(fn.op(f"load i64, ptr {result}, align 8"))

    # --- calls ---

    def _call_value(self, node: ast.Call) -> Value:
        known = self._global(node.func)
        simple = _BUILTINS.get(known) if isinstance(known, Callable) else None  # type: ignore[arg-type]
        if simple is not None:
            return simple(self, [self._number(a) for a in node.args])
        _, value, count = self._call(node)
        if count != 1:
            raise self._error(node, "no single value")
        return Value(value)

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

    def _extreme(self, order: str, values: list[Value]) -> Value:
        found = values[0]
        for value in values[1:]:
            first = self._fn.op(f"icmp {order} i64 {found.text}, {value.text}")
            found = Value(self._fn.op(f"select i1 {first}, i64 {found.text}, i64 {value.text}"))
        return found

    def _min(self, values: list[Value]) -> Value:
        return self._extreme("sle", values)

    def _max(self, values: list[Value]) -> Value:
        return self._extreme("sge", values)

    def _abs(self, values: list[Value]) -> Value:
        minus = Value(self._fn.op(f"sub i64 0, {values[0].text}"))
        return self._extreme("sge", [values[0], minus])

    def _int(self, values: list[Value]) -> Value:
        return values[0]

    def _bool(self, values: list[Value]) -> Value:
        return Value(self._fn.op(f"icmp ne i64 {values[0].text}, 0"), is_truth=True)


_EXPRESSIONS: Final[dict[type, Callable[..., Value]]] = {
    ast.Constant: Expressions._literal,
    ast.Name: Expressions._name,
    ast.Attribute: Expressions._name,
    ast.Subscript: Expressions._subscript,
    ast.UnaryOp: Expressions._unary,
    ast.BinOp: Expressions._binary,
    ast.Compare: Expressions._compare,
    ast.BoolOp: Expressions._logic,
    ast.IfExp: Expressions._choice,
    ast.Call: Expressions._call_value,
}
_BUILTINS: Final[dict[object, Callable[[Expressions, list[Value]], Value]]] = {
    min: Expressions._min,
    max: Expressions._max,
    abs: Expressions._abs,
    int: Expressions._int,
    bool: Expressions._bool,
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
