"""Slots of a group: handed out in proportion to capacity, spread evenly over the turn."""

from __future__ import annotations

from collections.abc import Sequence

CHOICES = 3  # members that the P4 table `slots` names a slot: first, second, third


def shares(capacities: Sequence[int], slots: int) -> list[int]:
    """How many of `slots` each member gets (largest remainder; earlier members win ties).

    Every member with capacity gets at least one slot, so `slots` must not be below their number.
    Raises ValueError when it is, when there is no member, or when no capacity is above 0.
    """
    alive = [c for c in capacities if c > 0]
    if not alive or min(capacities) < 0:
        raise ValueError(f"a group needs members with capacity, got {list(capacities)}")
    if len(alive) > slots:
        raise ValueError(f"{len(alive)} members do not fit {slots} slots")
    total = sum(alive)
    quota = [c * slots for c in capacities]
    given = [max(q // total, 1) if c else 0 for q, c in zip(quota, capacities, strict=True)]
    order = sorted(range(len(given)), key=lambda i: (given[i] * total - quota[i], i))
    step = 1 if sum(given) < slots else -1
    while sum(given) != slots:
        for i in order if step > 0 else reversed(order):
            if capacities[i] and given[i] + step >= 1 and sum(given) != slots:
                given[i] += step
    return given


def interleave(counts: Sequence[int]) -> list[int]:
    """The member of each slot: smooth weighted round robin over `counts` slots a member.

    Each step every member gains its count, the highest sum wins the slot and pays the total: no
    member's slots are ever more than one round's rounding away from their even places.
    """
    total = sum(counts)
    credit = [0] * len(counts)
    turn = []
    for _ in range(total):
        credit = [c + w for c, w in zip(credit, counts, strict=True)]
        winner = max(range(len(counts)), key=lambda i: (credit[i], -i))
        credit[winner] -= total
        turn.append(winner)
    return turn


def preferences(turn: Sequence[int]) -> list[tuple[int, ...]]:
    """For each slot its member and the next distinct ones of the turn, `CHOICES` at most."""
    found = []
    for start in range(len(turn)):
        names: list[int] = []
        for step in range(len(turn)):
            member = turn[(start + step) % len(turn)]
            if member not in names:
                names.append(member)
                if len(names) == CHOICES:
                    break
        found.append(tuple(names))
    return found
