"""The border between native code and whoever calls it: packet rows and the machine.

A *packet row* is one packet on its way: a head of fixed fields, room for the caller, the frame (the
slots of the program that outlive a pass, packed by `layout`) and the packet's first bytes. Rows lie in
one array at a stride that is a multiple of 64 bytes; everything is little endian and aligned to its
size.

    bytes 0..127     head: three int64, then int32 fields (the constants below)
    bytes 128..191   the caller's own; native code never touches them
    bytes 192..      frame, `frame_bytes` long, then wherever DATA and OUT point

A packet may be longer than what is stored of it: `LENGTH` is its whole length, `STORED` what lies at
`DATA`, and every byte beyond reads as zero. So a simulated payload costs no memory. A program that
looks at more bytes than a row may store ends with STATUS_SHORT_ROW, never with wrong bits.

The *machine* is one switch's state: an int64 array whose words are addresses and small values.

Each entry point is `void name(machine*, row*)`:

    p4_parse, p4_verify_checksum, p4_ingress, p4_egress, p4_compute_checksum, p4_deparse
        the program's blocks, on the frame as it stands (the `Engine` protocol stands on them); behind
        the frame of such a row lie the slots that a pass keeps to itself, `NativeProgram.row_bytes` in
        all
    p4_ingress_pass
        zeroes the frame and sets ingress_port and ingress_global_timestamp, unless FLAG_KEEP_FRAME; sets
        packet_length and instance_type, runs parser, VerifyChecksum and ingress, fills the outputs
    p4_parse_pass
        zeroes the frame, sets ingress_port alone and runs the parser: what a clone of a received packet
        starts from
    p4_egress_pass
        sets the egress inputs, clears the requests, runs egress and, unless EGRESS_SPEC is then the
        drop port, ComputeChecksum and the deparser; the headers go to OUT, the payload stays where
        it is: the packet is OUT[:OUT_LENGTH] + DATA[PAYLOAD_OFFSET:LENGTH]
    p4_clear_metadata
        zeroes what a copy does not inherit: user metadata (headers excepted) and standard_metadata
    p4_preserve(machine*, from*, to*, int32 list)
        copies the slots of preserve list number `list` from one row's frame to another's
    p4_forward_batch(machine*, rows*, int64 stride, int64 count)
        an ingress pass for each row and, where that leaves a plain unicast packet, an egress pass as
        for an empty queue; EGRESS_PORT is -1 in the other rows

The caller promises that as many bytes as the packet has, up to `NativeProgram.max_parse_bytes`, can be
read at DATA, zeros where they aren't stored; where that is None, STORED bytes. No entry point writes at
DATA. After a STATUS other than STATUS_OK, STATUS and DIGEST_USED are all that means anything.
"""

from __future__ import annotations

from typing import Final

# --- row head: int64 fields, as indices into the row seen as int64 ---
NOW: Final = 0  #: in: time, ps
DATA: Final = 1  #: in: address of the stored bytes
OUT: Final = 2  #: in: address where the deparser writes (room for `max_header_bytes`)

# --- row head: int32 fields, as indices into the row seen as int32 ---
LENGTH: Final = 6  #: in: bytes of the packet, stored or not
STORED: Final = 7  #: in: bytes at DATA
FLAGS: Final = 8  #: in: FLAG_*
INGRESS_PORT: Final = 9  #: in of an ingress pass
INSTANCE_TYPE: Final = 10  #: in of both passes, as BMv2 numbers it
PACKET_LENGTH: Final = 11  #: in of both passes: standard_metadata.packet_length
EGRESS_PORT: Final = 12  #: in of an egress pass, as are the next five
EGRESS_RID: Final = 13
ENQ_TIME_US: Final = 14  #: modulo 2**32
ENQ_QDEPTH: Final = 15
DEQ_DELTA_US: Final = 16
DEQ_QDEPTH: Final = 17
EGRESS_SPEC: Final = 18  #: out of both passes
MCAST_GRP: Final = 19  #: out of an ingress pass
PRIORITY: Final = 20  #: out of an ingress pass
PARSED_BYTES: Final = 21  #: out: bytes of valid headers when the parser ended
HEADER_BYTES: Final = 22  #: out of both passes: bytes of valid headers at the end of the control
PAYLOAD_OFFSET: Final = 23  #: out of the parser: first byte that it did not consume
STATUS: Final = 24  #: out: STATUS_*, or the number (> 0) of the site in `NativeProgram.failures`
CLONE: Final = 25  #: out: clone session + 1, 0 for none (I2E after ingress, E2E after egress)
CLONE_LIST: Final = 26  #: out: preserve list of the clone
RESUBMIT: Final = 27  #: out: preserve list + 1, 0 for none
RECIRCULATE: Final = 28  #: out: preserve list + 1, 0 for none
TRUNCATE: Final = 29  #: out: bytes + 1, 0 for none; survives to the egress pass
OUT_LENGTH: Final = 30  #: out of the deparser: bytes written at OUT
DIGESTS: Final = 31  #: out: digests that this block pushed

HEAD_BYTES: Final = 128
OWN_WORD: Final = 16  #: first int64 of the caller's room
FRAME_BYTE: Final = 192
ROW_ALIGN: Final = 64

FLAG_KEEP_FRAME: Final = 1  #: the caller prepared the frame (resubmit, recirculate)

STATUS_OK: Final = 0
STATUS_SHORT_ROW: Final = -1  #: the program looked beyond STORED bytes that the row cannot hold

# --- machine: int64 words ---
RANDOM_STATE: Final = 0  #: the switch's SplitMix64 state (see `sglb.p4.random_stream`)
DROP_PORT: Final = 1  #: egress_spec that means drop
DIGEST_BUFFER: Final = 2  #: address of int64 words for digests
DIGEST_CAPACITY: Final = 3  #: words there
DIGEST_USED: Final = 4  #: words in use: records of (instance, number of words, words ...)
DIGEST_LOST: Final = 5  #: digests that found no room
# Words 6 and 7 lead to the custom CRCs' models (see `table_layout`).
TRAIL: Final = 8  #: address of TRAIL_WORDS int32, where each pass leaves where it read
FIRST_TABLE: Final = (
    9  #: address of each table's head, then of each instance, then of each value set
)

#: A trail tells where the next packet of the same flow will likely read: places in tables and
#: registers, each in a word of its own; a word that a pass doesn't come by keeps what it had. A word is
#: the number of a line of memory, an address without its lowest TRAIL_SHIFT bits, cut to 32 bits.
#: Ingress has the first words, then one is the caller's, and egress has those from EGRESS_TRAIL on.
TRAIL_WORDS: Final = 48
TRAIL_SHIFT: Final = 6
OWN_TRAIL: Final = 31
EGRESS_TRAIL: Final = 32
