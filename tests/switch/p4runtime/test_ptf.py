"""PTF's own runner on a live switch: its packets on veth, its tests in `ptf_suite`."""

import contextlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from client_venv import PTF, client_venv

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
SUITE = HERE / "ptf_suite"

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
    pytest.mark.skipif(shutil.which("ip") is None, reason="needs ip (iproute2)"),
]


def ip(*words):
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"ip {' '.join(words)}: {done.stderr.strip()}")


@pytest.fixture
def namespace():
    """A namespace with two cables, p1 to h1 and p2 to h2."""
    name = f"ptf{os.getpid()}"
    ip("netns", "add", name)
    try:
        inside = ("netns", "exec", name, "sysctl", "-qw")
        ip(*inside, "net.ipv6.conf.default.disable_ipv6=1")  # no frames but the tests'
        ip("-n", name, "link", "set", "lo", "up")
        for n in (1, 2):
            ip("-n", name, "link", "add", f"h{n}", "type", "veth", "peer", "name", f"p{n}")
            for end in (f"h{n}", f"p{n}"):
                ip("-n", name, "link", "set", end, "up")
        yield name
    finally:
        subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)


@contextlib.contextmanager
def switch(namespace, *words):
    """`sglb switch` between the cables; where it listens."""
    command = [sys.executable, "-c", "from sglb.cli import main; main()", "switch", *words]
    command += ["--grpc", "127.0.0.1:0", "--port", "1:p1", "--port", "2:p2"]
    with subprocess.Popen(
        ["ip", "netns", "exec", namespace, *command], stdout=subprocess.PIPE, text=True, cwd=ROOT
    ) as process:
        try:
            yield process.stdout.readline().split()[2].rstrip(",")
            process.terminate()
            assert process.wait(30) == 0
        finally:
            process.kill()


def test_ptf_runs_its_suite(namespace, tmp_path):
    bin_folder = client_venv(PTF, "ptf, p4runtime_sh.shell")
    with switch(namespace, "tests/programs/router.p4") as address:
        done = subprocess.run(
            [
                *("ip", "netns", "exec", namespace, bin_folder / "ptf"),
                *("--test-dir", SUITE, "--interface", "1@h1", "--interface", "2@h2"),
                *("--test-params", f"grpc='{address}'", "--log-dir", tmp_path),
            ],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            timeout=120,
            check=False,
        )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^Ran 4 tests ", done.stdout + done.stderr, re.MULTILINE)
