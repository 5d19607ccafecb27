"""Which timers of the packet generator run on a switch, and when they tick."""

from __future__ import annotations

from sglb.fabric.scenario import us_to_ps
from sglb.fabric.schema import Policy, ScenarioModel
from sglb.switch.pktgen import TIMER_PAYLOAD, TimerApp
from sglb.syncmesh.dataplane import APP_BEAT_TIMER, APP_QUALITY_TIMER


def timers_of(
    model: ScenarioModel, policy: Policy, index: int, switches: int
) -> tuple[TimerApp, ...]:
    """The timers of switch number `index` (from 0) of `switches`.

    The quality timer ages the load of idle ports and lets held-back changes out; the heartbeat timer
    makes every fabric port send a heartbeat. Switches tick one after the other, evenly over a
    period, as the timers of real ones are not in step either.
    """
    wanted: list[tuple[int, float]] = []
    if policy in ("dlb", "glb"):
        wanted.append((APP_QUALITY_TIMER, model.switch.quality_sample_us))
    if policy == "glb":
        wanted.append((APP_BEAT_TIMER, model.syncmesh.heartbeat_us))
    return tuple(
        TimerApp(
            app, us_to_ps(period_us), TIMER_PAYLOAD, us_to_ps(period_us) * (index + 1) // switches
        )
        for app, period_us in wanted
    )
