"""What the fluid model costs, how exact it is, and what it spares a search.

    python bench/fluid.py [--quick] [--json FILE] [--packets FILE.svg]

8 flows from their fair share on one queue, 50 ms (`--quick`: 10 ms) in steps of 1 us: `sglb.watermark`,
a plain numpy loop of the same equations by Euler's method, and ddeint at every microsecond of the first
5 ms (1 ms), if it can be imported (`pip install ddeint`; nothing else needs it). Times are the
processor's, in turns within one run. Errors are those of the queue's depth (root of the mean square) to
a run with steps of 1/16 us. Then an exhaustive grid of settings (`--quick`: a smaller one) beside what
pruning keeps of it. `--packets` also runs incasts packet by packet and draws both.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from sglb.fabric import scenario as scenarios
from sglb.watermark.device import DEVICES, Port
from sglb.watermark.from_scenario import from_scenario
from sglb.watermark.layout import Timing
from sglb.watermark.network import behind_uplink, incast
from sglb.watermark.packets import run_packets
from sglb.watermark.plot import Curve, Panel, draw
from sglb.watermark.prune import Model, prune
from sglb.watermark.settings import Watermarks
from sglb.watermark.solve import LANES, solve
from sglb.watermark.space import grid

FLOWS = 8
MARKS = Watermarks(5_000, 200_000, 0.1)
TAU_US = 85
SAMPLE_US = 85
SHARE = 0.02


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    """Processor seconds that a call took, and what it returned."""
    start = time.process_time()
    result = call()
    return time.process_time() - start, result


class Equations:
    """The published equations (packets of 1 KB, us) for `FLOWS` flows; nothing of it is sglb's."""

    line, g, tau, tau2, timer, counter, f = 5.0, 1 / 256, 50.0, 55.0, 55.0, 10_000.0, 5
    add = 40 / 8_000

    def chance(self, queue: float) -> float:
        """Marked at a depth in packets."""
        if queue > 200:
            return 1.0
        return 0.1 * max(queue - 5, 0.0) / 195

    def rates(self, y: Any, p: float, lagged: Any) -> Any:
        """Derivatives of rates, targets and alphas; `lagged` are the rates that p was made at."""
        rate, target, alpha = y
        p = min(p, 1 - 1e-12)
        if p > 0:
            left = 1 - p
            a = 1 - left ** (self.tau * lagged)
            goal = 1 - left ** (self.tau2 * lagged)
            b = p / (left**-self.counter - 1) if left**self.counter > 0 else 0.0
            c = b * left ** (self.f * self.counter)
            d = p / (left ** (-self.timer * lagged) - 1)
            e = d * left ** (self.f * self.timer * lagged)
        else:
            a, goal = np.zeros(FLOWS), np.zeros(FLOWS)
            b = c = 1 / self.counter
            d = e = 1 / (self.timer * lagged)
        return np.array(
            [
                -rate * alpha * a / (2 * self.tau) + (target - rate) / 2 * lagged * (b + d),
                -(target - rate) * a / self.tau + self.add * lagged * (c + e),
                self.g / self.tau2 * (goal - alpha),
            ]
        )

    def start(self) -> Any:
        """At the fair share, alpha 1."""
        return np.array([np.full(FLOWS, self.line / FLOWS)] * 2 + [np.ones(FLOWS)])

    def euler(self, steps: int) -> Any:
        """Depth in bytes after every `SAMPLE_US` steps of 1 us."""
        y, queue, depths = self.start(), 0.0, []
        chances, rates = np.zeros(steps + TAU_US + 1), np.empty((steps + TAU_US + 1, FLOWS))
        rates[: TAU_US + 1] = y[0]
        for n in range(steps):
            change = self.rates(y, chances[n], rates[n])
            queue = max(queue + y[0].sum() - self.line, 0.0)
            y = y + change
            np.minimum(y[:2], self.line, out=y[:2])
            rates[n + TAU_US + 1], chances[n + TAU_US + 1] = y[0], self.chance(queue)
            if (n + 1) % SAMPLE_US == 0:
                depths.append(queue * 1_000)
        return np.array(depths)

    def ddeint(self, solver: Callable[..., Any], span_us: int) -> Any:
        """Depth in bytes every `SAMPLE_US`, from values every microsecond."""

        def model(y: Callable[[float], Any], t: float) -> Any:
            now, then = y(t), y(t - TAU_US)
            parts = now[:-1].reshape(3, FLOWS)
            rates = self.rates(parts, self.chance(then[-1]), then[:FLOWS])
            full = (parts[:2] >= self.line) & (rates[:2] > 0)
            rates[:2][full] = 0
            flow = now[:FLOWS].sum() - self.line
            return np.append(rates.ravel(), flow if now[-1] > 0 or flow > 0 else 0.0)

        first = np.append(self.start().ravel(), 0.0)
        times = np.arange(0, span_us + 1, dtype=float)
        return solver(model, lambda _t: first, times)[SAMPLE_US::SAMPLE_US, -1] * 1_000


def speed(span_us: int, quick: bool) -> dict[str, float | None]:
    """Seconds a setting, and errors."""
    network = incast(FLOWS, 40, start_gbps=5, apart=True, feedback_us=TAU_US)

    def ours(step_us: float, settings: int = 1) -> Any:
        timing = Timing(span_us, step_us, 0, SAMPLE_US)
        return solve(network, [MARKS] * settings, timing, trace=True, workers=1)

    compile_s, _ = timed(lambda: solve(network, [MARKS], Timing(100)))
    fine = ours(1 / 16).trace.queue_bytes[0, :, 0]
    equations = Equations()
    plain, batch, alone = [], [], []
    for _ in range(2):
        took, depth = timed(lambda: equations.euler(span_us))
        plain.append(took)
        took, result = timed(lambda: ours(1, 4 * LANES))
        batch.append(took / (4 * LANES))
        alone.append(timed(lambda: ours(1))[0])
    mine = result.trace.queue_bytes[0, :, 0]
    found: dict[str, float | None] = {
        "start_s": compile_s,
        "batch_s": min(batch),
        "alone_s": min(alone),
        "euler_s": min(plain),
        "error_bytes": _apart(mine, fine),
        "euler_error_bytes": _apart(depth, fine),
    }
    return found | _ddeint(equations, fine, span_us, quick)


def _apart(depth: Any, exact: Any) -> float:
    number = min(len(depth), len(exact))
    return float(np.sqrt(np.mean((depth[:number] - exact[:number]) ** 2)))


def _ddeint(equations: Equations, fine: Any, span_us: int, quick: bool) -> dict[str, float | None]:
    try:
        from ddeint import ddeint as solver
    except ImportError:
        return {"ddeint_s": None, "ddeint_error_bytes": None, "ddeint_span_us": None}
    solved = (1_000 if quick else 5_000) // SAMPLE_US * SAMPLE_US
    took, depth = timed(lambda: equations.ddeint(solver, solved))
    # In proportion to the time, although its cost grows faster: the rest would take more.
    return {
        "ddeint_s": took * span_us / solved,
        "ddeint_error_bytes": _apart(depth, fine),
        "ddeint_span_us": solved,
    }


def space(quick: bool) -> dict[str, Any]:
    """An exhaustive grid beside what pruning keeps of it."""
    device = DEVICES["simulated"]
    levels = {"kmin_bytes": 6, "kmax_bytes": 6, "pmax": 4, "dynamic_th": 5}
    levels |= {"xon_offset_bytes": 2, "headroom_bytes": 3}
    whole = grid(device, Port(40, 200, 1_086, 1_086, 32, 1), levels=levels if quick else None)
    share = device.buffer_bytes / 4
    networks = (
        incast(8, 40, feedback_us=8, pause_delay_us=3, buffer_bytes=share),
        behind_uplink(8, 40, feedback_us=8, link_us=2, pause_delay_us=3, buffer_bytes=share),
    )
    model = Model(networks, Timing(10_000))
    prune_s, pruned = timed(lambda: prune(whole, model))
    # Settings that no switch takes have no score: Kmin above Kmax, no shared pool.
    valid = [
        place
        for place in whole.places()
        if whole.why_not(place) not in ("Kmin above Kmax", "headroom leaves no shared pool")
    ]
    exhaustive_s, scores = timed(lambda: model.scores([whole.watermarks(p) for p in valid]))
    best = scores.max()
    near = [p for p, score in zip(valid, scores, strict=True) if score >= best * (1 - SHARE)]
    kept = set(pruned.kept)
    return {
        "settings": len(whole),
        "kept": len(pruned.kept),
        "evaluations": pruned.evaluations,
        "near_best": len(near),
        "near_best_lost": sum(pruned.stands_for(p) not in kept for p in near),
        "best_lost": 1 - max(pruned.scores) / float(best),
        "cut": dict(pruned.cut),
        "prune_s": prune_s,
        "exhaustive_s": exhaustive_s,
    }


#: Flows, Kmin, Kmax, Pmax of the incasts that are also run packet by packet.
CASES = (
    (2, 5_000, 200_000, 0.1),
    (8, 5_000, 200_000, 0.1),
    (16, 5_000, 200_000, 0.1),
    (8, 100_000, 400_000, 0.2),
)


def packet_scenario(flows: int, kmin: int, kmax: int, pmax: float, span_us: float) -> Any:
    """An incast at 40 Gbit/s that outlasts `span_us`; DCQCN without the hyper increase."""
    lossless = {"class": 3, "lossless": True, "scheduling": "dwrr", "weight": 4}
    keys = {
        "topology": {"leaf_spine": {"leaves": 1, "spines": 1, "hosts_per_leaf": flows + 1}},
        "links": {"host": {"rate_gbps": 40, "delay_ns": 1_000}},
        "workload": {
            "incast": {"to": f"h{flows}", "fan_in": flows, "bytes": round(span_us * 6_000 / flows)}
        },
        "switch": {
            "buffer": {"total_bytes": 12_000_000, "alpha": 0.125, "classes": [lossless]},
            "pfc": {"enabled": True},
            "ecn": {"kmin_bytes": kmin, "kmax_bytes": kmax, "pmax": pmax},
        },
        "transport": {
            "mtu_bytes": 1_024,
            "traffic_class": 3,
            "window_packets": None,
            "dcqcn": {"enabled": True, "rate_hai_mbps": 40},
        },
        "policies": ["ecmp"],
        "stop_us": span_us,
    }
    return scenarios.from_dict(keys)


def packets(file: Path, span_us: float) -> dict[str, Any]:
    """Runs `CASES` both ways, draws the queues, and says how far apart their later half is."""
    found, panels = {}, []
    for flows, kmin, kmax, pmax in CASES:
        given = packet_scenario(flows, kmin, kmax, pmax, span_us)
        packet = run_packets(given, "ecmp", 20)
        fluid = from_scenario(given)
        solved = solve(fluid.network, [fluid.watermarks], Timing(span_us, 0.5, 0, 20), trace=True)
        assert solved.trace is not None
        depth = packet.queue_bytes[f"leaf0 to h{flows}"]
        smooth = solved.trace.queue_bytes[0, :, 0]
        late, later = packet.time_us >= span_us / 2, solved.trace.time_us >= span_us / 2
        name = f"{flows} flows, {kmin // 1000}/{kmax // 1000} kB, {pmax:g}"
        found[name] = {
            "packet_mean_bytes": float(depth[late].mean()),
            "fluid_mean_bytes": float(smooth[later].mean()),
            "packet_p99_bytes": float(np.percentile(depth[late], 99)),
            "packet_max_bytes": float(depth.max()),
            "fluid_max_bytes": float(smooth.max()),
        }
        high = 3 * max(depth[late].mean(), smooth[later].mean()) / 1_000
        curves = [
            Curve("packets", list(packet.time_us / 1_000), list(depth / 1_000)),
            Curve("fluid", list(solved.trace.time_us / 1_000), list(smooth / 1_000)),
        ]
        panels.append(Panel(f"queue, kB: {name}", curves, high))
    text = "queue of the receiver's port, sampled every 20 us; what is higher is cut off"
    file.write_text(draw("Fluid model and packets", text, "time, ms", panels), encoding="utf-8")
    return found


def tell_speed(found: dict[str, float | None], span_us: int) -> None:
    """One line a figure."""
    batch, euler = found["batch_s"], found["euler_s"]
    assert batch
    assert euler
    each = f"a setting of {FLOWS} flows, {span_us // 1_000} ms at 1 us"
    print(f"sglb, {4 * LANES} settings at once: {batch * 1e3:.2f} ms {each}")
    print(f"sglb, one setting alone: {found['alone_s'] * 1e3:.2f} ms")  # type: ignore[operator]
    print(f"sglb, before the first: {found['start_s']:.1f} s (compiled once, then kept)")
    print(f"numpy Euler loop: {euler * 1e3:.0f} ms ({euler / batch:,.0f} x sglb)")
    if found["ddeint_s"] is None:
        print("ddeint: not installed here (pip install ddeint)")
    else:
        print(
            f"ddeint: {found['ddeint_s']:.1f} s ({found['ddeint_s'] / batch:,.0f} x sglb; from "
            f"{found['ddeint_span_us']:.0f} us of it, in proportion)"
        )
    error, plain = found["error_bytes"], found["euler_error_bytes"]
    assert error
    assert plain
    print(f"error of sglb: {error:.1f} bytes")
    print(f"error of the Euler loop: {plain:.1f} bytes ({plain / error:.1f} x sglb's)")
    if found["ddeint_error_bytes"] is not None:
        least = found["ddeint_error_bytes"]
        print(f"error of ddeint: {least:.1f} bytes ({least / error:.1f} x sglb's)")


def tell_space(found: dict[str, Any]) -> None:
    """One line a figure."""
    whole = found["settings"]
    print(f"grid: {whole:,} settings, exhaustive {found['exhaustive_s']:.1f} s")
    gone = 100 * (1 - found["kept"] / whole)
    print(f"pruning keeps: {found['kept']} settings ({gone:.2f} % of the grid gone)")
    solved = found["evaluations"]
    print(f"settings solved for that: {solved:,} ({100 * solved / whole:.1f} % of the grid)")
    print(f"time for that: {found['prune_s']:.1f} s")
    print(f"within {SHARE:.0%} of the best: {found['near_best']}, lost: {found['near_best_lost']}")
    for reason, count in found["cut"].items():
        print(f"cut, {reason}: {count:,}")


def main() -> int:
    """Measure, tell; 1 when a setting near the best was lost."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--quick", action="store_true")
    arguments.add_argument("--json", type=Path, metavar="FILE")
    arguments.add_argument("--packets", type=Path, metavar="FILE.svg")
    given = arguments.parse_args()
    span_us = 10_000 if given.quick else 50_000
    found: dict[str, Any] = {"span_us": span_us, "speed": speed(span_us, given.quick)}
    tell_speed(found["speed"], span_us)
    found["space"] = space(given.quick)
    tell_space(found["space"])
    if given.packets is not None:
        found["packets"] = packets(given.packets, 10_000.0 if given.quick else 40_000.0)
        for name, both in found["packets"].items():
            ratio = both["fluid_mean_bytes"] / both["packet_mean_bytes"]
            print(
                f"{name}: fluid {both['fluid_mean_bytes'] / 1e3:.1f} kB ({ratio:.2f} x the "
                f"{both['packet_mean_bytes'] / 1e3:.1f} kB of packets)"
            )
    if given.json is not None:
        given.json.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    return 1 if found["space"]["near_best_lost"] else 0


if __name__ == "__main__":
    sys.exit(main())
