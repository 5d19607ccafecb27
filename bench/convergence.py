"""How long a cut hurts: this fabric beside a BGP fabric, in one run on one machine.

    sudo .venv/bin/python bench/convergence.py [--quick] [--runs N] [--json FILE]

A leaf-spine fabric of 3 leaves and 2 spines in network namespaces, small UDP packets between hosts of
all leaves, and one link that is cut: by `ip link set down` at both ends, and as a silent black hole
(both ends lose what comes in and keep their carrier). Compared are FRR (eBGP, kernel ECMP; with its
timers for data centres, and with BFD 3 x 50 ms, see `frr_fabric`), and `sglb run --on live` with the
policies ecmp (plain hashing; our controller reroutes as soon as it knows), dlb and glb (whose data
planes find out and tell each other).

Loss lasts from the cut to the sending of the last packet that was lost. *Remote* are packets of leaves
that are not at the cut. Medians over the runs. Needs root; FRR's part needs Debian's frr and nftables.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from sglb.fabric import scenario as scenarios
from sglb.fabric.live import namespaces
from sglb.fabric.report import LossWindow, PolicyReport
from sglb.fabric.run import run
from sglb.fabric.scenario import Scenario

LINK: Final = "leaf2-spine1"
POLICIES: Final = ("ecmp", "dlb", "glb")
CUTS: Final = ("down", "black_hole")
_PROBES_PER_S: Final = 3_000
_CUT_S: Final = 1.0
_ATTEMPTS: Final = 4
#: Until losses have ended, whoever ends them.
_AFTER_S: Final = {"ecmp": 2.5, "dlb": 2.5, "glb": 1.0}
#: The aims: so many times shorter than FRR's.
_AIMS: Final = (("down", "timers", 100), ("black_hole", "timers", 1_000), ("black_hole", "bfd", 40))


@dataclass(frozen=True, slots=True)
class Loss:
    """What one cut cost: all packets and those of leaves that are not at the cut, in us and packets."""

    name: str
    cut: str
    loss_us: float
    remote_us: float
    lost: int
    step_us: float
    told_us: float | None = None

    @property
    def at_most_us(self) -> float:
        """Remote loss, or when the last leaf was told if no packet happened to be lost later.

        Where nobody is told by a data plane, the time between two packets that could have been lost.
        """
        return max(self.remote_us, self.step_us if self.told_us is None else self.told_us)


def scenario(cut: str, policy: str) -> Scenario:
    """The fabric, with a workload that lasts as long as the losses may."""
    fault = {"down": "down", "black_hole": "blackhole"}[cut]
    end_us = (_CUT_S + _AFTER_S[policy]) * 1e6
    return scenarios.from_dict(
        {
            "name": f"convergence, {cut}",
            "topology": {"leaf_spine": {"leaves": 3, "spines": 2, "hosts_per_leaf": 1}},
            # A small flow at the end keeps the run going; what counts are the probes.
            "workload": {"flows": [{"src": "h0", "dst": "h1", "bytes": 64, "start_us": end_us}]},
            "control_plane": {
                # Our controller acts on port events at once; black holes it finds by probes.
                "failure_detection_ms": 0 if cut == "down" else 300,
                "notification_ms": 0,
                "programming_ms": 0,
                "restore_ms": 61,
            },
            "faults": [{"at_us": _CUT_S * 1e6, fault: LINK}],
            "live": {
                "rate_scale": 1,
                "heartbeat_us": 1_000,
                "missed_count": 4,
                "probes_per_s": _PROBES_PER_S,
                "stop_s": 30,
            },
            "links": {"host": {"rate_gbps": 1}, "fabric": {"rate_gbps": 1}},
            "stop_us": 30e6,
            "policies": [policy],
        },
        "bench/convergence.py",
    )


def ours(cut: str, policy: str) -> Loss:
    """One cut under one policy on the live fabric.

    Once more when heartbeats of links that were well did not come in time: the machine was too busy
    then. FRR's part does the same with probes that get lost before the cut.
    """
    for _ in range(_ATTEMPTS):
        report = run(scenario(cut, policy), on="live").policies[policy]
        assert report.live is not None
        if not report.live.false_alarms:
            break
        text = f"{policy}, {cut}: disturbed, {report.live.false_alarms} false alarms"
        print(text, file=sys.stderr, flush=True)
    return _loss(report, cut)


def _loss(report: PolicyReport, cut: str) -> Loss:
    assert report.live is not None
    (window,), (remote,) = report.live.windows, report.live.remote
    return Loss(
        report.policy,
        cut,
        _last_us(window),
        _last_us(remote),
        window.probes_lost,
        remote.step_us or 0.0,
        remote.told_us,
    )


def _last_us(window: LossWindow) -> float:
    return max(0.0, window.last_us or 0.0)


def frr(cut: str, setting: str) -> Loss:
    """One cut of the same fabric as Linux routers with FRR."""
    import frr_fabric

    found = frr_fabric.measure(
        scenario(cut, "ecmp"), LINK, setting, cut, probes_per_s=_PROBES_PER_S
    )
    lost = found.remote.probes_lost + found.local.probes_lost
    remote_us = _last_us(found.remote)
    if cut == "black_hole":
        remote_us -= found.remote.first_us or 0.0
    return Loss(f"frr {setting}", cut, found.loss_us, remote_us, lost, found.remote.step_us or 0.0)


def median(found: list[Loss]) -> Loss:
    """The median of each figure."""
    told = [one.told_us for one in found if one.told_us is not None]
    return Loss(
        found[0].name,
        found[0].cut,
        statistics.median(one.loss_us for one in found),
        statistics.median(one.remote_us for one in found),
        round(statistics.median(one.lost for one in found)),
        statistics.median(one.step_us for one in found),
        statistics.median(told) if told else None,
    )


def figures(found: list[Loss]) -> Iterator[str]:
    """A table, a line a case; `of BFD` is the ratio to FRR with BFD, by `at_most_us`."""
    by_name = {(one.name, one.cut): one for one in found}
    columns = ("remote loss", "of BFD", "any loss", "packets", "last leaf told")
    for cut in dict.fromkeys(one.cut for one in found):
        yield f"{cut.replace('_', ' '):12}" + "".join(f"{name:>16}" for name in columns)
        bfd = by_name.get(("frr bfd", cut))
        for one in (each for each in found if each.cut == cut):
            cells = (
                f"{one.remote_us / 1e3:,.2f} ms",
                "-" if bfd is None else f"{one.at_most_us / bfd.remote_us:.2g}",
                f"{one.loss_us / 1e3:,.2f} ms",
                f"{one.lost:,}",
                "-" if one.told_us is None else f"{one.told_us / 1e3:,.2f} ms",
            )
            yield f"  {one.name:10}" + "".join(f"{cell:>16}" for cell in cells)
    for cut, setting, aim in _AIMS:
        glb, baseline = by_name.get(("glb", cut)), by_name.get((f"frr {setting}", cut))
        if glb is not None and baseline is not None:
            times = baseline.remote_us / glb.at_most_us
            name = cut.replace("_", " ")
            yield f"glb, {name}: {times:,.0f} times shorter than FRR's, {setting} (aim {aim})"


def main() -> int:
    """Runs all, prints figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one run each")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--no-frr", action="store_true", help="without the BGP fabric")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    if why := namespaces.why_not():
        parser.error(why)
    if given.runs < 1:
        parser.error("--runs: at least 1")
    runs = 1 if given.quick else given.runs
    sys.path.insert(0, str(Path(__file__).parent))
    every: list[Loss] = []
    for cut in CUTS:
        cases: list[tuple[Any, str]] = [(ours, policy) for policy in POLICIES]
        if not given.no_frr:
            cases = [(frr, setting) for setting in ("timers", "bfd")] + cases
        for measure, what in cases:
            losses = [measure(cut, what) for _ in range(runs)]
            text = f"{losses[0].name}, {cut}: {[round(x.remote_us) for x in losses]} us"
            print(text, file=sys.stderr, flush=True)
            every.append(median(losses))
    for line in figures(every):
        print(line)
    if given.json is not None:
        given.json.write_text(json.dumps([asdict(one) for one in every], indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
