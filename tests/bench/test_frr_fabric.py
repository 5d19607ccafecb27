"""The FRR baseline on a small fabric: it routes, finds a remote cut, and leaves nothing behind."""

import os
import sys
from pathlib import Path

import pytest

from sglb.fabric import scenario as scenarios

sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))
from frr_fabric import FrrLoss, measure, show
from frr_routers import why_not

from sglb.fabric.report import LossWindow

REASON = why_not()
SMALL = scenarios.from_dict(
    {
        "topology": {"leaf_spine": {"leaves": 2, "spines": 2, "hosts_per_leaf": 1}},
        "workload": {"all_to_all": {"bytes_per_pair": 1}},
    }
)


def processes() -> set[str]:
    return {p.name for p in Path("/proc").iterdir() if p.name.isdigit() and _child(p)}


def _child(folder: Path) -> bool:
    try:
        return f"\nPPid:\t{os.getpid()}\n" in (folder / "status").read_text()
    except OSError:
        return False


@pytest.mark.live
@pytest.mark.skipif(bool(REASON), reason=REASON)
def test_a_remote_cut_costs_until_bgp_has_withdrawn_the_route() -> None:
    before = processes()
    found = measure(SMALL, "leaf0-spine1", "timers", "down", probes_per_s=1_000)
    assert processes() == before
    assert found.recovered
    # What leaf1 sends by spine1 is lost until leaf1 hears; leaf0 sees its own port go down at once.
    assert found.remote.probes_lost > 3
    assert found.local.probes_lost <= 2
    assert found.loss_us == found.remote.last_us


def test_a_black_hole_counts_from_its_first_loss() -> None:
    remote = LossWindow("a-b", 5_000.0, 250_000.0, 0, 60, 1_000.0)
    local = LossWindow("a-b", 8_000.0, 200_000.0, 0, 50, 1_000.0)
    loss = FrrLoss("bfd", "black_hole", "a-b", remote, local, 4_000, 4_000, True)
    assert loss.loss_us == 245_000
    assert list(show(loss)) == [
        "frr bfd black_hole loss duration: 245.0 ms",
        "frr bfd black_hole packets lost: 110 of 4000",
    ]
    quiet = LossWindow("a-b", None, None, 0, 0, 1_000.0)
    assert FrrLoss("bfd", "down", "a-b", quiet, quiet, 9, 1, True).loss_us == 0
