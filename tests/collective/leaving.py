"""Rank 0 sends last and ends at once, without destroy_process_group; rank 1 looks only later."""

from __future__ import annotations

import sys
import tempfile
import time

import torch
import torch.distributed as dist
import torch.multiprocessing

import sglb.collective.backend  # noqa: F401 - before the fork
from sglb.collective.transport import Settings


def rank(number: int, store: str, shared_memory: bool) -> None:
    """Ends with an exception if something is missing."""
    options = Settings(rails=("lo",), shared_memory=shared_memory)
    dist.init_process_group(
        "reccl", store=dist.FileStore(store, 2), rank=number, world_size=2, pg_options=options
    )
    tensor = torch.full((1000,), 5.0 - number)
    if number == 0:
        dist.broadcast(tensor, 0)
        dist.send(tensor + 1, 1)
        return
    time.sleep(0.3)
    dist.broadcast(tensor, 0)
    assert tensor.unique().tolist() == [5.0]
    dist.recv(tensor, 0)
    assert tensor.unique().tolist() == [6.0]


if __name__ == "__main__":
    for shared in (False, True):
        with tempfile.TemporaryDirectory() as folder:
            context = torch.multiprocessing.get_context("fork")
            made = [
                context.Process(target=rank, args=(number, f"{folder}/store", shared))
                for number in range(2)
            ]
            for process in made:
                process.start()
            for process in made:
                process.join()
        if any(process.exitcode for process in made):
            sys.exit(1)
