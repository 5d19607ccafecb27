"""`sglb control`: controllers and agents for a fabric of switches that run already."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Final

import typer

from sglb.cli import files
from sglb.cli.errors import UserError
from sglb.cli.lab import fabric, in_real_time
from sglb.fabric.scenario import Scenario
from sglb.fabric.schema import POLICIES

_MBPS: Final = 10**6
#: `sglb switch`, like BMv2, tells queue depths in packets: these are Ethernet's.
_PACKET_BYTES: Final = 1_500
_AT: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_.]*)=(unix:\S+|(?:[^\s:]+|\[\S+\]):([0-9]{1,5}))\Z")
_MAX_TCP_PORT: Final = 65_535


def control_command(
    what: Annotated[str, typer.Argument(metavar="FABRIC", help="As of `sglb export`.")],
    switch: Annotated[
        list[str],
        typer.Option(
            "--switch", metavar="NAME=HOST:PORT", help="P4Runtime of a switch, for each of them."
        ),
    ],
    policy: Annotated[
        str, typer.Option("--policy", "-p", metavar="NAME", help="How paths are chosen.")
    ] = "glb",
    mbps: Annotated[
        float | None,
        typer.Option("--mbps", min=0.001, max=1e8, metavar="N", help="As of `sglb export`."),
    ] = None,
    log_dir: Annotated[
        Path | None, typer.Option("--log-dir", metavar="DIR", help="Keep logs here at the end.")
    ] = None,
) -> None:
    """Control a fabric of running switches: a controller, a standby and, for glb, an agent a switch.

    Device ids are those of `sglb export`. Says `ready` once all switches are filled. Ends with 0 on
    SIGINT or SIGTERM; with 1 if a process of its own had failed, though another took its place.
    """
    # Here, as these load gRPC and more.
    from controller.live.standalone import control, keep_logs
    from sglb.fabric.live.folders import private_folder

    scenario = in_real_time(fabric(what), mbps)
    chosen = next((p for p in POLICIES if p == policy), None)
    if chosen is None:
        raise UserError(f"--policy {policy}: choose one of {', '.join(POLICIES)}")
    model = scenario.model.model_copy(update={"policies": [chosen]})
    scenario = replace(scenario, model=model)
    addresses = _addresses(scenario, switch)
    if log_dir is not None:
        files.folder_for("--log-dir", log_dir)
    with private_folder() as folder:
        try:
            asyncio.run(
                control(
                    scenario,
                    chosen,
                    addresses,
                    folder,
                    _PACKET_BYTES,
                    lambda: typer.echo("ready"),
                    _tell_slow,
                    lambda how: typer.echo(f"{how}; it is started anew", err=True),
                )
            )
        finally:
            if log_dir is not None:
                keep_logs(folder, log_dir)


def _tell_slow(silent: list[str]) -> None:
    what = "all switches answer, but are not filled yet (--log-dir keeps logs)"
    if silent:
        what = f"no answer from {', '.join(silent)}"
    typer.echo(f"{what}; still trying", err=True)


def _addresses(scenario: Scenario, given: list[str]) -> dict[int, str]:
    """Address by switch id. Raises `UserError` for a switch without one, or one that is none."""
    ids = {node.name: node.id for node in scenario.topology.switches}
    found: dict[int, str] = {}
    for text in given:
        match = _AT.match(text)
        if match is None:
            raise UserError(f"--switch {text}: write NAME=HOST:PORT, as in leaf0=127.0.0.1:50051")
        if match[1] not in ids:
            raise UserError(f"--switch {text}: the fabric has no switch of that name")
        if int(match[3] or 0) > _MAX_TCP_PORT:
            raise UserError(f"--switch {text}: ports go up to {_MAX_TCP_PORT}")
        found[ids[match[1]]] = match[2]
    missing = [name for name, switch_id in ids.items() if switch_id not in found]
    if missing:
        raise UserError(f"--switch {missing[0]}=HOST:PORT is missing")
    return found
