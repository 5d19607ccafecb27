"""A router's packets through native code in batches, and one by one through the interpreter."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from router import FRAME_BYTES, INPUT_PORT, PORTS, Tables

from sglb.p4.compiler import CompiledProgram
from sglb.p4.compiler import compile as compile_p4
from sglb.p4.interp import Interpreter
from sglb.p4.native import abi
from sglb.p4.native.program import compile_native
from sglb.p4.random_stream import RandomStream
from sglb.switch.clock import VirtualClock
from sglb.switch.config import SwitchConfig
from sglb.switch.p4runtime import InProcessClient, P4RuntimeService
from sglb.switch.pipeline import FieldSlots
from sglb.switch.switch import Switch

PROGRAM = Path(__file__).parent / "router.p4"
#: Rows that are filled and forwarded together.
BATCH = 256
_PER_REQUEST = 500
_LINE = abi.ROW_ALIGN

#: A packet's way: the port by which it leaves, -1 where it is dropped, and its bytes.
Sent = tuple[int, bytes]


class Router:
    """A switch with `router.p4`, its tables filled through P4Runtime. `fill_s`: CPU time of that."""

    def __init__(self, tables: Tables, program: CompiledProgram | None = None) -> None:
        self.program = program or compile_p4(PROGRAM)
        clock = VirtualClock()
        self.switch = Switch(
            self.program, SwitchConfig(), clock, rng=RandomStream(0), engine="native"
        )
        for port in (*PORTS, INPUT_PORT):
            self.switch.add_port(port, None)
        self.client = InProcessClient(P4RuntimeService(self.switch, clock))
        entities = list(tables.entities())
        began = time.process_time()
        for at in range(0, len(entities), _PER_REQUEST):
            self.client.insert(entities[at : at + _PER_REQUEST])
        self.fill_s = time.process_time() - began


class Rows:
    """A ring of rows: frames are copied in, forwarded in one call, and read out."""

    def __init__(self, router: Router, frame_bytes: int) -> None:
        native = compile_native(router.program.ir)
        self._call = native.functions["p4_forward_batch"]
        self._machine = router.switch.state.machine
        self._frame_bytes = frame_bytes
        self._data = native.row_bytes
        self._out = self._data + -(-frame_bytes // _LINE) * _LINE
        self._stride = self._out + -(-native.max_header_bytes // _LINE) * _LINE
        raw = np.zeros(BATCH * self._stride + _LINE, dtype=np.uint8)
        start = -raw.ctypes.data % _LINE
        self._rows = raw[start : start + BATCH * self._stride].reshape(BATCH, self._stride)
        self._ints = self._rows[:, : abi.HEAD_BYTES].view(np.int32)
        words = self._rows[:, : abi.HEAD_BYTES].view(np.int64)
        at = self._rows.ctypes.data + np.arange(BATCH) * self._stride
        words[:, abi.DATA], words[:, abi.OUT] = at + self._data, at + self._out
        self._address = int(self._rows.ctypes.data)
        self._machine_address = int(self._machine.ctypes.data)
        self._ints[:, abi.LENGTH] = self._ints[:, abi.STORED] = frame_bytes
        self._ints[:, abi.INGRESS_PORT] = INPUT_PORT

    def put(self, frames: NDArray[np.uint8]) -> None:
        """Copies up to `BATCH` frames in."""
        count = len(frames)
        self._rows[:count, self._data : self._data + self._frame_bytes] = frames
        self._ints[:count, abi.PACKET_LENGTH] = self._frame_bytes

    def forward(self, count: int) -> None:
        """One call of native code, without Python's lock."""
        self._call(self._machine_address, self._address, self._stride, count)

    def ports(self, count: int) -> NDArray[np.int32]:
        """Where each packet left, -1 where it was dropped."""
        ports = self._ints[:count, abi.EGRESS_PORT].copy()
        ports[self._ints[:count, abi.EGRESS_SPEC] == 511] = -1
        return ports

    def headers(self, count: int, first: int, last: int) -> NDArray[np.uint8]:
        """Bytes of what the deparser wrote."""
        return self._rows[:count, self._out + first : self._out + last]

    def sent(self, count: int) -> list[Sent]:
        """What became of each packet."""
        found = []
        for number, port in enumerate(self.ports(count).tolist()):
            ints, row = self._ints[number], self._rows[number]
            headers = row[self._out : self._out + ints[abi.OUT_LENGTH]].tobytes()
            payload = row[self._data + ints[abi.PAYLOAD_OFFSET] : self._data + self._frame_bytes]
            found.append((port, headers + payload.tobytes() if port >= 0 else b""))
        return found


def forward_all(rows: Rows, frames: NDArray[np.uint8]) -> float:
    """CPU seconds that native code takes for all frames."""
    taken = 0
    for at in range(0, len(frames), BATCH):
        part = frames[at : at + BATCH]
        rows.put(part)
        began = time.thread_time_ns()
        rows.forward(len(part))
        taken += time.thread_time_ns() - began
    return taken / 1e9


def copy_all(rows: Rows, frames: NDArray[np.uint8]) -> float:
    """CPU seconds for all frames with copying them in and the new headers out."""
    headers = np.empty_like(frames)
    began = time.thread_time_ns()
    for at in range(0, len(frames), BATCH):
        part = frames[at : at + BATCH]
        rows.put(part)
        rows.forward(len(part))
        headers[at : at + BATCH, :38] = rows.headers(len(part), 0, 38)
    return (time.thread_time_ns() - began) / 1e9


def sent_by_all(rows: Rows, frames: NDArray[np.uint8]) -> list[Sent]:
    """What becomes of all frames."""
    found: list[Sent] = []
    for at in range(0, len(frames), BATCH):
        part = frames[at : at + BATCH]
        rows.put(part)
        rows.forward(len(part))
        found += rows.sent(len(part))
    return found


class Reference:
    """The interpreter on the same state: parser to deparser, without ports and queues."""

    def __init__(self, router: Router) -> None:
        state = router.switch.state
        self._slots = FieldSlots(router.program.ir)
        self._engine = Interpreter(router.program.ir, state.pipeline, RandomStream(0), state.hashes)
        self.forward(bytes(FRAME_BYTES))  # it writes its own code when it first needs it

    def forward(self, data: bytes) -> Sent:
        """What becomes of a frame."""
        engine, slots = self._engine, self._slots
        context = engine.new_context(data, 0)
        frame = context.frame
        frame[slots.ingress_port] = INPUT_PORT
        frame[slots.packet_length] = len(data)
        engine.parse(context)
        engine.verify_checksum(context)
        engine.ingress(context)
        port = frame[slots.egress_spec]
        if port == 511:
            return -1, b""
        frame[slots.egress_port] = port
        frame[slots.egress_spec] = 0
        engine.egress(context)
        return port, engine.deparse(context)


def interpret_all(reference: Reference, frames: NDArray[np.uint8]) -> tuple[float, list[Sent]]:
    """CPU seconds of the interpreter for all frames, and what became of them."""
    whole = [frame.tobytes() for frame in frames]
    began = time.thread_time_ns()
    sent = [reference.forward(data) for data in whole]
    return (time.thread_time_ns() - began) / 1e9, sent
