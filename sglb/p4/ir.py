"""Typed intermediate representation of a v1model program: flat, explicit, without names to resolve.

Design. A P4 program has no recursion and no heap, so all its storage is laid out before the first
packet: every scalar that a packet can touch is a numbered *slot* of one frame of unsigned integers.
A header is its validity slot followed by its fields' slots, a struct the concatenation of its members,
a stack its `next` index slot followed by its elements at equal stride. Generics, constructor arguments
and instances are gone: each control, parser and action instance is a `Proc` with slots of its own, and
copy-in/copy-out stands as plain assignments around a `Call`. Expressions have no side effects: calls
inside them were hoisted, left to right, into temporaries; short-circuit operands that call became `If`s.
So the interpreter walks it with a list of ints, and native code maps a slot of width W to iW.

Values. bit<W> and int<W> are W-bit patterns, always held as the *unsigned* int below 2**W; an
operation says whether it reads them as signed. bool is 0 or 1. error, enum are indices, serializable
enums their bits. varbit<N> takes two slots: the bits (right-aligned, N wide), then the current length
in bits (32 wide). A slot that nothing wrote holds 0: that is how undefined reads give zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from sglb.p4.ir_values import (
    Array as Array,
)
from sglb.p4.ir_values import (
    Binary as Binary,
)
from sglb.p4.ir_values import (
    BinOp as BinOp,
)
from sglb.p4.ir_values import (
    Const as Const,
)
from sglb.p4.ir_values import (
    ElementRef as ElementRef,
)
from sglb.p4.ir_values import (
    Expr as Expr,
)
from sglb.p4.ir_values import (
    Extend as Extend,
)
from sglb.p4.ir_values import (
    Header as Header,
)
from sglb.p4.ir_values import (
    HeaderAt as HeaderAt,
)
from sglb.p4.ir_values import (
    HeaderField as HeaderField,
)
from sglb.p4.ir_values import (
    HeaderIn as HeaderIn,
)
from sglb.p4.ir_values import (
    HeaderRef as HeaderRef,
)
from sglb.p4.ir_values import (
    Load as Load,
)
from sglb.p4.ir_values import (
    LoadElement as LoadElement,
)
from sglb.p4.ir_values import (
    LValue as LValue,
)
from sglb.p4.ir_values import (
    Mux as Mux,
)
from sglb.p4.ir_values import (
    PacketLength as PacketLength,
)
from sglb.p4.ir_values import (
    Slice as Slice,
)
from sglb.p4.ir_values import (
    Slot as Slot,
)
from sglb.p4.ir_values import (
    SlotRef as SlotRef,
)
from sglb.p4.ir_values import (
    Unary as Unary,
)
from sglb.p4.ir_values import (
    UnOp as UnOp,
)
from sglb.p4.source import BUILTIN, Span

# --- statements -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Stmt:
    """Base; `span` is where it stands in the source."""

    span: Span = field(default=BUILTIN, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Assign(Stmt):
    """`target = value`, equal widths. A write to a slice is a read, mask and write of the whole."""

    target: LValue
    value: Expr


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy(Stmt):
    """Slots [source, source + count) to [target, target + count): whole structs, headers, stacks."""

    target: int
    source: int
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyElement(Stmt):
    """A whole element of an array at a run-time index, read (`load`) into or written from `slot`.

    Out of range: a load gives zeros, a store nothing. `count` slots, at `offset` in the element.
    """

    array: int
    index: Expr
    offset: int
    slot: int
    count: int
    load: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Zero(Stmt):
    """Slots [target, target + count) become 0 (headers among them invalid)."""

    target: int
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class If(Stmt):
    """Two-way branch."""

    cond: Expr
    then: tuple[Stmt, ...]
    other: tuple[Stmt, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Switch(Stmt):
    """First case whose values hold the subject; `default` otherwise. No fall-through is left."""

    subject: Expr
    cases: tuple[tuple[tuple[int, ...], tuple[Stmt, ...]], ...]
    default: tuple[Stmt, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop(Stmt):
    """`while (cond) { body; update }`: a `Continue` in the body goes to `update`.

    `cond_setup` runs before each test (hoisted calls).
    """

    cond_setup: tuple[Stmt, ...]
    cond: Expr
    body: tuple[Stmt, ...]
    update: tuple[Stmt, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Break(Stmt):
    """Leaves the innermost loop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Continue(Stmt):
    """Next round of the innermost loop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Return(Stmt):
    """Ends the procedure (its value, if any, is already in the procedure's result slots)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exit(Stmt):
    """Ends the whole block (ingress, egress …); every `Call` on the way still runs its copy_out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call(Stmt):
    """Runs a procedure; arguments were assigned before. `copy_out` runs on return and on exit.

    For a parser procedure a reject inside it rejects the caller too (after copy_out).
    """

    proc: int
    copy_out: tuple[Stmt, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Apply(Stmt):
    """Applies a table; the slots, where given, get hit (0/1) and the index of the action that ran.

    The action index is into `Table.actions`.
    """

    table: int
    hit: int | None = None
    action_run: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SetValid(Stmt):
    """Makes a header valid; one that was invalid gets zero fields."""

    header: HeaderRef


@dataclass(frozen=True, slots=True, kw_only=True)
class SetInvalid(Stmt):
    """Makes a header invalid."""

    header: HeaderRef


@dataclass(frozen=True, slots=True, kw_only=True)
class Push(Stmt):
    """`stack.push_front(count)`; negative `count` is `pop_front(-count)`."""

    array: int
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Extract(Stmt):
    """`packet.extract(header)`; `var_bits` is the second argument; header None skips `width` bits (`_`).

    Errors, in BMv2's order: PacketTooShort before HeaderTooShort; ParserInvalidArgument when var_bits
    is no multiple of 8.
    """

    header: HeaderRef | None
    width: int = 0
    var_bits: Expr | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractNext(Stmt):
    """`packet.extract(stack.next)`; StackOutOfBounds when full."""

    array: int
    var_bits: Expr | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StackLast(Stmt):
    """Raises StackOutOfBounds in a parser when `stack.last` does not exist.

    Precedes any read through `.last`, whose index is then `next - 1`.
    """

    array: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Advance(Stmt):
    """`packet.advance(bits)`."""

    bits: Expr


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookahead(Stmt):
    """The next `width` bits of the packet into slot `target`; PacketTooShort if there are fewer."""

    target: int
    width: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Verify(Stmt):
    """`verify(cond, error)`: in a parser, sets the error and rejects when `cond` is false."""

    cond: Expr
    error: Expr


@dataclass(frozen=True, slots=True, kw_only=True)
class Emit(Stmt):
    """`packet.emit(header)`: appended if valid."""

    header: int


@dataclass(frozen=True, slots=True)
class DataField:
    """One piece of a field list: `value` of `width` bits; `length` is set for a varbit (bits in use).

    `valid` is the validity slot of the header that a field was named in, set in the lists of checksums
    and of selector keys only: there BMv2 leaves out the fields of an invalid header (in `hash` lists
    they count as zeros). `signed` only matters where the field is shown (log_msg).
    """

    value: Expr
    width: int
    length: Expr | None = None
    signed: bool = False
    valid: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Extern(Stmt):
    """A call of an architecture extern.

    `op`: the function's or `type.method`'s name — register.read, register.write, counter.count,
    direct_counter.count, meter.execute_meter, direct_meter.read, hash, random, digest, mark_to_drop,
    clone, clone3, clone_preserving_field_list, resubmit, resubmit_preserving_field_list, recirculate,
    recirculate_preserving_field_list, truncate, verify_checksum, verify_checksum_with_payload,
    update_checksum, update_checksum_with_payload, Checksum16.get, assert, assume, log_msg.
    `instance` indexes `Program.instances` where the op has one (a digest's is its DIGEST instance).
    `ins` are the plain inputs in parameter order, `outs` the results in order (a struct register has
    one per leaf; so have its writes in `ins`, after the index), `data` the field list where the op
    takes one, `text` the format of log_msg. Not among `ins` are what the other fields hold: the
    HashAlgorithm, whose member's name is `algorithm`, and the field list index, `number`. So `ins` is
    (base, max) for hash, (lo, hi) for random, (index,) for counters and meters, (type, session) for
    the three clones (type 0 is I2E), (condition, checksum) for verify_checksum, where the condition
    includes the validity of the header that holds the checksum, and (condition,) for update_checksum.
    `outs` of mark_to_drop are the egress_spec and mcast_grp it writes (511 and 0), which need not be the
    real ones: a program may call it on a copy of standard_metadata.
    direct_counter.count and direct_meter.read do nothing by themselves: the table's apply counts, and
    leaves the colour in `Table.meter_result`. For old-style clone3/resubmit/recirculate(data), `data`
    holds what is preserved and `preserved` the slots it came from.
    """

    op: str
    instance: int | None = None
    ins: tuple[Expr, ...] = ()
    outs: tuple[LValue, ...] = ()
    data: tuple[DataField, ...] = ()
    text: str = ""
    algorithm: str = ""
    number: int = 0
    preserved: tuple[int, ...] = ()


# --- procedures -----------------------------------------------------------------------------------

ACCEPT: Final = -1
REJECT: Final = -2


@dataclass(frozen=True, slots=True)
class MatchAny:
    """`_` or `default`."""


@dataclass(frozen=True, slots=True)
class MatchMask:
    """`value &&& mask`; equality has an all-ones mask."""

    value: Expr
    mask: Expr


@dataclass(frozen=True, slots=True)
class MatchRange:
    """`lo .. hi`, both ends included; `signed` compares as int<W>."""

    lo: Expr
    hi: Expr
    signed: bool = False


@dataclass(frozen=True, slots=True)
class MatchSet:
    """The value set `index`; it stands alone and takes all the select's operands."""

    index: int


KeySet = MatchAny | MatchMask | MatchRange | MatchSet


@dataclass(frozen=True, slots=True)
class SelectCase:
    """Goes to `state` when every key set holds its operand."""

    keys: tuple[KeySet, ...]
    state: int


@dataclass(frozen=True, slots=True)
class Select:
    """Cases in order; no match rejects (BMv2 leaves parser_error at NoError then)."""

    operands: tuple[Expr, ...]
    cases: tuple[SelectCase, ...]


@dataclass(frozen=True, slots=True)
class State:
    """A parser state: statements, then where to go (a state index, ACCEPT, REJECT or a Select)."""

    name: str
    body: tuple[Stmt, ...]
    next: int | Select
    span: Span = BUILTIN


@dataclass(frozen=True, slots=True)
class Proc:
    """A control's apply body, an action or a function (`body`), or a parser (`states`, 0 is start).

    `kind` is "control", "action", "function" or "parser". A parser's `body` runs once before its start
    state: it resets out parameters and initialises the parser's variables.
    """

    name: str
    kind: str
    body: tuple[Stmt, ...] = ()
    states: tuple[State, ...] = ()
    span: Span = BUILTIN


# --- tables and instances -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Key:
    """A table key: `kind` exact, lpm, ternary, range or optional."""

    name: str
    expr: Expr
    width: int
    kind: str
    signed: bool = False


@dataclass(frozen=True, slots=True)
class TableAction:
    """An action as one table may run it.

    `params` are the slots that action data fills, in order, with their widths. `setup` assigns the
    arguments bound in the program, `copy_out` their results.
    """

    name: str
    proc: int
    params: tuple[tuple[int, int], ...] = ()
    setup: tuple[Stmt, ...] = ()
    copy_out: tuple[Stmt, ...] = ()
    p4info_id: int = 0
    table_only: bool = False
    default_only: bool = False


@dataclass(frozen=True, slots=True)
class EntryKey:
    """One key of an entry: exact (value), ternary/optional (value, mask), lpm (mask), range (lo, hi).

    Exact keys have an all-ones mask; a range has `hi`, and mask 0.
    """

    value: int
    mask: int
    hi: int | None = None


@dataclass(frozen=True, slots=True)
class ConstEntry:
    """An entry that the program states; the larger `priority` wins, 0 where none is due."""

    keys: tuple[EntryKey, ...]
    action: int
    args: tuple[int, ...]
    priority: int
    is_const: bool


@dataclass(frozen=True, slots=True)
class Table:
    """A match-action table instance.

    `default_action` indexes `actions` (NoAction is among them when none is named). `implementation`,
    `direct_counter`, `direct_meter` index `Program.instances`. `meter_result` is where a direct meter
    leaves its colour. `selector` are the selector key's fields.
    """

    name: str
    keys: tuple[Key, ...]
    actions: tuple[TableAction, ...]
    default_action: int
    default_args: tuple[int, ...]
    const_default: bool
    size: int
    entries: tuple[ConstEntry, ...] = ()
    entries_const: bool = False
    implementation: int | None = None
    selector: tuple[DataField, ...] = ()
    direct_counter: int | None = None
    direct_meter: int | None = None
    meter_result: LValue | None = None
    support_timeout: bool = False
    p4info_id: int = 0
    span: Span = BUILTIN


class InstanceKind(Enum):
    """Externs with state."""

    REGISTER = "register"
    COUNTER = "counter"
    DIRECT_COUNTER = "direct_counter"
    METER = "meter"
    DIRECT_METER = "direct_meter"
    ACTION_PROFILE = "action_profile"
    ACTION_SELECTOR = "action_selector"
    DIGEST = "digest"
    CHECKSUM16 = "Checksum16"


@dataclass(frozen=True, slots=True)
class Instance:
    """An extern instance.

    `size`: elements. `elements`: widths of a register element's leaves (one for a scalar).
    `counts`: "packets", "bytes" or "both" of counters and meters. `algorithm`, `output_width`: of a
    selector. `initial`: a register's initial value, if the program states one.
    """

    kind: InstanceKind
    name: str
    size: int = 0
    elements: tuple[int, ...] = ()
    counts: str = ""
    algorithm: str = ""
    output_width: int = 0
    initial: int = 0
    p4info_id: int = 0


@dataclass(frozen=True, slots=True)
class ValueSet:
    """A parser value set: a member is one (value, mask) or range per leaf, of these widths and kinds."""

    name: str
    widths: tuple[int, ...]
    kinds: tuple[str, ...]
    size: int
    p4info_id: int = 0


@dataclass(frozen=True, slots=True)
class Program:
    """A whole v1model program, ready to run.

    `parser`, `verify_checksum`, `ingress`, `egress`, `compute_checksum`, `deparser` index `procs`; the
    six share the header, metadata and standard_metadata slots, so nothing is copied between them.
    `standard_metadata` maps field names to slots. `metadata` is the (first slot, count) of the user's
    metadata. `field_lists[i]` are the slots tagged @field_list(i). `headers_out` (first slot, count) is
    the user's headers struct. `controller_headers` are described in P4Info.
    """

    slots: tuple[Slot, ...]
    headers: tuple[Header, ...]
    arrays: tuple[Array, ...]
    procs: tuple[Proc, ...]
    tables: tuple[Table, ...]
    instances: tuple[Instance, ...]
    value_sets: tuple[ValueSet, ...]
    parser: int
    verify_checksum: int
    ingress: int
    egress: int
    compute_checksum: int
    deparser: int
    standard_metadata: Mapping[str, int]
    metadata: tuple[int, int]
    headers_out: tuple[int, int]
    field_lists: Mapping[int, tuple[int, ...]]
    errors: tuple[str, ...]
