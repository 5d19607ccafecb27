"""What a fault of one rail does to an all_reduce under way: bits, stall, throughput before and after.

    sudo python bench/collective_faults.py [--quick] [--rails 2,4] [--mb 256] [--gloo-timeout 10]
        [--json FILE]

Two ranks in network namespaces of this machine, joined by 2 or 4 veth rails that htb shapes to 800
Mbit/s in all. While an all_reduce of 256 MB (float32) runs, one rail's link is taken down, becomes a
black hole (both ways, one way), or falls to half its rate. Stall: the longest time in which a rank
received no payload. Before and after: payload received a second until the fault, and from one
detection bound and 0.1 s after the fault until 0.05 s before the end; their ratio beside that of the
capacities. gloo meets the same faults once, for contrast. `--quick`: 2 rails, 64 MB, no gloo.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing as mp
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import rail_lab
from rail_lab import Lab

TOTAL_MBIT = 800
FAULTS = ("none", "link down", "black hole", "one way", "half rate")
_SAMPLE_S = 0.005
_PORTION = 0.35  # of the time that an undisturbed one takes, until the fault
_SETTLE_S = 0.1
_TAIL_S = 0.05


@dataclass(frozen=True, slots=True)
class Side:
    """What one rank saw: seconds on the machine's clock, and (time, payload bytes received)."""

    began: float
    ended: float
    samples: list[tuple[float, int]]
    same_bits: bool
    error: str
    failovers: int
    replayed_bytes: int
    duplicates: int
    bound_s: float


@dataclass(frozen=True, slots=True)
class Figure:
    """One case, the worse of both ranks for each figure; rates in MB/s."""

    backend: str
    rails: int
    fault: str
    seconds: float
    same_bits: bool
    error: str
    stall_ms: float
    bound_ms: float
    before: float
    after: float
    share: float
    capacity_share: float
    failovers: int
    replayed_mb: float


def _inject(lab: Lab, fault: str) -> None:
    if fault == "link down":
        lab.link(0, up=False)
    elif fault == "black hole":
        lab.black_hole(0)
    elif fault == "one way":
        lab.black_hole(0, senders=(0,))
    elif fault == "half rate":
        lab.slow(0, 0.5)


def _reccl(folder: Path, rank: int, lab: Lab) -> tuple[Any, Callable[[], int], Callable[[], Any]]:
    """A process group, its count of received payload bytes, and its statistics."""
    from torch.distributed import FileStore

    from sglb.collective.backend import ReCCL
    from sglb.collective.transport import Settings

    group = ReCCL(
        FileStore(str(folder / "store"), 2),
        rank,
        2,
        timedelta(seconds=60),
        settings=Settings.from_env(rails=lab.names()),
    )
    transport = group._group.transport
    return (
        group,
        lambda: sum(rail.received_bytes for rail in transport.stats().rails),
        transport.stats,
    )


def _gloo(
    folder: Path, rank: int, lab: Lab, timeout_s: float
) -> tuple[Any, Callable[[], int], None]:
    import torch.distributed as dist

    os.environ["GLOO_SOCKET_IFNAME"] = ",".join(lab.names())
    dist.init_process_group(
        "gloo",
        store=dist.FileStore(str(folder / "store"), 2),
        rank=rank,
        world_size=2,
        timeout=timedelta(seconds=timeout_s),
    )

    def received() -> int:
        lines = Path("/proc/thread-self/net/dev").read_text().splitlines()
        return sum(int(line.split()[1]) for line in lines if line.strip().startswith("rail"))

    return dist.group.WORLD, received, None


def _rank(
    lab: Lab, rank: int, folder: Path, backend: str, size: int, timeout_s: float, link: Any
) -> None:
    import torch

    torch.set_num_threads(1)
    lab.enter(rank)
    if backend == "gloo":
        group, received, stats = _gloo(folder, rank, lab, timeout_s)
    else:
        group, received, stats = _reccl(folder, rank, lab)
    generator = torch.Generator().manual_seed(rank)
    mine = torch.rand(size // 4, generator=generator)
    expected = mine.clone()
    before = time.monotonic()
    group.allreduce([expected]).wait()
    link.send(time.monotonic() - before)
    tensor = mine.clone()
    samples: list[tuple[float, int]] = []
    over = threading.Event()

    def watch() -> None:
        while not over.wait(_SAMPLE_S):
            samples.append((time.monotonic(), received()))

    thread = threading.Thread(target=watch)
    group.barrier().wait()
    thread.start()
    began = time.monotonic()
    link.send(began)
    error = ""
    try:
        group.allreduce([tensor]).wait()
    except Exception as caught:
        error = str(caught).splitlines()[0]
    ended = time.monotonic()
    over.set()
    thread.join()
    same = torch.equal(tensor.view(torch.int32), expected.view(torch.int32))
    found = None if stats is None else stats()
    link.send(
        Side(
            began,
            ended,
            samples,
            same and not error,
            error,
            *((0, 0, 0, 0.0) if found is None else _counts(found)),
        )
    )
    if backend != "gloo":
        group._group.close()
    else:
        os._exit(0)  # its destructor would wait for connections that are dead


def _counts(stats: Any) -> tuple[int, int, int, float]:
    return stats.failovers, stats.replayed_bytes, stats.duplicates, stats.detection_bound_s


def _rate(samples: list[tuple[float, int]], start: float, end: float) -> float:
    """MB/s between two times, from the samples inside."""
    inside = [sample for sample in samples if start <= sample[0] <= end]
    if len(inside) < 2 or inside[-1][0] == inside[0][0]:
        return 0.0
    return (inside[-1][1] - inside[0][1]) / (inside[-1][0] - inside[0][0]) / 1e6


def _stall_s(samples: list[tuple[float, int]], end: float) -> float:
    """The longest time without a new byte."""
    worst = 0.0
    last_time, last_bytes = samples[0]
    for now, count in samples[1:]:
        if count != last_bytes:
            worst = max(worst, now - last_time)
            last_time, last_bytes = now, count
    return max(worst, end - last_time)


def _figure(backend: str, rails: int, fault: str, at: float, sides: list[Side]) -> Figure:
    bound_s = max(side.bound_s for side in sides)
    # Its reduction done, a rank may wait for the other's; only until then does it receive.
    rates = []
    for side in sides:
        settled = at + bound_s + _SETTLE_S
        rates.append(
            (
                _rate(side.samples, side.began + _TAIL_S, at),
                _rate(side.samples, settled, side.ended - _TAIL_S),
            )
        )
    before = sum(rate[0] for rate in rates) / 2
    after = sum(rate[1] for rate in rates) / 2
    lost = {"none": 0.0, "half rate": 0.5}.get(fault, 1.0)
    return Figure(
        backend=backend,
        rails=rails,
        fault=fault,
        seconds=max(side.ended - side.began for side in sides),
        same_bits=all(side.same_bits for side in sides),
        error=next((side.error for side in sides if side.error), ""),
        stall_ms=max(
            _stall_s([s for s in side.samples if s[0] >= at - _SETTLE_S], side.ended) * 1000
            for side in sides
        ),
        bound_ms=bound_s * 1000,
        before=before,
        after=after,
        share=after / before if before else 0.0,
        capacity_share=(rails - lost) / rails,
        failovers=sum(side.failovers for side in sides),
        replayed_mb=sum(side.replayed_bytes for side in sides) / 1e6,
    )


def case(
    rails: int, fault: str, size: int, backend: str = "reccl", timeout_s: float = 60
) -> Figure:
    """One all_reduce of `size` bytes with a fault."""
    context = mp.get_context("fork")
    with (
        rail_lab.lab(rails, TOTAL_MBIT // rails) as lab,
        tempfile.TemporaryDirectory() as folder,
    ):
        pipes = [context.Pipe() for _ in range(2)]
        work = [
            context.Process(
                target=_rank,
                args=(lab, rank, Path(folder), backend, size, timeout_s, pipes[rank][1]),
            )
            for rank in range(2)
        ]
        with rail_lab.started(work):
            undisturbed = max(_take(pipe[0]) for pipe in pipes)
            began = max(_take(pipe[0]) for pipe in pipes)
            at = began + undisturbed * _PORTION
            time.sleep(max(at - time.monotonic(), 0))
            _inject(lab, fault)
            sides = [_take(pipe[0], timeout_s + 60) for pipe in pipes]
    return _figure(backend, rails, fault, at, sides)


def _take(pipe: Any, timeout_s: float = 120) -> Any:
    if not pipe.poll(timeout_s):
        raise TimeoutError("a rank says nothing")
    return pipe.recv()


def _line(figure: Figure) -> str:
    head = f"{figure.backend:5}  {figure.rails} rails  {figure.fault:10}  {figure.seconds:6.2f} s"
    if figure.error:
        return f"{head}  FAILED: {figure.error[:100]}"
    bits = "same bits" if figure.same_bits else "OTHER BITS"
    return (
        f"{head}  {bits}  stall {figure.stall_ms:4.0f} ms (bound {figure.bound_ms:.0f} ms)  "
        f"{figure.before:5.1f} -> {figure.after:5.1f} MB/s = {figure.share:.3f} of before, "
        f"capacity {figure.capacity_share:.3f}  {figure.failovers} failovers, "
        f"{figure.replayed_mb:.1f} MB again"
    )


def main() -> None:
    """Print a line a case."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--rails", default="2,4")
    parser.add_argument("--mb", type=int, default=256)
    parser.add_argument("--gloo-timeout", type=float, default=10)
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    reason = rail_lab.why_not()
    if reason:
        sys.exit(f"bench/collective_faults.py {reason}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the lab is removed
    numbers = [2] if options.quick else [int(n) for n in options.rails.split(",")]
    size = (64 if options.quick else options.mb) << 20
    figures = []
    for rails in numbers:
        for fault in FAULTS:
            figures.append(case(rails, fault, size))
            print(_line(figures[-1]), flush=True)
    if not options.quick:
        for fault in FAULTS[1:4]:
            figures.append(case(2, fault, size, "gloo", options.gloo_timeout))
            print(_line(figures[-1]), flush=True)
    if options.json:
        text = json.dumps([asdict(figure) for figure in figures], indent=1)
        Path(options.json).write_text(text + "\n")


if __name__ == "__main__":
    main()
