"""The border between a running fabric and whatever controls it.

The fabric forwards packets by the P4 program alone; what installs entries, runs agents and reacts to
failures is a `ControlPlane`, found by name among the `sglb.control_planes` entry points. So a user's own
controller runs on the same fabric, measured the same way.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import Protocol

from sglb.fabric.events import EventLog
from sglb.fabric.scenario import Scenario
from sglb.fabric.topology import Topology
from sglb.switch.clock import VirtualClock
from sglb.switch.p4runtime.service import P4RuntimeService
from sglb.switch.switch import Switch

GROUP = "sglb.control_planes"


@dataclass(frozen=True, slots=True)
class FabricView:
    """What a control plane is given: everything keyed by switch id (see `Topology`).

    `policy` is one of the scenario's policies. `services` are the switches' P4Runtime services, to be
    used in process; `switches` only for what P4Runtime has no word for (packet generators). `log` is
    where it records what it did and when (`events`).
    """

    topology: Topology
    scenario: Scenario
    policy: str
    clock: VirtualClock
    switches: Mapping[int, Switch]
    services: Mapping[int, P4RuntimeService]
    log: EventLog


class ControlPlane(Protocol):
    """One control plane over one fabric run."""

    def start(self) -> None:
        """Installs what the fabric needs before the first packet, at virtual time 0."""

    def switch_restarted(self, switch_id: int) -> None:
        """A switch came back with the program loaded and all its tables empty."""

    def rate_changed(self, link_id: int, rate_bps: int) -> None:
        """A link's ports negotiated another rate, now (what a port-speed event tells a NOS)."""

    def report(self) -> Mapping[str, object]:
        """What it wants in the run's JSON: counters, profile allocation, reactions."""


class ControlPlaneFactory(Protocol):
    """Makes a control plane for one run."""

    def __call__(self, view: FabricView) -> ControlPlane:
        """A control plane for this fabric; nothing happens before `start`."""


class ControlPlaneNotFoundError(LookupError):
    """No control plane of that name is installed."""


def load_control_plane(name: str = "default") -> ControlPlaneFactory:
    """The installed control plane called `name`.

    Raises `ControlPlaneNotFoundError`, which names the others.
    """
    found = entry_points(group=GROUP)
    for point in found:
        if point.name == name:
            factory: ControlPlaneFactory = point.load()
            return factory
    known = ", ".join(sorted(p.name for p in found)) or "none"
    raise ControlPlaneNotFoundError(f"no control plane named {name!r} is installed; known: {known}")


@contextmanager
def collector_at_rest() -> Iterator[None]:
    """For filling switches: so many objects come to stay that it is in vain to look for garbage."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
