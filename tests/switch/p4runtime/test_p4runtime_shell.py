"""p4runtime-shell as the client: the sessions of docs/p4runtime.md are replayed in it, word by word."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from client_venv import P4RUNTIME_SHELL, client_venv

ROOT = Path(__file__).parents[3]
DOC = (ROOT / "docs" / "p4runtime.md").read_text()
PROMPT = "P4Runtime sh >>> "
_CODES = re.compile(r"\x1b\[[0-9;]*[a-zA-Z]|\x1b\][^\x07]*\x07")


@pytest.fixture(scope="module")
def shell():
    """The Python of an environment with p4runtime-shell."""
    return client_venv(P4RUNTIME_SHELL, "p4runtime_sh.shell") / "python"


def transcripts():
    """(arguments of `sglb switch`, those of the shell, [(line typed, answer)]) of each session."""
    found = []
    for block in re.findall(r"```console\n(.*?)```", DOC, re.DOTALL):
        if PROMPT not in block:
            continue
        head, *steps = block.split(PROMPT)
        switch = re.search(r"^\$ sglb switch (.*) &$", head, re.MULTILINE)[1]
        client = re.search(r"^\$ python3? -m p4runtime_sh (.*)$", head, re.MULTILINE)[1]
        typed = [step.partition("\n") for step in steps]
        found.append((switch, client, [(line, answer) for line, _, answer in typed]))
    return found


@pytest.mark.parametrize("number", range(2))
def test_a_session_goes_as_the_manual_says(shell, number, tmp_path):
    switch, client, steps = transcripts()[number]
    command = [sys.executable, "-c", "from sglb.cli import main; main()", "switch"]
    port = re.search(r"127\.0\.0\.1:([0-9]+)", client)[1]
    words = [*switch.split(), "--grpc", "127.0.0.1:0"]
    with subprocess.Popen(
        [*command, *words], stdout=subprocess.PIPE, text=True, cwd=ROOT
    ) as server:
        try:
            address = server.stdout.readline().split()[2].rstrip(",")
            said = _type(shell, client.replace(f"127.0.0.1:{port}", address), steps, tmp_path)
        finally:
            server.kill()
    assert len(said) == len(steps), said
    for (line, expected), answer in zip(steps, said, strict=True):
        assert (line, _tidy(answer)) == (line, _tidy(expected))


def _type(shell, arguments, steps, home):
    """What the shell answers to each line."""
    text = "".join(f"{line}\n" for line, _ in steps)
    # A home of its own, so that nobody's IPython settings or history come into it.
    env = {**os.environ, "HOME": str(home), "IPYTHONDIR": str(home), "TERM": "dumb"}
    done = subprocess.run(
        [shell, "-m", "p4runtime_sh", *arguments.split()],
        input=text,
        capture_output=True,
        text=True,
        env=env,
        cwd=ROOT,
        timeout=120,
        check=False,
    )
    # At the end of its input it asks whether that is meant: the last prompt is no line of ours.
    return _CODES.sub("", done.stdout).split(PROMPT)[1:-1]


def _tidy(answer):
    """An answer without blank lines, and an error as its last words."""
    lines = [line.expandtabs(4).rstrip() for line in answer.splitlines() if line.strip()]
    for i, line in enumerate(lines):
        if line.startswith(("P4RuntimeWriteException:", "UserError:")):
            return lines[i:]
    return lines


def test_both_sessions_are_there():
    assert len(transcripts()) == 2
