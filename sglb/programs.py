"""Where P4 sources and Mininet's nodes lie, in the source tree and in an installed package."""

from __future__ import annotations

from pathlib import Path

_HERE = Path(__file__).parent


def p4src() -> Path:
    """The folder with `include/` and one folder for each architecture.

    Raises FileNotFoundError when the installation lacks it.
    """
    # A wheel carries it inside the package; in the source tree it stands at the top.
    for folder in (_HERE / "p4src", _HERE.parent / "p4src"):
        if (folder / "include").is_dir():
            return folder
    raise FileNotFoundError(f"sglb is installed without its P4 programs: {_HERE / 'p4src'}")


def glb() -> Path:
    """The balancing program for the v1model architecture."""
    return p4src() / "v1model" / "glb.p4"


def mininet() -> Path:
    """The file with topologies and nodes for Mininet.

    Raises FileNotFoundError when the installation lacks it.
    """
    for folder in (_HERE / "mininet", _HERE.parent / "mininet"):
        if (folder / "sglb_mn.py").is_file():
            return folder / "sglb_mn.py"
    raise FileNotFoundError(f"sglb is installed without its Mininet nodes: {_HERE / 'mininet'}")
