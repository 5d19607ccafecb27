"""The types of P4_16 as the checker sees them (specification chapter 7).

All are frozen and compare by structure, except that named types compare by declaration.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from sglb.p4 import ast


@dataclass(frozen=True, slots=True)
class Type:
    """Base of every type."""


@dataclass(frozen=True, slots=True)
class BoolT(Type):
    """`bool`."""

    def __str__(self) -> str:
        return "bool"


@dataclass(frozen=True, slots=True)
class IntT(Type):
    """Arbitrary-precision `int`: compile-time only."""

    def __str__(self) -> str:
        return "int"


@dataclass(frozen=True, slots=True)
class BitsT(Type):
    """`bit<width>`, or `int<width>` when `signed`."""

    width: int
    signed: bool = False

    def __str__(self) -> str:
        return f"{'int' if self.signed else 'bit'}<{self.width}>"


@dataclass(frozen=True, slots=True)
class VarbitT(Type):
    """`varbit<width>`: at most `width` bits."""

    width: int

    def __str__(self) -> str:
        return f"varbit<{self.width}>"


@dataclass(frozen=True, slots=True)
class StringT(Type):
    """`string`: compile-time only."""

    def __str__(self) -> str:
        return "string"


@dataclass(frozen=True, slots=True)
class VoidT(Type):
    """`void`."""

    def __str__(self) -> str:
        return "void"


@dataclass(frozen=True, slots=True)
class ErrorT(Type):
    """`error`; values are indices into `Checked.errors`."""

    def __str__(self) -> str:
        return "error"


@dataclass(frozen=True, slots=True)
class MatchKindT(Type):
    """`match_kind`."""

    def __str__(self) -> str:
        return "match_kind"


@dataclass(frozen=True, slots=True)
class FieldT:
    """A field of a struct, header or union; `annotations` as in the source."""

    name: str
    type: Type
    annotations: tuple[ast.Annotation, ...] = field(default=(), compare=False)


@dataclass(frozen=True, slots=True)
class StructT(Type):
    """A struct, header or header union (`kind`), with type arguments already substituted.

    `decl` is None for the anonymous type of a struct expression.
    """

    name: str
    kind: str
    fields: tuple[FieldT, ...]
    args: tuple[Type, ...] = ()
    decl: ast.StructDecl | None = field(default=None, compare=False, repr=False)

    def __hash__(self) -> int:
        # Not the fields: types key the caches of their layout, and headers structs are large.
        return hash((self.name, self.kind, len(self.fields)))

    def __str__(self) -> str:
        return self.name + (f"<{', '.join(map(str, self.args))}>" if self.args else "")


@dataclass(frozen=True, slots=True)
class StackT(Type):
    """A header stack, or an array of any other element type: `element[size]`."""

    element: Type
    size: int

    def __str__(self) -> str:
        return f"{self.element}[{self.size}]"


@dataclass(frozen=True, slots=True)
class TupleT(Type):
    """`tuple<items>`; also the type of a list expression."""

    items: tuple[Type, ...]

    def __str__(self) -> str:
        return f"tuple<{', '.join(map(str, self.items))}>"


@dataclass(frozen=True, slots=True)
class ListT(Type):
    """`list<item>`: compile-time only."""

    item: Type

    def __str__(self) -> str:
        return f"list<{self.item}>"


@dataclass(frozen=True, slots=True)
class EnumT(Type):
    """An enum without values; a value is the member's index."""

    name: str
    members: tuple[str, ...]

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class SerEnumT(Type):
    """A serializable enum: `values[i]` belongs to `members[i]`; a value is the underlying bits."""

    name: str
    underlying: BitsT
    members: tuple[str, ...]
    values: tuple[int, ...]

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class NewT(Type):
    """`type underlying name;`."""

    name: str
    underlying: Type
    decl: ast.TypedefDecl | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class TypeVarT(Type):
    """A type parameter in scope."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class SetT(Type):
    """`set<element>`: key sets, masks, ranges, value sets."""

    element: Type

    def __str__(self) -> str:
        return f"set<{self.element}>"


@dataclass(frozen=True, slots=True)
class ExternT(Type):
    """An extern type with type arguments (`register<bit<32>, bit<32>>`)."""

    name: str
    args: tuple[Type, ...] = ()
    decl: ast.ExternDecl | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        return self.name + (f"<{', '.join(map(str, self.args))}>" if self.args else "")


@dataclass(frozen=True, slots=True)
class ParserT(Type):
    """A parser or parser type."""

    name: str
    args: tuple[Type, ...] = ()
    decl: ast.ParserDecl | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class ControlT(Type):
    """A control or control type."""

    name: str
    args: tuple[Type, ...] = ()
    decl: ast.ControlDecl | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class PackageT(Type):
    """A package."""

    name: str
    args: tuple[Type, ...] = ()
    decl: ast.PackageDecl | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class TableT(Type):
    """A table, as the base of `.apply()`."""

    name: str
    decl: ast.TableDecl = field(compare=False, repr=False)

    def __str__(self) -> str:
        return f"table {self.name}"


@dataclass(frozen=True, slots=True)
class ApplyResultT(Type):
    """What `table.apply()` returns: `hit`, `miss`, `action_run`."""

    table: str
    decl: ast.TableDecl = field(compare=False, repr=False)

    def __str__(self) -> str:
        return f"apply_result({self.table})"


@dataclass(frozen=True, slots=True)
class ActionRunT(Type):
    """The type of `action_run`: the names of the table's actions."""

    table: str
    decl: ast.TableDecl = field(compare=False, repr=False)

    def __str__(self) -> str:
        return f"action_list({self.table})"


@dataclass(frozen=True, slots=True)
class CallableT(Type):
    """A function, method, action or constructor, named but not called."""

    name: str

    def __str__(self) -> str:
        return f"callable {self.name}"


@dataclass(frozen=True, slots=True)
class InvalidT(Type):
    """The type of `{#}` before it meets a header type."""

    def __str__(self) -> str:
        return "{#}"


@dataclass(frozen=True, slots=True)
class DontCareT(Type):
    """The type of `_`, `default` and `...` before it meets one."""

    def __str__(self) -> str:
        return "_"
