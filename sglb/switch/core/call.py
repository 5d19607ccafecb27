"""What a compiled function cannot say in Python: calls by address, bytes, bits."""

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
    %p = inttoptr i64 %address to ptr
    call void @llvm.prefetch.p0(ptr %p, i32 0, i32 3, i32 1)
    ret void
""")
def fetch(address: int) -> None:
    """Has the processor bring a line of memory near, if there is memory; changes nothing."""


@primitive("""
    %p = inttoptr i64 %to to ptr
    call void @llvm.memset.p0.i64(ptr %p, i8 0, i64 %count, i1 false)
    ret void
""")
def zero_bytes(to: int, count: int) -> None:
    """Clears bytes at an address."""


@primitive("""
    %p = inttoptr i64 %address to ptr
    %r = load i64, ptr %p, align 1
    ret i64 %r
""")
def load64(address: int) -> int:
    """Eight bytes as int64, wherever they lie."""


@primitive("""
    %r = call i64 @llvm.cttz.i64(i64 %value, i1 false)
    ret i64 %r
""")
def lowest(value: int) -> int:
    """Number of the lowest bit that is set, 64 for 0."""


@primitive("""
    %zeros = call i64 @llvm.ctlz.i64(i64 %value, i1 false)
    %r = sub i64 64, %zeros
    ret i64 %r
""")
def bit_length(value: int) -> int:
    """Bits that a value (>= 0) needs, 0 for 0."""
