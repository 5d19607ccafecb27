"""Runs BMv2's simple_switch, built elsewhere, on the router's packets; a peer for `bench/pipeline.py`.

https://github.com/p4lang/behavioral-model. Nothing of it is part of sglb. `p4c-bm2-ss` and
`simple_switch_CLI` are expected beside it, or on PATH.

It reads and writes pcap files in place of network interfaces (`--use-files`), so that no system calls
for packets count, and has its logging off. Tables are filled before it reads the first packet. Its CPU
time is the system's count of the process's threads from then until it has written the last packet.
Queues are set as deep as the traffic is long: it drops nothing for lack of room.
"""

from __future__ import annotations

import os
import shutil
import socket
import struct
import subprocess
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from router import FRAME_BYTES, INPUT_PORT, PORTS, Tables

from sglb.switch.pcap import PcapWriter

#: Seconds that it waits before it reads packets; its tables must be filled by then.
WAIT_S = 40
_FILE_HEADER, _PACKET_HEADER = 24, 16
_POLL_S = 0.2


@dataclass(frozen=True, slots=True)
class Result:
    """CPU seconds of all threads and of the busiest, and the packets that left each port."""

    cpu_s: float
    busiest_s: float
    sent: dict[int, list[bytes]]


def tools(switch: Path) -> dict[str, str]:
    """The programs beside simple_switch or on PATH. Raises FileNotFoundError with what is missing."""
    found = {}
    for name in ("p4c-bm2-ss", "simple_switch_CLI"):
        beside = switch.parent / name
        path = str(beside) if beside.is_file() else shutil.which(name)
        if path is None:
            raise FileNotFoundError(f"{name} is neither beside {switch} nor on PATH")
        found[name] = path
    return found


def write_frames(path: Path, frames: NDArray[np.uint8]) -> None:
    """A capture of the frames, one a microsecond."""
    count, size = frames.shape
    heads = np.zeros((count, 4), dtype="<u4")
    heads[:, 0], heads[:, 1] = np.divmod(np.arange(count), 1_000_000)
    heads[:, 2:] = size
    with path.open("wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
        file.write(np.hstack([heads.view(np.uint8), frames]).tobytes())


def run(switch: Path, program: Path, tables: Tables, frames: NDArray[np.uint8], out: int) -> Result:
    """One run, of which `out` packets are to leave. Raises RuntimeError when it fails."""
    names = tools(switch)
    with tempfile.TemporaryDirectory() as folder:
        code = Path(folder, "program.json")
        subprocess.run([names["p4c-bm2-ss"], str(program), "-o", str(code)], check=True)
        write_frames(Path(folder, f"p{INPUT_PORT}_in.pcap"), frames)
        for port in PORTS:
            PcapWriter(Path(folder, f"p{port}_in.pcap")).close()
        thrift = _free_port()
        command = [str(switch.resolve()), str(code), "--use-files", str(WAIT_S), "-L", "off"]
        command += ["--thrift-port", str(thrift)]
        for port in (*PORTS, INPUT_PORT):
            command += ["-i", f"{port}@p{port}"]
        began = time.monotonic()
        process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL)
        try:
            lines = [f"set_queue_depth {len(frames)}", *tables.cli_lines()]
            _fill(names["simple_switch_CLI"], thrift, lines)
            if time.monotonic() - began > WAIT_S:
                raise RuntimeError(f"to fill simple_switch's tables took longer than {WAIT_S} s")
            before = _cpu_s(process.pid)
            _await(process, Path(folder), out, WAIT_S - (time.monotonic() - began))
            after = _cpu_s(process.pid)
            sent = {p: _sent(Path(folder, f"p{p}_out.pcap")) for p in PORTS}
        finally:
            process.kill()
            process.wait()
    taken = [after[thread] - before.get(thread, 0.0) for thread in after]
    return Result(sum(taken), max(taken), sent)


def _fill(cli: str, thrift: int, lines: Iterable[str]) -> None:
    text = "\n".join(lines) + "\n"
    for _ in range(50):
        command = [cli, "--thrift-port", str(thrift)]
        done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
        if "Could not connect" not in done.stdout + done.stderr:
            break
        time.sleep(_POLL_S)
    wrong = [line for line in done.stdout.splitlines() if "Invalid" in line or "Error" in line]
    if wrong or done.returncode:
        raise RuntimeError(f"simple_switch_CLI: {(wrong or done.stderr.splitlines())[-1]}")


def _await(process: subprocess.Popen[bytes], folder: Path, out: int, wait_s: float) -> None:
    """Waits until as many packets as `out` have left and the switch is idle."""
    time.sleep(max(0.0, wait_s))
    last = -1.0
    while process.poll() is None:
        written = sum(_packets(folder / f"p{port}_out.pcap") for port in PORTS)
        used = sum(_cpu_s(process.pid).values())
        if used == last:
            if written < out:
                raise RuntimeError(f"simple_switch let {written} packets out, not {out}")
            return
        last = used
        time.sleep(5 * _POLL_S)
    raise RuntimeError(f"simple_switch ended with {process.returncode}")


def _packets(path: Path) -> int:
    """Packets in a capture, all of the router's size."""
    size = path.stat().st_size if path.exists() else _FILE_HEADER
    return max(0, size - _FILE_HEADER) // (_PACKET_HEADER + FRAME_BYTES)


def _sent(path: Path) -> list[bytes]:
    """The packets of a capture (of which simple_switch does not say that it holds Ethernet)."""
    size = _PACKET_HEADER + FRAME_BYTES
    data = path.read_bytes()[_FILE_HEADER:]
    return [data[at + _PACKET_HEADER : at + size] for at in range(0, len(data), size)]


def _cpu_s(pid: int) -> dict[int, float]:
    """User and system seconds of each thread (fields 14 and 15 of `proc_pid_stat(5)`)."""
    found = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        fields = (task / "stat").read_text().rpartition(")")[2].split()
        found[int(task.name)] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return found


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
