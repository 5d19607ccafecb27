"""What the control plane shares with the P4 program: fixed numbers, names, lanes.

The numbers mirror `p4src/include`; a test reads them there and compares.
"""

from __future__ import annotations

from dataclasses import dataclass

CPU_PORT = 510
EVENT_PORT = 509

LANES = 16
BANKS = 32
PROFILES = 64
SLOTS = 64
MAX_GROUPS = 1024
MAX_SUBJECTS = 1024

FABRIC_GROUP = 1
NOTIFY_GROUP = 2
NOTIFY_SESSION = 3
URGENT_SESSION = 4

APP_QUALITY_TIMER = 1
APP_BEAT_TIMER = 2

REASON_AGENT = 1
REASON_NOTE = 2
REASON_OWN_NOTE = 3
REASON_PORT_EVENT = 4
REASON_BEAT = 5
REASON_SET = 6
REASON_PROBE = 7

T_PORTS = "FabricIngress.ports.ports"
A_SET_FABRIC = "FabricIngress.ports.set_fabric"
T_PROFILES = "FabricIngress.syncmesh.profiles"
A_SET_PROFILE = "FabricIngress.syncmesh.set_profile"
T_ANNOUNCEMENTS = "FabricEgress.build_note.announcements"
R_ANNOUNCED = "FabricEgress.announce.announced"

CODE_BEST = 0
CODE_WORST = 9
CODE_DOWN = 8

#: SyncMesh frames, timer frames and the priority class that they leave in.
SYNC_CLASS = 7

#: Subjects name a destination switch by its id, or a whole pod: this bit and the pod's number.
POD_SUBJECT = 0x8000


@dataclass(frozen=True, slots=True, order=True)
class Lane:
    """A fabric port's place in the vectors: lane 0 to 15 of a bank."""

    bank: int
    index: int

    @property
    def shift(self) -> int:
        """Bit position of the lane in its bank's vector."""
        return 8 * self.index

    @property
    def bit(self) -> int:
        """The lane as a member of a set: bit 7 of its 8 bits."""
        return 0x80 << self.shift


def lane_set(lanes: tuple[Lane, ...]) -> int:
    """Lanes of one bank as a 128-bit set."""
    found = 0
    for lane in lanes:
        found |= lane.bit
    return found
