"""Virtual environments of their own for client libraries whose pins do not suit ours.

Made once with pip and kept in the user's cache folder, so that only the first run waits. Where one
cannot be made (no network, no pip, a Python that the client is too old for), the reason is kept for
a while too, and tests skip with it.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

#: How long a failure counts.
RETRY_S = 6 * 3600
PATIENCE_S = 240

#: The shell wants protobuf 3, so it cannot live beside finsy.
P4RUNTIME_SHELL = ("p4runtime-shell==0.0.6",)
PTF = ("ptf==0.12.0", "p4runtime-shell==0.0.6")


def _root() -> Path:
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "sglb" / "client-venvs"


def client_venv(requirements: tuple[str, ...], module: str) -> Path:
    """The bin folder of an environment with these, in which `module` can be imported.

    Skips the test with the reason when there is none.
    """
    mark = hashlib.sha256(repr((requirements, sys.version_info[:3])).encode()).hexdigest()[:12]
    folder = _root() / mark
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # workers of one run wait for the first
        problem = _make(folder, requirements, module)
    if problem:
        pytest.skip(f"no environment with {' and '.join(requirements)}: {problem}")
    return folder / "bin"


def _make(folder: Path, requirements: tuple[str, ...], module: str) -> str:
    """Makes it unless it is there; why that failed, or ''."""
    ready, failed = folder / "ready", folder.with_suffix(".failed")
    if ready.exists():
        return ""
    if failed.exists() and time.time() - failed.stat().st_mtime < RETRY_S:
        return failed.read_text()
    shutil.rmtree(folder, ignore_errors=True)
    python = folder / "bin" / "python"
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    steps = (
        [sys.executable, "-m", "venv", folder],
        [*pip, "--retries", "1", "--timeout", "10", *requirements],
        [python, "-c", f"import {module}"],
    )
    for step in steps:
        problem = _run(step)
        if problem:
            shutil.rmtree(folder, ignore_errors=True)
            failed.write_text(problem)
            return problem
    ready.touch()
    failed.unlink(missing_ok=True)
    return ""


def _run(command: list[object]) -> str:
    """The last line of what a command has to complain of, '' when it succeeds."""
    words = [str(word) for word in command]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE_S)
    except subprocess.TimeoutExpired:
        return f"{words[-1]}: not done after {PATIENCE_S} s"
    if done.returncode == 0:
        return ""
    said = (done.stderr or done.stdout).strip().splitlines()
    return said[-1] if said else f"{words[0]} ended with {done.returncode}"
