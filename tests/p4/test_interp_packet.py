"""Parsing and deparsing: errors in BMv2's order, bit positions, and no crash on any bytes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from interp_kit import FakeValueSet, Kit, Recorder, const, load, put

from sglb.p4 import ir
from sglb.p4.ir import BinOp


def extract(header: int, var_bits: ir.Expr | None = None) -> ir.Extract:
    return ir.Extract(header=ir.HeaderAt(header), var_bits=var_bits)


def state(*body: ir.Stmt, to: int | ir.Select = ir.ACCEPT) -> ir.State:
    return ir.State("s", body, to)


def exact(value: int, width: int) -> ir.MatchMask:
    return ir.MatchMask(const(value, width), const((1 << width) - 1, width))


def values(context, header: ir.Header) -> list[int]:
    return context.frame[header.valid : header.valid + header.size]


IPV4 = (
    ("version", 4),
    ("ihl", 4),
    ("tos", 8),
    ("length", 16),
    ("id", 16),
    ("flags", 3),
    ("offset", 13),
    ("ttl", 8),
    ("protocol", 8),
    ("checksum", 16),
    ("src", 32),
    ("dst", 32),
)
# RFC 791's fields of a UDP packet from 192.0.2.1 to 198.51.100.2, then four bytes more.
PACKET = bytes.fromhex("4500001c1a2b40004011beefc0000201c6336402") + b"\x01\x02\x03\x04"


def test_fields_by_bits_and_by_struct() -> None:
    kit = Kit()
    ipv4 = kit.header("ipv4", *IPV4)
    udp = kit.header("udp", ("src", 16), ("dst", 16))
    context = kit.parse(PACKET + b"rest", state(extract(0), extract(1)))
    assert values(context, ipv4) == [
        1, 4, 5, 0, 0x1C, 0x1A2B, 2, 0, 0x40, 0x11, 0xBEEF, 0xC0000201, 0xC6336402,
    ]  # fmt: skip
    assert values(context, udp) == [1, 0x0102, 0x0304]
    assert context.payload_offset == 24
    assert kit.error_of(context) == "NoError"


def test_a_short_packet_keeps_what_the_extract_would_have_taken() -> None:
    kit = Kit()
    first = kit.header("a", ("x", 8))
    second = kit.header("b", ("x", 32))
    context = kit.parse(b"\x07\x01\x02\x03", state(extract(0), extract(1)))
    assert (values(context, first), values(context, second)) == ([1, 7], [0, 0])
    assert context.payload_offset == 1
    assert kit.error_of(context) == "PacketTooShort"


@pytest.mark.parametrize(
    ("data", "bits", "error", "fields", "offset"),
    [
        ("05aabbcc", 16, "NoError", [1, 5, 0xAABB, 16, 0xCC], 4),
        ("05aabbcc", 0, "NoError", [1, 5, 0, 0, 0xAA], 2),
        ("05aabbccddee", 24, "HeaderTooShort", [0, 0, 0, 0, 0], 0),
        ("05aabb", 24, "PacketTooShort", [0, 0, 0, 0, 0], 0),  # before HeaderTooShort
        ("05", 12, "ParserInvalidArgument", [0, 0, 0, 0, 0], 0),  # before PacketTooShort
        ("05aabb", 0xFFFFFFF8, "PacketTooShort", [0, 0, 0, 0, 0], 0),
    ],
)
def test_varbit(data: str, bits: int, error: str, fields: list[int], offset: int) -> None:
    kit = Kit()
    header = kit.header("h", ("a", 8), ("v", -16), ("z", 8))
    context = kit.parse(bytes.fromhex(data), state(extract(0, const(bits, 32))))
    assert kit.error_of(context) == error
    assert values(context, header) == fields
    assert context.payload_offset == offset


def test_varbit_is_emitted_at_its_length() -> None:
    kit = Kit()
    kit.header("h", ("a", 4), ("b", 4), ("v", -64), ("z", 16))
    kit.blocks["deparser"] = (ir.Emit(header=0),)
    kit.states = (state(extract(0, const(24, 32))),)
    engine = kit.engine()
    data = bytes.fromhex("12aabbcc3344") + b"tail"
    context = engine.new_context(data, 0)
    engine.parse(context)
    assert engine.deparse(context) == data


def test_stack_next_overflow_and_last() -> None:
    kit = Kit()
    stack = kit.stack("s", 2, ("x", 8))
    more = ir.Select((ir.LoadElement(8, stack, 1, last(kit, stack)),), (case(9, 1),))
    states = (
        state(ir.ExtractNext(array=stack), ir.StackLast(array=stack), to=0),
        state(),
    )
    context = kit.parse(b"\x01\x02\x03", *states)
    array = kit.arrays[0]
    assert context.frame[array.base : array.base + 4] == [1, 1, 1, 2]  # the parsed ones stay
    assert context.frame[array.next] == 2
    assert kit.error_of(context) == "StackOutOfBounds"
    assert context.payload_offset == 2
    context = kit.parse(b"\x01\x09\x03", state(ir.ExtractNext(array=stack), to=more), state())
    assert kit.error_of(context) == "NoError"
    context = kit.parse(b"\x01", state(ir.StackLast(array=stack)))
    assert kit.error_of(context) == "StackOutOfBounds"


def last(kit: Kit, stack: int) -> ir.Expr:
    return ir.Binary(32, BinOp.SUB, load(kit.arrays[stack].next, 32), const(1, 32))


def case(value: int, to: int) -> ir.SelectCase:
    return ir.SelectCase((exact(value, 8),), to)


def test_extract_into_an_element_by_index() -> None:
    kit = Kit()
    stack = kit.stack("s", 2, ("x", 8))
    index = kit.slot("index", 8)
    into = ir.Extract(header=ir.HeaderIn(stack, load(index, 8)))
    context = kit.parse(b"\x05\x06\x07", state(put(index, 1), into, put(index, 2), into))
    array = kit.arrays[0]
    assert context.frame[array.base : array.base + 4] == [0, 0, 1, 5]
    assert context.payload_offset == 1


def test_skip_advance_and_lookahead() -> None:
    kit = Kit()
    seen, after = kit.slot("seen", 12), kit.slot("after", 4)
    context = kit.parse(
        bytes.fromhex("00112345"),
        state(
            ir.Extract(header=None, width=8),
            ir.Advance(bits=const(8, 32)),
            ir.Lookahead(target=seen, width=12),
            ir.Lookahead(target=after, width=4),
        ),
    )
    assert (context.frame[seen], context.frame[after]) == (0x234, 2)
    assert context.payload_offset == 2


@pytest.mark.parametrize(
    ("stmt", "error"),
    [
        (ir.Advance(bits=const(12, 32)), "ParserInvalidArgument"),
        (ir.Advance(bits=const(24, 32)), "PacketTooShort"),
        (ir.Lookahead(target=0, width=17), "PacketTooShort"),
        (ir.Extract(header=None, width=24), "PacketTooShort"),
        (ir.Verify(cond=const(0, 1), error=const(2, 32)), "NoMatch"),
        (ir.Verify(cond=const(1, 1), error=const(2, 32)), "NoError"),
    ],
)
def test_errors(stmt: ir.Stmt, error: str) -> None:
    kit = Kit()
    after = kit.slot("after", 8)
    context = kit.parse(b"\x01\x02", state(stmt, put(after, 1)))
    assert kit.error_of(context) == error
    assert context.frame[after] == (1 if error == "NoError" else 0)
    assert context.payload_offset == 0


def select_kit(*cases: ir.SelectCase, width: int = 8, operands: int = 1) -> tuple[Kit, list[int]]:
    """Reads `operands` fields, selects, and state n leaves n in the slot `went`."""
    kit = Kit()
    header = kit.header("h", *((f"k{i}", width) for i in range(operands)))
    went = kit.slot("went", 8)
    select = ir.Select(tuple(load(f.slot, width) for f in header.fields), cases)
    others = tuple(state(put(went, n)) for n in range(1, 8))
    kit.states = (state(extract(0), to=select), *others)
    return kit, [went]


def went(kit: Kit, slots: list[int], *keys: int) -> int:
    return kit.parse(bytes(keys)).frame[slots[0]]


def test_select_takes_the_first_that_matches() -> None:
    kit, slots = select_kit(
        ir.SelectCase((exact(5, 8),), 1),
        ir.SelectCase((ir.MatchMask(const(0xFF, 8), const(0xF0, 8)),), 2),
        ir.SelectCase((ir.MatchRange(const(4, 8), const(6, 8)),), 3),
        ir.SelectCase((ir.MatchRange(const(0x80, 8), const(2, 8), signed=True),), 4),
    )
    for key, expected in ((5, 1), (0xF3, 2), (4, 3), (6, 3), (7, 0), (0x90, 4), (2, 4), (3, 0)):
        assert went(kit, slots, key) == expected
    context = kit.parse(b"\x07")
    assert kit.error_of(context) == "NoError"  # no match rejects without an error
    assert context.payload_offset == 1


def test_select_by_value_with_default() -> None:
    kit, slots = select_kit(
        *(ir.SelectCase((exact(v, 8),), n) for v, n in ((1, 1), (2, 2), (3, 3), (2, 4))),
        ir.SelectCase((ir.MatchAny(),), 5),
    )
    assert [went(kit, slots, key) for key in (1, 2, 3, 4)] == [1, 2, 3, 5]


def test_select_on_several_operands_and_value_sets() -> None:
    kit, slots = select_kit(
        ir.SelectCase((exact(1, 8), ir.MatchAny()), 1),
        ir.SelectCase((ir.MatchSet(0),), 2),
        ir.SelectCase((ir.MatchAny(), exact(9, 8)), 3),
        operands=2,
    )
    kit.value_sets = [FakeValueSet({(2, 3), (4, 9)})]
    for keys, expected in (((1, 7), 1), ((2, 3), 2), ((2, 9), 3), ((4, 9), 2), ((2, 4), 0)):
        assert went(kit, slots, *keys) == expected


def test_masks_known_only_at_run_time() -> None:
    kit = Kit()
    header = kit.header("h", ("k", 8), ("v", 8), ("m", 8))
    went_slot = kit.slot("went", 8)
    k, v, m = (load(f.slot, 8) for f in header.fields)
    select = ir.Select((k,), (ir.SelectCase((ir.MatchMask(v, m),), 1),))
    kit.states = (state(extract(0), to=select), state(put(went_slot, 1)))
    assert kit.parse(bytes([0x15, 0x25, 0x0F])).frame[went_slot] == 1
    assert kit.parse(bytes([0x15, 0x24, 0x0F])).frame[went_slot] == 0


def test_a_loop_without_reading_times_out() -> None:
    kit = Kit()
    turns = kit.slot("turns", 16)
    count = ir.Assign(
        target=ir.SlotRef(turns, 16), value=ir.Binary(16, BinOp.ADD, load(turns, 16), const(1, 16))
    )
    context = kit.parse(b"\x01\x02", state(count, to=0))
    assert kit.error_of(context) == "ParserTimeout"
    assert context.frame[turns] == 4096 + 16


def test_subparser_rejects_its_caller_after_copy_out() -> None:
    kit = Kit()
    kit.header("h", ("x", 32))
    copied, after = kit.slot("copied", 8), kit.slot("after", 8)
    sub = kit.proc(kind="parser", states=[state(extract(0))])
    call = ir.Call(proc=sub, copy_out=(put(copied, 1),))
    context = kit.parse(b"\x01", state(call, put(after, 1)))
    assert (context.frame[copied], context.frame[after]) == (1, 0)
    assert kit.error_of(context) == "PacketTooShort"
    context = kit.parse(b"\x01\x02\x03\x04", state(call, put(after, 1)))
    assert (context.frame[copied], context.frame[after]) == (1, 1)


def test_headers_that_are_not_whole_bytes() -> None:
    kit = Kit()
    first = kit.header("a", ("x", 3), ("y", 6))
    second = kit.header("b", ("z", 12))
    kit.states = (state(extract(0), extract(1)),)
    kit.blocks["deparser"] = (ir.Emit(header=0), ir.Emit(header=1))
    engine = kit.engine()
    data = bytes.fromhex("b5a5f8") + b"!"  # 101 101011 010010111111 000
    context = engine.new_context(data, 0)
    engine.parse(context)
    assert values(context, first) == [1, 0b101, 0b101011]
    assert values(context, second) == [1, 0b010010111111]
    assert context.payload_offset == 3
    assert engine.deparse(context) == data


def test_deparse_runs_checksums_first_and_leaves_out_invalid_headers() -> None:
    kit = Kit()
    header = kit.header("h", ("x", 8), ("y", 24))
    kit.header("off", ("x", 8))
    kit.states = (state(extract(0)),)
    kit.blocks["compute_checksum"] = (put(header.fields[1].slot, 0xABCDEF, 24),)
    kit.blocks["deparser"] = (ir.Emit(header=1), ir.Emit(header=0), ir.Emit(header=0))
    engine = kit.engine()
    context = engine.new_context(b"\x01\0\0\0payload", 0)
    context.trace = Recorder()
    engine.parse(context)
    assert engine.deparse(context) == b"\x01\xab\xcd\xef\x01\xab\xcd\xefpayload"
    assert context.trace.events == [
        ("enter", "parser"),
        ("state", "s"),
        ("extract", "h", {"x": 1, "y": 0}),
        ("enter", "compute_checksum"),
        ("assign", "h.y", 0xABCDEF),
        ("enter", "deparser"),
        ("emit", "h"),
        ("emit", "h"),
    ]


def a_whole_parser() -> Kit:
    """Ethernet, VLAN stack, IPv4 with options, a skip by a field, an unaligned tail."""
    kit = Kit()
    ethernet = kit.header("eth", ("dst", 48), ("src", 48), ("type", 16))
    kit.header("ip", *IPV4[:2], ("rest", 24), ("options", -64))
    vlan = kit.stack("vlan", 2, ("tci", 16), ("type", 16))
    ihl = kit.headers[1].fields[1].slot
    bits = ir.Binary(32, BinOp.SHL, ir.Extend(32, load(ihl, 4), signed=False), const(2, 8))
    types = (
        ir.SelectCase((exact(0x8100, 16),), 1),
        ir.SelectCase((exact(0x0800, 16),), 2),
        ir.SelectCase((ir.MatchMask(const(0x86DD, 16), const(0xFF00, 16)),), 3),
    )
    kit.states = (
        state(extract(0), to=ir.Select((load(ethernet.fields[2].slot, 16),), types)),
        state(
            ir.ExtractNext(array=vlan),
            to=ir.Select((ir.LoadElement(16, vlan, 2, last(kit, vlan)),), types),
        ),
        state(extract(1, bits)),
        state(
            ir.Advance(bits=ir.Extend(32, load(ethernet.fields[2].slot, 16), signed=False)), to=3
        ),
    )
    kit.blocks["deparser"] = tuple(ir.Emit(header=h) for h in (0, 2, 3, 1))
    return kit


ENGINE = a_whole_parser().engine()


@settings(max_examples=300, deadline=None)
@given(
    st.binary(max_size=80),
    st.sampled_from(["", "8100", "0800", "86dd"]),
    st.sampled_from([b"", bytes.fromhex("00018100"), bytes.fromhex("000108004f")]),
)
def test_any_bytes(data: bytes, ether_type: str, more: bytes) -> None:
    packet = bytes(12) + bytes.fromhex(ether_type) + more + data if ether_type else data
    context = ENGINE.new_context(packet, 0)
    ENGINE.parse(context)
    assert 0 <= context.payload_offset <= len(packet)
    for slot, number in zip(ENGINE.program.slots, context.frame, strict=True):
        assert 0 <= number < 1 << slot.width, slot.name
    skips = context.frame[ENGINE.program.headers[0].fields[2].slot] >> 8 == 0x86
    if not skips:
        assert ENGINE.deparse(context) == packet
