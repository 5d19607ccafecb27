"""DCQCN's parameters in both languages, as integers worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from sglb.fabric.dcqcn_config import DcqcnConfig, resolve
from sglb.fabric.schema_lossless import CONNECTX_NAMES, DcqcnBlock

PAPER = DcqcnConfig(
    enabled=False,
    timer_ps=55_000_000,
    byte_counter_bytes=10_000_000,
    threshold=5,
    rate_ai_bps=40_000_000,
    rate_hai_bps=200_000_000,
    min_rate_bps=40_000_000,
    g=4_096,
    alpha_timer_ps=55_000_000,
    initial_alpha=1 << 20,
    alpha_at_cnp=True,
    alpha_shift=1,
    min_decrease_percent=50,
    decrease_interval_ps=0,
    first_cnp_rate_bps=0,
    clamp_target_rate=True,
    cnp_interval_ps=50_000_000,
)
CONNECTX = DcqcnConfig(
    enabled=True,
    timer_ps=300_000_000,
    byte_counter_bytes=32_767,
    threshold=1,
    rate_ai_bps=5_000_000,
    rate_hai_bps=50_000_000,
    min_rate_bps=1_000_000,
    g=5 * 1_024,  # 1 - 1019/1024
    alpha_timer_ps=1_000_000,
    initial_alpha=1_023 * 1_024,
    alpha_at_cnp=False,
    alpha_shift=1,  # alpha has ten bits: alpha / 2^11 of it is a half of its share
    min_decrease_percent=50,
    decrease_interval_ps=4_000_000,
    first_cnp_rate_bps=0,
    clamp_target_rate=False,
    cnp_interval_ps=4_000_000,
)


def _block(**keys: Any) -> DcqcnBlock:
    return DcqcnBlock.model_validate(keys)


def test_defaults() -> None:
    assert resolve(DcqcnBlock()) == PAPER
    assert resolve(_block(enabled=True, defaults="connectx")) == CONNECTX


@pytest.mark.parametrize(
    ("connectx", "paper"),
    [
        ({"rpg_time_reset": 100}, {"timer_us": 100}),
        ({"rpg_byte_reset": 0}, {"byte_counter_bytes": 0}),
        ({"rpg_threshold": 3}, {"threshold": 3}),
        ({"rpg_ai_rate": 7}, {"rate_ai_mbps": 7}),
        ({"rpg_hai_rate": 7}, {"rate_hai_mbps": 7}),
        ({"rpg_min_rate": 7}, {"min_rate_mbps": 7}),
        ({"dce_tcp_g": 896}, {"g": 0.125}),
        ({"dce_tcp_rtt": 9}, {"alpha_timer_us": 9}),
        ({"initial_alpha_value": 512}, {"initial_alpha": 0.5}),
        ({"rpg_gd": 12}, {"alpha_shift": 2}),
        ({"rpg_min_dec_fac": 70}, {"min_decrease_percent": 70}),
        ({"rate_reduce_monitor_period": 3}, {"decrease_interval_us": 3}),
        ({"rate_to_set_on_first_cnp": 10_000}, {"first_cnp_rate_mbps": 10_000}),
        ({"clamp_tgt_rate": True}, {"clamp_target_rate": True}),
        ({"min_time_between_cnps": 2}, {"cnp_interval_us": 2}),
    ],
)
def test_both_names_say_the_same(connectx: dict[str, Any], paper: dict[str, Any]) -> None:
    assert CONNECTX_NAMES[next(iter(paper))] == next(iter(connectx))
    for defaults in ("paper", "connectx"):
        theirs = resolve(_block(defaults=defaults, **connectx))
        assert theirs == resolve(_block(defaults=defaults, **paper))
        assert theirs != resolve(_block(defaults=defaults)) or connectx == {"clamp_tgt_rate": True}


def test_the_block_states_every_default_and_reads_itself_back() -> None:
    for defaults in ("paper", "connectx"):
        block = _block(defaults=defaults, rpg_ai_rate=9)
        stated = block.model_dump()
        for paper, connectx in CONNECTX_NAMES.items():
            assert (stated[paper] is None) != (stated[connectx] is None)
        assert _block(**stated) == block


def test_two_names_of_one_quantity() -> None:
    with pytest.raises(ValidationError, match="timer_us and rpg_time_reset are two names of one"):
        _block(timer_us=1, rpg_time_reset=1)
