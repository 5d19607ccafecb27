"""The baseline: a scenario's fabric as Linux routers running FRR, cut at one link, and what that costs.

    sudo .venv/bin/python bench/frr_fabric.py [SCENARIO.yaml] [--link NAME] [--quick] [--json FILE]

Each switch is a network namespace that routes (eBGP over numbered /31 links, an AS a leaf and one for
the spines, the kernel's ECMP by addresses and ports), its daemons are FRR's zebra, bgpd and bfdd. Behind
each leaf stands a namespace for its hosts, from which small UDP packets go between all pairs of hosts of
different leaves, at a fixed rate, over many ports and so all paths. Then a link is cut:

- `down`: both ends `ip link set down`;
- `black_hole`: both ends drop what comes in and say nothing.

Settings: `timers` is FRR's profile for data centres (keepalive 3 s, hold 9 s, no advertisement delay),
`bfd` the same with BFD, 3 x 50 ms. Needs root, Debian's `frr` and `nftables`.
"""

from __future__ import annotations

import argparse
import json
import random
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Final

from frr_routers import CUTS, SETTINGS, Cut, FrrError, FrrFabric, Setting, why_not

from sglb.fabric import scenario as scenarios
from sglb.fabric.live.packets import open_socket
from sglb.fabric.live.traffic import probe_frame, probe_number
from sglb.fabric.report import LossWindow
from sglb.fabric.scenario import Scenario
from sglb.fabric.topology import Link

HERE: Final = Path(__file__).parent
EXAMPLE: Final = HERE.parent / "examples" / "leafspine-failover.yaml"


_ATTEMPTS: Final = 3
_STEADY_S: Final = 1.0
_LINGER_S: Final = 0.3
_QUIET_S: Final = 1.0  #: without a loss, the cut is over
#: How long a cut may hurt: hold time and a bit, or detection and a bit.
_LONGEST_S: Final = {"timers": 15.0, "bfd": 5.0}
_SOURCE_PORTS: Final = 97
_NS: Final = 1_000_000_000


@dataclass(frozen=True, slots=True)
class FrrLoss:
    """What one cut cost under one setting.

    `remote` counts probes from leaves that are not at the cut toward the leaf that is, `local` those
    from it; times are from the cut to the sending of the probe. `probes` were sent in all, `rate` a
    second. `recovered` is False when losses had not ended after the longest time that they may take.
    """

    setting: Setting
    cut: Cut
    link: str
    remote: LossWindow
    local: LossWindow
    probes: int
    probes_per_s: int
    recovered: bool

    @property
    def loss_us(self) -> float:
        """From the cut to the last probe lost, remote or local; 0 without a loss.

        A black hole counts from its first loss: it takes some ms from the order until it is there.
        """
        last_us = max(self.remote.last_us or 0.0, self.local.last_us or 0.0)
        firsts = [w.first_us for w in (self.remote, self.local) if w.first_us is not None]
        return last_us - (min(firsts, default=0.0) if self.cut == "black_hole" else 0.0)


# --- the probes -----------------------------------------------------------------------------------


@dataclass(slots=True)
class _Probe:
    time_ns: int
    src_leaf: int
    dst_leaf: int
    came: bool = False


class _Prober:
    """Sends probes between all pairs of hosts of different leaves in turn, and notes what comes."""

    def __init__(self, fabric: FrrFabric, probes_per_s: int, seed: int) -> None:
        topology = fabric.topology
        self._sockets = {i: open_socket(n, "eth0") for i, n in fabric.hosts.items()}
        for found in self._sockets.values():
            found.setblocking(False)
        self._poll = select.poll()
        self._by_fd = {found.fileno(): found for found in self._sockets.values()}
        for fd in self._by_fd:
            self._poll.register(fd, select.POLLIN)
        leaf_of = {h.id: topology.switch_of(h.id).id for h in topology.hosts}
        pairs = [
            (a.id, b.id)
            for a in topology.hosts
            for b in topology.hosts
            if leaf_of[a.id] != leaf_of[b.id]
        ]
        random.Random(seed).shuffle(pairs)
        self._pairs = cycle(pairs)
        self._count = len(pairs)
        self._leaf_of = leaf_of
        self._address = {h.id: topology.address(h.id) for h in topology.hosts}
        self._gateway = {i: fabric.gateway(i) for i in fabric.hosts}
        self._gap_ns = _NS // probes_per_s
        self.probes: list[_Probe] = []
        self.restart()

    def close(self) -> None:
        for found in self._sockets.values():
            found.close()

    def run(self, seconds: float, over: Callable[[int], bool] | None = None) -> bool:
        """Sends for so long, or until `over(now_ns)`; whether it was."""
        end_ns = time.monotonic_ns() + round(seconds * _NS)
        look_ns = 0
        while (now_ns := time.monotonic_ns()) < end_ns:
            while self._due_ns <= now_ns:
                self._send()
                self._due_ns += self._gap_ns
            self._receive(max(0.0, (self._due_ns - time.monotonic_ns()) / 1e6))
            if over is not None and now_ns >= look_ns:
                look_ns = now_ns + _NS // 20
                if over(now_ns):
                    return True
        return False

    def restart(self) -> None:
        """Makes nothing up for the time in which it did not send."""
        self._due_ns = time.monotonic_ns()

    def drain(self) -> None:
        """Waits for what is under way."""
        end_s = time.monotonic() + _LINGER_S
        while time.monotonic() < end_s:
            self._receive(10)

    def _send(self) -> None:
        number = len(self.probes)
        src, dst = next(self._pairs)
        leaf = self._leaf_of[src]
        port = 49_152 + number // self._count % _SOURCE_PORTS
        frame = probe_frame(
            self._address[src], self._address[dst], self._gateway[leaf], port, number
        )
        self.probes.append(_Probe(time.monotonic_ns(), leaf, self._leaf_of[dst]))
        try:
            self._sockets[leaf].send(frame)
        except BlockingIOError:
            raise FrrError("the machine is too slow for so many probes a second") from None

    def _receive(self, wait_ms: float) -> None:
        for fd, _ in self._poll.poll(wait_ms):
            for _ in range(64):
                try:
                    frame = self._by_fd[fd].recv(2048)
                except BlockingIOError:
                    break
                number = probe_number(frame)
                if number is not None and number < len(self.probes):
                    self.probes[number].came = True

    def last_loss_ns(self, before_ns: int) -> int:
        """When the last probe was sent that is older than `before_ns` and has not come; 0: none."""
        for probe in reversed(self.probes):
            if probe.time_ns < before_ns and not probe.came:
                return probe.time_ns
        return 0


# --- measuring ------------------------------------------------------------------------------------


def measure(
    scenario: Scenario,
    link: str,
    setting: Setting,
    cut: Cut,
    *,
    probes_per_s: int = 4_000,
) -> FrrLoss:
    """Builds the fabric, waits for its routes, cuts `link` (as in leaf0-spine1) and counts.

    Ends when nothing has been lost for a second. Tries again when probes were lost before the cut.
    Raises `FrrError`, and `TopologyError` for an unknown link.
    """
    topology = scenario.topology
    (dead,) = topology.find_links(link)
    for attempt in range(_ATTEMPTS):
        with FrrFabric(topology, setting) as fabric:
            prober = _Prober(fabric, probes_per_s, scenario.model.seed)
            try:
                early = _lost_in_peace(prober)
                if early and attempt < _ATTEMPTS - 1:
                    continue  # a busy machine starves BFD, too
                if early:
                    raise FrrError(f"{early} probes were lost before anything was cut")
                start = len(prober.probes)
                cut_ns, recovered = _cut(fabric, prober, dead, cut, _LONGEST_S[setting])
            finally:
                prober.close()
        break
    seen = prober.probes[start:]
    at_cut = {dead.a, dead.b}
    to_cut = [p for p in seen if p.dst_leaf in at_cut]
    from_cut = [p for p in seen if p.src_leaf in at_cut]
    return FrrLoss(
        setting,
        cut,
        link,
        _window(link, to_cut, cut_ns),
        _window(link, from_cut, cut_ns),
        len(seen),
        probes_per_s,
        recovered,
    )


def _lost_in_peace(prober: _Prober) -> int:
    """Probes lost with nothing cut, but for the first, which may wait for neighbours' addresses."""
    prober.run(_STEADY_S)
    prober.drain()
    return sum(not probe.came for probe in prober.probes[len(prober.probes) // 4 :])


def _cut(
    fabric: FrrFabric, prober: _Prober, link: Link, kind: Cut, longest_s: float
) -> tuple[int, bool]:
    """Cuts, and sends until it is over; when it was, and whether it is over."""
    if kind == "black_hole":
        fabric.prepare(link)
    prober.restart()
    cut_ns = fabric.cut(link, kind)
    recovered = prober.run(longest_s, partial(_over, prober, cut_ns))
    prober.drain()
    return cut_ns, recovered


def _over(prober: _Prober, cut_ns: int, now_ns: int) -> bool:
    """Whether a second has passed in which nothing was lost, and the cut can have been noticed."""
    settled_ns = now_ns - round(_LINGER_S * _NS)
    last_ns = prober.last_loss_ns(settled_ns)
    return now_ns - max(last_ns, cut_ns) > round((_QUIET_S + _LINGER_S) * _NS)


def _window(link: str, probes: Sequence[_Probe], cut_ns: int) -> LossWindow:
    lost = [(p.time_ns - cut_ns) / 1e3 for p in probes if not p.came]
    span_us = (probes[-1].time_ns - probes[0].time_ns) / 1e3 if len(probes) > 1 else 0.0
    return LossWindow(
        link,
        lost[0] if lost else None,
        lost[-1] if lost else None,
        0,
        len(lost),
        span_us / (len(probes) - 1) if len(probes) > 1 else None,
    )


def show(loss: FrrLoss) -> Iterator[str]:
    """A line a figure."""
    name = f"frr {loss.setting} {loss.cut}"
    state = "" if loss.recovered else " (and still losing)"
    yield f"{name} loss duration: {loss.loss_us / 1e3:.1f} ms{state}"
    lost = loss.remote.probes_lost + loss.local.probes_lost
    yield f"{name} packets lost: {lost} of {loss.probes}"


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    def end(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def main() -> int:
    """Measures all settings and cuts, or with --quick one repetition fewer; see the module."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("scenario", type=Path, nargs="?", default=EXAMPLE)
    parser.add_argument("--link", default="leaf0-spine1")
    parser.add_argument("--setting", choices=SETTINGS, action="append")
    parser.add_argument("--cut", choices=CUTS, action="append")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--probes-per-s", type=int, default=4_000)
    parser.add_argument("--quick", action="store_true", help="one run each")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    reason = why_not()
    if reason:
        print(f"error: {reason}", file=sys.stderr)
        return 1
    scenario = scenarios.load(options.scenario)
    found = []
    try:
        with _ended_by_signals():
            for setting in options.setting or SETTINGS:
                for cut in options.cut or CUTS:
                    for _ in range(1 if options.quick else options.runs):
                        loss = measure(
                            scenario, options.link, setting, cut, probes_per_s=options.probes_per_s
                        )
                        found.append(loss)
                        print(*show(loss), sep="\n", flush=True)
    except FrrError as problem:
        print(f"error: {problem}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    if options.json:
        options.json.write_text(json.dumps([asdict(loss) for loss in found], indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
