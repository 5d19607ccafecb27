"""Runs the `sglb savings` commands that the documentation shows and puts their output there.

A block of the documentation that begins with `$ sglb savings` holds the command and what it prints; a
drawing that it writes lies in docs/savings/.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = (ROOT / "README.md", ROOT / "docs" / "savings.md")
DRAWINGS = ROOT / "docs" / "savings"

_BLOCK = re.compile(r"(?<=^```\n)\$ sglb savings.*?(?=^```$)", re.DOTALL | re.MULTILINE)
_SGLB = [sys.executable, "-c", "from sglb.cli import main; main()"]


def blocks(page: str) -> list[str]:
    """Command and output, for each block of a page."""
    return _BLOCK.findall(page)


def again(block: str, folder: Path) -> str:
    """The block as it comes out of its command now, run in `folder`; no spaces at the ends of lines."""
    command = block.partition("\n")[0].removeprefix("$ ")
    arguments = shlex.split(command)[1:]
    done = subprocess.run([*_SGLB, *arguments], cwd=folder, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{command}: {done.stderr}")
    lines = [f"$ {command}", *(line.rstrip() for line in done.stdout.splitlines())]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run, write, tell."""
    DRAWINGS.mkdir(exist_ok=True)
    for path in PAGES:
        page = path.read_text(encoding="utf-8")
        for block in blocks(page):
            page = page.replace(block, again(block, DRAWINGS))
        path.write_text(page, encoding="utf-8")
        print(f"wrote the savings in {path.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
