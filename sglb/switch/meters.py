"""Two-rate three-colour meters (RFC 2698, colour blind) in exact integer time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sglb.p4 import ir
from sglb.p4.runtime import Colour
from sglb.switch.clock import PS_PER_S
from sglb.switch.counters import CounterData
from sglb.switch.errors import BadValue, ValueTooLarge


@dataclass(frozen=True, slots=True)
class MeterConfig:
    """Rates per second and bursts, in packets or bytes: committed (cir, cburst), peak (pir, pburst).

    Raises `BadValue` for a negative number or a peak rate below the committed one.
    """

    cir: int
    cburst: int
    pir: int
    pburst: int

    def __post_init__(self) -> None:
        if min(self.cir, self.cburst, self.pir, self.pburst) < 0:
            raise BadValue(f"meter rates and bursts must not be negative: {self}")
        if self.pir < self.cir:
            raise BadValue(f"meter peak rate {self.pir}/s lies below the committed {self.cir}/s")


class Meter:
    """One meter: green until configured.

    Tokens are kept in units of 1e-12 packets (or bytes), so that `rate` per second is exactly `rate`
    units per picosecond and nothing is ever rounded. `counts` are the packets and bytes per colour.
    """

    __slots__ = ("_config", "_counts", "_last_ps", "_peak", "_sure", "packets")

    def __init__(self, *, packets: bool) -> None:
        self.packets = packets
        self._config: MeterConfig | None = None
        self._sure = 0
        self._peak = 0
        self._last_ps = 0
        self._counts: tuple[CounterData, CounterData, CounterData] | None = None

    @property
    def config(self) -> MeterConfig | None:
        """The configuration, None when unset."""
        return self._config

    def configure(self, config: MeterConfig | None, now_ps: int) -> None:
        """Sets rates (both buckets start full) or, with None, goes back to always green."""
        self._config = config
        self._last_ps = now_ps
        if config is not None:
            self._sure = config.cburst * PS_PER_S
            self._peak = config.pburst * PS_PER_S

    @property
    def counts(self) -> tuple[CounterData, CounterData, CounterData]:
        """Green, yellow and red packets so far; made on first use, since most meters never run."""
        if self._counts is None:
            self._counts = (CounterData(), CounterData(), CounterData())
        return self._counts

    def checkpoint(self) -> Callable[[], None]:
        """What puts configuration and tokens back as they are now."""
        saved = (self._config, self._sure, self._peak, self._last_ps)

        def restore() -> None:
            self._config, self._sure, self._peak, self._last_ps = saved

        return restore

    def execute(self, length_bytes: int, now_ps: int) -> Colour:
        """The colour of a packet of that length at that time; takes its tokens and counts it."""
        colour = self._colour(length_bytes, now_ps)
        cell = self.counts[colour]
        cell.packets += 1
        cell.bytes += length_bytes
        return colour

    def _colour(self, length_bytes: int, now_ps: int) -> Colour:
        config = self._config
        if config is None:
            return Colour.GREEN
        elapsed = now_ps - self._last_ps
        self._last_ps = now_ps
        sure = min(self._sure + elapsed * config.cir, config.cburst * PS_PER_S)
        peak = min(self._peak + elapsed * config.pir, config.pburst * PS_PER_S)
        need = PS_PER_S if self.packets else length_bytes * PS_PER_S
        colour = Colour.GREEN
        if peak < need:
            colour = Colour.RED
        else:
            peak -= need
            if sure < need:
                colour = Colour.YELLOW
            else:
                sure -= need
        self._sure = sure
        self._peak = peak
        return colour


class MeterArray:
    """State of one indirect `meter`."""

    def __init__(self, instance: ir.Instance) -> None:
        self.name = instance.name
        self.size = instance.size
        self.unit = instance.counts
        self.p4info_id = instance.p4info_id
        packets = instance.counts == "packets"
        self._cells = [Meter(packets=packets) for _ in range(instance.size)]

    def execute(self, index: int, length_bytes: int, now_ps: int) -> Colour | None:
        """The packet's colour; None when the index is out of range."""
        if 0 <= index < self.size:
            return self._cells[index].execute(length_bytes, now_ps)
        return None

    def cell(self, index: int) -> Meter:
        """The live meter. Raises `BadValue` for a negative index, `ValueTooLarge` beyond the end."""
        if index < 0:
            raise BadValue(f"meter {self.name}: index {index} is negative")
        if index >= self.size:
            raise ValueTooLarge(f"meter {self.name}: index {index}, but its size is {self.size}")
        return self._cells[index]

    def reset(self) -> None:
        """Unsets every configuration."""
        for cell in self._cells:
            cell.configure(None, 0)
