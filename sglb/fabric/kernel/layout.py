"""Where everything of the hosts lies: their parts of the block of `sglb.switch.core.model`.

Records of HOSTS, QPS, FLOWS and TEMPLATES have the words below; RINGS has no records: parts of flows,
gates between flows, and what queue pairs keep per packet lie there. Offsets that one record keeps of
another are word offsets in the whole block (`_H`: int32 offsets), -1 for none.

A queue pair has two ends, one record each: a sender at one host and a receiver at the other; each is
written by its own host's events only. A host's ends stand together in the order they were made, so
that a queue pair number leads to its record by subtraction.
"""

from __future__ import annotations

from typing import Final

from sglb.fabric.host import FIRST_QP
from sglb.switch.core.model import CLASSES as CLASSES

FIRST_QPN: Final = FIRST_QP  #: queue pair number of a host's first end

# --- hosts ---
HOST_WORDS: Final = 128
H_NODE: Final = 0
H_PORT: Final = 1  #: global port number
H_FIRST_QP: Final = 2  #: offset of its first end, and their number
H_QPS: Final = 3
H_FIRST_FLOW: Final = 4  #: offset of its first flow (by start time, id), their number, those begun
H_FLOWS: Final = 5
H_NEXT_FLOW: Final = 6
H_SENDING: Final = 7  #: the sender whose frame is on the wire
H_ACK_HEAD: Final = 8  #: rows: acknowledges that wait, in order
H_ACK_TAIL: Final = 9
H_CNP_HEAD: Final = 10
H_CNP_TAIL: Final = 11
H_WAIT_MASK: Final = 12  #: bit c: senders of class c wait
H_LENGTH: Final = 13  #: the last frame length and rate, and the time that took
H_RATE: Final = 14
H_TOOK: Final = 15
H_WAIT: Final = 16  #: head and tail of waiting senders, for each class
H_IPV6: Final = 32  #: 1 for IPv6
H_MTU: Final = 33  #: payload bytes
H_WINDOW: Final = 34  #: packets
H_ACK_EVERY: Final = 35
H_RTO: Final = 36  #: ps, as the next two
H_RTO_MAX: Final = 37
H_REORDER: Final = 38
H_GO_BACK_N: Final = 39
H_NACK: Final = 40
H_ACK_TIMER: Final = 41  #: ps, 0 off
H_ACK_CLASS: Final = 42
H_CNP_CLASS: Final = 43
H_CNP_TOS: Final = 44
H_MAC: Final = 45  #: its six bytes as they lie in memory
H_IP: Final = 46  #: its address as it lies in memory: one word, for IPv6 two
H_DCQCN: Final = 48  #: 1 on; then the parameters of `sglb.fabric.dcqcn_config`
HD_TIMER: Final = 49
HD_BYTES: Final = 50
HD_THRESHOLD: Final = 51
HD_AI: Final = 52
HD_HAI: Final = 53
HD_MIN_RATE: Final = 54
HD_G: Final = 55
HD_ALPHA_TIMER: Final = 56
HD_INITIAL_ALPHA: Final = 57
HD_ALPHA_AT_CNP: Final = 58
HD_SHIFT: Final = 59
HD_MIN_PERCENT: Final = 60
HD_INTERVAL: Final = 61
HD_FIRST_RATE: Final = 62
HD_CLAMP: Final = 63
HD_CNP_INTERVAL: Final = 64
HS_DATA_SENT: Final = 72  #: counters of frames
HS_ACKS_SENT: Final = 73
HS_DATA_RECEIVED: Final = 74
HS_ACKS_RECEIVED: Final = 75
HS_CNPS_SENT: Final = 76
HS_CNPS_RECEIVED: Final = 77
HS_BAD: Final = 80  #: frames dropped, by `BAD_REASONS`

BAD_MAC: Final = 0
BAD_SHORT: Final = 1
BAD_ETHERTYPE: Final = 2
BAD_ROCE: Final = 3
BAD_LENGTH: Final = 4
BAD_CHECKSUM: Final = 5
BAD_IP: Final = 6
BAD_OPCODE: Final = 7
BAD_QP: Final = 8
BAD_PATH: Final = 9
BAD_AETH: Final = 10
BAD_NAK: Final = 11
BAD_REASONS: Final = (
    "for another MAC address",
    "too short",
    "not IP",
    "not RoCEv2",
    "bad UDP length",
    "bad IPv4 checksum",
    "for another IP address",
    "unexpected opcode",
    "no such queue pair",
    "not from the queue pair's peer",
    "bad AETH",
    "not a positive acknowledge",
)

# --- ends of queue pairs ---
QP_WORDS: Final = 64
E_SENDS: Final = 0  #: 1 sender, 0 receiver
E_INDEX: Final = 1  #: place among the host's ends
E_PEER: Final = 2  #: the other end
E_CLASS: Final = 3
E_TEMPLATE: Final = 4
E_FIRST_PSN: Final = 5
E_RING_H: Final = 6  #: what it keeps per packet
E_MASK: Final = 7  #: packets that the ring has room for, less one
E_HOST: Final = 8
# Sender. Packets count from 0 in growing integers; only frames have PSNs.
S_BASE: Final = 9  #: first packet not acknowledged
S_NEXT: Final = 10  #: next packet to send
S_END: Final = 11  #: packets posted
S_HIGH: Final = 12  #: go-back-N: packets that have ever been sent
S_UNDER_WAY: Final = 13
S_SLOTS: Final = 14  #: offset of SLOT_WORDS words a packet under way
S_OLDEST: Final = 15  #: slots in order of sending
S_NEWEST: Final = 16
S_FREE: Final = 17  #: free slots
S_LOST: Final = 18  #: places in the ring of packets lost, in order of the finding
S_LOST_TAIL: Final = 19
S_SACKED: Final = 20  #: bits set in the ring's two bitmaps
S_AGAIN: Final = 21
S_RTT: Final = 22
S_RTT_VAR: Final = 23
S_RTT_MIN: Final = 24
S_NEWEST_ACKED: Final = 25
S_NEWEST_RTT: Final = 26
S_BACKOFF: Final = 27
S_TIMER: Final = 28  #: when the retransmission timer is due, -1 for never
S_PROGRESS: Final = 29  #: go-back-N: since when the oldest packet's timeout runs
S_TIMED: Final = 30  #: go-back-N: the packet whose round trip is being measured
S_TIMED_AT: Final = 31  #: when it was sent (selective repeat: see `send`)
S_WAITING: Final = 32
S_NEXT_WAITING: Final = 33
S_FIRST_PART: Final = 34
S_LAST_PART: Final = 35
S_SEND_PART: Final = 36  #: part that the next packet belongs to (or the one before it)
S_ACK_PART: Final = 37  #: first part that is not acknowledged
SS_SENT: Final = 38  #: counters
SS_RESENT: Final = 39
SS_TIMEOUTS: Final = 40
SS_LOSSES: Final = 41
SS_ACKS: Final = 42
SS_BAD_ACKS: Final = 43
SS_NAKS: Final = 44
SS_CNPS: Final = 45
D_ACTIVE: Final = 46  #: the rate is below the link's
D_RATE: Final = 47  #: bit/s
D_TARGET: Final = 48
D_ALPHA: Final = 49  #: in 2^-30
D_ALPHA_AT: Final = 50  #: beginning of the alpha timer's present period, -1 before the first CNP
D_CNP: Final = 51  #: a CNP came in that period
D_CUT_AT: Final = 52  #: time of the last decrease
D_TIME_STAGE: Final = 53
D_BYTE_STAGE: Final = 54
D_COUNTED: Final = 55  #: bytes sent since the byte counter's last round
D_TIMER_AT: Final = 56  #: when the increase timer is due
D_TIMER_LIVE: Final = 57  #: time of its event in the heap, -1 for none
D_SENT_AT: Final = 58  #: when the last frame began to leave, and its bits on the wire
D_SENT_BITS: Final = 59
D_PACED_AT: Final = 60  #: no frame before this time
D_WAKE_AT: Final = 61  #: time of the EV_RATE that counts, -1 for none
S_EVENT: Final = 62  #: times of the next EV_QP in the heap and of a later one, -1 for none
S_LATER: Final = 63
# Receiver.
R_EXPECTED: Final = 10
R_HIGHEST: Final = 11
R_NAK_SENT: Final = 12
R_LAST_PART: Final = 13  #: part delivered last
R_MESSAGES: Final = 14
R_LAST_CNP: Final = 15  #: -1 before the first
R_ACK_AT: Final = 16  #: when an acknowledge is due, -1 for none
R_ACK_LIVE: Final = 17  #: time of the EV_ACK in the heap, -1 for none
RS_RECEIVED: Final = 18  #: counters
RS_DUPLICATES: Final = 19
RS_OUT_OF_RANGE: Final = 20
RS_REORDERED: Final = 21
RS_EXTENT: Final = 22
RS_CE: Final = 23
RS_CNPS: Final = 24
RS_NAKS: Final = 25

# What a selective repeat sender keeps: for each packet one int32 (0 nothing, > 0 slot + 1, < 0 a link
# of the list of losses), two bitmaps (acknowledged, sent again), then slots of two words: time sent;
# place in the ring, next slot << 16, previous slot << 32. A receiver: two bitmaps (arrived, ends a
# message).
SLOT_WORDS: Final = 2
NO_SLOT: Final = 0xFFFF
NO_LOST: Final = 2047

# --- header bytes of an end, and what its peer's frames must have ---
TEMPLATE_WORDS: Final = 16  #: ten words of header (IPv4: seven)
T_PEER: Final = 10  #: IPv4: one word, source and destination; IPv6: four
T_SUM: Final = 11  #: IPv4: sum of the header's halves without TOS, length and checksum
T_PORTS: Final = 14  #: UDP ports that the peer's frames have
T_TOS: Final = 15

# --- flows and their parts, one part a queue pair ---
FLOW_WORDS: Final = 16
FL_ID: Final = 0
FL_HOST: Final = 1
FL_START: Final = 2
FL_WAITS: Final = 3  #: conditions not met
FL_PARTS: Final = 4
FL_LEFT: Final = 5  #: parts that the receiver does not have whole
FL_UNACKED: Final = 6  #: parts that the sender does not know arrived
FL_FIRST_PART: Final = 7
FL_OPENS: Final = 8  #: list of gates that wait for its receiver to have all, and their number
FL_OPENS_COUNT: Final = 9
FL_SENT: Final = 10  #: list of gates that wait for its sender to know so
FL_SENT_COUNT: Final = 11
FL_DELAY: Final = 12  #: from the opening of its own gate to its start, ps
FL_INDEX: Final = 13  #: place among its host's flows

# What several flows wait for. It opens when all its members are complete.
GATE_WORDS: Final = 4
GT_LEFT: Final = 0  #: members that are not
GT_TIME: Final = 1  #: the latest completion so far
GT_FLOWS: Final = 2  #: list of the flows behind it, and their number
GT_COUNT: Final = 3

PART_WORDS: Final = 6
PT_FLOW: Final = 0
PT_BYTES: Final = 1
PT_PACKETS: Final = 2
PT_START: Final = 3  #: its first packet
PT_NEXT: Final = 4  #: next part of the queue pair
PT_QP: Final = 5  #: its sender
