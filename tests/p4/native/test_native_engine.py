"""The engine protocol on rows: frames, requests, packets with a trace."""

from __future__ import annotations

import numpy as np
import pytest
from interp_kit import Recorder
from native_run_kit import machine_of
from native_twins_kit import TESTS, compiled

from sglb.p4.compiler import compile as compile_p4
from sglb.p4.interp import Interpreter
from sglb.p4.native.engine import NativeEngine
from sglb.p4.native.program import compile_native
from sglb.p4.random_stream import RandomStream
from sglb.p4.runtime import PipelineState, Request

PROGRAM = """
#include <core.p4>
#include <v1model.p4>
header h_t { bit<8> a; bit<8> b; }
struct headers_t { h_t h; }
struct meta_t { @field_list(3) bit<8> kept; bit<8> lost; }
parser P(packet_in pkt, out headers_t hdr, inout meta_t meta, inout standard_metadata_t sm) {
  state start { pkt.extract(hdr.h); transition accept; }
}
control V(inout headers_t hdr, inout meta_t meta) { apply { } }
control I(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t sm) {
  apply {
    bit<8> sum = hdr.h.a + hdr.h.b;
    meta.kept = sum + sum;
    clone_preserving_field_list(CloneType.I2E, 0x18007, 3);
    resubmit_preserving_field_list(3);
    truncate(40);
    truncate(20);
    truncate(30);
  }
}
control E(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t sm) {
  apply { clone(CloneType.E2E, 5); recirculate_preserving_field_list(3); hdr.h.a = meta.kept; }
}
control C(inout headers_t hdr, inout meta_t meta) { apply { } }
control D(packet_out pkt, in headers_t hdr) { apply { pkt.emit(hdr.h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
"""


@pytest.fixture(scope="module")
def engine() -> NativeEngine:
    program = compile_p4(PROGRAM).ir
    reference = Interpreter(program, PipelineState((), (), ()), RandomStream(1))
    native = compile_native(program)
    return NativeEngine(native, machine_of(native), reference)


@pytest.mark.parametrize("traced", [False, True])
def test_a_packet_through_all_blocks(engine: NativeEngine, traced: bool) -> None:
    context = engine.new_context(b"\x05\x06rest", 0)
    recorder = Recorder()
    if traced:
        context.trace = recorder
    engine.parse(context)
    engine.verify_checksum(context)
    engine.ingress(context)
    (kept,) = engine.program.field_lists[3]
    assert context.frame[kept] == 22
    asked = [context.clone, context.resubmit]
    slots = [engine.program.field_lists.get(r.field_list, ()) or r.slots for r in asked]
    assert slots == [(kept,), (kept,)]
    assert context.clone.session == 7  # 15 bits of it
    assert (context.truncate_bytes, context.clone_egress, context.recirculate) == (20, None, None)
    context.clone = context.resubmit = None
    engine.egress(context)
    assert (context.clone, context.resubmit) == (None, None)
    assert context.clone_egress == Request(5)
    assert context.recirculate is not None
    assert engine.deparse(context) == b"\x16\x06rest"
    assert bool(recorder.events) is traced


def test_a_slot_of_one_block_is_in_no_row(engine: NativeEngine) -> None:
    context = engine.new_context(b"", 0)
    names = [slot.name for slot in engine.program.slots]
    own = next(i for i, name in enumerate(names) if name.endswith(".sum"))
    with pytest.raises(LookupError, match="belongs to one block"):
        context.frame[own] = 1
    assert len(context.frame) == len(names)


def test_a_copied_frame_is_one_of_its_own(engine: NativeEngine) -> None:
    frame = engine.new_context(b"", 0).frame
    slot = engine.program.standard_metadata["packet_length"]
    frame[slot] = 7
    twin = frame.copy()
    twin[slot] = 8
    assert (frame[slot], twin[slot]) == (7, 8)


def test_a_machine_has_a_word_for_everything(engine: NativeEngine) -> None:
    with pytest.raises(ValueError, match="machine has 9 words, not 3"):
        NativeEngine(engine.native, np.zeros(3, dtype=np.int64))


def test_the_switches_of_a_fabric_share_code() -> None:
    program = compiled(TESTS / "programs" / "router.p4").ir
    assert compile_native(program) is compile_native(program)
