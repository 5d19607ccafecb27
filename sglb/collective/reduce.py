"""Element-wise reductions of raw bytes: which operators take which types, and in which order.

Algorithms hand over memory, not tensors. The order of operands is theirs (lower rank first), so results
do not depend on which rank computes: to the bit, additions of NaNs are not commutative. numpy computes
what it has types for (one thread, cheap calls), torch the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

_NUMPY: dict[torch.dtype, np.dtype[Any]] = {
    torch.float32: np.dtype(np.float32),
    torch.float64: np.dtype(np.float64),
    torch.int8: np.dtype(np.int8),
    torch.uint8: np.dtype(np.uint8),
    torch.int16: np.dtype(np.int16),
    torch.int32: np.dtype(np.int32),
    torch.int64: np.dtype(np.int64),
}
_TORCH_ONLY = frozenset({torch.float16, torch.bfloat16, torch.bool})
#: Below this torch does not start its pool of threads, which every rank of a host would do at once.
_TORCH_SLICE = 32768

_Binary = Callable[..., object]
_OPERATORS: dict[str, tuple[_Binary, _Binary]] = {
    "SUM": (np.add, torch.add),
    "AVG": (np.add, torch.add),
    "PREMUL_SUM": (np.add, torch.add),
    "PRODUCT": (np.multiply, torch.mul),
    "MIN": (np.minimum, torch.minimum),
    "MAX": (np.maximum, torch.maximum),
    "BAND": (np.bitwise_and, torch.bitwise_and),
    "BOR": (np.bitwise_or, torch.bitwise_or),
    "BXOR": (np.bitwise_xor, torch.bitwise_xor),
}
_BITWISE = frozenset({"BAND", "BOR", "BXOR"})
_SUMS = frozenset({"SUM", "AVG", "PREMUL_SUM"})


@dataclass(frozen=True)
class Operator:
    """A torch `ReduceOp` by name; `factor` multiplies each input of PREMUL_SUM."""

    name: str
    factor: float | torch.Tensor | None = None

    @classmethod
    def of(cls, op: Any) -> Operator:
        """Reads what torch hands over: a `ReduceOp`, or one of its kinds."""
        name = getattr(op, "op", op).name
        # A ReduceOp tells its supplement only to pickle.
        factor = op.__getstate__()[1] if name == "PREMUL_SUM" else None
        return cls(name, factor)

    def scaled(self, tensor: torch.Tensor) -> torch.Tensor:
        """The input to reduce: a multiplied copy for PREMUL_SUM, the tensor itself otherwise."""
        return tensor if self.factor is None else (tensor * self.factor).to(tensor.dtype)


class Reducer:
    """An operator for one element type and one number of ranks.

    Raises ValueError for a pair that has no meaning: bitwise operators on floating point, averages of
    integers, order and products of complex numbers (which torch refuses too).
    """

    def __init__(self, operator: Operator, dtype: torch.dtype, ranks: int) -> None:
        name = operator.name
        if name not in _OPERATORS:
            raise ValueError(f"reccl does not know ReduceOp.{name}")
        if dtype.is_complex:
            if name not in _SUMS:
                raise ValueError(f"ReduceOp.{name} has no meaning for {dtype}")
            dtype = dtype.to_real()
        if dtype not in _NUMPY and dtype not in _TORCH_ONLY:
            raise ValueError(f"reccl cannot reduce {dtype}; convert the tensor first")
        whole = not dtype.is_floating_point
        if (name in _BITWISE and not whole) or (name in ("AVG", "PREMUL_SUM") and whole):
            raise ValueError(f"ReduceOp.{name} has no meaning for {dtype}")
        self.itemsize = dtype.itemsize
        self._dtype = dtype
        self._numpy = _NUMPY.get(dtype)
        self._by_numpy, self._by_torch = _OPERATORS[name]
        self._divisor = ranks if name == "AVG" else None

    def combine(self, first: memoryview, second: memoryview, out: memoryview) -> None:
        """`out = first (op) second`, each of the same length in bytes; `out` may be either operand."""
        if self._numpy is not None:
            kind = self._numpy
            a, b, c = (np.frombuffer(view, kind) for view in (first, second, out))
            with np.errstate(all="ignore"):  # an overflow to infinity is a result like any other
                self._by_numpy(a, b, out=c)
            return
        if not len(out):
            return
        operands = [torch.frombuffer(view, dtype=self._dtype) for view in (first, second, out)]
        for lo in range(0, len(operands[2]), _TORCH_SLICE):
            first_slice, second_slice, out_slice = (t[lo : lo + _TORCH_SLICE] for t in operands)
            self._by_torch(first_slice, second_slice, out=out_slice)

    def finish(self, out: memoryview) -> None:
        """Divides a sum by the number of ranks for AVG; once, where the sum is complete."""
        if self._divisor is not None and len(out):
            values = torch.frombuffer(out, dtype=self._dtype)
            for lo in range(0, len(values), _TORCH_SLICE):
                values[lo : lo + _TORCH_SLICE].div_(self._divisor)
