"""Builds small IR programs by hand, and states that record what the engine asks of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from sglb.p4 import ir
from sglb.p4.interp import Interpreter
from sglb.p4.random_stream import RandomStream
from sglb.p4.runtime import Colour, PacketContext, PipelineState
from sglb.p4.source import Span

CORE_ERRORS = (
    "NoError",
    "PacketTooShort",
    "NoMatch",
    "StackOutOfBounds",
    "HeaderTooShort",
    "ParserTimeout",
    "ParserInvalidArgument",
)
STANDARD = {
    "ingress_port": 9,
    "egress_spec": 9,
    "mcast_grp": 16,
    "checksum_error": 1,
    "parser_error": 32,
    "packet_length": 32,
}


@dataclass
class FakeMatch:
    hit: bool = False
    action: int = 0
    args: tuple[int, ...] = ()


@dataclass
class FakeTable:
    """Answers with the entry of the whole key, and keeps what it was asked."""

    entries: dict[tuple[int, ...], FakeMatch] = field(default_factory=dict)
    default: FakeMatch = field(default_factory=FakeMatch)
    asked: list[tuple[tuple[int, ...], bytes, int]] = field(default_factory=list)
    counted: list[tuple[bool, int]] = field(default_factory=list)
    colour: Colour = Colour.RED

    def lookup(self, key: tuple[int, ...], selector: bytes, now_ps: int) -> FakeMatch:
        self.asked.append((key, selector, now_ps))
        return self.entries.get(key, self.default)

    def count(self, match: FakeMatch, length_bytes: int) -> None:
        self.counted.append((match.hit, length_bytes))

    def meter(self, match: FakeMatch, length_bytes: int, now_ps: int) -> Colour:
        return self.colour


@dataclass
class FakeRegister:
    values: list


@dataclass
class FakeCounter:
    counts: dict[int, int] = field(default_factory=dict)

    def count(self, index: int, length_bytes: int) -> None:
        self.counts[index] = self.counts.get(index, 0) + length_bytes


@dataclass
class FakeMeter:
    size: int = 4

    def execute(self, index: int, length_bytes: int, now_ps: int) -> Colour | None:
        return Colour.YELLOW if index < self.size else None


@dataclass
class FakeValueSet:
    members: set[tuple[int, ...]]

    def contains(self, values: tuple[int, ...]) -> bool:
        return values in self.members


class Kit:
    """A program in the making: `slot`, `header`, `stack` give what the statements refer to."""

    def __init__(self) -> None:
        self.slots: list[ir.Slot] = [ir.Slot(n, w) for n, w in STANDARD.items()]
        self.headers: list[ir.Header] = []
        self.arrays: list[ir.Array] = []
        self.procs: list[ir.Proc] = []
        self.tables: list[ir.Table] = []
        self.table_states: list[FakeTable] = []
        self.instances: list[ir.Instance] = []
        self.instance_states: list = []
        self.value_sets: list[FakeValueSet] = []
        self.states: tuple[ir.State, ...] = (ir.State("start", (), ir.ACCEPT),)
        self.blocks: dict[str, tuple[ir.Stmt, ...]] = {}
        self.field_lists: dict[int, tuple[int, ...]] = {}
        self.errors = CORE_ERRORS

    def slot(self, name: str, width: int) -> int:
        self.slots.append(ir.Slot(name, width))
        return len(self.slots) - 1

    def standard(self, name: str) -> int:
        return list(STANDARD).index(name)

    def header(self, name: str, *fields: tuple[str, int]) -> ir.Header:
        """Widths below 0 are varbits of that size."""
        valid = self.slot(f"{name}.$valid", 1)
        made = []
        for field_name, width in fields:
            at = self.slot(f"{name}.{field_name}", abs(width))
            made.append(ir.HeaderField(field_name, at, abs(width), width < 0))
            if width < 0:
                self.slot(f"{name}.{field_name}.$length", 32)
        total = sum(w for _, w in fields if w > 0)
        header = ir.Header(name, valid, tuple(made), total, len(self.slots) - valid)
        self.headers.append(header)
        return header

    def stack(self, name: str, size: int, *fields: tuple[str, int]) -> int:
        next_slot = self.slot(f"{name}.$next", 32)
        first = len(self.headers)
        elements = [self.header(f"{name}[{i}]", *fields) for i in range(size)]
        self.arrays.append(
            ir.Array(
                name,
                elements[0].valid,
                elements[0].size,
                size,
                next_slot,
                tuple(range(first, first + size)),
            )
        )
        return len(self.arrays) - 1

    def proc(self, *body: ir.Stmt, kind: str = "control", states: Sequence[ir.State] = ()) -> int:
        self.procs.append(ir.Proc(f"proc{len(self.procs)}", kind, tuple(body), tuple(states)))
        return len(self.procs) - 1

    def table(self, table: ir.Table, state: FakeTable) -> int:
        self.tables.append(table)
        self.table_states.append(state)
        return len(self.tables) - 1

    def instance(self, kind: ir.InstanceKind, state: object, size: int = 0) -> int:
        self.instances.append(ir.Instance(kind, f"inst{len(self.instances)}", size))
        self.instance_states.append(state)
        return len(self.instances) - 1

    def program(self) -> ir.Program:
        procs = list(self.procs)

        def block(name: str) -> int:
            procs.append(ir.Proc(name, "control", self.blocks.get(name, ())))
            return len(procs) - 1

        procs.append(ir.Proc("parser", "parser", (), self.states))
        parser = len(procs) - 1
        return ir.Program(
            slots=tuple(self.slots),
            headers=tuple(self.headers),
            arrays=tuple(self.arrays),
            parser=parser,
            verify_checksum=block("verify_checksum"),
            ingress=block("ingress"),
            egress=block("egress"),
            compute_checksum=block("compute_checksum"),
            deparser=block("deparser"),
            procs=tuple(procs),
            tables=tuple(self.tables),
            instances=tuple(self.instances),
            value_sets=(),
            standard_metadata={n: i for i, n in enumerate(STANDARD)},
            metadata=(0, 0),
            headers_out=(0, 0),
            field_lists=self.field_lists,
            errors=self.errors,
        )

    def engine(self, seed: int = 1) -> Interpreter:
        state = PipelineState(self.table_states, self.instance_states, self.value_sets)
        return Interpreter(self.program(), state, RandomStream(seed))

    def run(self, *ingress: ir.Stmt, data: bytes = b"", traced: bool = False) -> PacketContext:
        """Runs statements as the ingress control of a fresh packet."""
        self.blocks["ingress"] = tuple(ingress)
        engine = self.engine()
        context = engine.new_context(data, 0)
        if traced:
            context.trace = Recorder()
        engine.ingress(context)
        return context

    def parse(self, data: bytes, *states: ir.State) -> PacketContext:
        if states:
            self.states = states
        engine = self.engine()
        context = engine.new_context(data, 0)
        engine.parse(context)
        return context

    def error_of(self, context: PacketContext) -> str:
        return self.errors[context.frame[self.standard("parser_error")]]


@dataclass
class Recorder:
    """A trace that keeps what it is told."""

    events: list[tuple] = field(default_factory=list)

    def enter(self, block: str) -> None:
        self.events.append(("enter", block))

    def state(self, name: str, span: Span) -> None:
        self.events.append(("state", name))

    def extract(self, header: str, fields: dict[str, int], span: Span) -> None:
        self.events.append(("extract", header, fields))

    def error(self, name: str, span: Span) -> None:
        self.events.append(("error", name))

    def table(
        self,
        name: str,
        key: dict[str, int],
        hit: bool,
        action: str,
        args: tuple[int, ...],
        span: Span,
    ) -> None:
        self.events.append(("table", name, key, hit, action, args))

    def assign(self, target: str, value: int, span: Span) -> None:
        self.events.append(("assign", target, value))

    def extern(
        self, op: str, instance: str, ins: tuple[int, ...], outs: tuple[int, ...], span: Span
    ) -> None:
        self.events.append(("extern", op, instance, ins, outs))

    def emit(self, header: str, span: Span) -> None:
        self.events.append(("emit", header))

    def log(self, message: str, span: Span) -> None:
        self.events.append(("log", message))


def const(value: int, width: int) -> ir.Const:
    return ir.Const(width, value)


def load(slot: int, width: int) -> ir.Load:
    return ir.Load(width, slot)


def put(slot: int, value: int, width: int = 8) -> ir.Assign:
    return ir.Assign(target=ir.SlotRef(slot, width), value=const(value, width))
