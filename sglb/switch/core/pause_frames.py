"""Pause frames of ports without a peer: what a live loop sends and takes in, as bytes."""

from __future__ import annotations

from sglb.p4.native import abi
from sglb.switch.core import model as m
from sglb.switch.core.buffer import port_at
from sglb.switch.core.lists import take
from sglb.switch.core.pfc import PAUSE_BYTES, is_pause, pause_received
from sglb.switch.core.rows import data_at, row_free, row_new
from sglb.switch.core.world import World


def take_pause_frames(world: World, port: int) -> list[bytes]:
    """The pause frames that a port is to send now, before anything else; they are taken out."""
    frames = []
    while (row := take(world, port_at(world, port) + m.P_PAUSE_HEAD)) >= 0:
        at = data_at(world, row)
        frames.append(bytes(world.b[at + i] for i in range(PAUSE_BYTES)))
        row_free(world, row)
    return frames


def pause_frame_received(world: World, port: int, frame: bytes, now: int) -> bool:
    """Lets a frame that came in take effect if it is a class-based pause frame; whether it is one.

    Such a frame is the port's, and is not to be given to the program.
    """
    row = row_new(world)
    if row < 0:
        return False
    at, stored = data_at(world, row), frame[:PAUSE_BYTES]
    for i, byte in enumerate(stored):
        world.b[at + i] = byte
    world.h[2 * row + abi.STORED] = len(stored)
    found = is_pause(world, row)
    if found:
        pause_received(world, port, row, now)
    row_free(world, row)
    return found
