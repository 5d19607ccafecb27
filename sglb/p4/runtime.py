"""The border between an engine that runs the IR and the target that owns the state.

The target (`sglb.switch`) owns tables, registers, counters and meters and implements the protocols
here; an engine only calls them. Times are integer picoseconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Protocol

from sglb.p4.source import Span


class Colour(IntEnum):
    """A meter's answer, as v1model numbers it."""

    GREEN = 0
    YELLOW = 1
    RED = 2


class Match(Protocol):
    """The outcome of a lookup: `action` indexes `ir.Table.actions`, `args` its action data."""

    @property
    def hit(self) -> bool:
        """False when the default action runs."""

    @property
    def action(self) -> int:
        """Index into the table's actions; -1 when a group without live members runs none."""

    @property
    def args(self) -> tuple[int, ...]:
        """Action data in parameter order."""


class TableState(Protocol):
    """One table's entries."""

    def lookup(self, key: tuple[int, ...], selector: bytes, now_ps: int) -> Match:
        """The entry for the key (values in key order), or the default action.

        `selector` is the selector fields packed as bytes (left-aligned, zero bits at the end), empty
        without a selector.
        """

    def count(self, match: Match, length_bytes: int) -> None:
        """Counts a packet on the direct counter of the matched (or default) entry."""

    def meter(self, match: Match, length_bytes: int, now_ps: int) -> Colour:
        """Runs the direct meter of the matched entry."""


class Values(Protocol):
    """A register's elements: `values[i]` is a tuple of leaves for struct elements, else an int."""

    def __len__(self) -> int:
        """How many there are."""

    def __getitem__(self, index: int, /) -> Any:
        """The element."""

    def __setitem__(self, index: int, value: Any, /) -> None:
        """Overwrites the element."""


class RegisterState(Protocol):
    """A register array. Engines read and write `values` directly, after checking the index."""

    @property
    def values(self) -> Values:
        """The live elements."""


class CounterState(Protocol):
    """An indirect counter; an index out of range does nothing."""

    def count(self, index: int, length_bytes: int) -> None:
        """Counts one packet of that length."""


class MeterState(Protocol):
    """An indirect meter."""

    def execute(self, index: int, length_bytes: int, now_ps: int) -> Colour | None:
        """The packet's colour; None when the index is out of range (the result stays unwritten)."""


class ValueSetState(Protocol):
    """A parser value set."""

    def contains(self, values: tuple[int, ...]) -> bool:
        """Whether a member matches the select's operands."""


@dataclass(slots=True)
class PipelineState:
    """Everything a program keeps between packets, aligned with the lists of `ir.Program`.

    `instances[i]` is the state of `Program.instances[i]` (a RegisterState, CounterState or MeterState;
    None for kinds without state an engine touches).
    """

    tables: Sequence[TableState]
    instances: Sequence[RegisterState | CounterState | MeterState | None]
    value_sets: Sequence[ValueSetState]


class Trace(Protocol):
    """What an engine tells about a packet when asked; every call is optional to act on."""

    def enter(self, block: str) -> None:
        """A block begins: parser, ingress, egress, deparser …"""

    def state(self, name: str, span: Span) -> None:
        """A parser state is entered."""

    def extract(self, header: str, fields: dict[str, int], span: Span) -> None:
        """A header was extracted."""

    def error(self, name: str, span: Span) -> None:
        """The parser stops with this error."""

    def table(
        self,
        name: str,
        key: dict[str, int],
        hit: bool,
        action: str,
        args: tuple[int, ...],
        span: Span,
    ) -> None:
        """A table was applied."""

    def assign(self, target: str, value: int, span: Span) -> None:
        """A slot was written."""

    def extern(
        self, op: str, instance: str, ins: tuple[int, ...], outs: tuple[int, ...], span: Span
    ) -> None:
        """An extern was called."""

    def emit(self, header: str, span: Span) -> None:
        """A valid header was emitted."""

    def log(self, message: str, span: Span) -> None:
        """`log_msg` was called, with its fields filled in."""


@dataclass(slots=True)
class Request:
    """Something a pass asked of the target after it: a clone, resubmit or recirculate.

    `session` is the clone session; `slots` are those to preserve (of the field list, or of the data
    of the old forms), whose values the target reads at the end of the block, as BMv2 does.
    """

    session: int = 0
    field_list: int | None = None
    slots: tuple[int, ...] = ()


@dataclass(slots=True)
class PacketContext:
    """One packet on its way through the program.

    `frame` holds the slots; `data` the packet as it entered the parser; `payload_offset` the byte
    behind what the parser consumed. The requests are those of the block that ran last; the target
    clears them between blocks. `digests` are (instance index, values), in order.
    """

    frame: list[int]
    data: bytes
    now_ps: int = 0
    payload_offset: int = 0
    clone: Request | None = None
    clone_egress: Request | None = None
    resubmit: Request | None = None
    recirculate: Request | None = None
    truncate_bytes: int | None = None
    digests: list[tuple[int, tuple[int, ...]]] = field(default_factory=list)
    trace: Trace | None = None


class Engine(Protocol):
    """Runs one program over contexts. `sglb.p4.interp.Interpreter` is the reference."""

    def new_context(self, data: bytes, now_ps: int) -> PacketContext:
        """A context with a zeroed frame."""

    def parse(self, context: PacketContext) -> None:
        """Runs the parser: fills headers, parser_error, `payload_offset`."""

    def verify_checksum(self, context: PacketContext) -> None:
        """Runs VerifyChecksum (sets checksum_error)."""

    def ingress(self, context: PacketContext) -> None:
        """Runs the ingress control."""

    def egress(self, context: PacketContext) -> None:
        """Runs the egress control."""

    def deparse(self, context: PacketContext) -> bytes:
        """Runs ComputeChecksum and the deparser; returns headers and payload (truncate not applied)."""


class ExternFailure(Exception):  # noqa: N818 - the program's doing, not an error of the engine
    """The program stopped a packet itself: a false `assert` or `assume`."""

    def __init__(self, message: str, span: Span) -> None:
        super().__init__(f"{span}: {message}")
        self.span = span
