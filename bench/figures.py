"""Runs the demo and rewrites its stored result and the table in the README: `make figures`."""

from __future__ import annotations

import io
import re
from pathlib import Path

from rich.console import Console

from sglb.cli.table import FILE_WIDTH, show
from sglb.fabric import scenario as scenarios
from sglb.fabric.report import RunReport
from sglb.fabric.run import run

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
SCENARIO = ROOT / "examples" / "leafspine-failover.yaml"
RESULT = ROOT / "examples" / "results" / "leafspine-failover.json"

_BLOCK = re.compile(r"(?<=^```\n)leafspine-failover \(seed .*?(?=^```$)", re.DOTALL | re.MULTILINE)


def table(report: RunReport) -> str:
    """What `sglb run` prints of a report, no spaces at the ends of lines."""
    text = io.StringIO()
    show(scenarios.from_dict(report.scenario), report, Console(file=text, width=FILE_WIDTH))
    return "".join(f"{line.rstrip()}\n" for line in text.getvalue().splitlines())


def table_in(readme: str) -> str:
    """The table that a README shows."""
    (block,) = _BLOCK.findall(readme)
    return str(block)


def main() -> None:
    """Run, write, tell."""
    report = run(SCENARIO)
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(report.to_json(), encoding="utf-8")
    readme = README.read_text(encoding="utf-8")
    README.write_text(readme.replace(table_in(readme), table(report)), encoding="utf-8")
    print(f"wrote {RESULT.relative_to(ROOT)} and the table in {README.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
