"""From a small part of Python to LLVM text: functions over a `World` and 64-bit integers.

Values are int64 that wrap around, or the truths of comparisons (see `translate_values` for what differs
from Python's integers). What there is:

    constants of modules (they become part of the code), variables, `w = world.w`
    `world.w[i]`, `h`, `b`: int64, int32 with its sign, bytes without; nothing checks an index
    + - * // % & | ^ ~ << >>, comparisons and chains of them, `in (...)`, and, or, not, if ... else
    min, max, abs, int, bool; calls of functions that are compiled too, which may give several values
    if, while, for over a range (its step a constant) or over a written-out tuple, loops' `else`, break,
    continue
    assert, which is left out

Everything else is a `TranslationError`. The order of what reads and writes memory is Python's.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import FunctionType, ModuleType
from typing import Final, Protocol, TypeGuard, runtime_checkable

from sglb.p4.native.text import Function, Label
from sglb.switch.core import translate_values as values
from sglb.switch.core.translate_source import Signature, Source, TranslationError, signature_of
from sglb.switch.core.translate_values import Value

_BITS: Final = {"w": 64, "h": 32, "b": 8}


@runtime_checkable
class Callee(Protocol):
    """What a compiled function can call."""

    symbol: str
    signature: Signature


@dataclass(frozen=True, slots=True)
class _Loop:
    on_break: Label
    on_continue: Label


class Translation:
    """One function; `text` is its LLVM text, `callees` what it calls, in order of appearance."""

    def __init__(
        self, function: FunctionType, source: Source, symbol: str, attributes: str
    ) -> None:
        self.callees: list[Callee] = []
        self._globals = function.__globals__
        self._file = function.__code__.co_filename
        self._signature = signature = signature_of(function)
        definition = source.definition(function)
        parameters = signature.parameters("in.")
        head = f'define internal {signature.kind} @"{symbol}"({parameters}) {attributes}'
        self._fn = Function(head)
        self._loops: list[_Loop] = []
        self._slots: dict[str, str] = {}
        self._views = self._find_views(definition)
        for name in signature.names:
            if name != signature.world:
                self._fn.start(f"store i64 %in.{name}, ptr {self._slot(name)}, align 8")
        for name in self._variables(definition):
            if name not in self._slots:
                self._fn.start(f"store i64 0, ptr {self._slot(name)}, align 8")
        self._body(definition.body)
        if signature.truths and self._fn.open:
            raise self._error(
                definition, "its end can be reached without a result", definition.name
            )
        self.text = self._fn.text()

    def _error(self, node: ast.AST, what: str, shown: str = "") -> TranslationError:
        line = getattr(node, "lineno", 0)
        return TranslationError(f"{self._file}:{line}: {what}: {shown or ast.unparse(node)}")

    # --- names ---

    def _slot(self, name: str) -> str:
        if name not in self._slots:
            self._slots[name] = self._fn.alloca("i64", 8)
        return self._slots[name]

    def _variables(self, definition: ast.FunctionDef) -> Iterator[str]:
        """Names that are assigned to and are no views."""
        for node in ast.walk(definition):
            if _is_set(node):
                if node.id == self._signature.world:
                    raise self._error(node, "a world cannot be replaced")
                if node.id not in self._views:
                    yield node.id

    def _find_views(self, definition: ast.FunctionDef) -> dict[str, str]:
        """Names that stand for a view of the world, and so for nothing else, wherever they are."""
        views: dict[str, str] = {}
        named: list[ast.expr] = []
        for node in ast.walk(definition):
            if isinstance(node, ast.Assign):
                for target, value in _pairs(node):
                    view = self._view_itself(value)
                    if view is not None and isinstance(target, ast.Name):
                        if views.setdefault(target.id, view) != view:
                            raise self._error(node, f"{target.id} is another view elsewhere")
                        named.append(target)
        for node in ast.walk(definition):
            if _is_set(node) and node.id in views and node not in named:
                raise self._error(node, "a view elsewhere")
        for name in self._signature.names:
            if name in views:
                raise self._error(definition, f"{name} is a view elsewhere", definition.name)
        return views

    def _view_itself(self, node: ast.expr) -> str | None:
        if not isinstance(node, ast.Attribute) or node.attr not in _BITS:
            return None
        world = isinstance(node.value, ast.Name) and node.value.id == self._signature.world
        return node.attr if world else None

    def _view(self, node: ast.expr) -> str | None:
        """Which view of the world an expression is."""
        if isinstance(node, ast.Name):
            return self._views.get(node.id)
        return self._view_itself(node)

    def _is_local(self, name: str) -> bool:
        return name in self._slots or name in self._views or name == self._signature.world

    def _global(self, node: ast.expr) -> object:
        """The object that a module's name, or an attribute of a module, stands for."""
        if isinstance(node, ast.Name):
            if self._is_local(node.id):
                raise self._error(node, "not to be used like this")
            if node.id in self._globals:
                return self._globals[node.id]
            if hasattr(builtins, node.id):
                return getattr(builtins, node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            module = None if self._is_local(node.value.id) else self._globals.get(node.value.id)
            if isinstance(module, ModuleType) and hasattr(module, node.attr):
                return getattr(module, node.attr)
        raise self._error(node, "unknown name")

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
        parts: list[tuple[ast.expr, Value]] = []
        evaluated: dict[int, Value] = {}
        if len(node.targets) > 1 and any(isinstance(t, ast.Tuple) for t in node.targets):
            raise self._error(node, "several targets, one a tuple")
        for target, source in _pairs(node):
            if isinstance(target, ast.Tuple):
                parts += self._unpacked(target, source)
            elif not (isinstance(target, ast.Name) and target.id in self._views):
                known = evaluated.get(id(source)) or self._number(source)
                evaluated[id(source)] = known
                parts.append((target, known))
        for target, value in parts:
            self._store(target, value)

    def _unpacked(self, target: ast.Tuple, source: ast.expr) -> list[tuple[ast.expr, Value]]:
        """The names of a tuple with what a call gives for each."""
        if not isinstance(source, ast.Call):
            raise self._error(source, f"no {len(target.elts)} values")
        callee, whole = self._call(source)
        kind, count = callee.kind, len(callee.truths)
        if count != len(target.elts):
            raise self._error(source, f"{count} values for {len(target.elts)} names")
        parts = [Value(self._fn.op(f"extractvalue {kind} {whole}, {i}")) for i in range(count)]
        return list(zip(target.elts, parts, strict=True))

    def _annotated(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self._store(node.target, self._number(node.value))

    def _augment(self, node: ast.AugAssign) -> None:
        target = node.target
        if isinstance(target, ast.Name):
            old = self._number(target)
            self._store(target, self._combine(node, node.op, old, self._number(node.value)))
        elif isinstance(target, ast.Subscript):
            view, pointer = self._element(target)
            old = self._read(view, pointer)  # even if the value's calls change it: so does Python
            value = self._combine(node, node.op, old, self._number(node.value))
            self._write(view, pointer, value)
        else:
            raise self._error(node, "no such target")

    def _store(self, target: ast.expr, value: Value) -> None:
        if isinstance(target, ast.Name):
            self._fn.do(f"store i64 {value.text}, ptr {self._slots[target.id]}, align 8")
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
        if not fn.open:
            return
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
            raise self._error(node.iter, "a loop over neither a range nor a tuple")

    def _for_each(self, node: ast.For, elements: Sequence[ast.expr]) -> None:
        fn = self._fn
        end = fn.label("end")
        for value in [self._number(element) for element in elements]:
            following = fn.label("next")
            self._store(node.target, value)
            self._loop(node.body, end, following)
            fn.place(following)
        self._body(node.orelse)
        fn.place(end)

    def _for_range(self, node: ast.For, bounds: list[Value]) -> None:
        fn = self._fn
        if len(bounds) == 1:
            bounds.insert(0, values.constant(0))
        step = bounds[2] if len(bounds) == 3 else values.constant(1)
        if len(bounds) not in (2, 3) or not step.constant:
            raise self._error(node.iter, "the step is no constant")
        if not fn.open:
            return
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

    def _nothing(self, _node: ast.stmt) -> None:
        pass

    def _return(self, node: ast.Return) -> None:
        nothing = node.value is None or (
            isinstance(node.value, ast.Constant) and node.value.value is None
        )
        if nothing == bool(self._signature.truths):
            raise self._error(node, "not the result that was announced")
        if nothing:
            self._fn.leave("void")
        else:
            assert node.value is not None
            self._give(node.value)

    def _give(self, node: ast.expr) -> None:
        """Leaves with a result."""
        fn, kind, count = self._fn, self._signature.kind, len(self._signature.truths)
        if isinstance(node, ast.IfExp):
            then, other = fn.label("then"), fn.label("else")
            self._branch(node.test, then, other)
            for label, part in ((then, node.body), (other, node.orelse)):
                fn.place(label)
                self._give(part)
        elif isinstance(node, ast.Tuple) and len(node.elts) == count:
            whole = "poison"
            for i, value in enumerate([self._number(part) for part in node.elts]):
                whole = fn.op(f"insertvalue {kind} {whole}, i64 {value.text}, {i}")
            fn.leave(f"{kind} {whole}")
        elif count == 1:
            fn.leave(f"i64 {self._number(node).text}")
        elif isinstance(node, ast.Call):
            callee, whole = self._call(node)
            if callee.kind != kind:
                raise self._error(node, "not the result that was announced")
            fn.leave(f"{kind} {whole}")
        else:
            raise self._error(node, "not the result that was announced")

    # --- memory ---

    def _element(self, node: ast.Subscript) -> tuple[str, str]:
        """The view of an element and a pointer to it."""
        view = self._view(node.value)
        if view is None:
            raise self._error(node, "no view of a world")
        index = self._number(node.slice).text
        world = f"%in.{self._signature.world}"
        return view, self._fn.op(f"getelementptr i{_BITS[view]}, ptr {world}, i64 {index}")

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
        return values.number(self._fn, self._value(node))

    def _value(self, node: ast.expr) -> Value:
        method = _EXPRESSIONS.get(type(node))
        if method is None:
            raise self._error(node, "no such expression here")
        return method(self, node)

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
            value = values.as_truth(fn, self._value(node))
            if value.constant is None:
                fn.branch(value.text, then, other)
            else:
                fn.jump(then if value.constant else other)

    def _literal(self, node: ast.Constant) -> Value:
        if not isinstance(node.value, int):
            raise self._error(node, "no integer")
        return values.constant(node.value)

    def _name(self, node: ast.Name) -> Value:
        if node.id in self._slots:
            return Value(self._fn.op(f"load i64, ptr {self._slots[node.id]}, align 8"))
        return self._known(node)

    def _known(self, node: ast.Name | ast.Attribute) -> Value:
        known = self._global(node)
        if not isinstance(known, int):
            raise self._error(node, "no integer")
        return values.constant(known)

    def _subscript(self, node: ast.Subscript) -> Value:
        return self._read(*self._element(node))

    def _unary(self, node: ast.UnaryOp) -> Value:
        if isinstance(node.op, ast.Not):
            return values.negation(self._fn, self._value(node.operand))
        value = values.unary(self._fn, node.op, self._number(node.operand))
        assert value is not None
        return value

    def _binary(self, node: ast.BinOp) -> Value:
        left = self._number(node.left)
        return self._combine(node, node.op, left, self._number(node.right))

    def _combine(self, node: ast.AST, op: ast.operator, a: Value, b: Value) -> Value:
        value = values.combine(self._fn, op, a, b)
        if value is None:
            raise self._error(node, "no such operation here")
        return value

    def _compare(self, node: ast.Compare) -> Value:
        """A chain ends where it fails: what comes later may not even be there to be read."""
        left = self._number(node.left)
        if len(node.ops) == 1:
            return self._related(node, node.ops[0], left, node.comparators[0])[0]
        fn = self._fn
        result, end = fn.alloca("i1"), fn.label("end")
        for op, operand in zip(node.ops, node.comparators, strict=True):
            holds, left = self._related(node, op, left, operand)
            fn.do(f"store i1 {holds.text}, ptr {result}")
            following = fn.label("also")
            fn.branch(holds.text, following, end)
            fn.place(following)
        fn.place(end)
        return Value(fn.op(f"load i1, ptr {result}"), is_truth=True)

    def _related(
        self, node: ast.Compare, op: ast.cmpop, left: Value, operand: ast.expr
    ) -> tuple[Value, Value]:
        """Whether one comparison holds, and the value on its right."""
        if isinstance(op, ast.In | ast.NotIn):
            return self._member(left, operand, isinstance(op, ast.NotIn)), left
        right = self._number(operand)
        holds = values.compare(self._fn, op, left, right)
        if holds is None:
            raise self._error(node, "no such comparison here")
        return holds, right

    def _member(self, value: Value, within: ast.expr, negate: bool) -> Value:
        if not isinstance(within, ast.Tuple):
            raise self._error(within, "not a tuple")
        found = values.truth(False)
        for part in [self._number(element) for element in within.elts]:
            same = values.compare(self._fn, ast.Eq(), value, part)
            assert same is not None
            found = values.either(self._fn, found, same)
        return values.negation(self._fn, found) if negate else found

    def _logic(self, node: ast.BoolOp) -> Value:
        """`and`, `or`: the operand that decides; a truth where all are truths."""
        fn = self._fn
        result, end = fn.alloca("i64", 8), fn.label("end")
        truths = True
        for part in node.values:
            value = self._value(part)
            truths &= value.is_truth
            fn.do(f"store i64 {values.number(fn, value).text}, ptr {result}, align 8")
            if part is not node.values[-1]:
                following = fn.label("also")
                holds = values.as_truth(fn, value).text
                if isinstance(node.op, ast.And):
                    fn.branch(holds, following, end)
                else:
                    fn.branch(holds, end, following)
                fn.place(following)
        fn.place(end)
        value = Value(fn.op(f"load i64, ptr {result}, align 8"))
        return values.as_truth(fn, value) if truths else value

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
        for function, (least, most, make) in _BUILTINS.items():
            if known is function:
                if node.keywords or not least <= len(node.args) <= most:
                    raise self._error(node, "other arguments are wanted")
                return make(self._fn, [self._number(a) for a in node.args])
        callee, value = self._call(node)
        if len(callee.truths) != 1:
            raise self._error(node, "no single value")
        return Value(value)

    def _call(self, node: ast.Call) -> tuple[Signature, str]:
        """The signature of what is called, and the text of the result."""
        callee = self._global(node.func)
        if not isinstance(callee, Callee):
            raise self._error(node, "no compiled function")
        signature = callee.signature
        if node.keywords or len(node.args) != len(signature.names):
            raise self._error(
                node, f"arguments are wanted for {', '.join(signature.names) or 'none'}"
            )
        if callee not in self.callees:
            self.callees.append(callee)
        arguments = ", ".join(
            self._world(argument)
            if name == signature.world
            else f"i64 {self._number(argument).text}"
            for argument, name in zip(node.args, signature.names, strict=True)
        )
        text = f'call {signature.kind} @"{callee.symbol}"({arguments})'
        if signature.truths:
            return signature, self._fn.op(text)
        self._fn.do(text)
        return signature, ""

    def _world(self, node: ast.expr) -> str:
        if isinstance(node, ast.Name) and node.id == self._signature.world:
            return f"ptr %in.{node.id}"
        raise self._error(node, "not a world")


def _is_set(node: ast.AST) -> TypeGuard[ast.Name]:
    return isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)


def _pairs(node: ast.Assign) -> Iterator[tuple[ast.expr, ast.expr]]:
    """What is assigned to what, tuples on both sides taken apart."""
    for target in node.targets:
        source = node.value
        names = target.elts if isinstance(target, ast.Tuple) else []
        parts = source.elts if isinstance(source, ast.Tuple) else []
        if names and len(names) == len(parts):
            yield from zip(names, parts, strict=True)
        else:
            yield target, source


_STATEMENTS: Final[dict[type, Callable[..., None]]] = {
    ast.Expr: Translation._expression,
    ast.Assign: Translation._assign,
    ast.AnnAssign: Translation._annotated,
    ast.AugAssign: Translation._augment,
    ast.If: Translation._if,
    ast.While: Translation._while,
    ast.For: Translation._for,
    ast.Break: Translation._break,
    ast.Continue: Translation._continue,
    ast.Pass: Translation._nothing,
    ast.Assert: Translation._nothing,
    ast.Return: Translation._return,
}
_EXPRESSIONS: Final[dict[type, Callable[..., Value]]] = {
    ast.Constant: Translation._literal,
    ast.Name: Translation._name,
    ast.Attribute: Translation._known,
    ast.Subscript: Translation._subscript,
    ast.UnaryOp: Translation._unary,
    ast.BinOp: Translation._binary,
    ast.Compare: Translation._compare,
    ast.BoolOp: Translation._logic,
    ast.IfExp: Translation._choice,
    ast.Call: Translation._call_value,
}
#: How many arguments there may be, and what becomes of them.
_BUILTINS: Final[dict[object, tuple[int, int, Callable[[Function, list[Value]], Value]]]] = {
    min: (2, 99, lambda fn, given: values.extreme(fn, "smin", given)),
    max: (2, 99, lambda fn, given: values.extreme(fn, "smax", given)),
    abs: (1, 1, lambda fn, given: values.magnitude(fn, given[0])),
    int: (1, 1, lambda _fn, given: given[0]),
    bool: (1, 1, lambda fn, given: values.as_truth(fn, given[0])),
}
