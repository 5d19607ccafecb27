"""Register arrays."""

from __future__ import annotations

from collections.abc import Iterator
from threading import RLock
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sglb.p4 import ir
from sglb.p4.native import table_layout as lay
from sglb.p4.runtime import Values
from sglb.switch.errors import BadValue, ValueTooLarge
from sglb.switch.locking import SwitchLock, locked
from sglb.switch.memory import Arena, address_of

#: A register element: an int, or a tuple of leaves when its type is a struct.
Element = int | tuple[int, ...]

_TYPES: Final = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


class WideValues:
    """Elements of one leaf that no machine type holds."""

    __slots__ = ("_bytes", "_size", "_stride")

    def __init__(self, memory: NDArray[np.uint8], stride_bytes: int) -> None:
        self._bytes = memory.data
        self._stride = stride_bytes
        self._size = len(memory) // stride_bytes

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[int]:
        return (self[index] for index in range(self._size))

    def __getitem__(self, index: int) -> int:
        start = self._start(index)
        return int.from_bytes(self._bytes[start : start + self._stride], "little")

    def __setitem__(self, index: int, value: int) -> None:
        start = self._start(index)
        self._bytes[start : start + self._stride] = value.to_bytes(self._stride, "little")

    def _start(self, index: int) -> int:
        if not 0 <= index < self._size:
            raise IndexError(f"register index {index} is outside 0..{self._size - 1}")
        return index * self._stride


class StructValues:
    """Elements of several leaves: tuples of unsigned ints."""

    __slots__ = ("_bytes", "_leaves", "_size", "_stride")

    def __init__(self, memory: NDArray[np.uint8], instance: ir.Instance) -> None:
        self._bytes = memory.data
        self._stride = lay.register_stride(instance)
        self._size = instance.size
        self._leaves = tuple(
            (offset, lay.natural_bytes(width))
            for offset, width in zip(lay.register_offsets(instance), instance.elements, strict=True)
        )

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[tuple[int, ...]]:
        return (self[index] for index in range(self._size))

    def __getitem__(self, index: int) -> tuple[int, ...]:
        start, data = self._start(index), self._bytes
        return tuple(
            int.from_bytes(data[start + offset : start + offset + size], "little")
            for offset, size in self._leaves
        )

    def __setitem__(self, index: int, value: tuple[int, ...]) -> None:
        start, data = self._start(index), self._bytes
        for leaf, (offset, size) in zip(value, self._leaves, strict=True):
            data[start + offset : start + offset + size] = leaf.to_bytes(size, "little")

    def _start(self, index: int) -> int:
        if not 0 <= index < self._size:
            raise IndexError(f"register index {index} is outside 0..{self._size - 1}")
        return index * self._stride


class RegisterArray:
    """State of one `register`: engines touch `values` directly; the control plane goes through here.

    `values[i]` is an unsigned int, or a tuple of them for a struct element.
    """

    def __init__(
        self, instance: ir.Instance, lock: SwitchLock | None = None, arena: Arena | None = None
    ) -> None:
        self.lock: SwitchLock = lock or RLock()
        self.name = instance.name
        self.size = instance.size
        self.p4info_id = instance.p4info_id
        self.widths = instance.elements
        initial: Element = instance.initial
        if len(self.widths) > 1:
            initial = (instance.initial,) * len(self.widths)
        self._initial = initial
        self._memory = (arena or Arena()).take(lay.register_stride(instance) * instance.size)
        self.values: Values = self._view(instance)
        if instance.initial:
            self.reset()

    @property
    def address(self) -> int:
        """Where the first element lies."""
        return address_of(self._memory)

    def read(self, index: int) -> Element:
        """The element. Raises `BadValue` for a negative index, `ValueTooLarge` beyond the end."""
        self._check(index)
        element: Element = self.values[index]
        return element

    @locked
    def write(self, index: int, value: Element) -> None:
        """Sets the element; raises as `read`, and when the value does not fit its width."""
        self._check(index)
        leaves = value if isinstance(value, tuple) else (value,)
        if len(leaves) != len(self.widths):
            raise BadValue(
                f"register {self.name} takes {len(self.widths)} value(s), got {len(leaves)}"
            )
        for leaf, width in zip(leaves, self.widths, strict=True):
            if leaf < 0 or leaf >> width:
                raise ValueTooLarge(f"register {self.name}[{index}]: {leaf} exceeds {width} bits")
        self.values[index] = value if len(leaves) > 1 else leaves[0]

    @locked
    def reset(self) -> None:
        """Puts the initial value everywhere, in place (engines hold the memory)."""
        if self.size:
            self.values[0] = self._initial
            stride = len(self._memory) // self.size
            self._memory.reshape(self.size, stride)[1:] = self._memory[:stride]

    def _view(self, instance: ir.Instance) -> Values:
        if len(self.widths) != 1:
            return StructValues(self._memory, instance)
        size = lay.natural_bytes(self.widths[0])
        kind = _TYPES.get(size)
        return WideValues(self._memory, size) if kind is None else self._memory.view(kind).data

    def _check(self, index: int) -> None:
        if index < 0:
            raise BadValue(f"register {self.name}: index {index} is negative")
        if index >= self.size:
            raise ValueTooLarge(f"register {self.name}: index {index}, but its size is {self.size}")
