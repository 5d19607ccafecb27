"""The search space: each watermark with unit, bounds and levels, and what of it is feasible."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import product

from sglb.watermark.device import Device, Port, ecn_before_pfc_bytes
from sglb.watermark.errors import WatermarkError
from sglb.watermark.settings import Watermarks

#: One level of each parameter, in the order of `SearchSpace.parameters`.
Place = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Parameter:
    """A watermark that can be set, and the levels of it that are looked at.

    `low` and `high` bound what the device takes, `step` is its unit there; levels are within them, in
    rising order. `unit` is `bytes`, `probability` or `exponent` (of 2).
    """

    name: str
    unit: str
    low: float
    high: float
    step: float
    levels: tuple[int | float, ...]

    def __post_init__(self) -> None:
        if not self.levels:
            raise WatermarkError(f"{self.name} has no level")
        for level in self.levels:
            self.check(level)
        if list(self.levels) != sorted(set(self.levels)):
            raise WatermarkError(f"levels of {self.name} must rise, got {self.levels}")

    def check(self, value: float) -> None:
        """Raises `WatermarkError` for a value that the device does not take."""
        if not (math.isfinite(value) and self.low <= value <= self.high):
            raise WatermarkError(
                f"{self.name} must be from {self.low:,.10g} to {self.high:,.10g} {self.unit}, got "
                f"{value!r}"
            )
        steps = value / self.step
        if abs(steps - round(steps)) > 1e-6:
            raise WatermarkError(
                f"{self.name} must be a multiple of {self.step:g} {self.unit}, got {value!r}"
            )

    def nearest(self, value: float) -> float:
        """The value nearest to one that the device takes."""
        steps = round(min(max(value, self.low), self.high) / self.step)
        steps = min(max(steps, math.ceil(self.low / self.step)), math.floor(self.high / self.step))
        return steps * self.step


@dataclass(frozen=True)
class SearchSpace:
    """All settings that a grid of levels makes; a setting is known by its place in it.

    Attributes:
        parameters: `kmin_bytes`, `kmax_bytes`, `pmax`, `dynamic_th`, `xon_offset_bytes` and
            `headroom_bytes`, in this order.
        device, port: what they are to be set on.
        queues: how many egress queues one ingress may fill at once, for the rule that ECN must act
            before PFC; the DCQCN paper's is all ports.
        classes: lossless classes that are full at once, for the same rule.
    """

    parameters: tuple[Parameter, ...]
    device: Device
    port: Port
    queues: int = 1
    classes: int = 1

    def __len__(self) -> int:
        return math.prod(len(p.levels) for p in self.parameters)

    def places(self) -> Iterator[Place]:
        """All of the grid, the last parameter changing first."""
        return product(*(range(len(p.levels)) for p in self.parameters))

    def values(self, place: Place) -> dict[str, float]:
        """What a place stands for."""
        return {p.name: p.levels[at] for p, at in zip(self.parameters, place, strict=True)}

    def watermarks(self, place: Place) -> Watermarks:
        """The setting at a place. Raises `WatermarkError` where Kmin exceeds Kmax."""
        value = self.values(place)
        alpha = 2.0 ** value.pop("dynamic_th")
        return Watermarks(**value, alpha=alpha)

    @cached_property
    def needed_headroom_bytes(self) -> int:
        """What a port's headroom must hold: all that comes after the decision to pause."""
        return self.port.headroom(self.device).size_bytes

    def pool_bytes(self, headroom_bytes: float) -> float:
        """What the ports share beside their headroom; 0 or less: nothing."""
        ports = self.port.ports * self.port.lossless_classes
        return self.device.buffer_bytes - ports * headroom_bytes

    def why_not(self, place: Place) -> str | None:
        """Which rule forbids a setting; None: it is feasible."""
        value = self.values(place)
        for rule, broken in _RULES.items():
            if broken(self, value):
                return rule
        return None


def _inverted(_space: SearchSpace, value: Mapping[str, float]) -> bool:
    return value["kmin_bytes"] > value["kmax_bytes"]


def _too_little_room(space: SearchSpace, value: Mapping[str, float]) -> bool:
    return value["headroom_bytes"] < space.needed_headroom_bytes


def _no_pool(space: SearchSpace, value: Mapping[str, float]) -> bool:
    return space.pool_bytes(value["headroom_bytes"]) <= 0


def _pfc_first(space: SearchSpace, value: Mapping[str, float]) -> bool:
    pool = space.pool_bytes(value["headroom_bytes"])
    bound = ecn_before_pfc_bytes(2 ** value["dynamic_th"], pool, space.queues, space.classes)
    return value["kmin_bytes"] >= bound


_RULES: dict[str, Callable[[SearchSpace, Mapping[str, float]], bool]] = {
    "Kmin above Kmax": _inverted,
    "headroom below what arrives after a pause": _too_little_room,
    "headroom leaves no shared pool": _no_pool,
    "PFC before ECN": _pfc_first,
}
RULES = tuple(_RULES)


def grid(
    device: Device,
    port: Port,
    *,
    levels: Mapping[str, int] | None = None,
    queues: int = 1,
    classes: int = 1,
) -> SearchSpace:
    """A grid of the device's whole ranges: sizes and probabilities evenly apart in the logarithm.

    `levels` says how many of a parameter (see `LEVELS`); a device's unit may make them fewer. Kmin and
    Kmax go from a packet to an eighth of the buffer, headroom from half to four times of what the port
    needs. Raises `WatermarkError`.
    """
    number = dict(LEVELS)
    for name, count in (levels or {}).items():
        if name not in number:
            raise WatermarkError(f"there is no parameter {name!r}; known: {', '.join(number)}")
        if count < 1:
            raise WatermarkError(f"{name} needs at least 1 level, got {count}")
        number[name] = count
    step = float(device.threshold_step_bytes)
    most = device.buffer_bytes / 8
    needed = port.headroom(device).size_bytes
    low, high = device.dynamic_th

    def sizes(name: str, first: float, last: float) -> Parameter:
        whole = float(device.buffer_bytes)
        return _spaced(name, "bytes", (0.0, whole), step, (first, last), number[name])

    thresholds = sorted(
        {
            round(low + (high - low) * i / max(number["dynamic_th"] - 1, 1))
            for i in range(number["dynamic_th"])
        }
    )
    return SearchSpace(
        (
            sizes("kmin_bytes", 4 * port.mtu_bytes, most),
            sizes("kmax_bytes", 16 * port.mtu_bytes, most),
            _spaced(
                "pmax", "probability", (0.0, 1.0), device.pmax_step, (0.01, 1.0), number["pmax"]
            ),
            Parameter(
                "dynamic_th", "exponent", low, high, 1.0, tuple(float(n) for n in thresholds)
            ),
            sizes("xon_offset_bytes", 2 * port.mtu_bytes, 64 * port.mtu_bytes),
            sizes("headroom_bytes", needed / 2, needed * 4),
        ),
        device,
        port,
        queues,
        classes,
    )


#: Levels of a grid, unless others are asked for.
LEVELS = {
    "kmin_bytes": 8,
    "kmax_bytes": 8,
    "pmax": 5,
    "dynamic_th": 9,
    "xon_offset_bytes": 3,
    "headroom_bytes": 4,
}


def _spaced(
    name: str,
    unit: str,
    bounds: tuple[float, float],
    step: float,
    span: tuple[float, float],
    count: int,
) -> Parameter:
    first, last = span
    raw = [first * (last / first) ** (i / max(count - 1, 1)) for i in range(count)]
    # Sizes round up, so that a headroom that is needed stays one that is enough.
    levels = sorted({min(math.ceil(value / step - 1e-9) * step, bounds[1]) for value in raw})
    return Parameter(name, unit, *bounds, step, tuple(levels))
