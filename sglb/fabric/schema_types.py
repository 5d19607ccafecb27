"""What all blocks of a scenario file are made of: bounded numbers and a strict model."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag

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


def word_or(other: str) -> tuple[Tag, Tag, Discriminator]:
    """For a key that takes words or something else (named so in complaints): three annotations.

    The first is for the words' type, the second for the other, the third for their union. The value
    chooses between them, so that a mistake is told for what was meant only. Tags stand in `<>`; they are
    no part of a key's path.
    """
    word, rest = f"<or {other}>", "<other>"
    choose = Discriminator(lambda value: word if isinstance(value, str) else rest)
    return Tag(word), Tag(rest), choose


class Model(BaseModel):
    """A block of the file: no unknown key, no silent conversion."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)


def exactly_one(block: BaseModel, names: tuple[str, ...]) -> None:
    """Raises ValueError unless one of the keys is given, and only one."""
    given = [n for n in names if getattr(block, n) is not None]
    if len(given) != 1:
        said = f"got {' and '.join(given)}" if given else "got none"
        raise ValueError(f"needs exactly one of {', '.join(names)}; {said}")
