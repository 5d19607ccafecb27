"""The reference interpreter: runs an `ir.Program` over packets.

Design. Walking the IR node by node costs a Python call a node, and a fabric pushes tens of
thousands of packets through hundreds of nodes. So each procedure, parser state and expression is
written out once, when the interpreter is made, as the Python text that says the same; Python's own
compiler does the rest. Each kind of node has one translator (`interp_expr`, `interp_stmt`,
`interp_table`, `interp_packet`, `interp_parser`, `interp_extern`), and what it writes is as plain
as the node: `f[7] = f[3] + 1 & 255`. Tables, registers and the like stay objects of the target,
looked up at run time, so no write to them ever translates anything, and the switches that run one
program share its translation. A second translation, made on the first traced packet, also tells a
`Trace`.

Limits. A parser ends with ParserTimeout after 4096 states beyond one per packet bit; a loop fails
the packet with `ExternFailure` after 2**20 rounds. Where headers aren't whole bytes, the bits they
leave open at the packet's end are zeros, and the payload starts at the next whole byte.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import CodeType
from typing import Any

from sglb.p4 import ir
from sglb.p4.deep import run_deep
from sglb.p4.hashing import HashAlgorithms
from sglb.p4.interp_code import Link, Machine, Run, Unit
from sglb.p4.interp_parser import STATE_LIMIT, emit_parser
from sglb.p4.interp_stmt import proc_name
from sglb.p4.random_stream import RandomStream
from sglb.p4.runtime import PacketContext, PipelineState

# Importing them registers their translators.
from sglb.p4 import interp_extern, interp_packet, interp_table  # isort: skip  # noqa: F401

#: The blocks of a program, as `ir.Program` and traces name them.
BLOCKS = ("parser", "verify_checksum", "ingress", "egress", "compute_checksum", "deparser")
#: The methods behind the links to counters and meters.
_METHODS = {"tally": "count", "execute": "execute"}
PARSER, VERIFY_CHECKSUM, INGRESS, EGRESS, COMPUTE_CHECKSUM, DEPARSER = range(6)


class Interpreter:
    """Implements `runtime.Engine` for one program and the state it works on.

    `state` must align with the program's tables, instances and value sets, and is held on to: the
    target may change what its objects contain, but not swap the objects. `rng` feeds `random` and
    `HashAlgorithm.random`; `hashes` are the target's own functions, if it has some. Not for use by
    several threads at once. ValueError when the program
    names an extern, algorithm or core error that doesn't exist.
    """

    def __init__(
        self,
        program: ir.Program,
        state: PipelineState,
        rng: RandomStream,
        hashes: HashAlgorithms | None = None,
    ) -> None:
        self.program = program
        self.hashes = hashes or HashAlgorithms(rng)
        self._state = state
        self._rng = rng
        self._frame = [0] * len(program.slots)
        self._error_slot = program.standard_metadata["parser_error"]
        self._machine = Machine(PacketContext([], b""))
        self._plain = self._load(traced=False)
        self._traced: list[Run] | None = None

    def new_context(self, data: bytes, now_ps: int) -> PacketContext:
        """A context with a zeroed frame."""
        return PacketContext(self._frame[:], data, now_ps)

    def parse(self, context: PacketContext) -> None:
        """Runs the parser: fills headers, parser_error (if there is one) and `payload_offset`.

        A reject, or a select without a matching case, ends it with parser_error unchanged.
        """
        machine = self._machine
        machine.pos = machine.error = 0
        machine.end = len(context.data) * 8
        machine.steps = STATE_LIMIT + machine.end
        self._run(context, PARSER)
        if machine.error:
            context.frame[self._error_slot] = machine.error
        context.payload_offset = machine.pos + 7 >> 3

    def verify_checksum(self, context: PacketContext) -> None:
        """Runs VerifyChecksum (sets checksum_error)."""
        self._run(context, VERIFY_CHECKSUM)

    def ingress(self, context: PacketContext) -> None:
        """Runs the ingress control."""
        self._run(context, INGRESS)

    def egress(self, context: PacketContext) -> None:
        """Runs the egress control."""
        self._run(context, EGRESS)

    def deparse(self, context: PacketContext) -> bytes:
        """Runs ComputeChecksum and the deparser; gives headers and payload, not truncated."""
        machine = self._machine
        self._run(context, COMPUTE_CHECKSUM)
        machine.out = out = []
        machine.bits = machine.bit_count = 0
        self._run(context, DEPARSER)
        if machine.bit_count:
            pad = -machine.bit_count % 8
            size = machine.bit_count + pad >> 3
            out.append((machine.bits << pad).to_bytes(size, "big"))
        out.append(context.data[context.payload_offset :])
        return b"".join(out)

    def source(self, *, traced: bool = False) -> str:
        """The generated Python, for people who want to read it."""
        return _translate(_Identity(self.program), traced).source

    def _run(self, context: PacketContext, block: int) -> None:
        machine = self._machine
        machine.context = context
        machine.data = context.data
        machine.now_ps = context.now_ps
        machine.length = len(context.data)
        machine.trace = trace = context.trace
        if trace is None:
            self._plain[block](context.frame)
            return
        if self._traced is None:
            self._traced = self._load(traced=True)
        trace.enter(BLOCKS[block])
        self._traced[block](context.frame)

    def _load(self, *, traced: bool) -> list[Run]:
        """The translation's functions, tied to this interpreter's state."""
        translation = _translate(_Identity(self.program), traced)
        space = dict(translation.space)
        space.update(m=self._machine, rng=self._rng, from_bytes=int.from_bytes)
        for name, (role, what) in translation.links.items():
            space[name] = self._linked(role, what)
        exec(translation.code, space)
        return [space[name] for name in translation.blocks]

    def _linked(self, role: str, what: int | str) -> object:
        state = self._state
        if isinstance(what, str):
            return self.hashes[what]
        if role == "contains":
            return state.value_sets[what].contains
        if role in ("lookup", "count", "meter"):
            return getattr(state.tables[what], role)
        instance = state.instances[what]
        if instance is None:
            raise ValueError(f"no state was given for {self.program.instances[what].name}")
        return instance if role == "register" else getattr(instance, _METHODS[role])


class _Identity:
    """A program as a key: equal to itself only, and kept alive as long as the key is."""

    __slots__ = ("program",)

    def __init__(self, program: ir.Program) -> None:
        self.program = program

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Identity) and other.program is self.program

    def __hash__(self) -> int:
        return id(self.program)


@dataclass(frozen=True, slots=True)
class _Translation:
    """A program in Python: `blocks` are the names of its six blocks' functions."""

    code: CodeType
    source: str
    blocks: tuple[str, ...]
    space: Mapping[str, Any]
    links: Mapping[str, Link]


@lru_cache(maxsize=16)
def _translate(key: _Identity, traced: bool) -> _Translation:
    """Translates a program; the switches of a fabric, which all run one, share the result."""
    return run_deep(lambda: _translated(key.program, traced))


def _translated(program: ir.Program, traced: bool) -> _Translation:
    unit = Unit(program, traced, _unaligned(program), emit_parser)
    blocks = tuple(proc_name(unit, getattr(program, block)) for block in BLOCKS)
    source = "\n\n".join(unit.sources)
    code = compile(source, "<p4>", "exec")
    return _Translation(code, source, blocks, unit.space, unit.links)


def _unaligned(program: ir.Program) -> bool:
    """Whether the parser or deparser can stand inside a byte."""
    if any(header.width % 8 for header in program.headers):
        return True
    stmts = (stmt for proc in program.procs for state in proc.states for stmt in state.body)
    return any(isinstance(s, ir.Extract) and s.header is None and s.width % 8 for s in stmts)
