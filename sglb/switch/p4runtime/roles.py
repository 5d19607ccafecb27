"""What a role may do: all, or what a `stratum.P4RoleConfig` lists.

P4Runtime leaves the scheme of `role.config` open. Without a config a role has full access. The one
scheme understood is Stratum's `P4RoleConfig`, which client libraries ship: it lists the P4Info ids
that a role owns or shares, whether it gets packet-ins and which, and whether it may push a
pipeline. Reading is limited to the same ids. Objects without an id (multicast groups, clone
sessions) belong to roles with full access only.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from finsy.proto import p4r, stratum
from google.protobuf.message import DecodeError

from sglb.switch.p4runtime.status import Code, P4RuntimeError


@dataclass(frozen=True, slots=True)
class RoleScope:
    """The rights of a role. `ids` None stands for every object.

    `packet_filter` is (metadata id, canonical value) that a packet-in must carry, None for all.
    """

    ids: frozenset[int] | None = None
    packet_in: bool = True
    packet_filter: tuple[int, bytes] | None = None
    push_pipeline: bool = True

    @classmethod
    def parse(cls, role: p4r.Role) -> RoleScope:
        """Reads `role.config`; INVALID_ARGUMENT for a scheme that isn't understood."""
        if not role.HasField("config"):
            return cls()
        config = stratum.P4RoleConfig()
        try:
            known = role.config.Unpack(config)
        except DecodeError as error:
            raise P4RuntimeError(
                Code.INVALID_ARGUMENT, f"role {role.name!r}: role.config is damaged: {error}"
            ) from error
        if not known:
            raise P4RuntimeError(
                Code.INVALID_ARGUMENT,
                f"role {role.name!r}: role.config of type {role.config.type_url!r} is not "
                "understood; leave it unset (full access) or send a stratum.P4RoleConfig",
            )
        ids = frozenset(config.exclusive_p4_ids) | frozenset(config.shared_p4_ids)
        packet_filter = None
        if config.HasField("packet_in_filter"):
            value = config.packet_in_filter.value.lstrip(b"\0") or b"\0"
            packet_filter = (config.packet_in_filter.metadata_id, value)
        return cls(ids, config.receives_packet_ins, packet_filter, config.can_push_pipeline)

    def allows(self, object_id: int) -> bool:
        """Whether the role may touch the P4Info object."""
        return self.ids is None or object_id in self.ids

    def wants_packet(self, metadata: Iterable[p4r.PacketMetadata]) -> bool:
        """Whether a packet-in goes to the role's primary."""
        if not self.packet_in:
            return False
        if self.packet_filter is None:
            return True
        wanted, value = self.packet_filter
        return any(m.metadata_id == wanted and m.value == value for m in metadata)
