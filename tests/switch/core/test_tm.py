"""Queues, limits, depths and the order of service of the compiled traffic manager."""

from __future__ import annotations

from collections import deque

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tm_kit import Fabric, classes

from sglb.p4.native import abi
from sglb.switch.core import model, tm
from sglb.switch.core.settings import ClassSettings, TrafficSettings
from sglb.switch.errors import ConfigError
from sglb.switch.ports import DropReason


def test_drop_numbers_are_the_places_of_the_reasons() -> None:
    numbers = {
        name.removeprefix("DROP_"): getattr(model, name)
        for name in dir(model)
        if name.startswith("DROP_") and name != "DROP_REASONS"
    }
    for place, reason in enumerate(DropReason, 1):
        assert numbers[reason.name] == place
    assert max(numbers.values()) < model.DROP_REASONS


def test_the_highest_strict_class_is_served_first_each_class_in_order() -> None:
    fabric = Fabric()
    for size, cls in [(101, 0), (102, 0), (103, 7), (104, 3), (105, 7)]:
        assert fabric.put(size, cls=cls) == 0
    order = [fabric.serve() for _ in range(6)]
    assert order == [(7, 103), (7, 105), (3, 104), (0, 101), (0, 102), None]
    assert fabric.port(0, "QUEUED") == 0


def test_ports_do_not_share_queues() -> None:
    fabric = Fabric()
    fabric.put(100, out=1)
    assert fabric.serve(0) is None
    assert fabric.serve(1) == (0, 100)


def test_tail_drop_at_the_byte_limit_of_the_queue() -> None:
    fabric = Fabric(queue_limit_bytes=250)
    assert [fabric.put(100) for _ in range(3)] == [0, 0, model.DROP_QUEUE_FULL]
    assert fabric.put(100, cls=1) == 0
    assert fabric.put(50) == 0  # exactly 250
    assert fabric.put(1) == model.DROP_QUEUE_FULL
    assert (fabric.queue(0, 0, "BYTES"), fabric.queue(0, 0, "MAX_BYTES")) == (250, 250)
    assert (fabric.queue(0, 0, "PACKETS"), fabric.queue(0, 0, "MAX_PACKETS")) == (3, 3)
    assert fabric.serve() == (1, 100)
    assert fabric.serve() == (0, 100)
    assert fabric.put(101) == model.DROP_QUEUE_FULL
    assert fabric.put(100) == 0


def test_tail_drop_at_a_packet_limit() -> None:
    fabric = Fabric(queue_limit_packets=2)
    assert [fabric.put(100) for _ in range(3)] == [0, 0, model.DROP_QUEUE_FULL]
    none = Fabric(queue_limit_packets=0)
    assert none.put(1) == model.DROP_QUEUE_FULL


def test_a_queue_beyond_the_last_and_a_port_that_is_down() -> None:
    fabric = Fabric(queues=2)
    assert fabric.put(100, cls=2) == model.DROP_NO_QUEUE
    assert fabric.put(100, cls=1) == 0
    fabric.set_port(0, "LIVE", 0)
    assert fabric.put(100, cls=7) == model.DROP_PORT_DOWN
    assert fabric.port(0, "QUEUED") == 1


@pytest.mark.parametrize(
    ("unit", "depths"),
    [
        # (as it comes, as it leaves) of four packets that come at once and leave one by one.
        ("packets", [(0, 3), (1, 2), (2, 1), (3, 0)]),
        ("bytes", [(0, 281), (100, 181), (200, 81), (300, 0)]),
        # 100 bytes take two cells of 80, 81 bytes two as well.
        ("cells", [(0, 6), (2, 4), (4, 2), (6, 0)]),
    ],
)
def test_depths_at_enqueue_and_dequeue(unit: str, depths: list[tuple[int, int]]) -> None:
    fabric = Fabric(depth_unit=unit)
    rows = [fabric.packet(size) for size in (100, 100, 100, 81)]
    for row in rows:
        fabric.admit(row)
    found = []
    for row in rows:
        assert fabric.pick() == row
        found.append((fabric.half(row, abi.ENQ_QDEPTH), fabric.half(row, abi.DEQ_QDEPTH)))
    assert found == depths


def test_times_for_the_egress_pass_are_whole_microseconds_modulo_2_to_32() -> None:
    fabric = Fabric()
    fabric.now = (2**32 + 7) * 10**6 + 999_999
    row = fabric.packet(100)
    fabric.admit(row)
    fabric.now += 1  # the next microsecond
    assert fabric.pick() == row
    assert fabric.half(row, abi.ENQ_TIME_US) == 7
    assert fabric.half(row, abi.DEQ_DELTA_US) == 1


def test_flush_drops_all_that_waits_with_the_reason() -> None:
    fabric = Fabric()
    for cls in (0, 0, 3):
        fabric.put(100, cls=cls)
    fabric.put(100, out=1)
    tm.flush(fabric.world, 0, model.DROP_RELOADED, 5)
    assert fabric.drops(0, model.DROP_RELOADED) == 3
    assert (fabric.port(0, "QUEUED"), fabric.port(0, "READY"), fabric.rows_used) == (0, 0, 1)
    assert fabric.serve(1) == (0, 100)


# --- deficit round robin ---


def shared(**quanta: int) -> TrafficSettings:
    return TrafficSettings(
        classes(
            **{
                c: ClassSettings(strict=False, quantum_bytes=quantum)
                for c, quantum in quanta.items()
            }
        )
    )


def served(fabric: Fabric, count: int) -> str:
    return "".join(str((fabric.serve() or "-")[0]) for _ in range(count))


def test_round_robin_in_proportion_to_the_quanta() -> None:
    fabric = Fabric(shared(c0=200, c1=100))
    for _ in range(6):
        fabric.put(100, cls=0)
        fabric.put(100, cls=1)
    assert served(fabric, 12) == "001001001111"


def test_deficits_count_bytes() -> None:
    fabric = Fabric(shared(c0=150, c1=150))
    for _ in range(3):
        fabric.put(100, cls=0)
    for _ in range(2):
        fabric.put(300, cls=1)
    # c0: 150, sends (50 left); c1: 150 < 300; c0: 200, sends twice, empty: c1: 300, sends; then alone.
    assert served(fabric, 4) == "0001"
    assert fabric.queue(0, 1, "DEFICIT") == 0
    assert served(fabric, 1) == "1"


def test_a_class_that_empties_loses_its_deficit_and_its_turn() -> None:
    fabric = Fabric(shared(c0=1000, c1=100))
    fabric.put(100, cls=0)
    for _ in range(2):
        fabric.put(100, cls=1)
    assert served(fabric, 1) == "0"
    assert fabric.queue(0, 0, "DEFICIT") == 0
    fabric.put(100, cls=0)  # its turn is over
    assert served(fabric, 3) == "101"


def test_strict_classes_go_before_the_others_whatever_their_number() -> None:
    fabric = Fabric(
        TrafficSettings(
            classes(
                c5=ClassSettings(strict=False, quantum_bytes=100),
                c6=ClassSettings(strict=False, quantum_bytes=100),
            )
        )
    )
    for cls in (5, 6, 0, 7):
        fabric.put(100, cls=cls)
    assert served(fabric, 5) == "7056-"


def test_a_paused_class_is_passed_over_and_keeps_its_deficit() -> None:
    fabric = Fabric(shared(c0=250, c1=100))
    for _ in range(4):
        fabric.put(100, cls=0)
        fabric.put(100, cls=1)
    assert served(fabric, 1) == "0"
    fabric.pause(0, {0: 100})
    assert fabric.queue(0, 0, "DEFICIT") == 150
    assert served(fabric, 2) == "11"
    fabric.pause(0, {0: 0})
    # c0 gets 250 more when its turn comes: 400, enough for all three.
    assert served(fabric, 4) == "0001"


def test_a_quantum_far_below_the_packet_is_a_matter_of_rounds_not_of_time() -> None:
    fabric = Fabric(shared(c0=1, c1=2))
    for _ in range(4):
        fabric.put(9_000, cls=0)
        fabric.put(9_000, cls=1)
    assert served(fabric, 8) == "10110100"


def naive(quanta: list[int], sizes: list[list[int]]) -> str:
    """Deficit round robin as the paper has it, round by round."""
    queues = [deque(one) for one in sizes]
    deficits = [0] * len(quanta)
    out = ""
    while any(queues):
        for cls, queue in enumerate(queues):
            if not queue:
                continue
            deficits[cls] += quanta[cls]
            while queue and queue[0] <= deficits[cls]:
                deficits[cls] -= queue.popleft()
                out += str(cls)
            if not queue:
                deficits[cls] = 0
    return out


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.integers(1, 3_000), min_size=1, max_size=8),
    st.lists(st.lists(st.integers(1, 2_000), max_size=12), min_size=8, max_size=8),
)
def test_backlogged_queues_are_served_as_the_paper_says(
    quanta: list[int], sizes: list[list[int]]
) -> None:
    fabric = Fabric(shared(**{f"c{n}": quantum for n, quantum in enumerate(quanta)}))
    for cls, one in enumerate(sizes[: len(quanta)]):
        for size in one:
            fabric.put(size, cls=cls)
    expected = naive(quanta, sizes[: len(quanta)])
    assert served(fabric, len(expected)) == expected
    assert fabric.pick() == -1


# --- settings ---


@pytest.mark.parametrize(
    ("one", "message"),
    [
        (ClassSettings(strict=False), "class 3 shares by rounds: quantum_bytes must be at least 1"),
        (ClassSettings(reserved_bytes=-1), "class 3: reserved_bytes is negative or too large: -1"),
        (ClassSettings(lossless=True), "class 3 is lossless: give xoff_bytes, or alpha and"),
        (
            ClassSettings(lossless=True, xoff_bytes=1, pause_quanta=65_536),
            "class 3: pause_quanta must be 1 to 65535, got 65536",
        ),
        (ClassSettings(watchdog_ps=1), "class 3: a watchdog needs restore_ps above 0"),
    ],
)
def test_settings_that_cannot_work_get_one_line(one: ClassSettings, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        TrafficSettings(classes(c3=one))
