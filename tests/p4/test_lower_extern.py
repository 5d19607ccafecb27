"""v1model's externs: which operands, slots and field lists each call becomes."""

from __future__ import annotations

import pytest
from lower_kit import build, results

from sglb.p4 import CompiledProgram, P4Errors, ir


def externs(program: CompiledProgram, proc: int) -> list[ir.Extern]:
    return [s for s in program.ir.procs[proc].body if isinstance(s, ir.Extern)]


def ingress_extern(code: str, **parts: str) -> tuple[CompiledProgram, ir.Extern]:
    program = build(code, **parts)
    (found,) = externs(program, program.ir.ingress)
    return program, found


def slot_name(program: CompiledProgram, expr: ir.Expr) -> str:
    assert isinstance(expr, ir.Load)
    return program.ir.slots[expr.slot].name


def out_names(program: CompiledProgram, call: ir.Extern) -> list[str]:
    return [program.ir.slots[o.slot].name for o in call.outs if isinstance(o, ir.SlotRef)]


def test_hash_reads_base_and_limit_and_flattens_its_data() -> None:
    program, call = ingress_extern(
        "hash(m.m1, HashAlgorithm.crc16, 16w5, { h.i.x, { m.m0, 4w9 }, h.i.y[3:0] }, 32w100);"
    )
    assert (call.op, call.algorithm) == ("hash", "crc16")
    assert call.ins == (ir.Const(16, 5), ir.Const(32, 100))
    assert out_names(program, call) == ["m.m1"]
    x, m0, nine, y = call.data
    assert isinstance(x.value, ir.Mux)  # zeros, where h.i is invalid
    assert slot_name(program, x.value.then) == "h.i.x"
    assert slot_name(program, m0.value) == "m.m0"
    assert nine.value == ir.Const(4, 9)
    assert [f.width for f in call.data] == [8, 8, 4, 4]
    assert isinstance(y.value, ir.Mux)


def test_a_result_that_is_a_slice_is_written_through() -> None:
    code = "h.o.r0 = 0xff; hash(h.o.r0[3:0], HashAlgorithm.identity, 4w2, { h.i.x }, 4w8);"
    assert results(code, "00050000")[0] == 0xF7  # 2 + 5 % 8


def test_checksums_leave_out_fields_of_invalid_headers() -> None:
    verify = """verify_checksum(h.i.isValid(), { h.i.x, m.m0 }, h.i.y ++ h.i.z,
                                HashAlgorithm.csum16);"""
    program = build(verify=verify)
    (call,) = externs(program, program.ir.verify_checksum)
    valid = program.ir.headers[1].valid
    assert [f.valid for f in call.data] == [valid, None]
    assert call.ins[0] == ir.Load(1, valid)
    compute = "update_checksum(true, { h.i.x, h.i.y }, m.m1, HashAlgorithm.csum16);"
    program = build(compute=compute)
    (call,) = externs(program, program.ir.compute_checksum)
    assert call.ins == (ir.Const(1, 1),)
    assert out_names(program, call) == ["m.m1"]


def test_the_checksum_of_a_header_that_is_not_there_is_not_verified() -> None:
    top = "header c_h { bit<16> sum; }"
    verify = "verify_checksum(m.m0 == 1, { h.i.x }, h.c.sum, HashAlgorithm.csum16);"
    program = build(top=top, headers="c_h c;", verify=verify)
    (call,) = externs(program, program.ir.verify_checksum)
    header = next(h for h in program.ir.headers if h.name == "h.c")
    condition = call.ins[0]
    assert isinstance(condition, ir.Binary)
    assert (condition.op, condition.right) == (ir.BinOp.LAND, ir.Load(1, header.valid))


def test_registers_of_structures_have_a_value_a_leaf() -> None:
    top = "struct s_t { bit<8> a; bit<16> b; }"
    code = "s_t s = { 3, 0x1234 }; r.write(1, s); s_t q; r.read(q, 1); h.o.r0 = q.a; h.o.r1 = q.b[7:0];"
    parts = {"top": top, "locals": "register<s_t>(4) r;"}
    assert results(code, **parts)[:2] == [3, 0x34]
    (instance,) = build(code, **parts).ir.instances
    assert (instance.elements, instance.size) == ((8, 16), 4)


def test_a_register_read_into_an_element_at_a_run_time_index() -> None:
    top = "header e_h { bit<8> v; }"
    code = """
    h.s[0].setValid(); h.s[1].setValid(); r.write(0, 7); r.read(h.s[h.i.x].v, 0);
    h.o.r0 = h.s[0].v; h.o.r1 = h.s[1].v;
    """
    parts = {"top": top, "headers": "e_h[2] s;", "locals": "register<bit<8>>(1) r;"}
    assert results(code, "00010000", **parts)[:2] == [0, 7]


def test_marking_a_copy_of_the_standard_metadata_leaves_the_real_one() -> None:
    code = "standard_metadata_t copy = sm; mark_to_drop(copy); h.o.r0 = copy.egress_spec[7:0];"
    assert results(code)[0] == 0xFF
    before = "control Drop(inout standard_metadata_t s) { apply { mark_to_drop(s); } }"
    assert build("Drop.apply(sm);", before=before)
    program, call = ingress_extern("mark_to_drop(sm);")
    assert out_names(program, call) == ["sm.egress_spec", "sm.mcast_grp"]
    program, call = ingress_extern("mark_to_drop();")
    assert out_names(program, call) == ["sm.egress_spec", "sm.mcast_grp"]


@pytest.mark.parametrize(
    ("call", "op", "ins", "number"),
    [
        ("clone(CloneType.I2E, 5);", "clone", (0, 5), 0),
        (
            "clone_preserving_field_list(CloneType.I2E, 5, 3);",
            "clone_preserving_field_list",
            (0, 5),
            3,
        ),
        ("resubmit_preserving_field_list(2);", "resubmit_preserving_field_list", (), 2),
        ("truncate(64);", "truncate", (64,), 0),
        ("assert(true);", "assert", (1,), 0),
        ("random(m.m0, 8w1, 8w6);", "random", (1, 6), 0),
    ],
)
def test_operands(call: str, op: str, ins: tuple[int, ...], number: int) -> None:
    _, found = ingress_extern(call)
    values = tuple(i.value for i in found.ins if isinstance(i, ir.Const))
    assert (found.op, values, found.number) == (op, ins, number)


def test_old_forms_preserve_the_slots_they_name() -> None:
    program, call = ingress_extern("clone3(CloneType.I2E, 7, { m.m0, sm, 8w1 });")
    names = [program.ir.slots[s].name for s in call.preserved]
    assert names[:3] == ["m.m0", "sm.ingress_port", "sm.egress_spec"]
    assert len(names) == 1 + len(program.ir.standard_metadata)
    _, call = ingress_extern("resubmit(m);")
    assert len(call.preserved) == 2


def test_log_messages_keep_their_text() -> None:
    _, call = ingress_extern('log_msg("x is {}", { h.i.x });')
    assert (call.text, len(call.data)) == ("x is {}", 1)
    _, call = ingress_extern('log_msg("plain");')
    assert (call.text, call.data) == ("plain", ())


def test_counters_and_meters() -> None:
    locals_ = "counter(8, CounterType.packets_and_bytes) c; meter(2, MeterType.bytes) q;"
    program = build("c.count(3); q.execute_meter(1, h.o.r0);", locals=locals_)
    count, meter = externs(program, program.ir.ingress)
    assert (count.op, count.instance, count.ins) == ("counter.count", 0, (ir.Const(32, 3),))
    assert (meter.op, meter.instance, meter.ins) == ("meter.execute_meter", 1, (ir.Const(32, 1),))
    assert out_names(program, meter) == ["h.o.r0"]
    assert [(i.size, i.counts) for i in program.ir.instances] == [(8, "both"), (2, "bytes")]


def test_a_constant_without_a_width_cannot_be_hashed() -> None:
    with pytest.raises(P4Errors, match=r"error: [^\n]*width"):
        build("hash(m.m1, HashAlgorithm.crc16, 16w0, { h.i.x, 5 }, 16w9);")


def test_the_old_checksum_extern() -> None:
    code = "bit<16> c = ck.get({ h.i.x, h.i.y }); h.o.r0 = c[15:8]; h.o.r1 = c[7:0];"
    assert results(code, "00123400", locals="Checksum16() ck;")[:2] == [0xED, 0xCB]
