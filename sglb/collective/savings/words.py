"""Settings in words, with units: what an assessment stands on."""

from __future__ import annotations

from sglb.collective.savings.assessment import Assessment
from sglb.collective.savings.policy import iteration_speed, load_factor, plain_factor
from sglb.collective.savings.settings import Fault, Loss, Settings

_MILLION = 1e6


def number(value: float) -> str:
    """Four significant digits, thousands set apart, no needless zeros."""
    if value == 0 or 1e-3 <= abs(value) < 1e4:
        return f"{value:.4g}"
    return f"{value:,.0f}" if abs(value) >= 1e4 else f"{value:.3g}"


def gpu_hours(value: float) -> str:
    """`1.120 M`, `9,300`."""
    return f"{value / _MILLION:,.3f} M" if abs(value) >= 1e4 else f"{value:,.0f}"


def percent(share: float) -> str:
    """A share of 1 as `5.31 %`."""
    return f"{_no_minus(share, 2)} %"


def plus_minus(mean: float, half_width: float) -> str:
    """Shares of 1 as `0.531 +- 0.003 %`."""
    return f"{_no_minus(mean, 3)} +- {_no_minus(half_width, 3)} %"


def _no_minus(share: float, digits: int) -> str:
    """In percent; what rounds to 0 has no sign."""
    return f"{round(100 * share, digits) + 0.0:.{digits}f}"


def minutes(value: float) -> str:
    """`10 min`, or hours and days when it is longer than a few."""
    if abs(value) >= 2 * 1440:
        return f"{number(value / 1440)} days"
    return f"{number(value / 60)} h" if abs(value) >= 240 else f"{number(value)} min"


def assumptions(found: Assessment) -> list[str]:
    """What the figures stand on, one fact each; keys that nobody gave are marked as defaults."""
    settings = found.settings
    given = settings.model_fields_set

    def told(text: str, *keys: str) -> str:
        defaults = [key for key in keys if key not in given]
        if not defaults:
            return text
        return (
            f"{text} [default]"
            if len(defaults) == len(keys)
            else (f"{text} [default: {', '.join(defaults)}]")
        )

    s = settings
    return [
        told(
            f"run: {s.gpus:,} GPUs for {number(s.days)} days by the clock = "
            f"{gpu_hours(s.gpu_hours)} GPU-hours",
            "gpus",
            "days",
        ),
        told(_checkpoints(found), "checkpoint_interval_min", "checkpoint_write_s"),
        told(
            f"a fault that ends the job: noticed after {number(s.detection_s)} s, working again "
            f"{number(s.restart_min)} min later from the last checkpoint, at full speed",
            "detection_s",
            "restart_min",
        ),
        *[told(text, *keys) for text, keys in _failover(settings)],
        told(
            "a restart moves the job to hosts with all rails"
            if s.restart_replaces
            else "a restart for another reason leaves the job on hosts with lost rails",
            "restart_replaces",
        ),
        "faults come at random by the clock, at constant rates, independent of each other; one that "
        "comes during detection or restart makes them begin anew; of overlapping slow spans the "
        "slowest counts",
    ]


def _checkpoints(found: Assessment) -> str:
    rule = found.settings.checkpoint_interval_min
    write = f"writing one stops the job for {number(found.settings.checkpoint_write_s)} s"
    every = minutes(found.without.interval_min)
    if isinstance(rule, str):
        other = minutes(found.failover.interval_min)
        every = f"{every} of work, {other} with failover (the best by the rule: {rule})"
    else:
        every += " of work"
    return f"a checkpoint every {every}; {write}"


def _failover(settings: Settings) -> list[tuple[str, tuple[str, ...]]]:
    saved = saved_parts(settings)
    if not saved:
        return [("failover saves the job from nothing", ("failover_saves", "rails_per_host"))]
    facts: list[tuple[str, tuple[str, ...]]] = [
        (
            f"a fault that failover takes ({', '.join(saved)}): the job stands still for "
            f"{number(settings.failover_stall_s)} s, then is slower until the repair, "
            f"{number(settings.repair_h)} h {_repair(settings)}",
            ("failover_saves", "failover_stall_s", "repair_h"),
        )
    ]
    exposed = f"{number(100 * settings.exposed_communication)} % of an iteration"
    for factor in sorted(set(saved.values())):
        parts = [part for part, value in saved.items() if value == factor]
        facts.append(
            (
                f"slower ({', '.join(parts)}; {_way(settings)}): communication takes "
                f"{number(factor)} times as long, and {exposed} waits for it: iterations take "
                f"{number(1 / iteration_speed(settings, factor))} times as long",
                ("rails_per_host", "reroute", "exposed_communication"),
            )
        )
    if settings.reroute == "dual-homed":
        speed = 1 / iteration_speed(settings, plain_factor("dual-homed", "link") or 1)
        facts.append(
            (
                "without failover dual-homed NICs survive a link or switch too, on one port of "
                f"two: iterations take {number(speed)} times as long until the repair",
                ("reroute",),
            )
        )
    return facts


def saved_parts(settings: Settings) -> dict[Loss, float]:
    """What failover saves the job from losing, and how many times longer communication then takes."""
    factors = {
        part: load_factor(settings.rails_per_host, settings.reroute, part)
        for part in settings.failover_saves
    }
    return {part: factor for part, factor in factors.items() if factor is not None}


def _repair(settings: Settings) -> str:
    return "later" if settings.repair_times == "fixed" else "later on average (exponential)"


def _way(settings: Settings) -> str:
    rails = settings.rails_per_host
    return {
        "balanced": f"1 of {rails} rails lost, the others share its traffic",
        "neighbour": f"1 of {rails} rails lost, one neighbour takes its traffic",
        "dual-homed": f"{rails} rails of two ports each, the rest shares what is lost",
    }[settings.reroute]


def what_happens(settings: Settings, fault: Fault) -> str:
    """What failover makes of a kind of fault: `ends the job`, `saved (switch)`, `saved without it`."""
    if fault.loses in saved_parts(settings):
        own = "" if fault.repair_h is None else f", repaired in {number(fault.repair_h)} h"
        return f"saved ({fault.loses}){own}"
    if plain_factor(settings.reroute, fault.loses) is not None:
        return "survived without it"
    return "ends the job"
