"""BMv2's simple_switch as a peer to compare with: tables through its CLI, packets through nanomsg."""

from __future__ import annotations

import ctypes
import ctypes.util
import shutil
import socket
import struct
import subprocess
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from finsy import P4CloneSessionEntry, P4MulticastGroupEntry, P4Schema, P4TableEntry

TOOLS = ("p4c-bm2-ss", "simple_switch", "simple_switch_CLI")
_AF_SP, _NN_PAIR, _NN_DONTWAIT = 1, 16, 1
_PACKET_IN, _PACKET_OUT = 3, 4  # message types of BMv2's packet socket
_HEAD = struct.Struct("<iii")
_QUIET_S = 0.1


def missing() -> str:
    """What is not there of what `running` needs; empty when all is."""
    tools = [tool for tool in TOOLS if shutil.which(tool) is None]
    if ctypes.util.find_library("nanomsg") is None:
        tools.append("libnanomsg")
    return ", ".join(tools)


def cli_lines(schema: P4Schema, entities: Iterable[Any]) -> Iterator[str]:
    """Commands of simple_switch_CLI that insert the entities."""
    nodes = 0
    for entity in entities:
        if isinstance(entity, P4TableEntry):
            yield _table_line(schema, entity)
            continue
        ports = " ".join(str(r if isinstance(r, int) else r.egress_port) for r in entity.replicas)
        match entity:
            case P4MulticastGroupEntry():
                group = entity.multicast_group_id
            case P4CloneSessionEntry():
                group = 1000 + entity.session_id
                yield f"mirroring_add_mc {entity.session_id} {group}"
        yield f"mc_mgrp_create {group}"
        yield f"mc_node_create 0 {ports}"
        yield f"mc_node_associate {group} {nodes}"
        nodes += 1


def _table_line(schema: P4Schema, entity: P4TableEntry) -> str:
    message = entity.encode_entry(schema)
    table = schema.tables[message.table_id]
    call = message.action.action
    action = schema.actions[call.action_id]
    values = {p.param_id: p.value for p in call.params}
    params = " ".join("0x" + values[p.id].hex() for p in action.params)
    if message.is_default_action:
        return f"table_set_default {table.name} {action.name} {params}"
    fields = {m.field_id: m for m in message.match}
    keys = []
    for field in table.match_fields:
        found = fields[field.id]
        if found.HasField("lpm"):
            width = (field.bitwidth + 7) // 8
            keys.append(f"0x{found.lpm.value.rjust(width, bytes(1)).hex()}/{found.lpm.prefix_len}")
        else:
            keys.append("0x" + found.exact.value.hex())
    return f"table_add {table.name} {action.name} {' '.join(keys)} => {params}"


class Peer:
    """A running simple_switch."""

    def __init__(self, process: subprocess.Popen[bytes], library: Any, sock: int) -> None:
        self._process = process
        self._library = library
        self._socket = sock
        self._buffer = ctypes.create_string_buffer(1 << 16)

    def put(self, port: int, frame: bytes) -> list[tuple[int, bytes]]:
        """A frame comes in; (port, frame) of what left until nothing more came."""
        message = _HEAD.pack(_PACKET_IN, port, len(frame)) + frame
        self._library.nn_send(self._socket, message, len(message), 0)
        found, last = [], time.monotonic()
        while time.monotonic() < last + _QUIET_S:
            size = self._library.nn_recv(self._socket, self._buffer, 1 << 16, _NN_DONTWAIT)
            if size < 0:
                if self._process.poll() is not None:
                    raise RuntimeError(f"simple_switch ended with {self._process.returncode}")
                time.sleep(0.002)
                continue
            kind, out, length = _HEAD.unpack(self._buffer.raw[:12])
            if kind == _PACKET_OUT:
                found.append((out, self._buffer.raw[12 : 12 + length]))
                last = time.monotonic()
        return found


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _library() -> Any:
    library = ctypes.CDLL(ctypes.util.find_library("nanomsg"), use_errno=True)
    for name in ("nn_send", "nn_recv"):
        getattr(library, name).argtypes = [
            ctypes.c_int,
            ctypes.c_char_p,
            ctypes.c_size_t,
            ctypes.c_int,
        ]
    return library


def _wait(process: subprocess.Popen[bytes], port: int) -> None:
    for _ in range(300):
        if process.poll() is not None:
            raise RuntimeError(f"simple_switch ended with {process.returncode} at its start")
        try:
            socket.create_connection(("127.0.0.1", port), 0.2).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise RuntimeError("simple_switch does not answer")


@contextmanager
def running(program: Path, commands: Iterable[str], directory: Path) -> Iterator[Peer]:
    """The program, compiled by p4c, on simple_switch; ends with the block."""
    compiled = directory / "program.json"
    subprocess.run(["p4c-bm2-ss", "-o", str(compiled), str(program)], check=True)
    thrift, packets = _free_port(), f"ipc://{directory}/packets.ipc"
    process = subprocess.Popen(
        [
            *("simple_switch", "--packet-in", packets, "--thrift-port", str(thrift), "-L", "off"),
            *("--notifications-addr", f"ipc://{directory}/notes.ipc", str(compiled)),
            *("--", "--priority-queues", "8"),
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _wait(process, thrift)
        done = subprocess.run(
            ["simple_switch_CLI", "--thrift-port", str(thrift)],
            input="\n".join(commands).encode(),
            capture_output=True,
            check=True,
            timeout=120,
        )
        for word in (b"Invalid", b"Error", b"Unknown"):
            if word in done.stdout:
                raise RuntimeError(f"simple_switch_CLI refused a command: {done.stdout.decode()}")
        library = _library()
        sock = library.nn_socket(_AF_SP, _NN_PAIR)
        library.nn_connect(sock, packets.encode())
        time.sleep(0.3)
        try:
            yield Peer(process, library, sock)
        finally:
            library.nn_close(sock)
    finally:
        process.terminate()
        process.wait()
