"""Packet rows, and the interpreter's way through the same passes."""

from __future__ import annotations

import ctypes
import random
from dataclasses import dataclass

import numpy as np

from sglb.p4 import ir
from sglb.p4.interp import Interpreter
from sglb.p4.native import abi
from sglb.p4.native.program import NativeProgram, compile_native
from sglb.p4.runtime import PacketContext
from sglb.switch.pipeline import FieldSlots
from sglb.switch.state import ProgramState

#: Room for a packet's bytes.
DATA_BYTES = 512


class Row:
    """One packet row with room for its bytes and its headers."""

    def __init__(self, native: NativeProgram) -> None:
        self.native = native
        out = -(-native.max_header_bytes // 64) * 64
        self.stride = native.row_bytes + DATA_BYTES + out
        raw = np.zeros(self.stride + 64, dtype=np.uint8)
        start = -raw.ctypes.data % abi.ROW_ALIGN
        self.place(raw[start : start + self.stride])

    def place(self, memory: np.ndarray) -> None:
        """Lies in this memory from now on."""
        self.memory = memory
        self.address = int(memory.ctypes.data)
        self.ints = memory[: abi.HEAD_BYTES].view(np.int32)
        self.words = memory[: abi.HEAD_BYTES].view(np.int64)
        self.words[abi.DATA] = self.address + self.native.row_bytes
        self.words[abi.OUT] = self.address + self.native.row_bytes + DATA_BYTES

    def put(self, data: bytes, length: int, now_ps: int, **fields: int) -> None:
        """A packet of `length` bytes of which `data` is stored, and fields of the head by name."""
        start = self.native.row_bytes
        self.memory[start : start + DATA_BYTES] = 0
        self.memory[start : start + len(data)] = np.frombuffer(data, dtype=np.uint8)
        self.words[abi.NOW] = now_ps
        self.ints[abi.LENGTH] = length
        self.ints[abi.STORED] = len(data)
        for name, value in fields.items():
            self.ints[getattr(abi, name)] = value

    def get(self, name: str) -> int:
        return int(self.ints[getattr(abi, name)])

    def slot(self, slot: int) -> int:
        place = self.native.slot_place(slot)
        assert place is not None
        offset, size = place
        return int.from_bytes(self.memory[offset : offset + size].tobytes(), "little")

    def set_slot(self, slot: int, value: int) -> None:
        place = self.native.slot_place(slot)
        assert place is not None
        offset, size = place
        self.memory[offset : offset + size] = np.frombuffer(
            value.to_bytes(size, "little"), np.uint8
        )

    def slots(self) -> dict[str, int]:
        """What every slot of the frame holds, by number and name."""
        known = enumerate(self.native.ir.slots)
        return {
            f"{i} {slot.name}": self.slot(i) for i, slot in known if self.native.outlives_a_pass(i)
        }

    def out(self) -> bytes:
        start = self.native.row_bytes + DATA_BYTES
        return self.memory[start : start + self.get("OUT_LENGTH")].tobytes()


@dataclass
class NativePasses:
    """The passes of a program on one state."""

    state: ProgramState

    def __post_init__(self) -> None:
        self.native = compile_native(self.state.program.ir)
        self.machine = self.state.machine
        self.digests = np.zeros(4096, dtype=np.int64)
        self.machine[abi.DIGEST_BUFFER] = self.digests.ctypes.data
        self.machine[abi.DIGEST_CAPACITY] = len(self.digests)

    def run(self, name: str, row: Row) -> int:
        self.native.functions[name](self.machine.ctypes.data, row.address)
        return row.get("STATUS")

    def preserve(self, source: Row, target: Row, number: int) -> None:
        self.native.functions["p4_preserve"](
            self.machine.ctypes.data, source.address, target.address, ctypes.c_int32(number)
        )


class ReferencePasses:
    """The same passes by the interpreter."""

    def __init__(self, state: ProgramState, seed: int = 1) -> None:
        self.code = state.program.ir
        self.fields = FieldSlots(self.code)
        self.engine = Interpreter(self.code, state.pipeline, state._rng, state.hashes)
        self.rng = random.Random(seed)

    def ingress(self, data: bytes, now_ps: int, port: int) -> tuple[PacketContext, int]:
        """The context after ingress, and the bytes of the headers that were parsed."""
        context = self.engine.new_context(data, now_ps)
        frame, fields = context.frame, self.fields
        frame[fields.ingress_port] = port
        frame[fields.packet_length] = len(data)
        frame[fields.ingress_time] = now_ps // 10**6 & fields.time48_mask
        self.engine.parse(context)
        parsed = self.header_bytes(context)
        self.engine.verify_checksum(context)
        self.engine.ingress(context)
        return context, parsed

    def header_bytes(self, context: PacketContext) -> int:
        return sum(
            size + sum(context.frame[s] // 8 for s in varying)
            for valid, size, varying in self.fields.headers
            if context.frame[valid]
        )

    def slots(self, native: NativeProgram, context: PacketContext) -> dict[str, int]:
        """The frame's slots that a row holds too."""
        return {
            f"{i} {slot.name}": context.frame[i]
            for i, slot in enumerate(self.code.slots)
            if native.outlives_a_pass(i)
        }


def metadata_slots(code: ir.Program) -> set[int]:
    """User metadata outside of headers, and standard metadata."""
    return set(FieldSlots(code).metadata)
