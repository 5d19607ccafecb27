"""What an installation carries: every package, every P4 program, nothing that only the tree has."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]


def _folders(top: str, pattern: str) -> set[str]:
    return {str(p.parent.relative_to(ROOT)) for p in (ROOT / top).rglob(pattern)}


def test_every_package_and_program_folder_is_listed() -> None:
    listed = set(
        tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    )
    code = {p.replace("/", ".") for p in _folders("sglb", "*.py") | _folders("controller", "*.py")}
    headers = {p.replace("/", ".") for p in _folders("sglb", "*.p4")}
    programs = {f"sglb.{p}".replace("/", ".") for p in _folders("p4src", "*.p4")}
    nodes = {f"sglb.{p}" for p in _folders("mininet", "*.py")}
    assert listed - {"sglb.p4src"} == code | headers | programs | nodes


def test_an_installed_wheel_compiles_its_own_program_from_anywhere(tmp_path: Path) -> None:
    """Built from a copy, unpacked beside the tree's dependencies, run from another folder."""
    copy = tmp_path / "tree"
    skip = shutil.ignore_patterns("__pycache__", ".*", "*.egg-info")
    for name in ("sglb", "controller", "mininet", "p4src"):
        shutil.copytree(ROOT / name, copy / name, ignore=skip)
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, copy / name)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--quiet"]
    options = ["--no-deps", "--no-build-isolation", "--wheel-dir", str(tmp_path)]
    subprocess.run([*pip, *options, str(copy)], check=True)
    (wheel,) = tmp_path.glob("sglb-*.whl")
    site = tmp_path / "site"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    points = (next(site.glob("*.dist-info")) / "entry_points.txt").read_text()
    assert "sglb = sglb.cli:main" in points
    assert "default = controller.fabric_control:FabricControl" in points
    check = (
        "import sys; sys.path.insert(0, sys.argv[1]); import sglb, sglb.programs; "
        "assert sglb.__file__.startswith(sys.argv[1]), sglb.__file__; "
        "assert sglb.programs.mininet().is_relative_to(sys.argv[1]); "
        "from sglb.cli import main; main(['check', str(sglb.programs.glb())])"
    )
    found = subprocess.run(
        [sys.executable, "-c", check, str(site)], cwd=tmp_path, capture_output=True, text=True
    )
    assert (found.returncode, found.stderr) == (0, "")
    assert found.stdout == f"{site}/sglb/p4src/v1model/glb.p4: OK\n"
