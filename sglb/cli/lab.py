"""`sglb export`, `sglb load`: fabrics as files of the P4 tutorials, such files into any switch."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Final

import finsy as fy
import typer

from controller.export import STATIC_POLICIES, export, export_controlled
from sglb import programs
from sglb.cli import files
from sglb.cli.arguments import Define, Include
from sglb.cli.errors import UserError
from sglb.fabric import scenario as scenarios
from sglb.fabric.live.scaled import default_scale, scaled
from sglb.fabric.scenario import Scenario
from sglb.fabric.schema import POLICIES
from sglb.fabric.schema_workload import WorkloadBlock
from sglb.switch.p4runtime.load import load

_SHAPES: Final = {
    "leafspine": ("leaf_spine", ("leaves", "spines", "hosts_per_leaf")),
    "clos3": (
        "clos3",
        ("pods", "leaves_per_pod", "spines_per_pod", "cores_per_spine", "hosts_per_leaf"),
    ),
    "fattree": ("clos3", ("k",)),
}
_MBPS: Final = 10**6
_SHAPE: Final = re.compile(r"([a-z0-9]+)((?:,[0-9]{1,5})+)\Z")


def fabric(text: str) -> Scenario:
    """A scenario file, or `leafspine,LEAVES,SPINES[,HOSTS]` and its like. Raises `UserError`."""
    match = _SHAPE.match(text)
    if match is None or match[1] not in _SHAPES:
        path = Path(text)
        if path.suffix in (".yaml", ".yml"):
            return files.scenario(path)
        known = " or ".join(
            f"{name},{','.join(keys).upper()}" for name, (_, keys) in _SHAPES.items()
        )
        raise UserError(f"{text}: write a scenario file (.yaml), or {known}")
    kind, keys = _SHAPES[match[1]]
    numbers = [int(n) for n in match[2][1:].split(",")]
    if match[1] == "leafspine" and len(numbers) == 2:
        numbers.append(1)
    if len(numbers) != len(keys):
        raise UserError(f"{text}: {match[1]} takes {len(keys)} numbers: {', '.join(keys)}")
    return scenarios.from_dict(
        {
            "topology": {kind: dict(zip(keys, numbers, strict=True))},
            # None of its own, which no file could say: whoever is on its hosts sends.
            "workload": WorkloadBlock.model_construct(flows=[]),
        },
        text,
    )


def in_real_time(scenario: Scenario, mbps: float | None) -> Scenario:
    """The scenario at rates that one machine can follow, or with its fastest link at `mbps`."""
    if mbps is None:
        return scaled(scenario, default_scale(scenario), "lab")
    fastest_bps = max(link.spec.rate_bps for link in scenario.topology.links)
    return scaled(scenario, max(1, round(fastest_bps / (mbps * _MBPS))), "lab")


def export_command(
    what: Annotated[
        str,
        typer.Argument(
            metavar="FABRIC",
            help="A scenario (.yaml), leafspine,LEAVES,SPINES[,HOSTS A LEAF], clos3,... or fattree,K.",
        ),
    ],
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Made if it is not there.")],
    policy: Annotated[
        str, typer.Option("--policy", "-p", metavar="NAME", help="How paths are chosen.")
    ] = "flowlet",
    mbps: Annotated[
        float | None,
        typer.Option(
            "--mbps",
            min=0.001,
            max=1e8,
            metavar="N",
            help="Rate of the fastest link; the others follow.",
        ),
    ] = None,
) -> None:
    """Write a fabric as topology.json and, if no controller is needed, a runtime file a switch.

    dlb and glb need one: `sglb control`, which fills the switches. They also need rates; without
    --mbps these are what one machine can follow.
    """
    scenario = fabric(what)
    chosen = next((name for name in POLICIES if name == policy), None)
    if chosen is None:
        raise UserError(f"--policy {policy}: choose one of {', '.join(POLICIES)}")
    program = programs.glb()
    folder.mkdir(parents=True, exist_ok=True)
    if chosen in STATIC_POLICIES:
        schema = fy.P4Schema(files.program(program).p4info)
        export(scenario, chosen, folder, schema, program, mbps)
    else:
        path = Path(what)
        named = str(path.resolve()) if path.is_file() else what
        export_controlled(in_real_time(scenario, mbps), chosen, folder, program, named, mbps)
    typer.echo(
        f"{folder / 'topology.json'}: {len(scenario.topology.switches)} switches, "
        f"{len(scenario.topology.hosts)} hosts"
    )


def load_command(
    program: Annotated[Path, typer.Argument(metavar="PROGRAM.p4")],
    entries: Annotated[Path, typer.Argument(metavar="FILE", help="As of `sglb switch --entries`.")],
    grpc: Annotated[
        str, typer.Option("--grpc", metavar="HOST:PORT", help="The switch's P4Runtime server.")
    ] = "127.0.0.1:9559",
    device_id: Annotated[int, typer.Option("--device-id", min=0, metavar="N")] = 1,
    device_config: Annotated[
        Path | None,
        typer.Option(
            "--device-config",
            metavar="FILE",
            help="What the switch is to run: for BMv2, the JSON that p4c wrote. [what it runs already]",
        ),
    ] = None,
    include: Include = None,
    define: Define = None,
) -> None:
    """Load a program and the entries of a file into any P4Runtime switch."""
    compiled = files.program(program, include, define)
    schema = fy.P4Schema(compiled.p4info)
    updates = files.entries(entries, schema)
    blob = b"" if device_config is None else device_config.read_bytes()
    load(grpc, device_id, compiled.p4info, blob, updates)
    typer.echo(f"{grpc}: {len(updates)} entries written")
