"""What numba cannot say: calling machine code by address, and moving bytes."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

_I64 = ir.IntType(64)


@intrinsic
def call2(_typing: Any, _address: Any, _first: Any, _second: Any) -> Any:
    """call2(address, a, b): calls `void f(int64, int64)`."""

    def code(_context: Any, builder: Any, _sig: Any, args: Any) -> Any:
        kind = ir.FunctionType(ir.VoidType(), [_I64, _I64])
        builder.call(builder.inttoptr(args[0], kind.as_pointer()), args[1:])
        return cgutils.get_null_value(ir.LiteralStructType([]).as_pointer())

    return types.none(types.int64, types.int64, types.int64), code


@intrinsic
def call4(_typing: Any, _address: Any, _a: Any, _b: Any, _c: Any, _d: Any) -> Any:
    """call4(address, a, b, c, d): calls `void f(int64, int64, int64, int64)`."""

    def code(_context: Any, builder: Any, _sig: Any, args: Any) -> Any:
        kind = ir.FunctionType(ir.VoidType(), [_I64] * 4)
        builder.call(builder.inttoptr(args[0], kind.as_pointer()), args[1:])
        return cgutils.get_null_value(ir.LiteralStructType([]).as_pointer())

    return types.none(types.int64, types.int64, types.int64, types.int64, types.int64), code


@intrinsic
def move_bytes(_typing: Any, _to: Any, _origin: Any, _count: Any) -> Any:
    """move_bytes(to, origin, count): memmove between two addresses."""

    def code(_context: Any, builder: Any, _sig: Any, args: Any) -> Any:
        pointer = ir.IntType(8).as_pointer()
        to, origin = (builder.inttoptr(a, pointer) for a in args[:2])
        cgutils.raw_memmove(builder, to, origin, args[2], ir.Constant(_I64, 1))
        return cgutils.get_null_value(ir.LiteralStructType([]).as_pointer())

    return types.none(types.int64, types.int64, types.int64), code


@intrinsic
def zero_bytes(_typing: Any, _to: Any, _count: Any) -> Any:
    """zero_bytes(to, count): clears memory at an address."""

    def code(_context: Any, builder: Any, _sig: Any, args: Any) -> Any:
        pointer = builder.inttoptr(args[0], ir.IntType(8).as_pointer())
        cgutils.memset(builder, pointer, args[1], 0)
        return cgutils.get_null_value(ir.LiteralStructType([]).as_pointer())

    return types.none(types.int64, types.int64), code
