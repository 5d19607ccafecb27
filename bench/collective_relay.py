"""What a rank without a rail costs its neighbours: its traffic spread over all of them, not over one.

    sudo python bench/collective_relay.py [--ranks 8] [--mb 32] [--mbit 50] [--quick] [--json FILE]

Two hosts (network namespaces) on one switch, `--ranks` ranks on each, every rank with a rail of its own;
each exchanges `--mb` with its counterpart on the other host, both ways, all at the same time: once as it
is, then with rail 0 of the first host off the switch. Spread evenly the second takes n/(n-1) of the
first, all through one neighbour 2 of it. Shown beside that: how much each neighbour passed on.
`--quick`: 3 ranks, 8 MB.
"""

from __future__ import annotations

import argparse
import json
import logging
import multiprocessing as mp
import random
import signal
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import rail_lab
from rail_lab import FolderStore, Lab

from sglb.collective.transport import Settings, Transport


@dataclass(frozen=True, slots=True)
class Figure:
    """Times of the slowest pair in seconds, and MB that each neighbour passed on."""

    ranks: int
    whole_s: float
    without_s: float
    ratio: float
    spread_ratio: float
    passed_mb: list[float]
    same: bool


def _rank(lab: Lab, rank: int, each: int, folder: Path, size: int, link: Any) -> None:
    logging.disable(logging.CRITICAL)
    host, number = divmod(rank, each)
    lab.enter(host)
    settings = Settings(
        rails=(f"rail{number}",), host=f"host{host}", runtime_dir=str(folder), detection_s=0.15
    )
    store = FolderStore(folder)
    transport = Transport.open(store, rank, 2 * each, settings=settings, timeout_s=60)
    peer = (rank + each) % (2 * each)
    data = random.Random(rank).randbytes(size)
    expected = random.Random(peer).randbytes(size)
    for stream in range(3):  # the first one lets every path find its rate
        into = bytearray(size)
        link.send("ready")
        link.recv()
        began = time.monotonic()
        found = transport.recv(peer, stream, into)
        sent = transport.send(peer, stream, data)
        found.wait(120)
        sent.wait(120)
        link.send((time.monotonic() - began, into == expected))
    link.send("ready")
    link.recv()
    link.send(transport.stats().relayed_bytes)
    transport.close()


def measure(each: int, size: int, rate_mbit: int) -> Figure:
    """Both exchanges."""
    context = mp.get_context("fork")
    with (
        rail_lab.lab(each, rate_mbit, switched=True) as lab,
        tempfile.TemporaryDirectory() as folder,
    ):
        pipes = [context.Pipe() for _ in range(2 * each)]
        work = [
            context.Process(
                target=_rank, args=(lab, rank, each, Path(folder), size, pipes[rank][1])
            )
            for rank in range(2 * each)
        ]
        links = [pipe[0] for pipe in pipes]
        with rail_lab.started(work):
            _round(links)
            whole = _round(links)
            lab.unplug(0, 0)
            without = _round(links)
            passed = [count / 1e6 for count in _round(links)[1:each]]
    times = [max(took for took, _ in found) for found in (whole, without)]
    return Figure(
        ranks=each,
        whole_s=times[0],
        without_s=times[1],
        ratio=times[1] / times[0],
        spread_ratio=each / (each - 1),
        passed_mb=passed,
        same=all(same for found in (whole, without) for _, same in found),
    )


def _round(links: list[Any]) -> list[Any]:
    """Let all ranks begin at once; what each says afterwards."""
    for link in links:
        _take(link)
    for link in links:
        link.send("go")
    return [_take(link) for link in links]


def _take(link: Any) -> Any:
    if not link.poll(180):
        raise TimeoutError("a rank says nothing")
    return link.recv()


def main() -> None:
    """Print one line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--mb", type=int, default=32)
    parser.add_argument("--mbit", type=int, default=50)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    reason = rail_lab.why_not()
    if reason:
        sys.exit(f"bench/collective_relay.py {reason}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the lab is removed
    each, size = (3, 8_000_000) if options.quick else (options.ranks, options.mb * 1_000_000)
    found = measure(each, size, options.mbit)
    passed = ", ".join(f"{mb:.0f}" for mb in found.passed_mb)
    print(
        f"{each} ranks a host  {found.whole_s:.2f} s, without a rail of one rank "
        f"{found.without_s:.2f} s = {found.ratio:.2f} (spread evenly {found.spread_ratio:.2f}, "
        f"over one neighbour 2.00)  passed on {passed} MB  "
        f"{'same bytes' if found.same else 'OTHER BYTES'}"
    )
    if options.json:
        Path(options.json).write_text(json.dumps(asdict(found), indent=1) + "\n")


if __name__ == "__main__":
    main()
