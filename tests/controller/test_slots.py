import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.slots import interleave, preferences, shares


@pytest.mark.parametrize(
    ("capacities", "slots", "expected"),
    [
        ([1, 1], 4, [2, 2]),
        ([10, 10, 10, 5], 7, [2, 2, 2, 1]),
        # 64 * 2/7 = 18.29 three times and 9.14: remainders .29 .29 .29 .14, one slot is left over
        ([100, 100, 100, 50], 64, [19, 18, 18, 9]),
        ([1, 0, 1], 4, [2, 0, 2]),
        ([1000, 1], 4, [3, 1]),
        ([1, 1, 1], 64, [22, 21, 21]),
    ],
)
def test_shares(capacities: list[int], slots: int, expected: list[int]) -> None:
    assert shares(capacities, slots) == expected


@pytest.mark.parametrize(
    ("capacities", "slots"), [([], 4), ([0, 0], 4), ([1, 1, 1], 2), ([1, -1], 4)]
)
def test_shares_refuses(capacities: list[int], slots: int) -> None:
    with pytest.raises(ValueError, match="members"):
        shares(capacities, slots)


@given(st.lists(st.integers(0, 10**12), min_size=1, max_size=16).filter(any))
def test_shares_are_proportional(capacities: list[int]) -> None:
    given_ = shares(capacities, 64)
    assert sum(given_) == 64
    assert all((g > 0) == (c > 0) for g, c in zip(given_, capacities, strict=True))
    tiny = sum(1 for c in capacities if 0 < c * 64 < sum(capacities))
    for got, capacity in zip(given_, capacities, strict=True):
        # a member that rounds down to no slot still gets one, which the others pay for
        assert abs(got - 64 * capacity / sum(capacities)) <= 1 + tiny


def test_interleave_spreads() -> None:
    assert interleave([2, 2, 2, 1]) == [0, 1, 2, 3, 0, 1, 2]
    assert interleave([3, 1]) == [0, 0, 1, 0]


@given(st.lists(st.integers(0, 20), min_size=1, max_size=8).filter(any))
def test_interleave_keeps_counts(counts: list[int]) -> None:
    turn = interleave(counts)
    assert [turn.count(i) for i in range(len(counts))] == counts


def test_preferences() -> None:
    assert preferences([0, 1, 2, 3, 0]) == [(0, 1, 2), (1, 2, 3), (2, 3, 0), (3, 0, 1), (0, 1, 2)]
    assert preferences([7, 7]) == [(7,), (7,)]
