"""Bare forwarders between two interfaces, the limit for `bench/live.py`: packets are not looked at.

`python bench/live_bare.py mmsg A B` takes and sends batches by recvmmsg and sendmmsg, in compiled code;
`ring` takes frames from TPACKET_V3 rings in place of recvmmsg. Both ways, until killed.
"""

from __future__ import annotations

import ctypes
import mmap
import socket
import struct
import sys
from typing import Final

import numpy as np

from sglb.switch.core.call import load64
from sglb.switch.core.jit import compiled, primitive
from sglb.switch.core.world import World
from sglb.switch.wire.native import address_of, load32, system

_BATCH: Final = 64
_FRAME_BYTES: Final = 2_048
_DONT_WAIT: Final = 0x40
_LOW32: Final = 0xFFFFFFFF
_POLLIN: Final = 1
_ETH_P_ALL: Final = 3
_SOL_PACKET: Final = 263
_BUFFER_BYTES: Final = 8 << 20

# Words: addresses of functions, two sockets, their rings; pollfds; then a batch each way.
_RECV: Final = 0
_SEND: Final = 1
_POLL: Final = 2
_FD: Final = 4
_RING: Final = 6
_BLOCK: Final = 8
_POLLFD: Final = 10
_MESSAGES: Final = 16
_IOVS: Final = _MESSAGES + _BATCH * 8
_BUFFERS: Final = _IOVS + _BATCH * 2
_WORDS: Final = _BUFFERS + _BATCH * _FRAME_BYTES // 8

_BLOCK_BYTES: Final = 1 << 18
_BLOCKS: Final = 32
_RETIRE_MS: Final = 1


@primitive("""
    %p = inttoptr i64 %address to ptr
    %v = trunc i64 %value to i32
    fence seq_cst
    store i32 %v, ptr %p, align 4
    ret void
""")
def _publish(address: int, value: int) -> None:
    """Stores four bytes after all that was done before."""


@compiled
def forward_batches(world: World) -> None:
    """Moves frames between the sockets by recvmmsg and sendmmsg, for ever."""
    w = world.w
    messages = world_address(world) + _MESSAGES * 8
    while True:
        moved = 0
        for side in (0, 1):
            for i in range(_BATCH):
                w[_IOVS + i * 2 + 1] = _FRAME_BYTES
            count = system(w[_RECV], w[_FD + side], messages, _BATCH, _DONT_WAIT, 0)
            if count > 0:
                moved += count
                for i in range(count):
                    w[_IOVS + i * 2 + 1] = w[_MESSAGES + i * 8 + 7] & _LOW32
                _send(world, 1 - side, count)
        if not moved:
            system(w[_POLL], world_address(world) + _POLLFD * 8, 2, -1, 0, 0)


@compiled
def world_address(world: World) -> int:
    """Where the words lie."""
    return world.w[_WORDS]


@compiled
def _send(world: World, side: int, count: int) -> None:
    w = world.w
    done = 0
    while done < count:
        at = world_address(world) + (_MESSAGES + done * 8) * 8
        sent = system(w[_SEND], w[_FD + side], at, count - done, _DONT_WAIT, 0)
        done += sent if sent > 0 else 1


@compiled
def forward_rings(world: World) -> None:
    """The same with frames taken from rings: a block at a time, sent from where they lie."""
    w = world.w
    while True:
        moved = 0
        for side in (0, 1):
            block = w[_RING + side] + w[_BLOCK + side] * _BLOCK_BYTES
            if load32(block + 8) & 1:
                moved += 1
                _block(world, 1 - side, block)
                _publish(block + 8, 0)
                w[_BLOCK + side] = (w[_BLOCK + side] + 1) % _BLOCKS
        if not moved:
            system(w[_POLL], world_address(world) + _POLLFD * 8, 2, -1, 0, 0)


@compiled
def _block(world: World, side: int, block: int) -> None:
    """Sends the frames of a block (struct tpacket_hdr_v1, then tpacket3_hdr)."""
    w = world.w
    frames, at, count = load32(block + 12), block + load32(block + 16), 0
    for _ in range(frames):
        w[_IOVS + count * 2] = at + (load64(at + 24) & 0xFFFF)
        w[_IOVS + count * 2 + 1] = load32(at + 12)
        count += 1
        if count == _BATCH:
            _send(world, side, count)
            count = 0
        at += load32(at)
    if count:
        _send(world, side, count)


def _socket() -> socket.socket:
    found = socket.socket(socket.AF_PACKET, socket.SOCK_RAW | socket.SOCK_NONBLOCK, 0)
    found.setsockopt(_SOL_PACKET, 20, 1)  # PACKET_QDISC_BYPASS
    found.setsockopt(_SOL_PACKET, 23, 1)  # PACKET_IGNORE_OUTGOING
    found.setsockopt(socket.SOL_SOCKET, 33, _BUFFER_BYTES)  # SO_RCVBUFFORCE
    return found


def main() -> None:
    """Forward until killed."""
    kind, *names = sys.argv[1:]
    words = np.zeros(_WORDS + 1, np.int64)
    address = words.ctypes.data
    words[_WORDS] = address
    for word, name in enumerate(("recvmmsg", "sendmmsg", "poll")):
        words[word] = address_of(name)
    rings = []
    sockets = [_socket() for _ in names]
    for side, (one, name) in enumerate(zip(sockets, names, strict=True)):
        if kind == "ring":
            one.setsockopt(_SOL_PACKET, 10, 2)  # PACKET_VERSION: TPACKET_V3
            request = struct.pack(
                "7I", _BLOCK_BYTES, _BLOCKS, _FRAME_BYTES, _BLOCK_BYTES // _FRAME_BYTES * _BLOCKS,
                _RETIRE_MS, 0, 0,
            )  # fmt: skip
            one.setsockopt(_SOL_PACKET, 5, request)  # PACKET_RX_RING
            ring = mmap.mmap(one.fileno(), _BLOCK_BYTES * _BLOCKS, mmap.MAP_SHARED)
            rings.append(ring)
            words[_RING + side] = ctypes.addressof(ctypes.c_char.from_buffer(ring))
        one.bind((name, _ETH_P_ALL))
        words[_FD + side] = one.fileno()
        words[_POLLFD + side] = one.fileno() | _POLLIN << 32
    for i in range(_BATCH):
        words[_MESSAGES + i * 8 + 2], words[_MESSAGES + i * 8 + 3] = (
            address + (_IOVS + i * 2) * 8,
            1,
        )
        words[_IOVS + i * 2] = address + _BUFFERS * 8 + i * _FRAME_BYTES
    world = World(words, words.view(np.int32), words.view(np.uint8), address)
    forward_batches.code() if kind == "mmsg" else forward_rings.code()
    print("ready", flush=True)
    forward_batches(world) if kind == "mmsg" else forward_rings(world)


if __name__ == "__main__":
    main()
