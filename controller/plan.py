"""What one switch should hold: the entities that the controller wants, under one state of the links.

The tables `ports` and `profiles` and the notification group belong to the SyncMesh agent and are not
planned here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from typing import NamedTuple, Protocol

from finsy import Action, Match, P4MulticastGroupEntry, P4TableEntry

from controller.layout import FabricLayout, Layout, Subject
from controller.paths import LinkState, Member
from controller.slots import interleave, preferences, shares
from sglb.fabric.schema import Policy, ScenarioModel
from sglb.fabric.topology import NodeKind
from sglb.syncmesh.dataplane import FABRIC_GROUP, POD_SUBJECT, SLOTS, lane_set

Entity = P4TableEntry | P4MulticastGroupEntry

INGRESS = "FabricIngress"
EGRESS = "FabricEgress"
T_SWITCH_INFO = f"{INGRESS}.ports.switch_info"
T_ROUTING_V4 = f"{INGRESS}.route.routing_v4"
T_ROUTING_V6 = f"{INGRESS}.route.routing_v6"
T_DESTINATIONS = f"{INGRESS}.balance.destinations"
T_MODES = f"{INGRESS}.balance.modes"
T_SLOTS = f"{INGRESS}.balance.slots"
T_LANES = f"{INGRESS}.balance.lanes"
T_PORT_QUALITY = f"{EGRESS}.quality.port_quality"
T_SUBJECTS = f"{EGRESS}.announce.subjects"
T_ANNOUNCEMENTS = f"{EGRESS}.build_note.announcements"
T_WATERMARKS = f"{EGRESS}.ecn.watermarks"
T_SENDER = f"{EGRESS}.sender"

#: Tables of the controller, in an order in which an entry never refers to a later one.
OWNED_TABLES = (
    T_SWITCH_INFO,
    T_SENDER,
    T_LANES,
    T_SLOTS,
    T_MODES,
    T_DESTINATIONS,
    T_ROUTING_V4,
    T_ROUTING_V6,
    T_PORT_QUALITY,
    T_SUBJECTS,
    T_ANNOUNCEMENTS,
    T_WATERMARKS,
)

#: Policies that choose by quality, and those whose data plane avoids what it knows to be dead.
ADAPTIVE: frozenset[Policy] = frozenset({"dlb", "glb"})

_SELECT_HASH, _SELECT_SPRAY, _SELECT_BEST = 0, 1, 2
_SELECTION = {
    "ecmp": _SELECT_HASH,
    "flowlet": _SELECT_SPRAY,
    "spray": _SELECT_SPRAY,
    "dlb": _SELECT_BEST,
    "glb": _SELECT_BEST,
}

# A port's score is past load / 2**LOAD_SHIFT plus its queue in bytes. Past load settles at 64 us
# times the rate, so a full port's load weighs 4 us of its rate and falls to 3 us just after a sample;
# the edges are microseconds at the port's live rate: half load, full load, and then by queue.
LOAD_SHIFT = 4
BAND_EDGES_US = (2.0, 6.0, 8.0, 11.0, 15.0, 21.0, 30.0)

_HASH_SEED_STEP = 0x9E3779B9  # 2**32 / golden ratio: seeds of neighbours differ in many bits
_DATA_CLASSES = range(7)  # class 7 is SyncMesh's own


class Assignment(Protocol):
    """A subject's profile."""

    @property
    def profile(self) -> int:
        """Its index."""


class ProfileMap(Protocol):
    """Which profile holds the remote quality of a subject (see `sglb.syncmesh.profiles`)."""

    def of(self, subject: int) -> Assignment:
        """The profile of a subject; profile 0 is the neutral one."""


@dataclass(frozen=True, slots=True)
class Target:
    """What the plan must know of the switch.

    `depth_unit_bytes` is its unit of queue depth; `rate_scale` by how much its rates were divided (see
    `sglb.fabric.live.scaled`): its queues count as on the fabric that it stands for.
    """

    depth_unit_bytes: int = 80
    rate_scale: int = 1


@dataclass(frozen=True, slots=True)
class PlanInputs:
    """What a plan follows from.

    `state` is what the controller believes of the links. `incarnations` counts the starts of each
    switch, by id; a switch that is not in it runs for the first time.
    """

    fabric: FabricLayout
    model: ScenarioModel
    policy: Policy
    state: LinkState
    profiles: Mapping[int, ProfileMap]
    target: Target = Target()
    incarnations: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Part:
    """Some of a switch's entities; no two parts of a switch have one in common.

    `key` names the part, whatever the state of the links. `basis` is what its entities follow from of
    `PlanInputs.state` and `incarnations`: while it stays the same, so do they. With `common` they
    follow from nothing else of the switch: all switches have the same for the same key and basis.
    """

    key: Hashable
    basis: Hashable
    entities: Callable[[], Iterable[Entity]]
    common: bool = False


def plan_parts(inputs: PlanInputs, switch_id: int) -> list[Part]:
    """What one switch should hold, in parts that are worked out when asked for.

    Raises `PlanError` when the program is too small for the fabric.
    """
    return list(_Plan(inputs, inputs.fabric.layout(switch_id)).parts())


def plan_switch(inputs: PlanInputs, switch_id: int) -> list[Entity]:
    """Every entity of one switch; raises as `plan_parts`."""
    return [entity for part in plan_parts(inputs, switch_id) for entity in part.entities()]


#: The members of a group: ports, and in which proportion they share; and the same with their lanes.
_Shape = tuple[tuple[int, int], ...]
_Shares = tuple[tuple[int, int], ...]
#: Group, bank and lanes that lead to a destination, and the profile with its remote quality.
_Basis = tuple[tuple[int, int, int], int]


class _Way(NamedTuple):
    """How a switch reaches some destinations: by the slots of `group`, which `shares` says."""

    group: int
    shape: _Shape
    shares: _Shares
    place: tuple[int, int, int]


def _shape(members: tuple[Member, ...], weighted: bool) -> _Shape:
    """Weighted shares are what glb adds; SAI's adaptive groups and plain ECMP have equal members."""
    if not weighted:
        return tuple((m.port, 1) for m in members)
    unit = math.gcd(*(m.capacity_bps for m in members))
    return tuple((m.port, m.capacity_bps // unit) for m in members)


class _Plan:
    def __init__(self, inputs: PlanInputs, layout: Layout) -> None:
        self._in = inputs
        self._layout = layout
        self._topology = inputs.fabric.topology
        self._id = layout.switch.id
        self._members = {
            d: inputs.fabric.paths(inputs.state, d).members(self._id) for d in layout.members
        }

    def parts(self) -> Iterator[Part]:
        yield Part("fixed", None, self._fixed)
        yield Part("identity", self._in.incarnations.get(self._id, 1), self._identities)
        ports = tuple(self._topology.ports(self._id))
        yield Part("watermarks", ports, partial(self._watermarks, ports), common=True)
        yield from self._destinations()
        rates = tuple(self._rate_bps(port) for port in self._layout.lanes)
        yield Part("qualities", rates, self._qualities)
        for subject in self._layout.subjects:
            capacity_bps = self._capacity_bps(subject)
            key = ("subject", subject.index)
            yield Part(key, capacity_bps, partial(self._subject, subject, capacity_bps))

    def _destinations(self) -> Iterator[Part]:
        """Destinations, and the groups that they share: one for all with the same shares of paths.

        A group has the number of the first destination that uses it.
        """
        weighted = self._in.policy == "glb" and self._in.model.switch.capacity_slots
        ways: dict[tuple[Member, ...], _Way] = {}
        for destination, own in self._layout.groups.items():
            members = self._members[destination]
            if members and members not in ways:
                way = ways[members] = self._way(own, _shape(members, weighted), ways.values())
                if way.group == own:
                    key, shares = ("group", own), way.shares
                    yield Part(key, shares, partial(self._group, own, shares), common=True)
            # Without a path there is no entry: the data plane counts what has none.
            basis = (ways[members].place, self._profile(destination)) if members else None
            entries = partial(self._destination, destination, basis)
            yield Part(("destination", destination), basis, entries, common=True)

    def _way(self, own: int, shape: _Shape, known: Iterable[_Way]) -> _Way:
        """How to reach the destinations of these members, by the group of others if there is one."""
        same = next((way for way in known if way.shape == shape), None)
        if same is not None:
            return same
        lanes = tuple(self._layout.lanes[port] for port, _ in shape)
        shares = tuple((lane.bit, share) for lane, (_, share) in zip(lanes, shape, strict=True))
        return _Way(own, shape, shares, (own, lanes[0].bank, lane_set(lanes)))

    def _fixed(self) -> Iterator[Entity]:
        """What no fault changes."""
        yield P4MulticastGroupEntry(FABRIC_GROUP, replicas=list(self._layout.neighbours))
        yield from self._lanes()
        yield from self._hosts()

    def _identities(self) -> Iterator[Entity]:
        yield self._switch_info()
        yield self._default(T_SENDER, f"{EGRESS}.set_switch", **self._identity())

    # --- who the switch is ---

    def _identity(self) -> dict[str, int]:
        return {"node_id": self._id, "incarnation": self._in.incarnations.get(self._id, 1)}

    def _switch_info(self) -> P4TableEntry:
        seed = self._id * _HASH_SEED_STEP + self._in.model.seed & 0xFFFFFFFF
        action = f"{INGRESS}.ports.set_switch"
        return self._default(T_SWITCH_INFO, action, **self._identity(), hash_seed=seed)

    @staticmethod
    def _default(table: str, action: str, **params: int) -> P4TableEntry:
        return P4TableEntry(table, action=Action(action, **params), is_default_action=True)

    # --- paths ---

    def _lanes(self) -> Iterator[P4TableEntry]:
        own_mac = int.from_bytes(self._layout.switch.mac)
        for port, neighbour in self._layout.neighbours.items():
            lane = self._layout.lanes[port]
            peer_mac = int.from_bytes(self._topology.by_id(neighbour).mac)
            yield P4TableEntry(
                T_LANES,
                match=Match(bank=lane.bank, lane=lane.bit),
                action=Action(
                    f"{INGRESS}.balance.to_port", port=port, src_mac=own_mac, dst_mac=peer_mac
                ),
            )

    def _group(self, group: int, shares: _Shares) -> Iterator[P4TableEntry]:
        yield from self._slots(group, shares)
        yield P4TableEntry(T_MODES, match=Match(group=group), action=self._mode())

    def _destination(self, destination: int, basis: _Basis | None) -> Iterator[P4TableEntry]:
        yield from self._route(destination)
        if basis is None:
            return
        (group, bank, lanes), profile = basis
        yield P4TableEntry(
            T_DESTINATIONS,
            match=Match(dst=destination),
            action=Action(
                f"{INGRESS}.balance.set_group",
                index=group,
                of_bank=bank,
                members=lanes,
                with_profile=profile,
            ),
        )

    def _profile(self, subject: int) -> int:
        if not self._in.profiles or (
            # What lies behind a core's own link to a pod is announced leaf by leaf.
            subject & POD_SUBJECT and self._layout.switch.kind is NodeKind.CORE
        ):
            return 0
        return self._in.profiles[self._id].of(subject).profile

    def _mode(self) -> Action:
        policy, block = self._in.policy, self._in.model.switch
        flowlets = policy == "flowlet" or (policy in ADAPTIVE and block.adaptive_per == "flowlet")
        return Action(
            f"{INGRESS}.balance.set_mode",
            selection=_SELECTION[policy],
            flowlets=int(flowlets),
            idle_us=max(1, round(block.flowlet_idle_us)),
            local_liveness=int(policy in ADAPTIVE),
            remote_state=int(policy == "glb"),
        )

    def _slots(self, group: int, shares: _Shares) -> Iterator[P4TableEntry]:
        """Who has which slot; where there is one member alone, the program finds it without."""
        if len(shares) < 2:
            return
        for slot, names in enumerate(_turn(tuple(share for _, share in shares))):
            bits = [shares[n][0] for n in names]
            one, two, three = (*bits, 0, 0)[:3]
            yield P4TableEntry(
                T_SLOTS,
                match=Match(group=group, slot=slot),
                action=Action(f"{INGRESS}.balance.set_slot", one=one, two=two, three=three),
            )

    def _hosts(self) -> Iterator[P4TableEntry]:
        """Routes to the switch's own hosts."""
        for host in self._topology.hosts_of(self._id):
            address = self._topology.address(host.id)
            port = self._topology.attachment(host.id).port(self._id)
            mac = int.from_bytes(address.mac)
            action = Action(f"{INGRESS}.route.to_host", port=port, mac=mac)
            for table, prefix in (
                (T_ROUTING_V4, f"{address.ipv4}/32"),
                (T_ROUTING_V6, f"{address.ipv6}/128"),
            ):
                yield P4TableEntry(table, match=Match(prefix=prefix), action=action)

    def _route(self, destination: int) -> Iterator[P4TableEntry]:
        action = Action(f"{INGRESS}.route.to_switch", dst=destination)
        v4, v6 = self._topology.prefix4(destination), self._topology.prefix6(destination)
        for table, prefix in ((T_ROUTING_V4, str(v4)), (T_ROUTING_V6, str(v6))):
            yield P4TableEntry(table, match=Match(prefix=prefix), action=action)

    # --- quality and notifications ---

    def _rate_bps(self, port: int) -> int:
        link = self._topology.link_at(self._id, port)
        return self._in.state.rate_bps.get(link.id, link.spec.rate_bps)

    def _qualities(self) -> Iterator[P4TableEntry]:
        if self._in.policy not in ADAPTIVE:
            return
        sync = self._in.model.syncmesh
        # Only glb announces: without subjects the timer packets of dlb need not look for one.
        announces = self._in.policy == "glb"
        first, count = self._layout.scan if announces else (0, 0)
        for port, lane in self._layout.lanes.items():
            edges = band_edges_bytes(self._rate_bps(port) * self._in.target.rate_scale)
            yield P4TableEntry(
                T_PORT_QUALITY,
                match=Match(port=port),
                action=Action(
                    f"{EGRESS}.quality.set_port",
                    of_subject=self._layout.subject_of_port(port) if announces else 0,
                    of_bank=lane.bank,
                    with_lane_shift=lane.shift,
                    with_load_shift=LOAD_SHIFT,
                    with_queue_shift=queue_shift(self._in.target.depth_unit_bytes),
                    with_beat_timeout_us=round(sync.heartbeat_us * sync.missed_count),
                    with_scan_first=first,
                    with_scan_count=count,
                    **{f"v{i}": edge for i, edge in enumerate(edges, start=1)},
                ),
            )

    def _capacity_bps(self, subject: Subject) -> int:
        """What the switch can send on toward a subject: of a pod's leaves, to the best off."""
        return max(
            (
                sum(m.capacity_bps for m in self._members[d])
                for d in self._in.fabric.named(subject.destination)
                if d in self._members
            ),
            default=0,
        )

    def _subject(self, subject: Subject, capacity_bps: int) -> Iterator[P4TableEntry]:
        if self._in.policy != "glb":
            return
        lanes = tuple(self._layout.lanes[p] for p in subject.ports)
        sync = self._in.model.syncmesh
        yield P4TableEntry(
            T_SUBJECTS,
            match=Match(subject=subject.index),
            action=Action(
                f"{EGRESS}.announce.set_subject",
                of_bank=lanes[0].bank,
                of_members=lane_set(lanes),
                with_profile=self._profile(subject.destination),
                with_spacing_us=round(sync.notify_gap_us),
                with_refresh_us=round(sync.refresh_us),
                with_copies=sync.down_repeats,
            ),
        )
        yield P4TableEntry(
            T_ANNOUNCEMENTS,
            match=Match(subject=subject.index),
            action=Action(
                f"{EGRESS}.build_note.set_destination",
                of_dst=subject.destination,
                with_capacity_mbps=capacity_bps // 1_000_000,
            ),
        )

    def _watermarks(self, ports: Iterable[int]) -> Iterator[P4TableEntry]:
        unit = self._in.target.depth_unit_bytes
        for port in ports:
            for traffic_class in _DATA_CLASSES:
                ecn = self._in.model.switch.ecn_of(traffic_class)
                kmin, kmax = ecn.kmin_bytes // unit, ecn.kmax_bytes // unit
                slope = round(ecn.pmax * 2**32) // max(1, kmax - kmin)
                yield P4TableEntry(
                    T_WATERMARKS,
                    match=Match(port=port, **{"class": traffic_class}),
                    action=Action(
                        f"{EGRESS}.ecn.set_watermark",
                        kmin=kmin,
                        kmax=kmax,
                        slope=min(slope, 2**32 - 1),
                    ),
                )


@cache
def _turn(capacities: tuple[int, ...]) -> list[tuple[int, ...]]:
    """The members that each slot names, by their places among the capacities."""
    return preferences(interleave(shares(capacities, SLOTS)))


def band_edges_bytes(rate_bps: int) -> list[int]:
    """The seven thresholds of a port's score, in bytes, for its live rate."""
    return [round(edge * rate_bps / 8_000_000) for edge in BAND_EDGES_US]


def queue_shift(depth_unit_bytes: int) -> int:
    """The shift that turns a queue depth into bytes, to the power of two below or at the unit."""
    return depth_unit_bytes.bit_length() - 1
