"""What tests of Mininet share: why they cannot run, one lab at a time, transcripts of the docs."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]
EXERCISE = Path(__file__).with_name("exercise")
NODES = ROOT / "mininet" / "sglb_mn.py"
SGLB = Path(sys.executable).with_name("sglb")
PATIENCE_S = 240


def why_not() -> str:
    """Why no lab can be made here, or ''."""
    if os.geteuid() != 0:
        return "needs root"
    if shutil.which("mn") is None or shutil.which("ping") is None:
        return "needs Mininet and ping: apt-get install mininet iputils-ping"
    name = f"sglb-mn-probe-{os.getpid()}"
    probe = ["ip", "netns", "exec", name, "ip", "link", "add", "name", "a", "type", "veth"]
    try:
        subprocess.run(["ip", "netns", "add", name], capture_output=True, check=True)
        subprocess.run(probe, capture_output=True, check=True)
    except subprocess.CalledProcessError:
        return "needs network namespaces and veth in the kernel"
    finally:
        subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)
    return ""


@contextmanager
def alone() -> Iterator[None]:
    """One lab at a time: their interfaces and P4Runtime ports have the same names."""
    with (Path(tempfile.gettempdir()) / "sglb-mininet-tests.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def environment() -> dict[str, str]:
    """Where labs run."""
    return {**os.environ, "SGLB": str(SGLB)}


def run(command: list[str], folder: Path, typed: str = "") -> subprocess.CompletedProcess[str]:
    """A command's end; what Mininet says is on standard error."""
    return subprocess.run(
        command,
        cwd=folder,
        input=typed,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        env=environment(),
    )


def interfaces() -> set[str]:
    """Those of this namespace that Mininet made, by name: a switch's end of a cable is `s1-eth1`."""
    names = (path.name for path in Path("/sys/class/net").iterdir())
    return {name for name in names if re.fullmatch(r"\w+-eth\d+", name)}


def transcripts() -> list[tuple[list[str], list[str], list[str]]]:
    """Of docs/mininet.md: commands, what is typed at Mininet's prompt, what comes back."""
    text = (ROOT / "docs" / "mininet.md").read_text()
    found = []
    for block in re.findall(r"^```console\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        lines = block.splitlines()
        commands = [line[2:] for line in lines if line.startswith("# ")]
        typed = [line.removeprefix("mininet> ") for line in lines if line.startswith("mininet> ")]
        rest = [line for line in lines if not line.startswith(("# ", "mininet> "))]
        found.append((commands, typed, rest))
    return found


def plain(line: str) -> str:
    """A line without what differs from run to run."""
    return re.sub(r"\d+\.\d+ seconds", "N seconds", line).rstrip()
