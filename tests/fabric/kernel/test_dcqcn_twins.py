"""DCQCN of hosts in real time against that of native hosts: the same events, the same rates."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_native_dcqcn import LINE, US, Sender

from sglb.fabric.dcqcn_config import DcqcnConfig, resolve
from sglb.fabric.kernel import layout as k
from sglb.fabric.rate_control import RateControl
from sglb.fabric.schema_lossless import DcqcnBlock
from sglb.switch.clock import VirtualClock

CONFIGS = [
    DcqcnBlock(enabled=True),
    DcqcnBlock(enabled=True, byte_counter_bytes=50_000, decrease_interval_us=20),
    DcqcnBlock(enabled=True, clamp_target_rate=True, byte_counter_bytes=0),
]


class Both:
    """One sender of each kind, at the same time."""

    def __init__(self, config: DcqcnConfig) -> None:
        self.native = Sender(config)
        self.clock = VirtualClock()
        self.python = RateControl(config, self.clock, lambda: LINE, lambda: None)

    def until(self, now_ps: int) -> None:
        self.clock.run(now_ps)
        while 0 <= self.native[k.D_TIMER_LIVE] <= now_ps:
            self.native.timer(self.native[k.D_TIMER_LIVE])

    def rates(self) -> tuple[int, int]:
        native = self.native[k.D_RATE] if self.native[k.D_ACTIVE] else LINE
        return native, self.python.rate_bps


@pytest.mark.parametrize("block", CONFIGS)
@settings(max_examples=40)
@given(st.lists(st.tuples(st.booleans(), st.integers(1, 200 * US), st.integers(1, 9)), max_size=40))
def test_rates_are_the_same_whatever_comes(
    block: DcqcnBlock, events: list[tuple[bool, int, int]]
) -> None:
    both = Both(resolve(block))
    now_ps = 0
    for is_cnp, after_ps, frames in events:
        now_ps += after_ps
        both.until(now_ps)
        if is_cnp:
            both.native.cnp(now_ps)
            both.python.notified()
        else:
            for _ in range(frames):
                both.native.sent(now_ps)
                both.python.sent(4154)
        native, python = both.rates()
        # Alpha is an integer there and a float here.
        assert python == pytest.approx(native, rel=2e-4)
