"""The IR as text."""

from __future__ import annotations

from pathlib import Path

from lower_kit import build

from sglb import p4
from sglb.p4.print_ir import print_ir

ORACLE = Path(__file__).parents[1] / "oracle"


def test_statements_read_like_what_they_do() -> None:
    program = build(
        "if (h.i.x > 3) { t.apply(); } else { h.o.r0[3:0] = 4w1; exit; }",
        locals="""action set(bit<8> v) { h.o.r1 = v; }
        table t { key = { h.i.y : ternary; } actions = { set; NoAction; }
                  const entries = { 0x10 &&& 0xf0 : set(5); } }""",
    )
    lines = print_ir(program.ir).splitlines()
    code = lines[lines.index("control 2 I (ingress)") + 1 : lines.index("control 3 E (egress)")]
    assert code == [
        "  validate h.o",
        "  sm.egress_spec#17 = 9w0x1",
        "  if (8w0x3 < h.i.x#11)",
        "    apply I.t",
        "  else",
        "    h.o.r0#1 = ((h.o.r0#1 & 8w0xf0) | 8w0x1)",
        "    exit",
    ]
    table = lines[lines.index("table I.t size 1024") :][:5]
    assert table == [
        "table I.t size 1024",
        "  key h.i.y = (h.i.$valid$#9 ? h.i.y#12 : 8w0x0) : ternary",
        "  action 0 I.set(I.set.v#32)",
        "  action 1 NoAction() (default)",
        "  entry (0x10&0xf0) -> I.set(5) priority 1",
    ]


def test_every_recorded_program_prints_and_prints_the_same_twice() -> None:
    for name in ("11-clone-i2e", "34-stack-index", "37-select-forms", "38-subparser-lookahead"):
        path = ORACLE / name / "program.p4"
        text = print_ir(p4.compile(path).ir)
        assert text == print_ir(p4.compile(path).ir)
        assert "(parser)" in text
