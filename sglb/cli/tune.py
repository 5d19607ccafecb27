"""`sglb tune`: a scenario with its watermarks as they are, and tuned while it runs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from sglb.cli import files
from sglb.cli.errors import UserError
from sglb.cli.tune_outputs import Outputs
from sglb.cli.tune_simulated import tune_simulated


def tune_command(
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="A scenario in YAML; not with --sonic.")
    ] = None,
    policy: Annotated[
        str | None, typer.Option("--policy", "-p", metavar="NAME", help="[the scenario's first]")
    ] = None,
    throughput: Annotated[
        float, typer.Option("--throughput", min=0, metavar="W", help="Weight of throughput.")
    ] = 0.4,
    delay: Annotated[
        float, typer.Option("--delay", min=0, metavar="W", help="Weight of short queues.")
    ] = 0.4,
    pauses: Annotated[
        float, typer.Option("--pauses", min=0, metavar="W", help="Weight of few pauses.")
    ] = 0.2,
    interval_us: Annotated[
        float | None,
        typer.Option(
            "--interval-us",
            min=10,
            max=86_400e6,  # a day
            metavar="US",
            help="Between two settings. [1000; live, bmv2 500000; with --sonic 10000000]",
        ),
    ] = None,
    seed: Annotated[
        int | None, typer.Option("--seed", metavar="N", help="Instead of the scenario's seed.")
    ] = None,
    json_file: Annotated[
        Path | None,
        typer.Option("--json", metavar="FILE", help="Write every step to FILE (- for stdout)."),
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option("--html", metavar="FILE", help="Draw it on a page, both runs and the search."),
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option(
            "--resume",
            metavar="FILE",
            help="Keep in FILE what has ended (on SONiC: each interval); go on from there.",
        ),
    ] = None,
    repeat: Annotated[
        int, typer.Option("--repeat", min=1, metavar="N", help="With N seeds, one after another.")
    ] = 1,
    model: Annotated[
        bool, typer.Option("--model/--no-model", help="Let the fluid model lead the search.")
    ] = True,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No table and no progress.")] = False,
    on: Annotated[
        str,
        typer.Option(
            "--on",
            metavar="sim|live|bmv2",
            help="Simulated, or live switches: ours, or BMv2 (both need root).",
        ),
    ] = "sim",
    sonic: Annotated[
        list[str] | None,
        typer.Option(
            "--sonic",
            metavar="HOST",
            help="Tune this SONiC switch (HOST[:PORT] or unix:PATH of its Redis); repeatable.",
        ),
    ] = None,
    guard: Annotated[
        Path | None,
        typer.Option(
            "--guard", metavar="FILE", help="What may be tuned of SONiC, and within what."
        ),
    ] = None,
    pool_bytes: Annotated[
        int | None,
        typer.Option(
            "--pool-bytes",
            min=1,
            max=1 << 40,
            metavar="BYTES",
            help="What lossless traffic shares on SONiC. [as BUFFER_POOL says]",
        ),
    ] = None,
    rtt_us: Annotated[
        float | None,
        typer.Option(
            "--rtt-us",
            min=0.1,
            max=1e6,
            metavar="US",
            help="A round trip without queues, which delays on SONiC are judged against. [10]",
        ),
    ] = None,
    apply: Annotated[
        bool, typer.Option("--apply", help="Write to SONiC; without it, show the first step.")
    ] = False,
    journal: Annotated[
        Path,
        typer.Option("--journal", metavar="FILE", help="Where a write to SONiC is noted first."),
    ] = Path("sonic-journal.jsonl"),
    intervals: Annotated[
        int | None,
        typer.Option(
            "--intervals", min=1, metavar="N", help="Then end, on SONiC. [Ctrl-C ends it]"
        ),
    ] = None,
) -> None:
    """Run a scenario twice, as it is and with the tuner at work, and compare. Or tune SONiC switches.

    The tuner sees what switches report (bytes sent, queue depths, pauses, losses) and sets what
    marks and pauses: Kmin, Kmax, Pmax, alpha and XON.
    """
    from sglb.watermark.objective import Weights
    from sglb.watermark.tuner.fabric import Timing
    from sglb.watermark.tuner.session import Options

    weights = Weights(throughput, delay, pauses)
    outputs = Outputs(json_file, html, resume)
    _refuse(
        "--sonic" if sonic else f"--on {on}" if on != "sim" else "a simulated scenario",
        {
            "--guard": not sonic and guard is not None,
            "--pool-bytes": not sonic and pool_bytes is not None,
            "--rtt-us": not sonic and rtt_us is not None,
            "--apply": not sonic and apply,
            "--intervals": not sonic and intervals is not None,
            "--policy": bool(sonic) and policy is not None,
            "--on": bool(sonic) and on != "sim",
            "--repeat": (bool(sonic) or on != "sim") and repeat != 1,
        },
    )
    if sonic:
        if file is not None:
            raise UserError("give a scenario or --sonic, not both")
        from sglb.cli.tune_sonic import tune_sonic
        from sglb.watermark.sonic.loop import LoopOptions

        every_s = 10.0 if interval_us is None else interval_us / 1e6
        loop = LoopOptions(
            interval_s=every_s,
            rtt_us=10.0 if rtt_us is None else rtt_us,
            pool_bytes=pool_bytes,
            seed=1 if seed is None else seed,
            weights=weights,
        )
        tune_sonic(
            sonic, guard, loop, journal, outputs, apply=apply, intervals=intervals, quiet=quiet
        )
        return
    if file is None:
        raise UserError("give a scenario FILE, or --sonic HOST")
    if on not in ("sim", "live", "bmv2"):
        raise UserError(f"--on is sim, live or bmv2, not {on}")
    scenario = files.scenario(file, seed, None)
    name = scenario.policies[0] if policy is None else policy
    if name not in scenario.policies:
        raise UserError(f"{file}: no policy {name}; there are {', '.join(scenario.policies)}")
    if on == "live" or on == "bmv2":
        from sglb.cli.tune_live import tune_live_command
        from sglb.watermark.live.session import LiveOptions

        every_s = 0.5 if interval_us is None else interval_us / 1e6
        live = LiveOptions(every_s, weights, target="live" if on == "live" else "bmv2")
        tune_live_command(scenario, name, live, outputs, quiet=quiet)
        return
    every_us = 1000.0 if interval_us is None else interval_us
    timing = Timing(settle_us=every_us / 5, measure_us=every_us * 4 / 5)
    options = Options(weights=weights, timing=timing, use_model=model)
    seeds = [
        scenario if not n else files.scenario(file, scenario.model.seed + n, None)
        for n in range(repeat)
    ]
    tune_simulated(seeds, name, options, outputs, quiet=quiet)


def _refuse(kind: str, given: Mapping[str, bool]) -> None:
    """Raises `UserError` for an option that would have no effect."""
    for flag, in_vain in given.items():
        if in_vain:
            raise UserError(f"{flag} has no meaning with {kind}; leave it out")
