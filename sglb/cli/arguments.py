"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Include = Annotated[
    list[Path] | None,
    typer.Option("--include", "-I", metavar="DIR", help="Look here for #include; repeatable."),
]
Define = Annotated[
    list[str] | None,
    typer.Option("--define", "-D", metavar="NAME[=VALUE]", help="Define a macro; repeatable."),
]
