"""The `sglb` command: everything that it does is a documented Python call of the layers below."""

from sglb.cli.app import main

__all__ = ["main"]
