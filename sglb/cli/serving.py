"""`sglb switch`: one switch in real time."""

from __future__ import annotations

import re
from dataclasses import replace

import typer

from sglb.cli.errors import UserError
from sglb.p4.compiler import CompiledProgram
from sglb.switch.live import LiveSwitch, ServeOptions, serve

_RANGE = re.compile(r"([0-9]{1,3})(?:-([0-9]{1,3}))?\Z")
_MAX_PORT = 511
_ADDRESS = re.compile(r"(?:\[[0-9a-fA-F:.%]+\]|[^\s:\[\]]+):([0-9]{1,5})\Z")


def parse_ports(text: str) -> tuple[int, ...]:
    """Port numbers of `4` (1 to 4) or `0,2-5`. Raises `UserError`."""
    if not text:
        return ()
    if text.isdecimal() and text.isascii() and 0 < int(text) <= _MAX_PORT:
        return tuple(range(1, int(text) + 1))
    found: set[int] = set()
    for part in text.split(","):
        match = _RANGE.match(part.strip())
        first = int(match[1]) if match else 0
        last = int(match[2] or match[1]) if match else -1
        if not first <= last <= _MAX_PORT:
            raise UserError(
                f"--ports {text}: write how many, or numbers up to {_MAX_PORT} such as 0,2-5"
            )
        found |= set(range(first, last + 1))
    return tuple(sorted(found))


def check_address(text: str) -> None:
    """Raises `UserError` unless the text is HOST:PORT; gRPC itself takes port 99999 for another."""
    match = _ADDRESS.match(text)
    if match is None or int(match[1]) > 65_535:
        raise UserError(f"--grpc {text}: write HOST:PORT with a port up to 65535, 0 for any")


def serve_switch(program: CompiledProgram | None, options: ServeOptions) -> None:
    """Serve until SIGINT or SIGTERM. Raises as `sglb.switch.live.serve`, ValueErrors as `UserError`."""
    try:
        serve(program, replace(options, on_ready=_tell))
    except ValueError as error:
        raise UserError(str(error)) from error


def _tell(live: LiveSwitch) -> None:
    # One line on standard output, so that a script can wait for it and read the port.
    ports = [n for n in sorted(live.switch.ports) if n != live.switch.config.cpu_port]
    typer.echo(f"P4Runtime on {live.address}, device {live.switch.device_id}, ports {ports}")
