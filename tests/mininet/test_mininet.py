"""Mininet itself: fabrics by `mn --custom`, and an exercise from its own files."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from mininet_kit import (
    EXERCISE,
    NODES,
    PATIENCE_S,
    ROOT,
    SGLB,
    alone,
    environment,
    interfaces,
    plain,
    run,
    transcripts,
    why_not,
)

REASON = why_not()
pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(bool(REASON), reason=REASON),
    pytest.mark.timeout(1_200),  # they wait for each other
]

BMV2 = pytest.mark.skipif(
    not all(shutil.which(tool) for tool in ("simple_switch_grpc", "p4c-bm2-ss")),
    reason="needs simple_switch_grpc and p4c-bm2-ss on PATH",
)


@pytest.fixture(autouse=True)
def _one_lab_that_leaves_nothing() -> Iterator[None]:
    with alone():
        before = interfaces()
        yield
        assert interfaces() == before


def tutorial(folder: Path, *options: str, typed: str = "") -> subprocess.CompletedProcess[str]:
    return run(
        [str(SGLB), "tutorial", str(EXERCISE), f"--log-dir={folder}", *options], folder, typed
    )


@pytest.mark.parametrize(("commands", "typed", "expected"), transcripts())
def test_the_transcripts_of_the_docs(
    commands: list[str], typed: list[str], expected: list[str], tmp_path: Path
) -> None:
    folder = ROOT
    for command in commands:
        words = command.split()
        if words[0] == "cd":
            # A copy, as logs go there.
            folder = tmp_path / "exercise"
            shutil.copytree(ROOT / words[1], folder)
        else:
            words[0] = str(SGLB) if words[0] == "sglb" else words[0]
            found = run(words, folder, "".join(f"{line}\n" for line in typed))
    assert found.returncode == 0, found.stderr
    assert [plain(line) for line in found.stderr.splitlines()] == [plain(line) for line in expected]


def test_a_controller_fills_a_fabric_and_leads_around_a_link(tmp_path: Path) -> None:
    """Each ping is sent until one comes back. A switch's log begins with the command."""
    ping = "h0 ping -c 1 -w 60 h1"
    typed = f"{ping}\nlink leaf0 spine0 down\n{ping}\n"
    options = ["--topo", "leafspine,2,2,policy=glb,bw=20", "--switch", f"sglb,log_dir={tmp_path}"]
    mn = ["mn", "--custom", str(NODES), *options, "--controller", "none"]
    found = run(mn, tmp_path, typed)
    assert found.stderr.count(", 1 received,") == 2, found.stderr
    command = (tmp_path / "leaf0.log").read_text().splitlines()[0]
    assert all(f"--rate {port}:20.000000M" in command for port in (1, 2, 3))
    assert (tmp_path / "control.log").read_text() == "ready\n"
    assert {p.name for p in tmp_path.glob("agent-*.log")} == {
        f"agent-{name}.log" for name in ("leaf0", "leaf1", "spine0", "spine1")
    }


def test_hosts_are_what_the_file_says_and_links_too(tmp_path: Path) -> None:
    asked = ("ip -4 -o addr show eth0", "ip neigh", "cat /sys/class/net/eth0/address")
    found = tutorial(tmp_path, "--pcap", typed="".join(f"h2 {command}\n" for command in asked))
    assert found.returncode == 0, found.stderr
    assert " inet 10.0.2.2/24 " in found.stderr
    assert "10.0.2.254 dev eth0 lladdr 08:00:00:00:02:00 PERMANENT" in found.stderr
    assert "\n08:00:00:00:02:22\n" in found.stderr
    command = (tmp_path / "s2.log").read_text().splitlines()[0]
    assert "--port 1:s2-eth1 --port 2:s2-eth2 --rate 2:20.000000M --port 3:s2-eth3" in command
    assert "--grpc 127.0.0.1:50052 --device-id 1 " in command
    assert {p.name for p in (tmp_path / "s1-pcap").iterdir()} == {
        f"{port}_{way}.pcap" for port in (1, 2) for way in ("in", "out")
    }


def test_a_lost_ping_fails(tmp_path: Path) -> None:
    folder = tmp_path / "exercise"
    shutil.copytree(EXERCISE, folder)
    entries = (folder / "s2-runtime.json").read_text()
    (folder / "s2-runtime.json").write_text(entries.replace('"10.0.2.3"', '"10.0.2.4"'))
    options = [f"--log-dir={tmp_path}", "--test", "pingall"]
    found = run([str(SGLB), "tutorial", str(folder), *options], tmp_path)
    assert found.returncode == 1
    assert "h1 -> h2 X" in found.stderr


@pytest.mark.parametrize(
    ("topo", "told"),
    [
        ("leafspine,0,2", "error: leafspine,0,2,1: topology.leaf_spine.leaves: should be greater"),
        ("scenario,/nope.yaml", "error: /nope.yaml: cannot be read: No such file or directory"),
        ("leafspine,2,2,policy=nope", "error: --policy nope: choose one of ecmp, "),
        ("leafspine,2,2,2,2", "error: --topo leafspine,LEAVES,SPINES[,HOSTS"),
    ],
)
def test_a_mistake_in_a_topology_is_one_line_and_removes_nothing(
    topo: str, told: str, tmp_path: Path
) -> None:
    command = ["mn", "--custom", str(NODES), "--switch", "sglb", "--controller", "none"]
    found = run([*command, "--topo", topo], tmp_path)
    assert found.returncode == 1
    assert found.stderr.startswith(told)
    assert len(found.stderr.splitlines()) == 1


def test_a_script_that_cannot_be_read_starts_nothing(tmp_path: Path) -> None:
    found = tutorial(tmp_path, "--script", "/nope")
    assert (found.returncode, found.stdout) == (1, "")
    assert found.stderr == "error: --script /nope: cannot be read\n"


def test_a_port_in_use_is_told_and_all_is_removed(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", 50052))
        taken.listen()
        found = tutorial(tmp_path, "--test", "none")
    assert found.returncode == 1
    assert "error: s2: 127.0.0.1:50052 is in use" in found.stderr
    assert "Traceback" not in found.stderr


@pytest.mark.parametrize("under_mn", [True, False])
def test_an_interface_in_the_way_is_told_and_stays(under_mn: bool, tmp_path: Path) -> None:
    name = "leaf0-eth1" if under_mn else "s1-eth1"
    subprocess.run(["ip", "link", "add", name, "type", "veth", "peer", "in-the-way"], check=True)
    try:
        before = interfaces()
        if under_mn:
            command = ["mn", "--custom", str(NODES), "--switch", "sglb", "--controller", "none"]
            found = run([*command, "--topo", "leafspine,1,1"], tmp_path)
        else:
            found = tutorial(tmp_path, "--test", "none")
        assert interfaces() == before
    finally:
        subprocess.run(["ip", "link", "del", name], check=True)
    assert found.returncode == 1
    last = found.stderr.splitlines()[-1]
    assert last.startswith("error: Error creating interface pair")
    assert last.endswith("File exists: is another lab running, or was one killed?")
    assert "Traceback" not in found.stderr
    assert "Cleaning up" not in found.stderr


def test_what_fails_under_mn_is_a_line_and_status_1_and_nothing_else_is_removed(
    tmp_path: Path,
) -> None:
    """mn by itself would remove other labs too, and end with 0."""
    command = ["mn", "--custom", str(NODES), "--switch", "sglb", "--controller", "none"]
    command += ["--topo", "leafspine,1,1"]
    died = run(command, tmp_path, "py spine0.process.kill()\npy spine0.process.wait()\n")
    assert (died.returncode, died.stderr.splitlines()[-1]) == (
        1,
        "error: spine0 ended with signal 9",
    )
    with socket.create_server(("127.0.0.1", 50052)):
        taken = run(command, tmp_path)
    assert taken.returncode == 1
    assert taken.stderr.splitlines()[-1] == "error: spine0: 127.0.0.1:50052 is in use"
    assert "Cleaning up" not in died.stderr + taken.stderr


@BMV2
def test_bmv2_runs_the_same_files(tmp_path: Path) -> None:
    found = tutorial(tmp_path, "--switch", "bmv2", "--test", "pingall")
    assert found.returncode == 0, found.stderr
    assert "*** Results: 0% dropped (6/6 received)" in found.stderr


def children(pid: int) -> set[int]:
    path = Path(f"/proc/{pid}/task/{pid}/children")
    return {int(text) for text in path.read_text().split()}


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_switches_end_with_mininet(how: signal.Signals, tmp_path: Path) -> None:
    command = [str(SGLB), "tutorial", str(EXERCISE), f"--log-dir={tmp_path}"]
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env=environment(),
    )
    try:
        assert process.stderr is not None
        while "Starting CLI" not in process.stderr.readline():
            assert process.poll() is None
        mine = children(process.pid)
        assert len(mine) >= 5  # two switches, three hosts
        process.send_signal(how)
        assert process.wait(PATIENCE_S) == (143 if how is signal.SIGTERM else -how)
        deadline = time.monotonic() + PATIENCE_S
        while any(alive(pid) for pid in mine) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not [pid for pid in mine if alive(pid)]
    finally:
        process.kill()
        process.communicate()
        for name in interfaces():  # what Mininet leaves after kill -9
            if name in ("s1-eth2", "s2-eth2"):
                subprocess.run(["ip", "link", "del", name], check=False, capture_output=True)
