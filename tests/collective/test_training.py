"""DistributedDataParallel and FSDP on reccl, in processes of their own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
STEPS = 250


def _program(name: str, *arguments: object) -> Any:
    done = subprocess.run(
        [sys.executable, str(HERE / name), *map(str, arguments)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_training_through_cuts_gives_the_same_bits_at_every_step() -> None:
    """Hundreds of steps of a network that learns, with two rails that are cut over and over."""
    calm, cut = _program("digits.py", 2, STEPS, 0, 1)
    assert sum(cut["failovers"]) > 20
    assert cut["losses"] == calm["losses"]
    assert len(calm["losses"]) == STEPS
    assert len({*cut["weights"], *calm["weights"]}) == 1
    losses = [float.fromhex(loss) for loss in calm["losses"]]
    assert losses[0] > 2.2  # ln 10 before it has learnt anything
    assert max(losses[-20:]) < 0.3


def test_sharded_training_follows_that_of_one_process() -> None:
    """Both kinds of FSDP: gathered and scattered parameters, storages that are freed and made again."""
    found = _program("fsdp.py")
    assert len(found["alone"]) == 4
    for kind in ("FullyShardedDataParallel", "fully_shard"):
        assert found[kind] == pytest.approx(found["alone"], rel=1e-4)
