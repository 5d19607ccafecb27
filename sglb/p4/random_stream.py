"""Random numbers that Python and native code draw from one place in memory.

The generator is SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators",
OOPSLA 2014): its whole state is one 64-bit word, so an engine in Python and one in machine code that
share the word draw the same sequence between them, whoever draws next.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Final

import numpy as np
from numpy.typing import NDArray

#: Added to the state at every draw, and the two multipliers that scramble what is given out.
GAMMA: Final = 0x9E3779B97F4A7C15
MIX_1: Final = 0xBF58476D1CE4E5B9
MIX_2: Final = 0x94D049BB133111EB

_ALL: Final = (1 << 64) - 1


class RandomStream:
    """One stream of uniform bits; `seed` is a text, or the 64-bit state itself.

    Equal seeds give equal numbers on every machine.
    """

    __slots__ = ("_memory", "_word")

    def __init__(self, seed: str | int) -> None:
        if isinstance(seed, str):
            seed = int.from_bytes(sha256(seed.encode()).digest()[:8], "big")
        self._memory = np.array([seed & _ALL], dtype=np.uint64).data
        self._word = 0

    @property
    def state(self) -> int:
        """The state, below 2**64."""
        return int(self._memory[self._word])

    @state.setter
    def state(self, value: int) -> None:
        self._memory[self._word] = value & _ALL

    def move(self, memory: NDArray[np.int64], word: int) -> None:
        """Keeps the state in `memory[word]` from now on; the sequence goes on where it was."""
        state = self.state
        self._memory = memory.view(np.uint64).data
        self._word = word
        self.state = state

    def next64(self) -> int:
        """The next 64 bits."""
        state = self._memory[self._word] = (int(self._memory[self._word]) + GAMMA) & _ALL
        state = (state ^ state >> 30) * MIX_1 & _ALL
        state = (state ^ state >> 27) * MIX_2 & _ALL
        return state ^ state >> 31

    def bits(self, count: int) -> int:
        """`count` bits: the upper ones of as few draws as hold them, the first draw foremost."""
        value = 0
        for _ in range(-(-count // 64)):
            value = value << 64 | self.next64()
        return value >> -count % 64

    def between(self, low: int, high: int) -> int:
        """A number from `low` to `high`, both included; `low`, without a draw, if `high` is no higher.

        As many bits as the distance has are drawn until they don't exceed it, so no number is likelier
        than another.
        """
        if high <= low:
            return low
        distance = high - low
        count = distance.bit_length()
        value = self.bits(count)
        while value > distance:
            value = self.bits(count)
        return low + value
