"""What a compiled function cannot say in Python: calls by address, and moving bytes."""

from __future__ import annotations

from sglb.switch.core.jit import primitive


@primitive("""
    %f = inttoptr i64 %address to ptr
    call void %f(i64 %a, i64 %b)
    ret void
""")
def call2(address: int, a: int, b: int) -> None:
    """Calls `void f(int64, int64)`."""


@primitive("""
    %f = inttoptr i64 %address to ptr
    call void %f(i64 %a, i64 %b, i64 %c, i64 %d)
    ret void
""")
def call4(address: int, a: int, b: int, c: int, d: int) -> None:
    """Calls `void f(int64, int64, int64, int64)`."""


@primitive("""
    %p = inttoptr i64 %to to ptr
    %q = inttoptr i64 %origin to ptr
    call void @llvm.memmove.p0.p0.i64(ptr %p, ptr %q, i64 %count, i1 false)
    ret void
""")
def move_bytes(to: int, origin: int, count: int) -> None:
    """Copies bytes between two addresses, which may overlap."""


@primitive("""
    %p = inttoptr i64 %to to ptr
    call void @llvm.memset.p0.i64(ptr %p, i8 0, i64 %count, i1 false)
    ret void
""")
def zero_bytes(to: int, count: int) -> None:
    """Clears bytes at an address."""
