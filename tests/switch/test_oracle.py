"""Every recorded case of tests/oracle: P4Info, packets and CLI answers as p4c and BMv2 gave them.

Where BMv2 or p4c refuses, aborts or shows memory of earlier packets, `OWN` says why and what the
switch does instead; docs/differences-from-bmv2.md explains each.
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from cli_commands import Cli
from finsy.proto import p4i, p4r
from google.protobuf import text_format

from sglb.p4.compiler import CompiledProgram
from sglb.p4.compiler import compile as compile_p4
from sglb.p4.random_stream import RandomStream
from sglb.p4.source import P4Errors
from sglb.switch.clock import VirtualClock
from sglb.switch.config import SwitchConfig
from sglb.switch.errors import EntryExists
from sglb.switch.ports import DropReason
from sglb.switch.switch import Switch

ORACLE = Path(__file__).parents[1] / "oracle"
CASES = sorted(path.name for path in ORACLE.iterdir() if path.is_dir())

#: Outputs of one input: port -> frames in order.
Outputs = dict[int, list[str]]


@dataclass(frozen=True)
class Own:
    """What we do where the record is no model: outputs by input, in place of the recorded ones."""

    reason: str
    outputs: dict[int, Outputs] = field(default_factory=dict)
    drops: dict[DropReason, int] = field(default_factory=dict)


def case_data(name: str) -> dict[str, Any]:
    """A case's record."""
    data: dict[str, Any] = json.loads((ORACLE / name / "case.json").read_text())
    return data


@cache
def compiled(name: str) -> CompiledProgram:
    """A case's program."""
    return compile_p4(ORACLE / name / "program.p4")


class Run:
    """A switch with the recorded machine's ports, and a case's program in it."""

    def __init__(self, name: str) -> None:
        self.folder = ORACLE / name
        self.clock = VirtualClock(start_ps=1_000_000_000)
        # Every port number exists in the recordings; 506 and 507 stand in no case.
        config = SwitchConfig(cpu_port=506, event_port=507)
        self.switch = Switch(compiled(name), config, self.clock, rng=RandomStream(1))
        for number in set(range(512)) - {506, 507}:
            self.switch.add_port(number, None)
        self.switch.on_transmit = self._sent
        self.cli = Cli(self.switch)
        self.cli_lines: list[str] = []
        self._out: dict[int, list[str]] = defaultdict(list)
        self._commands("commands.txt")

    def _sent(self, port: int, data: bytes, start_ps: int, end_ps: int) -> None:
        self._out[port].append(data.hex())

    def _commands(self, name: str) -> None:
        path = self.folder / name
        if path.exists():
            self.cli_lines += self.cli.run(path.read_text())

    def feed(self, number: int, port: int, data: bytes) -> Outputs:
        """What comes out after an input (and the commands recorded before it)."""
        self._commands(f"commands-before-input-{number}.txt")
        self.switch.receive(port, data)
        self.clock.run()
        out, self._out = dict(self._out), defaultdict(list)
        return out

    def feed_all(self, inputs: list[dict[str, Any]]) -> dict[int, Outputs]:
        """What comes out after each input that has outputs."""
        results = (
            (i, self.feed(i, item["port"], bytes.fromhex(item["hex"])))
            for i, item in enumerate(inputs)
        )
        return {number: out for number, out in results if out}

    def after(self) -> list[str]:
        """What the CLI answers after the last input."""
        before = len(self.cli_lines)
        self._commands("commands-after.txt")
        return self.cli_lines[before:]


def recorded(name: str) -> dict[int, Outputs]:
    """The recorded outputs in the shape of `Run.feed_all`."""
    out: dict[int, dict[int, list[str]]] = defaultdict(lambda: defaultdict(list))
    for item in case_data(name)["outputs"]:
        out[item["after_input"]][item["port"]].append(item["hex"])
    return {number: dict(ports) for number, ports in out.items()}


def out(port: int, *frames: str) -> Outputs:
    """The outputs of one input, blanks left out."""
    return {port: [frame.replace(" ", "") for frame in frames]}


#: Cases that BMv2 ran, but not as a model to follow; the outputs named replace the recorded ones.
OWN: dict[str, Own] = {
    "35-stack-index-out-of-range": Own(
        "simple_switch aborts; an element that does not exist reads 0, a write to it does nothing",
        {
            2: out(1, "0104 00000007 00000000 110122013300"),
            3: out(1, "0001 00007707 00000000 110122013300"),
        },
    ),
    "41-invalid-headers": Own(
        "BMv2 shows what an earlier packet left in an invalid header; here it reads 0",
        {12: out(1, "0000 01 01 0000 ff"), 17: out(1, "0000 01 01 0500 ff")},
    ),
    "62-meter-burst": Own(
        "p4c drops the assignment before an out-of-range meter as dead, so 0 comes out; here it stays",
        {
            number: {port: [f"{frame[:6]}dd{frame[8:]}" for frame in frames]}
            for number, ports in recorded("62-meter-burst").items()
            for port, frames in ports.items()
        },
    ),
    "74-assert-assume": Own(
        "a false assert aborts simple_switch; here it drops the packet and is counted",
        {1: {}, 2: out(1, "000000000002")},
        {DropReason.ASSERTION: 1},
    ),
    "76-table-full": Own(
        "BMv2's CLI sets a @tableonly action as default; here that is refused, as P4Runtime wants",
        {2: out(15, "0000 030000000000")},
    ),
    "106-for-loop-simple": Own(
        "p4c runs the loop once; the specification says three times",
        {0: out(1, "0006 00000015"), 1: out(1, "0000 00000016")},
    ),
    "107-for-loop-unrolled": Own(
        "p4c runs the loop once; the specification says three times",
        {0: out(1, "0006 00000015"), 1: out(1, "0000 00000016")},
    ),
    "109-stack-last-empty": Own(
        "simple_switch aborts; `last` of an empty stack is the error StackOutOfBounds",
        {2: out(1, "0301 010500000000"), 3: out(1, "0001 000500000000")},
    ),
    "112-parser-endless-loop": Own(
        "simple_switch hangs; the parser ends with ParserTimeout and the packet goes on",
        {1: out(1, "010000000000"), 2: out(1, "000000000000")},
    ),
    "115-header-stale-values": Own(
        "BMv2 shows what an earlier packet left in an invalid header; here it reads 0",
        {
            2: out(1, "020000000000"),
            3: out(1, "050000000050"),
            5: out(1, "020000000000"),
            7: out(1, "020000000000"),
            8: out(1, "050000000050"),
        },
    ),
    "116-selector-group-emptied": Own(
        "simple_switch hangs; a group without live members is a hit that runs no action",
        {
            1: out(15, "0001 010000000000"),
            2: out(2, "0200 020000000000"),
            3: out(15, "0001 010000000000"),
        },
    ),
}

#: Programs that p4c or BMv2 refuses and that run here: what they do, worked out by hand.
ACCEPTED_HERE: dict[str, Own] = {
    "29-action-run-twice-applied": Own(
        "a table may be applied twice on a path", {0: out(1, "0300 00000000020000")}
    ),
    "44-packet-length-method-reject": Own("packet_in.length() works", {0: out(1, "00")}),
    "46-hash-nested-list-abort": Own(
        "nested lists are hashed in order: CRC-16/ARC of 1234567890 is 4f74",
        {0: out(1, "4f74 1234567890")},
    ),
    "50-shift-huge": Own(
        "a shift amount may have any width; beyond the operand's it gives 0",
        {
            0: out(1, "0000 800100010000"),
            1: out(1, "0000 80017fffffff"),
            2: out(1, "0000 800180000000"),
            3: out(1, "0000 8001ffffffff"),
        },
    ),
    "79-nested-direct-apply": Own(
        "a control instance may be applied at several places",
        {
            0: out(1, "1111 010100000000"),
            1: out(1, "1122 010200000000"),
            2: out(1, "0022 030200000000"),
        },
    ),
    "83-register-struct": Own(
        "registers may hold structs; they start at 0", {0: out(1, "010200000000")}
    ),
    "92-bool-controller-header-reject": Own(
        "a bool may stand in a controller header", {0: out(1, "01")}
    ),
    "94-for-in-reject": Own("for-in loops work: 1+2+3+4 is 0a", {0: out(1, "010a00000000")}),
    "101-deparser-if": Own(
        "the deparser may have conditions", {0: out(1, "010000000000"), 1: out(1, "")}
    ),
    "113-hash-in-parser": Own(
        "the parser may hash and read registers: CRC-16/ARC of 05 is 03c0, of ff 4040",
        {0: out(1, "0000 000003c0"), 1: out(1, "0000 00004040")},
    ),
}

#: Programs refused here too, with a part of the message.
REFUSED: dict[str, str] = {
    "55-div-mod": "division",
    "91-recirc-in-ingress": "recirculate can only be called in the egress control",
}

#: Programs that have tests of their own below.
SPECIAL = {"73-hash-random-algo", "86-duplicate-entries"}

RUNNABLE = [name for name in CASES if name not in REFUSED | ACCEPTED_HERE and name not in SPECIAL]


def test_every_case_is_accounted_for() -> None:
    listed = {*OWN, *ACCEPTED_HERE, *REFUSED, *SPECIAL}
    assert listed <= set(CASES)
    refused_there = {
        name
        for name in CASES
        if case_data(name)["p4c_rc"] or case_data(name).get("bmv2_refused_to_start")
    }
    assert refused_there == {*ACCEPTED_HERE, *REFUSED, *SPECIAL}


@pytest.mark.parametrize("name", RUNNABLE)
def test_packets_come_out_as_recorded(name: str) -> None:
    run, own = Run(name), OWN.get(name, Own(""))
    expected = {**recorded(name), **own.outputs}
    assert run.feed_all(case_data(name)["inputs"]) == {n: o for n, o in expected.items() if o}
    for reason, count in own.drops.items():
        assert run.switch.drops[reason] == count


@pytest.mark.parametrize("name", sorted(ACCEPTED_HERE))
def test_programs_that_only_run_here(name: str) -> None:
    assert Run(name).feed_all(case_data(name)["inputs"]) == ACCEPTED_HERE[name].outputs


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_programs_refused_here_too(name: str) -> None:
    with pytest.raises(P4Errors, match=REFUSED[name]):
        compiled(name)


@pytest.mark.parametrize(
    "name",
    [name for name in CASES if name not in REFUSED and (ORACLE / name / "p4info.txtpb").exists()],
)
def test_p4info_is_p4cs(name: str) -> None:
    text = (ORACLE / name / "p4info.txtpb").read_text()
    assert compiled(name).p4info == text_format.Parse(text, p4i.P4Info())


@pytest.mark.parametrize(
    "name", [name for name in CASES if (ORACLE / name / "entries.txtpb").exists()]
)
def test_entries_are_p4cs(name: str) -> None:
    text = (ORACLE / name / "entries.txtpb").read_text()
    expected = text_format.Parse(text, p4r.WriteRequest())
    assert list(compiled(name).entries) == list(expected.updates)


def _comparable(lines: list[str]) -> list[str]:
    """The lines of a CLI log that `Cli` gives too, without the prompts before them."""
    wanted = ("Invalid ", "Entry has been", "Member has been", "Group has been", "Members: ")
    found = []
    for line in lines:
        text = line.replace("RuntimeCmd: ", "")
        if text.startswith(wanted) or "packets)" in text:
            found.append(text)
    return found


@pytest.mark.parametrize("name", [name for name in CASES if case_data(name).get("cli_log")])
def test_the_control_plane_is_answered_as_recorded(name: str) -> None:
    run = Run(name)
    run.feed_all(case_data(name)["inputs"])
    assert _comparable(run.cli_lines) == _comparable(case_data(name)["cli_log"])


def test_counters_after_the_packets() -> None:
    run = Run("61-counters")
    run.feed_all(case_data("61-counters")["inputs"])
    assert _comparable(run.after()) == _comparable(case_data("61-counters")["cli_after"])


def test_program_entries_are_found_by_priority_as_in_the_dump() -> None:
    """The dump lists them in order of insertion with BMv2's priorities, smaller first."""
    run = Run("26-const-entries-order")
    run.feed_all(case_data("26-const-entries-order")["inputs"])
    assert len(run.after()) == sum(len(table) for table in run.switch.state.tables)


def test_meter_bursts_are_kept() -> None:
    run = Run("62-meter-burst")
    log = " ".join(case_data("62-meter-burst")["cli_log"])
    answers = [line for line in run.cli_lines if line.startswith("burst")]
    assert answers == ["burst size = 3", "burst size = 5"]
    assert all(answer in log for answer in answers)


def test_hash_random_gives_a_number_that_the_seed_decides() -> None:
    """BMv2 does not start with HashAlgorithm.random; here it draws from the switch's generator."""
    name = "73-hash-random-algo"
    inputs = case_data(name)["inputs"]
    first, again = Run(name).feed_all(inputs), Run(name).feed_all(inputs)
    assert first == again
    frames = [first[number][1][0] for number in range(len(inputs))]
    assert [frame[:4] for frame in frames] == ["0000", "0100"]
    assert frames[0][4:] != frames[1][4:]


def test_duplicate_const_entries_keep_a_program_from_loading() -> None:
    with pytest.raises(EntryExists, match=r"table I\.t has an entry \[h\.i\.op=0x1\] already"):
        Run("86-duplicate-entries")
