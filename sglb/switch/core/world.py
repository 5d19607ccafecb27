"""A fabric's memory as compiled functions see it: one address, three views of it.

Numba passes a tuple of arrays as 21 arguments and counts references to each array at each use; here
`World` costs one register, and `world.w[i]` is one load. Every element reads as int64 (int32 with its
sign, bytes without), so that a compiled function needs one version only. Nothing checks an index.
"""

from __future__ import annotations

import operator
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba.core import types
from numba.core.typing.templates import (
    AbstractTemplate,
    AttributeTemplate,
    infer_global,
    signature,
)
from numba.extending import (
    NativeValue,
    infer_getattr,
    lower_builtin,
    lower_getattr,
    models,
    register_model,
    typeof_impl,
    unbox,
)


class World(NamedTuple):
    """One block of memory: as int64, as int32, as bytes, and where it lies."""

    w: npt.NDArray[np.int64]
    h: npt.NDArray[np.int32]
    b: npt.NDArray[np.uint8]
    address: int


class WorldType(types.Type):
    """Numba's type of a `World`."""

    def __init__(self) -> None:
        super().__init__(name="World")


class ViewType(types.Type):
    """Numba's type of a view; `element` is what lies in memory."""

    def __init__(self, element: Any) -> None:
        self.element = element
        super().__init__(name=f"View({element})")


WORLD: Final = WorldType()
_VIEWS: Final = {
    "w": ViewType(types.int64),
    "h": ViewType(types.int32),
    "b": ViewType(types.uint8),
}


@register_model(WorldType)
@register_model(ViewType)
class _AddressModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, ir.IntType(64))


@typeof_impl.register(World)
def _typeof(_value: World, _context: Any) -> WorldType:
    return WORLD


@unbox(WorldType)
def _unbox(_kind: WorldType, value: Any, c: Any) -> Any:
    number = c.pyapi.object_getattr_string(value, "address")
    address = c.pyapi.long_as_longlong(number)
    c.pyapi.decref(number)
    return NativeValue(address)


@infer_getattr
class _WorldAttributes(AttributeTemplate):
    key = WorldType

    def generic_resolve(self, _world: WorldType, name: str) -> ViewType | None:
        return _VIEWS.get(name)


def _view(_context: Any, _builder: Any, _kind: WorldType, address: Any) -> Any:
    return address


for _name in _VIEWS:
    lower_getattr(WorldType, _name)(_view)


@infer_global(operator.getitem)
class _Load(AbstractTemplate):
    def generic(self, args: tuple[Any, ...], _kws: object) -> Any:
        if len(args) == 2 and isinstance(args[0], ViewType) and isinstance(args[1], types.Integer):
            return signature(types.int64, args[0], types.int64)
        return None


@infer_global(operator.setitem)
class _Store(AbstractTemplate):
    def generic(self, args: tuple[Any, ...], _kws: object) -> Any:
        if len(args) == 3 and isinstance(args[0], ViewType) and isinstance(args[1], types.Integer):
            return signature(types.none, args[0], types.int64, types.int64)
        return None


def _pointer(builder: Any, view: ViewType, address: Any, index: Any) -> Any:
    kind = ir.IntType(view.element.bitwidth)
    return builder.gep(builder.inttoptr(address, kind.as_pointer()), [index])


@lower_builtin(operator.getitem, ViewType, types.int64)
def _load(_context: Any, builder: Any, sig: Any, args: Any) -> Any:
    view = sig.args[0]
    value = builder.load(_pointer(builder, view, args[0], args[1]))
    if view.element.bitwidth == 64:
        return value
    extend = builder.sext if view.element.signed else builder.zext
    return extend(value, ir.IntType(64))


@lower_builtin(operator.setitem, ViewType, types.int64, types.int64)
def _store(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    view, value = sig.args[0], args[2]
    if view.element.bitwidth != 64:
        value = builder.trunc(value, ir.IntType(view.element.bitwidth))
    builder.store(value, _pointer(builder, view, args[0], args[1]))
    return context.get_dummy_value()
