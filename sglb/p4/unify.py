"""Substitution of type parameters and inference of type arguments by unification.

Inference variables are `TypeVarT` whose name holds a `#`, which no program can write. A variable
bound to the arbitrary-precision `int` is bound weakly: a later fixed-width type replaces it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from sglb.p4.types import (
    ControlT,
    DontCareT,
    ExternT,
    FieldT,
    IntT,
    InvalidT,
    ListT,
    NewT,
    PackageT,
    ParserT,
    SerEnumT,
    SetT,
    StackT,
    StructT,
    TupleT,
    Type,
    TypeVarT,
)

_NAMED = (ExternT, ParserT, ControlT, PackageT)

#: Gives the apply parameters of a parser or control type: (direction, type) each, None if not one.
BlockParams = Callable[[Type], tuple[tuple[str, Type], ...] | None]


def substitute(t: Type, mapping: Mapping[str, Type]) -> Type:
    """`t` with the type parameters named in `mapping` replaced, all at once."""
    if not mapping:
        return t
    match t:
        case TypeVarT(name=name):
            return mapping.get(name, t)
        case StructT():
            if not t.args and t.decl is not None:
                return t
            return replace(
                t,
                fields=tuple(
                    FieldT(f.name, substitute(f.type, mapping), f.annotations) for f in t.fields
                ),
                args=_all(t.args, mapping),
            )
        case ExternT() | ParserT() | ControlT() | PackageT():
            return replace(t, args=_all(t.args, mapping)) if t.args else t
        case StackT():
            return replace(t, element=substitute(t.element, mapping))
        case TupleT():
            return TupleT(_all(t.items, mapping))
        case ListT():
            return ListT(substitute(t.item, mapping))
        case SetT():
            return SetT(substitute(t.element, mapping))
        case NewT():
            return t
    return t


def _all(types: Iterable[Type], mapping: Mapping[str, Type]) -> tuple[Type, ...]:
    return tuple(substitute(t, mapping) for t in types)


def bare(t: Type) -> Type:
    """`t` without the layers of `type` declarations."""
    while isinstance(t, NewT):
        t = t.underlying
    return t


def has_vars(t: Type) -> bool:
    """Whether `t` mentions an inference variable."""
    match t:
        case TypeVarT(name=name):
            return "#" in name
        case StructT():
            return any(map(has_vars, t.args)) or (
                t.decl is None and any(has_vars(f.type) for f in t.fields)
            )
        case ExternT() | ParserT() | ControlT() | PackageT():
            return any(map(has_vars, t.args))
        case StackT():
            return has_vars(t.element)
        case TupleT():
            return any(map(has_vars, t.items))
        case ListT():
            return has_vars(t.item)
        case SetT():
            return has_vars(t.element)
    return False


def matches(want: Type, got: Type) -> bool:
    """Whether two types are equal, `_` standing for anything."""
    if want == got or isinstance(want, DontCareT) or isinstance(got, DontCareT):
        return True
    match want, got:
        case (
            (StructT(), StructT())
            | (ExternT(), ExternT())
            | (PackageT(), PackageT())
            | (ParserT(), ParserT())
            | (ControlT(), ControlT())
        ):
            a: tuple[Type, ...] = getattr(want, "args", ())
            b: tuple[Type, ...] = getattr(got, "args", ())
            same = getattr(want, "name", "") == getattr(got, "name", "") and len(a) == len(b)
            return same and len(a) > 0 and all(map(matches, a, b))
        case TupleT(items=a), TupleT(items=b):
            return len(a) == len(b) and all(map(matches, a, b))
        case StackT(), StackT():
            return want.size == got.size and matches(want.element, got.element)
    return False


@dataclass(slots=True)
class Unifier:
    """One inference problem."""

    block_params: BlockParams
    bound: dict[str, Type] = field(default_factory=dict)
    #: The innermost pair that did not agree, for the message.
    clash: tuple[Type, Type] | None = None

    def resolve(self, t: Type) -> Type:
        """`t` with everything known so far put in."""
        seen = 0
        while has_vars(t) and seen < 64:
            new = substitute(t, self.bound)
            if new == t:
                break
            t = new
            seen += 1
        return t

    def unify(self, want: Type, got: Type) -> bool:
        """Make `want` (with variables) and `got` agree; False if they cannot.

        Differences that an implicit conversion bridges (int to fixed width, a list to a struct) are
        accepted here and judged once the types are known.
        """
        want, got = self._shallow(want), self._shallow(got)
        if isinstance(want, TypeVarT) and "#" in want.name:
            return self._bind(want.name, got)
        if isinstance(got, TypeVarT) and "#" in got.name:
            return self._bind(got.name, want)
        if not has_vars(want) and not has_vars(got):
            return self._agree(want, got)
        return self._parts(want, got) or self._clash(want, got)

    def _shallow(self, t: Type) -> Type:
        while isinstance(t, TypeVarT) and t.name in self.bound:
            new = self.bound[t.name]
            if isinstance(new, IntT):
                break  # weak: may still be replaced
            t = new
        return t

    def _bind(self, name: str, t: Type) -> bool:
        if isinstance(t, TypeVarT) and t.name == name:
            return True
        if isinstance(t, DontCareT | InvalidT):
            return True
        if name in self.bound and isinstance(t, IntT):
            return True
        if self._occurs(name, t):
            return self._clash(TypeVarT(name), t)
        self.bound[name] = t
        return True

    def _occurs(self, name: str, t: Type) -> bool:
        probe = substitute(self.resolve(t), {name: DontCareT()})
        return probe != self.resolve(t)

    def _clash(self, want: Type, got: Type) -> bool:
        if self.clash is None:
            self.clash = (self.resolve(want), self.resolve(got))
        return False

    def _agree(self, want: Type, got: Type) -> bool:
        """Whether two closed types are equal, or may be made so by a conversion."""
        if want == got or isinstance(got, IntT | DontCareT | InvalidT):
            return True
        if isinstance(want, DontCareT | IntT):
            return True
        if isinstance(got, SerEnumT):
            return True  # may convert to its underlying type; judged later
        if isinstance(got, TupleT) or (isinstance(got, StructT) and got.decl is None):
            return True
        if isinstance(want, ParserT | ControlT) and isinstance(got, ParserT | ControlT):
            return self._blocks(want, got)
        return self._clash(want, got)

    def _parts(self, want: Type, got: Type) -> bool:
        match want, got:
            case _, (IntT() | DontCareT() | InvalidT()):
                return True
            case (ParserT(), ParserT()) | (ControlT(), ControlT()):
                return self._blocks(want, got)
            case ExternT(), ExternT():
                return want.name == got.name and self._each(want.args, got.args)
            case PackageT(), PackageT():
                return want.name == got.name and self._each(want.args, got.args)
            case StructT(), StructT() if got.decl is not None and want.decl is not None:
                return want.name == got.name and self._each(want.args, got.args)
            case StructT(), StructT():
                return self._by_name(want, got)
            case StructT(), TupleT(items=items):
                return self._each([f.type for f in want.fields], items, short=True)
            case TupleT(), TupleT():
                return self._each(want.items, got.items)
        return self._elements(want, got)

    def _elements(self, want: Type, got: Type) -> bool:
        """`_parts` for types that repeat one element type."""
        match want, got:
            case ListT(), ListT():
                return self.unify(want.item, got.item)
            case StackT(), StackT():
                return want.size == got.size and self.unify(want.element, got.element)
            case SetT(), SetT():
                return self.unify(want.element, got.element)
            case ListT(item=element) | StackT(element=element), TupleT(items=items):
                return all(self.unify(element, t) for t in items)
        return False

    def _by_name(self, want: StructT, got: StructT) -> bool:
        have = {f.name: f.type for f in got.fields}
        return all(self.unify(f.type, have[f.name]) for f in want.fields if f.name in have)

    def _each(self, want: Iterable[Type], got: Iterable[Type], *, short: bool = False) -> bool:
        a, b = list(want), list(got)
        if len(a) != len(b) and not short:
            return False
        return all(self.unify(x, y) for x, y in zip(a, b, strict=False))

    def _blocks(self, want: Type, got: Type) -> bool:
        """Parser and control types agree by their apply parameters."""
        if isinstance(want, ParserT) is not isinstance(got, ParserT):
            return self._clash(want, got)
        a, b = self.block_params(want), self.block_params(got)
        if a is None or b is None or len(a) != len(b):
            return self._clash(want, got)
        for (want_dir, want_t), (got_dir, got_t) in zip(a, b, strict=True):
            if want_dir != got_dir or not self.unify(want_t, got_t):
                return self._clash(want, got)
            known = self.resolve(want_t)
            if not has_vars(known) and not matches(known, self.resolve(got_t)):
                return self._clash(want_t, got_t)
        return True


def is_block(t: Type) -> bool:
    """Whether `t` is a parser, control, package or extern type: objects, not values."""
    return isinstance(t, _NAMED)
