"""What the checker hands to the lowering pass: the syntax tree with side tables keyed by `id(node)`."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from sglb.p4 import ast
from sglb.p4.sourcemap import P4Warning
from sglb.p4.types import Type

#: A compile-time value: int for int/bit/int<W>/serializable enums, errors (index) and enum members
#: (index); bool; str; a tuple for lists, tuples and struct expressions (fields in declared order).
Const = int | bool | str | tuple["Const", ...]


class CallKind(Enum):
    """What a call calls."""

    FUNCTION = "function"  # a P4 function with a body
    EXTERN_FUNCTION = "extern function"
    METHOD = "method"  # of an extern instance, packet_in and packet_out included
    ACTION = "action"  # called directly
    TABLE_APPLY = "table apply"
    CONTROL_APPLY = "control apply"  # of an instance, or of a type (`direct`)
    PARSER_APPLY = "parser apply"
    BUILTIN = "builtin"  # isValid setValid setInvalid push_front pop_front minSizeInBits …
    CONSTRUCTOR = "constructor"  # an instance without a name, as a package or call argument


@dataclass(frozen=True, slots=True)
class BoundArg:
    """One parameter and the argument it gets.

    `arg` is None where the parameter takes its default, or is optional and absent; `type` is the
    parameter's type after substitution.
    """

    param: ast.Param
    type: Type
    arg: ast.Argument | None


@dataclass(frozen=True, slots=True)
class CallInfo:
    """A resolved call: `target` is the declaration called (None for builtins).

    `receiver` is the expression before `.method` (an instance, header, stack or table), None for
    functions, actions and direct application. `type_args` are given or inferred, in the order of the
    target's type parameters. `args` stand in parameter order; for builtins they are empty and the
    arguments are the call's own.
    """

    kind: CallKind
    name: str
    target: ast.Decl | None
    receiver: ast.Expr | None
    type_args: tuple[Type, ...]
    args: tuple[BoundArg, ...]
    result: Type
    direct: bool = False


@dataclass(slots=True)
class Checked:
    """A program without type errors.

    Types recorded inside a generic function or control may hold `TypeVarT`; whoever walks an
    instantiation substitutes them.
    """

    program: ast.SourceProgram
    #: id(Expr) -> its own type.
    types: dict[int, Type] = field(default_factory=dict)
    #: id(Expr) -> the type it is implicitly converted to, where that differs from its own
    #: (int -> bit<W>, serializable enum -> bits, list -> struct/header/tuple, `{#}`, `...`).
    coercions: dict[int, Type] = field(default_factory=dict)
    #: id(Expr) -> its compile-time value, in its own type. Absent where not known before constructor
    #: arguments are.
    consts: dict[int, Const] = field(default_factory=dict)
    #: id(Name | NamedType | ActionRef | Member naming a type member) -> what it names. A parameter is
    #: an `ast.Param`, a variable an `ast.VarDecl`; a for-in variable the `ast.ForIn`.
    refs: dict[int, ast.Node] = field(default_factory=dict)
    #: id(TypeRef) -> the type it denotes.
    typerefs: dict[int, Type] = field(default_factory=dict)
    #: id(Call) -> how it resolved. Also id(Instance) -> its constructor call, and id(ActionRef) -> the
    #: arguments it binds (only the bound parameters for one in a table's `actions`; all in an entry).
    calls: dict[int, CallInfo] = field(default_factory=dict)
    #: Every error constant, core.p4's first.
    errors: tuple[str, ...] = ()
    #: The package instance `main`, None for a library without one.
    main: ast.Instance | None = None
    #: Shared with the SourceMap: the parser's warnings first.
    warnings: list[P4Warning] = field(default_factory=list)
