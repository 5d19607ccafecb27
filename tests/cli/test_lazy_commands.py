"""Commands are imported when they are asked for, and errors known by name."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module

import pytest

from sglb.cli.app import COMMANDS
from sglb.cli.errors import PLACED, PLAIN

_LIST = "import sys; from sglb.cli import main; sys.argv[1:] = ['--help']"
_HEAVY = "print({'numpy', 'finsy', 'networkx', 'pydantic', 'llvmlite', 'numba'} & set(sys.modules))"


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_is_where_the_list_says(name: str) -> None:
    command = COMMANDS[name].load(name)
    assert command.name in (name, None)
    assert command.help


@pytest.mark.parametrize("name", sorted(PLACED | PLAIN))
def test_an_error_is_where_its_name_says(name: str) -> None:
    module, _, kind = name.rpartition(".")
    found = getattr(import_module(module), kind)
    assert issubclass(found, Exception)
    assert f"{found.__module__}.{found.__qualname__}" == name


def test_the_list_of_commands_needs_none_of_them() -> None:
    code = f"{_LIST}\ntry: main()\nexcept SystemExit: {_HEAVY}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("set()\n")
    assert "  savings " in done.stdout
