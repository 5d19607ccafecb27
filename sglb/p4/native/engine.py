"""The `Engine` protocol on native code: a block at a time, on packets that Python objects carry.

A context's frame is a row. Packets with a trace go through the interpreter, on the same state, since
native code tells nothing of its steps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn, cast

import numpy as np
from numpy.typing import NDArray

from sglb.p4.interp import Interpreter
from sglb.p4.native import abi
from sglb.p4.native.emit_request import EGRESS_SIDE
from sglb.p4.native.program import NativeProgram
from sglb.p4.runtime import ExternFailure, PacketContext, Request


class RowFrame:
    """A row as the frame of a context: slots by number.

    A slot that only one block knows has no place in a row: LookupError.
    """

    __slots__ = ("_data", "_native", "_places", "_row", "_views", "address", "ints", "words")

    def __init__(self, native: NativeProgram) -> None:
        self._native = native
        self._places = native.places
        self._data = (b"", 0)
        size = native.row_bytes
        raw = np.zeros(size + abi.ROW_ALIGN, dtype=np.uint8)
        start = -_address(raw) % abi.ROW_ALIGN
        self.address = _address(raw) + start
        self._row = row = raw.data[start : start + size]
        self.ints = row.cast("i")
        self.words = row.cast("q")
        # A slot is aligned to its size: one view a size reads and writes it.
        self._views = {1: row, 2: row.cast("H"), 4: row.cast("I"), 8: row.cast("Q")}

    def __len__(self) -> int:
        return len(self._native.ir.slots)

    def __getitem__(self, slot: int) -> int:
        offset, size = self._places[slot] or self._nowhere(slot)
        view = self._views.get(size)
        if view is not None:
            return int(view[offset // size])
        return int.from_bytes(self._row[offset : offset + size], "little")

    def __setitem__(self, slot: int, value: int) -> None:
        offset, size = self._places[slot] or self._nowhere(slot)
        view = self._views.get(size)
        if view is not None:
            view[offset // size] = value
        else:
            self._row[offset : offset + size] = value.to_bytes(size, "little")

    def copy(self) -> RowFrame:
        """A row of its own with the same slots."""
        twin = RowFrame(self._native)
        twin._row[:] = self._row
        return twin

    def holds(self, slot: int) -> bool:
        """Whether the slot outlives its block."""
        return self._places[slot] is not None

    def address_of(self, data: bytes) -> int:
        """Where a packet's bytes lie; remembered, as a packet meets one block after the other."""
        if self._data[0] is not data:
            self._data = (data, _address(np.frombuffer(data, dtype=np.uint8)))
        return self._data[1]

    def _nowhere(self, slot: int) -> NoReturn:
        name = self._native.ir.slots[slot].name
        raise LookupError(f"slot {slot} ({name}) belongs to one block: no row holds it")


def _address(array: NDArray[np.uint8]) -> int:
    return int(array.__array_interface__["data"][0])


class NativeEngine:
    """Implements `runtime.Engine` for one program and the machine that it works on.

    `machine` are the words that `abi` lists, with the addresses of all state; the memory behind them
    is the target's. `reference` runs packets that have a trace, on the same state; without one they
    run untraced. `digest_words` is the room for the digests of one block.

    `program` and `native` are the program; not for use by several threads at once.
    """

    def __init__(
        self,
        native: NativeProgram,
        machine: NDArray[np.int64],
        reference: Interpreter | None = None,
        *,
        digest_words: int = 4096,
    ) -> None:
        if len(machine) < native.machine_words:
            raise ValueError(
                f"the program's machine has {native.machine_words} words, not {len(machine)}"
            )
        self.native = native
        self.program = native.ir
        self._machine = machine
        self._reference = reference
        self._digests = np.zeros(digest_words, dtype=np.int64)
        machine[abi.DIGEST_BUFFER] = self._digests.ctypes.data
        machine[abi.DIGEST_CAPACITY] = digest_words
        self._trail = np.zeros(abi.TRAIL_WORDS, dtype=np.int32)
        machine[abi.TRAIL] = self._trail.ctypes.data
        self._machine_address = int(machine.ctypes.data)
        self._out = np.zeros(native.max_header_bytes + 8, dtype=np.uint8)
        self._out_address = int(self._out.ctypes.data)

    def new_context(self, data: bytes, now_ps: int) -> PacketContext:
        """A context with a zeroed frame."""
        return PacketContext(cast("list[int]", RowFrame(self.native)), data, now_ps)

    def parse(self, context: PacketContext) -> None:
        """Runs the parser: fills headers, parser_error (if there is one) and `payload_offset`.

        Raises `ExternFailure` when the program stops the packet, as do the others.
        """
        self._run(context, "parser", "p4_parse")

    def verify_checksum(self, context: PacketContext) -> None:
        """Runs VerifyChecksum (sets checksum_error)."""
        self._run(context, "verify_checksum", "p4_verify_checksum")

    def ingress(self, context: PacketContext) -> None:
        """Runs the ingress control."""
        self._run(context, "ingress", "p4_ingress")

    def egress(self, context: PacketContext) -> None:
        """Runs the egress control."""
        self._run(context, "egress", "p4_egress")

    def deparse(self, context: PacketContext) -> bytes:
        """Runs ComputeChecksum and the deparser; gives headers and payload, not truncated."""
        if context.trace is not None and self._reference is not None:
            return self._traced(context, self._reference.deparse)
        self._run(context, "compute_checksum", "p4_compute_checksum")
        self._run(context, "deparser", "p4_deparse")
        row = cast(RowFrame, context.frame)
        headers = self._out[: row.ints[abi.OUT_LENGTH]].tobytes()
        return headers + context.data[context.payload_offset :]

    # --- one block ---

    def _run(self, context: PacketContext, block: str, name: str) -> None:
        if context.trace is not None and self._reference is not None:
            self._traced(context, getattr(self._reference, _METHODS[block]))
            return
        row = cast(RowFrame, context.frame)
        words, ints = row.words, row.ints
        words[abi.NOW] = context.now_ps
        words[abi.DATA] = row.address_of(context.data)
        words[abi.OUT] = self._out_address
        ints[abi.LENGTH] = ints[abi.STORED] = len(context.data)
        ints[abi.PAYLOAD_OFFSET] = context.payload_offset
        ints[abi.CLONE] = ints[abi.RESUBMIT] = ints[abi.RECIRCULATE] = 0
        cut = context.truncate_bytes
        ints[abi.TRUNCATE] = 0 if cut is None else cut + 1
        self._machine[abi.DIGEST_USED] = 0
        self.native.functions[name](self._machine_address, row.address)
        status = ints[abi.STATUS]
        if status > 0:
            raise ExternFailure(*self.native.failures[status])
        if status:
            raise ValueError(f"{name} ended with status {status}")
        context.payload_offset = ints[abi.PAYLOAD_OFFSET]
        self._requests(context, row, block in EGRESS_SIDE)
        self._learn(context)

    def _requests(self, context: PacketContext, row: RowFrame, egress: bool) -> None:
        ints, lists = row.ints, self.native.preserve_lists
        if ints[abi.CLONE]:
            clone = Request(ints[abi.CLONE] - 1, slots=lists[ints[abi.CLONE_LIST]])
            if egress:
                context.clone_egress = clone
            else:
                context.clone = clone
        if ints[abi.RESUBMIT]:
            context.resubmit = Request(slots=lists[ints[abi.RESUBMIT] - 1])
        if ints[abi.RECIRCULATE]:
            context.recirculate = Request(slots=lists[ints[abi.RECIRCULATE] - 1])
        if ints[abi.TRUNCATE]:
            context.truncate_bytes = ints[abi.TRUNCATE] - 1

    def _learn(self, context: PacketContext) -> None:
        used = int(self._machine[abi.DIGEST_USED])
        if used:
            words = [int(word) & (1 << 64) - 1 for word in self._digests[:used]]
            context.digests += read_digests(self.native, words)

    def _traced(self, context: PacketContext, method: Callable[[PacketContext], object]) -> bytes:
        """Runs a block by the interpreter, on a list of the row's slots."""
        row = cast(RowFrame, context.frame)
        slots = [slot for slot in range(len(row)) if row.holds(slot)]
        frame = [0] * len(row)
        for slot in slots:
            frame[slot] = row[slot]
        context.frame = frame
        try:
            result = method(context)
        finally:
            context.frame = cast("list[int]", row)
            for slot in slots:
                row[slot] = frame[slot]
        return result if isinstance(result, bytes) else b""


_METHODS = {
    "parser": "parse",
    "verify_checksum": "verify_checksum",
    "ingress": "ingress",
    "egress": "egress",
    "compute_checksum": "compute_checksum",
}


def read_digests(native: NativeProgram, words: list[int]) -> list[tuple[int, tuple[int, ...]]]:
    """The (instance, values) of a digest buffer's used words, taken as unsigned."""
    found = []
    at = 0
    while at < len(words):
        instance, count = words[at : at + 2]
        at += 2
        values = []
        start = at
        for width in native.digest_layouts[instance]:
            size = -(-width // 64)
            values.append(sum(words[start + i] << 64 * i for i in range(size)))
            start += size
        found.append((instance, tuple(values)))
        at += count
    return found
