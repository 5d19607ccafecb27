"""Collectives for half an hour under random faults: every result checked, memory watched.

    sudo python bench/collective_soak.py [--minutes 30] [--seed 1] [--json FILE] [--quick]

Four ranks, two on each of two hosts (network namespaces), both rails of a host shared by its ranks,
each 200 Mbit/s. A rail at a time, or both, goes down, becomes a black hole (both ways or one way) or
slow, for 0.1 to 2.5 s, with pauses of 0.2 to 3 s. Operations, sizes (0 to 4 MB a rank) and values are
drawn from the seed; integers, so that each result is known exactly. A line a minute: operations,
failovers, bytes sent again, longest operation, resident memory of each rank. `--quick`: one minute.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing as mp
import os
import random
import signal
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import rail_lab
from rail_lab import Lab

RANKS = 4
RAILS = 2
RATE_MBIT = 200
OPERATIONS = ("all_reduce", "all_gather", "all_to_all", "broadcast", "ring")
_MAX_ELEMENTS = 1 << 20
_REPORT_S = 60.0


@dataclass(frozen=True, slots=True)
class Report:
    """What one rank says once a minute; times in seconds, memory in MiB."""

    rank: int
    elapsed_s: float
    operations: int
    wrong: int
    failovers: int
    failbacks: int
    replayed_mb: float
    duplicates: int
    longest_s: float
    resident_mib: float


def _resident_mib() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


def _values(rank: int, number: int, count: int) -> Any:
    """A rank's numbers in an operation."""
    import torch

    return torch.arange(count, dtype=torch.int32) * (rank + 1) + number


def _once(name: str, rank: int, number: int, count: int) -> bool:
    """One operation; whether its result is right."""
    import torch
    import torch.distributed as dist

    mine = _values(rank, number, count)
    if name == "all_reduce":
        dist.all_reduce(mine)
        return torch.equal(mine, sum(_values(r, number, count) for r in range(RANKS)))
    if name == "all_gather":
        found = torch.empty(RANKS * count, dtype=torch.int32)
        dist.all_gather_single(found, mine)
        return torch.equal(found, torch.cat([_values(r, number, count) for r in range(RANKS)]))
    if name == "all_to_all":
        count = count // RANKS * RANKS
        mine = mine[:count]
        found = torch.empty_like(mine)
        dist.all_to_all_single(found, mine)
        part = slice(rank * count // RANKS, (rank + 1) * count // RANKS)
        pieces = [_values(r, number, count)[part] for r in range(RANKS)]
        return torch.equal(found, torch.cat(pieces))
    if name == "broadcast":
        root = number % RANKS
        dist.broadcast(mine, root)
        return torch.equal(mine, _values(root, number, count))
    found = torch.empty_like(mine)
    received = dist.irecv(found, (rank - 1) % RANKS)
    sent = dist.isend(mine, (rank + 1) % RANKS)
    for work in (received, sent):
        assert work is not None
        work.wait()
    return torch.equal(found, _values((rank - 1) % RANKS, number, count))


def _rank(lab: Lab, rank: int, folder: Path, seed: int, seconds: float, link: Any) -> None:
    lab.enter(rank // 2)
    os.environ["RECCL_RAILS"] = ",".join(lab.names())
    os.environ["RECCL_HOST"] = f"host{rank // 2}"
    os.environ["RECCL_RUNTIME_DIR"] = str(folder)
    import torch
    import torch.distributed as dist

    import sglb.collective

    sglb.collective.register()
    torch.set_num_threads(1)
    dist.init_process_group(
        "reccl",
        store=dist.FileStore(str(folder / "store"), RANKS),
        rank=rank,
        world_size=RANKS,
        timeout=timedelta(seconds=60),
    )
    from sglb.collective.transport.observe import ask_all

    draw = random.Random(seed)
    began = last = time.monotonic()
    operations = wrong = 0
    longest = 0.0
    over = torch.zeros(1, dtype=torch.int32)
    while not over.item():
        name, count = draw.choice(OPERATIONS), int(draw.random() ** 3 * _MAX_ELEMENTS)
        start = time.monotonic()
        wrong += not _once(name, rank, operations, count)
        longest = max(longest, time.monotonic() - start)
        operations += 1
        over[0] = rank == 0 and time.monotonic() - began > seconds
        dist.broadcast(over, 0)
        if time.monotonic() - last > _REPORT_S or over.item():
            last = time.monotonic()
            mine = dict(ask_all(folder))[os.getpid()][0]
            peers = mine["peers"].values()
            link.send(
                Report(
                    rank=rank,
                    elapsed_s=last - began,
                    operations=operations,
                    wrong=wrong,
                    failovers=sum(p["failovers"] for p in peers),
                    failbacks=sum(p["failbacks"] for p in peers),
                    replayed_mb=sum(p["replayed_bytes"] for p in peers) / 1e6,
                    duplicates=sum(p["duplicates"] for p in peers),
                    longest_s=longest,
                    resident_mib=_resident_mib(),
                )
            )
            longest = 0.0
    dist.destroy_process_group()
    link.send(None)


def _faults(lab: Lab, draw: random.Random, until: float, busy: Any) -> None:
    """One fault after the other until `until`, or until nobody is busy."""
    while time.monotonic() < until and busy():
        rails = draw.sample(range(RAILS), draw.choice([1, 1, 1, 2]))
        kinds = [draw.choice(["down", "hole", "one way", "slow"]) for _ in rails]
        for rail, kind in zip(rails, kinds, strict=True):
            if kind == "down":
                lab.link(rail, up=False)
            elif kind == "slow":
                lab.slow(rail, draw.choice([0.1, 0.5]))
            else:
                senders = (0, 1) if kind == "hole" else (draw.randrange(2),)
                lab.black_hole(rail, senders=senders)
        time.sleep(draw.uniform(0.1, 2.5))
        for rail, kind in zip(rails, kinds, strict=True):
            if kind == "down":
                lab.link(rail, up=True)
            elif kind == "slow":
                lab.slow(rail, 1)
            else:
                lab.heal(rail)
        time.sleep(draw.uniform(0.2, 3))


def _show(reports: list[Report]) -> None:
    first = reports[0]
    memory = " ".join(f"{r.resident_mib:.0f}" for r in reports)
    print(
        f"{first.elapsed_s / 60:5.1f} min  {first.operations} operations, "
        f"{sum(r.wrong for r in reports)} wrong  {sum(r.failovers for r in reports)} failovers, "
        f"{sum(r.failbacks for r in reports)} back, "
        f"{sum(r.replayed_mb for r in reports):.0f} MB again, "
        f"{sum(r.duplicates for r in reports)} twice  "
        f"longest operation {max(r.longest_s for r in reports):.2f} s  MiB {memory}",
        flush=True,
    )


def main() -> None:
    """Run, print, and end with 1 if anything was wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    reason = rail_lab.why_not()
    if reason:
        sys.exit(f"bench/collective_soak.py {reason}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the lab is removed
    seconds = 60.0 * (1 if options.quick else options.minutes)
    found: list[Report] = []
    context = mp.get_context("fork")
    with (
        rail_lab.lab(RAILS, RATE_MBIT) as lab,
        tempfile.TemporaryDirectory() as folder,
    ):
        pipes = [context.Pipe() for _ in range(RANKS)]
        work = [
            context.Process(
                target=_rank,
                args=(lab, rank, Path(folder), options.seed, seconds, pipes[rank][1]),
            )
            for rank in range(RANKS)
        ]
        with rail_lab.started(work):
            _watch(lab, random.Random(options.seed), pipes, work, seconds, found)
    if options.json:
        Path(options.json).write_text(json.dumps([asdict(r) for r in found], indent=1) + "\n")
    ended = all(process.exitcode == 0 for process in work)
    sys.exit(0 if ended and not any(report.wrong for report in found) else 1)


def _watch(
    lab: Lab, draw: random.Random, pipes: Any, work: Any, seconds: float, found: list[Report]
) -> None:
    """Faults, and a line whenever all ranks have reported."""
    until = time.monotonic() + seconds
    alive = True
    while alive and time.monotonic() < until + 120:
        alive = all(process.is_alive() for process in work)
        _faults(lab, draw, min(until, time.monotonic() + 10), lambda: work[0].is_alive())
        while all(pipe[0].poll() for pipe in pipes):
            reports = [pipe[0].recv() for pipe in pipes]
            if None in reports:
                for process in work:
                    process.join(30)
                return
            found += reports
            _show(reports)
        if time.monotonic() > until:
            time.sleep(0.2)


if __name__ == "__main__":
    main()
