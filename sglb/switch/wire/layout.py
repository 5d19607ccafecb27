"""Where a live switch keeps its sockets: one more section of its node's memory (`m.WIRE_AT`).

It begins with the words `S_*`, then come the table for `ppoll`, a record for each port of the node
(`W_*`, by its place among them), and the batches: arrays of the C library's `struct mmsghdr` and what
those point to. Structs are those of 64-bit Linux.
"""

from __future__ import annotations

from typing import Final

#: Frames a system call.
BATCH: Final = 64
#: Bytes free before a received frame, for tags that the kernel took out and headers that a program adds.
FRONT_BYTES: Final = 64
#: Longest frame that comes in, and longest of several joined by segmentation offload; the part that
#: finds no room in a row goes by way of the batch.
FRAME_BYTES: Final = 9_728
JOINED_BYTES: Final = 1 << 16
VNET_BYTES: Final = 10  #: struct virtio_net_hdr

# --- the section's first words ---
S_TURN: Final = 0  #: pthread_mutex_t: whose turn it is
S_DATA: Final = 8  #: pthread_mutex_t: the node's memory
S_START_NS: Final = 16  #: the monotonic clock at time 0
S_STOP: Final = 17  #: the loop is to end
S_SLEEPS_UNTIL: Final = 18  #: ps; the loop waits in ppoll up to then, 0 while it works
S_WAKE: Final = 19  #: eventfd that wakes the loop
S_BELL: Final = 20  #: eventfd that calls Python (S_NEWS)
S_NEWS: Final = 21  #: HALT_* that Python has not seen to yet
S_TIME: Final = 22  #: struct timespec
S_ONE: Final = 24  #: 1, what is written to an eventfd
S_TRASH: Final = 25  #: what is read from one
S_POLL: Final = 26  #: word offset of the table for ppoll: S_WAKE, the ports, S_LINKS
S_PORTS: Final = 27  #: word offset of the records W_*
S_COUNT: Final = 28  #: ports
S_RX: Final = 29  #: word offset of the batch of received frames
S_LOST_ROWS: Final = (
    30  #: times that something found no room in the node's memory (HALT_ROWS, _BLOBS)
)
S_ROUNDS: Final = 31
S_SLEEPS: Final = 32
S_EPOCH_NS: Final = 33  #: wall-clock time at time 0, for captures
S_IOV: Final = 34  #: two struct iovec and a capture's record header, for writev
S_CALL: Final = 42  #: addresses of functions: C_*
C_RECVMMSG: Final = S_CALL
C_SENDMMSG: Final = S_CALL + 1
C_PPOLL: Final = S_CALL + 2
C_CLOCK: Final = S_CALL + 3
C_LOCK: Final = S_CALL + 4
C_UNLOCK: Final = S_CALL + 5
C_READ: Final = S_CALL + 6
C_WRITE: Final = S_CALL + 7
C_WRITEV: Final = S_CALL + 8
C_ERRNO: Final = S_CALL + 9
C_RECV: Final = S_CALL + 10
S_LINKS: Final = 56  #: netlink socket
S_LINKS_AT: Final = 57  #: word offset of what is read from it
S_EVENTS: Final = 58  #: port events enter the program
S_EVENT_APP: Final = 59
S_EVENT_COUNT: Final = 60
S_LATEST: Final = 61  #: longest that an event had to wait for the processor, ps
S_LATE: Final = 62  #: events that waited for a millisecond or more
S_LOCKED_OUT: Final = 63  #: longest that the loop had to wait for the lock, ps
FUNCTIONS: Final = (
    "recvmmsg",
    "sendmmsg",
    "ppoll",
    "clock_gettime",
    "pthread_mutex_lock",
    "pthread_mutex_unlock",
    "read",
    "write",
    "writev",
    "__errno_location",
    "recv",
)
SECTION_WORDS: Final = 64
LINKS_WORDS: Final = 4_096  #: the longest datagram of netlink

# --- ports ---
WIRE_WORDS: Final = 24
W_FD: Final = 0  #: -1 while there is no interface
W_PORT: Final = 1  #: number in the node's memory
W_TX: Final = 3  #: word offset of its batch of frames to send
W_TX_COUNT: Final = 4
W_CAPTURE_IN: Final = 5  #: files, -1 for none
W_CAPTURE_OUT: Final = 6
W_SEND_FAILED: Final = 8  #: frames that the interface did not take
W_SEGMENTED: Final = 9  #: frames that came joined by segmentation offload
W_UNKNOWN: Final = 15  #: received frames dropped: joined in a way that is not known
W_LONG: Final = 10  #: received frames dropped: longer than FRAME_BYTES
W_CHECKSUMS: Final = 11  #: received frames whose checksum was left to be done
W_TAGS: Final = 12  #: received frames whose VLAN tag the kernel had taken out
W_ERRNO: Final = 13  #: of the last frame not sent or receive that failed
W_CAPTURE_FAILED: Final = 14
W_INDEX: Final = 16  #: of the interface
W_UP: Final = 17  #: whether it has a carrier, as far as is known

# --- batches: first BATCH struct mmsghdr, then as many of each of what follows ---
MSG_WORDS: Final = 8
MSG_FLAGS: Final = 6
MSG_CONTROL_BYTES: Final = 5
MSG_LENGTH: Final = 7
IOV_WORDS: Final = 6  #: three struct iovec: virtio_net_hdr, row, overflow
VNET_WORDS: Final = 2
CONTROL_WORDS: Final = 8  #: a control message with struct tpacket_auxdata
OVERFLOW_WORDS: Final = JOINED_BYTES // 8
IOV_AT: Final = BATCH * MSG_WORDS
ROWS_AT: Final = IOV_AT + BATCH * IOV_WORDS
VNET_AT: Final = ROWS_AT + BATCH
TX_WORDS: Final = VNET_AT + VNET_WORDS
CONTROL_AT: Final = VNET_AT + BATCH * VNET_WORDS
OVERFLOW_AT: Final = CONTROL_AT + BATCH * CONTROL_WORDS
RX_WORDS: Final = OVERFLOW_AT + BATCH * OVERFLOW_WORDS


def section_words(ports: int) -> int:
    """Words of the section of a node with that many ports."""
    return SECTION_WORDS + LINKS_WORDS + (2 + ports) + ports * (WIRE_WORDS + TX_WORDS) + RX_WORDS
