"""A fabric's memory: one block, three views of it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt


class World(NamedTuple):
    """One block of memory: as int64, as int32, as bytes, and where it lies.

    To compiled functions it is that address alone.
    """

    w: npt.NDArray[np.int64]
    h: npt.NDArray[np.int32]
    b: npt.NDArray[np.uint8]
    address: int
