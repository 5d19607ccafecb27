"""The border between a live fabric and whatever controls it: which processes that is.

A live control plane is found by name among the `sglb.live_control_planes` entry points, like a simulated
one among `sglb.control_planes`. It is asked for the processes to start beside the switches, and reaches
the switches as anybody would: P4Runtime and gNMI on their Unix sockets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Protocol

from sglb.fabric.control import ControlPlaneNotFoundError
from sglb.fabric.live.namespaces import Namespace
from sglb.fabric.live.processes import ProcessSpec
from sglb.fabric.scenario import Scenario
from sglb.switch.pktgen import TimerApp

GROUP = "sglb.live_control_planes"


@dataclass(frozen=True, slots=True)
class LiveView:
    """What a live control plane is given.

    `scenario` is in real time (`scaled`), `policy` one of its policies, `folder` a private one for
    sockets and files of this run, `addresses` where each switch (by id) serves P4Runtime, for gRPC.
    `target` is what runs the switches; for `bmv2`, which has no gNMI and starts without a program,
    `program` is what `p4c-bm2-ss` made of it, and `namespaces` lead to the switches' ports.
    A process that is ready for packets creates `ready(NAME)`; what it wants in the report it writes to
    `report(NAME)` as JSON when it ends, and what it saw and did to `journal(NAME)` (`journal`).
    """

    scenario: Scenario
    policy: str
    folder: Path
    addresses: Mapping[int, str]
    depth_unit_bytes: int
    target: str = "live"
    program: Path | None = None
    namespaces: Mapping[int, Namespace] = field(default_factory=dict)

    def ready(self, name: str) -> Path:
        """The file that says that a process is ready."""
        return self.folder / f"{name}.ready"

    def report(self, name: str) -> Path:
        """The file for a process's own report."""
        return self.folder / f"{name}.json"

    def journal(self, name: str) -> Path:
        """The file for the events that a process records."""
        return self.folder / f"{name}.events"

    @property
    def cut_ports(self) -> Path:
        """The file with `[[SWITCH, PORT], ...]`: ports of BMv2 that are down, though none can see it."""
        return self.folder / "cut-ports.json"

    def control(self, name: str) -> Path:
        """The datagram socket where a process takes JSON orders of the supervisor."""
        return self.folder / f"{name}.ctl"


class LiveControlPlane(Protocol):
    """One control plane over one live fabric."""

    def timers(self, switch_id: int) -> tuple[TimerApp, ...]:
        """What a switch's packet generator has to do."""

    def processes(self) -> Sequence[ProcessSpec]:
        """What to start once all switches serve."""

    def calm(self) -> bool:
        """Whether all links are in plain use, as far as it knows: traffic may start."""

    def rate_changed(self, link_id: int, rate_bps: int) -> Mapping[str, Any]:
        """The order that tells its processes named in `told` that a link's ports have another rate."""

    @property
    def told(self) -> Sequence[str]:
        """Names of the processes that take such orders."""


class LiveControlPlaneFactory(Protocol):
    """Makes a control plane for one run."""

    def __call__(self, view: LiveView) -> LiveControlPlane:
        """A control plane for this fabric; nothing happens yet."""


def load_live_control_plane(name: str = "default") -> LiveControlPlaneFactory:
    """The installed live control plane called `name`; raises `ControlPlaneNotFoundError`."""
    found = entry_points(group=GROUP)
    for point in found:
        if point.name == name:
            factory: LiveControlPlaneFactory = point.load()
            return factory
    known = ", ".join(sorted(p.name for p in found)) or "none"
    raise ControlPlaneNotFoundError(
        f"no live control plane named {name!r} is installed; known: {known}"
    )
