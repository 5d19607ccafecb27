"""A fabric of bare ports for the traffic manager's tests, driven by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sglb.p4.native import abi
from sglb.switch.config import SwitchConfig
from sglb.switch.core import heap, model, pfc, rows, tm, watchdog
from sglb.switch.core.buffer import group_at, node_at, port_at, queue_at
from sglb.switch.core.memory import NodeSpec, PortSpec, Sizes, build
from sglb.switch.core.settings import ClassSettings, TrafficSettings, write_settings
from sglb.switch.core.wires import arrive

GBPS = 10**9
#: 8 Gbit/s: a byte a nanosecond.
BYTE_NS = 8 * GBPS
NS = 1_000

PORT_WORDS = {name: getattr(model, name) for name in dir(model) if name.startswith("P_")}
QUEUE_WORDS = {name: getattr(model, name) for name in dir(model) if name.startswith("Q_")}
GROUP_WORDS = {name: getattr(model, name) for name in dir(model) if name.startswith("G_")}
NODE_WORDS = {name: getattr(model, name) for name in dir(model) if name.startswith("N_")}


class Fabric:
    """`nodes` switches of `ports` ports each; a link is ((node, port), (node, port))."""

    def __init__(
        self,
        settings: TrafficSettings | None = None,
        *,
        ports: int = 4,
        nodes: int = 1,
        links: Sequence[tuple[tuple[int, int], tuple[int, int]]] = (),
        rate_bps: int | None = BYTE_NS,
        delay_ps: int = 0,
        **config: Any,
    ) -> None:
        peers = {**dict(links), **{b: a for a, b in links}}
        switch = SwitchConfig(**config)
        specs = [
            NodeSpec(
                n,
                [PortSpec(p, rate_bps, delay_ps, peers.get((n, p))) for p in range(ports)],
                switch,
            )
            for n in range(nodes)
        ]
        self.memory = build(specs, Sizes(rows=2_000, frame_bytes=64))
        self.world = self.memory.world
        for node in range(nodes):
            write_settings(self.world, node, 0, settings or TrafficSettings.of_config(switch))
        self.now = 0

    def number(self, node: int, port: int) -> int:
        return self.memory.port(node, port)

    # --- words ---

    def port(self, port: int, word: str) -> int:
        return int(self.world.w[port_at(self.world, port) + PORT_WORDS["P_" + word]])

    def set_port(self, port: int, word: str, value: int) -> None:
        self.world.w[port_at(self.world, port) + PORT_WORDS["P_" + word]] = value

    def queue(self, port: int, cls: int, word: str) -> int:
        return int(self.world.w[queue_at(self.world, port, cls) + QUEUE_WORDS["Q_" + word]])

    def group(self, port: int, cls: int, word: str) -> int:
        return int(self.world.w[group_at(self.world, port, cls) + GROUP_WORDS["G_" + word]])

    def node(self, word: str, node: int = 0) -> int:
        return int(self.world.w[node_at(self.world, node) + NODE_WORDS["N_" + word]])

    def drops(self, port: int, reason: int) -> int:
        return int(self.world.w[self.port(port, "DROPS") + reason])

    def half(self, row: int, word: int) -> int:
        return int(self.world.h[2 * row + word])

    @property
    def rows_used(self) -> int:
        return int(self.world.w[model.ROWS_USED])

    # --- packets ---

    def packet(self, size: int, out: int = 0, cls: int = 0, origin: int = -1) -> int:
        row = rows.row_new(self.world)
        h = self.world.h
        for word, value in (
            (abi.LENGTH, size),
            (abi.STORED, 0),
            (model.RH_BYTES, size),
            (model.RH_OUT_PORT, out),
            (model.RH_QUEUE, cls),
            (model.RH_IN_PORT, origin),
        ):
            h[2 * row + word] = value
        return row

    def admit(self, row: int) -> int:
        why = tm.admit(self.world, row, self.now)
        if why:
            rows.row_free(self.world, row)
        return why

    def put(self, size: int, out: int = 0, cls: int = 0, origin: int = -1) -> int:
        return self.admit(self.packet(size, out, cls, origin))

    def pick(self, port: int = 0) -> int:
        return tm.pick(self.world, port, self.now)

    def done(self, row: int) -> None:
        tm.release(self.world, row, self.now)
        rows.row_free(self.world, row)

    def serve(self, port: int = 0) -> tuple[int, int] | None:
        """(class, bytes) of the packet that leaves now, None for none."""
        row = self.pick(port)
        if row < 0:
            return None
        found = self.half(row, model.RH_QUEUE), self.half(row, model.RH_BYTES)
        self.done(row)
        return found

    def pause(self, port: int, times: dict[int, int]) -> None:
        """A pause frame with these quanta by class takes effect at a port."""
        row = rows.row_new(self.world)
        pfc.write_pause(self.world, row, 0, 0, 0)
        at = rows.data_at(self.world, row)
        self.world.b[at + 17] = sum(1 << cls for cls in times)
        for cls, quanta in times.items():
            self.world.b[at + 18 + 2 * cls] = quanta >> 8
            self.world.b[at + 19 + 2 * cls] = quanta & 255
        pfc.pause_received(self.world, port, row, self.now)
        rows.row_free(self.world, row)

    # --- events ---

    def next_event(self) -> tuple[int, int, int, int] | None:
        """(time, node, kind, index) of the next event, taken out of the heap."""
        if heap.peek(self.world, 0) == heap.NEVER:
            return None
        time, order, _ = heap.pop(self.world, 0)
        self.now = time
        return time, heap.node_of(order), heap.kind_of(order), heap.index_of(order)

    def step(self) -> tuple[int, int, int] | None:
        """Handles the next event as far as it is the traffic manager's; (time, kind, global port)."""
        event = self.next_event()
        if event is None:
            return None
        time, node, kind, index = event
        first = self.memory.first_port[node]
        if kind == model.EV_PAUSE_END:
            port = first + index // model.ALARMS
            watchdog.pause_event(self.world, port, index % model.ALARMS, time)
        else:
            port = first + index
            if kind == model.EV_PAUSE:
                pfc.pause_arrives(self.world, port, time)
            elif kind == model.EV_FREE:
                self.set_port(port, "WAKING", 0)
        return time, kind, port

    def run_until(self, time: int) -> list[tuple[int, int, int]]:
        """All events up to `time`, handled; then it is that time."""
        seen = []
        while heap.peek(self.world, 0) <= time:
            event = self.step()
            assert event is not None
            seen.append(event)
        self.now = time
        return seen

    def arrive(self, port: int) -> int:
        return arrive(self.world, port, self.now)


def classes(**by_number: ClassSettings) -> tuple[ClassSettings, ...]:
    """Eight classes: `c3=...` sets class 3, the others have no limit."""
    return tuple(by_number.get(f"c{n}", ClassSettings()) for n in range(model.CLASSES))
