"""The `sglb` command: everything that it does is a documented Python call of the layers below."""

from sglb.cli.entry import main

__all__ = ["main"]
