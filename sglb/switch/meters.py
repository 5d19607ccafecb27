"""Three-colour meters, two-rate (RFC 2698) and single-rate (RFC 2697), colour blind, in exact time.

A single-rate meter has a committed bucket and an excess one that fills with what overflows the first.
It runs on the same two numbers as a two-rate meter with equal rates: the committed bucket, and the sum
of both, whose burst is the sum of the bursts. What it may spend on yellow is their difference.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from sglb.p4 import ir
from sglb.p4.native import table_layout as lay
from sglb.p4.runtime import Colour
from sglb.switch.clock import PS_PER_S
from sglb.switch.counters import CounterData
from sglb.switch.errors import BadValue, ValueTooLarge
from sglb.switch.memory import WORD_MASK, Arena, address_of, signed

_LARGEST: Final = (1 << 63) - 1

# Places in a cell, in words.
_WORDS: Final = lay.METER_BYTES // lay.WORD
_FLAGS: Final = lay.METER_CONFIGURED // lay.WORD
_LAST: Final = lay.METER_LAST // lay.WORD
_SURE: Final = lay.METER_SURE // lay.WORD
_PEAK: Final = lay.METER_PEAK // lay.WORD
_CIR: Final = lay.METER_CIR // lay.WORD
_PIR: Final = lay.METER_PIR // lay.WORD
_CBURST: Final = lay.METER_CBURST // lay.WORD
_PBURST: Final = lay.METER_PBURST // lay.WORD
_COUNTS: Final = lay.METER_COUNTS // lay.WORD
_COUNTER: Final = lay.COUNTER_BYTES // lay.WORD
#: The flag word: configured (and with one rate) in its lower half, packets in its upper one.
_CONFIGURED: Final = 1
_SINGLE: Final = lay.METER_SINGLE_RATE
_PACKETS: Final = 1 << 8 * lay.METER_PACKETS


@dataclass(frozen=True, slots=True)
class MeterConfig:
    """Rates per second and bursts, in packets or bytes: committed (cir, cburst), peak (pir, pburst).

    With an excess burst `eburst` it is a single-rate meter: peak rate and burst are the committed
    ones. Raises `BadValue` for a number that is negative or exceeds 63 bits (both bursts of a
    single-rate meter together), a peak rate below the committed one, or another peak with `eburst`.
    """

    cir: int
    cburst: int
    pir: int
    pburst: int
    eburst: int = 0

    def __post_init__(self) -> None:
        numbers = (self.cir, self.cburst, self.pir, self.pburst, self.eburst)
        if min(numbers) < 0:
            raise BadValue(f"meter rates and bursts must not be negative: {self}")
        if max(*numbers, self.cburst + self.eburst) > _LARGEST:
            raise BadValue(f"meter rates and bursts must be below 2**63: {self}")
        if self.pir < self.cir:
            raise BadValue(f"meter peak rate {self.pir}/s lies below the committed {self.cir}/s")
        if self.eburst and (self.pir, self.pburst) != (self.cir, self.cburst):
            raise BadValue(f"a meter with an excess burst has one rate and one burst: {self}")


class Meter:
    """One meter: green until configured. Its cell begins at `words[at]`, or is memory of its own.

    Tokens are kept in units of 1e-12 packets (or bytes), so that `rate` per second is exactly `rate`
    units per picosecond and nothing is ever rounded.
    """

    __slots__ = ("_at", "_words")

    def __init__(self, *, packets: bool, words: memoryview | None = None, at: int = 0) -> None:
        self._words = np.zeros(_WORDS, dtype=np.uint64).data if words is None else words
        self._at = at
        self._words[at + _FLAGS] |= _PACKETS if packets else 0

    @property
    def packets(self) -> bool:
        """Whether it meters packets, not bytes."""
        return bool(self._words[self._at + _FLAGS] & _PACKETS)

    @property
    def config(self) -> MeterConfig | None:
        """The configuration, None when unset."""
        words, at = self._words, self._at
        if not words[at + _FLAGS] & _CONFIGURED:
            return None
        cir, cburst, pir, pburst = (words[at + w] for w in (_CIR, _CBURST, _PIR, _PBURST))
        if words[at + _FLAGS] & _SINGLE:
            return MeterConfig(cir, cburst, pir, cburst, pburst - cburst)
        return MeterConfig(cir, cburst, pir, pburst)

    @property
    def counts(self) -> tuple[CounterData, CounterData, CounterData]:
        """Green, yellow and red packets so far."""
        first = self._at + _COUNTS
        return (
            CounterData(self._words, first),
            CounterData(self._words, first + _COUNTER),
            CounterData(self._words, first + 2 * _COUNTER),
        )

    def configure(self, config: MeterConfig | None, now_ps: int) -> None:
        """Sets rates (both buckets start full) or, with None, goes back to always green."""
        words, at = self._words, self._at
        words[at + _LAST] = now_ps & WORD_MASK
        words[at + _FLAGS] &= ~(_CONFIGURED | _SINGLE) & WORD_MASK
        if config is None:
            return
        words[at + _FLAGS] |= _CONFIGURED | (_SINGLE if config.eburst else 0)
        burst = config.pburst + config.eburst
        words[at + _CIR], words[at + _CBURST] = config.cir, config.cburst
        words[at + _PIR], words[at + _PBURST] = config.pir, burst
        self._store(_SURE, config.cburst * PS_PER_S)
        self._store(_PEAK, burst * PS_PER_S)

    def clear(self) -> None:
        """Unset, with nothing counted, as at first."""
        self.configure(None, 0)
        for cell in self.counts:
            cell.set(0, 0)

    def checkpoint(self) -> Callable[[], None]:
        """What puts configuration and tokens back as they are now."""
        first, end = self._at, self._at + _COUNTS
        saved = self._words[first:end].tolist()

        def restore() -> None:
            for at, word in zip(range(first, end), saved, strict=True):
                self._words[at] = word

        return restore

    def execute(self, length_bytes: int, now_ps: int) -> Colour:
        """The colour of a packet of that length at that time; takes its tokens and counts it."""
        colour = self._colour(length_bytes, now_ps)
        self.counts[colour].count(length_bytes)
        return colour

    def _colour(self, length_bytes: int, now_ps: int) -> Colour:
        words, at = self._words, self._at
        if not words[at + _FLAGS] & _CONFIGURED:
            return Colour.GREEN
        elapsed = now_ps - signed(words[at + _LAST])
        words[at + _LAST] = now_ps & WORD_MASK
        sure = min(self._load(_SURE) + elapsed * words[at + _CIR], words[at + _CBURST] * PS_PER_S)
        peak = min(self._load(_PEAK) + elapsed * words[at + _PIR], words[at + _PBURST] * PS_PER_S)
        need = PS_PER_S if self.packets else length_bytes * PS_PER_S
        single = bool(words[at + _FLAGS] & _SINGLE)
        enough = sure >= need
        colour = Colour.GREEN if enough else Colour.YELLOW
        if single:
            red = not enough and peak - sure < need
        else:
            red = peak < need
        if red:
            colour = Colour.RED
        else:
            peak -= need
            sure -= need if enough else 0
        self._store(_SURE, sure)
        self._store(_PEAK, peak)
        return colour

    def _load(self, place: int) -> int:
        """Tokens, which take two words."""
        at = self._at + place
        return signed(self._words[at + 1]) << 64 | int(self._words[at])

    def _store(self, place: int, tokens: int) -> None:
        at = self._at + place
        self._words[at] = tokens & WORD_MASK
        self._words[at + 1] = tokens >> 64 & WORD_MASK


class MeterArray:
    """State of one indirect `meter`."""

    def __init__(self, instance: ir.Instance, arena: Arena | None = None) -> None:
        self.name = instance.name
        self.size = instance.size
        self.unit = instance.counts
        self.p4info_id = instance.p4info_id
        self._packets = instance.counts == "packets"
        self._memory = (arena or Arena()).take(instance.size * lay.METER_BYTES).view(np.uint64)
        if self._packets:
            self._memory[_FLAGS::_WORDS] = _PACKETS
        self._words = self._memory.data

    @property
    def address(self) -> int:
        """Where the first cell lies."""
        return address_of(self._memory)

    def execute(self, index: int, length_bytes: int, now_ps: int) -> Colour | None:
        """The packet's colour; None when the index is out of range."""
        if 0 <= index < self.size:
            return self._at(index).execute(length_bytes, now_ps)
        return None

    def cell(self, index: int) -> Meter:
        """The live meter. Raises `BadValue` for a negative index, `ValueTooLarge` beyond the end."""
        if index < 0:
            raise BadValue(f"meter {self.name}: index {index} is negative")
        if index >= self.size:
            raise ValueTooLarge(f"meter {self.name}: index {index}, but its size is {self.size}")
        return self._at(index)

    def reset(self) -> None:
        """Unsets every configuration."""
        for index in range(self.size):
            self._at(index).configure(None, 0)

    def _at(self, index: int) -> Meter:
        return Meter(packets=self._packets, words=self._words, at=index * _WORDS)
