"""How ranks find each other: records and a secret in the store of `torch.distributed`.

Keys, under `reccl/<group>/<n>/` with n counting how often this rank opened the group on this store:
`secret` (rank 0 makes it), `rank/<r>` (JSON: version, host, rails with address and port).
"""

from __future__ import annotations

import json
import os
import secrets
import time
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from sglb.collective.transport.errors import RendezvousError
from sglb.collective.transport.wire import VERSION

_SECRET_BYTES = 32
_MAX_RECORD_BYTES = 1 << 16
_MAX_RAILS = 64
_FIRST_PAUSE_S = 0.001
_LAST_PAUSE_S = 0.1


class Store(Protocol):
    """What is used of `torch.distributed.Store`."""

    def set(self, key: str, value: Any, /) -> Any: ...  # noqa: D102
    def get(self, key: str, /) -> bytes: ...  # noqa: D102
    def add(self, key: str, amount: int, /) -> int: ...  # noqa: D102
    def check(self, keys: list[str], /) -> bool: ...  # noqa: D102


@dataclass(frozen=True, slots=True)
class RailRecord:
    """Where a rank listens on one of its rails."""

    name: str
    address: str
    port: int


@dataclass(frozen=True, slots=True)
class Record:
    """What a rank tells the others.

    door: path of its socket for ranks of the same host. commons: name of its memory for these. '': none.
    """

    rank: int
    version: int
    host: str
    pid: int
    door: str
    commons: str
    rails: tuple[RailRecord, ...]

    def to_json(self) -> str:
        """The text in the store."""
        return json.dumps(asdict(self))


def parse_record(data: bytes, rank: int) -> Record:
    """A record of the store. Raises RendezvousError naming the rank and what is wrong."""
    where = f"the record of rank {rank} in the store"
    if len(data) > _MAX_RECORD_BYTES:
        raise RendezvousError(f"{where} has {len(data)} bytes")
    try:
        fields = json.loads(data)
        version = int(fields["version"])
        if version != VERSION:
            raise RendezvousError(
                f"rank {rank} speaks version {version} of the protocol, this one {VERSION}: "
                "install the same sglb everywhere"
            )
        rails = tuple(
            RailRecord(str(r["name"]), str(r["address"]), int(r["port"])) for r in fields["rails"]
        )
        record = Record(
            int(fields["rank"]),
            version,
            str(fields["host"]),
            int(fields["pid"]),
            str(fields["door"]),
            str(fields["commons"]),
            rails,
        )
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise RendezvousError(f"{where} makes no sense: {type(error).__name__}") from None
    if record.rank != rank or not 0 < len(rails) <= _MAX_RAILS:
        raise RendezvousError(f"{where} is of rank {record.rank} with {len(rails)} rails")
    if not all(0 < rail.port < 65_536 for rail in rails):
        raise RendezvousError(f"{where} has a port out of range")
    return record


@dataclass(frozen=True, slots=True)
class Met:
    """What all know after the rendezvous: name of the group on the wire, secret, records by rank."""

    name: str
    secret: bytes
    records: list[Record]


def begin(store: Store, group: str, rank: int) -> str:
    """The prefix of this opening's keys."""
    number = store.add(f"reccl/{group}/opened/{rank}", 1)
    return f"reccl/{group}/{number}"


def meet(store: Store, prefix: str, mine: Record, size: int, timeout_s: float) -> Met:
    """Tell the store my record, wait for those of all. Raises RendezvousError naming who is missing."""
    if mine.rank == 0:  # before its record, so that who has that finds this
        store.set(f"{prefix}/secret", secrets.token_hex(_SECRET_BYTES))
    store.set(f"{prefix}/rank/{mine.rank}", mine.to_json())
    keys = [f"{prefix}/rank/{rank}" for rank in range(size)]
    _wait(store, keys, timeout_s)
    records = [parse_record(store.get(key), rank) for rank, key in enumerate(keys)]
    try:
        secret = bytes.fromhex(bytes(store.get(f"{prefix}/secret")).decode("ascii"))
    except ValueError:
        raise RendezvousError("the group's secret in the store makes no sense") from None
    if len(secret) != _SECRET_BYTES:
        raise RendezvousError(f"the group's secret in the store has {len(secret)} bytes")
    return Met(prefix, secret, records)


def own_record(rank: int, host: str, door: str, commons: str, rails: list[RailRecord]) -> Record:
    """This process's record."""
    return Record(rank, VERSION, host, os.getpid(), door, commons, tuple(rails))


def agree(store: Store, prefix: str, rank: int, size: int, mine: int, timeout_s: float) -> int:
    """The least of the numbers that all ranks say, once all have. Raises RendezvousError."""
    keys = [f"{prefix}/commons/{other}" for other in range(size)]
    store.set(keys[rank], str(mine))
    _wait(store, keys, timeout_s)
    try:
        return min(int(store.get(key)) for key in keys)
    except ValueError:
        raise RendezvousError("what ranks say of shared memory makes no sense") from None


def _wait(store: Store, keys: list[str], timeout_s: float) -> None:
    """Until the store has all keys, of which there is one for each rank first."""
    deadline = time.monotonic() + timeout_s
    for rank, key in enumerate(keys):
        # Not by the store's own `wait`, which torch lets no Ctrl-C interrupt.
        pause_s = _FIRST_PAUSE_S
        while not _has(store, key):
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                raise RendezvousError(
                    f"rank {rank} has not appeared in the store within {timeout_s:g} s; is its "
                    "process running?"
                )
            time.sleep(min(pause_s, left_s))
            pause_s = min(2 * pause_s, _LAST_PAUSE_S)


def _has(store: Store, key: str) -> bool:
    try:
        return bool(store.check([key]))
    except Exception as error:
        lines = str(error).splitlines() or [type(error).__name__]
        raise RendezvousError(f"the group's store does not answer: {lines[0]}") from error
