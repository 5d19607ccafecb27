"""Runs small P4 programs on the real switch, so that lowering is judged by what comes out.

A program gets header `h.i` (op, x, y, z: 8 bits each) from the packet and writes results to the fields
r0..r7 of `h.o`, which leaves first.
"""

from __future__ import annotations

from sglb import p4
from sglb.p4 import CompiledProgram
from sglb.p4.random_stream import RandomStream
from sglb.switch.clock import VirtualClock
from sglb.switch.config import SwitchConfig
from sglb.switch.switch import Switch

TEMPLATE = """
#include <core.p4>
#include <v1model.p4>
header in_h {{ bit<8> op; bit<8> x; bit<8> y; bit<8> z; }}
header out_h {{ bit<8> r0; bit<8> r1; bit<8> r2; bit<8> r3;
               bit<8> r4; bit<8> r5; bit<8> r6; bit<8> r7; }}
{top}
struct headers_t {{ out_h o; in_h i; {headers} }}
struct meta_t {{ bit<8> m0; bit<16> m1; {meta} }}
{before}
parser P(packet_in pkt, out headers_t h, inout meta_t m, inout standard_metadata_t sm) {{
    {parser}
}}
control V(inout headers_t h, inout meta_t m) {{ apply {{ {verify} }} }}
control I(inout headers_t h, inout meta_t m, inout standard_metadata_t sm) {{
    {locals}
    apply {{ h.o.setValid(); sm.egress_spec = 1; {apply} }}
}}
control E(inout headers_t h, inout meta_t m, inout standard_metadata_t sm) {{ apply {{ {egress} }} }}
control C(inout headers_t h, inout meta_t m) {{ apply {{ {compute} }} }}
control D(packet_out pkt, in headers_t h) {{ apply {{ {deparser} }} }}
V1Switch(P(), V(), I(), E(), C(), D()) main;
"""

START = "state start { pkt.extract(h.i); transition accept; }"


def text(apply: str = "", **parts: str) -> str:
    """A program around the statements of ingress.

    `top` stands before the headers and metadata, `before` after them; `locals` are ingress's.
    """
    defaults = {
        "top": "",
        "headers": "",
        "meta": "",
        "before": "",
        "parser": START,
        "verify": "",
        "locals": "",
        "egress": "",
        "compute": "",
        "deparser": "pkt.emit(h.o);",
    }
    return TEMPLATE.format(**(defaults | parts), apply=apply)


def build(apply: str = "", **parts: str) -> CompiledProgram:
    """The same, compiled."""
    return p4.compile(text(apply, **parts))


def run(apply: str = "", packet: str = "00000000", **parts: str) -> str:
    """The frame that leaves on port 1, as hex; "" when none does."""
    return send(build(apply, **parts), packet)


def send(program: CompiledProgram, packet: str) -> str:
    """What a compiled program makes of a packet."""
    clock = VirtualClock()
    switch = Switch(program, SwitchConfig(), clock, rng=RandomStream(1))
    out: list[bytes] = []
    for port in range(3):
        switch.add_port(port, None)
    switch.on_transmit = lambda port, data, start, end: out.append(data)
    switch.receive(0, bytes.fromhex(packet))
    clock.run()
    assert len(out) <= 1
    return out[0].hex() if out else ""


def results(apply: str = "", packet: str = "00000000", **parts: str) -> list[int]:
    """r0..r7 as numbers."""
    return list(bytes.fromhex(run(apply, packet, **parts))[:8])
