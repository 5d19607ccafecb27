"""What names stand for while a program is lowered: constants, storage, instances; and their names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from sglb.p4 import ast, ir
from sglb.p4.checked import Const
from sglb.p4.control_plane import CpDigest, CpTable
from sglb.p4.ir_build import const
from sglb.p4.layout import ElementPlace, Place, SlotPlace, is_scalar, scalar_width, strip
from sglb.p4.source import BUILTIN, P4Error, Span
from sglb.p4.types import BoolT, ExternT, IntT, Type


def problem(message: str, span: Span, hint: str = "") -> P4Error:
    """What to raise when the program means something that cannot be run."""
    return P4Error(message, span, hint=hint, phase="lower")


# --- what names are bound to ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Known:
    """A name whose value never changes: a constant, or an argument known at compile time."""

    value: Const
    type: Type


@dataclass(slots=True)
class ExternInst:
    """An extern instance; `index` into `Program.instances`, None for packets.

    `extern` is the extern type's name, `name` the control-plane name.
    """

    extern: str
    index: int | None
    name: str
    type: ExternT
    annotations: tuple[ast.Annotation, ...] = ()
    span: Span = BUILTIN
    #: The tables that a direct counter or meter, or a profile, belongs to.
    tables: list[str] = field(default_factory=list)
    #: Where a direct meter leaves its colour.
    meter_result: ir.LValue | None = None
    #: The size, type, index type and so on that its constructor was given, by parameter name.
    args: dict[str, Const] = field(default_factory=dict)
    has_result_temp: bool = False


@dataclass(slots=True)
class ValueSetInst:
    """A parser value set."""

    index: int
    name: str
    decl: ast.ValueSetDecl
    type: Type
    size: int


@dataclass(slots=True)
class ActionInst:
    """An action of one control instance; `proc` is known once its body was lowered."""

    decl: ast.ActionDecl
    env: Env
    name: str
    proc: int = -1
    params: tuple[SlotPlace, ...] = ()
    called: bool = False
    in_table: bool = False
    digests: list[CpDigest] = field(default_factory=list)


@dataclass(slots=True)
class TableInst:
    """A table of one control instance; `index` is known once it is applied."""

    decl: ast.TableDecl
    env: Env
    name: str
    index: int = -1
    #: Statements that compute keys that are no plain reads; they run before every apply.
    key_setup: tuple[ir.Stmt, ...] = ()
    actions: list[ActionInst] = field(default_factory=list)
    #: What the control plane sees of it.
    shown: CpTable | None = None
    #: An action profile constructed in the table's own properties.
    profile: ExternInst | None = None


#: Sites of an instance that is handed on to other controls.
SHARED: Final = 1 << 30


@dataclass(slots=True)
class BlockInst:
    """An instance of a control or parser.

    `prefix` is the control-plane name of the instance. `sites` counts the places that apply it, or is
    `SHARED` where nobody can count them. `top` marks V1Switch's own blocks.
    """

    decl: ast.ControlDecl | ast.ParserDecl
    prefix: str
    env: Env
    span: Span
    sites: int = 1
    top: bool = False
    proc: int = -1
    params: list[Binding] = field(default_factory=list)
    #: What it declares, in order; instances made by direct application come last.
    members: list[Binding] = field(default_factory=list)
    digests: list[CpDigest] = field(default_factory=list)
    #: Global actions that its body calls, in order.
    called_globals: list[ActionInst] = field(default_factory=list)


Binding = SlotPlace | Known | ExternInst | ValueSetInst | ActionInst | TableInst | BlockInst


@dataclass(slots=True)
class Env:
    """Names in scope, by identity of their declarations; `prefix` names what is declared here."""

    parent: Env | None
    prefix: str
    bindings: dict[int, Binding] = field(default_factory=dict)
    types: dict[str, Type] = field(default_factory=dict)

    def lookup(self, decl: ast.Node) -> Binding | None:
        """What a declaration is bound to here."""
        env: Env | None = self
        while env is not None:
            if id(decl) in env.bindings:
                return env.bindings[id(decl)]
            env = env.parent
        return None

    def type_arg(self, name: str) -> Type | None:
        """The type that a type parameter stands for."""
        env: Env | None = self
        while env is not None:
            if name in env.types:
                return env.types[name]
            env = env.parent
        return None


def qualify(prefix: str, local: str) -> str:
    """A control-plane name; a local part with a leading dot is absolute."""
    if local.startswith("."):
        return local[1:]
    return f"{prefix}.{local}" if prefix else local


def name_annotation(annotations: Sequence[ast.Annotation], default: str) -> str:
    """What `@name` says, else the default."""
    for annotation in annotations:
        if annotation.name == "name" and annotation.tokens:
            return "".join(annotation.tokens)
    return default


# --- values ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Fixed:
    """An l-value whose index has been settled: it may be written later."""

    place: Place


Value = ir.Expr | SlotPlace | ElementPlace | Fixed | Known | ExternInst | None


def scalar_const(value: Const, type_: Type, span: Span) -> ir.Const:
    """A compile-time value as an IR constant of the type; an `int` gets the bits it needs."""
    type_ = strip(type_)
    if isinstance(type_, IntT):
        if not isinstance(value, int) or value < 0:
            raise problem("a negative int has no run-time value", span)
        return const(max(1, value.bit_length()), value)
    if isinstance(type_, BoolT):
        return const(1, 1 if value else 0)
    if isinstance(value, int) and is_scalar(type_):
        return const(scalar_width(type_), value)
    raise problem(f"a value of type {type_} is not a scalar", span)
