"""The lossless fabric in real time: a live switch's buffer, and DCQCN's numbers at divided rates."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from sglb.fabric.dcqcn_config import DcqcnConfig, resolve
from sglb.fabric.kernel.build import traffic_settings
from sglb.fabric.live.errors import LiveError
from sglb.fabric.lossless import port_headroom_bytes
from sglb.fabric.scenario import Scenario
from sglb.fabric.schema_lossless import DcqcnBlock
from sglb.switch.buffers import BufferSettings
from sglb.switch.clock import PS_PER_S, PS_PER_US
from sglb.switch.core.pfc import LEAST_RATE_BPS

#: How late a process may come to a pause frame that waits for it: on a busy machine, some ms.
RESPONSE_PS: Final = PS_PER_S // 50
_BPS_PER_MBPS: Final = 1_000_000
_TIMES: Final = ("timer_us", "alpha_timer_us", "decrease_interval_us", "cnp_interval_us")
_RATES: Final = ("rate_ai_mbps", "rate_hai_mbps", "min_rate_mbps", "first_cnp_rate_mbps")


def live_buffers(scenario: Scenario, switch_id: int) -> BufferSettings | None:
    """The buffer of a switch of a scenario in real time; None without PFC.

    Headroom is what the scenario says and, beside that, what arrives within `RESPONSE_PS`. Raises
    `LiveError` when that leaves nothing to share, or a port is too slow for pauses.
    """
    model, buffer = scenario.model, scenario.buffer
    if not buffer.pfc:
        return None
    lossless = [c.number for c in buffer.classes if c.lossless]
    headroom: dict[tuple[int, int], int] = {}
    for port, link in scenario.topology.ports(switch_id).items():
        rate_bps = link.spec.rate_bps
        if rate_bps < LEAST_RATE_BPS:
            raise LiveError(
                f"{scenario.file}: {link.name} has {rate_bps} bit/s here, too little for pauses: give "
                "live.rate_scale a smaller value"
            )
        size = port_headroom_bytes(link.spec, model.switch, model.transport)
        size += rate_bps * RESPONSE_PS // PS_PER_S // 8
        headroom |= {(port, cls): size for cls in lossless}
    reserved = sum(c.reserved_bytes for c in buffer.classes) * len(
        scenario.topology.ports(switch_id)
    )
    shared = buffer.total_bytes - sum(headroom.values()) - reserved
    if shared <= 0:
        raise LiveError(
            f"{scenario.file}: switch.buffer.total_bytes is {buffer.total_bytes}; live, headroom alone "
            f"takes {sum(headroom.values())} at {scenario.topology.by_id(switch_id).name}"
        )
    traffic = replace(traffic_settings(scenario, buffer, switch_id), shared_bytes=shared)
    return BufferSettings(traffic, headroom)


def slower_dcqcn(block: DcqcnBlock, scale: int) -> DcqcnBlock:
    """DCQCN at rates divided by `scale`: its times are stretched, its rates divided by the same."""
    now = resolve(block)
    changes: dict[str, Any] = {}
    for name in _TIMES:
        changes[name] = _value(now, name.removesuffix("_us") + "_ps") * scale / PS_PER_US
    for name in _RATES:
        bps = _value(now, name.removesuffix("_mbps") + "_bps") / scale
        changes[name] = bps / _BPS_PER_MBPS
    return block.model_copy(update=changes)


def _value(config: DcqcnConfig, name: str) -> int:
    found: int = getattr(config, name)
    return found
