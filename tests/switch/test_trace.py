"""A packet's way, told to people and machines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from sglb.p4.compiler import compile as compile_p4
from sglb.p4.random_stream import RandomStream
from sglb.switch.clock import VirtualClock
from sglb.switch.config import SwitchConfig
from sglb.switch.pre import CloneSession, Replica
from sglb.switch.profiles import GroupRef
from sglb.switch.switch import Switch
from sglb.switch.trace import TraceRecorder

PROGRAM = """
#include <core.p4>
#include <v1model.p4>
header h_t { bit<8> kind; bit<8> x; }
struct headers_t { h_t h; }
struct meta_t { bit<8> a; }
parser P(packet_in pkt, out headers_t h, inout meta_t m, inout standard_metadata_t sm) {
    state start { pkt.extract(h.h); transition accept; }
}
control VC(inout headers_t h, inout meta_t m) { apply { } }
control I(inout headers_t h, inout meta_t m, inout standard_metadata_t sm) {
    action to(bit<9> port) { sm.egress_spec = port; }
    table t {
        key = { h.h.kind : exact; }
        actions = { to; NoAction; }
        const entries = { 1 : to(2); }
        default_action = to(511);
    }
    apply { t.apply(); clone(CloneType.I2E, 7); log_msg("saw {}", { h.h.x }); }
}
control E(inout headers_t h, inout meta_t m, inout standard_metadata_t sm) { apply { } }
control CC(inout headers_t h, inout meta_t m) { apply { } }
control D(packet_out pkt, in headers_t h) { apply { pkt.emit(h); } }
V1Switch(P(), VC(), I(), E(), CC(), D()) main;
"""


def traced(*frames: bytes, recorder: TraceRecorder | None = None) -> TraceRecorder:
    clock = VirtualClock()
    config = SwitchConfig(ingress_latency_ps=1000, egress_latency_ps=2000)
    program = compile_p4(PROGRAM, filename="t.p4")
    switch = Switch(program, config, clock, name="leaf1", rng=RandomStream(1))
    for number in (1, 2, 3):
        switch.add_port(number, None)
    switch.replication.insert_session(CloneSession(7, (Replica(3),)))
    switch.recorder = recorder or TraceRecorder()
    for frame in frames:
        switch.receive(1, frame)
    clock.run()
    return switch.recorder


def steps(trace: Any, *names: str) -> list[dict[str, Any]]:
    return [step for step in trace.steps if step["step"] in names]


def test_a_trace_tells_every_decision_in_order() -> None:
    original, clone = traced(bytes((1, 0x2A, 0xFF))).traces
    (extract,) = steps(original, "extract")
    assert (extract["header"], extract["fields"]) == ("h.h", {"kind": 1, "x": 0x2A})
    assert extract["at"] == f"t.p4:{PROGRAM[: PROGRAM.index('pkt.extract')].count(chr(10)) + 1}:19"
    (table,) = steps(original, "table")
    assert (table["name"], table["key"]) == ("I.t", {"h.h.kind": 1})
    assert (table["hit"], table["action"], table["args"]) == (True, "I.to", [2])
    assert [s["message"] for s in steps(original, "log")] == ["saw 42"]
    target = steps(original, "clone", "queue", "dequeue", "send", "drop")
    assert [(s["step"], s["time_ps"]) for s in target] == [
        ("clone", 0),
        ("queue", 1000),
        ("dequeue", 1000),
        ("send", 3000),
    ]
    assert (target[0]["session"], target[0]["copies"]) == (7, 1)
    assert (target[3]["port"], target[3]["bytes"]) == (2, 3)
    assert (clone.parent, clone.origin) == (original.number, "copy to port 3, instance 0")
    assert [s["step"] for s in steps(clone, "queue", "dequeue", "send")] == [
        "queue",
        "dequeue",
        "send",
    ]


def test_a_dropped_packets_trace_says_why() -> None:
    original = traced(bytes((9, 0))).traces[0]
    (table,) = steps(original, "table")
    assert (table["hit"], table["action"], table["args"]) == (False, "I.to", [511])
    assert steps(original, "drop")[0]["reason"] == "dropped by the program in ingress"


def test_text_for_people() -> None:
    lines = traced(bytes((1, 0x2A))).text().splitlines()
    assert lines[0] == "packet 0 in leaf1: 2 bytes on port 1"
    assert any("table I.t [h.h.kind=0x1] hit -> I.to(2)   (t.p4:" in line for line in lines)
    assert any("extract h.h [kind=0x1, x=0x2a]" in line for line in lines)
    assert "  0.003000 us: send port 2, bytes 2, start_ps 3000" in lines
    assert "packet 1 in leaf1: copy to port 3, instance 0, from packet 0" in lines


def test_json_is_plain_data() -> None:
    recorder = traced(bytes((1, 0x2A)))
    assert json.loads(json.dumps(recorder.to_json())) == recorder.to_json()


def test_only_wanted_packets_up_to_a_limit() -> None:
    recorder = TraceRecorder(limit=2, wanted=lambda switch, port, data: data[0] == 9)
    frames = [bytes((kind, number)) for number, kind in enumerate((1, 9, 1, 9, 9))]
    traced(*frames, recorder=recorder)
    originals = [trace for trace in recorder.traces if trace.parent is None]
    assert [steps(t, "extract")[0]["fields"]["x"] for t in originals] == [1, 3]


def test_a_hit_that_runs_nothing_names_no_action() -> None:
    program = compile_p4(Path(__file__).with_name("ops.p4"))
    clock = VirtualClock()
    switch = Switch(program, SwitchConfig(), clock, rng=RandomStream(1))
    switch.add_port(1, None)
    pick: Any = switch.state.by_name("pick")
    members: Any = switch.state.by_name("members")
    members.insert_group(1)
    pick.insert((7,), GroupRef(1))
    switch.recorder = TraceRecorder()
    switch.receive(1, bytes((7, 1, 0, 0)))
    (table,) = steps(switch.recorder.traces[0], "table")
    assert (table["hit"], table["action"], table["args"]) == (True, "", [])
