"""The control plane's constants against the P4 sources and the compiled program."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from sglb import p4
from sglb.fabric import frames
from sglb.programs import glb, p4src
from sglb.syncmesh import dataplane as dp
from sglb.syncmesh import messages as m


def constants() -> dict[str, int]:
    """Every `#define NAME number` and `const bit<N> NAME = number` of the program."""
    found: dict[str, int] = {}
    for path in sorted(p4src().glob("include/*.p4")) + sorted(p4src().glob("v1model/*.p4")):
        text = path.read_text()
        for name, value in re.findall(r"^#define\s+(\w+)\s+(\d+)", text, re.M):
            found[name] = int(value)
        for name, value in re.findall(r"\bconst\s+bit<\d+>\s+(\w+)\s*=\s*(\w+)\s*;", text):
            found[name] = int(value, 0)
    return found


P4 = constants()

NAMES = {
    "CONTROL_CLASS": "SYNC_CLASS",
    "GROUPS": "MAX_GROUPS",
    "SUBJECTS": "MAX_SUBJECTS",
}


@pytest.mark.parametrize(
    "name",
    [
        *("CPU_PORT", "EVENT_PORT", "LANES", "BANKS", "PROFILES", "SLOTS", "GROUPS", "SUBJECTS"),
        *("FABRIC_GROUP", "NOTIFY_GROUP", "NOTIFY_SESSION"),
        *("APP_QUALITY_TIMER", "APP_BEAT_TIMER"),
        *("REASON_AGENT", "REASON_NOTE", "REASON_OWN_NOTE", "REASON_PORT_EVENT"),
        *("REASON_BEAT", "REASON_SET", "REASON_PROBE"),
        *("CODE_BEST", "CODE_WORST", "CODE_DOWN"),
    ],
)
def test_constants(name: str) -> None:
    assert getattr(dp, NAMES.get(name, name)) == P4[name]


def test_message_numbers() -> None:
    assert {name: P4[f"SYNC_{name}"] for name in m.TYPE_NAMES.values()} == {
        name: kind for kind, name in m.TYPE_NAMES.items()
    }
    assert (P4["SYNC_VERSION"], P4["ETHERTYPE_SYNCMESH"]) == (m.VERSION, m.ETHERTYPE)
    assert (P4["SET_REMOTE"], P4["SET_LINK"]) == (m.SET_REMOTE, m.SET_LINK)


def test_header_sizes() -> None:
    text = (p4src() / "include" / "syncmesh.p4").read_text()
    sizes = {
        name: sum(int(bits) for bits in re.findall(r"bit<(\d+)>", body)) // 8
        for name, body in re.findall(r"header (\w+) \{(.*?)\}", text, re.S)
    }
    head = {"origin": 0, "incarnation": 0, "seq": 0}
    note = m.Note(**head, subject=0, code=0, capacity_mbps=0).encode()
    order = m.Set(**head, what=1, code=0, profile=0, port=0, subject=0).encode()
    assert len(m.Beat(**head).encode()) == sizes["sync_h"]
    assert len(note) == sizes["sync_h"] + sizes["note_h"]
    assert len(order) == sizes["sync_h"] + sizes["set_h"]


def test_names_are_the_programs() -> None:
    info = p4.compile(glb()).p4info
    tables = {t.preamble.name for t in info.tables}
    actions = {a.preamble.name for a in info.actions}
    assert {dp.T_PORTS, dp.T_PROFILES, dp.T_ANNOUNCEMENTS} <= tables
    assert {dp.A_SET_FABRIC, dp.A_SET_PROFILE} <= actions
    assert dp.R_ANNOUNCED in {r.preamble.name for r in info.registers}


def test_lanes() -> None:
    assert (dp.Lane(3, 0).shift, dp.Lane(3, 0).bit) == (0, 0x80)
    assert (dp.Lane(3, 15).shift, dp.Lane(3, 15).bit) == (120, 1 << 127)
    assert dp.lane_set((dp.Lane(1, 0), dp.Lane(1, 2))) == 0x800080


@pytest.mark.parametrize("code", range(16))
def test_observers_on_a_wire_know_notifications_as_agents_do(code: int) -> None:
    """`sglb.fabric.frames` must not import this package and has its own EtherType, type and code."""
    note = m.Note(
        origin=0x01020304,
        incarnation=5,
        seq=6,
        subject=7,
        code=code,
        capacity_mbps=8,
        urgent=True,
    )
    frame = m.frame(bytes(6), note.encode())
    assert frames.urgent_note(frame) == (0x01020304, code == dp.CODE_DOWN)
    assert frames.urgent_note(frame[:-1]) is None
    assert frames.ether_type(frame) == m.ETHERTYPE.to_bytes(2, "big") == frames.SYNCMESH
    band = m.frame(bytes(6), replace(note, urgent=False).encode())
    assert frames.urgent_note(band) is None
    beat = m.Beat(origin=1, incarnation=5, seq=6).encode()
    assert frames.urgent_note(m.frame(bytes(6), beat).ljust(60, b"\0")) is None
