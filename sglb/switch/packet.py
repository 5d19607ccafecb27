"""A packet inside the switch, between its pipelines."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sglb.p4.runtime import PacketContext
    from sglb.switch.trace import PacketTrace


class InstanceType(IntEnum):
    """standard_metadata.instance_type, as BMv2 numbers it."""

    NORMAL = 0
    INGRESS_CLONE = 1
    EGRESS_CLONE = 2
    COALESCED = 3
    RECIRCULATED = 4
    REPLICATION = 5
    RESUBMITTED = 6


class Packet:
    """A packet with its program state.

    `base_bytes` plus the valid headers is its length as the program sees it. `length_bytes` is that
    length when it was queued. `passes` counts its runs through ingress; `family`, shared by all that
    come of one received packet, holds how many further passes and egress clones that were.
    `is_clone`: the program made it of another packet, with `clone`. `limit_bytes` is a clone session's
    truncation (0: none). `enq_ps`/`enq_depth` are the queue's notes.
    """

    __slots__ = (
        "base_bytes",
        "cells",
        "ctx",
        "enq_depth",
        "enq_ps",
        "family",
        "ingress_port",
        "is_clone",
        "length_bytes",
        "limit_bytes",
        "passes",
        "trace",
    )

    def __init__(
        self, ctx: PacketContext, ingress_port: int, passes: int, family: list[int]
    ) -> None:
        self.ctx = ctx
        self.ingress_port = ingress_port
        self.passes = passes
        self.family = family
        self.is_clone = False
        self.base_bytes = 0
        self.length_bytes = 0
        self.limit_bytes = 0
        self.cells = 0
        self.enq_ps = 0
        self.enq_depth = 0
        self.trace: PacketTrace | None = None
