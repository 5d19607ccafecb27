"""Ids, aliases and annotations of P4Info, as p4c makes them.

An object's id is its kind's prefix and 24 bits: the user's `@id`, or Bob Jenkins' one-at-a-time hash
of the full name, the names of a kind being taken in sorted order and moved on by one where a number is
taken. An alias is the shortest dotted suffix of a name that no other object of any kind ends in.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from enum import IntEnum
from typing import Any, Final

from finsy.proto import p4i, p4t

from sglb.p4 import ast
from sglb.p4.ast import Annotation
from sglb.p4.lexer import MASTER, unquote
from sglb.p4.source import BUILTIN, P4Error, Span

Annotations = Sequence[Annotation]


class Prefix(IntEnum):
    """The top byte of an id, by kind of object (`P4Ids.Prefix`)."""

    ACTION = 0x01
    TABLE = 0x02
    VALUE_SET = 0x03
    CONTROLLER_HEADER = 0x04
    ACTION_PROFILE = 0x11
    COUNTER = 0x12
    DIRECT_COUNTER = 0x13
    METER = 0x14
    DIRECT_METER = 0x15
    REGISTER = 0x16
    DIGEST = 0x17


def p4info_error(message: str, annotations: Annotations = (), hint: str = "") -> P4Error:
    """An error at the first annotation given."""
    span: Span = annotations[0].span if annotations else BUILTIN
    return P4Error(message, span, hint=hint, phase="p4info")


# --- annotations ----------------------------------------------------------------------------------

#: Those that p4c reads as expressions, and therefore prints with ", ".
_EXPRESSION_LISTS: Final = frozenset({"synchronous", "field_list", "command_line"})
_SHOWN_ELSEWHERE: Final = frozenset({"name", "id", "brief", "description"})


def find(annotations: Annotations, name: str) -> Annotation | None:
    """The last annotation of that name, which is the one that counts."""
    found = [a for a in annotations if a.name == name]
    return found[-1] if found else None


def is_hidden(annotations: Annotations) -> bool:
    """Whether the control plane must not see the object."""
    return find(annotations, "hidden") is not None


def string_argument(annotation: Annotation) -> str:
    """The one string that an annotation holds."""
    texts = _tokens(annotation)
    if not texts or any(not t.startswith('"') for t in texts):
        raise p4info_error(
            f"@{annotation.name} needs a string", [annotation], f'write @{annotation.name}("…")'
        )
    return "".join(unquote(t) for t in texts)


def integer_argument(annotation: Annotation) -> int:
    """The one non-negative integer that an annotation holds."""
    texts = _tokens(annotation)
    return _integer(annotation, texts[0] if len(texts) == 1 else "")


def _integer(annotation: Annotation, text: str) -> int:
    text = text.replace("_", "")
    if "w" in text:
        text = text.partition("w")[2]
    try:
        return int(text, 0 if text[:2].lower() in ("0x", "0b", "0o") else 10)
    except ValueError:
        raise p4info_error(
            f"@{annotation.name} needs one integer", [annotation], f"write @{annotation.name}(1)"
        ) from None


def key_values(annotation: Annotation) -> dict[str, str | int]:
    """`@a(k = "v", n = 3)`, or the same in square brackets."""
    if annotation.structured:
        return {key: getattr(expr, "value", "") for key, expr in annotation.pairs}
    found: dict[str, str | int] = {}
    texts = _tokens(annotation)
    while texts:
        if len(texts) < 3 or texts[1] != "=" or texts[3:4] not in ([], [","]):
            raise p4info_error(
                f"cannot read @{annotation.name}", [annotation], 'write it as (key = "value", …)'
            )
        key, _, value = texts[:3]
        found[key] = unquote(value) if value.startswith('"') else _integer(annotation, value)
        texts = texts[4:]
    return found


def _tokens(annotation: Annotation) -> list[str]:
    """The tokens between the brackets, strings with their quotes."""
    found = MASTER.finditer(annotation.body or "")
    return [m.group() for m in found if m.lastgroup not in ("space", "newline", "comment")]


def _serialized(annotation: Annotation) -> str:
    texts = _tokens(annotation)
    if not texts:
        return f"@{annotation.name}"
    if annotation.name in _EXPRESSION_LISTS:
        return f"@{annotation.name}({', '.join(t for t in texts if t != ',')})"
    return f"@{annotation.name}({' '.join(texts)})"


def add_annotations(message: Any, annotations: Annotations, consumed: Iterable[str] = ()) -> None:
    """Copies annotations into a message, except those that P4Info shows in other ways."""
    skipped = _SHOWN_ELSEWHERE.union(consumed)
    for annotation in annotations:
        if annotation.structured:
            _add_structured(message.structured_annotations.add(), annotation)
        elif annotation.name not in skipped:
            message.annotations.append(_serialized(annotation))


def _add_structured(message: p4t.StructuredAnnotation, annotation: Annotation) -> None:
    message.name = annotation.name
    if annotation.pairs:
        for key, expr in annotation.pairs:
            pair = message.kv_pair_list.kv_pairs.add()
            pair.key = key
            _set_expression(pair.value, expr, annotation)
    else:
        # An empty body sets neither member of the oneof.
        for expr in annotation.exprs:
            _set_expression(message.expression_list.expressions.add(), expr, annotation)


def _set_expression(message: p4t.Expression, expr: ast.Expr, annotation: Annotation) -> None:
    value = _constant(expr)
    if isinstance(value, bool):
        message.bool_value = value
    elif isinstance(value, str):
        message.string_value = value
    elif value is not None and -(1 << 63) <= value < 1 << 63:
        message.int64_value = value
    else:
        raise p4info_error(
            f"@{annotation.name}[…] may hold 64-bit integers, booleans and strings only",
            [annotation],
            "write larger numbers as strings",
        )


_OPERATORS: Final[dict[str, Callable[[int, int], int | bool]]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def _constant(expr: ast.Expr) -> int | bool | str | None:
    """The value of a literal or of arithmetic on literals, None for anything else."""
    if isinstance(expr, ast.BoolLit | ast.StringLit | ast.IntLit):
        return expr.value
    if isinstance(expr, ast.Unary):
        operand = _constant(expr.operand)
        if isinstance(operand, bool):
            return not operand if expr.op == "!" else None
        if isinstance(operand, int) and expr.op in ("-", "+", "~"):
            return {"-": -operand, "+": operand, "~": ~operand}[expr.op]
    if isinstance(expr, ast.Binary) and expr.op in _OPERATORS:
        left, right = _constant(expr.left), _constant(expr.right)
        if isinstance(left, int) and isinstance(right, int):
            return _OPERATORS[expr.op](left, right)
    return None


def add_documentation(message: Any, annotations: Annotations) -> None:
    """Fills `doc` from @brief and @description, if there is either."""
    for annotation in annotations:
        if annotation.name in ("brief", "description") and not annotation.structured:
            setattr(message.doc, annotation.name, string_argument(annotation))


# --- ids ------------------------------------------------------------------------------------------


def hash_name(name: str) -> int:
    """Jenkins' one-at-a-time hash of the name's bytes: 32 bits."""
    value = 0
    for byte in name.encode():
        value = value + byte & 0xFFFFFFFF
        value = value + (value << 10) & 0xFFFFFFFF
        value ^= value >> 6
    value = value + (value << 3) & 0xFFFFFFFF
    value ^= value >> 11
    return value + (value << 15) & 0xFFFFFFFF


class SymbolTable:
    """All objects of a program: add each, then `settle`, then ask for ids and aliases."""

    def __init__(self) -> None:
        self._ids: dict[Prefix, dict[str, int | None]] = {prefix: {} for prefix in Prefix}
        self._suffixes: dict[str, set[str]] = {}

    def add(self, prefix: Prefix, name: str, annotations: Annotations = ()) -> None:
        """Takes in an object; again under the same name and kind changes nothing."""
        names = self._ids[prefix]
        if name in names:
            return
        names[name] = self._own_id(prefix, name, annotations)
        for suffix in _suffixes(name):
            self._suffixes.setdefault(suffix, set()).add(name)

    def _own_id(self, prefix: Prefix, name: str, annotations: Annotations) -> int | None:
        annotation = find(annotations, "id")
        if annotation is None:
            return None
        number = integer_argument(annotation)
        if number >> 32 or number >> 24 not in (0, prefix):
            raise p4info_error(
                f"@id({number:#x}) of {name} has the wrong prefix",
                [annotation],
                f"the top byte of this kind's ids is {prefix:#04x}, or may be left out",
            )
        number |= prefix << 24
        for names in self._ids.values():
            for other, taken in names.items():
                if taken == number:
                    raise p4info_error(f"{other} and {name} have the same @id", [annotation])
        return number

    def settle(self) -> None:
        """Gives every object without an `@id` its id."""
        for prefix, names in self._ids.items():
            taken = set(names.values())
            for name in sorted(n for n, number in names.items() if number is None):
                suffix = hash_name(name) & 0xFFFFFF
                while prefix << 24 | suffix in taken:
                    suffix = suffix + 1 & 0xFFFFFF
                names[name] = prefix << 24 | suffix
                taken.add(prefix << 24 | suffix)

    def id(self, prefix: Prefix, name: str) -> int:
        """The id of an object; KeyError if none was added or `settle` hasn't run."""
        number = self._ids[prefix][name]
        if number is None:
            raise KeyError(name)
        return number

    def has(self, prefix: Prefix, name: str) -> bool:
        """Whether an object was added."""
        return name in self._ids[prefix]

    def alias(self, name: str) -> str:
        """The shortest suffix that is this name's alone (its whole, if another ends in it)."""
        for suffix in _suffixes(name):
            if len(self._suffixes[suffix]) == 1:
                return suffix
        return name

    def preamble(
        self,
        message: p4i.Preamble,
        prefix: Prefix,
        name: str,
        annotations: Annotations,
        consumed: Iterable[str] = (),
    ) -> None:
        """Fills an object's preamble."""
        message.id = self.id(prefix, name)
        message.name = name
        message.alias = self.alias(name)
        add_annotations(message, annotations, consumed)
        add_documentation(message, annotations)


def _suffixes(name: str) -> list[str]:
    """Dotted suffixes, shortest first."""
    parts = name.split(".")
    return [".".join(parts[at:]) for at in range(len(parts) - 1, -1, -1)]


def field_ids(
    owner: str,
    fields: Sequence[tuple[str, Annotations]],
    error: Callable[..., P4Error] = p4info_error,
) -> list[int]:
    """Ids of params, keys or metadata: their `@id`, else the next free number from their place on."""
    ids: list[int | None] = []
    for name, own in fields:
        annotation = find(own, "id")
        number = None if annotation is None else integer_argument(annotation)
        if annotation is not None and number == 0:
            raise error(f"{name} of {owner}: 0 is no valid @id", [annotation], "ids start at 1")
        if annotation is not None and number in ids:
            raise error(f"@id({number}) stands twice in {owner}", [annotation])
        ids.append(number)
    taken = {number for number in ids if number is not None}
    result = []
    following = 1
    for number in ids:
        if number is not None:
            following += 1
            result.append(number)
            continue
        while following in taken:
            following += 1
        taken.add(following)
        result.append(following)
    return result
