"""exp and log of the compiled step against the standard library's."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from sglb.watermark.kernel import LOWEST_LOG, exp_down, log_unmarked


@given(st.floats(LOWEST_LOG + 1e-9, 0.3))
def test_exp_is_exact_beyond_what_a_step_is(x: float) -> None:
    assert math.isclose(exp_down(x), math.exp(x), rel_tol=3e-13)


@given(st.floats(0, 1, exclude_max=True))
def test_log_is_right_to_the_last_digits(p: float) -> None:
    assert math.isclose(log_unmarked(p), math.log1p(-p), rel_tol=1e-15, abs_tol=1e-300)


def test_the_ends() -> None:
    assert exp_down(0.0) == 1.0
    assert exp_down(-1e9) == 0.0
    assert log_unmarked(0.0) == 0.0
    assert log_unmarked(1.0) == LOWEST_LOG
