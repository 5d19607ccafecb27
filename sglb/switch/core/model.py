"""Where everything lies in the memory of a native fabric: one block, sections of equal records.

All state of all nodes is one block of memory, seen as int64 (`w`), int32 (`h`) and bytes (`b`) at
once, so that a compiled function takes one argument, a record costs one index, and native code gets
plain addresses. The block begins with a header of `HEADER_WORDS` words: counts, and the word offset
at which each section begins (`*_AT`). Sections hold records of a fixed number of words; the
constants below are offsets into a record. A switch alone (a live one) is a fabric of one node.

    h = world.w; port = h[PORTS_AT] + p * PORT_WORDS; rate = h[port + P_RATE]

Numbers. Nodes count from 0, switches first, then hosts. Ports count through the whole fabric: the
ports of a node stand together, from N_FIRST_PORT on. Queues and priority groups: `port * CLASSES +
class`. Times are int64 picoseconds. Lists of packet rows are linked through R_NEXT; -1 ends them.
Everything is zero unless stated; `sglb.switch.core.build` lays it out.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from sglb.p4.native import abi

CLASSES: Final = 8  #: queues a port, and priority groups


class World(NamedTuple):
    """Three views of the one block."""

    w: npt.NDArray[np.int64]
    h: npt.NDArray[np.int32]
    b: npt.NDArray[np.uint8]


# --- header ---
HEADER_WORDS: Final = 128
BASE: Final = 0  #: address of the block
NOW: Final = 1  #: time of the event being handled, ps
HALT: Final = 2  #: HALT_* bits: why the driver must return to Python
FAILED_NODE: Final = 3
FAILED_WHAT: Final = 4
NODES: Final = 8
SWITCHES: Final = 9
PORTS: Final = 10
ROWS: Final = 11
QPS: Final = 12
FLOWS: Final = 13
HOSTS: Final = 14
HEAPS: Final = 15
NODES_AT: Final = 32
PORTS_AT: Final = 33
QUEUES_AT: Final = 34
GROUPS_AT: Final = 35  #: ingress priority groups (PFC)
ROWS_AT: Final = 36
HEAPS_AT: Final = 37  #: one record a heap
EVENTS_AT: Final = 38  #: the heaps' event records
PROGRAMS_AT: Final = 39
LOG_AT: Final = 40
BLOBS_AT: Final = 41
TIMERS_AT: Final = 42  #: packet generator applications, 8 a switch
COPIES_AT: Final = 43  #: (port, rid) pairs that multicast groups and clone sessions point to
MCAST_AT: Final = 44  #: per switch: MCAST_GROUPS records of (first copy, count)
CLONES_AT: Final = 45  #: per switch: CLONE_SESSIONS records
DROPS_AT: Final = (
    46  #: per port: DROP_REASONS counters; then one block a node for drops without port
)
FAMILIES_AT: Final = 47  #: counters of further passes and clones of one received packet
HOSTS_AT: Final = 48
QPS_AT: Final = 49
FLOWS_AT: Final = 50
RINGS_AT: Final = 51  #: whatever a host's queue pairs keep per packet
TEMPLATES_AT: Final = 52  #: header bytes of queue pairs
DEAD_AT: Final = 53  #: per port: DEAD_WORDS words, bit d: cannot reach switch d (observer only)
CPU_AT: Final = 54  #: frames for the control plane: row numbers in order
CONFIG_AT: Final = 55  #: CFG_* words
ROW_WORDS: Final = 64  #: int64 words of a packet row (its stride / 8)
ROW_FREE: Final = 65  #: first free row, -1 when none
ROWS_USED: Final = 66
ROWS_PEAK: Final = 67
ROW_DATA: Final = 68  #: byte offset of the stored bytes in a row
ROW_ROOM: Final = 69  #: bytes that can be stored in a row
BLOB_BYTES: Final = 70  #: size of a blob: stored bytes of a frame too long for its row
BLOB_FREE: Final = 71
SCRATCH: Final = 72  #: byte offset in the block of room for a deparsed packet
LOG_USED: Final = 73
LOG_CAPACITY: Final = 74
CPU_USED: Final = 75
CPU_CAPACITY: Final = 76
FAMILY_FREE: Final = 77
DEAD_ANY: Final = 78  #: whether any dead bit is set
DEAD_WORDS: Final = 79
HOPS: Final = 80  #: frames that a wire delivered (or lost): packet-hops
EVENTS_RUN: Final = 81
FLOWS_OPEN: Final = 82
MCAST_GROUPS: Final = 83
CLONE_SESSIONS: Final = 84
SEED: Final = 85

HALT_ROWS: Final = 1  #: no free row
HALT_HEAP: Final = 2  #: a heap is full
HALT_PROGRAM: Final = 4  #: a program ended with a status that the switch cannot live with
HALT_LOG: Final = 8  #: the log is nearly full: Python drains it and calls again
HALT_CPU: Final = 16  #: frames wait for the control plane
HALT_DONE: Final = 32  #: every flow is complete
HALT_BLOBS: Final = 64

# --- packet rows: the caller's room of `abi`, int64 words and (H) int32 halves, from the row's start ---
R_NEXT: Final = abi.OWN_WORD  #: next row of the list that this one is in, -1 for none
R_ENQ: Final = abi.OWN_WORD + 1  #: when it was queued, ps
R_TIME: Final = (
    abi.OWN_WORD + 2
)  #: when the list's owner is to act on it, ps (arrival on a wire ...)
R_START: Final = abi.OWN_WORD + 3  #: when its first bit left, ps
_H: Final = 2 * (abi.OWN_WORD + 4)
RH_BYTES: Final = _H  #: frame length as queued
RH_CELLS: Final = _H + 1
RH_IN_PORT: Final = _H + 2  #: global port it came in by (-1: control plane, event port)
RH_OUT_PORT: Final = _H + 3  #: global port it is queued for or on the wire from
RH_QUEUE: Final = _H + 4
RH_CUTS: Final = _H + 5  #: the port's P_CUTS when its last bit was to leave
RH_FAMILY: Final = _H + 6  #: record in FAMILIES
RH_FLAGS: Final = _H + 7  #: RF_* bits, passes in the upper 16

RF_CLONE: Final = 1
RF_BLOB: Final = 2  #: DATA points to a blob
RF_EGRESS: Final = 4  #: the buffer counts it with its egress queue
RF_GROUP: Final = 8  #: the buffer counts it with its ingress priority group
RF_LIMIT: Final = 16  #: a clone session truncates it to abi.TRUNCATE

# --- nodes ---
NODE_WORDS: Final = 64
N_KIND: Final = 0  #: 0 switch, 1 host
N_FIRST_PORT: Final = 1
N_PORTS: Final = 2
N_HEAP: Final = 3
N_PROGRAM: Final = 4  #: record in PROGRAMS
N_MACHINE: Final = 5  #: address of the machine array
N_CPU_PORT: Final = 6  #: global port number of the CPU port
N_INGRESS_PS: Final = 7
N_EGRESS_PS: Final = 8
N_AGAIN_PS: Final = 9  #: recirculation latency
N_MAX_PASSES: Final = 10
N_MAX_COPIES: Final = 11
N_DEPTH_UNIT: Final = 12  #: 0 packets, 1 bytes, 2 cells
N_CELL_BYTES: Final = 13
N_DROP_PORT: Final = 14
N_EVENT_PORT: Final = 15
N_OVERHEAD: Final = 16  #: bytes a frame takes on the wire beside its own
N_ALIVE: Final = 17  #: the switch runs (0: its packets are lost)
N_PIPE_HEAD: Final = 18  #: packets between ingress and their queue (constant delay: a list)
N_PIPE_TAIL: Final = 19
N_RESUBMIT_HEAD: Final = 20
N_RESUBMIT_TAIL: Final = 21
N_RECIRC_HEAD: Final = 22
N_RECIRC_TAIL: Final = 23
N_INJECT_HEAD: Final = 24  #: frames from the control plane and port events, by time
N_INJECT_TAIL: Final = 25
N_PORT_OF: Final = 26  #: word offset of a table of 512: P4 port number -> global port, -1
N_HOST: Final = 27  #: record in HOSTS
N_ID: Final = 28  #: id in the Topology
N_SHARED_USED: Final = 32  #: traffic manager: bytes of the shared pool in use
N_SHARED_BYTES: Final = 33
N_SHARED_PEAK: Final = 34
N_HEADROOM_USED: Final = 35
N_TM_CONFIG: Final = 36  #: record of class settings in CONFIG
N_HEADROOM_PEAK: Final = 38
N_CLASSES: Final = 39  #: 8 bits each, bit c of: strict, lossless, the port has such a queue, watched
N_RNG: Final = 37  #: SplitMix64 state of the node's own choices (never the program's)

# --- ports ---
PORT_WORDS: Final = 40
P_NODE: Final = 0
P_NUMBER: Final = 1  #: P4 port number
P_PEER: Final = 2  #: global port at the other end, -1 for none
P_RATE: Final = 3  #: bit/s, 0 sends in no time
P_DELAY: Final = 4  #: ps to the peer
P_UP: Final = 5  #: the truth on the wire
P_LIVE: Final = 6  #: what the node knows
P_CUTS: Final = 7
P_FREE: Final = 8  #: when the wire is free again, ps
P_WAKING: Final = 9  #: a FREE event is in the heap
P_QUEUED: Final = 10  #: packets in all queues
P_WIRE_HEAD: Final = 11  #: frames on the way to the peer (or being sent), in order of arrival
P_WIRE_TAIL: Final = 12
P_PAUSE_HEAD: Final = 13  #: MAC control frames on the way, in order of arrival
P_PAUSE_TAIL: Final = 14
P_PAUSED: Final = 15  #: bit c: the peer has paused class c
P_SENT_XOFF: Final = 16  #: bit c: this port has paused the peer's class c
P_BLACKHOLE: Final = 17  #: frames sent here vanish (one direction)
P_LOSS: Final = (
    18  #: random loss of frames sent here: probability * 2**32, SyncMesh frames excluded
)
P_LOSS_SYNC: Final = 19  #: the same for SyncMesh frames
P_BER: Final = 20  #: bit error rate * 2**62
P_RNG: Final = 21  #: SplitMix64 state of the wire
P_RX_PACKETS: Final = 22
P_RX_BYTES: Final = 23
P_TX_PACKETS: Final = 24
P_TX_BYTES: Final = 25
P_ROUND: Final = 26  #: DWRR: class being served
P_CUT_AT: Final = 27  #: time of the last cut, ps
P_PAUSE_RX: Final = 28  #: pause frames received and sent
P_PAUSE_TX: Final = 29
P_PAUSED_PS: Final = 30  #: time during which any class was paused, ps
P_PAUSED_SINCE: Final = 31
P_CREDIT: Final = 32  #: 1 while a frame's pass through egress takes the wire
P_READY: Final = 33  #: bit c: packets of class c wait
P_IGNORE: Final = 34  #: bit c: the watchdog sends class c although the peer has paused it
P_RESPONSE: Final = 35  #: from a pause frame's last bit to its effect on what is picked, ps

# --- queues: port * CLASSES + class ---
QUEUE_WORDS: Final = 24
Q_HEAD: Final = 0
Q_TAIL: Final = 1
Q_PACKETS: Final = 2
Q_BYTES: Final = 3
Q_CELLS: Final = 4
Q_MAX_BYTES: Final = 5
Q_MAX_PACKETS: Final = 6
Q_DEFICIT: Final = 7
Q_PAUSE_UNTIL: Final = 8  #: when a pause from the peer runs out, ps
Q_PAUSED_AT: Final = 9  #: since when the class has been paused without a break
Q_WATCHDOG: Final = 10  #: 0 quiet, 1 armed, 2 storm (drops or forwards)
Q_COUNTED: Final = 11  #: bytes that the buffer counts here: of packets without a priority group
Q_ALARM: Final = 12  #: time of the EV_PAUSE_END in the heap that counts, 0 for none
Q_WATCH_AT: Final = 13  #: watchdog: when a storm begins (armed) or is to be over (storm)
Q_STORMS: Final = 14
Q_PAUSE_RX: Final = 15  #: pause frames for this class that asked for a pause, received and sent
Q_PAUSE_TX: Final = 16
Q_PAUSED_PS: Final = 17  #: time during which the class was paused

# --- ingress priority groups: port * CLASSES + class ---
GROUP_WORDS: Final = 8
G_BYTES: Final = 0  #: bytes in the shared pool (reserved part included)
G_HEADROOM: Final = 1  #: bytes in headroom
G_MAX_BYTES: Final = 2
G_MAX_HEADROOM: Final = 3
G_XOFF: Final = 4  #: the peer has been told to stop
G_REFRESH: Final = 5  #: when its pause must be renewed, ps
G_DROPS: Final = 6
G_ROOM: Final = 7  #: headroom, bytes; as the rate and length of the port's link demand

# --- traffic manager settings: one record a switch kind in CONFIG, words a class ---
CFG_CLASS_WORDS: Final = 16
C_STRICT: Final = 0  #: 1 strict priority (highest class first), 0 DWRR
C_QUANTUM: Final = 1  #: DWRR bytes a round
C_LOSSLESS: Final = 2
C_ALPHA_NUM: Final = 3  #: dynamic threshold alpha = num / den
C_ALPHA_DEN: Final = 4  #: 0: no dynamic threshold
C_RESERVED: Final = 5  #: bytes of its own before the shared pool is used
C_XOFF: Final = 6  #: static XOFF threshold of a priority group, bytes; 0: dynamic by alpha
C_XON_OFFSET: Final = 7  #: XON when this many bytes below XOFF
C_LIMIT: Final = 9  #: tail drop of an egress queue, bytes; -1 for none
C_LIMIT_PACKETS: Final = 10  #: -1 for none
C_PAUSE_QUANTA: Final = 11  #: what a pause frame asks for, times of 512 bits
C_WATCH_PS: Final = 12  #: watchdog detection, ps; 0 off
C_RESTORE_PS: Final = 13
C_WATCH_DROP: Final = 14  #: 1: a storming queue drops, 0: it ignores the pause
CFG_WORDS: Final = CFG_CLASS_WORDS * CLASSES

# --- programs ---
PROGRAM_WORDS: Final = 16
F_INGRESS: Final = 0  #: addresses of the entry points of `abi`
F_EGRESS: Final = 1
F_PARSE: Final = 2
F_CLEAR: Final = 3
F_PRESERVE: Final = 4
F_FRAME_BYTES: Final = 5

# --- heaps and events ---
HEAP_WORDS: Final = 4
HEAP_FIRST: Final = 0  #: first event record (in records, from EVENTS_AT)
HEAP_ROOM: Final = 1
HEAP_SIZE: Final = 2
EVENT_WORDS: Final = 4
E_TIME: Final = 0
E_ORDER: Final = (
    1  #: node << 40 | kind << 32 | index: unique among live events but for stale timers
)
E_ARG: Final = 2

# kinds of events; index in brackets. At one time a node's events run in this order.
EV_INJECT: Final = 0  #: [0] control-plane frames and port events
EV_PAUSE: Final = 1  #: [local port] a pause frame arrives
EV_WIRE: Final = 2  #: [local port] a frame arrives
EV_PIPE: Final = 3  #: [0] ingress latency over: to the queue
EV_RESUBMIT: Final = 4  #: [0]
EV_RECIRC: Final = 5  #: [0]
EV_TIMER: Final = 6  #: [application] packet generator
EV_FREE: Final = 7  #: [local port] the wire is free
EV_PAUSE_END: Final = 8  #: [local port * CLASSES + class] pause over, watchdog, refresh
EV_FLOW: Final = 9  #: [flow of the host] a flow's start time
EV_QP: Final = 10  #: [queue pair of the host] retransmission timer
EV_RATE: Final = 11  #: [queue pair of the host] the NIC's rate limiter lets it send again
EV_DCQCN: Final = 12  #: [queue pair of the host * 2 + timer] alpha and increase timers
EV_ACK: Final = 13  #: [queue pair of the host] a coalesced acknowledge is due

# --- replication ---
MCAST_WORDS: Final = 2  #: first copy (in COPIES records), count (-1: no such group)
CLONE_WORDS: Final = 4  #: first copy, count (-1: no such session), class of service, packet length
COPY_WORDS: Final = 2  #: P4 port number, rid

# --- packet generator ---
TIMER_WORDS: Final = 16
T_RUNS: Final = 0
T_PERIOD: Final = 1
T_BATCH: Final = 2
T_PACKET: Final = 3
T_BATCH_PACKETS: Final = 4
T_GAP: Final = 5
T_BATCHES: Final = 6  #: -1 never ends
T_NEXT_BATCH: Final = 7  #: when the next batch begins, ps
T_PAYLOAD: Final = 8  #: byte offset in the block
T_PAYLOAD_BYTES: Final = 9
T_GENERATION: Final = 10  #: stale events carry an older one in E_ARG

# --- why a packet was lost: order of `sglb.switch.ports.DropReason`, then what only a fabric has ---
DROP_REASONS: Final = 24

# --- log records: what an observer would see; Python turns them into `sglb.fabric.events` ---
LOG_WORDS: Final = 6
L_TIME: Final = 0
L_KIND: Final = 1
L_NODE: Final = 2
L_PORT: Final = 3  #: global port, -1 for none
L_A: Final = 4
L_B: Final = 5
LOG_LOST: Final = 1  #: A: reason; B: traffic << 32 | destination switch
LOG_NOTE_SENT: Final = 2  #: A: origin; B: down
LOG_NOTE_RECEIVED: Final = 3
LOG_DEAD_PATH: Final = 4  #: A: destination switch
LOG_FLOW_STARTED: Final = 5  #: A: flow
LOG_FLOW_COMPLETED: Final = 6
LOG_PAUSE: Final = 7  #: A: class; B: 1 XOFF sent, 0 XON sent
LOG_WATCHDOG: Final = 8  #: A: class; B: 1 storm begins, 0 ends
