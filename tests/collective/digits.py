"""Trains a small network on scikit-learn's digits with DistributedDataParallel; a process for each rank.

`digits.py RANKS STEPS SEED...` trains anew for each seed and prints a list as JSON: the loss of every
step as hexadecimal floating point, a hash of the weights of each rank, and how often connections of each
failed over. With a seed other than 0, connections over two rails are cut at random moments at either
end, while gradients are under way.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import logging
import random
import socket
import sys
import tempfile
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
import torch.multiprocessing
from torch.nn.parallel import DistributedDataParallel

from sglb.collective.backend import ReCCL
from sglb.collective.transport import Settings

_BATCH = 48
_SETTINGS = Settings(
    rails=("127.0.0.1", "127.0.0.2"),
    shared_memory=False,
    detection_s=0.5,
    retry_s=0.01,
    retry_max_s=0.05,
    probation_s=0.02,
)


def digits() -> tuple[torch.Tensor, torch.Tensor]:
    """1797 images of 8 x 8 pixels and what they show."""
    package = importlib.util.find_spec("sklearn")
    assert package is not None
    assert package.submodule_search_locations
    file = Path(package.submodule_search_locations[0]) / "datasets" / "data" / "digits.csv.gz"
    table = np.loadtxt(file, delimiter=",", dtype=np.float32)
    return torch.from_numpy(table[:, :64] / 16), torch.from_numpy(table[:, 64].astype(np.int64))


class Cuts(threading.Thread):
    """Resets a connection of this rank every now and then."""

    def __init__(self, group: ReCCL, seed: int) -> None:
        super().__init__(daemon=True)
        self._peers = group._group.transport._group
        self._rng = random.Random(f"{seed} {group.rank()}")
        self.over = threading.Event()

    def run(self) -> None:
        while not self.over.wait(self._rng.uniform(0.01, 0.06)):
            with self._peers.engine.lock:
                found = [c for p in self._peers.peers.values() for c in p.channels.values()]
            if found:
                stream = self._rng.choice(found).stream
                assert isinstance(stream, socket.socket)
                with suppress(OSError):
                    stream.shutdown(socket.SHUT_RDWR)


def train(rank: int, ranks: int, steps: int, seed: int, folder: str) -> None:
    """One rank; leaves what it found in the folder."""
    logging.getLogger("sglb.collective").setLevel(logging.ERROR)
    torch.set_num_threads(1)
    torch.manual_seed(3)
    store = dist.FileStore(f"{folder}/store", ranks)
    dist.init_process_group("reccl", store=store, rank=rank, world_size=ranks, pg_options=_SETTINGS)
    group = dist.group.WORLD
    assert isinstance(group, ReCCL)
    images, labels = digits()
    model = DistributedDataParallel(
        torch.nn.Sequential(torch.nn.Linear(64, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10)),
        bucket_cap_mb=0.05,  # several buckets, so that all-reduces overlap
    )
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    order = torch.Generator().manual_seed(5)
    cuts = Cuts(group, seed) if seed else None
    if cuts is not None:
        cuts.start()
    losses = []
    for _ in range(steps):
        batch = torch.randperm(len(images), generator=order)[: _BATCH * ranks].split(_BATCH)[rank]
        optimiser.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(images[batch]), labels[batch])
        loss.backward()
        optimiser.step()
        mean = loss.detach().clone()
        dist.all_reduce(mean, dist.ReduceOp.AVG)
        losses.append(mean.item().hex())
    if cuts is not None:
        cuts.over.set()
        cuts.join()
    weights = hashlib.sha256(b"".join(p.detach().numpy().tobytes() for p in model.parameters()))
    failovers = group._group.transport.stats().failovers
    dist.barrier()
    dist.destroy_process_group()
    Path(folder, f"{rank}.json").write_text(json.dumps([losses, weights.hexdigest(), failovers]))


def run(ranks: int, steps: int, seed: int) -> dict[str, Any]:
    """Forks the ranks; what they found."""
    with tempfile.TemporaryDirectory() as folder:
        context = torch.multiprocessing.get_context("fork")
        made = [
            context.Process(target=train, args=(rank, ranks, steps, seed, folder))
            for rank in range(ranks)
        ]
        for process in made:
            process.start()
        for process in made:
            process.join()
        found = [json.loads(Path(folder, f"{rank}.json").read_text()) for rank in range(ranks)]
    losses, weights, failovers = zip(*found, strict=True)
    assert all(one == losses[0] for one in losses)
    return {"losses": losses[0], "weights": weights, "failovers": failovers}


if __name__ == "__main__":
    RANKS, STEPS, *SEEDS = map(int, sys.argv[1:])
    json.dump([run(RANKS, STEPS, seed) for seed in SEEDS], sys.stdout)
