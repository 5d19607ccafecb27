"""What an agent wants done. Its driver does it, in order."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from sglb.syncmesh.config import FabricPort, Heard


class NeighbourState(enum.StrEnum):
    """Adjacency on a port: nobody heard, heard one way, heard both ways."""

    DOWN = "down"
    HEARD = "heard"
    UP = "up"


class Cause(enum.StrEnum):
    """How a link's death was noticed."""

    CARRIER = "carrier"
    BEATS = "beats"


@dataclass(frozen=True, slots=True)
class SendFrame:
    """Packet-out of a frame to a port, past the pipeline's ingress decisions."""

    port: int
    frame: bytes


@dataclass(frozen=True, slots=True)
class SendToPipeline:
    """Packet-out of a frame into the pipeline, as from the CPU port."""

    frame: bytes


@dataclass(frozen=True, slots=True)
class WritePort:
    """The entry of table `ports`: whose notifications the data plane takes on a port.

    Incarnation 0 takes nobody's.
    """

    port: int
    setup: FabricPort
    neighbour: int
    incarnation: int


@dataclass(frozen=True, slots=True)
class WriteProfile:
    """The entry of table `profiles` for a subject; `lanes` is the set of `heard.ports`."""

    heard: Heard
    lanes: int


@dataclass(frozen=True, slots=True)
class WriteListeners:
    """The ports in the notification group and sessions; the CPU is in that of urgent ones always."""

    ports: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class NeighbourChanged:
    """For the controller: an adjacency changed."""

    port: int
    neighbour: int
    state: NeighbourState


@dataclass(frozen=True, slots=True)
class LinkDown:
    """For the controller: the data plane marked a link down."""

    port: int
    cause: Cause


@dataclass(frozen=True, slots=True)
class LinkRecovered:
    """For the controller: a link marked down is good again.

    Restore its routes, then call `Agent.clear_link`.
    """

    port: int


Effect = (
    SendFrame
    | SendToPipeline
    | WritePort
    | WriteProfile
    | WriteListeners
    | NeighbourChanged
    | LinkDown
    | LinkRecovered
)
