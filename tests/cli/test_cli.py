"""The `sglb` command as a user types it: what it prints, writes and answers to mistakes."""

from __future__ import annotations

import json
import platform
import re
import signal
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from command_kit import Answer, Command
from finsy.proto import p4i, p4r
from google.protobuf import text_format

ROOT = Path(__file__).parents[2]
ORACLE = ROOT / "tests" / "oracle"
ROUTER = ROOT / "tests" / "programs" / "router.p4"
COMMAND = [sys.executable, "-c", "from sglb.cli import main; main()"]

SMALL = """\
name: small
topology:
  leaf_spine: {leaves: 2, spines: 2, hosts_per_leaf: 1}
workload:
  flows:
    - {src: h0, dst: h1, bytes: 1000}
policies: [spray, glb]
"""
CUT = SMALL.replace("1000", "400000") + "faults:\n  - {at_us: 10, down: leaf1-spine0}\n"


@pytest.fixture
def sglb(capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(capsys)


@pytest.fixture
def small(tmp_path: Path) -> Path:
    file = tmp_path / "small.yaml"
    file.write_text(SMALL)
    return file


def one_line(answer: Answer, pattern: str, code: int = 1) -> None:
    """The answer to a mistake: nothing but one line on standard error."""
    assert (answer.code, answer.out) == (code, "")
    assert re.fullmatch(pattern + "\n", answer.err), answer.err


# --- run ------------------------------------------------------------------------------------------


def test_run_prints_a_table_and_writes_the_json(sglb: Command, small: Path, tmp_path: Path) -> None:
    file = tmp_path / "out.json"
    answer = sglb("run", small, "--json", file, "--jobs", 1)
    assert (answer.code, answer.err) == (0, "")
    lines = answer.out.splitlines()
    assert lines[:4] == [
        "small (seed 1)",
        "fabric    2 leaves, 2 spines, 2 hosts",
        "workload  a list of flows (1 flow, 1 kB)",
        "faults    none",
    ]
    # Four links of 86.56 ns and 500 ns, three pipelines of 1000 ns.
    row = re.compile(r"(spray|glb) +5\.3 +1\.0\d\d +0 +1\.06 kB *")
    assert [m[1] for line in lines if (m := row.fullmatch(line))] == ["spray", "glb"]
    assert "recovery" not in answer.out
    assert "- switches: pipeline 1,000 ns, port down detected after 10 us" in answer.out
    data = json.loads(file.read_text())
    assert data["policies"]["glb"]["completion_us"] == 5.34624


def test_the_json_is_the_same_again_and_can_go_to_standard_output(
    sglb: Command, small: Path, tmp_path: Path
) -> None:
    file = tmp_path / "out.json"
    file.write_text("old and longer " * 10_000)
    first = sglb("run", small, "-p", "spray", "--json", file, "--quiet")
    again = sglb("run", small, "-p", "spray", "--json", "-")
    assert (first.out, first.err) == ("", "")
    assert again.out == file.read_text()
    assert "small (seed 1)" in again.err
    assert list(json.loads(again.out)["policies"]) == ["spray"]
    other = sglb("run", small, "-p", "spray", "--json", "-", "--seed", 5, "-q")
    assert json.loads(other.out)["seed"] == 5


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_standard_output_that_is_full_is_named(small: Path) -> None:
    command = [*COMMAND, "run", str(small), "-p", "spray", "-q", "--json", "-"]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (
        1,
        "error: standard output: No space left on device\n",
    )


def test_a_cut_shows_recovery_and_the_trace_follows_a_packet_around_it(
    sglb: Command, tmp_path: Path
) -> None:
    file = tmp_path / "cut.yaml"
    file.write_text(CUT)
    answer = sglb("run", file, "-p", "glb", "--trace", "--json", tmp_path / "out.json")
    assert "- engine: reference\n" in answer.out
    assert answer.code == 0
    assert "faults    leaf1-spine0: link down at 10 us\n" in answer.out
    assert re.search(r"\nglb +[\d.]+ +[\d.]+ +\d+ +1\d\.\d +10\.0 +\d\.\d +\d\.\d +", answer.out)
    assert "glb, leaf1-spine0: " in answer.out
    assert "best of the column" not in answer.out  # there is only one policy
    table, story = answer.out.split("\nOne packet's way under ")
    assert "table" not in table
    head = r"glb: data packet from h0 to h1, PSN \d+: the first into leaf0 for leaf1 after leaf0 "
    head += r"was told of it by spine0 at \d\d\.\d+ us \(leaf1-spine0: link down at 10 us\)\n"
    assert re.match(head, story), story[:300]
    # Remote: leaf0 must avoid spine0, whose link to leaf1 is gone.
    hops = re.findall(r"^packet \d in (\w+), .* on port \d \(from (\w+)\)$", story, re.MULTILINE)
    assert hops == [("leaf0", "h0"), ("spine1", "leaf0"), ("leaf1", "spine1")]
    assert story.rstrip().endswith("bytes 4154")
    assert re.search(r"send port 1 \(to h1\), bytes 4154\n\Z", story)
    assert re.search(
        r"table FabricIngress\.route\.routing_v4 \[prefix=0xa000201\] hit -> "
        r"FabricIngress\.route\.to_switch\(dst=2\)  \[p4src/v1model/route\.p4:\d+:\d+\]",
        story,
    )
    hops_in_json = json.loads((tmp_path / "out.json").read_text())["policies"]["glb"]["trace"][
        "hops"
    ]
    assert [h["switch"] for h in hops_in_json] == ["leaf0", "spine1", "leaf1"]


def test_the_json_can_go_to_a_device_and_modules_here_do_not_hide_ours(
    sglb: Command, small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "controller.py").write_text("raise SystemExit(7)")
    monkeypatch.chdir(tmp_path)
    answer = sglb("run", small, "--json", "/dev/null", "--jobs", 2, "--quiet")
    assert (answer.code, answer.out, answer.err) == (0, "", "")


def test_a_named_packet_is_followed_under_the_last_policy(sglb: Command, small: Path) -> None:
    answer = sglb("run", small, "-p", "spray", "--trace-packet", "h0:h1", "--trace-all")
    story = answer.out.split("\nOne packet's way under ")[1]
    assert story.startswith("spray: data packet from h0 to h1, PSN ")
    assert "number 1 of that pair" in story.splitlines()[0]
    assert "      hdr.ipv4.ttl = 63\n" in story  # an assignment, as --trace-all wants
    none = sglb("run", small, "-p", "spray", "--trace-packet", "h0:h1:2")
    assert none.code == 1
    assert none.out.startswith("small (seed 1)\n")  # the run was good, so its table is shown
    assert none.err == (
        "error: policy spray: h0 never sent a data packet number 2 to h1: there were 1, those sent "
        "again included\n"
    )
    one_line(
        sglb("run", small, "--trace-packet", "h1:h0"),
        "error: packet h1:h0: h1 sends h0 nothing in this workload",
    )


def test_a_run_that_does_not_complete_says_so_and_ends_with_3(
    sglb: Command, tmp_path: Path
) -> None:
    file = tmp_path / "late.yaml"
    file.write_text(SMALL + "stop_us: 5\n")
    answer = sglb("run", file, "-p", "spray")
    assert answer.code == 3
    assert re.search(r"\nspray +1 flow open +- +0 +", answer.out)


def test_mistakes_in_scenarios_get_a_line_each(sglb: Command, tmp_path: Path, small: Path) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text(SMALL.replace("spines", "spine"))
    answer = sglb("run", file)
    assert (answer.code, answer.out) == (1, "")
    assert answer.err.splitlines() == [
        f"{file}:3: topology.leaf_spine.spine: unknown key; did you mean spines?"
    ]
    file.write_text("topology: [")
    one_line(sglb("run", file), rf"{file}:1: is not YAML: .+")
    file.write_text(SMALL.replace("glb]", "gbl]"))
    one_line(sglb("run", file), rf"{file}:7: policies\[1\]: must be one of .*; did you mean glb\?")
    one_line(sglb("run", tmp_path / "no.yaml"), r".*/no\.yaml: cannot be read: No such file .*")


def test_a_host_that_cannot_be_reached_gets_one_line(sglb: Command, tmp_path: Path) -> None:
    file = tmp_path / "split.yaml"
    links = ["{between: [a, s]}", "{between: [b, t]}"]
    explicit = f"{{switches: [s, t], hosts: [a, b], links: [{', '.join(links)}]}}"
    file.write_text(
        f"topology:\n  explicit: {explicit}\n"
        "workload: {flows: [{src: a, dst: b, bytes: 1}]}\npolicies: [ecmp]\n"
    )
    one_line(
        sglb("run", file), rf"{file}:2: topology\.explicit\.links: host b cannot be reached .*"
    )


def test_a_fault_that_cuts_a_host_off_for_good_is_named_by_line(
    sglb: Command, tmp_path: Path
) -> None:
    file = tmp_path / "cut.yaml"
    file.write_text(CUT.replace("leaf1-spine0", "leaf1-h1"))
    for command in ("check", "run"):
        one_line(
            sglb(command, file),
            rf"{file}:9: faults\[0\]\.down: cuts h1 off from h0 for good, so the workload can never "
            "complete; bring it up again later",
        )


def test_mistakes_in_options_get_one_line(sglb: Command, small: Path, tmp_path: Path) -> None:
    for seed in (-1, 1 << 63):
        one_line(sglb("run", small, "--seed", seed), rf"error: --seed {seed}: should be .*{seed}")
    one_line(
        sglb("run", small, "-p", "gbl"),
        rf"error: {small}: there is no policy 'gbl', the scenario compares spray, glb; "
        r"did you mean glb\?",
    )
    one_line(sglb("run", small, "--trace-packet", "h0"), r"error: packet 'h0': write SRC:DST:N.*")
    one_line(
        sglb("run", small, "--trace-packet", "h0:h2:1"),
        r"error: packet h0:h2: there is no host 'h2' in the topology.*",
    )
    one_line(sglb("run", small, "--control-plane", "x"), r"error: no control plane named 'x' .*")
    nowhere = tmp_path / "no" / "out.json"
    one_line(sglb("run", small, "--json", nowhere), rf"error: {nowhere}: No such file or directory")
    left = tmp_path / "left.json"
    assert sglb("run", small, "-p", "gbl", "--json", left).code == 1
    assert not left.exists()
    for option, value in (("--rate-scale", 5), ("--logs", tmp_path / "logs")):
        one_line(
            sglb("run", small, option, value), rf"error: {option} needs --on live or --on bmv2"
        )
    assert not (tmp_path / "logs").exists()
    live = ("run", small, "--on", "live")
    one_line(sglb(*live, "--engine", "reference"), r"error: --engine reference needs --on sim: .*")
    one_line(sglb(*live, "--logs", small), rf"error: --logs {small}: is no folder: .*")
    usage = sglb("run", small, "--jobs", 0)
    assert usage.code == 2
    assert "--jobs" in usage.err


def test_a_program_that_the_control_plane_does_not_know_gets_one_line(
    sglb: Command, small: Path
) -> None:
    answer = sglb("run", small, "-p", "glb", "--program", ROUTER)
    one_line(answer, r"error: policy glb: switch leaf0: its program has no table .*")
    traced = sglb("run", small, "-p", "glb", "--program", ROUTER, "--debug")
    assert "Traceback" in traced.err
    assert "controller.py" in traced.err


def test_a_bug_is_owned_up_to(sglb: Command, small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("by nothing")

    monkeypatch.setattr("sglb.cli.files.scenario", broken)
    answer = sglb("run", small)
    one_line(answer, r"error: a bug in sglb, .*: ZeroDivisionError: by nothing \(--debug .*\)", 70)
    assert "in broken" in sglb("run", small, "--debug").err


# --- compile and check ----------------------------------------------------------------------------


@pytest.mark.parametrize("case", ["77-p4info-names-ids", "26-const-entries-order"])
def test_compile_writes_what_p4c_writes(sglb: Command, tmp_path: Path, case: str) -> None:
    info, entries = tmp_path / "info.txtpb", tmp_path / "entries.txtpb"
    program = ORACLE / case / "program.p4"
    assert sglb("compile", program, "--p4info", info, "--entries", entries).code == 0
    ours, theirs = p4i.P4Info(), p4i.P4Info()
    text_format.Parse(info.read_text(), ours)
    text_format.Parse((ORACLE / case / "p4info.txtpb").read_text(), theirs)
    assert ours == theirs
    recorded = ORACLE / case / "entries.txtpb"
    wanted, found = p4r.WriteRequest(), p4r.WriteRequest()
    if recorded.exists():
        text_format.Parse(recorded.read_text(), wanted)
    text_format.Parse(entries.read_text(), found)
    assert found == wanted


def test_compile_prints_the_ir_and_takes_macros_and_folders(sglb: Command, tmp_path: Path) -> None:
    (tmp_path / "inc").mkdir()
    (tmp_path / "inc" / "part.p4").write_text(ROUTER.read_text())
    program = tmp_path / "whole.p4"
    program.write_text(
        '#ifdef WANTED\n#include "part.p4"\n#endif\n#if LEVEL != 3\n#error no\n#endif\n'
    )
    wanted = ("-I", tmp_path / "inc", "-D", "WANTED", "-D", "LEVEL=3")
    answer = sglb("compile", program, *wanted, "--print-ir")
    assert (answer.code, answer.err) == (0, "")
    assert "RouterIngress.routes" in answer.out
    assert sglb("check", program, *wanted).out == f"{program}: OK\n"
    assert sglb("check", program).code == 1
    one_line(
        sglb("compile", program, "-D", "3=x"), r"error: -D 3=x: '3' is no name for a macro; .*"
    )
    for command in ("compile", "check", "switch"):
        one_line(
            sglb(command, ROUTER, "-I", tmp_path / "no"),
            rf"error: -I {tmp_path}/no: there is no such folder",
        )


def test_compile_without_an_output_tells_what_is_in_the_program(
    sglb: Command, tmp_path: Path
) -> None:
    # The sizes are written in the program: routes 1024, next_hops 64; no register.
    answer = sglb("compile", ROUTER)
    told = "OK: 2 tables (room for 1,088 entries), 3 actions, no registers"
    assert (answer.code, answer.out) == (0, f"{ROUTER}: {told}\n")
    program = tmp_path / "counting.p4"
    counting = "    register<bit<48>>(4) seen;\n    apply { seen.write(1, 2); }"
    program.write_text(ROUTER.read_text().replace("    apply { }", counting, 1))
    assert sglb("compile", program).out.endswith(" 1 register (192 bits)\n")
    assert sglb("compile", ROUTER, "--p4info", tmp_path / "info.txtpb").out == ""


def test_errors_in_a_program_show_place_line_and_hint(sglb: Command, tmp_path: Path) -> None:
    program = tmp_path / "bad.p4"
    program.write_text(ROUTER.read_text().replace("next_hops.apply()", "next_hop.apply()"))
    number = 1 + ROUTER.read_text().splitlines().index("            next_hops.apply();")
    for command in ("compile", "check"):
        answer = sglb(command, program)
        assert (answer.code, answer.out) == (1, "")
        lines = answer.err.splitlines()
        assert lines[0].startswith(f"{program}:{number}:13: error: ")
        assert lines[1:3] == ["              next_hop.apply();", "              ^^^^^^^^"]
        assert lines[3].startswith("  hint: ")
        assert "next_hops" in lines[3]
    assert sglb("run", ROOT / "examples" / "healthy.yaml", "--program", program).code == 1


def test_a_failed_compile_leaves_the_old_output_alone(sglb: Command, tmp_path: Path) -> None:
    program, info = tmp_path / "bad.p4", tmp_path / "info.txtpb"
    program.write_text("control")
    info.write_text("kept")
    assert sglb("compile", program, "--p4info", info).code == 1
    assert info.read_text() == "kept"


def test_check_tells_about_every_file(sglb: Command, small: Path, tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text("{}")
    (tmp_path / "notes.txt").write_text("")
    answer = sglb("check", small, tmp_path / "bad.yaml", tmp_path / "notes.txt", ROUTER)
    assert answer.code == 1
    assert answer.out == f"{small}: OK\n{ROUTER}: OK\n"
    bad = f"{tmp_path}/bad.yaml:1: "
    assert answer.err.splitlines() == [
        bad + "topology: is required",
        bad + "workload: is required",
        f"error: {tmp_path}/notes.txt: neither a scenario (.yaml, .yml) nor a program (.p4)",
    ]


def test_the_shipped_examples_are_sound(sglb: Command) -> None:
    files = sorted((ROOT / "examples").glob("*.yaml"))
    assert files
    assert sglb("check", *files).code == 0


# --- switch and version ---------------------------------------------------------------------------


def test_mistakes_in_setting_up_a_switch_get_one_line(sglb: Command, tmp_path: Path) -> None:
    one_line(sglb("switch", ROUTER, "--ports", "5-2"), r"error: --ports 5-2: write how many, .*")
    one_line(sglb("switch", ROUTER, "--ports", "1,,2"), r"error: --ports 1,,2: write how many, .*")
    empty = sglb("switch", ROUTER, "--pcap-dir", tmp_path, "--grpc", "127.0.0.1:0")
    one_line(empty, rf"error: {tmp_path}: no ports: .*")
    (tmp_path / "1.pcap").write_bytes(b"garbage")
    broken = sglb("switch", ROUTER, "--pcap-dir", tmp_path, "--grpc", "127.0.0.1:0")
    one_line(broken, rf"error: {tmp_path}/1\.pcap: .*")
    (tmp_path / "empty").mkdir()
    nothing = ("--pcap-dir", tmp_path / "empty", "--ports", 2, "--exit-when-done")
    idle = sglb("switch", ROUTER, "--grpc", "127.0.0.1:0", *nothing)
    one_line(idle, rf"error: {tmp_path}/empty: no input: it has no N\.pcap file, .*")
    one_line(sglb("switch", "--exit-when-done"), r"error: --exit-when-done needs --pcap-dir.*")
    one_line(sglb("switch", ROUTER, "--realtime", 5), r"error: --realtime needs --port: .*")
    assert sglb("switch", ROUTER, "--device-id", 1 << 64).code == 2
    for address in ("nonsense", "127.0.0.1:99999", "127.0.0.1:"):
        one_line(sglb("switch", ROUTER, "--grpc", address), rf"error: --grpc {address}: write .*")


def test_a_switch_without_program_waits_for_a_controller_and_ends_on_sigint() -> None:
    options = ["switch", "--grpc", "127.0.0.1:0", "--ports", "0,2-3"]
    with subprocess.Popen([*COMMAND, *options], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            ready = process.stdout.readline()
            assert re.fullmatch(
                r"P4Runtime on 127\.0\.0\.1:\d+, device 1, ports \[0, 2, 3\]\n", ready
            )
            process.send_signal(signal.SIGINT)
            assert process.wait(120) == 0
        finally:
            process.kill()


def test_version_is_an_option_too(sglb: Command) -> None:
    number = version("sglb")
    assert sglb("--version").out == f"sglb {number} (Python {platform.python_version()})\n"


def test_version_names_what_counts(sglb: Command) -> None:
    answer = sglb("version")
    names = [line.split()[0] for line in answer.out.splitlines()]
    assert answer.code == 0
    libraries = ["finsy", "llvmlite", "networkx", "numpy", "protobuf", "pydantic"]
    assert names == ["sglb", *libraries, "python"]


def test_the_installed_command_answers() -> None:
    command = Path(sys.executable).with_name("sglb")
    found = subprocess.run([command, "--help"], capture_output=True, text=True)
    assert found.returncode == 0
    for name in ("run", "compile", "check", "switch", "version"):
        assert re.search(rf"^  {name} ", found.stdout, re.MULTILINE)
