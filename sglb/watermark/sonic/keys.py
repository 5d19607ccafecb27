"""Keys of CONFIG_DB that name queues or priority groups: `QUEUE|Ethernet0,Ethernet4|3-4`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sglb.watermark.sonic.database import Address
from sglb.watermark.sonic.errors import SonicDataError


def members(address: Address, key: str) -> list[tuple[str, int]]:
    """Ports and numbers that a key stands for, one by one. Raises SonicDataError that names the key."""
    _, _, rest = key.partition("|")
    ports, _, numbers = rest.rpartition("|")
    names = ports.split(",")
    if not all(name and name.split() == [name] for name in names):
        raise SonicDataError(f"{address}: {key} does not name ports; it is TABLE|PORT,PORT|3-4")
    first, dash, last = numbers.partition("-")
    ends = (first, last if dash else first)
    # Two digits: no switch has a hundred queues at a port.
    if not all(end.isascii() and end.isdigit() and len(end) <= 2 for end in ends) or (
        int(ends[0]) > int(ends[1])
    ):
        raise SonicDataError(
            f"{address}: {key} ends in {numbers!r}, which is neither a number nor a range as 3-4"
        )
    return [(name, n) for name in names for n in range(int(ends[0]), int(ends[1]) + 1)]


def summary(address: Address, keys: Sequence[str]) -> list[str]:
    """As `QUEUE 3-4 of 4 ports`, however they are written: a switch has hundreds, set alike."""
    ports: dict[tuple[str, int], set[str]] = {}
    for key in keys:
        for port, number in members(address, key):
            ports.setdefault((key.partition("|")[0], number), set()).add(port)
    return _texts(ports)


def _texts(ports: Mapping[tuple[str, int], set[str]]) -> list[str]:
    """Neighbouring numbers of the same ports in one."""
    runs: list[tuple[str, int, int, set[str]]] = []
    for (table, number), some in sorted(ports.items(), key=lambda item: item[0]):
        if runs and (runs[-1][0], runs[-1][2] + 1, runs[-1][3]) == (table, number, some):
            runs[-1] = (table, runs[-1][1], number, some)
        else:
            runs.append((table, number, number, some))
    return [
        f"{table} {first if first == last else f'{first}-{last}'} of {len(some)} "
        f"port{'s' if len(some) > 1 else ''}"
        for table, first, last, some in runs
    ]
