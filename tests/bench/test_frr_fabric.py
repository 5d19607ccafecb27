"""The FRR baseline on a small fabric: it routes, finds a remote cut, and leaves nothing behind."""

import os
import subprocess
import sys
import time
from contextlib import suppress
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
    if not found.recovered:
        pytest.skip("the machine is too busy for BGP to converge")
    # What leaf1 sends by spine1 is lost until leaf1 hears; leaf0 sees its own port go down at once.
    assert found.remote.probes_lost > 3
    assert found.local.probes_lost < found.remote.probes_lost
    assert found.loss_us == found.remote.last_us


def daemons(folder: str) -> list[str]:
    """Command lines of FRR's processes that use a folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            line = path.read_text().replace("\0", " ")
            if line.startswith("/usr/lib/frr/") and folder in line:
                found.append(line)
    return found


@pytest.mark.live
@pytest.mark.skipif(bool(REASON), reason=REASON)
def test_the_daemons_end_with_a_killed_owner() -> None:
    """They change their user, so Linux does not see to it."""
    script = """
import sys, time
sys.path[:0] = sys.argv[1:]
from frr_routers import FrrFabric
from test_frr_fabric import SMALL
with FrrFabric(SMALL.topology, "timers") as fabric:
    print(fabric._folder, flush=True)
    time.sleep(600)
"""
    here = Path(__file__)
    command = [sys.executable, "-c", script, str(here.parents[2] / "bench"), str(here.parent)]
    owner = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    folder = owner.stdout.readline().strip()
    assert len(daemons(folder)) == 8  # zebra and bgpd of four routers
    owner.kill()
    owner.communicate()
    deadline = time.monotonic() + 60
    while (daemons(folder) or Path(folder).exists()) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert daemons(folder) == []
    assert not Path(folder).exists()


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
