"""A switch's fixed places in the data plane: lanes, groups and subjects, from the healthy topology.

Faults change what stands in these places, never the places themselves, so that a repair touches only
what a fault changed and the data plane's vectors keep their meaning.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from controller.paths import LinkState, LiveLinks, Paths
from sglb.fabric.topology import Node, NodeKind, Topology
from sglb.syncmesh.dataplane import (
    BANKS,
    LANES,
    MAX_GROUPS,
    MAX_SUBJECTS,
    POD_SUBJECT,
    Lane,
)


class PlanError(ValueError):
    """The fabric does not fit the sizes of the P4 program."""


@dataclass(frozen=True, slots=True)
class Subject:
    """What a switch announces to its neighbours: the quality of its paths toward `destination`.

    `index` is its number in the data plane (from 1), `destination` what a notification says: a
    destination switch's id, or `POD_SUBJECT` | pod. `ports` are its members in the healthy fabric.
    """

    index: int
    destination: int
    ports: tuple[int, ...]


class Layout:
    """The places of one switch. `destinations` are the switches with hosts, by id."""

    def __init__(self, fabric: FabricLayout, switch: Node) -> None:
        self._fabric = fabric
        self.switch = switch
        #: Port -> neighbour, for ports that lead to a switch, in port order.
        self.neighbours = {
            port: link.other(switch.id)
            for port, link in fabric.topology.ports(switch.id).items()
            if not fabric.topology.by_id(link.other(switch.id)).is_host
        }
        #: Destination switch -> member ports in the healthy fabric.
        self.members = {
            d.id: fabric.same(tuple(m.port for m in fabric.healthy(d.id).members(switch.id)))
            for d in fabric.destinations
            if d.id != switch.id
        }
        #: Destination switch -> group number (from 1; 0 stays empty).
        self.groups = {d: i for i, d in enumerate(self.members, start=1)}
        if len(self.groups) >= MAX_GROUPS:
            raise PlanError(
                f"switch {switch.name}: {len(self.groups)} destination switches exceed the "
                f"program's {MAX_GROUPS - 1} groups (GROUPS in p4src/include/sizes.p4)"
            )
        self.lanes = self._place_lanes()

    def _place_lanes(self) -> dict[int, Lane]:
        """A lane for each fabric port, the members of one group in one bank."""
        lanes: dict[int, Lane] = {}
        used = [0] * BANKS
        for cluster in _joined(self.neighbours, set(self.members.values())):
            if len(cluster) > LANES:
                raise PlanError(
                    f"switch {self.switch.name}: {len(cluster)} ports share destinations, the "
                    f"program chooses among {LANES} at most (LANES in p4src/include/sizes.p4)"
                )
            bank = next((b for b in range(BANKS) if used[b] + len(cluster) <= LANES), None)
            if bank is None:
                raise PlanError(
                    f"switch {self.switch.name}: {len(self.neighbours)} fabric ports do not fit "
                    f"the program's {BANKS} banks of {LANES} lanes"
                )
            for port in cluster:
                lanes[port] = Lane(bank, used[bank])
                used[bank] += 1
        return dict(sorted(lanes.items()))

    @cached_property
    def subjects(self) -> tuple[Subject, ...]:
        """What the switch announces: every destination that some neighbour reaches through it.

        In a fabric of pods, destinations in other pods are announced as their pod; a core announces
        both, its own link by pod and what it hears of a leaf by leaf.
        """
        by_destination: dict[int, set[int]] = {}
        for destination in self._fabric.destinations:
            if not self._is_transit(destination.id):
                continue
            for name in self._names(destination):
                by_destination.setdefault(name, set()).update(self.members[destination.id])
        if len(by_destination) >= MAX_SUBJECTS:
            raise PlanError(
                f"switch {self.switch.name}: {len(by_destination)} subjects exceed the program's "
                f"{MAX_SUBJECTS - 1} (SUBJECTS in p4src/include/sizes.p4)"
            )
        return tuple(
            Subject(i, name, tuple(sorted(ports)))
            for i, (name, ports) in enumerate(by_destination.items(), start=1)
        )

    def _is_transit(self, destination: int) -> bool:
        if destination == self.switch.id or not self.members[destination]:
            return False
        paths = self._fabric.healthy(destination)
        return any(
            member.neighbour == self.switch.id
            for neighbour in set(self.neighbours.values())
            for member in paths.members(neighbour)
        )

    def _names(self, destination: Node) -> Iterable[int]:
        if destination.pod is None:
            return (destination.id,)
        pod = POD_SUBJECT | destination.pod
        if self.switch.kind is NodeKind.CORE:
            return (pod, destination.id)
        return (destination.id,) if destination.pod == self.switch.pod else (pod,)

    def subject_of_port(self, port: int) -> int:
        """The index of the subject that hangs on this port alone, the widest one; 0 for none."""
        alone = [s for s in self.subjects if s.ports and set(s.ports) <= self._bundle(port)]
        pods = [s for s in alone if s.destination & POD_SUBJECT]
        return (pods or alone)[0].index if alone else 0

    def _bundle(self, port: int) -> set[int]:
        """The ports that lead to the same neighbour as this one."""
        return {p for p, n in self.neighbours.items() if n == self.neighbours[port]}

    @property
    def scan(self) -> tuple[int, int]:
        """(first index, count) of the subjects that timer packets look at in turn; (0, 0) for none."""
        return (1, len(self.subjects)) if self.subjects else (0, 0)

    def relay(self, heard: int) -> int:
        """The index of the subject that a notification about `heard` may change; 0 for none."""
        by_name = {s.destination: s.index for s in self.subjects}
        if heard in by_name:
            return by_name[heard]
        if heard & POD_SUBJECT:
            return 0
        pod = self._fabric.topology.by_id(heard).pod
        return 0 if pod is None else by_name.get(POD_SUBJECT | pod, 0)

    def heard(self) -> dict[int, tuple[int, ...]]:
        """What neighbours may announce here: subject name -> the ports that reach it.

        Only names that this switch forwards to are of use to it.
        """
        found: dict[int, set[int]] = {}
        for neighbour in sorted(set(self.neighbours.values())):
            for subject in self._fabric.layout(neighbour).subjects:
                ports = self._ports_toward(subject.destination, neighbour)
                if ports:
                    found.setdefault(subject.destination, set()).update(ports)
        return {name: tuple(sorted(ports)) for name, ports in sorted(found.items())}

    def _ports_toward(self, name: int, neighbour: int) -> set[int]:
        return {
            port
            for destination in self._fabric.named(name)
            if destination in self.members
            for port in self.members[destination]
            if self.neighbours[port] == neighbour
        }


def _joined(ports: Iterable[int], groups: Iterable[tuple[int, ...]]) -> list[list[int]]:
    """The ports in clusters, sorted, where two of one group are in one cluster."""
    cluster_of = {port: [port] for port in ports}
    for group in groups:
        for port in group[1:]:
            first, second = cluster_of[group[0]], cluster_of[port]
            if first is not second:
                first += second
                cluster_of.update(dict.fromkeys(second, first))
    clusters = {id(cluster): cluster for cluster in cluster_of.values()}
    return sorted(sorted(cluster) for cluster in clusters.values())


class _PathsOfState:
    """The paths of one state, each worked out when it is asked for."""

    def __init__(self, topology: Topology, state: LinkState) -> None:
        self.state = state
        self._topology = topology
        self._live = LiveLinks(topology, state)
        self._found: dict[int, Paths] = {}

    def to(self, destination: int) -> Paths:
        """Those toward a destination."""
        found = self._found.get(destination)
        if found is None:
            found = Paths(self._topology, self.state, destination, self._live)
            self._found[destination] = found
        return found


class FabricLayout:
    """The layouts of all switches of a topology."""

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        self.destinations = tuple(s for s in topology.switches if topology.hosts_of(s.id))
        self._healthy = _PathsOfState(topology, LinkState.healthy(topology))
        self._recent = self._healthy
        self._layouts: dict[int, Layout] = {}
        self._ports: dict[tuple[int, ...], tuple[int, ...]] = {}

    def same(self, ports: tuple[int, ...]) -> tuple[int, ...]:
        """One object for equal ports, of which many switches have the same."""
        return self._ports.setdefault(ports, ports)

    def healthy(self, destination: int) -> Paths:
        """Paths toward a destination with every link up."""
        return self._healthy.to(destination)

    def paths(self, state: LinkState, destination: int) -> Paths:
        """Paths toward a destination in some state; kept as long as the same state is asked for."""
        if self._recent.state is not state:
            if state == self._healthy.state:
                self._healthy.state = state
                self._recent = self._healthy
            else:
                self._recent = _PathsOfState(self.topology, state)
        return self._recent.to(destination)

    def layout(self, switch_id: int) -> Layout:
        """The layout of a switch. Raises `PlanError` when the program is too small for it."""
        if switch_id not in self._layouts:
            self._layouts[switch_id] = Layout(self, self.topology.by_id(switch_id))
        return self._layouts[switch_id]

    def named(self, name: int) -> tuple[int, ...]:
        """The destination switches that a subject's name stands for."""
        if name & POD_SUBJECT:
            return tuple(d.id for d in self.destinations if d.pod == name ^ POD_SUBJECT)
        return (name,)
