"""Ranks as threads of one process, over loopback addresses that play the rails."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from sglb.collective.transport import Settings, Transport


class DictStore:
    """A store in memory with the methods of `torch.distributed.Store` that are used."""

    def __init__(self) -> None:
        self._values: dict[str, bytes] = {}
        self._changed = threading.Condition()

    def set(self, key: str, value: Any) -> None:
        with self._changed:
            self._values[key] = value.encode() if isinstance(value, str) else bytes(value)
            self._changed.notify_all()

    def add(self, key: str, amount: int) -> int:
        with self._changed:
            total = int(self._values.get(key, b"0")) + amount
            self._values[key] = str(total).encode()
            return total

    def wait(self, keys: list[str], timeout: timedelta) -> None:
        with self._changed:
            if not self._changed.wait_for(
                lambda: all(key in self._values for key in keys), timeout.total_seconds()
            ):
                raise TimeoutError(f"no {keys}")

    def check(self, keys: list[str]) -> bool:
        with self._changed:
            return all(key in self._values for key in keys)

    def get(self, key: str) -> bytes:
        self.wait([key], timedelta(seconds=10))
        return self._values[key]


RAILS = ("127.0.0.1", "127.0.0.2", "127.0.0.3", "127.0.0.4")


def settings(rails: int = 2, **options: Any) -> Settings:
    chosen = {"rails": RAILS[:rails], "shared_memory": False, "relay": False, "connect_s": 20.0}
    return Settings(**{**chosen, **options})


def on_all(count: int, call: Callable[[int], Any]) -> list[Any]:
    """Results of call(rank) on a thread for each rank; raises what the first of them raised."""
    results: list[Any] = [None] * count
    errors: list[BaseException | None] = [None] * count

    def work(rank: int) -> None:
        try:
            results[rank] = call(rank)
        except BaseException as error:
            errors[rank] = error

    threads = [threading.Thread(target=work, args=(rank,)) for rank in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive(), "a rank hangs"
    for error in errors:
        if error is not None:
            raise error
    return results


@contextmanager
def ranks(count: int, chosen: Settings | None = None) -> Iterator[list[Transport]]:
    store = DictStore()
    made = on_all(
        count,
        lambda rank: Transport.open(
            store, rank, count, settings=chosen or settings(), timeout_s=20
        ),
    )
    try:
        yield made
    finally:
        on_all(count, lambda rank: made[rank].close())
