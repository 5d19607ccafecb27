"""Random and mutated frames through a live switch: no crash, no hang, no leak, and right packets after.

    sudo .venv/bin/python bench/live_soak.py [--frames N] [--program P4] [--seed N]

Half of the frames are noise, half are IPv4, IPv6, VLAN, SyncMesh and event frames with some bytes
changed, of random lengths. Afterwards the switch (`bench/live.p4` unless another is named) must still
run, be no larger than 5 % over what it was after the first tenth, and, with the default program, forward
a frame.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import sys
import time
from pathlib import Path

import numpy as np
from live import PROGRAM, Lab, frame, packet_socket
from numpy.typing import NDArray

_BATCH = 64
_ROOM = 1_514
_LEAST = 14
_CHANGES = 6
_GROWTH = 1.05
_TYPES = ("0800", "86dd", "8100", "88b5", "88b6", "8808")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class Batches:
    """Batches of frames, and the structs to send them by sendmmsg."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)
        self._data = np.zeros((_BATCH, _ROOM), np.uint8)
        self._iovs = np.zeros((_BATCH, 2), np.uint64)
        self._messages = np.zeros((_BATCH, 8), np.uint64)
        self._iovs[:, 0] = self._data.ctypes.data + np.arange(_BATCH) * _ROOM
        self._messages[:, 2] = self._iovs.ctypes.data + np.arange(_BATCH) * 16
        self._messages[:, 3] = 1
        self._bases = [self._base(kind) for kind in _TYPES]

    def _base(self, kind: str) -> NDArray[np.uint8]:
        whole = bytearray(frame(200).ljust(_ROOM, b"\0"))
        whole[12:14] = bytes.fromhex(kind)
        return np.frombuffer(bytes(whole), np.uint8)

    def send(self, socket: int, library: ctypes.CDLL) -> int:
        """Sends another batch; how many frames of it were taken."""
        rng, data = self._rng, self._data
        half = _BATCH // 2
        data[:half] = rng.integers(0, 256, (half, _ROOM), np.uint8)
        for row in range(half, _BATCH):
            data[row] = self._bases[row % len(self._bases)]
        rows = np.repeat(np.arange(half, _BATCH), _CHANGES)
        places = rng.integers(0, 64, rows.size)
        data[rows, places] = rng.integers(0, 256, rows.size, np.uint8)
        self._iovs[:, 1] = rng.integers(_LEAST, _ROOM + 1, _BATCH)
        return max(
            0,
            int(
                library.sendmmsg(socket, self._messages.ctypes.data_as(ctypes.c_void_p), _BATCH, 0)
            ),
        )


def memory_bytes(process: int) -> int:
    """Resident memory."""
    return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * _PAGE_BYTES


def main() -> None:
    """Send, look, tell; ends with 1 when something is wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--frames", type=int, default=10_000_000)
    parser.add_argument("--program", type=Path, default=PROGRAM)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("bench/live_soak.py needs root: it makes network namespaces")
    lab = Lab()
    try:
        wrong = _soak(lab, args)
    finally:
        lab.close()
    if wrong:
        sys.exit(f"wrong: {wrong}")


def _soak(lab: Lab, args: argparse.Namespace) -> str:
    command = [str(Path(sys.executable).with_name("sglb")), "switch", str(args.program)]
    command += ["--port", "1:p1", "--port", "2:p2", "--grpc", "127.0.0.1:0"]
    batches, library = Batches(args.seed), ctypes.CDLL(None)
    with lab.forwarder(command, "P4Runtime on") as process, packet_socket(lab.names[0]) as out:
        sent, early, began = 0, 0, time.monotonic()
        while sent < args.frames and process.poll() is None:
            sent += batches.send(out.fileno(), library)
            if not early and sent >= args.frames // 10:
                early = memory_bytes(process.pid)
        took = time.monotonic() - began
        if process.poll() is not None:
            return f"the switch ended with {process.returncode} after {sent:,} frames"
        time.sleep(1)
        late = memory_bytes(process.pid)
        print(f"frames: {sent:,} in {took:.0f} s; memory: {early:,} then {late:,} bytes")
        if late > early * _GROWTH:
            return "it has grown"
        if args.program == PROGRAM and lab.latency_us(100, 5) == float("inf"):
            return "it does not forward any more"
    return ""


if __name__ == "__main__":
    main()
