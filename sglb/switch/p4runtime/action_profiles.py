"""ActionProfileMember, ActionProfileGroup and one-shot action sets.

P4Runtime 1.5, "ActionProfileMember & ActionProfileGroup" and "One Shot Action Selector Programming".
A selector is programmed in one style at a time: with one-shot sets, or with members and groups.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from finsy.proto import p4i, p4r
from google.protobuf.unknown_fields import UnknownFieldSet

from sglb.switch.p4runtime.actions import ActionSet
from sglb.switch.p4runtime.entity import Undo, UpdateType, find
from sglb.switch.p4runtime.ports import PortCodec
from sglb.switch.p4runtime.status import Code, P4RuntimeError
from sglb.switch.profiles import ActionProfile, Group, GroupMember, Member, OneShot, OneShotAction

_ActionSet = p4r.ActionProfileActionSet
#: `group_action`, which the protobuf classes in use do not know by name.
_GROUP_ACTION = 5


@dataclass(frozen=True, slots=True)
class WrittenMember(GroupMember):
    """A group's member with the (canonical) message that is read back for it."""

    message: p4r.ActionProfileGroup.Member = field(kw_only=True, compare=False)


@dataclass(frozen=True, slots=True)
class WrittenOneShot(OneShot):
    """A one-shot set with the (canonical) message that is read back for it."""

    message: p4r.ActionProfileActionSet = field(kw_only=True, compare=False)


@dataclass(frozen=True, slots=True)
class ProfileBinding:
    """An action profile or selector of P4Info and its state; `actions` are those of its tables."""

    info: p4i.ActionProfile
    state: ActionProfile
    actions: ActionSet
    ports: PortCodec

    @property
    def name(self) -> str:
        """The full name."""
        return str(self.info.preamble.name)

    def check_style(self, *, one_shot: bool) -> None:
        """INVALID_ARGUMENT when the selector is programmed in the other style already."""
        if one_shot and (self.state.members or self.state.groups):
            raise self.bad(
                "has members or groups, so entries must refer to them: one selector takes either "
                "one-shot sets or members and groups"
            )
        if not one_shot and self.state.one_shots:
            raise self.bad(
                "is programmed with one-shot sets: one selector takes either those or members "
                "and groups"
            )

    def bad(self, text: str, code: Code = Code.INVALID_ARGUMENT) -> P4RuntimeError:
        """An error about this profile."""
        return P4RuntimeError(code, f"action profile {self.name} {text}")

    # --- weights and watch ports ------------------------------------------------------------------

    def weight(self, weight: int, what: str) -> int:
        """The weight in the device; INVALID_ARGUMENT for one that P4Info doesn't allow."""
        if self.info.weights_disallowed:
            if weight:
                raise self.bad(f"sets weights itself: {what} must leave weight 0, not {weight}")
            return 1
        if weight < 1:
            raise self.bad(f"needs weights of at least 1: {what} has {weight}")
        limit = self.info.sum_of_members.max_member_weight
        if self.info.HasField("sum_of_members") and 0 < limit < weight:
            raise self.bad(f"allows weights up to {limit}: {what} has {weight}")
        return weight

    def group_size(self, weights: Sequence[int]) -> int:
        """The size of a set as the profile counts it: its weights, or its members."""
        return len(weights) if self.info.HasField("sum_of_members") else sum(weights)

    def watch_port(
        self, message: p4r.ActionProfileAction | p4r.ActionProfileGroup.Member
    ) -> int | None:
        """The watched port; None when nothing is watched.

        INVALID_ARGUMENT for anything that is no port of the switch, whatever is wrong with it.
        """
        what = f"action profile {self.name}, watch port"
        match message.WhichOneof("watch_kind"):
            case "watch_port" if message.watch_port:
                try:
                    return self.ports.decode(message.watch_port, what)
                except P4RuntimeError as error:
                    raise P4RuntimeError(Code.INVALID_ARGUMENT, error.message) from error
            case "watch" if message.watch:
                return self.ports.check(message.watch, what)
            case _:
                return None

    def canonical_watch(
        self, message: p4r.ActionProfileAction | p4r.ActionProfileGroup.Member, port: int | None
    ) -> None:
        """Rewrites the watch port's bytes in their shortest form."""
        if port is not None and message.WhichOneof("watch_kind") == "watch_port":
            message.watch_port = self.ports.canonical(message.watch_port)

    # --- one-shot sets ----------------------------------------------------------------------------

    def one_shot(self, message: p4r.ActionProfileActionSet) -> WrittenOneShot:
        """The set that an entry gets; raises what the specification has for each mistake."""
        self.check_style(one_shot=True)
        self._check_modes(message)
        written = p4r.ActionProfileActionSet()
        written.CopyFrom(message)
        actions = []
        for i, action in enumerate(written.action_profile_actions):
            call = self.actions.decode(action.action)
            weight = self.weight(action.weight, f"action {i} of a one-shot set")
            port = self.watch_port(action)
            actions.append(OneShotAction(call, weight, port))
            encoded = self.actions.encode(call)
            if encoded is not None:
                action.action.CopyFrom(encoded)
            self.canonical_watch(action, port)
        limit = self.info.max_group_size
        size = self.group_size([a.weight for a in actions])
        if 0 < limit < size:
            raise self.bad(f"has max_group_size {limit}: a one-shot set of {size} is too large")
        return WrittenOneShot(tuple(actions), message=written)

    def _check_modes(self, message: p4r.ActionProfileActionSet) -> None:
        if any(field.field_number == _GROUP_ACTION for field in UnknownFieldSet(message)):
            raise self.bad("cannot run a group_action before a member's", Code.UNIMPLEMENTED)
        if message.action_selection_mode == _ActionSet.RANDOM:
            raise self.bad("selects by hash, not at random", Code.UNIMPLEMENTED)
        members = self.info.HasField("sum_of_members")
        other = _ActionSet.SUM_OF_WEIGHTS if members else _ActionSet.SUM_OF_MEMBERS
        if message.size_semantics == other:
            raise self.bad(
                f"counts the {'members' if members else 'weights'} of every group, this set "
                "cannot differ",
                Code.UNIMPLEMENTED,
            )
        for mode, enum in (
            (message.action_selection_mode, _ActionSet.ActionSelectionMode),
            (message.size_semantics, _ActionSet.SizeSemantics),
        ):
            if mode not in enum.values():
                raise self.bad(f"does not know mode {mode}")


class MemberHandler:
    """ActionProfileMember."""

    def __init__(self, profiles: Mapping[int, ProfileBinding]) -> None:
        self._profiles = profiles

    def object_id(self, entity: p4r.Entity) -> int:
        """The action profile's id."""
        return int(entity.action_profile_member.action_profile_id)

    def write(self, update: UpdateType, entity: p4r.Entity) -> Undo:
        """Inserts, replaces or deletes a member."""
        entry = entity.action_profile_member
        profile = find(self._profiles, "action profile", entry.action_profile_id)
        state = profile.state
        if entry.member_id == 0:
            raise profile.bad("member_id must not be 0")
        if update is UpdateType.DELETE:
            old = state.member(entry.member_id).call
            state.delete_member(entry.member_id)
            return lambda: _void(state.insert_member(entry.member_id, old))
        profile.check_style(one_shot=False)
        if not entry.HasField("action"):
            raise profile.bad(f"member {entry.member_id}: action is not set")
        call = profile.actions.decode(entry.action)
        if update is UpdateType.INSERT:
            state.insert_member(entry.member_id, call)
            return lambda: state.delete_member(entry.member_id)
        old = state.member(entry.member_id).call
        state.modify_member(entry.member_id, call)
        return lambda: state.modify_member(entry.member_id, old)

    def read(self, entity: p4r.Entity) -> Iterator[p4r.Entity]:
        """The members chosen: of all profiles, of one, or one."""
        entry = entity.action_profile_member
        for profile in _chosen(self._profiles, entry.action_profile_id):
            for member in profile.state.members.values():
                if entry.member_id in (0, member.id):
                    yield p4r.Entity(action_profile_member=self._message(profile, member))

    def _message(self, profile: ProfileBinding, member: Member) -> p4r.ActionProfileMember:
        return p4r.ActionProfileMember(
            action_profile_id=profile.info.preamble.id,
            member_id=member.id,
            action=profile.actions.encode(member.call),
        )


class GroupHandler:
    """ActionProfileGroup."""

    def __init__(self, profiles: Mapping[int, ProfileBinding]) -> None:
        self._profiles = profiles

    def object_id(self, entity: p4r.Entity) -> int:
        """The selector's id."""
        return int(entity.action_profile_group.action_profile_id)

    def write(self, update: UpdateType, entity: p4r.Entity) -> Undo:
        """Inserts, replaces or deletes a group."""
        entry = entity.action_profile_group
        profile = find(self._profiles, "action profile", entry.action_profile_id)
        state = profile.state
        if not profile.info.with_selector:
            raise profile.bad("has no selector, so no groups")
        if entry.group_id == 0:
            raise profile.bad("group_id must not be 0")
        if update is UpdateType.DELETE:
            old = state.group(entry.group_id)
            members, size = old.members, old.max_size
            state.delete_group(entry.group_id)
            return lambda: _void(state.insert_group(entry.group_id, members, size))
        profile.check_style(one_shot=False)
        wanted = self._members(profile, entry.members)
        if update is UpdateType.INSERT:
            limit = profile.info.max_group_size
            if limit and not 0 < entry.max_size <= limit:
                raise profile.bad(f"group {entry.group_id}: max_size must be in 1..{limit}")
            state.insert_group(entry.group_id, wanted, entry.max_size)
            return lambda: state.delete_group(entry.group_id)
        group = state.group(entry.group_id)
        before = group.members
        if entry.max_size != group.max_size:
            raise profile.bad(
                f"group {entry.group_id}: max_size was {group.max_size} and cannot become "
                f"{entry.max_size}"
            )
        state.modify_group(entry.group_id, wanted)
        return lambda: state.modify_group(entry.group_id, before)

    def _members(
        self, profile: ProfileBinding, messages: Sequence[p4r.ActionProfileGroup.Member]
    ) -> list[GroupMember]:
        members: list[GroupMember] = []
        for message in messages:
            written = p4r.ActionProfileGroup.Member()
            written.CopyFrom(message)
            weight = profile.weight(message.weight, f"member {message.member_id}")
            port = profile.watch_port(message)
            profile.canonical_watch(written, port)
            members.append(WrittenMember(message.member_id, weight, port, message=written))
        return members

    def read(self, entity: p4r.Entity) -> Iterator[p4r.Entity]:
        """The groups chosen: of all selectors, of one, or one."""
        entry = entity.action_profile_group
        for profile in _chosen(self._profiles, entry.action_profile_id):
            for group in profile.state.groups.values():
                if entry.group_id in (0, group.id):
                    yield p4r.Entity(action_profile_group=self._message(profile, group))

    def _message(self, profile: ProfileBinding, group: Group) -> p4r.ActionProfileGroup:
        message = p4r.ActionProfileGroup(
            action_profile_id=profile.info.preamble.id,
            group_id=group.id,
            max_size=group.max_size,
        )
        for member in group.members:
            if isinstance(member, WrittenMember):
                message.members.append(member.message)
            else:
                made = message.members.add(member_id=member.member_id, weight=member.weight)
                if member.watch_port is not None:
                    made.watch_port = profile.ports.encode(member.watch_port)
        return message


def _chosen(profiles: Mapping[int, ProfileBinding], profile_id: int) -> list[ProfileBinding]:
    if profile_id:
        return [find(profiles, "action profile", profile_id)]
    return list(profiles.values())


def _void(_: object) -> None:
    """Makes an undo step of a call that returns something."""
