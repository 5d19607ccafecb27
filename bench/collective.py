"""reccl against gloo: all_reduce, all_gather, all_to_all of 1 KB to 256 MB between ranks of a host.

    .venv/bin/python bench/collective.py [--quick] [--ranks 2,4] [--no-shared-memory] [--json FILE]

The same processes hold a group of each backend and run batches of iterations with each in turns, so
that both meet the same other load. As in nccl-tests the iterations of a batch follow each other at once,
and a batch's time is that of its slowest rank divided by their number; `size` is that of the buffer for
all_reduce, and of what each rank has in the end for the others; busbw is size / time x 2(n-1)/n for
all_reduce and x (n-1)/n for the others, of the median batch. Ratios above 1 favour reccl. Up to 64 KB
the best batch counts: medians of ranks that share few cores are the scheduler's. Beside that: the ratio
of the processors' time that all ranks took, of the median batch, which other load changes less.
"""

from __future__ import annotations

import argparse
import json
import logging
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing

from sglb.collective.transport import Settings

_SIZES = [1 << 10, 8 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20, 256 << 20]
_QUICK_SIZES = [1 << 10, 64 << 10, 1 << 20, 16 << 20]
_SMALL_BYTES = 64 << 10


@dataclass(frozen=True, slots=True)
class Figure:
    """One operation and size with both backends; times of an iteration in microseconds.

    cpu: of all ranks together.
    """

    op: str
    ranks: int
    size_bytes: int
    batches: int
    iterations: int
    gloo_min_us: float
    gloo_median_us: float
    reccl_min_us: float
    reccl_median_us: float
    gloo_cpu_us: float
    reccl_cpu_us: float

    @property
    def ratio(self) -> float:
        """How often faster reccl is: by minima where latency counts, by medians above."""
        if self.size_bytes <= _SMALL_BYTES:
            return self.gloo_min_us / self.reccl_min_us
        return self.gloo_median_us / self.reccl_median_us

    def busbw(self, median_us: float) -> float:
        """GB/s as nccl-tests counts them."""
        factor = (self.ranks - 1) / self.ranks * (2 if self.op == "all_reduce" else 1)
        return self.size_bytes * factor / median_us / 1e3

    def line(self) -> str:
        """For people."""
        size = (
            f"{self.size_bytes >> 10} KB"
            if self.size_bytes < 1 << 20
            else f"{self.size_bytes >> 20} MB"
        )
        return (
            f"{self.op:<11}{self.ranks} ranks {size:>7}"
            f"  gloo {self.gloo_min_us:>9,.0f} us min {self.gloo_median_us:>9,.0f} median"
            f" {self.busbw(self.gloo_median_us):6.3f} GB/s"
            f"  reccl {self.reccl_min_us:>9,.0f} us min {self.reccl_median_us:>9,.0f} median"
            f" {self.busbw(self.reccl_median_us):6.3f} GB/s  ratio {self.ratio:5.2f}"
            f"  cpu {self.gloo_cpu_us / self.reccl_cpu_us:5.2f}"
        )


def _operations(size: int, ranks: int) -> dict[str, Callable[[dist.ProcessGroup], Any]]:
    items = size // 4
    whole, other = torch.zeros(items), torch.zeros(items)
    part = torch.zeros(items // ranks)
    return {
        "all_reduce": lambda group: dist.all_reduce(whole, group=group),
        "all_gather": lambda group: dist.all_gather_single(whole, part, group=group),
        "all_to_all": lambda group: dist.all_to_all_single(whole, other, group=group),
    }


def _counts(size: int, quick: bool) -> tuple[int, int]:
    """Batches, and iterations of each."""
    iterations = max(1, min(40, (8 << 20) // size))
    return (5 if quick or size > 16 << 20 else 15), iterations


def _measure(
    groups: dict[str, Any], call: Callable[[Any], Any], batches: int, iterations: int
) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """Seconds of an iteration, for each backend and batch: by the clock, and of processors."""
    took: list[list[float]] = [[] for _ in groups]
    used: list[list[float]] = [[] for _ in groups]
    for _ in range(batches):
        for number, group in enumerate(groups.values()):
            call(group)  # all ranks have come, and memory is warm
            began, busy = time.perf_counter(), time.process_time()
            for _ in range(iterations):
                call(group)
            took[number].append((time.perf_counter() - began) / iterations)
            used[number].append((time.process_time() - busy) / iterations)
    slowest = torch.tensor(took, dtype=torch.float64)
    together = torch.tensor(used, dtype=torch.float64)
    dist.all_reduce(slowest, dist.ReduceOp.MAX, group=groups["gloo"])
    dist.all_reduce(together, group=groups["gloo"])
    return (
        dict(zip(groups, slowest.tolist(), strict=True)),
        dict(zip(groups, together.tolist(), strict=True)),
    )


def _rank(rank: int, ranks: int, options: argparse.Namespace, folder: str) -> None:
    logging.getLogger("sglb.collective").setLevel(logging.ERROR)
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", store=dist.FileStore(f"{folder}/store", ranks), rank=rank, world_size=ranks
    )
    settings = replace(Settings.from_env(rails=("lo",)), shared_memory=not options.no_shared_memory)
    groups = {
        "gloo": dist.group.WORLD,
        "reccl": dist.new_group(backend="reccl", pg_options=settings),
    }
    figures = []
    for size in _QUICK_SIZES if options.quick else _SIZES:
        for op, call in _operations(size, ranks).items():
            if options.ops and op not in options.ops:
                continue
            batches, iterations = _counts(size, options.quick)
            took, used = _measure(groups, call, batches, iterations)
            numbers = {
                f"{name}_{what}_us": function(times) * 1e6
                for name, times in took.items()
                for what, function in (("min", min), ("median", statistics.median))
            }
            numbers |= {f"{name}_cpu_us": statistics.median(used[name]) * 1e6 for name in groups}
            figure = Figure(op, ranks, size, batches, iterations, **numbers)
            figures.append(asdict(figure) | {"ratio": figure.ratio})
            if rank == 0:
                print(figure.line(), flush=True)
    if rank == 0:
        Path(folder, "figures.json").write_text(json.dumps(figures))
    dist.destroy_process_group()


def main() -> None:
    """Each number of ranks in turn."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer sizes and batches")
    parser.add_argument("--ranks", default="2,4")
    parser.add_argument("--ops", type=lambda text: text.split(","), help="all three by default")
    parser.add_argument(
        "--no-shared-memory", action="store_true", help="reccl over TCP, as between hosts"
    )
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    figures: list[dict[str, Any]] = []
    context = torch.multiprocessing.get_context("fork")
    for ranks in map(int, options.ranks.split(",")):
        with tempfile.TemporaryDirectory() as folder:
            made = [
                context.Process(target=_rank, args=(rank, ranks, options, folder))
                for rank in range(ranks)
            ]
            for process in made:
                process.start()
            for process in made:
                process.join()
            figures += json.loads(Path(folder, "figures.json").read_text())
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
