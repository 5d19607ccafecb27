"""What all blocks of a scenario file are made of: bounded numbers and a strict model."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

# A day in virtual time, far beyond any run; keeps float-to-picosecond rounding exact enough.
_MAX_US = 86_400_000_000.0
Time = Annotated[float, Field(ge=0, le=_MAX_US)]
PositiveTime = Annotated[float, Field(gt=0, le=_MAX_US)]
Rate = Annotated[float, Field(gt=0, le=100_000)]
Probability = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=1, le=65_535)]
Bytes = Annotated[int, Field(ge=1, le=1 << 40)]
BytesOrNone = Annotated[int, Field(ge=0, le=1 << 40)]
#: A queue of a port and a priority of PFC; 7 is the switches' own, no host may send in it.
TrafficClass = Annotated[int, Field(ge=0, le=6)]


class Model(BaseModel):
    """A block of the file: no unknown key, no silent conversion."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)


def exactly_one(block: BaseModel, names: tuple[str, ...]) -> None:
    """Raises ValueError unless one of the keys is given, and only one."""
    given = [n for n in names if getattr(block, n) is not None]
    if len(given) != 1:
        said = f"got {' and '.join(given)}" if given else "got none"
        raise ValueError(f"needs exactly one of {', '.join(names)}; {said}")
