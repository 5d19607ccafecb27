"""Settings of the whole suite."""

import os
import shutil
import sys
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, settings

# No test fails because the machine was slow, and a run finds what the run before would have found: new
# examples are looked for by `make fuzz`.
_COMMON = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow], "print_blob": True}
settings.register_profile("sglb", derandomize=True, **_COMMON)
settings.register_profile("fuzz", **_COMMON)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "sglb"))

_BYTECODE = "sglb-tests-bytecode-"


def pytest_configure(config):
    """Where Python keeps no bytecode, the many commands that tests start find it in a folder.

    Compiling everything anew takes each of them longer than what they are tested for.
    """
    if sys.dont_write_bytecode and not hasattr(config, "workerinput"):
        os.environ["PYTHONPYCACHEPREFIX"] = tempfile.mkdtemp(prefix=_BYTECODE)
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


def pytest_unconfigure(config):
    """The folder goes with the run."""
    folder = Path(os.environ.get("PYTHONPYCACHEPREFIX", ""))
    if not hasattr(config, "workerinput") and folder.name.startswith(_BYTECODE):
        shutil.rmtree(folder, ignore_errors=True)
