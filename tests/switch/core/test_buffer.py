"""The shared buffer: dynamic thresholds, reservations, priority groups and headroom, byte by byte."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tm_kit import BYTE_NS, NS, Fabric, classes

from sglb.switch.core import model, tm
from sglb.switch.core.settings import (
    ClassSettings,
    TrafficSettings,
    retune_headroom,
    set_headroom,
    write_settings,
)
from sglb.switch.errors import ConfigError


def lossy(pool: int, **one: Any) -> Fabric:
    setting = ClassSettings(**one)
    return Fabric(TrafficSettings((setting,) * 8, pool), ports=8)


@pytest.mark.parametrize(
    ("alpha", "queues", "each"),
    # alpha B / (1 + n alpha) of B = 12,000 bytes (Choudhury and Hahne, ToN 1998).
    [(Fraction(1), 1, 6_000), (Fraction(1), 3, 3_000), (Fraction(1, 2), 4, 2_000)],
)
def test_saturated_queues_get_the_share_of_the_dynamic_threshold(
    alpha: Fraction, queues: int, each: int
) -> None:
    fabric = lossy(12_000, alpha=alpha)
    for _ in range(12_000 // 10):
        for port in range(queues):
            fabric.put(10, out=port)
    for port in range(queues):
        assert fabric.queue(port, 0, "BYTES") == each
    assert fabric.node("SHARED_USED") == queues * each
    assert fabric.put(1) == model.DROP_BUFFER_FULL
    assert fabric.drops(0, model.DROP_BUFFER_FULL) == 0  # who admits counts


def test_the_threshold_is_of_what_is_unused_as_the_packet_comes() -> None:
    fabric = lossy(1_000, alpha=Fraction(1, 2))
    assert fabric.put(501) == model.DROP_BUFFER_FULL
    assert fabric.put(500) == 0
    assert fabric.put(251, out=1) == model.DROP_BUFFER_FULL
    assert fabric.put(250, out=1) == 0
    assert fabric.put(126, out=2) == model.DROP_BUFFER_FULL  # 250 are unused
    assert fabric.put(125, out=2) == 0
    assert (fabric.node("SHARED_USED"), fabric.node("SHARED_PEAK")) == (875, 875)
    for port in (0, 1, 2):
        assert fabric.serve(port) is not None
    assert (fabric.node("SHARED_USED"), fabric.node("SHARED_PEAK")) == (0, 875)


def test_reserved_bytes_are_a_queues_own() -> None:
    fabric = lossy(1_000, alpha=Fraction(1), reserved_bytes=300)
    assert fabric.put(300) == 0
    assert fabric.node("SHARED_USED") == 0
    assert fabric.put(500) == 0  # 500 of 1,000 in the pool
    assert fabric.node("SHARED_USED") == 500
    assert fabric.put(1) == model.DROP_BUFFER_FULL  # 501 > 500
    assert fabric.put(800, out=1) == 0  # 300 + 500 of the 500 unused
    assert fabric.put(300, out=2) == 0
    assert fabric.put(1, out=2) == model.DROP_BUFFER_FULL
    assert fabric.serve(0) == (0, 300)  # the pool is given back first
    assert fabric.node("SHARED_USED") == 700


def test_without_alpha_only_the_pool_itself_is_the_limit() -> None:
    fabric = lossy(1_000, limit_bytes=800)
    assert fabric.put(801) == model.DROP_QUEUE_FULL
    assert fabric.put(800) == 0
    assert fabric.put(201, out=1) == model.DROP_BUFFER_FULL
    assert fabric.put(200, out=1) == 0


def test_a_packet_counts_until_it_is_released() -> None:
    fabric = lossy(1_000)
    row = fabric.packet(600)
    fabric.admit(row)
    assert fabric.pick() == row
    assert (fabric.queue(0, 0, "BYTES"), fabric.node("SHARED_USED")) == (0, 600)
    assert fabric.put(401, out=1) == model.DROP_BUFFER_FULL
    tm.release(fabric.world, row, 0)
    tm.release(fabric.world, row, 0)  # once is enough
    assert fabric.node("SHARED_USED") == 0


def test_changed_reservations_are_counted_anew() -> None:
    fabric = lossy(1_000, reserved_bytes=100)
    fabric.put(400)
    assert fabric.node("SHARED_USED") == 300
    one = ClassSettings(reserved_bytes=350)
    write_settings(fabric.world, 0, 0, TrafficSettings((one,) * 8, 1_000))
    assert fabric.node("SHARED_USED") == 50
    fabric.serve()
    assert fabric.node("SHARED_USED") == 0


# --- priority groups ---

LOSSLESS = ClassSettings(
    lossless=True, xoff_bytes=1_000, xon_offset_bytes=300, limit_bytes=1, pause_quanta=100
)


def lossless(pool: int = 0, room: int = 500, **change: Any) -> Fabric:
    keys = {key: getattr(LOSSLESS, key) for key in LOSSLESS.__dataclass_fields__}
    one = ClassSettings(**{**keys, **change})
    fabric = Fabric(TrafficSettings(classes(c3=one), pool), ports=8)
    for port in range(8):
        set_headroom(fabric.world, port, 3, room)
    return fabric


def group(fabric: Fabric, port: int = 1) -> tuple[int, int, int]:
    return tuple(fabric.group(port, 3, word) for word in ("BYTES", "HEADROOM", "XOFF"))  # type: ignore[return-value]


def test_headroom_is_changed_out_of_the_pool_and_takes_at_once() -> None:
    fabric = lossless(pool=10_000, room=100, alpha=Fraction(1), xoff_bytes=0)
    retune_headroom(fabric.world, 0, range(8), 3, 600)
    assert fabric.node("SHARED_BYTES") == 10_000 - 8 * 500
    assert {fabric.group(port, 3, "ROOM") for port in range(8)} == {600}
    retune_headroom(fabric.world, 0, range(8), 3, 50)
    assert fabric.node("SHARED_BYTES") == 10_000 + 8 * 50
    with pytest.raises(ConfigError, match="leaves no shared pool"):
        retune_headroom(fabric.world, 0, range(8), 3, 2_000)
    assert {fabric.group(port, 3, "ROOM") for port in range(8)} == {50}


def test_xoff_at_the_threshold_then_headroom_then_loss() -> None:
    fabric = lossless()
    assert fabric.put(999, cls=3, origin=1) == 0
    assert group(fabric) == (999, 0, 0)
    assert fabric.put(200, cls=3, origin=1) == 0  # crosses it; headroom is for what comes after
    assert group(fabric) == (1_199, 0, 1)
    assert fabric.port(1, "PAUSE_TX") == 1
    assert fabric.put(400, cls=3, origin=1) == 0
    assert group(fabric) == (1_199, 400, 1)
    assert fabric.put(101, cls=3, origin=1) == model.DROP_HEADROOM
    assert fabric.put(100, cls=3, origin=1) == 0
    assert (fabric.group(1, 3, "DROPS"), fabric.node("HEADROOM_USED")) == (1, 500)
    assert fabric.put(900, cls=3, origin=2) == 0  # another port's group
    assert group(fabric, 2) == (900, 0, 0)


def test_headroom_is_given_back_first_and_xon_waits_for_the_offset() -> None:
    fabric = lossless()
    for size in (600, 400, 250, 60):
        assert fabric.put(size, cls=3, origin=1) == 0
    assert group(fabric) == (1_000, 310, 1)
    fabric.serve()  # 600: 310 of them from the headroom
    assert group(fabric) == (710, 0, 1)
    fabric.serve()
    assert group(fabric) == (310, 0, 0)
    assert fabric.port(1, "PAUSE_TX") == 2
    assert fabric.group(1, 3, "MAX_HEADROOM") == 310
    assert (fabric.node("HEADROOM_USED"), fabric.node("HEADROOM_PEAK")) == (0, 310)


def test_xon_just_below_the_offset() -> None:
    for last, xoff in ((301, 0), (300, 1)):
        fabric = lossless()
        fabric.put(last, cls=3, origin=1)
        fabric.put(1_000 - last, cls=3, origin=1)
        assert group(fabric) == (1_000, 0, 1)
        fabric.serve()
        assert group(fabric)[2] == xoff


def test_a_dynamic_xoff_follows_the_pool() -> None:
    fabric = lossless(1_000, xoff_bytes=0, alpha=Fraction(1), xon_offset_bytes=0)
    assert fabric.put(499, cls=3, origin=1) == 0  # 499 < 501
    assert group(fabric) == (499, 0, 0)
    assert fabric.put(1, cls=3, origin=1) == 0  # 500 = 500
    assert group(fabric) == (500, 0, 1)
    assert fabric.put(250, cls=3, origin=2) == 0  # 250 unused after it: at once at the threshold
    assert group(fabric, 2) == (250, 0, 1)
    fabric.serve()  # the pool has 749 unused
    assert group(fabric, 1) == (1, 0, 0)
    assert group(fabric, 2) == (250, 0, 1)  # none of its own has left


def test_without_room_in_the_pool_headroom_takes_the_first_packet() -> None:
    fabric = lossless(1_000, xoff_bytes=5_000)
    assert fabric.put(900, cls=3, origin=1) == 0
    assert fabric.put(101, cls=3, origin=2) == 0
    assert group(fabric, 2) == (0, 101, 1)
    assert fabric.node("SHARED_USED") == 900


def test_what_is_in_headroom_counts_towards_the_threshold() -> None:
    fabric = lossless(1_000)
    fabric.put(950, cls=3, origin=1)
    fabric.put(100, cls=3, origin=1)  # no room for it in the pool
    assert group(fabric) == (950, 100, 1)
    fabric.put(10, cls=3, origin=1)  # there is for this, but 1,050 bytes are over the threshold
    assert group(fabric) == (950, 110, 1)


def test_packets_of_no_port_have_no_group_and_no_limit_but_the_pool() -> None:
    fabric = lossless(1_000, limit_bytes=None)
    assert fabric.put(1_000, cls=3) == 0
    assert fabric.put(1, cls=3) == model.DROP_BUFFER_FULL
    assert fabric.queue(0, 3, "COUNTED") == 1_000


def test_headroom_needs_a_rate() -> None:
    fabric = Fabric(rate_bps=None)
    with pytest.raises(ConfigError, match="needs a rate of at least 1 Mbit/s, got 0 bit/s"):
        set_headroom(fabric.world, 0, 3, 1_000)


# --- against a model in plain Python, written from the definitions ---

PORTS = 3
POOL = 2_000
ROOM = 300
MIX = TrafficSettings(
    classes(
        c0=ClassSettings(alpha=Fraction(1, 2), reserved_bytes=150, limit_bytes=900),
        c1=ClassSettings(limit_packets=4, strict=False, quantum_bytes=200),
        c2=ClassSettings(alpha=Fraction(2), strict=False, quantum_bytes=100),
        c3=ClassSettings(
            lossless=True,
            alpha=Fraction(1, 3),
            reserved_bytes=100,
            xon_offset_bytes=120,
            pause_quanta=3,
        ),
        c4=ClassSettings(lossless=True, xoff_bytes=500, xon_offset_bytes=100, pause_quanta=50),
    ),
    POOL,
)


class Model:
    """What waits, as lists; everything else is worked out from them at each question."""

    def __init__(self) -> None:
        self.waiting: list[tuple[int, int, int, int, int]] = []  # row, out, class, size, origin
        self.held: dict[tuple[int, int], int] = {}
        self.head: dict[tuple[int, int], int] = {}
        self.off: set[tuple[int, int]] = set()
        self.paused: dict[tuple[int, int], int] = {}

    def queued(self, out: int, cls: int) -> list[tuple[int, int, int, int, int]]:
        return [p for p in self.waiting if p[1:3] == (out, cls)]

    def counted(self, out: int, cls: int) -> int:
        grouped = MIX.classes[cls].lossless
        return sum(p[3] for p in self.queued(out, cls) if p[4] < 0 or not grouped)

    def used(self) -> int:
        total = 0
        for cls, one in enumerate(MIX.classes):
            for port in range(PORTS):
                own = 0 if one.lossless else one.reserved_bytes
                total += max(0, self.counted(port, cls) - own)
                total += max(0, self.held.get((port, cls), 0) - one.reserved_bytes)
        return total

    def threshold(self, cls: int) -> int:
        one = MIX.classes[cls]
        if one.xoff_bytes:
            return one.xoff_bytes
        assert one.alpha is not None
        return one.reserved_bytes + int(one.alpha * max(0, POOL - self.used()))

    def admit(self, row: int, out: int, cls: int, size: int, origin: int) -> bool:
        one = MIX.classes[cls]
        packet = (row, out, cls, size, origin)
        if one.lossless and origin >= 0:
            return self._group(packet)
        queue = self.queued(out, cls)
        if one.limit_bytes is not None and sum(p[3] for p in queue) + size > one.limit_bytes:
            return False
        if one.limit_packets is not None and len(queue) >= one.limit_packets:
            return False
        before = self.used()
        self.waiting.append(packet)
        share = self.counted(out, cls) - (0 if one.lossless else one.reserved_bytes)
        fits = self.used() <= POOL
        if one.alpha is not None and not one.lossless:
            fits &= share <= 0 or share <= one.alpha * (POOL - before)
        if not fits:
            self.waiting.pop()
        return fits

    def _group(self, packet: tuple[int, int, int, int, int]) -> bool:
        _, _, cls, size, origin = packet
        key = (origin, cls)
        held, head = self.held.get(key, 0), self.head.get(key, 0)
        below = held + head < self.threshold(cls)
        before = self.used()
        self.held[key] = held + size
        after = self.used()
        room = after in (before, min(after, POOL))
        if not (room and (below or key not in self.off)):
            self.held[key] = held
            if head + size > ROOM:
                self.off.add(key)
                return False
            self.head[key] = head + size
        self.waiting.append(packet)
        if self.head.get(key) or self.held[key] >= self.threshold(cls):
            self.off.add(key)
        return True

    def leave(self, row: int) -> None:
        packet = next(p for p in self.waiting if p[0] == row)
        self.waiting.remove(packet)
        _, _, cls, size, origin = packet
        one = MIX.classes[cls]
        if not one.lossless or origin < 0:
            return
        key = (origin, cls)
        first = min(size, self.head.get(key, 0))
        self.head[key] = self.head.get(key, 0) - first
        self.held[key] -= size - first
        held = self.held[key]
        if not self.head[key] and (not held or held + one.xon_offset_bytes < self.threshold(cls)):
            self.off.discard(key)

    def renew(self, key: tuple[int, int]) -> None:
        held, offset = self.held.get(key, 0), MIX.classes[key[1]].xon_offset_bytes
        if not self.head.get(key) and (not held or held + offset < self.threshold(key[1])):
            self.off.discard(key)


STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.just("put"),
            st.integers(0, PORTS - 1),
            st.integers(0, 4),
            st.integers(1, 400),
            st.integers(-1, PORTS - 1),
        ),
        st.tuples(st.just("pick"), st.integers(0, PORTS - 1)),
        st.tuples(
            st.just("pause"), st.integers(0, PORTS - 1), st.integers(0, 4), st.integers(0, 9)
        ),
        st.tuples(st.just("wait"), st.integers(1, 1_000)),
        st.tuples(st.just("flush"), st.integers(0, PORTS - 1)),
    ),
    max_size=80,
)


@settings(deadline=None, max_examples=100)
@given(STEPS)
def test_the_buffer_is_what_the_definitions_say_and_empty_at_the_end(
    steps: list[tuple[Any, ...]],
) -> None:
    fabric = Fabric(MIX, ports=PORTS, rate_bps=BYTE_NS)
    for port in range(PORTS):
        for cls in (3, 4):
            set_headroom(fabric.world, port, cls, ROOM)
    model_ = Model()
    for step in steps:
        _apply(fabric, model_, step)
        _compare(fabric, model_)
    for port in range(PORTS):
        tm.flush(fabric.world, port, model.DROP_RELOADED, fabric.now)
    fabric.run_until(fabric.now + 10**9)
    assert fabric.node("SHARED_USED") == fabric.node("HEADROOM_USED") == 0
    for port in range(PORTS):
        assert fabric.port(port, "QUEUED") == fabric.port(port, "READY") == 0
        assert fabric.port(port, "SENT_XOFF") == 0
        for cls in range(8):
            words = ("BYTES", "PACKETS", "CELLS", "DEFICIT", "COUNTED", "WATCHDOG")
            assert [fabric.queue(port, cls, word) for word in words] == [0] * 6
    in_pause_lists = sum(fabric.port(port, "PAUSE_TX") for port in range(PORTS))
    assert fabric.rows_used == in_pause_lists  # without peers these wait for their taker


def _apply(fabric: Fabric, model_: Model, step: tuple[Any, ...]) -> None:
    match step:
        case ("put", out, cls, size, origin):
            row = fabric.packet(size, out, cls, origin)
            taken = model_.admit(row, out, cls, size, origin)
            assert (fabric.admit(row) == 0) == taken
        case ("pick", port):
            row = fabric.pick(port)
            stopped = {cls for (p, cls), until in model_.paused.items() if p == port}
            free = [p for p in model_.waiting if p[1] == port and p[2] not in stopped]
            assert (row < 0) == (not free)
            if free:
                cls = next(p for p in model_.waiting if p[0] == row)[2]
                assert row == model_.queued(port, cls)[0][0]  # first in, first out
                strict = {p[2] for p in free} - {1, 2}
                assert cls == max(strict, default=cls)
                model_.leave(row)
                fabric.done(row)
        case ("pause", port, cls, quanta):
            fabric.pause(port, {cls: quanta})
            model_.paused[port, cls] = fabric.now + quanta * 64 * NS
        case ("wait", span_ns):
            _wait(fabric, model_, fabric.now + span_ns * NS)
        case ("flush", port):
            for cls in range(8):
                for packet in model_.queued(port, cls):
                    model_.leave(packet[0])
            tm.flush(fabric.world, port, model.DROP_RELOADED, fabric.now)
    for key, until in list(model_.paused.items()):
        if until <= fabric.now:
            del model_.paused[key]


def _wait(fabric: Fabric, model_: Model, until: int) -> None:
    """Lets time pass; a group whose renewal is due is looked at by the model at that time too."""
    while True:
        due = sorted(
            (fabric.group(port, cls, "REFRESH"), cls, port)
            for port, cls in model_.off
            if fabric.group(port, cls, "REFRESH") <= until
        )
        if not due:
            break
        time, cls, port = due[0]
        fabric.run_until(time - 1)
        while fabric.group(port, cls, "REFRESH") == time and fabric.group(port, cls, "XOFF"):
            assert fabric.step() is not None
        model_.renew((port, cls))
    fabric.run_until(until)


def _compare(fabric: Fabric, model_: Model) -> None:
    assert fabric.node("SHARED_USED") == model_.used()
    assert fabric.node("HEADROOM_USED") == sum(model_.head.values())
    for port in range(PORTS):
        for cls in range(5):
            queue = model_.queued(port, cls)
            assert fabric.queue(port, cls, "BYTES") == sum(p[3] for p in queue)
            assert fabric.queue(port, cls, "PACKETS") == len(queue)
            key = (port, cls)
            assert fabric.group(port, cls, "BYTES") == model_.held.get(key, 0)
            assert fabric.group(port, cls, "HEADROOM") == model_.head.get(key, 0)
            assert fabric.group(port, cls, "XOFF") == (key in model_.off)
            assert bool(fabric.port(port, "PAUSED") >> cls & 1) == (key in model_.paused)
