"""Ctrl-C and SIGTERM, to the whole process group as terminals send it, at moments that are certain."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

COMMAND = [sys.executable, "-c", "from sglb.cli import main; main()"]
PATIENCE_S = 120

SCENARIO = """\
name: small
topology:
  leaf_spine: {leaves: 2, spines: 2, hosts_per_leaf: 1}
workload:
  flows:
    - {src: h0, dst: h1, bytes: 1000}
policies: [spray, dlb, glb]
"""


@contextmanager
def started(command: list[str], **variables: str) -> Iterator[subprocess.Popen[str]]:
    """A process in a group of its own; all of the group is gone afterwards."""
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env=os.environ | variables,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def interrupt(
    process: subprocess.Popen[str], number: signal.Signals = signal.SIGINT
) -> tuple[int, str, str]:
    os.killpg(process.pid, number)
    out, err = process.communicate(timeout=PATIENCE_S)
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)  # no child is left
    return process.returncode, out, err


def wait_for(process: subprocess.Popen[str], *files: Path) -> None:
    end_s = time.monotonic() + PATIENCE_S
    while not all(file.exists() for file in files):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end_s, [file.name for file in files if not file.exists()]
        time.sleep(0.01)


@pytest.fixture
def stuck(tmp_path: Path) -> dict[str, str]:
    """An installed control plane `stuck`: see stuck_control."""
    info = tmp_path / "site" / "stuck-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: stuck\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[sglb.control_planes]\nstuck = stuck_control:Stuck\n")
    here = str(Path(__file__).parent)
    return {
        "PYTHONPATH": os.pathsep.join([str(tmp_path / "site"), here, *sys.path]),
        "STUCK_DIR": str(tmp_path),
    }


@pytest.mark.parametrize(
    ("jobs", "all_stuck", "number"),
    [
        (1, ["dlb"], signal.SIGINT),  # in this process, one after the other
        (2, ["dlb", "glb"], signal.SIGINT),  # glb takes the place of spray, which has finished
        (1, ["dlb"], signal.SIGTERM),
        (2, ["dlb", "glb"], signal.SIGTERM),
    ],
)
def test_an_interrupted_run_tells_what_it_knows(
    tmp_path: Path,
    stuck: dict[str, str],
    jobs: int,
    all_stuck: list[str],
    number: signal.Signals,
) -> None:
    (tmp_path / "small.yaml").write_text(SCENARIO)
    options = ["--control-plane", "stuck", "--json", str(tmp_path / "out.json"), "-j", str(jobs)]
    command = [*COMMAND, "run", str(tmp_path / "small.yaml"), *options]
    with started(command, **stuck) as process:
        wait_for(process, *(tmp_path / policy for policy in all_stuck))
        code, out, err = interrupt(process, number)
    assert (code, err) == (128 + number, "interrupted: 1 of 3 policies had finished\n")
    rows = [
        line.split()[0] for line in out.splitlines() if line[:6] in ("spray ", "dlb   ", "glb   ")
    ]
    assert rows == ["spray"]
    data = json.loads((tmp_path / "out.json").read_text())
    assert data["interrupted"] is True
    assert {name: p["completed"] for name, p in data["policies"].items()} == {"spray": True}


def test_a_run_that_knows_nothing_yet_says_only_that(tmp_path: Path, stuck: dict[str, str]) -> None:
    (tmp_path / "small.yaml").write_text(SCENARIO)
    options = ["--control-plane", "stuck", "-p", "dlb", "-p", "glb", "-j", "2", "--json", "-"]
    with started([*COMMAND, "run", str(tmp_path / "small.yaml"), *options], **stuck) as process:
        wait_for(process, tmp_path / "dlb", tmp_path / "glb")
        code, out, err = interrupt(process)
    assert (code, err) == (130, "interrupted: 0 of 2 policies had finished\n")
    assert json.loads(out)["policies"] == {}


def test_workers_end_when_the_run_is_killed(tmp_path: Path, stuck: dict[str, str]) -> None:
    (tmp_path / "small.yaml").write_text(SCENARIO)
    options = ["--control-plane", "stuck", "-p", "dlb", "-p", "glb", "-j", "2"]
    with started([*COMMAND, "run", str(tmp_path / "small.yaml"), *options], **stuck) as process:
        wait_for(process, tmp_path / "dlb", tmp_path / "glb")
        process.kill()
        # The workers hold the other ends of these pipes: they are closed when all have ended.
        assert process.communicate(timeout=PATIENCE_S) == ("", "")


SIGINT_AT_IMPORT = """\
import os, signal, sys
from sglb.cli import main
class AtImport:
    def find_spec(self, name, path=None, target=None):
        if name == "sglb.fabric.run":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, AtImport())
main(["run", "--help"])
"""


def test_an_interruption_while_modules_are_imported_is_one_line() -> None:
    found = subprocess.run([sys.executable, "-c", SIGINT_AT_IMPORT], capture_output=True, text=True)
    assert (found.returncode, found.stdout, found.stderr) == (130, "", "interrupted\n")


def test_an_interruption_before_the_run_is_one_line_and_leaves_no_file(tmp_path: Path) -> None:
    (tmp_path / "small.yaml").write_text(SCENARIO)
    os.mkfifo(tmp_path / "program.p4")
    options = ["--program", str(tmp_path / "program.p4"), "--json", str(tmp_path / "out.json")]
    with (
        started([*COMMAND, "run", str(tmp_path / "small.yaml"), *options]) as process,
        (tmp_path / "program.p4").open("wb"),  # opens when the other side reads
    ):
        answer = interrupt(process)
    assert answer == (130, "", "interrupted\n")
    assert not (tmp_path / "out.json").exists()


def test_a_process_that_is_to_ignore_sigint_does() -> None:
    code = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n" + SIGINT_AT_IMPORT
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert found.returncode == 0
    assert found.stdout.startswith("Usage: ")
