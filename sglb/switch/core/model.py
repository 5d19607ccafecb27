"""Where everything lies in the memory of a native fabric: one block, sections of equal records.

All state of all nodes is one block of memory, seen as int64 (`w`), int32 (`h`) and bytes (`b`) at
once, so that a compiled function takes one argument, a record costs one index, and native code gets
plain addresses. The block begins with a header of `HEADER_WORDS` words: counts, and the word offset
at which each section begins (`*_AT`). Sections hold records of a fixed number of words; the
constants below are offsets into a record. A switch alone (a live one) is a fabric of one node.

    w = world.w; port = w[PORTS_AT] + p * PORT_WORDS; rate = w[port + P_RATE]

Numbers. Nodes count from 0, switches first, then hosts. Ports count through the whole fabric: the
ports of a node stand together, from N_FIRST_PORT on. Queues and priority groups: `port * CLASSES +
class`. Times are int64 picoseconds. Lists of packet rows are linked through R_NEXT; -1 ends them.
Everything is zero unless stated; `sglb.switch.core.memory` lays it out.
"""

from __future__ import annotations

from typing import Final

from sglb.p4.native import abi
from sglb.switch.core.world import World as World

CLASSES: Final = 8  #: queues a port, and priority groups


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
FIRSTS_AT: Final = 56  #: per heap: no event is before that time; the driver's to set after events
ACTIVE_AT: Final = 57  #: the driver's: heaps with events in the window
TRAILS_AT: Final = 59  #: per switch: TRAILS records, see `trails`
PIPES_AT: Final = 60  #: a record a switch, see below
AHEAD_AT: Final = 58  #: its notes on the rows that come next: AHEAD_NODES times AHEAD_WORDS words
ROW_WORDS: Final = 64  #: int64 words of a packet row (its stride / 8)
ROW_FREE: Final = 65  #: first row that was given back, -1 when none
ROWS_USED: Final = 66
ROWS_PEAK: Final = 67
ROW_DATA: Final = 68  #: byte offset of the stored bytes in a row
ROW_ROOM: Final = 69  #: bytes that can be stored in a row
BLOB_BYTES: Final = 70  #: size of a blob: stored bytes of a frame too long for its row
BLOB_FREE: Final = 71  #: word offset of the first blob that was given back, -1 when none
SCRATCH: Final = 72  #: byte offset in the block of room for a deparsed packet
LOG_USED: Final = 73
LOG_CAPACITY: Final = 74
CPU_USED: Final = 75
LOOKS_AHEAD: Final = 76  #: whether the driver brings near what the next nodes need
FAMILY_FREE: Final = 77
DEAD_ANY: Final = 78  #: whether any dead bit is set
DEAD_WORDS: Final = 79
HOPS: Final = 80  #: frames that a wire delivered (or lost): packet-hops
EVENTS_RUN: Final = 81
FLOWS_OPEN: Final = 82
MCAST_GROUPS: Final = 83
CLONE_SESSIONS: Final = 84
SEED: Final = 85
ROW_FRESH: Final = 86  #: word offset of the first row that was never used; rows end at ROW_END
ROW_END: Final = 87
BLOB_FRESH: Final = 88
BLOB_END: Final = 89
FAMILY_FRESH: Final = 90
OTHER_SCRATCH: Final = 92  #: byte offset in the block of more such room
FAILED_STATUS: Final = 93
NO_TIME: Final = 91  #: NEVER, for who needs a place that holds it
LOG_OVERRUN: Final = 94  #: records that found no room: the driver came too late
WIRE_AT: Final = 98  #: a live switch's sockets, see `sglb.switch.wire.layout`
PARSE_BYTES: Final = (
    96  #: bytes that a program may look at, hence stored (as zeros) if in the packet
)

HALT_ROWS: Final = 1  #: no free row
HALT_HEAP: Final = 2  #: a heap is full
HALT_PROGRAM: Final = 4  #: a program ended with a status that the switch cannot live with
HALT_LOG: Final = 8  #: the log is nearly full: Python drains it and calls again
HALT_CPU: Final = 16  #: frames wait for the control plane
HALT_DONE: Final = 32  #: every flow is complete
HALT_BLOBS: Final = 64  #: no free blob, or a frame that is too long even for one
HALT_DIGEST: Final = 128  #: digests wait for the control plane

# --- pipelines: for whoever looks ahead, the last rows that came to each switch's list ---
PIPE_WORDS: Final = 16
PI_PUT: Final = 0  #: rows that have ever come, and that have gone
PI_TAKEN: Final = 1
PI_ROWS: Final = 2  #: row number n is in word n % PIPE_ROWS
PIPE_ROWS: Final = PIPE_WORDS - PI_ROWS

AHEAD_NODES: Final = 8
AHEAD_WORDS: Final = 128

# --- trails: where packets of a flow were looked up and queued ---
TRAILS: Final = 256  #: a switch; a power of two
TRAIL_WORDS: Final = abi.TRAIL_WORDS // 2
TRH_QUEUE: Final = abi.OWN_TRAIL  #: number of the queue + 1

# --- packet rows: the caller's room of `abi`, int64 words and (H) int32 halves, from the row's start ---
R_NEXT: Final = abi.OWN_WORD  #: next row of the list that this one is in, -1 for none
R_ENQ: Final = abi.OWN_WORD + 1  #: when it was queued, ps
R_AFTER: Final = R_ENQ  #: in a list that `append` makes: R_TIME of the next row, if there is one
R_TIME: Final = (
    abi.OWN_WORD + 2
)  #: when the list's owner is to act on it, ps (arrival on a wire ...)
R_START: Final = abi.OWN_WORD + 3  #: when its first bit left, ps
R_LIMIT: Final = R_START  #: before that: bytes that a clone session cuts it to (with RF_LIMIT)
_H: Final = 2 * (abi.OWN_WORD + 4)
RH_BYTES: Final = _H  #: frame length as queued
RH_CELLS: Final = _H + 1
RH_IN_PORT: Final = _H + 2  #: global port it came in by, FROM_*
RH_OUT_PORT: Final = _H + 3  #: global port it is queued for or on the wire from
RH_QUEUE: Final = _H + 4
RH_PASSES: Final = _H + 5  #: times that it has been through ingress
RH_FAMILY: Final = _H + 6  #: number of its record in FAMILIES + 1, 0 for none yet
RH_FLAGS: Final = _H + 7  #: RF_* bits

FROM_CONTROL: Final = -1  #: the control plane sent it
FROM_EVENT: Final = -2  #: the switch made it: port event or packet generator

RF_CLONE: Final = 1
RF_BLOB: Final = 2  #: DATA points to a blob
RF_EGRESS: Final = 4  #: the buffer counts it with its egress queue
RF_GROUP: Final = 8  #: the buffer counts it with its ingress priority group
RF_LIMIT: Final = 16  #: a clone session cuts it to R_LIMIT bytes
# What became of it on the wire, as far as is known before it arrives (see `wires`).
RF_CUT: Final = 32  #: the link was cut before its last bit had left
RF_DOWN: Final = 64  #: there was no carrier when it began, and there is none yet
RF_HOLE: Final = 128  #: the direction swallows it
RF_UNLUCKY: Final = 256  #: random loss
RF_BITS: Final = 512  #: bit errors
RF_LOST: Final = RF_CUT | RF_DOWN | RF_HOLE | RF_UNLUCKY | RF_BITS
RF_DEAD: Final = 1024  #: host traffic sent to a next hop that cannot reach its destination
RF_TOLD: Final = 2048  #: the log and the counters know that it was sent
RF_RETIRED: Final = 4096  #: the program that it was in is not loaded any more

# --- families: what came of one received packet ---
FAMILY_WORDS: Final = 2
FA_ROWS: Final = 0  #: rows that belong to it; the next free family when none do
FA_COUNT: Final = 1  #: further passes and egress clones so far

# --- nodes: the words that every packet needs stand together ---
NODE_WORDS: Final = 64
N_KIND: Final = 0  #: 0 switch, 1 host
N_FIRST_PORT: Final = 1
N_HEAP: Final = 2
N_PROGRAM: Final = 3  #: record in PROGRAMS, -1 for none
N_MACHINE: Final = 4  #: address of the machine array
N_ALIVE: Final = 5  #: the switch runs (0: its packets are lost)
N_INGRESS_PS: Final = 6
N_EGRESS_PS: Final = 7
N_PIPE_HEAD: Final = (
    8  #: packets between ingress and their queue; EV_PIPE is in no heap of a node's own
)
N_PIPE_TAIL: Final = 9
N_PORT_OF: Final = 10  #: int32 offset of a table of 512: P4 port number -> global port, -1
N_DROP_PORT: Final = 11
N_PIPE_DUE: Final = 12  #: R_TIME of the first of them, NEVER for none
N_DEPTH_UNIT: Final = 13  #: 0 packets, 1 bytes, 2 cells
N_OVERHEAD: Final = 14  #: bytes a frame takes on the wire beside its own
N_QUEUES: Final = 15  #: queues a port
N_PORTS: Final = 16
N_CPU_PORT: Final = 17  #: global port number of the CPU port, -1 for none
N_AGAIN_PS: Final = 18  #: recirculation latency
N_MAX_PASSES: Final = 19
N_MAX_COPIES: Final = 20
N_CELL_BYTES: Final = 21
N_RESUBMIT_HEAD: Final = 22
N_RESUBMIT_TAIL: Final = 23
N_RECIRC_HEAD: Final = 24
N_RECIRC_TAIL: Final = 25
N_INJECT_HEAD: Final = 26  #: frames from the control plane and port events, by time
N_INJECT_TAIL: Final = 27
N_HOST: Final = 28  #: record in HOSTS
N_ID: Final = 29  #: id in the Topology
N_ETHERTYPE: Final = 30  #: of generated packets
N_EVENT_PORT: Final = 31
N_SHARED_USED: Final = 32  #: traffic manager: bytes of the shared pool in use
N_SHARED_BYTES: Final = 33
N_SHARED_PEAK: Final = 34
N_HEADROOM_USED: Final = 35
N_TM_CONFIG: Final = 36  #: record of class settings in CONFIG
N_RNG: Final = 37  #: SplitMix64 state of the node's own choices (never the program's)
N_HEADROOM_PEAK: Final = 38
N_CLASSES: Final = 39  #: bits: c strict, 8 + c watched by the watchdog, 16 + c lossless
N_MCAST: Final = 40  #: word offset of its multicast groups, by id
N_CLONES: Final = 41  #: word offset of its clone sessions: CLONE_SESSIONS slots, hashed by id
N_TIMERS: Final = 42  #: word offset of its packet generator's applications
N_DROPS: Final = 43  #: word offset of its drops without port

# --- ports: eight words are a cache line; receiving, serving and sending take one each ---
PORT_WORDS: Final = 48
P_NODE: Final = 0
P_NUMBER: Final = 1  #: P4 port number
P_UP: Final = 2  #: the truth on the wire
P_LIVE: Final = 3  #: what the node knows
P_PEER: Final = 4  #: global port at the other end, -1 for none
P_RX_PACKETS: Final = 5
P_RX_BYTES: Final = 6
P_CREDIT: Final = 7  #: 1 while a frame's pass through egress takes the wire
P_RATE: Final = 8  #: bit/s, 0 sends in no time
P_FREE: Final = 9  #: when the wire is free again, ps
P_WAKING: Final = 10  #: a FREE event is in the heap
P_QUEUED: Final = 11  #: packets in all queues
P_READY: Final = 12  #: bit c: packets of class c wait
P_PAUSED: Final = 13  #: bit c: the peer has paused class c
P_IGNORE: Final = 14  #: storms: bit c: class c is sent although paused; bit 8 + c: it is dropped
P_ROUND: Final = 15  #: DWRR: class being served
P_DELAY: Final = 16  #: ps to the peer
P_WIRE_HEAD: Final = 17  #: frames on the way to the peer (or being sent), in order of arrival
P_WIRE_TAIL: Final = 18
P_TROUBLE: Final = 19  #: anything about the wire that can lose a frame (see `wires.wire_changed`)
P_ARRIVE: Final = 20  #: E_ORDER of the event when a frame sent here arrives (EV_WIRE, EV_OUT)
P_ARRIVE_HEAP: Final = 21  #: number of the heap that it is for
P_TX_PACKETS: Final = 22  #: begun; `wires.sent_counters` tells what has left
P_TX_BYTES: Final = 23
P_SENT_XOFF: Final = 24  #: bit c: this port has paused the peer's class c
P_PAUSE_HEAD: Final = 25  #: MAC control frames on the way, in order of arrival
P_PAUSE_TAIL: Final = 26
P_PAUSE_RX: Final = 27  #: pause frames received and sent
P_PAUSE_TX: Final = 28
P_PAUSED_PS: Final = 29  #: time during which any class was paused, ps
P_PAUSED_SINCE: Final = 30
P_RESPONSE: Final = 31  #: from a pause frame's last bit to its effect on what is picked, ps
P_CUTS: Final = 32  #: times that the link was cut
P_BLACKHOLE: Final = 33  #: frames sent here vanish (one direction)
P_LOSS: Final = 34  #: random loss of frames sent here: chance * 2**32, SyncMesh frames excluded
P_LOSS_SYNC: Final = 35  #: the same for SyncMesh frames
P_BER: Final = 36  #: bit error rate * 2**62
P_RNG: Final = 37  #: SplitMix64 state of the wire
P_CUT_AT: Final = 38  #: time of the last cut, ps
P_DROPS: Final = 39  #: word offset of its drop counters

# --- queues: port * CLASSES + class ---
QUEUE_WORDS: Final = 24  # a line of the cache for every packet, two for what is rare
Q_HEAD: Final = 0
Q_TAIL: Final = 1
Q_PACKETS: Final = 2
Q_BYTES: Final = 3
Q_CELLS: Final = 4
Q_DEFICIT: Final = 5
Q_HIGH_BYTES: Final = 6  #: deepest since whoever watches has set it back
Q_MAX_PACKETS: Final = 7
Q_PAUSE_UNTIL: Final = 8  #: when a pause from the peer runs out, ps
Q_PAUSED_AT: Final = 9  #: since when the class has been paused without a break
Q_WATCHDOG: Final = 10  #: 0 quiet, 1 armed, 2 storm (drops or forwards)
Q_COUNTED: Final = 11  #: bytes that the buffer counts here: of packets without a priority group
Q_SENT_BYTES: Final = 12  #: of frames that went from here to the wire
Q_MAX_BYTES: Final = 13  #: never less than Q_HIGH_BYTES
Q_STORMS: Final = 14
Q_PAUSE_RX: Final = 15  #: pause frames for this class that asked for a pause, received and sent
Q_PAUSE_TX: Final = 16
Q_PAUSED_PS: Final = 17  #: time during which the class was paused
Q_ALARMS: Final = 18  #: by ALARM_*: time of the event in the heap, 0 for none
Q_CALM_FROM: Final = 21  #: in a storm: when it began or, later, a pause was received last
Q_WATCH_AT: Final = 22  #: watchdog: when a storm begins (armed) or is to be over (storm)
Q_HELD_PS: Final = 23  #: time for which it had paused its peer's class; while it has: less now

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
C_XON_OFFSET: Final = 7  #: XON when more than this many bytes below XOFF
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
F_STATE_LINES: Final = 6  #: lines of the cache that its machine and its tables' heads take

# --- heaps and events ---
HEAP_WORDS: Final = 4
HEAP_FIRST: Final = 0  #: word offset of its first event record
HEAP_ROOM: Final = 1
HEAP_SIZE: Final = 2
EVENT_WORDS: Final = 4
E_TIME: Final = 0
E_ORDER: Final = (
    1  #: node << 40 | kind << 32 | index: unique among live events but for stale timers
)
E_ROW: Final = (
    2  #: a row that it will likely be about, 0 for none: a hint, for `fabric.kernel.ahead`
)

# kinds of events; index in brackets. At one time a node's events run in this order.
EV_INJECT: Final = 0  #: [0] control-plane frames and port events
EV_PAUSE: Final = 1  #: [local port] a pause frame arrives
EV_WIRE: Final = 2  #: [local port] a frame arrives
EV_PIPE: Final = 3  #: [0] ingress latency over: to the queue
EV_RESUBMIT: Final = 4  #: [0]
EV_RECIRC: Final = 5  #: [0]
EV_TIMER: Final = 6  #: [application: a batch begins; TIMERS + application: its next packet]
EV_FLOW: Final = 7  #: [0: start times; 1 + flow of the host: its delay is over]
EV_QP: Final = 8  #: [queue pair of the host] retransmission timer
EV_RATE: Final = 9  #: [queue pair of the host] the NIC's rate limiter lets it send again
EV_DCQCN: Final = 10  #: [queue pair of the host] increase timer
EV_ACK: Final = 11  #: [queue pair of the host] a coalesced acknowledge is due
EV_FREE: Final = 12  #: [local port] the wire is free; after all that may have a host send
EV_PAUSE_END: Final = 13  #: [local port * ALARMS + ALARM_* * CLASSES + class]
EV_OUT: Final = 14  #: [local port] a frame has left a port without a peer: for Python

# what EV_PAUSE_END is for: a class's pause is over; the watchdog; a pause sent must be renewed
ALARM_OVER: Final = 0
ALARM_WATCH: Final = 1
ALARM_RENEW: Final = 2
ALARMS: Final = 3 * CLASSES

# --- replication ---
MCAST_WORDS: Final = 2
M_FIRST: Final = 0  #: first copy (in COPIES records)
M_COUNT: Final = 1  #: 0 for no such group too
CLONE_WORDS: Final = 5
S_ID: Final = 0  #: id + 1, 0 for a free slot
S_FIRST: Final = 1
S_COUNT: Final = 2
S_CLASS: Final = 3  #: queue of the copies
S_LENGTH: Final = 4  #: bytes that they are cut to, 0 for none
COPY_WORDS: Final = 2  #: P4 port number, rid

# --- packet generator ---
TIMER_WORDS: Final = 16
T_RUNS: Final = 0
T_PERIOD: Final = 1
T_BATCH: Final = 2  #: batch id of the next batch
T_PACKET: Final = 3  #: packet id of the next packet
T_BATCH_PACKETS: Final = 4
T_GAP: Final = 5
T_BATCHES: Final = 6  #: -1 never ends
T_NEXT_BATCH: Final = 7  #: when the next batch begins, ps
T_PAYLOAD: Final = 8  #: byte offset in the block
T_PAYLOAD_BYTES: Final = 9
T_BATCH_GOING: Final = 10  #: batch id of the batch being sent
T_ROOM: Final = 11  #: bytes that a payload may have
TIMERS: Final = 8  #: a switch

# --- why a packet was lost: order of `sglb.switch.ports.DropReason`, then what only a fabric has ---
DROP_REASONS: Final = 24
DROP_INGRESS: Final = 1
DROP_EGRESS: Final = 2
DROP_ASSERTION: Final = 3
DROP_NO_PROGRAM: Final = 4
DROP_RELOADED: Final = 5
DROP_NO_PORT: Final = 6
DROP_NO_QUEUE: Final = 7
DROP_NO_GROUP: Final = 8
DROP_QUEUE_FULL: Final = 9
DROP_PORT_DOWN: Final = 10
DROP_CUT: Final = 11
DROP_RX_PORT_DOWN: Final = 12
DROP_LOOP: Final = 13
DROP_BUFFER_FULL: Final = 14
DROP_HEADROOM: Final = 15
DROP_STORM: Final = 16
DROP_CUT_ACK: Final = 18  #: of a NIC, where DROP_CUT is data: acknowledges
DROP_CUT_CONTROL: Final = 19  #: and other frames
DROP_CARRIER: Final = 20  #: on the wire: no carrier as it arrived
DROP_BLACKHOLE: Final = 21  #: on the wire: the direction swallows frames
DROP_RANDOM: Final = 22  #: on the wire: random loss
DROP_BITS: Final = 23  #: on the wire: bit errors

# --- log records: what an observer would see; Python turns them into `sglb.fabric.events` ---
# A record may be stamped up to a link's delay before the records that stand in front of it.
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
TRAFFIC_DATA: Final = 0  #: kinds of traffic, in the order of `sglb.fabric.events.Traffic`
TRAFFIC_ACK: Final = 1
TRAFFIC_CONTROL: Final = 2
LOG_DEAD_PATH: Final = 4  #: A: destination switch
LOG_FLOW_STARTED: Final = 5  #: A: flow
LOG_FLOW_COMPLETED: Final = 6
LOG_PAUSE: Final = 7  #: A: class; B: 1 XOFF sent, 0 XON sent
LOG_WATCHDOG: Final = 8  #: A: class; B: 1 storm begins, 0 ends

# --- frames for Python: control plane, and ports without a peer ---
CPU_WORDS: Final = 4
U_TIME: Final = 0  #: when its last bit has left, ps
U_NODE: Final = 1
U_PORT: Final = 2  #: global port
U_ROW: Final = 3
