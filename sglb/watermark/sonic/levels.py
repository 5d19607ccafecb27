"""What a tuner may do with SONiC switches: the fields that a guard file declares, as a search space.

Of the guard's fields it moves those that mark (thresholds and probabilities of `WRED_PROFILE`),
`dynamic_th` and `xon_offset`. Fields of one meaning, in whatever profile and colour, are moved together,
within what all their bands allow. Headroom (`xoff`, `size`), `xon` and `static_th` are never written by
a tuner: no setting that it tries can lose lossless traffic for want of room.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sglb.watermark.device import DEVICES, Device, Port
from sglb.watermark.settings import Watermarks
from sglb.watermark.sonic.config import SwitchConfig
from sglb.watermark.sonic.errors import SonicDataError, SonicRefusedError
from sglb.watermark.sonic.fields import BUFFER_PROFILE, WRED_PROFILE, Target
from sglb.watermark.sonic.guard import Guard
from sglb.watermark.space import Parameter, Place, SearchSpace

_SIZES = 8  #: levels of a size
_PERCENT = 8
_EXPONENT_ENDS = (-8.0, 8.0)
_UNITS = {
    "kmin_bytes": "bytes",
    "kmax_bytes": "bytes",
    "pmax": "probability",
    "dynamic_th": "exponent",
    "xon_offset_bytes": "bytes",
}


class SonicSpace(SearchSpace):
    """A search space whose headroom is the operator's: it is not judged, as it is not written."""

    @property
    def needed_headroom_bytes(self) -> int:
        """None that would be ours to see to."""
        return 0


@dataclass(frozen=True, slots=True)
class Tunables:
    """The fields that are moved, by what they mean; and those of the guard that are left alone."""

    moved: Mapping[str, tuple[Target, ...]]
    left: tuple[Target, ...]

    @classmethod
    def of(cls, guard: Guard) -> Tunables:
        """Sorts a guard's fields. Raises SonicRefusedError when there is nothing to move."""
        moved: dict[str, list[Target]] = {}
        left = []
        for target in sorted(guard.bands):
            name = _meaning(target)
            if name is None:
                left.append(target)
            else:
                moved.setdefault(name, []).append(target)
        if not moved:
            raise SonicRefusedError(
                f"{guard.source}: none of its fields is one that a tuner moves: thresholds and "
                "probabilities of a WRED_PROFILE, dynamic_th, xon_offset"
            )
        return cls({name: tuple(some) for name, some in moved.items()}, tuple(left))

    def wanted(self, setting: Watermarks) -> dict[Target, int]:
        """A setting as fields of the configuration."""
        value = {
            "kmin_bytes": round(setting.kmin_bytes),
            "kmax_bytes": round(setting.kmax_bytes),
            "pmax": round(setting.pmax * 100),
            "dynamic_th": exponent(setting.alpha),
            "xon_offset_bytes": round(setting.xon_offset_bytes),
        }
        return {target: value[name] for name, some in self.moved.items() for target in some}


def _meaning(target: Target) -> str | None:
    if target.table == WRED_PROFILE:
        if target.name.endswith("_probability"):
            return "pmax"
        return "kmin_bytes" if target.name.endswith("_min_threshold") else "kmax_bytes"
    return {"dynamic_th": "dynamic_th", "xon_offset": "xon_offset_bytes"}.get(target.name)


def exponent(alpha: float) -> int:
    """n of alpha = 2^n."""
    return int(alpha.hex().split("p")[1])


def space(
    config: SwitchConfig, guard: Guard, tunables: Tunables, port: Port, pool_bytes: int
) -> tuple[SonicSpace, Place]:
    """The space for a switch, and where it stands in it.

    `pool_bytes` is what its ports share, headroom included. Raises SonicRefusedError for a value that
    stands outside its band, bands without a common part, or fields of one meaning that differ;
    SonicDataError for a profile that is not there.
    """
    now = {name: _common(config, some) for name, some in tunables.moved.items()}
    defaults = _untouched(config, tunables)
    parameters, place = [], []
    for name, unit in _UNITS.items():
        if name in now:
            levels = _levels(name, _band(guard, tunables.moved[name]), now[name])
            value = now[name] / 100 if name == "pmax" else float(now[name])
        else:
            value = defaults[name]
            levels = (value,)
        step = 0.01 if unit == "probability" else 1.0
        low, high = (
            _EXPONENT_ENDS if unit == "exponent" else (0.0, 1.0 if unit == "probability" else 1e18)
        )
        parameters.append(Parameter(name, unit, low, high, step, levels))
        place.append(levels.index(value))
    headroom = defaults["headroom_bytes"]
    parameters.append(Parameter("headroom_bytes", "bytes", 0.0, 1e18, 1.0, (headroom,)))
    sonic = DEVICES["sonic"]
    device = Device(
        "sonic",
        pool_bytes,
        sonic.cell_bytes,
        sonic.pipeline_bytes,
        sonic.mac_phy_bytes,
        sonic.dynamic_th,
    )
    return SonicSpace(tuple(parameters), device, port), (*place, 0)


def _common(config: SwitchConfig, targets: Iterable[Target]) -> int:
    found: dict[int, Target] = {}
    for target in targets:
        value = config.value(target)
        if value is None:
            raise SonicRefusedError(
                f"{config.address}: {target} is not set: only fields that are can be tuned"
            )
        found.setdefault(value, target)
    if len(found) > 1:
        texts = " and ".join(f"{target} is {value}" for value, target in found.items())
        raise SonicRefusedError(
            f"{config.address}: {texts}: a tuner moves them together; set them alike, or take one "
            "out of the guard file"
        )
    return next(iter(found))


def _band(guard: Guard, targets: tuple[Target, ...]) -> tuple[int, int]:
    low = max(guard.bands[target][0] for target in targets)
    high = min(guard.bands[target][1] for target in targets)
    if low > high:
        raise SonicRefusedError(
            f"{guard.source}: the bands of {', '.join(map(str, targets))} have nothing in common"
        )
    return low, high


def _levels(name: str, band: tuple[int, int], now: int) -> tuple[float, ...]:
    low, high = band
    if not low <= now <= high:
        raise SonicRefusedError(
            f"{name.removesuffix('_bytes')} stands at {now}, outside its guard band {low} to {high}: "
            "a tuner starts from what stands there"
        )
    if name == "dynamic_th":
        return tuple(float(n) for n in range(low, high + 1))
    count = _PERCENT if name == "pmax" else _SIZES
    first = max(low, 1)
    raw = {round(first * (max(high, 1) / first) ** (i / (count - 1))) for i in range(count)}
    whole = sorted({min(max(value, low), high) for value in raw} | {low, high, now})
    return tuple(value / 100 if name == "pmax" else float(value) for value in whole)


def _untouched(config: SwitchConfig, tunables: Tunables) -> dict[str, float]:
    """What stands in fields that no rule may be without, though they are not moved."""
    wred = {t.profile for some in tunables.moved.values() for t in some if t.table == WRED_PROFILE}
    buffers = {
        t.profile for some in tunables.moved.values() for t in some if t.table == BUFFER_PROFILE
    }
    marks = Watermarks()
    found = {
        "kmin_bytes": _first(config, wred, WRED_PROFILE, "green_min_threshold"),
        "kmax_bytes": _first(config, wred, WRED_PROFILE, "green_max_threshold"),
        "pmax": _first(config, wred, WRED_PROFILE, "green_drop_probability", 100),
        "dynamic_th": _first(config, buffers, BUFFER_PROFILE, "dynamic_th"),
        "xon_offset_bytes": _first(config, buffers, BUFFER_PROFILE, "xon_offset"),
        "headroom_bytes": _first(config, buffers, BUFFER_PROFILE, "xoff"),
    }
    fallback = {
        "kmin_bytes": 0.0,  # nothing that any rule would forbid
        "kmax_bytes": 1e18,
        "pmax": marks.pmax,
        "dynamic_th": 0.0,
        "xon_offset_bytes": 0.0,
        "headroom_bytes": 0.0,
    }
    return {name: fallback[name] if value is None else value for name, value in found.items()}


def _first(
    config: SwitchConfig, profiles: Iterable[str], table: str, field: str, divide: int = 1
) -> float | None:
    for profile in sorted(profiles):
        value = config.value(Target(table, profile, field))
        if value is not None:
            return value / divide
    return None


def pool_of(config_table: Mapping[str, Mapping[str, str]], address: object) -> int:
    """Bytes of the ingress pool that lossless traffic shares, of the table BUFFER_POOL."""
    for name, fields in sorted(config_table.items()):
        text = fields.get("size")
        if text is not None and "lossless" in name and fields.get("type") == "ingress":
            if text.isascii() and text.isdigit():
                if int(text):
                    return int(text)
                continue
            raise SonicDataError(f"{address}: BUFFER_POOL|{name} size is {text!r}, not a number")
    raise SonicDataError(
        f"{address}: BUFFER_POOL has no size of an ingress pool for lossless traffic; where the switch "
        "computes it itself, say it by --pool-bytes"
    )
