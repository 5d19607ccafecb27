"""Runs PyTorch's `DistributedTest` cases against reccl, rewrites docs/collective-pytorch.md's tables.

`python tests/collective/pytorch/run.py` (about ten minutes on two cores). Each case runs as the first of
`reccl`, `gloo`, `mpi` under whose name it does not skip itself.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

HERE = Path(__file__).parent
PAGE = HERE.parents[2] / "docs" / "collective-pytorch.md"
MARK = "<!-- written by tests/collective/pytorch/run.py: everything below -->\n"
RANKS = "4"
NAMES = ("reccl", "gloo", "mpi")

Outcome = tuple[str, str]


def run(name: str, cases: list[str]) -> dict[str, Outcome]:
    """Outcome and reason of each case under one name."""
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder) / "results.json"
        program = [sys.executable, str(HERE / "distributed_cases.py"), name, RANKS, str(results)]
        subprocess.run(
            [*program, *cases], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        found = json.loads(results.read_text())
    return {case: (what, _reason(why)) for case, (what, why, _) in found.items()}


def _reason(text: str) -> str:
    lines = [line for line in text.strip().splitlines() if line.strip()]
    errors = [line for line in lines if "Error: " in line and not line.startswith(" ")]
    return (errors or lines or [""])[-1]


def main() -> None:
    """All cases under all names, then the page."""
    outcomes: dict[str, tuple[str, Outcome]] = {}
    cases: list[str] = []
    for name in NAMES:
        found = run(name, cases)
        for case, outcome in found.items():
            # Why a case skips itself as gloo says more than that it does not know reccl.
            if outcome[0] != "skipped" or name != "mpi":
                outcomes[case] = (name, outcome)
        cases = [case for case, outcome in found.items() if outcome[0] == "skipped"]
    PAGE.write_text(PAGE.read_text().split(MARK)[0] + MARK + page(outcomes))


def page(outcomes: dict[str, tuple[str, Outcome]]) -> str:
    """The tables as Markdown."""
    import torch

    sets: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for case, (name, (what, why)) in sorted(outcomes.items()):
        key = {"passed": f"as {name}", "failed": why, "skipped": why}[what]
        sets[what][key].append(case.removeprefix("test_"))
    count = {what: sum(map(len, groups.values())) for what, groups in sets.items()}
    total = sum(count.values())
    text = (
        f"\n`DistributedTest` of torch {torch.__version__}, {RANKS} ranks on the CPU: "
        f"{count.get('passed', 0)} passed, {count.get('failed', 0)} failed, "
        f"{count.get('skipped', 0)} do not apply, {total} in all.\n"
    )
    for what, title in (("passed", "Passed"), ("failed", "Failed"), ("skipped", "Not applicable")):
        if sets[what]:
            head = "under the name" if what == "passed" else "why, in the suite's words"
            text += f"\n### {title}\n\n| {head} | cases | `test_...` |\n|---|---|---|\n"
            for key, names in sorted(sets[what].items(), key=lambda item: -len(item[1])):
                text += f"| {key.replace('|', '/')} | {len(names)} | {', '.join(names)} |\n"
    return text


if __name__ == "__main__":
    main()
