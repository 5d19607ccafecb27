"""Register arrays."""

from __future__ import annotations

from sglb.p4 import ir
from sglb.switch.errors import BadValue, ValueTooLarge

#: A register element: an int, or a tuple of leaves when its type is a struct.
Element = int | tuple[int, ...]


class RegisterArray:
    """State of one `register`: engines touch `values` directly; the control plane goes through here.

    `values[i]` is an unsigned int, or a tuple of them for a struct element.
    """

    def __init__(self, instance: ir.Instance) -> None:
        self.name = instance.name
        self.size = instance.size
        self.p4info_id = instance.p4info_id
        self.widths = instance.elements
        initial: Element = instance.initial
        if len(self.widths) > 1:
            initial = (instance.initial,) * len(self.widths)
        self._initial = initial
        # A struct register holds tuples; the protocol's type names the common case.
        self.values: list[int] = [initial] * instance.size  # type: ignore[list-item]

    def read(self, index: int) -> Element:
        """The element. Raises `BadValue` for a negative index, `ValueTooLarge` beyond the end."""
        self._check(index)
        return self.values[index]

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
        self.values[index] = value  # type: ignore[assignment]

    def reset(self) -> None:
        """Puts the initial value everywhere, in place (engines hold the list)."""
        self.values[:] = [self._initial] * self.size  # type: ignore[list-item]

    def _check(self, index: int) -> None:
        if index < 0:
            raise BadValue(f"register {self.name}: index {index} is negative")
        if index >= self.size:
            raise ValueTooLarge(f"register {self.name}: index {index}, but its size is {self.size}")
