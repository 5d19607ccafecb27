"""Lowering of the entries that a program states for a table, with their priorities."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sglb.p4 import ast, ir
from sglb.p4.checked import BoundArg
from sglb.p4.control_plane import CpActionRef, CpEntry
from sglb.p4.ir_build import mask_of, signed_value
from sglb.p4.lower_core import Body
from sglb.p4.lower_env import ActionInst, problem, scalar_const
from sglb.p4.p4info_names import find, integer_argument
from sglb.p4.sourcemap import P4Warning
from sglb.p4.types import Type


@dataclass(frozen=True, slots=True)
class Action:
    """An action as a table has it: instance, code, what the control plane sees, data types."""

    inst: ActionInst
    lowered: ir.TableAction
    shown: CpActionRef
    types: tuple[Type, ...]


@dataclass(frozen=True, slots=True)
class Shape:
    """What a table's entries depend on."""

    keys: tuple[ir.Key, ...]
    key_types: tuple[Type, ...]
    actions: Sequence[Action]
    largest_wins: bool
    priority_delta: int

    @property
    def prioritised(self) -> bool:
        """Whether entries of the table have priorities."""
        return any(k.kind in ("ternary", "range", "optional") for k in self.keys)


ActionData = Callable[[Body, Action, Sequence[BoundArg], ast.Node], tuple[int, ...]]


def lower_entries(
    body: Body, decl: ast.TableDecl, shape: Shape, action_data: ActionData
) -> tuple[tuple[ir.ConstEntry, ...], tuple[CpEntry, ...]]:
    """The entries for the switch (larger priority wins) and as p4c writes them for P4Runtime.

    p4c leaves the numbers of the source in its file even where the smallest wins; the switch gets
    them turned around then.
    """
    if decl.entries is None:
        return (), ()
    priorities = _priorities(body, decl, shape)
    lowered: list[ir.ConstEntry] = []
    shown: list[CpEntry] = []
    order = list(range(len(priorities)))
    if not decl.entries_const:
        order = _order(priorities, shape)
    top = max(priorities, default=0)
    smallest_wins = shape.prioritised and not decl.entries_const and not shape.largest_wins
    annotated = _annotated(body, decl, shape)
    for position in order:
        entry = decl.entries[position]
        priority = priorities[position]
        keys = tuple(
            _entry_key(body, key, type_, expr)
            for key, type_, expr in zip(
                shape.keys, shape.key_types, _expanded(entry, shape), strict=True
            )
        )
        index, args = _entry_action(body, entry, shape, action_data)
        const = decl.entries_const or entry.is_const
        effective = top + 1 - priority if smallest_wins else priority
        if annotated:
            effective = max(annotated) + 1 - annotated[position]
        lowered.append(ir.ConstEntry(keys, index, args, effective, const))
        pairs = tuple(_shown_key(key, value) for key, value in zip(shape.keys, keys, strict=True))
        name = shape.actions[index].shown.action
        shown.append(CpEntry(pairs, name, args, priority, const))
    return tuple(lowered), tuple(shown)


def _annotated(body: Body, decl: ast.TableDecl, shape: Shape) -> list[int]:
    """BMv2's priorities of const entries of which one has the old `@priority(n)`; else empty.

    The smallest wins, and an entry without the annotation has its position, counted from 1. P4_16 and
    P4Runtime know nothing of it: what a controller is shown stays in the order of the source.
    """
    if not (decl.entries_const and shape.prioritised):
        return []
    found: list[int] = []
    stated = False
    for position, entry in enumerate(decl.entries or ()):
        annotation = find(entry.annotations, "priority")
        found.append(position + 1 if annotation is None else integer_argument(annotation))
        if annotation is not None:
            stated = True
            text = (
                "@priority is BMv2's own (the smallest wins); P4_16 has `entries` with `priority =`"
            )
            body.checked.warnings.append(P4Warning(text, entry.span))
    return found if stated else []


# --- priorities -----------------------------------------------------------------------------------


def _priorities(body: Body, decl: ast.TableDecl, shape: Shape) -> list[int]:
    """Priority of each entry (specification 14.2.1.4); 0 where the keys need none."""
    entries = decl.entries or ()
    stated = [e for e in entries if e.priority is not None]
    if stated and (decl.entries_const or not shape.prioritised):
        reason = "const entries" if decl.entries_const else "keys that need none"
        raise problem(f"table {decl.name}: {reason} cannot have priorities", stated[0].span)
    if not shape.prioritised:
        return [0] * len(entries)
    if decl.entries_const:
        return [len(entries) - i for i in range(len(entries))]
    if not stated:
        upward = [1 + i * shape.priority_delta for i in range(len(entries))]
        return upward[::-1] if shape.largest_wins else upward
    return _stated_priorities(body, decl, shape)


def _stated_priorities(body: Body, decl: ast.TableDecl, shape: Shape) -> list[int]:
    """An entry without a priority follows the one before it by `priority_delta`."""
    step = -shape.priority_delta if shape.largest_wins else shape.priority_delta
    out: list[int] = []
    for entry in decl.entries or ():
        if entry.priority is not None:
            out.append(body.constant(entry.priority, "an entry's priority"))
        elif not out:
            raise problem(f"table {decl.name}: the first entry must state its priority", entry.span)
        else:
            out.append(out[-1] + step)
        if out[-1] <= 0:
            raise problem(
                f"table {decl.name}: this entry's priority is {out[-1]}; it must be positive",
                entry.span,
            )
    return out


def _order(priorities: Sequence[int], shape: Shape) -> list[int]:
    """Entries by precedence; entries of equal priority stay in order."""
    sign = -1 if shape.largest_wins else 1
    return sorted(range(len(priorities)), key=lambda i: sign * priorities[i])


# --- keys and actions -----------------------------------------------------------------------------


def _expanded(entry: ast.TableEntry, shape: Shape) -> tuple[ast.Expr, ...]:
    """One expression a key; a single `_` or `default` stands for all keys."""
    keys = entry.keys
    count = len(shape.keys)
    if len(keys) == 1 and isinstance(keys[0], ast.ListExpr) and len(keys[0].items) == count:
        keys = keys[0].items
    if len(keys) == 1 and isinstance(keys[0], ast.Default):
        return keys * count
    if len(keys) != count:
        raise problem(
            f"this entry has {len(keys)} keys, the table {count}",
            entry.span,
            hint="selector keys take no part in entries",
        )
    return keys


def _entry_key(body: Body, key: ir.Key, type_: Type, expr: ast.Expr) -> ir.EntryKey:
    ones = mask_of(key.width)
    if isinstance(expr, ast.Default):
        if key.kind == "exact":
            raise problem(f"key {key.name} is exact: it needs a value", expr.span)
        return ir.EntryKey(*_everything(key))
    if isinstance(expr, ast.Binary) and expr.op == "&&&":
        mask = _value(body, expr.right, type_)
        value = _value(body, expr.left, type_) & mask
        _check_mask(key, mask, expr)
        return ir.EntryKey(value, mask)
    if isinstance(expr, ast.Binary) and expr.op == "..":
        if key.kind != "range":
            raise problem(f"key {key.name} is {key.kind}: it takes no range", expr.span)
        low, high = _value(body, expr.left, type_), _value(body, expr.right, type_)
        if _compared(low, key) > _compared(high, key):
            raise problem(f"key {key.name}: the range is empty", expr.span)
        return ir.EntryKey(low, 0, high)
    value = _value(body, expr, type_)
    if key.kind == "range":
        return ir.EntryKey(value, 0, value)
    return ir.EntryKey(value, ones)


def _everything(key: ir.Key) -> tuple[int, int, int | None]:
    """Value, mask and upper end of a key that matches anything."""
    if key.kind != "range":
        return 0, 0, None
    sign = 1 << (key.width - 1) if key.signed else 0
    return sign, 0, mask_of(key.width) ^ sign


def _compared(value: int, key: ir.Key) -> int:
    return signed_value(value, key.width) if key.signed else value


def _check_mask(key: ir.Key, mask: int, expr: ast.Expr) -> None:
    ones = mask_of(key.width)
    if key.kind == "ternary" or mask == ones:
        return
    if key.kind == "optional" and mask == 0:
        return
    if key.kind == "lpm":
        host = ones & ~mask
        if host & (host + 1) == 0:
            return
        raise problem(f"key {key.name}: an lpm mask is ones, then zeros", expr.span)
    raise problem(f"key {key.name} is {key.kind}: it takes no mask", expr.span)


def _value(body: Body, expr: ast.Expr, type_: Type) -> int:
    known = body.known(expr)
    if known is None:
        known = body.constant(expr, "an entry's key")
    return scalar_const(known, type_, expr.span).value


def _shown_key(key: ir.Key, value: ir.EntryKey) -> tuple[int, int] | None:
    """What P4Runtime is told: nothing for a key that matches everything."""
    if value.hi is not None:
        if (value.value, 0, value.hi) == _everything(key):
            return None
        return value.value, value.hi
    return None if value.mask == 0 else (value.value, value.mask)


def _entry_action(
    body: Body, entry: ast.TableEntry, shape: Shape, action_data: ActionData
) -> tuple[int, tuple[int, ...]]:
    target = body.checked.refs.get(id(entry.action))
    info = body.checked.calls.get(id(entry.action))
    args = () if info is None else info.args
    for index, action in enumerate(shape.actions):
        if action.inst.decl is target:
            return index, action_data(body, action, args, entry)
    raise problem(f"action {entry.action.name} is not in the table's list", entry.action.span)
