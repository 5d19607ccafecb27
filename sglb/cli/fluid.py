"""`sglb fluid`: the fluid model of DCQCN, ECN and PFC on the command line."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from sglb.cli import files
from sglb.cli.errors import UserError
from sglb.cli.fluid_progress import FluidProgress
from sglb.cli.table import FILE_WIDTH
from sglb.cli.words import number
from sglb.cli.words import size as whole_size
from sglb.watermark.device import DEVICES, Port
from sglb.watermark.errors import WatermarkError
from sglb.watermark.fixed_point import marking_probability, queue_bytes
from sglb.watermark.from_scenario import from_scenario
from sglb.watermark.layout import Timing
from sglb.watermark.network import FEEDBACK_US, Network, behind_uplink, incast
from sglb.watermark.plot import Curve, Panel, draw
from sglb.watermark.prune import Limits, Model, Pruned, prune
from sglb.watermark.settings import Watermarks
from sglb.watermark.solve import FluidResult, solve
from sglb.watermark.space import grid
from sglb.watermark.sweep import Axis, Point, parse, sweep

_USUAL_FLOWS, _USUAL_GBPS = 8, 40.0
_MAX_ROWS = 60


@dataclass(frozen=True, slots=True)
class _Asked:
    """What the options say of the network; None: not given."""

    file: Path | None
    flows: int | None
    rate_gbps: float | None
    feedback_us: float | None
    start_gbps: float | None
    buffer_bytes: float | None
    uplink: bool

    def network(self, at: Mapping[str, float]) -> Network:
        """The network with swept values in place."""
        flows = int(at.get("flows", _USUAL_FLOWS if self.flows is None else self.flows))
        usual_us = FEEDBACK_US if self.feedback_us is None else self.feedback_us
        feedback_us = at.get("feedback_us", usual_us)
        make = behind_uplink if self.uplink else incast
        return make(
            flows,
            _USUAL_GBPS if self.rate_gbps is None else self.rate_gbps,
            feedback_us=feedback_us,
            start_gbps=self.start_gbps,
            buffer_bytes=math.inf if self.buffer_bytes is None else self.buffer_bytes,
        )


def size(count_bytes: float) -> str:
    """Bytes, none of which is a fraction."""
    return whole_size(round(count_bytes))


def _option(flag: str, unit: str, text: str) -> Any:
    return typer.Option(flag, metavar=unit, help=text)


def fluid_command(
    file: Annotated[
        Path | None,
        typer.Argument(metavar="FILE", help="A scenario in YAML, instead of --flows and the like."),
    ] = None,
    flows: Annotated[int | None, _option("--flows", "N", "Senders to one receiver [8].")] = None,
    rate_gbps: Annotated[float | None, _option("--rate-gbps", "GBPS", "Of links [40].")] = None,
    feedback_us: Annotated[
        float | None, _option("--feedback-us", "US", "From a mark to the sender's reaction [85].")
    ] = None,
    start_gbps: Annotated[
        float | None, _option("--start-gbps", "GBPS", "Senders begin so [at the links' rate].")
    ] = None,
    buffer_bytes: Annotated[
        float | None, _option("--buffer-bytes", "BYTES", "Of each switch [without bound].")
    ] = None,
    uplink: Annotated[
        bool, typer.Option("--uplink", help="All senders behind one link of a second switch.")
    ] = False,
    kmin_bytes: Annotated[float | None, _option("--kmin-bytes", "BYTES", "ECN from here.")] = None,
    kmax_bytes: Annotated[float | None, _option("--kmax-bytes", "BYTES", "All marked.")] = None,
    pmax: Annotated[float | None, _option("--pmax", "P", "Marked just below Kmax.")] = None,
    alpha: Annotated[
        float | None, _option("--alpha", "X", "XOFF is so much of the unused pool.")
    ] = None,
    xoff_bytes: Annotated[float | None, _option("--xoff-bytes", "BYTES", "XOFF itself.")] = None,
    xon_offset_bytes: Annotated[
        float | None, _option("--xon-offset-bytes", "BYTES", "XON is so far below.")
    ] = None,
    headroom_bytes: Annotated[
        float | None, _option("--headroom-bytes", "BYTES", "Of a port.")
    ] = None,
    duration_us: Annotated[float, _option("--duration-us", "US", "Of the run.")] = 50_000.0,
    step_us: Annotated[float, _option("--step-us", "US", "Of the integrator.")] = 1.0,
    measure_from_us: Annotated[
        float, _option("--measure-from-us", "US", "Averages are of what comes after.")
    ] = 0.0,
    sweep_keys: Annotated[
        list[str] | None,
        typer.Option(
            "--sweep",
            metavar="KEY=A..B",
            help="Vary a watermark, flows or feedback_us (kmin_bytes=5e3..2e5, =..:20:log, "
            "pmax=0.01,0.1); twice for two.",
        ),
    ] = None,
    space: Annotated[
        str | None,
        typer.Option(
            "--space",
            metavar="DEVICE",
            help=f"Tell which settings of a device are worth a search: {', '.join(DEVICES)}.",
        ),
    ] = None,
    ports: Annotated[int, _option("--ports", "N", "Of the device, for --space.")] = 32,
    cable_m: Annotated[float, _option("--cable-m", "M", "Length of links, for --space.")] = 40.0,
    plot: Annotated[
        Path | None, typer.Option("--plot", metavar="FILE.svg", help="Draw what was found.")
    ] = None,
    json_file: Annotated[
        Path | None,
        typer.Option("--json", metavar="FILE", help="Write every number to FILE (- for stdout)."),
    ] = None,
) -> None:
    """Solve the fluid model of DCQCN with ECN and PFC: queues, rates, pauses and loss by watermarks.

    See docs/watermarks.md.
    """
    asked = _Asked(file, flows, rate_gbps, feedback_us, start_gbps, buffer_bytes, uplink)
    network, marks, title = _given(asked, sweep_keys or ())
    options = {
        "kmin_bytes": kmin_bytes,
        "kmax_bytes": kmax_bytes,
        "pmax": pmax,
        "alpha": alpha,
        "xoff_bytes": xoff_bytes,
        "xon_offset_bytes": xon_offset_bytes,
        "headroom_bytes": headroom_bytes,
    }
    marks = replace(marks, **{key: value for key, value in options.items() if value is not None})
    timing = Timing(duration_us, step_us, measure_from_us)
    if plot is not None and plot.suffix != ".svg":
        raise UserError(f"--plot {plot}: draws SVG only; end the name in .svg")
    if space is not None and (plot is not None or sweep_keys):
        raise UserError("--space goes with neither --sweep nor --plot")
    console = _console(on_stderr=str(json_file) == "-")
    with files.output(json_file) as write_json, files.output(plot) as write_plot:
        with FluidProgress() as progress:
            if space is not None:
                pruned = _space(space, ports, cable_m, network, timing, progress)
                write_json(_json(_space_record(pruned)))
            elif sweep_keys:
                axes = parse(sweep_keys)
                points = _swept(asked, axes, marks, network, timing, progress)
                write_json(_json([_point_record(point) for point in points]))
                write_plot(_draw_sweep(title, axes, points) if plot is not None else "")
            else:
                found = solve(network, [marks], timing, trace=True, progress=progress)
                write_json(_json(_record(found, 0, marks)))
                write_plot(_draw(title, found, marks) if plot is not None else "")
        if space is not None:
            _show_space(pruned, console)
        elif sweep_keys:
            _show_sweep(title, axes, points, console)
        else:
            _show(title, found, marks, console)


def _given(asked: _Asked, sweep_keys: Sequence[str]) -> tuple[Network, Watermarks, str]:
    """Network, watermarks and title, from a scenario or from options."""
    if asked.file is None:
        kind = "behind one uplink" if asked.uplink else "on one switch"
        network = asked.network({})
        count = sum(flow.count for flow in network.flows)
        rate = network.queues[-1].rate_gbps
        swept = any(text.startswith("flows=") for text in sweep_keys)
        many = "flows" if swept else f"{count} flows" if count > 1 else "1 flow"
        title = f"{many} to one host, {kind}, {number(rate)} Gbit/s"
        return network, Watermarks(), title
    for flag, value in (
        ("--flows", asked.flows),
        ("--rate-gbps", asked.rate_gbps),
        ("--feedback-us", asked.feedback_us),
        ("--start-gbps", asked.start_gbps),
        ("--buffer-bytes", asked.buffer_bytes),
        ("--uplink", asked.uplink or None),
    ):
        if value is not None:
            raise UserError(f"{flag} describes a network, and so does {asked.file}; give one")
    for text in sweep_keys:
        key = text.partition("=")[0]
        if key in ("flows", "feedback_us"):
            raise UserError(
                f"--sweep {text}: {asked.file} says how many flows there are, and where"
            )
    fluid = from_scenario(files.scenario(asked.file))
    return fluid.network, fluid.watermarks, fluid.name


def _swept(
    asked: _Asked,
    axes: Sequence[Axis],
    marks: Watermarks,
    network: Network,
    timing: Timing,
    progress: FluidProgress,
) -> tuple[Point, ...]:
    def made(at: Mapping[str, float]) -> Network:
        return asked.network(at) if at else network

    return sweep(axes, marks, made, timing, progress)


def _space(
    name: str,
    ports: int,
    cable_m: float,
    network: Network,
    timing: Timing,
    progress: FluidProgress,
) -> Pruned:
    if name not in DEVICES:
        raise UserError(f"--space {name}: no such device; known: {', '.join(DEVICES)}")
    rate = max(source.rate_gbps for source in network.sources)
    frame = round(network.packet_bytes)
    device = DEVICES[name]
    port = Port(rate, cable_m, frame, max(frame, 9_100), ports, 1)
    whole = grid(device, port)
    # All settings share one buffer per switch; without one every dynamic threshold is endless.
    bounded = tuple(
        replace(s, buffer_bytes=device.buffer_bytes) if math.isinf(s.buffer_bytes) else s
        for s in network.switches
    )
    model = Model((replace(network, switches=bounded),), timing)
    return prune(whole, model, Limits(), progress.named)


# --- what is printed ---


def _console(on_stderr: bool) -> Console:
    console = Console(stderr=on_stderr)
    if not console.is_terminal:
        console.width = FILE_WIDTH
    return console


def _marks_text(marks: Watermarks) -> str:
    xoff = (
        f"alpha {marks.alpha:g}" if marks.xoff_bytes is None else f"XOFF {size(marks.xoff_bytes)}"
    )
    room = "the ports'" if marks.headroom_bytes is None else size(marks.headroom_bytes)
    return (
        f"Kmin {size(marks.kmin_bytes)}, Kmax {size(marks.kmax_bytes)}, Pmax {marks.pmax:g}, {xoff}, "
        f"XON {size(marks.xon_offset_bytes)} below, headroom {room}"
    )


def _show(title: str, found: FluidResult, marks: Watermarks, console: Console) -> None:
    timing = found.timing
    console.print(f"[bold]{escape(title)}[/]", highlight=False)
    console.print(f"watermarks {_marks_text(marks)}", highlight=False)
    console.print(
        f"solved     {number(timing.duration_us)} us in steps of {timing.step_us:g} us, measured "
        f"from {number(timing.measure_from_us)} us on",
        highlight=False,
    )
    console.print()
    table = _table("queue", "used %", "mean", "std", "p99", "max", "marked %")
    for q, queue in enumerate(found.network.queues):
        table.add_row(
            queue.name,
            f"{100 * found.utilisation[0, q]:.2f}",
            *(
                size(getattr(found, f"queue_{kind}_bytes")[0, q])
                for kind in ("mean", "std", "p99", "max")
            ),
            f"{100 * found.marked_share[0, q]:.3f}",
        )
    console.print(table)
    console.print()
    table = _table("ingress", "ports", "pauses", "paused %", "most headroom")
    for g, ingress in enumerate(found.network.ingresses):
        table.add_row(
            ingress.name,
            str(ingress.count),
            f"{found.pauses[0, g]:.0f}",
            f"{100 * found.paused_share[0, g]:.2f}",
            size(found.headroom_max_bytes[0, g]),
        )
    console.print(table)
    console.print()
    lost = found.lost_total_bytes[0]
    each = [
        flow.count * g
        for flow, g in zip(found.network.flows, found.throughput_gbps[0], strict=True)
    ]
    console.print(
        f"all flows: {number(sum(each))} Gbit/s; lost: {size(lost) if lost else 'nothing'}",
        highlight=False,
    )
    done = found.completion_us[0]
    if not all(math.isnan(t) for t in done):
        missing = sum(math.isnan(t) for t in done)
        last = f"{number(max(t for t in done if not math.isnan(t)))} us"
        rest = f", {missing} not by then" if missing else ""
        console.print(f"flows done by {last}{rest}", highlight=False)
    rest_text = _fixed_point(found.network, marks)
    if rest_text:
        console.print(rest_text, highlight=False)


def _fixed_point(network: Network, marks: Watermarks) -> str:
    """Where DCQCN would rest, for networks that have one bottleneck and endless flows."""
    flows = sum(flow.count for flow in network.flows)
    if any(flow.size_bytes is not None for flow in network.flows) or flows < 2:
        return ""
    p = marking_probability(
        flows, network.queues[-1].rate_gbps, network.dcqcn, network.packet_bytes
    )
    depth = queue_bytes(p, marks)
    where = "beyond Kmax, so it never rests" if math.isnan(depth) else f"at {size(depth)}"
    return f"fixed point: {100 * p:.3f} % marked, queue {where}"


def _show_sweep(
    title: str, axes: Sequence[Axis], points: Sequence[Point], console: Console
) -> None:
    console.print(f"[bold]{escape(title)}[/]", highlight=False)
    console.print()
    table = _table(
        *(axis.key for axis in axes),
        "Gbit/s",
        "used %",
        "mean",
        "p99",
        "max",
        "marked %",
        "paused %",
        "lost",
    )
    for point in points[:_MAX_ROWS]:
        row = _point_record(point)
        table.add_row(
            *(f"{point.at[axis.key]:g}" for axis in axes),
            number(row["throughput_gbps"]),
            f"{100 * row['utilisation']:.2f}",
            *(size(row[f"queue_{kind}_bytes"]) for kind in ("mean", "p99", "max")),
            f"{100 * row['marked_share']:.3f}",
            f"{100 * row['paused_share']:.2f}",
            size(row["lost_bytes"]) if row["lost_bytes"] else "-",
        )
    console.print(table)
    if len(points) > _MAX_ROWS:
        console.print(f"and {len(points) - _MAX_ROWS} more points: see --json and --plot")
    console.print()
    console.print("queue: that of the last hop; paused: all senders and links", highlight=False)


def _show_space(pruned: Pruned, console: Console) -> None:
    whole = len(pruned.space)
    console.print(f"[bold]Settings of {pruned.space.device.name}[/]: {whole:,}", highlight=False)
    console.print()
    table = _table("parameter", "unit", "levels", "from", "to", "moves the score by", "searched")
    for parameter, found in zip(pruned.space.parameters, pruned.sensitivities, strict=True):
        table.add_row(
            parameter.name,
            parameter.unit,
            str(len(parameter.levels)),
            f"{parameter.levels[0]:g}",
            f"{parameter.levels[-1]:g}",
            f"{100 * found.typical:.2f} % (at most {100 * found.largest:.1f} %)",
            "yes" if found.kept else f"no, {found.fixed_at:g}",
        )
    console.print(table)
    console.print()
    table = _table("cut", "settings", "%")
    for reason, count in pruned.cut.items():
        table.add_row(reason, f"{count:,}", f"{100 * count / whole:.1f}")
    table.add_row("kept", f"{len(pruned.kept):,}", f"{100 * len(pruned.kept) / whole:.2f}")
    console.print(table)
    console.print()
    console.print(
        f"headroom that a port needs: {size(pruned.space.needed_headroom_bytes)}; "
        f"{pruned.evaluations:,} settings solved",
        highlight=False,
    )
    console.print(f"best: {_marks_text(pruned.space.watermarks(pruned.kept[0]))}", highlight=False)


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for place, column in enumerate(columns):
        table.add_column(column, justify="right" if place else "left", no_wrap=True)
    return table


# --- what is written ---


def _json(data: object) -> str:
    return json.dumps(data, indent=2, allow_nan=False) + "\n"


def _record(found: FluidResult, at: int, marks: Watermarks | None = None) -> dict[str, Any]:
    """All numbers of one setting, by name."""
    network = found.network
    queues = {
        queue.name: {
            key: float(getattr(found, key)[at, q])
            for key in (
                "utilisation",
                "queue_mean_bytes",
                "queue_std_bytes",
                "queue_p99_bytes",
                "queue_max_bytes",
                "marked_share",
            )
        }
        for q, queue in enumerate(network.queues)
    }
    ingresses = {
        ingress.name: {
            key: float(getattr(found, key)[at, g])
            for key in ("pauses", "paused_share", "headroom_max_bytes")
        }
        for g, ingress in enumerate(network.ingresses)
    }
    flows = {
        flow.name: {
            "count": flow.count,
            "throughput_gbps": float(found.throughput_gbps[at, f]),
            "lost_bytes": float(found.lost_bytes[at, f]),
            "completion_us": None
            if math.isnan(found.completion_us[at, f])
            else float(found.completion_us[at, f]),
        }
        for f, flow in enumerate(network.flows)
    }
    given = {} if marks is None else {"watermarks": asdict(marks)}
    return {
        **given,
        "timing": asdict(found.timing),
        "queues": queues,
        "ingresses": ingresses,
        "flows": flows,
    }


def _point_record(point: Point) -> dict[str, Any]:
    """A point's values and its main figures."""
    found, i = point.result, point.place
    network = found.network
    last = len(network.queues) - 1
    ports = sum(ingress.count for ingress in network.ingresses)
    paused = sum(
        ingress.count * found.paused_share[i, g] for g, ingress in enumerate(network.ingresses)
    )
    total = sum(flow.count * found.throughput_gbps[i, f] for f, flow in enumerate(network.flows))
    return {
        **point.at,
        "throughput_gbps": float(total),
        "utilisation": float(found.utilisation[i, last]),
        "queue_mean_bytes": float(found.queue_mean_bytes[i, last]),
        "queue_p99_bytes": float(found.queue_p99_bytes[i, last]),
        "queue_max_bytes": float(found.queue_max_bytes[i, last]),
        "marked_share": float(found.marked_share[i, last]),
        "paused_share": float(paused / ports),
        "lost_bytes": float(found.lost_total_bytes[i]),
    }


def _space_record(pruned: Pruned) -> dict[str, Any]:
    return {
        "settings": len(pruned.space),
        "cut": dict(pruned.cut),
        "evaluations": pruned.evaluations,
        "sensitivities": [asdict(found) for found in pruned.sensitivities],
        "kept": [
            pruned.space.values(place) | {"score": score}
            for place, score in zip(pruned.kept, pruned.scores, strict=True)
        ],
    }


# --- what is drawn ---


def _draw(title: str, found: FluidResult, marks: Watermarks) -> str:
    trace = found.trace
    if trace is None:
        raise WatermarkError("a drawing needs samples")
    times = [float(t) / 1_000 for t in trace.time_us]
    queues = [
        Curve(queue.name, times, [float(v) / 1_000 for v in trace.queue_bytes[0, :, q]])
        for q, queue in list(enumerate(found.network.queues))[-6:]
    ]
    rates = [
        Curve(flow.name, times, [float(v) for v in trace.rate_gbps[0, :, f]])
        for f, flow in list(enumerate(found.network.flows))[:6]
    ]
    pauses = [
        Curve(ingress.name, times, [float(v) for v in trace.pausing[0, :, g]])
        for g, ingress in list(enumerate(found.network.ingresses))[-6:]
    ]
    panels = [
        Panel("queues, kB", queues),
        Panel("rates, Gbit/s", rates),
        Panel("paused", pauses, 1.0),
    ]
    return draw(title, _marks_text(marks), "time, ms", panels)


def _draw_sweep(title: str, axes: Sequence[Axis], points: Sequence[Point]) -> str:
    across = axes[-1]
    groups: dict[str, list[dict[str, Any]]] = {}
    for point in points:
        name = f"{axes[0].key}={point.at[axes[0].key]:g}" if len(axes) > 1 else "swept"
        groups.setdefault(name, []).append(_point_record(point))
    if len(groups) > 8:
        raise UserError(
            f"--plot draws at most 8 lines, {axes[0].key} makes {len(groups)}; give it fewer values, or "
            f"last"
        )
    panels = [
        Panel(
            text,
            [
                Curve(
                    name if len(groups) > 1 else "",
                    [row[across.key] for row in rows],
                    [factor * row[key] for row in rows],
                    dots=True,
                )
                for name, rows in groups.items()
            ],
        )
        for text, key, factor in (
            ("throughput, Gbit/s", "throughput_gbps", 1),
            ("mean queue, kB", "queue_mean_bytes", 1e-3),
            ("99th percentile of the queue, kB", "queue_p99_bytes", 1e-3),
            ("paused, %", "paused_share", 100),
        )
    ]
    return draw(title, "fluid model; other settings as given", across.key, panels, across.log)
