"""`sglb tutorial`: an exercise of the P4 tutorials in Mininet, from its own files."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from finsy import P4Schema

from sglb import programs
from sglb.cli import files
from sglb.cli.errors import UserError
from sglb.fabric import topology_files
from sglb.fabric.topology import LinkSpec
from sglb.switch.clock import PS_PER_US

_TOPO = re.compile(r"^TOPO[ \t]*[:?]?=[ \t]*(\S+)", re.MULTILINE)
_PYTHONS = (sys.executable, "/usr/bin/python3", "python3")
#: For links that say nothing; Mininet is told of them nothing, either.
_SPEC = LinkSpec(10**9, PS_PER_US)


class SwitchChoice(StrEnum):
    """What runs the program."""

    SGLB = "sglb"
    BMV2 = "bmv2"


class TestChoice(StrEnum):
    """What to do in place of a prompt."""

    PINGALL = "pingall"
    NONE = "none"


def tutorial_command(
    folder: Annotated[
        Path, typer.Argument(metavar="[DIR]", help="An exercise's folder. [this one]")
    ] = Path(),
    topo: Annotated[
        Path | None,
        typer.Option(
            "--topo",
            "-t",
            metavar="JSON",
            help="[DIR/topology.json, or the one DIR/*/topology.json]",
        ),
    ] = None,
    program: Annotated[
        Path | None,
        typer.Option(
            "--program", metavar="P4", help="For every switch. [what its runtime file was made for]"
        ),
    ] = None,
    solution: Annotated[
        bool, typer.Option("--solution", help="Take programs from DIR/solution.")
    ] = False,
    switch: Annotated[
        SwitchChoice, typer.Option("--switch", help="What runs the program.")
    ] = SwitchChoice.SGLB,
    test: Annotated[
        TestChoice | None,
        typer.Option("--test", help="Do this in place of a prompt; fails if a ping is lost."),
    ] = None,
    script: Annotated[
        Path | None,
        typer.Option("--script", metavar="FILE", help="Mininet commands in place of a prompt."),
    ] = None,
    logs: Annotated[
        Path | None,
        typer.Option("--log-dir", metavar="DIR", help="Logs of the switches. [DIR/logs]"),
    ] = None,
    pcap: Annotated[
        bool, typer.Option("--pcap", help="Capture at every port, beside logs.")
    ] = False,
) -> None:
    """Run an exercise of the P4 tutorials in Mininet, from its topology.json and runtime files.

    All files are checked first. Needs root and Mininet. P4Runtime is on 127.0.0.1:50051 (first switch,
    device 0) and up, as in the tutorials.
    """
    topology = _topology(folder, topo)
    exercise = _Exercise(folder, topology, program, solution)
    exercise.check()
    if os.geteuid():
        raise UserError("Mininet needs root: sudo sglb tutorial ...")
    if script is not None and not os.access(script, os.R_OK):
        raise UserError(f"--script {script}: cannot be read")
    log_dir = logs or folder / "logs"
    files.folder_for("--log-dir", log_dir)
    command = [_python(), str(programs.mininet()), str(topology), f"--switch={switch}"]
    for option, paths in (("programs", exercise.programs), ("entries", exercise.entries)):
        texts = {name: str(path.resolve()) for name, path in paths.items()}
        command.append(f"--{option}={json.dumps(texts)}")
    command += [f"--log-dir={log_dir}"]
    command += [] if test is None else [f"--test={test}"]
    command += [] if script is None else [f"--script={script}"]
    command += ["--pcap"] if pcap else []
    sglb = Path(sys.executable).with_name("sglb")
    os.environ.setdefault("SGLB", str(sglb if sglb.exists() else shutil.which("sglb") or ""))
    sys.stdout.flush()
    os.execvp(command[0], command)


def _of_makefile(folder: Path) -> str:
    """The topology that `make run` takes, "" if the Makefile says none."""
    try:
        text = (folder / "Makefile").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    match = _TOPO.search(text)
    return match[1] if match else ""


def _topology(folder: Path, given: Path | None) -> Path:
    """The topology file. Raises `UserError` when there is none, or a choice."""
    if given is not None:
        return given if given.is_file() else folder / given
    for name in (_of_makefile(folder), "topology.json"):
        if name and (folder / name).is_file():
            return folder / name
    found = sorted(folder.glob("*/topology.json"))
    if len(found) == 1:
        return found[0]
    if found:
        names = ", ".join(str(path) for path in found)
        raise UserError(f"{folder}: has several topologies, choose with --topo: {names}")
    raise UserError(f"{folder}: has no topology.json, here or in a folder of it")


class _Exercise:
    """The files of an exercise. All methods raise what is wrong with them."""

    def __init__(self, folder: Path, topology: Path, program: Path | None, solution: bool) -> None:
        self._topology = topology
        self._given = program
        # What has no solution is given.
        self._homes = [folder / "solution", folder] if solution else [folder]
        topology_files.read(topology, _SPEC, _SPEC)
        switches = json.loads(topology.read_text(encoding="utf-8"))["switches"]
        self._switches: dict[str, dict[str, Any]] = {
            name: params if isinstance(params, dict) else {} for name, params in switches.items()
        }
        self.entries = dict(self._find_entries())
        self.programs = {name: self._program(name) for name in self._switches}

    def check(self) -> None:
        """Compiles the programs and reads what their tables shall hold."""
        schemas = {
            path: P4Schema(files.program(path).p4info) for path in set(self.programs.values())
        }
        for name, path in self.entries.items():
            files.entries(path, schemas[self.programs[name]])

    def _find(self, name: str) -> Path | None:
        return next((home / name for home in self._homes if (home / name).is_file()), None)

    def _find_entries(self) -> Iterator[tuple[str, Path]]:
        for name, params in self._switches.items():
            paths = [params[key] for key in ("runtime_json", "cli_input") if key in params]
            if len(paths) > 1:
                raise UserError(
                    f"{self._topology}: switch {name} has runtime_json and cli_input; keep one of them"
                )
            for path in map(str, paths):
                solved = self._find(Path(path).name) if len(self._homes) > 1 else None
                yield name, solved or self._homes[-1] / path

    def _program(self, name: str) -> Path:
        """The source of what a switch runs: the files name what p4c makes of it."""
        if self._given is not None:
            return self._given
        built = self._switches[name].get("program") or self._built_for(name)
        if isinstance(built, str) and built:
            source = self._find(built if built.endswith(".p4") else f"{Path(built).stem}.p4")
            if source is not None:
                return source
            home = self._homes[-1]
            raise UserError(
                f"{self._topology}: switch {name} runs {built}, but {home} has no source of that name"
            )
        for home in self._homes:
            sources = sorted(home.glob("*.p4"))
            if len(sources) == 1:
                return sources[0]
        raise UserError(
            f"{self._topology}: which program is for switch {name}? Choose with --program"
        )

    def _built_for(self, name: str) -> object:
        if "runtime_json" not in self._switches[name]:
            return None
        try:
            data = json.loads(self.entries[name].read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            return None  # told when the entries are read
        return data.get("bmv2_json") if isinstance(data, dict) else None


def _python() -> str:
    """A Python that has Mininet. Raises `UserError`."""
    for python in _PYTHONS:
        check = [python, "-c", "import mininet.net"]
        if shutil.which(python) and not subprocess.run(check, capture_output=True).returncode:
            return python
    raise UserError("Mininet is not installed: apt-get install mininet")
