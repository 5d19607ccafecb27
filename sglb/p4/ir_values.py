"""Storage, expressions and l-values of the IR; `sglb.p4.ir` tells what they mean and exports them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

# --- storage --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Slot:
    """One scalar of the frame: its dotted P4 name (for traces), width in bits, sign.

    `labels` names values of errors and enums.
    """

    name: str
    width: int
    signed: bool = False
    is_bool: bool = False
    labels: Mapping[int, str] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class HeaderField:
    """A header's field at frame offset `slot`; for a varbit, `slot + 1` holds its length."""

    name: str
    slot: int
    width: int
    varbit: bool = False


@dataclass(frozen=True, slots=True)
class Header:
    """A header variable: validity at slot `valid`, its fields after it, in order, contiguous.

    `width` is the sum of the fixed fields in bits, `size` the number of slots, validity included.
    """

    name: str
    valid: int
    fields: tuple[HeaderField, ...]
    width: int
    size: int


@dataclass(frozen=True, slots=True)
class Array:
    """A stack or array: element i starts at `base + i * stride`.

    `next` is the slot of a header stack's nextIndex (None for arrays of other types). `headers` are
    the indices into `Program.headers` of the elements (for a stack of headers).
    """

    name: str
    base: int
    stride: int
    size: int
    next: int | None = None
    headers: tuple[int, ...] = ()


# --- expressions (pure) ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Expr:
    """Base: a value of `width` bits (bool has width 1)."""

    width: int


@dataclass(frozen=True, slots=True)
class Const(Expr):
    """A known value, 0 <= value < 2**width."""

    value: int


@dataclass(frozen=True, slots=True)
class Load(Expr):
    """The slot's value."""

    slot: int


@dataclass(frozen=True, slots=True)
class LoadElement(Expr):
    """Slot `offset` of element `index` of an array; 0 when the index is out of range."""

    array: int
    offset: int
    index: Expr


class BinOp(Enum):
    """Binary operators; both operands have the result's width except where noted.

    Signed variants read the patterns as two's complement. Comparisons give width 1. Shifts: the right
    operand is an unsigned amount of any width; amounts >= width give 0 (or the sign fill for SAR).
    CONCAT: widths add up. DIV and MOD appear only in compile-time folding and never reach the IR.
    """

    ADD = "+"
    SUB = "-"
    MUL = "*"
    AND = "&"
    OR = "|"
    XOR = "^"
    SHL = "<<"
    SHR = ">>"
    SAR = ">>s"
    ADD_SAT = "|+|"
    SUB_SAT = "|-|"
    ADD_SAT_S = "|+|s"
    SUB_SAT_S = "|-|s"
    EQ = "=="
    NE = "!="
    LT = "<"
    LE = "<="
    LT_S = "<s"
    LE_S = "<=s"
    LAND = "&&"
    LOR = "||"
    CONCAT = "++"


@dataclass(frozen=True, slots=True)
class Binary(Expr):
    """`left op right`; GT and GE are written with the operands swapped."""

    op: BinOp
    left: Expr
    right: Expr


class UnOp(Enum):
    """Unary operators; NOT is boolean, INV bitwise, NEG two's complement."""

    NOT = "!"
    INV = "~"
    NEG = "-"


@dataclass(frozen=True, slots=True)
class Unary(Expr):
    """`op operand`, of the operand's width."""

    op: UnOp
    operand: Expr


@dataclass(frozen=True, slots=True)
class Slice(Expr):
    """Bits hi..lo of `operand`; width = hi - lo + 1. Truncating casts are slices [W-1:0]."""

    operand: Expr
    hi: int
    lo: int


@dataclass(frozen=True, slots=True)
class Extend(Expr):
    """A widening cast: zero fill, or sign fill when `signed`."""

    operand: Expr
    signed: bool


@dataclass(frozen=True, slots=True)
class Mux(Expr):
    """`cond ? then : other`; both arms are pure, so either may be computed."""

    cond: Expr
    then: Expr
    other: Expr


@dataclass(frozen=True, slots=True)
class PacketLength(Expr):
    """`packet_in.length()`: bytes of the packet being parsed; width 32."""


# --- l-values -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SlotRef:
    """A slot as the target of a write."""

    slot: int
    width: int


@dataclass(frozen=True, slots=True)
class ElementRef:
    """Slot `offset` of element `index`; a write out of range does nothing."""

    array: int
    offset: int
    index: Expr
    width: int


LValue = SlotRef | ElementRef


@dataclass(frozen=True, slots=True)
class HeaderAt:
    """A header known before run time: an index into `Program.headers`."""

    header: int


@dataclass(frozen=True, slots=True)
class HeaderIn:
    """Element `index` of the header stack `array`; out of range: nothing happens."""

    array: int
    index: Expr


HeaderRef = HeaderAt | HeaderIn
