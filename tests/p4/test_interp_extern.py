"""v1model's externs with BMv2's answers."""

from __future__ import annotations

import logging

import pytest
from interp_kit import FakeCounter, FakeMeter, FakeRegister, Kit, Recorder, const, load, put

from sglb.p4 import ir
from sglb.p4.interp import Interpreter
from sglb.p4.ir import InstanceKind
from sglb.p4.random_stream import RandomStream
from sglb.p4.runtime import ExternFailure, PipelineState, Request


def data(*fields: tuple[int, int], length: int | None = None) -> tuple[ir.DataField, ...]:
    made = tuple(ir.DataField(const(value, width), width) for value, width in fields)
    if length is not None:
        made += (ir.DataField(const(0xABCD >> (16 - length), 32), 32, length=const(length, 32)),)
    return made


def out(kit: Kit, width: int) -> ir.SlotRef:
    return ir.SlotRef(kit.slot("out", width), width)


def hash_of(
    fields: tuple[ir.DataField, ...],
    algorithm: str,
    width: int = 32,
    base: ir.Expr | None = None,
    maximum: ir.Expr | None = None,
) -> int:
    kit = Kit()
    result = out(kit, width)
    call = ir.Extern(
        op="hash",
        ins=(base or const(0, 32), maximum or const(1 << 32, 33)),
        outs=(result,),
        data=fields,
        algorithm=algorithm,
    )
    return kit.run(call).frame[result.slot]


SEVEN = data((0xDEADBEEF, 32), (0xCAFE, 16), (0x42, 8))


@pytest.mark.parametrize(
    ("algorithm", "expected"),
    [
        ("crc16", 0x10DB),
        ("crc32", 0x6C2CBD54),
        ("csum16", 0x5563),
        ("xor16", 0xE8BC),
        ("identity", 0xEFCAFE42),
        ("crc16_custom", 0x10DB),
        ("crc32_custom", 0x6C2CBD54),
    ],
)
def test_hash_algorithms_as_bmv2(algorithm: str, expected: int) -> None:
    assert hash_of(SEVEN, algorithm) == expected


@pytest.mark.parametrize(
    ("base", "maximum", "width", "expected"),
    [
        # BMv2 on crc32 of c0a801021f90, which is 0x43f3d7f5 % 10 == 7 away from 100
        (77, 0, 32, 77),
        (77, 1, 32, 77),
        (100, 10, 32, 0x6B),
        (0x1F0, 1000, 8, 0x91),
    ],
)
def test_hash_base_and_max_as_bmv2(base: int, maximum: int, width: int, expected: int) -> None:
    fields = data((0xC0A80102, 32), (0x1F90, 16))
    for make in (
        lambda n: const(n, 32),
        lambda n: ir.Mux(32, load(0, 9), const(5, 32), const(n, 32)),
    ):
        got = hash_of(fields, "crc32", width, make(base), make(maximum))
        assert got == expected


def test_hash_input_is_packed_without_gaps() -> None:
    # 101 0 0001 1 -> a1 80
    assert hash_of(data((0b101, 3), (0, 1), (0b00011, 5)), "identity") == 0xA180
    # a varbit gives the bits it has
    assert hash_of(data((0x12, 8), length=16), "identity") == 0x12ABCD
    assert hash_of(data((0x12, 8), length=0), "identity") == 0x12
    assert hash_of((), "csum16") == 0xFFFF


def test_random_draws_from_the_given_stream() -> None:
    kit = Kit()
    first, second = out(kit, 8), out(kit, 8)

    def draw(target: ir.SlotRef, low: int, high: int) -> ir.Extern:
        return ir.Extern(op="random", ins=(const(low, 8), const(high, 8)), outs=(target,))

    kit.blocks["ingress"] = (draw(first, 10, 20), draw(second, 9, 3))
    engine = kit.engine(seed=42)
    expected = RandomStream(42)
    for _ in range(5):
        context = engine.new_context(b"", 0)
        engine.ingress(context)
        assert context.frame[first.slot] == expected.between(10, 20)
        assert context.frame[second.slot] == 9


def test_registers_in_and_out_of_range() -> None:
    kit = Kit()
    register = FakeRegister([5, 6, 7])
    number = kit.instance(InstanceKind.REGISTER, register)
    result, index = out(kit, 16), kit.slot("index", 32)
    read = ir.Extern(op="register.read", instance=number, ins=(load(index, 32),), outs=(result,))
    write = ir.Extern(op="register.write", instance=number, ins=(load(index, 32), const(99, 16)))
    context = kit.run(put(index, 1, 32), read, write)
    assert context.frame[result.slot] == 6
    assert register.values == [5, 99, 7]
    context = kit.run(put(result.slot, 44, 16), put(index, 3, 32), read, write)
    assert context.frame[result.slot] == 44  # stays unwritten
    assert register.values == [5, 99, 7]
    register.values = [1, 2, 3, 4]  # the target may replace the list
    assert kit.run(put(index, 3, 32), read).frame[result.slot] == 4


def test_struct_registers_have_a_value_per_leaf() -> None:
    kit = Kit()
    register = FakeRegister([(1, 2), (3, 4)])
    number = kit.instance(InstanceKind.REGISTER, register)
    a, b = out(kit, 8), out(kit, 16)
    kit_read = ir.Extern(op="register.read", instance=number, ins=(const(1, 32),), outs=(a, b))
    write = ir.Extern(
        op="register.write",
        instance=number,
        ins=(const(0, 32), load(b.slot, 16), load(a.slot, 8)),
    )
    context = kit.run(kit_read, write)
    assert (context.frame[a.slot], context.frame[b.slot]) == (3, 4)
    assert register.values == [(4, 3), (3, 4)]


def test_counters_and_meters() -> None:
    kit = Kit()
    counter = FakeCounter()
    counted = kit.instance(InstanceKind.COUNTER, counter)
    metered = kit.instance(InstanceKind.METER, FakeMeter(size=4))
    result = out(kit, 2)

    def meter(index: int) -> ir.Extern:
        return ir.Extern(
            op="meter.execute_meter", instance=metered, ins=(const(index, 32),), outs=(result,)
        )

    count = ir.Extern(op="counter.count", instance=counted, ins=(const(7, 32),))
    context = kit.run(count, count, meter(3), data=bytes(60))
    assert counter.counts == {7: 120}
    assert context.frame[result.slot] == 1
    context = kit.run(put(result.slot, 3, 2), meter(4))
    assert context.frame[result.slot] == 3


def test_mark_to_drop() -> None:
    kit = Kit()
    spec, group = kit.standard("egress_spec"), kit.standard("mcast_grp")
    outs = (ir.SlotRef(spec, 9), ir.SlotRef(group, 16))
    drop = ir.Extern(op="mark_to_drop", outs=outs)
    context = kit.run(put(spec, 3, 9), put(group, 4, 16), drop)
    assert (context.frame[spec], context.frame[group]) == (511, 0)


def test_requests_keep_the_last_call() -> None:
    kit = Kit()
    kit.field_lists = {2: (4, 5)}
    session = kit.slot("session", 32)
    clone = ir.Extern(
        op="clone_preserving_field_list",
        ins=(const(0, 1), load(session, 32)),
        number=2,
    )
    old = ir.Extern(op="clone3", ins=(const(1, 1), const(5, 32)), preserved=(7,))
    context = kit.run(
        put(session, 3, 32),
        clone,
        put(session, 0x1_8005, 32),
        clone,
        old,
        ir.Extern(op="resubmit_preserving_field_list", number=9),
        ir.Extern(op="recirculate"),
    )
    assert context.clone == Request(5, 2, (4, 5))  # the session's low 15 bits
    assert context.clone_egress == Request(5, None, (7,))
    assert context.resubmit == Request(0, 9, ())
    assert context.recirculate == Request(0, None, ())


def test_clone_type_known_at_run_time() -> None:
    kit = Kit()
    kind = kit.slot("kind", 1)
    clone = ir.Extern(op="clone", ins=(load(kind, 1), const(4, 32)))
    context = kit.run(clone)
    assert (context.clone, context.clone_egress) == (Request(4), None)
    context = kit.run(put(kind, 1, 1), clone)
    assert (context.clone, context.clone_egress) == (None, Request(4))


def test_the_shortest_truncate_holds() -> None:
    def cut(length: int) -> ir.Extern:
        return ir.Extern(op="truncate", ins=(const(length, 32),))

    assert Kit().run(cut(20), cut(30)).truncate_bytes == 20
    assert Kit().run(cut(30), cut(0)).truncate_bytes == 0
    assert Kit().run().truncate_bytes is None


def test_digests_in_order() -> None:
    kit = Kit()
    number = kit.instance(InstanceKind.DIGEST, None)
    call = ir.Extern(op="digest", instance=number, data=data((1, 8), (0x1234, 16)))
    other = ir.Extern(op="digest", instance=number, data=data((2, 8)))
    assert kit.run(call, other).digests == [(0, (1, 0x1234)), (0, (2,))]


@pytest.mark.parametrize("op", ["assert", "assume"])
def test_assert(op: str) -> None:
    Kit().run(ir.Extern(op=op, ins=(const(1, 1),)))
    with pytest.raises(ExternFailure, match=rf"{op}\(\) does not hold"):
        Kit().run(ir.Extern(op=op, ins=(const(0, 1),)))


def test_log_msg(caplog: pytest.LogCaptureFixture) -> None:
    fields = (
        ir.DataField(const(7, 8), 8),
        ir.DataField(const(0xFE, 8), 8, signed=True),
    )
    with caplog.at_level(logging.INFO, "sglb.p4.log_msg"):
        Kit().run(ir.Extern(op="log_msg", text="a={} b={} {}", data=fields))
    assert [r.getMessage().split(": ", 1)[1] for r in caplog.records] == ["a=7 b=-2 {}"]
    kit = Kit()
    kit.blocks["ingress"] = (ir.Extern(op="log_msg", text="plain"),)
    engine = kit.engine()
    context = engine.new_context(b"", 0)
    context.trace = Recorder()
    engine.ingress(context)
    assert ("log", "plain") in context.trace.events


# RFC 1071 over the IPv4 header of a UDP packet 192.0.2.1 -> 198.51.100.2, length 28, id 0x1a2b,
# flags DF, ttl 64: 4500+001c+1a2b+4000+4011+c000+0201+c633+6402 = 0x2cb8e -> 0xcb90 -> ~ = 0x346f
IP_WORDS = data(
    *((word, 16) for word in (0x4500, 0x1C, 0x1A2B, 0x4000, 0x4011, 0xC000, 0x201, 0xC633, 0x6402))
)


def checksum_kit(
    op: str, given: int, condition: int = 1, width: int = 16
) -> tuple[Kit, ir.SlotRef]:
    kit = Kit()
    target = out(kit, width)
    call = (
        ir.Extern(
            op=op,
            ins=(const(condition, 1), const(given, width)),
            data=IP_WORDS,
            algorithm="csum16",
        )
        if op.startswith("verify")
        else ir.Extern(
            op=op, ins=(const(condition, 1),), outs=(target,), data=IP_WORDS, algorithm="csum16"
        )
    )
    kit.blocks["verify_checksum"] = kit.blocks["compute_checksum"] = (call,)
    return kit, target


@pytest.mark.parametrize(
    ("given", "condition", "error"), [(0x346F, 1, 0), (0x3470, 1, 1), (0x3470, 0, 0)]
)
def test_verify_checksum(given: int, condition: int, error: int) -> None:
    kit, _ = checksum_kit("verify_checksum", given, condition)
    engine = kit.engine()
    context = engine.new_context(b"", 0)
    engine.verify_checksum(context)
    assert context.frame[kit.standard("checksum_error")] == error


def test_update_checksum_and_payload() -> None:
    kit, target = checksum_kit("update_checksum", 0)
    engine = kit.engine()
    context = engine.new_context(b"", 0)
    engine.deparse(context)
    assert context.frame[target.slot] == 0x346F
    kit, target = checksum_kit("update_checksum_with_payload", 0)
    kit.states = (ir.State("start", (ir.Extract(header=None, width=8),), ir.ACCEPT),)
    engine = kit.engine()
    context = engine.new_context(b"\x99\x00\x01\x02", 0)
    engine.parse(context)
    engine.deparse(context)
    # the payload 00 01 02 adds 0001 + 0200
    assert context.frame[target.slot] == 0x346F - 0x201
    kit, target = checksum_kit("update_checksum", 0, condition=0)
    engine = kit.engine()
    context = engine.new_context(b"", 0)
    engine.deparse(context)
    assert context.frame[target.slot] == 0


def test_narrow_checksum_fields_get_the_low_bits() -> None:
    kit, target = checksum_kit("update_checksum", 0, width=8)
    engine = kit.engine()
    context = engine.new_context(b"", 0)
    engine.deparse(context)
    assert context.frame[target.slot] == 0x6F


def test_direct_ones_do_nothing_by_themselves() -> None:
    kit = Kit()
    kit.instance(InstanceKind.DIRECT_COUNTER, None)
    before = kit.run().frame
    assert kit.run(ir.Extern(op="direct_counter.count", instance=0)).frame == before


@pytest.mark.parametrize(
    ("stmt", "message"),
    [
        (ir.Extern(op="explode"), "no extern 'explode'"),
        (
            ir.Extern(
                op="hash", ins=(const(0, 1), const(0, 1)), outs=(ir.SlotRef(0, 9),), algorithm="md5"
            ),
            "unknown hash algorithm 'md5'",
        ),
    ],
)
def test_unknown_names(stmt: ir.Extern, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Kit().run(stmt)


def test_interpreters_of_one_program_have_states_of_their_own() -> None:
    kit = Kit()
    number = kit.instance(InstanceKind.REGISTER, None)
    counter = kit.instance(InstanceKind.COUNTER, None)
    result = out(kit, 16)
    kit.blocks["ingress"] = (
        ir.Extern(op="register.read", instance=number, ins=(const(0, 32),), outs=(result,)),
        ir.Extern(op="counter.count", instance=counter, ins=(const(0, 32),)),
        ir.Extern(op="random", ins=(const(0, 16), const(9999, 16)), outs=(result,)),
    )
    program = kit.program()
    seen = []
    for value in (5, 6):
        states = [FakeRegister([value]), FakeCounter()]
        engine = Interpreter(program, PipelineState((), states, ()), RandomStream(value))
        context = engine.new_context(bytes(value), 0)
        engine.ingress(context)
        assert states[1].counts == {0: value}
        seen.append(context.frame[result.slot])
    assert seen == [RandomStream(5).between(0, 9999), RandomStream(6).between(0, 9999)]
    with pytest.raises(ValueError, match="no state was given for inst0"):
        Interpreter(program, PipelineState((), [None, None], ()), RandomStream(1))


def test_an_index_that_always_fits_needs_no_test() -> None:
    kit = Kit()
    register = FakeRegister([3, 4, 5, 6])
    number = kit.instance(InstanceKind.REGISTER, register, size=4)
    result, index = out(kit, 16), kit.slot("index", 2)
    wide = ir.Extend(32, load(index, 2), signed=False)
    kit.blocks["ingress"] = (
        ir.Extern(op="register.read", instance=number, ins=(wide,), outs=(result,)),
        ir.Extern(op="register.write", instance=number, ins=(wide, const(9, 16))),
    )
    engine = kit.engine()
    assert "len(" not in engine.source()
    context = engine.new_context(b"", 0)
    context.frame[index] = 3
    engine.ingress(context)
    assert context.frame[result.slot] == 6
    assert register.values == [3, 4, 5, 9]
