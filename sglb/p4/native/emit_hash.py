"""Hash algorithms and random numbers as LLVM text: those of `sglb.p4.hashing` and `random_stream`."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sglb.p4 import hashing
from sglb.p4.native import abi
from sglb.p4.native import table_layout as lay
from sglb.p4.random_stream import GAMMA, MIX_1, MIX_2

#: The algorithms there are, by the names of `HashAlgorithm`'s members.
ALGORITHMS = (
    "crc16",
    "crc16_custom",
    "crc32",
    "crc32_custom",
    "csum16",
    "identity",
    "random",
    "xor16",
)


def hash_functions(algorithms: Collection[str]) -> str:
    """The functions of these algorithms, and what they need; `random_next` comes with "random".

    `define internal i64 @hash_<name>(ptr %machine, ptr %bytes, i32 %n)`. ValueError for an unknown name.
    """
    unknown = sorted(set(algorithms) - set(ALGORITHMS))
    if unknown:
        raise ValueError(f"unknown hash algorithms {unknown}; known are {', '.join(ALGORITHMS)}")
    wanted = set(algorithms)
    parts = []
    if "crc16" in wanted:
        parts.append(_crc16())
    if "crc32" in wanted:
        parts.append(_crc32())
    for name, word in (("crc16_custom", lay.CUSTOM_CRC16), ("crc32_custom", lay.CUSTOM_CRC32)):
        if name in wanted:
            parts.append(_custom(name, word))
    if wanted & {"crc16_custom", "crc32_custom"}:
        parts.append(_CUSTOM_CRC)
    for name, text in (("csum16", _CSUM16), ("xor16", _XOR16), ("identity", _IDENTITY)):
        if name in wanted:
            parts.append(text)
    if "random" in wanted:
        parts.append(_RANDOM_HASH)
    return "".join(parts)


def random_function() -> str:
    """`define internal i64 @random_next(ptr %machine)`: the switch's next 64 random bits.

    Must be in the module when the hash "random" or a `random_between_function` is.
    """
    return f"""define internal i64 @random_next(ptr %machine) {{
  %place = getelementptr inbounds i64, ptr %machine, i64 {abi.RANDOM_STATE}
  %before = load i64, ptr %place
  %state = add i64 %before, {GAMMA}
  store i64 %state, ptr %place
  %a = lshr i64 %state, 30
  %b = xor i64 %state, %a
  %c = mul i64 %b, {MIX_1}
  %d = lshr i64 %c, 27
  %e = xor i64 %c, %d
  %f = mul i64 %e, {MIX_2}
  %g = lshr i64 %f, 31
  %h = xor i64 %f, %g
  ret i64 %h
}}
"""


def random_between_function(width: int) -> str:
    """`define internal iW @random_between_<W>(ptr %machine, iW %low, iW %high)`.

    The same numbers as `RandomStream.between`.
    """
    total = -(-width // 64) * 64
    wide, own = f"i{total}", f"i{width}"
    widen = "zext {0} {2} to {1}" if total > width else "add {1} {2}, 0"
    narrow = "trunc {1} {2} to {0}" if total > width else "add {1} {2}, 0"
    draw = (
        "  %value = call i64 @random_next(ptr %machine)\n  br label %drawn\n"
        if total == 64
        else f"""  br label %more
more:
  %sofar = phi {wide} [0, %again], [%longer, %more]
  %left = phi i64 [%words, %again], [%fewer, %more]
  %part = call i64 @random_next(ptr %machine)
  %part.wide = zext i64 %part to {wide}
  %upper = shl {wide} %sofar, 64
  %longer = or {wide} %upper, %part.wide
  %fewer = sub i64 %left, 1
  %last = icmp eq i64 %fewer, 0
  br i1 %last, label %finish, label %more
finish:
  %value = add {wide} %longer, 0
  br label %drawn
"""
    )
    return f"""define internal {own} @random_between_{width}(ptr %machine, {own} %low, {own} %high) {{
  %none = icmp ule {own} %high, %low
  br i1 %none, label %give.low, label %start
give.low:
  ret {own} %low
start:
  %distance.own = sub {own} %high, %low
  %distance = {widen.format(own, wide, "%distance.own")}
  %zeros.wide = call {wide} @llvm.ctlz.{wide}({wide} %distance, i1 true)
  %zeros = {"add i64 %zeros.wide, 0" if total == 64 else f"trunc {wide} %zeros.wide to i64"}
  %bits = sub i64 {total}, %zeros
  %up = add i64 %bits, 63
  %words = lshr i64 %up, 6
  %held = shl i64 %words, 6
  %drop = sub i64 %held, %bits
  %drop.wide = {"add i64 %drop, 0" if total == 64 else f"zext i64 %drop to {wide}"}
  br label %again
again:
{draw}drawn:
  %cut = lshr {wide} %value, %drop.wide
  %far = icmp ugt {wide} %cut, %distance
  br i1 %far, label %again, label %done
done:
  %cut.own = {narrow.format(own, wide, "%cut")}
  %result = add {own} %low, %cut.own
  ret {own} %result
}}
"""


# --- fixed CRCs -----------------------------------------------------------------------------------


def _array(name: str, kind: str, values: Sequence[int]) -> str:
    numbers = ", ".join(f"{kind} {value}" for value in values)
    return f"@{name} = internal constant [{len(values)} x {kind}] [{numbers}], align 64\n"


def _crc16() -> str:
    table = hashing.crc_table(hashing.CRC16)
    return (
        _array("crc16_table", "i16", table)
        + """define internal i64 @hash_crc16(ptr %machine, ptr %bytes, i32 %n) {
entry:
  %length = zext i32 %n to i64
  %none = icmp eq i64 %length, 0
  br i1 %none, label %done, label %loop
loop:
  %at = phi i64 [0, %entry], [%on, %loop]
  %register = phi i16 [0, %entry], [%new, %loop]
  %p = getelementptr inbounds i8, ptr %bytes, i64 %at
  %byte = load i8, ptr %p
  %low = trunc i16 %register to i8
  %both = xor i8 %low, %byte
  %index = zext i8 %both to i64
  %p.step = getelementptr inbounds [256 x i16], ptr @crc16_table, i64 0, i64 %index
  %step = load i16, ptr %p.step
  %rest = lshr i16 %register, 8
  %new = xor i16 %rest, %step
  %on = add i64 %at, 1
  %more = icmp ult i64 %on, %length
  br i1 %more, label %loop, label %done
done:
  %crc = phi i16 [0, %entry], [%new, %loop]
  %result = zext i16 %crc to i64
  ret i64 %result
}
"""
    )


def _crc32() -> str:
    """Slicing by eight: eight bytes a step, each through a table of its own (Kounavis and Berry)."""
    first = hashing.crc_table(hashing.CRC32)
    tables = [list(first)]
    for _ in range(7):
        tables.append([value >> 8 ^ first[value & 0xFF] for value in tables[-1]])
    lines = []
    for number in range(8):
        source, shift = ("%low", 8 * number) if number < 4 else ("%high", 8 * (number - 4))
        row = 7 - number
        lines.append(f"""  %s{number} = lshr i32 {source}, {shift}
  %b{number} = and i32 %s{number}, 255
  %i{number} = zext i32 %b{number} to i64
  %p{number} = getelementptr inbounds [2048 x i32], ptr @crc32_tables, i64 0, i64 {256 * row}
  %q{number} = getelementptr inbounds i32, ptr %p{number}, i64 %i{number}
  %t{number} = load i32, ptr %q{number}""")
    xors = ["%t0"]
    folded = []
    for number in range(1, 8):
        folded.append(f"  %x{number} = xor i32 {xors[-1]}, %t{number}")
        xors.append(f"%x{number}")
    eight = "\n".join(lines + folded)
    return (
        _array("crc32_tables", "i32", [value for table in tables for value in table])
        + f"""define internal i64 @hash_crc32(ptr %machine, ptr %bytes, i32 %n) {{
entry:
  %length = zext i32 %n to i64
  br label %eights
eights:
  %at = phi i64 [0, %entry], [%at.next, %eight]
  %register = phi i32 [-1, %entry], [%x7, %eight]
  %at.next = add i64 %at, 8
  %fits = icmp ule i64 %at.next, %length
  br i1 %fits, label %eight, label %ones
eight:
  %from = getelementptr inbounds i8, ptr %bytes, i64 %at
  %word = load i64, ptr %from, align 1
  %first = trunc i64 %word to i32
  %low = xor i32 %first, %register
  %word.upper = lshr i64 %word, 32
  %high = trunc i64 %word.upper to i32
{eight}
  br label %eights
ones:
  %i = phi i64 [%at, %eights], [%i.next, %one]
  %crc = phi i32 [%register, %eights], [%crc.next, %one]
  %more = icmp ult i64 %i, %length
  br i1 %more, label %one, label %done
one:
  %p = getelementptr inbounds i8, ptr %bytes, i64 %i
  %byte = load i8, ptr %p
  %byte.wide = zext i8 %byte to i32
  %mixed = xor i32 %crc, %byte.wide
  %index = and i32 %mixed, 255
  %index.wide = zext i32 %index to i64
  %p.step = getelementptr inbounds [2048 x i32], ptr @crc32_tables, i64 0, i64 %index.wide
  %step = load i32, ptr %p.step
  %rest = lshr i32 %crc, 8
  %crc.next = xor i32 %rest, %step
  %i.next = add i64 %i, 1
  br label %ones
done:
  %flipped = xor i32 %crc, -1
  %result = zext i32 %flipped to i64
  ret i64 %result
}}
"""
    )


# --- custom CRCs ----------------------------------------------------------------------------------


def _custom(name: str, word: int) -> str:
    return f"""define internal i64 @hash_{name}(ptr %machine, ptr %bytes, i32 %n) {{
  %place = getelementptr inbounds i64, ptr %machine, i64 {word}
  %model = load ptr, ptr %place
  %crc = call i64 @custom_crc(ptr %model, ptr %bytes, i32 %n)
  ret i64 %crc
}}
"""


def _model_word(name: str, word: int) -> str:
    return f"""  %p.{name} = getelementptr inbounds i64, ptr %model, i64 {word}
  %{name} = load i64, ptr %p.{name}
"""


_CUSTOM_CRC = f"""define internal i64 @custom_crc(ptr %model, ptr %bytes, i32 %n) {{
entry:
{_model_word("start", lay.CRC_START)}{_model_word("final", lay.CRC_FINAL)}{
    _model_word("width", lay.CRC_WIDTH)
}{_model_word("reflected", lay.CRC_REFLECTED)}{_model_word("flip", lay.CRC_FLIP)}  %length = \
zext i32 %n to i64
  %table = getelementptr inbounds i64, ptr %model, i64 {lay.CRC_TABLE}
  %shift = sub i64 %width, 8
  %over = sub i64 64, %width
  %mask = lshr i64 -1, %over
  %is.reflected = icmp ne i64 %reflected, 0
  br label %loop
loop:
  %at = phi i64 [0, %entry], [%on, %step]
  %register = phi i64 [%start, %entry], [%new, %step]
  %more = icmp ult i64 %at, %length
  br i1 %more, label %step, label %done
step:
  %p = getelementptr inbounds i8, ptr %bytes, i64 %at
  %byte.own = load i8, ptr %p
  %byte = zext i8 %byte.own to i64
  %top = lshr i64 %register, %shift
  %end = select i1 %is.reflected, i64 %register, i64 %top
  %mixed = xor i64 %end, %byte
  %index = and i64 %mixed, 255
  %p.entry = getelementptr inbounds i64, ptr %table, i64 %index
  %entry.value = load i64, ptr %p.entry
  %down = lshr i64 %register, 8
  %up = shl i64 %register, 8
  %rest = select i1 %is.reflected, i64 %down, i64 %up
  %sum = xor i64 %rest, %entry.value
  %new = and i64 %sum, %mask
  %on = add i64 %at, 1
  br label %loop
done:
  %reversed = call i64 @llvm.bitreverse.i64(i64 %register)
  %aligned = lshr i64 %reversed, %over
  %flips = icmp ne i64 %flip, 0
  %value = select i1 %flips, i64 %aligned, i64 %register
  %result = xor i64 %value, %final
  ret i64 %result
}}
"""


# --- sums and the rest ----------------------------------------------------------------------------

#: The loop over 16-bit words: `%total` of all, with the last odd byte as the high half of its word.
_WORDS = """entry:
  %length = zext i32 %n to i64
  %even = and i64 %length, -2
  br label %loop
loop:
  %at = phi i64 [0, %entry], [%on, %step]
  %sum = phi i64 [0, %entry], [%sum.new, %step]
  %more = icmp ult i64 %at, %even
  br i1 %more, label %step, label %tail
step:
  %p = getelementptr inbounds i8, ptr %bytes, i64 %at
  %little = load i16, ptr %p, align 1
  %big = call i16 @llvm.bswap.i16(i16 %little)
  %word = zext i16 %big to i64
  %sum.new = OP i64 %sum, %word
  %on = add i64 %at, 2
  br label %loop
tail:
  %odd = icmp ne i64 %even, %length
  br i1 %odd, label %one, label %done
one:
  %p.last = getelementptr inbounds i8, ptr %bytes, i64 %even
  %last = load i8, ptr %p.last
  %last.wide = zext i8 %last to i64
  %last.word = shl i64 %last.wide, 8
  %sum.odd = OP i64 %sum, %last.word
  br label %done
done:
  %total = phi i64 [%sum, %tail], [%sum.odd, %one]
"""

_XOR16 = (
    "define internal i64 @hash_xor16(ptr %machine, ptr %bytes, i32 %n) {\n"
    + _WORDS.replace("OP", "xor")
    + "  ret i64 %total\n}\n"
)

_CSUM16 = (
    "define internal i64 @hash_csum16(ptr %machine, ptr %bytes, i32 %n) {\n"
    + _WORDS.replace("OP", "add")
    + """  %result = call i64 @fold_sum(i64 %total)
  ret i64 %result
}
define internal i64 @fold_sum(i64 %total) {
  %folded = urem i64 %total, 65535
  %zero = icmp eq i64 %folded, 0
  %some = icmp ne i64 %total, 0
  %full = and i1 %zero, %some
  %rest = sub i64 65535, %folded
  %result = select i1 %full, i64 0, i64 %rest
  ret i64 %result
}
"""
)

_IDENTITY = """define internal i64 @hash_identity(ptr %machine, ptr %bytes, i32 %n) {
entry:
  %length = zext i32 %n to i64
  %long = icmp ugt i64 %length, 8
  %count = select i1 %long, i64 8, i64 %length
  br label %loop
loop:
  %at = phi i64 [0, %entry], [%on, %step]
  %value = phi i64 [0, %entry], [%value.new, %step]
  %more = icmp ult i64 %at, %count
  br i1 %more, label %step, label %done
step:
  %p = getelementptr inbounds i8, ptr %bytes, i64 %at
  %byte = load i8, ptr %p
  %byte.wide = zext i8 %byte to i64
  %up = shl i64 %value, 8
  %value.new = or i64 %up, %byte.wide
  %on = add i64 %at, 1
  br label %loop
done:
  ret i64 %value
}
"""

_RANDOM_HASH = """define internal i64 @hash_random(ptr %machine, ptr %bytes, i32 %n) {
  %bits = call i64 @random_next(ptr %machine)
  %upper = lshr i64 %bits, 32
  ret i64 %upper
}
"""
