"""SETs to the own data plane, and which of them it has not confirmed.

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
    codes: list[int]  # in the order in which they were sent
    due_ps: int


class Orders:
    """All SETs under way."""

    def __init__(self, out: Outbox) -> None:
        self._out = out
        self._pending: dict[Target, _Pending] = {}

    def __len__(self) -> int:
        return sum(len(p.codes) for p in self._pending.values())

    def give(self, target: Target, code: int) -> bool:
        """Sends a SET, unless it is under way with nothing after it; tells whether it did."""
        if self.last(target) == code:
            return False
        pending = self._pending.setdefault(target, _Pending([], 0))
        pending.codes.append(code)
        pending.due_ps = self._out.now_ps + self._out.config.timers.set_timeout_ps
        self._out.send_set(target.what, code, target.profile, target.port, target.subject)
        return True

    def last(self, target: Target) -> int | None:
        """The code of the last SET under way to the target, None without one."""
        pending = self._pending.get(target)
        return None if pending is None else pending.codes[-1]

    def confirmed(self, order: m.Set) -> Target:
        """The data plane carried one out, and with it all before; returns its target."""
        target = Target(order.what, order.profile, order.port, order.subject)
        pending = self._pending.get(target)
        if pending is not None and order.code in pending.codes:
            del pending.codes[: pending.codes.index(order.code) + 1]
            if not pending.codes:
                del self._pending[target]
        return target

    @property
    def deadline_ps(self) -> int | None:
        """When `overdue` has something."""
        return earliest(*(p.due_ps for p in self._pending.values()))

    def overdue(self) -> list[Target]:
        """Takes out what was not confirmed in time: whether it was carried out is not known."""
        late = [t for t, p in self._pending.items() if p.due_ps <= self._out.now_ps]
        for target in late:
            self._out.count(Count.SET_AGAIN)
            del self._pending[target]
        return late
