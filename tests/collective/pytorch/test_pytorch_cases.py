"""A choice of PyTorch's own cases (docs/collective-pytorch.md has them all), a few seconds."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("distributed_cases.py")
CASES = {
    "reccl": [
        "test_DistributedDataParallelCPU",
        "test_destroy_group",
        "test_send_recv_with_tag",
    ],
    "gloo": [
        "test_accumulate_gradients_no_sync_allreduce_with_then_hook",
        "test_batch_isend_irecv_gloo_tags",
        "test_monitored_barrier_gloo",
        "test_sparse_all_reduce_sum",
    ],
    "mpi": ["test_all_to_all_single_unequal_split"],
}


@pytest.mark.parametrize("name", CASES)
def test_cases_pass(name: str, tmp_path: Path) -> None:
    results = tmp_path / "results.json"
    done = subprocess.run(
        [sys.executable, str(PROGRAM), name, "2", str(results), *CASES[name]],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(results.read_text())
    assert {case: outcome[:2] for case, outcome in found.items()} == {
        case: ["passed", ""] for case in CASES[name]
    }
