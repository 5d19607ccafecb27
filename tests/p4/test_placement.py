"""Packet functions in the wrong control are refused, by every way that leads to them."""

from __future__ import annotations

import pytest

from sglb.p4.compiler import compile as compile_p4
from sglb.p4.source import P4Errors

PROGRAM = """
#include <core.p4>
#include <v1model.p4>
header h_t { bit<8> x; }
struct headers_t { h_t h; }
struct meta_t { @field_list(1) bit<8> a; }
parser P(packet_in pkt, out headers_t h, inout meta_t m, inout standard_metadata_t sm) {
    state start { pkt.extract(h.h); transition accept; }
}
control VC(inout headers_t h, inout meta_t m) { apply { } }
control Inner(inout headers_t h) { apply { %(inner)s } }
control I(inout headers_t h, inout meta_t m, inout standard_metadata_t sm) {
    Inner() inner;
    action act() { %(action)s }
    table t { key = { h.h.x : exact; } actions = { act; } }
    apply { %(ingress)s if (h.h.x == 1) { inner.apply(h); } t.apply(); }
}
control E(inout headers_t h, inout meta_t m, inout standard_metadata_t sm) { apply { %(egress)s } }
control CC(inout headers_t h, inout meta_t m) { apply { } }
control D(packet_out pkt, in headers_t h) { apply { pkt.emit(h); } }
V1Switch(P(), VC(), I(), E(), CC(), D()) main;
"""


def build(**places: str) -> None:
    blank = {"inner": "", "action": "", "ingress": "", "egress": ""}
    compile_p4(PROGRAM % {**blank, **places})


@pytest.mark.parametrize("place", ["ingress", "inner", "action"])
@pytest.mark.parametrize(
    ("call", "text"),
    [
        ("recirculate_preserving_field_list(1);", "recirculate can only be called in the egress"),
        ("clone(CloneType.E2E, 5);", r"clone\(E2E\) can only be called in the egress"),
    ],
)
def test_egress_functions_in_ingress(place: str, call: str, text: str) -> None:
    with pytest.raises(P4Errors, match=text) as caught:
        build(**{place: call})
    assert "hint: " in str(caught.value)
    assert call.rstrip(";") in str(caught.value)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        ("resubmit_preserving_field_list(1);", "resubmit can only be called in the ingress"),
        ("clone_preserving_field_list(CloneType.I2E, 5, 1);", r"clone\(I2E\) can only be"),
    ],
)
def test_ingress_functions_in_egress(call: str, text: str) -> None:
    with pytest.raises(P4Errors, match=text):
        build(egress=call)


def test_each_in_its_place_is_fine() -> None:
    build(
        ingress="resubmit_preserving_field_list(1); clone(CloneType.I2E, 1);",
        action="clone_preserving_field_list(CloneType.I2E, 5, 1);",
        egress="recirculate_preserving_field_list(1); clone(CloneType.E2E, 1);",
    )
