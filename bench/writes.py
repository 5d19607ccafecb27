"""A controller's writes, all or nothing, while packets run in another thread.

Four hot routes lead to one next hop. Each WriteRequest deletes that next hop, inserts another with an
address that carries the request's number, leads the four routes there, and takes one ordinary route out
and another in: what a packet would meet between two of these updates is a drop, or two packets of one
batch with two numbers. The other thread forwards batches meanwhile, each under the switch's lock, and
looks at every packet of the hot routes.
"""

from __future__ import annotations

import random
import statistics
import threading
import time
from dataclasses import dataclass, field

import numpy as np
from finsy.proto import p4r
from forward import BATCH, Router, Rows, sent_by_all
from numpy.typing import NDArray
from router import NEXT_HOPS, Route, Tables, frames, next_hop_entry, route_entry

_HOT = 4
_EVERY = 16  #: a packet of a hot route stands at each so many places
_ADDRESS = 0x030000000000
_SPARE = Route(0xDF000000, 28, 0)  #: routes that come and go lie behind each other from here on


@dataclass
class Outcome:
    """What both threads did.

    `batch_s` is the CPU time of each batch in native code; `write_cpu_s` is what each request took of
    its thread's CPU time, `write_s` how long it took with waiting for the lock. `violations` counts
    packets of hot routes that were dropped or had another number than they may have.
    """

    updates: int = 0
    checked: int = 0
    violations: int = 0
    batch_s: list[float] = field(default_factory=list)
    write_cpu_s: list[float] = field(default_factory=list)
    write_s: list[float] = field(default_factory=list)

    @property
    def ns_per_packet(self) -> float:
        """Native code, in the median batch."""
        return statistics.median(self.batch_s) / BATCH * 1e9


class Writer:
    """The controller. `begun` and `done` are the numbers of requests that have begun and ended."""

    def __init__(self, router: Router, hot: tuple[Route, ...], outcome: Outcome) -> None:
        self._client = router.client
        self._hot = hot
        self._outcome = outcome
        self.begun = self.done = 0
        self._client.insert([next_hop_entry(self._hop(0), _ADDRESS), route_entry(self._spare(0))])
        self._client.modify([route_entry(self._led(route, 0)) for route in hot])

    def write(self) -> None:
        """One request."""
        old, new = self.done, self.done + 1
        updates = [
            -next_hop_entry(self._hop(old)),
            +next_hop_entry(self._hop(new), _ADDRESS + new),
            *(~route_entry(self._led(route, new)) for route in self._hot),
            -route_entry(self._spare(old)),
            +route_entry(self._spare(new)),
        ]
        self.begun = new
        began, cpu = time.perf_counter(), time.thread_time()
        self._client.write(updates, atomicity=p4r.WriteRequest.DATAPLANE_ATOMIC)
        self._outcome.write_cpu_s.append(time.thread_time() - cpu)
        self._outcome.write_s.append(time.perf_counter() - began)
        self._outcome.updates += len(updates)
        self.done = new

    def undo(self) -> None:
        """Leaves the tables as they were at first."""
        self._client.modify([route_entry(route) for route in self._hot])
        self._client.delete(
            [next_hop_entry(self._hop(self.done)), route_entry(self._spare(self.done))]
        )

    @staticmethod
    def _hop(number: int) -> int:
        return NEXT_HOPS + number % NEXT_HOPS

    @staticmethod
    def _spare(number: int) -> Route:
        return Route(_SPARE.prefix + (number % 4096 << 4), _SPARE.length, 0)

    def _led(self, route: Route, number: int) -> Route:
        return Route(route.prefix, route.length, self._hop(number))


def run(router: Router, tables: Tables, rows: Rows, traffic: NDArray[np.uint8]) -> Outcome:
    """Forwards all the traffic while the other thread writes as fast as it can."""
    outcome = Outcome()
    hot, flows = _hot_routes(tables, rows)
    traffic = traffic.copy()
    traffic[::_EVERY] = np.resize(flows, (len(traffic[::_EVERY]), traffic.shape[1]))
    writer = Writer(router, hot, outcome)
    failed: list[BaseException] = []
    ends = threading.Event()

    def write() -> None:
        try:
            while not ends.is_set():
                writer.write()
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        for at in range(0, len(traffic) - BATCH + 1, BATCH):
            rows.put(traffic[at : at + BATCH])
            _forward(router, rows, writer, outcome)
    finally:
        ends.set()
        thread.join()
    if failed:
        raise failed[0]
    writer.undo()
    return outcome


def _forward(router: Router, rows: Rows, writer: Writer, outcome: Outcome) -> None:
    done = writer.done
    with router.switch.lock:
        began = time.thread_time()
        rows.forward(BATCH)
        outcome.batch_s.append(time.thread_time() - began)
    begun = writer.begun
    ports = rows.ports(BATCH)[::_EVERY]
    address = np.pad(rows.headers(BATCH, 0, 6)[::_EVERY], ((0, 0), (2, 0)))
    numbers = address.copy().view(">u8")[:, 0].astype(np.int64) - _ADDRESS
    wrong = (ports < 0) | (numbers != numbers[0]) | (numbers < done) | (numbers > begun)
    outcome.checked += len(ports)
    outcome.violations += int(np.count_nonzero(wrong))


def _hot_routes(tables: Tables, rows: Rows) -> tuple[tuple[Route, ...], NDArray[np.uint8]]:
    """Routes, and for each a frame that takes it: no longer prefix and no rule stands in its way."""
    rng = random.Random(7)
    routes = [route for route in tables.routes if route.length >= 28]
    found: list[Route] = []
    while len(found) < _HOT:
        route = rng.choice(routes)
        alone = all(o is route or _apart(o, route) for o in routes) and route not in found
        (sent,) = sent_by_all(rows, _frame(route))
        if alone and sent[0] >= 0:
            found.append(route)
    return tuple(found), np.concatenate([_frame(route) for route in found])


def _apart(one: Route, other: Route) -> bool:
    shift = 32 - min(one.length, other.length)
    return one.prefix >> shift != other.prefix >> shift


def _frame(route: Route) -> NDArray[np.uint8]:
    return frames([(0x0A000001, route.prefix, 17, 40000, 4791)])
