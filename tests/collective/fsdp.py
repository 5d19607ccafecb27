"""Trains with FSDP (both kinds) and with one process, on the CPU; prints the losses of each as JSON."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard

import sglb.collective.backend  # noqa: F401 - before the fork
from sglb.collective.transport import Settings

_RANKS = 2
_STEPS = 4


def _model() -> torch.nn.Module:
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(12, 32), torch.nn.Tanh(), torch.nn.Linear(32, 3))


def _batches(rank: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(7)
    return [torch.randn(8, 12, generator=generator).chunk(_RANKS)[rank] for _ in range(_STEPS)]


def _losses(model: torch.nn.Module, batches: list[torch.Tensor], group: bool) -> list[float]:
    optimiser = torch.optim.SGD(model.parameters(), lr=0.2)
    found = []
    for batch in batches:
        optimiser.zero_grad()
        loss = model(batch).square().mean()
        loss.backward()
        optimiser.step()
        mean = loss.detach().clone()
        if group:
            dist.all_reduce(mean, dist.ReduceOp.AVG)
        found.append(mean.item())
    return found


def train(rank: int, folder: str) -> None:
    """One rank: model sharded by module, then as a whole, the second one by way of DTensor."""
    torch.set_num_threads(1)
    dist.init_process_group(
        "reccl",
        store=dist.FileStore(f"{folder}/store", _RANKS),
        rank=rank,
        world_size=_RANKS,
        pg_options=Settings(rails=("lo",)),
    )
    found = {}
    whole = FullyShardedDataParallel(_model(), device_id=torch.device("cpu"))
    found["FullyShardedDataParallel"] = _losses(whole, _batches(rank), group=True)
    mesh = init_device_mesh("cpu", (_RANKS,))
    sharded = _model()
    for layer in (sharded[0], sharded[2], sharded):
        fully_shard(layer, mesh=mesh)
    found["fully_shard"] = _losses(sharded, _batches(rank), group=True)
    dist.barrier()
    dist.destroy_process_group()
    Path(folder, f"{rank}.json").write_text(json.dumps(found))


def main() -> None:
    """Forks the ranks."""
    with tempfile.TemporaryDirectory() as folder:
        context = torch.multiprocessing.get_context("fork")
        made = [context.Process(target=train, args=(rank, folder)) for rank in range(_RANKS)]
        for process in made:
            process.start()
        for process in made:
            process.join()
        found = [json.loads(Path(folder, f"{rank}.json").read_text()) for rank in range(_RANKS)]
    assert found[0] == found[1]
    batches = [torch.cat(parts) for parts in zip(*map(_batches, range(_RANKS)), strict=True)]
    json.dump(found[0] | {"alone": _losses(_model(), batches, group=False)}, sys.stdout)


if __name__ == "__main__":
    main()
