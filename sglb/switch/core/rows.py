"""Packet rows: taken, given back, filled, copied. A row's name is its word offset in the block."""

from __future__ import annotations

from sglb.p4.native import abi
from sglb.switch.core import model as m
from sglb.switch.core.call import move_bytes, zero_bytes
from sglb.switch.core.jit import compiled, inlined
from sglb.switch.core.world import World


@compiled
def row_new(world: World) -> int:
    """An empty row, -1 (and HALT_ROWS) when all are in use.

    DATA and OUT are set; LENGTH and STORED are the caller's to set, what an entry point of the program
    reads too. The frame and the stored bytes are as somebody left them.
    """
    w, h = world.w, world.h
    row = w[m.ROW_FREE]
    if row >= 0:
        w[m.ROW_FREE] = w[row + m.R_NEXT]
    else:
        row = w[m.ROW_FRESH]
        if row >= w[m.ROW_END]:
            w[m.HALT] |= m.HALT_ROWS
            return -1
        w[m.ROW_FRESH] = row + w[m.ROW_WORDS]
    w[m.ROWS_USED] += 1
    if w[m.ROWS_USED] > w[m.ROWS_PEAK]:
        w[m.ROWS_PEAK] = w[m.ROWS_USED]
    w[row + m.R_NEXT] = -1
    w[row + abi.DATA] = w[m.BASE] + row * 8 + w[m.ROW_DATA]
    w[row + abi.OUT] = w[m.BASE] + w[m.SCRATCH]
    half = row * 2
    h[half + abi.FLAGS] = 0
    h[half + abi.INSTANCE_TYPE] = 0
    h[half + abi.EGRESS_RID] = 0
    h[half + abi.TRUNCATE] = 0
    h[half + m.RH_FAMILY] = 0
    h[half + m.RH_FLAGS] = 0
    h[half + m.RH_PASSES] = 0
    return row


@compiled
def row_free(world: World, row: int) -> None:
    """Gives a row back, with its blob and its place in its family."""
    w, h = world.w, world.h
    half = row * 2
    if h[half + m.RH_FLAGS] & m.RF_BLOB:
        _blob_free(world, blob_start(world, row) >> 3)
    if h[half + m.RH_FAMILY]:
        leave_family(world, row)
    w[row + m.R_NEXT] = w[m.ROW_FREE]
    w[m.ROW_FREE] = row
    w[m.ROWS_USED] -= 1


@compiled
def leave_family(world: World, row: int) -> None:
    """Takes a row out of its family, which ends with its last row."""
    w, h = world.w, world.h
    family = h[row * 2 + m.RH_FAMILY]
    h[row * 2 + m.RH_FAMILY] = 0
    at = w[m.FAMILIES_AT] + (family - 1) * m.FAMILY_WORDS
    w[at + m.FA_ROWS] -= 1
    if w[at + m.FA_ROWS] == 0:
        w[at + m.FA_ROWS] = w[m.FAMILY_FREE]
        w[m.FAMILY_FREE] = family


@compiled
def _blob_new(world: World) -> int:
    """Word offset of a blob, -1 (and HALT_BLOBS) when all are in use."""
    w = world.w
    blob = w[m.BLOB_FREE]
    if blob >= 0:
        w[m.BLOB_FREE] = w[blob]
        return blob
    blob = w[m.BLOB_FRESH]
    if blob >= w[m.BLOB_END]:
        w[m.HALT] |= m.HALT_BLOBS
        return -1
    w[m.BLOB_FRESH] = blob + (w[m.BLOB_BYTES] >> 3)
    return blob


@compiled
def _blob_free(world: World, blob: int) -> None:
    w = world.w
    w[blob] = w[m.BLOB_FREE]
    w[m.BLOB_FREE] = blob


@inlined
def data_at(world: World, row: int) -> int:
    """Byte offset in the block of a row's stored bytes."""
    return world.w[row + abi.DATA] - world.w[m.BASE]


@compiled
def row_room(world: World, row: int, stored: int) -> bool:
    """Lets DATA point to room for that many bytes: the row's own, or a blob's.

    What was stored is lost. False (and HALT_BLOBS) when no blob is free or it is too much for one.
    """
    w, h = world.w, world.h
    half = row * 2
    flags = h[half + m.RH_FLAGS]
    if stored <= w[m.ROW_ROOM]:
        if flags & m.RF_BLOB:
            _blob_free(world, blob_start(world, row) >> 3)
            h[half + m.RH_FLAGS] = flags & ~m.RF_BLOB
        w[row + abi.DATA] = w[m.BASE] + row * 8 + w[m.ROW_DATA]
        return True
    if stored > w[m.BLOB_BYTES]:
        w[m.HALT] |= m.HALT_BLOBS
        return False
    if not flags & m.RF_BLOB:
        blob = _blob_new(world)
        if blob < 0:
            return False
        h[half + m.RH_FLAGS] = flags | m.RF_BLOB
        w[row + abi.DATA] = w[m.BASE] + blob * 8
    else:
        # DATA may have moved within the blob; blobs lie one after the other from BLOBS_AT on.
        w[row + abi.DATA] = w[m.BASE] + blob_start(world, row)
    return True


@inlined
def blob_start(world: World, row: int) -> int:
    """Byte offset in the block of the blob that a row's DATA points into."""
    w = world.w
    first = w[m.BLOBS_AT] * 8
    size = w[m.BLOB_BYTES]
    return first + (data_at(world, row) - first) // size * size


@compiled
def _room(world: World, row: int) -> tuple[int, int]:
    """Byte offsets in the block of the room that DATA points into: its first byte, and its end."""
    w = world.w
    if world.h[row * 2 + m.RH_FLAGS] & m.RF_BLOB:
        start = blob_start(world, row)
        return start, start + w[m.BLOB_BYTES]
    return row * 8 + w[m.ROW_DATA], (row + w[m.ROW_WORDS]) * 8


@compiled
def _to_blob(world: World, row: int, skip: int, front: int, size: int) -> bool:
    """Moves what is stored, without its first `skip` bytes, into a blob, `front` bytes into it.

    `size` bytes are wanted in all. False (and HALT_BLOBS) when there is no such blob.
    """
    w, h = world.w, world.h
    half = row * 2
    blob = -1
    if size <= w[m.BLOB_BYTES] and not h[half + m.RH_FLAGS] & m.RF_BLOB:
        blob = _blob_new(world)
    if blob < 0:
        w[m.HALT] |= m.HALT_BLOBS
        return False
    at = w[m.BASE] + blob * 8
    keep = max(0, h[half + abi.STORED] - skip)
    move_bytes(at + front, w[row + abi.DATA] + skip, keep)
    h[half + m.RH_FLAGS] |= m.RF_BLOB
    w[row + abi.DATA] = at
    return True


@compiled
def row_widen(world: World, row: int) -> bool:
    """Stores as zeros what a program may look at of a packet's bytes that are not stored.

    False (and HALT_BLOBS) when there is no room.
    """
    w, h = world.w, world.h
    half = row * 2
    stored, wanted = h[half + abi.STORED], min(h[half + abi.LENGTH], w[m.PARSE_BYTES])
    _, end = _room(world, row)
    if data_at(world, row) + wanted > end and not _to_blob(world, row, 0, 0, wanted):
        return False
    zero_bytes(w[row + abi.DATA] + stored, wanted - stored)
    h[half + abi.STORED] = wanted
    return True


@compiled
def deparsed(world: World, row: int) -> bool:
    """Makes a row the packet that a deparser left: OUT, then what its parser had not consumed.

    The payload stays where it is as long as there is room before it. False (and HALT_BLOBS) when the
    new packet finds no room.
    """
    w, h = world.w, world.h
    half = row * 2
    out, skip = h[half + abi.OUT_LENGTH], h[half + abi.PAYLOAD_OFFSET]
    keep = max(0, h[half + abi.STORED] - skip)
    at = data_at(world, row) + skip - out
    if out != skip:
        start, end = _room(world, row)
        if at < start or at + out + keep > end:
            at = start
            if out + keep <= end - start:
                payload = w[row + abi.DATA] + skip
                move_bytes(w[m.BASE] + at + out, payload, keep)
            elif _to_blob(world, row, skip, out, out + keep):
                at = data_at(world, row)
            else:
                return False
    move_bytes(w[m.BASE] + at, w[row + abi.OUT], out)
    w[row + abi.DATA] = w[m.BASE] + at
    h[half + abi.LENGTH] += out - skip
    h[half + abi.STORED] = out + keep
    return True


@compiled
def row_store(world: World, row: int, address: int, stored: int, length: int) -> bool:
    """Makes a row a packet of `length` bytes, the first `stored` of which are copied from an address.

    False as `row_room`.
    """
    h = world.h
    if not row_room(world, row, stored):
        return False
    move_bytes(world.w[row + abi.DATA], address, stored)
    h[row * 2 + abi.LENGTH] = length
    h[row * 2 + abi.STORED] = stored
    return True


@compiled
def row_copy(world: World, row: int) -> int:
    """A twin of a row in no list, no buffer and no family; -1 when there is no room for it.

    Frame and bytes are the same; a truncation asked for so far is not inherited (as in BMv2).
    """
    w, h = world.w, world.h
    twin = row_new(world)
    if twin < 0:
        return -1
    base, half = w[m.BASE], twin * 2
    data, stored = w[row + abi.DATA], h[row * 2 + abi.STORED]
    kept = h[row * 2 + m.RH_FLAGS] & (m.RF_CLONE | m.RF_LIMIT)
    blob = h[row * 2 + m.RH_FLAGS] & m.RF_BLOB
    passes = h[row * 2 + m.RH_PASSES]
    # Up to the stored bytes, and those too where they are the row's own.
    count = w[m.ROW_DATA] if blob else data - (base + row * 8) + stored
    move_bytes(base + twin * 8, base + row * 8, count)
    w[twin + m.R_NEXT] = -1
    h[half + m.RH_FLAGS] = kept
    h[half + m.RH_PASSES] = passes
    h[half + m.RH_FAMILY] = 0
    h[half + abi.TRUNCATE] = 0
    w[twin + abi.DATA] = base + twin * 8 + (data - (base + row * 8))
    if blob and not row_store(world, twin, data, stored, h[row * 2 + abi.LENGTH]):
        row_free(world, twin)
        return -1
    return twin
