"""How torch comes to know of `reccl`, and what does without torch."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ASK = "import torch.distributed as d; print(d.is_backend_available('reccl'))"


def _run(code: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env=os.environ | environment,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize(
    ("code", "autoload"),
    [
        (ASK, "1"),
        (f"import torch; import sglb.collective; {ASK}", "0"),
        (f"import sglb.collective; sglb.collective.register(); {ASK}", "0"),
    ],
)
def test_the_backend_is_known_in_whatever_order_things_are_imported(
    code: str, autoload: str
) -> None:
    assert _run(code, TORCH_DEVICE_BACKEND_AUTOLOAD=autoload) == "True"


def test_nothing_imports_torch_that_was_not_asked_for_it() -> None:
    code = "import sys, sglb.cli, sglb.collective.savings; print('torch' in sys.modules)"
    assert _run(code) == "False"


def test_a_group_takes_settings_names_itself_and_refuses_options_of_another_backend() -> None:
    code = """
import torch, torch.distributed as dist
from sglb.collective.transport import Settings
make = dict(store=dist.HashStore(), rank=0, world_size=1)
try:
    dist.init_process_group("reccl", **make, pg_options="nccl's")
except ValueError as error:
    print(str(error)[:25])
dist.init_process_group("reccl", **make, pg_options=Settings(rails=("127.0.0.1",)))
tensor = torch.ones(3)
dist.all_reduce(tensor)
sub = dist.new_group([0])
dist.all_reduce(tensor, group=sub)
print(dist.get_backend(), dist.get_backend(sub), dist.group.WORLD.name(), tensor.tolist())
groups = [dist.group.WORLD, sub]
print(*[group._group.transport.stats().group for group in groups])
dist.destroy_process_group()
"""
    assert _run(code).splitlines() == [
        "reccl takes pg_options of",
        "reccl reccl reccl [1.0, 1.0, 1.0]",
        "default/1 default/2",  # told apart in status, and by Prometheus (0 was refused)
    ]


def test_a_rank_may_end_as_soon_as_it_has_sent() -> None:
    program = Path(__file__).with_name("leaving.py")
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")  # no connection was lost without a good-bye
