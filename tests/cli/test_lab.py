"""`sglb export`, `load` and `tutorial` as a user types them; Mininet itself is in tests/mininet."""

from __future__ import annotations

import asyncio
import json
import os
import queue
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import grpc
import pytest
from command_kit import Answer, Command
from finsy import P4Schema
from finsy.proto import U128, p4r, p4r_grpc

from controller.live import standalone
from sglb.cli.control import _tell_slow
from sglb.cli.lab import fabric
from sglb.fabric.live.control import LiveView
from sglb.p4.compiler import compile as compile_p4
from sglb.switch import runtime_file
from sglb.switch.p4runtime.load import load
from sglb.switch.p4runtime.status import Code, P4RuntimeError

ROOT = Path(__file__).parents[2]
EXERCISE = ROOT / "tests" / "mininet" / "exercise"
PROGRAM = EXERCISE / "campus.p4"
ENTRIES = EXERCISE / "s1-runtime.json"
COMMAND = [sys.executable, "-c", "from sglb.cli import main; main()"]


@pytest.fixture
def sglb(capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(capsys)


# --- export ---


def test_export_writes_a_file_a_switch(sglb: Command, tmp_path: Path) -> None:
    answer = sglb("export", "clos3,2,1,1,1,1", tmp_path / "new")
    assert answer == Answer(0, f"{tmp_path}/new/topology.json: 5 switches, 2 hosts\n", "")
    names = ("leaf0", "leaf1", "spine0", "spine1", "core0")
    assert {p.name for p in (tmp_path / "new").iterdir()} == {
        "topology.json",
        *(f"{name}-runtime.json" for name in names),
    }


@pytest.mark.parametrize("policy", ["ecmp", "glb"])
def test_a_fabric_needs_no_workload_so_one_host_is_enough(
    policy: str, sglb: Command, tmp_path: Path
) -> None:
    answer = sglb("export", "leafspine,1,1", tmp_path, "--policy", policy)
    assert answer == Answer(0, f"{tmp_path}/topology.json: 2 switches, 1 hosts\n", "")


def test_export_takes_a_scenario(sglb: Command, tmp_path: Path) -> None:
    answer = sglb("export", ROOT / "examples" / "healthy.yaml", tmp_path, "--mbps", 10)
    assert answer.out == f"{tmp_path}/topology.json: 8 switches, 16 hosts\n"
    links = json.loads((tmp_path / "topology.json").read_text())["links"]
    assert {tuple(link[2:]) for link in links} == {("0", 10.0)}


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("leafspine", "leafspine: write a scenario file (.yaml), or leafspine,LEAVES,SPINES,"),
        ("ring,3", "ring,3: write a scenario file"),
        ("leafspine,2", "leafspine,2: leafspine takes 3 numbers: leaves, spines, hosts_per_leaf"),
        ("leafspine,0,2", "leafspine,0,2"),
        ("nowhere.yaml", "nowhere.yaml"),
    ],
)
def test_export_tells_what_is_no_fabric(
    what: str, message: str, sglb: Command, tmp_path: Path
) -> None:
    answer = sglb("export", what, tmp_path)
    assert answer.code == 1
    assert message in answer.err
    assert "bug" not in answer.err


def test_export_for_a_controller_has_rates_and_timers_and_no_entries(
    sglb: Command, tmp_path: Path
) -> None:
    assert sglb("export", "leafspine,2,1", tmp_path, "--policy", "glb", "--mbps", 20).code == 0
    assert {p.name for p in tmp_path.iterdir()} == {"topology.json"}
    data = json.loads((tmp_path / "topology.json").read_text())
    assert data["control"] == {"fabric": "leafspine,2,1", "policy": "glb", "mbps": 20.0}
    assert {tuple(link[2:]) for link in data["links"]} == {("0", 20.0)}
    # The quality timer and the heartbeat's, as `live` has them by default.
    assert data["switches"]["spine0"]["timers"] == ["1:10000", "2:2000"]
    assert data["switches"]["spine0"]["device_id"] == 3


def test_export_and_control_know_the_policies(sglb: Command, tmp_path: Path) -> None:
    options = ("--policy", "best")
    for answer in (
        sglb("export", "leafspine,2,2", tmp_path, *options),
        sglb("control", "leafspine,2,2", "--switch", "leaf0=127.0.0.1:1", *options),
    ):
        assert answer.code == 1
        assert "--policy best: choose one of ecmp, flowlet, spray, dlb, glb" in answer.err


@pytest.mark.parametrize(
    ("switches", "message"),
    [
        (["leaf0"], "--switch leaf0: write NAME=HOST:PORT, as in leaf0=127.0.0.1:50051"),
        (
            ["leaf7=127.0.0.1:1"],
            "--switch leaf7=127.0.0.1:1: the fabric has no switch of that name",
        ),
        (["leaf0=127.0.0.1:70000"], "--switch leaf0=127.0.0.1:70000: ports go up to 65535"),
        (["leaf0=127.0.0.1:1", "spine0=127.0.0.1:2"], "--switch leaf1=HOST:PORT is missing"),
    ],
)
def test_control_needs_all_switches(switches: list[str], message: str, sglb: Command) -> None:
    options = [word for text in switches for word in ("--switch", text)]
    assert sglb("control", "leafspine,2,1", *options) == Answer(1, "", f"error: {message}\n")


def test_control_that_takes_long_names_switches_where_nobody_listens(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(standalone, "_SLOW_S", 0.0)
    scenario = fabric("leafspine,1,1,2")
    ids = {node.name: node.id for node in scenario.topology.switches}
    with socket.create_server(("127.0.0.1", 0)) as there:
        answers = f"127.0.0.1:{there.getsockname()[1]}"
        addresses = {ids["leaf0"]: answers, ids["spine0"]: f"unix:{tmp_path}/none"}
        view = LiveView(scenario, "glb", tmp_path, addresses, 1_500)
        asyncio.run(standalone._when_slow(view, _tell_slow))
    assert capsys.readouterr().err == (
        f"no answer from spine0 (unix:{tmp_path}/none); still trying\n"
    )


@pytest.mark.live
def test_an_agent_that_fails_is_told_and_control_ends_with_1() -> None:
    switches = ["--switch", "leaf0=127.0.0.1:1", "--switch", "spine0=127.0.0.1:2"]
    command = [*COMMAND, "control", "leafspine,1,1,2", *switches]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            while not (agent := child(process.pid, "agent-leaf0")):
                time.sleep(0.01)
            # The next one has no key.
            Path(f"/proc/{agent}/fd/1").readlink().with_name("syncmesh.key").unlink()
            os.kill(agent, signal.SIGKILL)
            # The other may have looked for the key as late.
            failed = re.compile(
                r"(error: )?agent-(leaf|spine)0 ended with status 1: .*syncmesh.key"
            )
            told = [next(process.stderr)]
            while not told[-1].startswith("agent-leaf0 ended with status 1: "):
                told.append(next(process.stderr))
            assert "agent-leaf0 ended with signal 9; it is started anew\n" in told
            process.terminate()
            assert process.wait() == 1
            last = list(process.stderr)[-1]
            assert failed.match(told[-1])
            assert failed.match(last)
            assert last.startswith("error: ")
        finally:
            process.terminate()


def child(pid: int, name: str) -> int:
    """The child process of that name, once it runs; 0 without one."""
    for text in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        with suppress(OSError):
            if Path(f"/proc/{text}/comm").read_text().strip() == name:
                return int(text)
    return 0


def test_control_makes_sure_of_the_folder_for_logs(sglb: Command, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    switches = ["--switch", "leaf0=127.0.0.1:1", "--switch", "spine0=127.0.0.1:2"]
    answer = sglb("control", "leafspine,1,1,2", *switches, "--log-dir", tmp_path / "file")
    assert answer.code == 1
    assert answer.err.startswith(f"error: --log-dir {tmp_path}/file: is no folder: ")


# --- load ---


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """A switch of three ports that runs the program and holds nothing."""
    command = [*COMMAND, "switch", str(PROGRAM), "--ports", "3", "--grpc", "127.0.0.1:0"]
    process = subprocess.Popen(
        [*command, "--device-id", "0"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        match = re.match(r"P4Runtime on (\S+), device 0,", process.stdout.readline())
        assert match, process.stderr and process.stderr.read()
        yield match[1]
    finally:
        process.terminate()
        process.communicate()


def test_load_writes_and_says_what_a_switch_refuses(address: str, sglb: Command) -> None:
    options = ("--grpc", address, "--device-id", 0)
    answer = sglb("load", PROGRAM, ENTRIES, *options)
    assert answer == Answer(0, f"{address}: 4 entries written\n", "")
    program = compile_p4(PROGRAM)
    updates = runtime_file.read(ENTRIES, P4Schema(program.p4info))
    # The default can be written again, the others are there. A new pipeline would begin empty.
    with pytest.raises(P4RuntimeError) as told:
        load(address, 0, program.p4info, b"", [*updates, *updates])
    lines = str(told.value).splitlines()
    assert lines[0] == (
        f"UNKNOWN: {address}: writing entries: 3 of 8 updates failed; first [5]: "
        "table CampusIngress.routes has an entry [hdr.ipv4.dst=0xa000101/32] already"
    )
    assert [line.split(":")[0:2] for line in lines[1:]] == [
        ["  update 5, INSERT table_entry", " ALREADY_EXISTS"],
        ["  update 6, INSERT table_entry", " ALREADY_EXISTS"],
        ["  update 7, INSERT packet_replication_engine_entry", " ALREADY_EXISTS"],
    ]


def test_load_asks_who_it_shall_ask(address: str, sglb: Command) -> None:
    answer = sglb("load", PROGRAM, ENTRIES, "--grpc", address, "--device-id", 7)
    assert answer.code == 1
    assert answer.err.startswith(f"error: NOT_FOUND: {address}: asking to be primary: ")


def test_load_leaves_another_controllers_switch_alone(address: str) -> None:
    program = compile_p4(PROGRAM)
    load(address, 0, program.p4info, b"", [], election_id=9)
    with grpc.insecure_channel(address) as channel:
        asked = p4r.MasterArbitrationUpdate(election_id=U128.encode(20))
        requests: queue.SimpleQueue[p4r.StreamMessageRequest | None] = queue.SimpleQueue()
        requests.put(p4r.StreamMessageRequest(arbitration=asked))
        stream = p4r_grpc.P4RuntimeStub(channel).StreamChannel(iter(requests.get, None))
        next(stream)
        with pytest.raises(P4RuntimeError) as told:
            load(address, 0, program.p4info, b"", [])
        assert told.value.code is Code.PERMISSION_DENIED
        assert f"{address}: another controller is primary (election id 20)" in str(told.value)
        stream.cancel()
        requests.put(None)


def test_load_tells_when_nobody_answers() -> None:
    program = compile_p4(PROGRAM)
    with pytest.raises(P4RuntimeError, match=r"127\.0\.0\.1:1: nobody answers within 0\.1 s"):
        load("127.0.0.1:1", 1, program.p4info, b"", [], timeout_s=0.1)


# --- entries of a switch ---


def test_a_switch_refuses_entries_that_do_not_fit(sglb: Command, tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text('{"table_entries": [{"table": "nope"}]}')
    answer = sglb("switch", PROGRAM, "--ports", 3, "--entries", tmp_path / "bad.json")
    assert answer.code == 1
    assert answer.err.startswith(
        f"{tmp_path}/bad.json: table_entries[0]: the program has no table 'nope'"
    )
    answer = sglb("switch", "--ports", 3, "--entries", ENTRIES)
    assert answer.err == "error: --entries needs PROGRAM.p4: without it no table is known\n"


# --- tutorial ---


@pytest.fixture
def exercise(tmp_path: Path) -> Path:
    shutil.copytree(EXERCISE, tmp_path / "exercise")
    return tmp_path / "exercise"


def test_an_exercise_is_checked_before_anything_starts(exercise: Path, sglb: Command) -> None:
    entries = exercise / "s2-runtime.json"
    entries.write_text(entries.read_text().replace("CampusIngress.forward", "forwards", 1))
    answer = sglb("tutorial", exercise)
    assert answer.code == 1
    assert answer.err.startswith(f"{entries}: table_entries[1]: the program has no action")
    entries.unlink()
    assert (
        sglb("tutorial", exercise).err == f"{entries}: cannot be read: No such file or directory\n"
    )


def test_an_exercise_may_have_commands_for_the_cli_instead(exercise: Path, sglb: Command) -> None:
    topology = exercise / "topology.json"
    topology.write_text(topology.read_text().replace("runtime_json", "cli_input", 1))
    topology.write_text(topology.read_text().replace("s1-runtime.json", "s1-commands.txt"))
    (exercise / "s1-commands.txt").write_text("table_add routes drop 10.0.0.0/8 =>\ntable_dump x\n")
    assert sglb("tutorial", exercise).err.startswith(f"{exercise}/s1-commands.txt:2: table_dump: ")
    data = json.loads(topology.read_text())
    data["switches"]["s1"]["runtime_json"] = "s2-runtime.json"
    topology.write_text(json.dumps(data))
    assert sglb("tutorial", exercise).err == (
        f"error: {topology}: switch s1 has runtime_json and cli_input; keep one of them\n"
    )


def test_an_exercise_without_a_topology_or_program_is_told(exercise: Path, sglb: Command) -> None:
    (exercise / "campus.p4").rename(exercise / "other.p4")
    answer = sglb("tutorial", exercise)
    assert answer.err == (
        f"error: {exercise}/topology.json: switch s1 runs build/campus.json, but {exercise} has no "
        "source of that name\n"
    )
    for name in ("pod", "triangle"):
        (exercise / name).mkdir()
        shutil.copy(exercise / "topology.json", exercise / name)
    (exercise / "topology.json").unlink()
    answer = sglb("tutorial", exercise)
    assert answer.err.startswith(f"error: {exercise}: has several topologies, choose with --topo: ")
    (exercise / "Makefile").write_text("TOPO = pod/topology.json\n")
    assert f"{exercise}/pod/topology.json: switch s1 runs" in sglb("tutorial", exercise).err
    shutil.rmtree(exercise / "pod")
    shutil.rmtree(exercise / "triangle")
    assert sglb("tutorial", exercise).err.endswith(
        "has no topology.json, here or in a folder of it\n"
    )
