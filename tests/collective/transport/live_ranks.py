"""Ranks as processes on the hosts of a lab, for tests on real interfaces."""

from __future__ import annotations

import multiprocessing as mp
import random
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[3] / "bench"))

import rail_lab

from sglb.collective.transport import Settings, Stats, Transport

Ask = tuple[Stats, bool, str, float]


def exchange(
    transport: Transport, peer: int, number: int, size: int, begun: str = ""
) -> tuple[bool, str, float]:
    """Whether what the peer sent arrived as it was, the error if not, how long it took (s).

    begun: a file to make once a tenth has arrived.
    """
    data = random.Random(f"{transport.rank} {number}").randbytes(size)
    into = bytearray(size)
    began = time.monotonic()
    error = ""
    try:
        found = transport.recv(peer, number, into)
        sent = transport.send(peer, number, data)
        while begun and found.progress_bytes < size // 10:
            transport.progress(0.001)
        if begun:
            Path(begun).touch()
        found.wait(30)
        sent.wait(30)
    except Exception as caught:
        error = f"{type(caught).__name__}: {caught}"
    took = time.monotonic() - began
    return into == random.Random(f"{peer} {number}").randbytes(size), error, took


def _rank(
    lab: rail_lab.Lab, rank: int, size: int, chosen: Settings, folder: Path, link: Any
) -> None:
    hosts = 2
    lab.enter(rank * hosts // size)
    store = rail_lab.FolderStore(folder)
    transport = Transport.open(store, rank, size, settings=chosen, timeout_s=20)
    link.send("ready")
    while (order := link.recv()) is not None:
        link.send((*order(transport), transport.stats()))
    transport.close()


class Ranks:
    """Processes of ranks; `ask` makes each run a function of its transport."""

    def __init__(
        self, lab: rail_lab.Lab, size: int, choose: Callable[[int], dict[str, Any]]
    ) -> None:
        context = mp.get_context("fork")
        self._folder = tempfile.TemporaryDirectory()
        self.path = path = Path(self._folder.name)
        self._links = []
        self._work = []
        for rank in range(size):
            mine, theirs = context.Pipe()
            chosen = Settings(**{"runtime_dir": str(path), **choose(rank)})
            arguments = (lab, rank, size, chosen, path, theirs)
            self._work.append(context.Process(target=_rank, args=arguments))
            self._links.append(mine)

    def __enter__(self) -> Ranks:
        for process in self._work:
            process.start()
        for link in self._links:
            self._take(link)
        return self

    def _take(self, link: Any) -> Any:
        assert link.poll(60), "a rank says nothing"
        return link.recv()

    def begin(self, orders: list[Any]) -> None:
        for link, order in zip(self._links, orders, strict=True):
            link.send(order)

    def wait_until_begun(self, names: list[str]) -> None:
        deadline = time.monotonic() + 30
        while not all(Path(name).exists() for name in names):
            assert time.monotonic() < deadline
            time.sleep(0.005)

    def results(self) -> list[Any]:
        return [self._take(link) for link in self._links]

    def __exit__(self, *_: object) -> None:
        for link, process in zip(self._links, self._work, strict=True):
            if process.is_alive():
                link.send(None)
        for process in self._work:
            process.join(15)
            if process.is_alive():
                process.kill()
                process.join()
        self._folder.cleanup()
