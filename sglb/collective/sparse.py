"""All-reduce of sparse COO tensors: every rank gets all entries and adds them up in rank order."""

from __future__ import annotations

from collections.abc import Callable

import torch

from sglb.collective import algorithms
from sglb.collective.algorithms.exchange import Exchange
from sglb.collective.reduce import Operator
from sglb.collective.staging import bytes_of


def all_reduce(tensor: torch.Tensor, operator: Operator) -> Callable[[Exchange], None]:
    """The body of the operation; `tensor` becomes the sum, or the average. Raises ValueError."""
    if tensor.layout is not torch.sparse_coo or tensor.device.type != "cpu":
        raise ValueError(f"reccl reduces sparse_coo tensors on the CPU, not {tensor.layout}")
    if operator.name not in ("SUM", "AVG"):
        raise ValueError(f"reccl reduces sparse tensors by SUM and AVG, not {operator.name}")
    own = tensor.detach().coalesce()

    def body(x: Exchange) -> None:
        counts = torch.empty(x.size, dtype=torch.int64)
        mine = torch.tensor([own._nnz()])
        _gather(x, mine, list(torch.split(counts, 1)))
        indices = [torch.empty(own.sparse_dim(), n, dtype=torch.int64) for n in counts.tolist()]
        values = [own.values().new_empty(n, *own.values().shape[1:]) for n in counts.tolist()]
        _gather(x, own.indices().contiguous(), indices)
        _gather(x, own.values().contiguous(), values)
        total = torch.sparse_coo_tensor(
            torch.cat(indices, dim=1), torch.cat(values), own.shape, check_invariants=False
        ).coalesce()
        with torch.no_grad():  # a detached sparse tensor would get entries of its own
            tensor.copy_(total / x.size if operator.name == "AVG" else total)

    return body


def _gather(x: Exchange, own: torch.Tensor, outputs: list[torch.Tensor]) -> None:
    algorithms.all_gather(x, bytes_of(own), [bytes_of(output) for output in outputs])
