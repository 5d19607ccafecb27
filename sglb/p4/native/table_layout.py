"""How tables, registers, counters, meters and value sets lie in memory.

Native code and the Python objects of the target work on the same bytes; both take every place from
here. Nothing depends on what a table holds, only on its declaration, so a write never recompiles.

A *record* is what a lookup returns, at a stride of whole cache lines:

    +0  int32  action, -1 where nothing runs        +4  int32  hit: 1, or 0 for the default entry
    +8  int64 packets, int64 bytes                  (tables with a direct counter)
        int64 time of the last hit, ps              (tables with idle timeouts)
        action data, each value zero-extended in its natural size
        address of the choice                       (tables with an action profile)
        what the index needs: priority, order, the next record of the bucket, key words, ranges

and, before it, its meter (tables with a direct meter). A profile's *member* has one record for each
table that uses the profile, side by side in one block.

A *choice* is two words: how many members are alive, and the address of their blocks' addresses.

A packet's key is the fields' bits, first field foremost, as one number in words of 64 bits, the lowest
first. `Kind` says how an index finds the record for it:

    DENSE   an array of records' addresses, by key
    HASH    slots of (tag, record), open addressing, as many as a power of two; a free one has no record
    TRIE    nodes of 256 addresses: of a record, or of a node if the lowest bit is set; the first node
            may be wider
    GROUPS  one HASH for each combination of prefix lengths, the longest first; the first hit counts
    RULES   one HASH for each combination of masks, by the best priority in it, the highest first;
            where there are many masks, bit vectors as well, which are looked at instead

Bit vectors give each rule a bit, the best rule the lowest. For each nibble of the key, the lowest first,
and each of its 16 values there is the vector of the rules that allow it; those in all of a key's vectors
match, up to their ranges. With `HEAD_BLOCKS` 0 there are up to 64 rules and a vector is one word; at
`HEAD_RECORDS` are the rules' records, by bit. Else `HEAD_VECTORS` leads to as many pairs of addresses,
of the vectors and the records of a block of up to 512 rules; there a vector is eight words.

A tag is the key word where there is one, else the hash of them all. A *group* is the words (best
priority, address of slots, slots - 1, mask words …).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from sglb.p4 import ir
from sglb.p4.hashing import CrcModel, crc_start, crc_table
from sglb.p4.native import abi

# --- heads: one for each table and value set ---
HEAD_WORDS: Final = 10
HEAD_DEFAULT: Final = 0  #: address of the default entry's record
HEAD_INDEX: Final = 1  #: address of the array, slots, first node or groups
HEAD_EXTENT: Final = 2  #: slots - 1, groups, or how far a trie's key shifts to index the first node
HEAD_VECTORS: Final = (
    3  #: address of the bit vectors, or the list of their blocks; 0: use the groups
)
HEAD_BLOCKS: Final = 4  #: blocks of bit vectors
HEAD_RECORDS: Final = 5  #: address of the records' addresses, by bit, of vectors without blocks
HEAD_MEMBER: Final = 6  #: where this table's records are in a member's block
HEAD_NOTHING: Final = 7  #: address of the record with action -1
HEAD_MACHINE: Final = 8  #: address of the machine
HEAD_EMPTY: Final = 9  #: address of the profile's count of lookups that found nobody alive

# --- machine: further words of the machine than `abi` names ---
CUSTOM_CRC16: Final = 6  #: address of crc16_custom's model
CUSTOM_CRC32: Final = 7  #: address of crc32_custom's model

# --- records ---
RECORD_ALIGN: Final = 64
ACTION: Final = 0
HIT: Final = 4
COUNTER: Final = 8

# --- counters and meters ---
COUNTER_BYTES: Final = 16
METER_BYTES: Final = 128
METER_CONFIGURED: Final = 0  #: int32: 0 no, 1 two rates, 1 | METER_SINGLE_RATE one
METER_SINGLE_RATE: Final = 2  #: METER_PEAK and METER_PBURST are sums of both buckets then
METER_PACKETS: Final = 4  #: int32: 1 counts packets, 0 bytes
METER_LAST: Final = 8  #: int64, ps
METER_SURE: Final = 16  #: int128: tokens of the committed rate, in 1e-12 packets or bytes
METER_PEAK: Final = 32  #: int128
METER_CIR: Final = 48
METER_PIR: Final = 56
METER_CBURST: Final = 64
METER_PBURST: Final = 72
METER_COUNTS: Final = 80  #: three counters: green, yellow, red

# --- models of custom CRCs: words (start, final XOR, width, input reflected, flip, 0, 0, 0), table ---
CRC_START: Final = 0
CRC_FINAL: Final = 1
CRC_WIDTH: Final = 2
CRC_REFLECTED: Final = 3
CRC_FLIP: Final = 4
CRC_TABLE: Final = 8
CRC_WORDS: Final = CRC_TABLE + 256

WORD: Final = 8
BLOCK_WORDS: Final = 8  #: words of a bit vector in blocks
_ALL: Final = (1 << 64) - 1
#: Odd constants of a good spread (the digits of pi's hexadecimal expansion), one for each key word.
_MULTIPLIERS: Final = (0x243F6A8885A308D3, 0x13198A2E03707345, 0xA4093822299F31D1)


def natural_bytes(width: int) -> int:
    """Bytes that a value of `width` bits takes in memory: 1, 2, 4, 8, 16 or a multiple of 8."""
    if width <= 64:
        return max(1, 1 << ((width + 7) // 8 - 1).bit_length())
    return 16 if width <= 128 else -(-width // 64) * 8


def alignment(size_bytes: int) -> int:
    """What an address of a value of that size is a multiple of; loads and stores must say so.

    (LLVM takes wider integers to lie at multiples of 16.)
    """
    return size_bytes if size_bytes <= 16 else 8


def _align(offset: int, to: int) -> int:
    return -(-offset // to) * to


def place(widths: Sequence[int], offset: int = 0) -> tuple[tuple[int, ...], int]:
    """Offsets of values one after the other from `offset` on, and where they end."""
    offsets = []
    for width in widths:
        size = natural_bytes(width)
        offset = _align(offset, alignment(size))
        offsets.append(offset)
        offset += size
    return tuple(offsets), offset


# --- registers ---


def register_offsets(instance: ir.Instance) -> tuple[int, ...]:
    """Where an element's leaves are, in bytes from its start."""
    return place(instance.elements)[0]


def register_stride(instance: ir.Instance) -> int:
    """Bytes from one element to the next."""
    end = place(instance.elements)[1]
    widest = max((alignment(natural_bytes(w)) for w in instance.elements), default=1)
    return _align(end, widest)


# --- machine ---


def table_word(index: int) -> int:
    """The machine's word with the address of a table's head."""
    return abi.FIRST_TABLE + index


def instance_word(program: ir.Program, index: int) -> int:
    """The machine's word with the address of an instance's first element; 0 where it has none."""
    return abi.FIRST_TABLE + len(program.tables) + index


def value_set_word(program: ir.Program, index: int) -> int:
    """The machine's word with the address of a value set's head."""
    return abi.FIRST_TABLE + len(program.tables) + len(program.instances) + index


def machine_words(program: ir.Program) -> int:
    """Words of the machine."""
    return value_set_word(program, len(program.value_sets))


def state_words(program: ir.Program) -> int:
    """Words of the machine and, behind it, the tables' heads, where a switch keeps both together."""
    return machine_words(program) + sum(map(head_words, program.tables))


def crc_words(model: CrcModel) -> list[int]:
    """A custom CRC's parameters and table as native code reads them."""
    words = [0] * CRC_TABLE
    words[CRC_START] = crc_start(model)
    words[CRC_FINAL] = model.final_xor
    words[CRC_WIDTH] = model.width
    words[CRC_REFLECTED] = int(model.reflect_in)
    words[CRC_FLIP] = int(model.reflect_in != model.reflect_out)
    return [*words, *crc_table(model)]


# --- indices ---


class Kind(Enum):
    """How an index finds a record; see the module."""

    NONE = "none"
    DENSE = "dense"
    HASH = "hash"
    TRIE = "trie"
    GROUPS = "groups"
    RULES = "rules"


#: Places in an index that a trail has: the only one, the last slot, a trie's first and last nodes'.
TRAIL_PLACES: Final = {Kind.DENSE: 1, Kind.HASH: 1, Kind.TRIE: 2}

#: The longest key of an array, and of a trie, in bits.
_DENSE_BITS: Final = 12
_TRIE_BITS: Final = 64


@dataclass(frozen=True, slots=True)
class KeyShape:
    """What an index must know of a key: its width in bits, match kind and, for ranges, its order."""

    width: int
    kind: str
    signed: bool = False


@dataclass(frozen=True, slots=True)
class IndexLayout:
    """How a table or value set with these keys is indexed, and what its records hold for that.

    `words` is the length of a packet's key; the rest are offsets in a record, None where the kind
    needs none: `priority`, `order` and `next` (int64 each), `key` (masked key words), `ranges` (low and
    high of each range key, in natural size).
    """

    keys: tuple[KeyShape, ...]
    kind: Kind
    words: int
    priority: int | None
    order: int | None
    next: int | None
    key: int | None
    ranges: tuple[tuple[int, int, int], ...]
    end: int

    @property
    def bits(self) -> int:
        """Bits of a packet's key."""
        return sum(key.width for key in self.keys)

    @property
    def nibbles(self) -> int:
        """Groups of four bits in a packet's key."""
        return -(-self.bits // 4)

    @property
    def group_words(self) -> int:
        """Words of one group."""
        return 3 + self.words


def index_kind(keys: Sequence[KeyShape], size: int) -> Kind:
    """The kind that suits these keys, in a table of `size` entries."""
    kinds = {key.kind for key in keys}
    bits = sum(key.width for key in keys)
    if not keys:
        return Kind.NONE
    if kinds == {"exact"}:
        # An array may take as much memory as half-full slots would, or a page.
        small = bits <= _DENSE_BITS and (1 << bits) <= max(512, 4 * size)
        return Kind.DENSE if small else Kind.HASH
    if kinds <= {"exact", "lpm"}:
        single = len(keys) == 1 and bits <= _TRIE_BITS
        return Kind.TRIE if single else Kind.GROUPS
    return Kind.RULES


def index_layout(keys: Sequence[KeyShape], size: int, offset: int) -> IndexLayout:
    """The index of `keys`; `offset` is where its part of a record may begin."""
    kind = index_kind(keys, size)
    words = -(-sum(key.width for key in keys) // 64)
    priority = order = following = key_at = None
    ranges: list[tuple[int, int, int]] = []
    offset = _align(offset, WORD) if kind in (Kind.HASH, Kind.GROUPS, Kind.RULES) else offset
    if kind is Kind.RULES:
        priority, order, following = offset, offset + WORD, offset + 2 * WORD
        offset += 3 * WORD
    if words > 1 and kind in (Kind.HASH, Kind.GROUPS, Kind.RULES):
        key_at = offset
        offset += words * WORD
    if kind is Kind.RULES:
        for number, key in enumerate(keys):
            if key.kind == "range":
                (low, high), offset = place((key.width, key.width), offset)
                ranges.append((number, low, high))
    return IndexLayout(
        tuple(keys), kind, words, priority, order, following, key_at, tuple(ranges), offset
    )


def key_hash(words: Sequence[int]) -> int:
    """The hash of a key's words: each is XORed in, multiplied, and both halves of the product kept."""
    value = 0
    for number, word in enumerate(words):
        product = (value ^ word ^ number) * _MULTIPLIERS[number % len(_MULTIPLIERS)]
        value = product & _ALL ^ product >> 64
    return value


def multiplier(number: int) -> int:
    """What `key_hash` multiplies with at a word."""
    return _MULTIPLIERS[number % len(_MULTIPLIERS)]


# --- records ---


@dataclass(frozen=True, slots=True)
class RecordLayout:
    """Where a table's records hold what, in bytes from a record's address.

    `before` bytes lie before that address (the meter). `params[action][i]` is where parameter i of an
    action is. `last_hit` and `choice` are None for tables that have none.
    """

    before: int
    stride: int
    params: tuple[tuple[int, ...], ...]
    counter: int | None
    last_hit: int | None
    choice: int | None
    index: IndexLayout


def key_shapes(table: ir.Table) -> tuple[KeyShape, ...]:
    """The table's keys as an index sees them."""
    return tuple(KeyShape(key.width, key.kind, key.signed) for key in table.keys)


def record_layout(table: ir.Table) -> RecordLayout:
    """The layout of a table's records."""
    offset = COUNTER
    counter = last_hit = choice = None
    if table.direct_counter is not None:
        counter, offset = offset, offset + COUNTER_BYTES
    if table.support_timeout:
        last_hit, offset = offset, offset + WORD
    params = []
    end = offset
    for action in table.actions:
        offsets, action_end = place([width for _, width in action.params], offset)
        params.append(offsets)
        end = max(end, action_end)
    if table.implementation is not None:
        choice = _align(end, WORD)
        end = choice + WORD
    index = index_layout(key_shapes(table), max(table.size, len(table.entries)), end)
    before = 0 if table.direct_meter is None else METER_BYTES
    stride = before + _align(index.end, RECORD_ALIGN)
    return RecordLayout(before, stride, tuple(params), counter, last_hit, choice, index)


def head_words(table: ir.Table) -> int:
    """Words of a table's head: no more than it needs, as many heads lie side by side."""
    if table.implementation is not None:
        return HEAD_WORDS
    rules = record_layout(table).index.kind is Kind.RULES
    return HEAD_MEMBER if rules else HEAD_VECTORS


def trail_words(table: ir.Table) -> int:
    """Words of a trail that a lookup takes: places in the index, if it leaves any, then the record."""
    layout = record_layout(table)
    lines = 1 if layout.index.end <= RECORD_ALIGN else 2
    return lines + TRAIL_PLACES.get(layout.index.kind, 0)


def param_offsets(table: ir.Table) -> tuple[tuple[int, ...], ...]:
    """Where each action's parameters are in a result record: `[action][parameter]`, in bytes."""
    return record_layout(table).params


def value_set_shapes(decl: ir.ValueSet) -> tuple[KeyShape, ...]:
    """A value set's leaves as an index sees them."""
    return tuple(KeyShape(w, k) for w, k in zip(decl.widths, decl.kinds, strict=True))


def value_set_layout(decl: ir.ValueSet) -> IndexLayout:
    """The index of a value set; a member's record begins with what the index needs."""
    return index_layout(value_set_shapes(decl), decl.size, COUNTER)
