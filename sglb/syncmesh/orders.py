"""SETs to the own data plane, each sent again until it is confirmed.

The data plane returns every SET that it carried out, in order with the notifications that it took in.
"""

from __future__ import annotations

from dataclasses import dataclass

from sglb.syncmesh import messages as m
from sglb.syncmesh.outbox import Outbox, earliest
from sglb.syncmesh.stats import Count


@dataclass(frozen=True, slots=True)
class Target:
    """What a SET writes: a lane of a profile (SET_REMOTE) or a link (SET_LINK, profile 0).

    `subject` is the index of the announcement to look at afterwards.
    """

    what: int
    profile: int
    port: int
    subject: int


@dataclass(slots=True)
class _Pending:
    code: int
    due_ps: int


class Orders:
    """All SETs under way, the last one for each target."""

    def __init__(self, out: Outbox) -> None:
        self._out = out
        self._pending: dict[Target, _Pending] = {}

    def __len__(self) -> int:
        return len(self._pending)

    def give(self, target: Target, code: int) -> None:
        """Sends a SET, unless the same one is under way."""
        pending = self._pending.get(target)
        if pending is None or pending.code != code:
            self._send(target, code)

    def confirmed(self, order: m.Set) -> Target:
        """The data plane carried one out; returns its target."""
        target = Target(order.what, order.profile, order.port, order.subject)
        pending = self._pending.get(target)
        if pending is not None and pending.code == order.code:
            del self._pending[target]
        return target

    def under_way(self, target: Target) -> bool:
        """Whether a SET for the target is still to be confirmed."""
        return target in self._pending

    @property
    def deadline_ps(self) -> int | None:
        """When `timer` must be called."""
        return earliest(*(p.due_ps for p in self._pending.values()))

    def timer(self) -> None:
        """Repeats what was not confirmed in time."""
        for target, pending in list(self._pending.items()):
            if pending.due_ps <= self._out.now_ps:
                self._out.count(Count.SET_AGAIN)
                self._send(target, pending.code)

    def _send(self, target: Target, code: int) -> None:
        due_ps = self._out.now_ps + self._out.config.timers.set_timeout_ps
        self._pending[target] = _Pending(code, due_ps)
        self._out.send_set(target.what, code, target.profile, target.port, target.subject)
