"""Which destinations share a profile, and what the sharing costs.

A profile is one vector of remote quality: a code for each port. The hardware holds few of them, a
fabric may have more destinations. Three steps, each only as far as it has to go:

1. Destinations that look alike from here are one *unit*: the leaves of another pod, reached through
   the same ports, hang on the same links as far as this switch can tell.
2. Units whose ports do not overlap share a profile at no cost: a code on a port can only mean the one
   unit that uses it (graph colouring, first fit, units with most ports first).
3. If that is still too many, units are merged so that the expected penalty is least.

The penalty of two units u and v in one profile: when a remote path of u fails (u over port p, every such
path of the switch equally likely), v stops using p though its own path there is fine, and the other way
round. With N paths, w the share of the switch's destinations that a unit stands for and c(u, p) the
share of u's capacity behind p,

    penalty(u, v) = 1/N * sum over the ports p of both of (w_u * c(u, p) + w_v * c(v, p)).

The sum over all pairs in all profiles is the expected share of the capacity, over all destinations, that
one failure makes the switch avoid for nothing. Besides, the data plane keeps of merged units only
whether they are cut off, not how congested they are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import lcm

from sglb.fabric.topology import NodeKind, Topology
from sglb.syncmesh.dataplane import POD_SUBJECT

NEUTRAL = 0  # profile 0: every code stays "no change"


class ProfileError(ValueError):
    """Profiles cannot be allocated as asked."""


@dataclass(frozen=True, slots=True)
class HardwareMode:
    """How a chip splits its memory of codes: `profiles` vectors of `ports` each."""

    profiles: int
    ports: int


#: The splits that Broadcom's SAI proposal for path quality names; the first is all that TH5 has.
HARDWARE_MODES = (HardwareMode(64, 512), HardwareMode(1024, 64), HardwareMode(2048, 32))


def hardware_mode(ports: int) -> HardwareMode:
    """The mode with most profiles for a switch of that many ports. Raises `ProfileError` if none."""
    for mode in reversed(HARDWARE_MODES):
        if ports <= mode.ports:
            return mode
    raise ProfileError(f"no hardware mode has vectors for {ports} ports; the widest has 512")


@dataclass(frozen=True, slots=True)
class Unit:
    """Destinations that fail together as far as this switch can tell.

    `name` is the subject by which neighbours announce it: a switch id or `POD_SUBJECT | pod`. `leaves`
    are the destination switches in it. `capacity_bps` is the capacity behind each member port.
    """

    name: int
    leaves: tuple[int, ...]
    capacity_bps: Mapping[int, int]

    @property
    def shares(self) -> tuple[tuple[int, Fraction], ...]:
        """Share of the unit's capacity behind each port, by port."""
        total = sum(self.capacity_bps.values())
        return tuple((p, Fraction(c, total)) for p, c in sorted(self.capacity_bps.items()))


@dataclass(frozen=True, slots=True)
class Assignment:
    """Where the quality toward a subject stands.

    `profile` 0 means that none is kept (nobody announces it, or there is no room). `alone`: the profile
    speaks of nothing else on the subject's ports, so its codes may be taken at their word; else only
    "down" is, softened to "worst".
    """

    profile: int
    alone: bool


@dataclass(frozen=True, slots=True)
class Merge:
    """Units that overlap and share a profile all the same, by their subjects, and what that costs."""

    profile: int
    subjects: tuple[int, ...]
    penalty: float


@dataclass(frozen=True, slots=True)
class Allocation:
    """The profiles of one switch.

    `available` counts the neutral profile, `used` does not. `penalty` is the total over `merges` (see
    the module). `unheard` are subjects for which there is no room at all: only when `available` is 1.
    """

    available: int
    used: int
    units: int
    merges: tuple[Merge, ...]
    penalty: float
    unheard: tuple[int, ...]
    assignments: Mapping[int, Assignment]

    def of(self, subject: int) -> Assignment:
        """The assignment of a destination switch id or pod subject.

        Raises `ProfileError` for one that this switch has no path to.
        """
        try:
            return self.assignments[subject]
        except KeyError:
            raise ProfileError(f"no profile was allocated for {subject_name(subject)}") from None

    def summary(self) -> str:
        """One line for a report."""
        text = f"{self.units} units in {self.used} of {self.available - 1} profiles"
        if self.unheard:
            return f"{text}; no room for remote state at all"
        if not self.merges:
            return f"{text}, none merged"
        merged = sum(len(m.subjects) for m in self.merges)
        return (
            f"{text}; {merged} units merged into {len(self.merges)} profiles, "
            f"penalty {self.penalty:.3g} of the capacity a remote failure"
        )


def subject_name(subject: int) -> str:
    """A subject in words."""
    if subject & POD_SUBJECT:
        return f"pod {subject & ~POD_SUBJECT}"
    return f"switch {subject}"


def allocate(
    topology: Topology,
    switch_id: int,
    *,
    profiles: int,
    members: Mapping[int, Mapping[int, int]],
    by_pod: bool = True,
) -> Allocation:
    """Allocates the profiles of one switch.

    `profiles` is how many the hardware holds, the neutral one included. `members` maps each destination
    switch to its member ports and the capacity behind each, in bit/s: those of the healthy fabric, so
    that a failure does not move a destination to another profile. With `by_pod` a switch inside a pod
    hears of other pods as wholes. Raises `ProfileError` when `profiles` is below 1, a capacity not
    above 0 or a switch id above 32767.
    """
    units, direct = _units(topology, switch_id, members, by_pod)
    return allocate_units(units, profiles=profiles, direct=direct)


def allocate_units(
    units: Sequence[Unit], *, profiles: int, direct: Iterable[int] = ()
) -> Allocation:
    """Allocates profiles to units; `direct` are destinations nobody announces (profile 0).

    Raises `ProfileError` as `allocate`.
    """
    if profiles < 1:
        raise ProfileError(f"a switch has at least the neutral profile, got {profiles}")
    for unit in units:
        if not unit.capacity_bps or min(unit.capacity_bps.values()) <= 0:
            raise ProfileError(f"{subject_name(unit.name)} has a member without capacity")
    direct = tuple(direct)
    assignments = {subject: Assignment(NEUTRAL, True) for subject in direct}
    if profiles == 1:
        unheard = tuple(sorted(s for unit in units for s in _subjects(unit)))
        assignments |= {subject: Assignment(NEUTRAL, False) for subject in unheard}
        return Allocation(profiles, 0, len(units), (), 0.0, unheard, assignments)

    costs = _Costs(units, sum(len(u.leaves) for u in units) + len(direct))
    groups = _Grouping(units, costs, profiles - 1)
    groups.fill()
    groups.improve()
    merges = []
    for profile, group in enumerate(groups.units(), start=1):
        overlapping = _overlapping(group)
        for unit in group:
            exclusive = unit.name not in overlapping
            for subject in _subjects(unit):
                whole = subject == unit.name or len(unit.leaves) == 1
                assignments[subject] = Assignment(profile, exclusive and whole)
        if overlapping:
            penalty = float(costs.within(group))
            merges.append(Merge(profile, tuple(sorted(overlapping)), penalty))
    return Allocation(
        available=profiles,
        used=len(groups.units()),
        units=len(units),
        merges=tuple(merges),
        penalty=sum(m.penalty for m in merges),
        unheard=(),
        assignments=assignments,
    )


def _units(
    topology: Topology, switch_id: int, members: Mapping[int, Mapping[int, int]], by_pod: bool
) -> tuple[list[Unit], list[int]]:
    """The units of a switch, and the destinations that are its neighbours."""
    here = topology.by_id(switch_id)
    direct, alike = [], dict[tuple[int, tuple[tuple[int, int], ...]], list[int]]()
    for leaf, ports in sorted(members.items()):
        if leaf == switch_id or not ports:
            continue
        if leaf & POD_SUBJECT:
            raise ProfileError(f"switch id {leaf} is too large: subjects from 0x8000 on name pods")
        if any(topology.link_at(switch_id, port).other(switch_id) == leaf for port in ports):
            direct.append(leaf)
            continue
        pod = topology.by_id(leaf).pod
        # A core meets each leaf's own links behind a single port: there a pod does not fail as one.
        as_pod = by_pod and pod is not None and here.kind is not NodeKind.CORE and pod != here.pod
        name = POD_SUBJECT | pod if as_pod and pod is not None else leaf
        alike.setdefault((name, tuple(sorted(ports.items()))), []).append(leaf)
    # A pod's name goes to the largest part that looks alike; leaves wired otherwise stand alone.
    largest: dict[int, list[int]] = {}
    for (name, _), leaves in alike.items():
        if len(leaves) > len(largest.get(name, ())):
            largest[name] = leaves
    units = []
    for (name, ports_), leaves in alike.items():
        parts = [(name, leaves)] if largest[name] is leaves else [(leaf, [leaf]) for leaf in leaves]
        units += [Unit(n, tuple(part), dict(ports_)) for n, part in parts]
    return sorted(units, key=lambda u: u.name), direct


def _subjects(unit: Unit) -> tuple[int, ...]:
    """Every subject that stands for the unit or a leaf of it."""
    return unit.leaves if unit.name in unit.leaves else (unit.name, *unit.leaves)


def _mask(unit: Unit) -> int:
    return sum(1 << port for port in unit.capacity_bps)


def _overlapping(group: Sequence[Unit]) -> set[int]:
    """Names of the units that share a port with another of the group."""
    users = Counter(port for unit in group for port in unit.capacity_bps)
    return {u.name for u in group if any(users[port] > 1 for port in u.capacity_bps)}


class _Costs:
    """Penalties as integers over one denominator; units of one shape cost the same."""

    def __init__(self, units: Sequence[Unit], destinations: int) -> None:
        weighted = {
            u.name: tuple((p, s * Fraction(len(u.leaves), destinations)) for p, s in u.shares)
            for u in units
        }
        shapes = sorted(set(weighted.values()))
        number = {shape: i for i, shape in enumerate(shapes)}
        self.shape = {name: number[shape] for name, shape in weighted.items()}
        paths = sum(len(u.capacity_bps) for u in units)
        pairs = [[self._pair(dict(a), dict(b)) / max(paths, 1) for b in shapes] for a in shapes]
        self._scale = lcm(*(cost.denominator for row in pairs for cost in row))
        self.pair = [[int(cost * self._scale) for cost in row] for row in pairs]

    @staticmethod
    def _pair(a: Mapping[int, Fraction], b: Mapping[int, Fraction]) -> Fraction:
        return sum((a[p] + b[p] for p in a if p in b), Fraction())

    def joining(self, unit: Unit, shapes: Mapping[int, int]) -> int:
        """What it costs to put a unit beside others, given by how many there are of each shape."""
        row = self.pair[self.shape[unit.name]]
        return sum(row[shape] * count for shape, count in shapes.items())

    def within(self, group: Sequence[Unit]) -> Fraction:
        """The penalty of a whole profile."""
        shapes: Counter[int] = Counter()
        total = 0
        for unit in group:
            total += self.joining(unit, shapes)
            shapes[self.shape[unit.name]] += 1
        return Fraction(total, self._scale)


class _Grouping:
    """Units in at most `room` groups."""

    def __init__(self, units: Sequence[Unit], costs: _Costs, room: int) -> None:
        self._all = sorted(units, key=lambda u: (-len(u.capacity_bps), -len(u.leaves), u.name))
        self._costs = costs
        self._room = room
        self._groups: list[list[Unit]] = []
        self._shapes: list[Counter[int]] = []

    def units(self) -> list[list[Unit]]:
        """The groups, each in order of names, in order of their first."""
        groups = [sorted(group, key=lambda u: u.name) for group in self._groups if group]
        return sorted(groups, key=lambda group: group[0].name)

    def fill(self) -> None:
        """First fit among disjoint groups, then a new group, then the cheapest one."""
        masks: list[int] = []
        for unit in self._all:
            mask = _mask(unit)
            at = next((i for i, used in enumerate(masks) if not used & mask), len(masks))
            if at == len(masks):
                if at < self._room:
                    masks.append(0)
                    self._groups.append([])
                    self._shapes.append(Counter())
                else:
                    at = self._cheapest(unit)
            masks[at] |= mask
            self._put(unit, at)

    def improve(self) -> None:
        """Moves single units, then swaps pairs, as long as the total falls.

        Each step lowers an integer, so this ends.
        """
        while self._move_one() or self._swap_two():
            pass

    def _cheapest(self, unit: Unit) -> int:
        return min(
            range(len(self._groups)), key=lambda i: (self._costs.joining(unit, self._shapes[i]), i)
        )

    def _put(self, unit: Unit, at: int) -> None:
        self._groups[at].append(unit)
        self._shapes[at][self._costs.shape[unit.name]] += 1

    def _take(self, unit: Unit, at: int) -> None:
        self._groups[at].remove(unit)
        self._shapes[at][self._costs.shape[unit.name]] -= 1

    def _leaving(self, unit: Unit, at: int) -> int:
        """What a unit costs in its own group."""
        own = self._costs.shape[unit.name]
        return self._costs.joining(unit, self._shapes[at]) - self._costs.pair[own][own]

    def _move_one(self) -> bool:
        moved = False
        for at, group in enumerate(self._groups):
            for unit in self._one_of_each_shape(group):
                saved = self._leaving(unit, at)
                if saved == 0:
                    continue
                to = self._cheapest(unit)
                if self._costs.joining(unit, self._shapes[to]) < saved:
                    self._take(unit, at)
                    self._put(unit, to)
                    moved = True
        return moved

    def _swap_two(self) -> bool:
        pair, shape = self._costs.pair, self._costs.shape
        for a, group_a in enumerate(self._groups):
            for b in range(a + 1, len(self._groups)):
                for u in self._one_of_each_shape(group_a):
                    for v in self._one_of_each_shape(self._groups[b]):
                        before = self._leaving(u, a) + self._leaving(v, b)
                        after = self._costs.joining(u, self._shapes[b]) + self._costs.joining(
                            v, self._shapes[a]
                        )
                        if after - 2 * pair[shape[u.name]][shape[v.name]] < before:
                            self._take(u, a)
                            self._take(v, b)
                            self._put(u, b)
                            self._put(v, a)
                            return True
        return False

    def _one_of_each_shape(self, group: Sequence[Unit]) -> list[Unit]:
        found: dict[int, Unit] = {}
        for unit in group:
            found.setdefault(self._costs.shape[unit.name], unit)
        return list(found.values())
