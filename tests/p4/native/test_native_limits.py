"""Where native code stops: rows that are too short, buffers that are full, packets given up."""

from __future__ import annotations

import binascii

import numpy as np
import pytest
from native_rows_kit import Row
from native_run_kit import machine_of
from native_twins_kit import ENGINES, Twin

from sglb.p4.compiler import CompiledProgram
from sglb.p4.compiler import compile as compile_p4
from sglb.p4.native import abi
from sglb.p4.native.engine import read_digests
from sglb.p4.native.program import NativeProgram, compile_native
from sglb.switch.ports import DropReason

PROGRAM = """
#include <core.p4>
#include <v1model.p4>
header tag_t {{ bit<8> more; bit<8> value; }}
struct headers_t {{ tag_t first; tag_t[4] tags; }}
struct meta_t {{ bit<8> a; bit<8> b; }}
struct note_t {{ bit<70> wide; bit<8> small; }}
parser P(packet_in pkt, out headers_t hdr, inout meta_t meta, inout standard_metadata_t sm) {{
  {states}
}}
control V(inout headers_t hdr, inout meta_t meta) {{ apply {{ }} }}
control I(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t sm) {{
  apply {{ sm.egress_spec = 1; {ingress} }}
}}
control E(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t sm) {{ apply {{ }} }}
control C(inout headers_t hdr, inout meta_t meta) {{ apply {{ {compute} }} }}
control D(packet_out pkt, in headers_t hdr) {{ apply {{ pkt.emit(hdr.first); {emits} }} }}
V1Switch(P(), V(), I(), E(), C(), D()) main;
"""
FIRST = "state start { pkt.extract(hdr.first); transition accept; }"
TAGS = (
    "state start { pkt.extract(hdr.tags.next);"
    " transition select(hdr.tags.last.more) { 0: accept; default: start; } }"
)


def program(
    states: str = FIRST, ingress: str = "", compute: str = "", emits: str = ""
) -> CompiledProgram:
    text = PROGRAM.format(states=states, ingress=ingress, compute=compute, emits=emits)
    return compile_p4(text)


def native(**parts: str) -> NativeProgram:
    return compile_native(program(**parts).ir)


def run(code: NativeProgram, name: str, row: Row, machine: np.ndarray | None = None) -> int:
    machine = machine_of(code) if machine is None else machine
    code.functions[name](machine.ctypes.data, row.address)
    return row.get("STATUS")


# --- rows ---------------------------------------------------------------------------------------


def test_how_far_a_parser_looks() -> None:
    assert native().max_parse_bytes == 2
    looking = FIRST.replace("transition", "meta.a = pkt.lookahead<bit<20>>()[7:0]; transition")
    assert native(states=looking).max_parse_bytes == 5  # 16 + 20 bits
    assert native(states=TAGS).max_parse_bytes is None


def test_a_parser_that_looks_beyond_the_stored_bytes_says_so() -> None:
    code = native(states=TAGS, emits="pkt.emit(hdr.tags);")
    row = Row(code)
    data = bytes([1, 2, 1, 3, 0, 4, 9, 9])
    row.put(data[:4], len(data), 0, FLAGS=0)
    assert run(code, "p4_ingress_pass", row) == abi.STATUS_SHORT_ROW
    row.put(data[:6], len(data), 0)
    assert run(code, "p4_ingress_pass", row) == abi.STATUS_OK
    assert row.get("PAYLOAD_OFFSET") == row.get("PARSED_BYTES") == 6
    row.put(data[:4], 4, 0)  # it ends there: the parser's error, not the row's
    assert run(code, "p4_parse", row) == abi.STATUS_OK
    assert code.ir.errors[row.slot(code.ir.standard_metadata["parser_error"])] == "PacketTooShort"


def test_what_a_pass_sets_before_its_program() -> None:
    names = ("ingress_port", "ingress_global_timestamp", "packet_length", "instance_type")
    code = native(ingress=" ".join(_show(i, name) for i, name in enumerate(names)))
    row = Row(code)
    found = {}
    for flags in (0, abi.FLAG_KEEP_FRAME):
        row.put(b"", 0, 5_000_000, INGRESS_PORT=3, PACKET_LENGTH=60, INSTANCE_TYPE=6, FLAGS=flags)
        assert run(code, "p4_ingress_pass", row) == abi.STATUS_OK
        found[flags] = [_shown(row, i) for i in range(4)]
    assert found == {0: [3, 5, 60, 6], abi.FLAG_KEEP_FRAME: [0, 0, 60, 6]}


def test_metadata_of_one_pass_is_unknown_to_the_next_packet() -> None:
    """Metadata that only ingress knows is in no frame, and zero when the next packet comes."""
    code = native(ingress="hdr.tags[0].value = meta.a; meta.a = 7;")
    row = Row(code)
    for _ in range(2):
        row.put(b"", 0, 0, FLAGS=0)
        assert run(code, "p4_ingress_pass", row) == abi.STATUS_OK
        assert _shown(row, 0) == 0
    assert not code.outlives_a_pass(_slot(code, "meta.a"))


def _show(tag: int, name: str) -> str:
    """Lets ingress write standard metadata where a frame keeps it."""
    return f"hdr.tags[{tag}].value = (bit<8>) sm.{name};"


def _shown(row: Row, tag: int) -> int:
    return row.slot(_slot(row.native, f"hdr.tags[{tag}].value"))


def _slot(code: NativeProgram, name: str) -> int:
    return next(i for i, slot in enumerate(code.ir.slots) if slot.name == name)


def test_a_stored_head_is_enough_where_the_parsers_reach_is_known() -> None:
    code = native(emits="pkt.emit(hdr.tags);")
    row = Row(code)
    row.put(b"\x05\x06", 1500, 0, FLAGS=0)
    assert run(code, "p4_ingress_pass", row) == 0
    row.ints[abi.EGRESS_PORT] = row.get("EGRESS_SPEC")
    assert run(code, "p4_egress_pass", row) == 0
    assert row.out() == b"\x05\x06"


# --- digests --------------------------------------------------------------------------------------

DIGESTS = (
    "digest<note_t>(1, {70w0x2A_0123456789ABCDEF, hdr.first.value});"
    " digest<note_t>(1, {70w1, 8w2}); assert(hdr.first.more == 0);"
)


def test_digests_lie_in_the_machines_buffer() -> None:
    code = native(ingress=DIGESTS)
    machine, row, buffer = machine_of(code), Row(code), np.zeros(10, dtype=np.int64)
    machine[abi.DIGEST_BUFFER] = buffer.ctypes.data
    machine[abi.DIGEST_CAPACITY] = len(buffer)
    row.put(b"\x00\x07", 2, 0, FLAGS=0)
    assert run(code, "p4_ingress_pass", row, machine) == 0
    # An instance, the number of words, then two words of 70 bits and one of 8.
    used = int(machine[abi.DIGEST_USED])
    assert (used, row.get("DIGESTS"), machine[abi.DIGEST_LOST]) == (10, 2, 0)
    words = [int(word) for word in buffer[:used]]
    assert words[1:5] == [3, 0x0123456789ABCDEF, 0x2A, 7]
    values = [values for _, values in read_digests(code, words)]
    assert values == [(0x2A_0123456789ABCDEF, 7), (1, 2)]
    assert run(code, "p4_ingress_pass", row, machine) == 0  # nobody took them
    assert (machine[abi.DIGEST_USED], machine[abi.DIGEST_LOST]) == (10, 2)
    assert row.get("DIGESTS") == 0


def test_a_packet_that_is_given_up_takes_its_digests_back() -> None:
    code = native(ingress=DIGESTS)
    machine, row, buffer = machine_of(code), Row(code), np.zeros(64, dtype=np.int64)
    machine[abi.DIGEST_BUFFER] = buffer.ctypes.data
    machine[abi.DIGEST_CAPACITY], machine[abi.DIGEST_USED] = len(buffer), 5
    row.put(b"\x01\x07", 2, 0, FLAGS=0)
    status = run(code, "p4_ingress_pass", row, machine)
    assert machine[abi.DIGEST_USED] == 5
    message, span = code.failures[status]
    assert message == "assert() does not hold"
    line = PROGRAM.splitlines().index(next(x for x in PROGRAM.splitlines() if "{ingress}" in x)) + 1
    assert span.line == line


# --- packets given up -----------------------------------------------------------------------------


def test_a_loop_without_an_end_gives_the_packet_up() -> None:
    loop = "meta.a = 1; for (bit<8> i = 0; meta.a == 1; i = i + 1) { meta.b = meta.b + i; }"
    code = native(ingress=loop)
    row = Row(code)
    row.put(b"\x01\x07", 2, 0, FLAGS=0)
    status = run(code, "p4_ingress_pass", row)
    assert code.failures[status][0] == "a loop ran 1048576 rounds without an end"


def test_a_deparser_that_loops_is_held_to_its_room() -> None:
    emits = "for (bit<16> i = 0; i < {}; i = i + 1) {{ pkt.emit(hdr.first); }}"
    few, many = (native(emits=emits.format(rounds)) for rounds in (1000, 4000))
    for code, wanted in ((few, 0), (many, 1)):
        row = Row(code)
        row.put(b"\x05\x06", 2, 0, FLAGS=0)
        assert run(code, "p4_ingress_pass", row) == 0
        assert (run(code, "p4_egress_pass", row) > 0) == wanted
        if not wanted:
            assert row.out() == b"\x05\x06" * 1001
        else:
            assert "of headers" in code.failures[row.get("STATUS")][0]


@pytest.mark.parametrize("size", [100, (1 << 18) + 2])
def test_checksums_run_over_no_more_payload_than_they_may(size: int) -> None:
    compute = (
        "update_checksum_with_payload(true, {hdr.first.more}, hdr.first.value,"
        " HashAlgorithm.crc32);"
    )
    code = native(compute=compute)
    row = Row(code)
    row.put(b"\x05\x06\x07", size, 0, FLAGS=0)
    assert run(code, "p4_ingress_pass", row) == 0
    status = run(code, "p4_egress_pass", row)
    if size == 100:
        assert status == 0
        assert row.out()[1] == binascii.crc32(b"\x05\x07" + bytes(97)) & 0xFF
    else:
        assert "a checksum over more than" in code.failures[status][0]


def test_a_failed_packet_is_dropped_alike_by_both_engines() -> None:
    compiled = program(ingress="assume(hdr.first.more == 0);")
    for engine in ENGINES:
        twin = Twin(compiled, engine, "")
        (drop,) = twin.feed(1, b"\x01\x02")
        assert drop.reason is DropReason.ASSERTION
        assert twin.feed(1, b"\x00\x02")[0][1] == b"\x00\x02"
