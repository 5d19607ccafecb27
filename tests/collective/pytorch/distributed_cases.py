"""PyTorch's own `DistributedTest` cases with reccl in the place of one of its backends.

Run as a program: `distributed_cases.py NAME WORLD_SIZE RESULTS.json [TEST...]`. The cases skip what they
think a backend cannot do by its name, so NAME says as which one reccl passes here: itself, or `gloo` or
`mpi` for cases that are written for those alone. Ranks are forked: importing torch takes longer than a
case.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import tempfile
import time
import unittest
import warnings
from pathlib import Path


def main(name: str, world_size: str, results: str, *wanted: str) -> None:
    """Runs the cases (all if none is named) and writes what came of each."""
    os.environ |= {
        "BACKEND": name,
        "WORLD_SIZE": world_size,
        "TEMP_DIR": tempfile.mkdtemp(prefix="reccl-cases-"),
        "RECCL_RAILS": "lo",
        "TORCH_SHOW_CPP_STACKTRACES": "0",
    }
    warnings.filterwarnings("ignore")
    cases = _cases(name)
    loader = unittest.TestLoader()
    names = wanted or loader.getTestCaseNames(cases)
    result = _Result(Path(results))
    unittest.TestSuite(cases(one) for one in names).run(result)


def _cases(name: str) -> type[unittest.TestCase]:
    import torch.distributed as dist
    import torch.multiprocessing
    from torch.distributed import distributed_c10d
    from torch.testing._internal import common_distributed

    for feature in ("ddp", "plugin"):
        common_distributed.DistTestCases.backend_feature[feature].add("reccl")
    # Skips for fewer than 8 ranks unless the name is mpi; 4 are enough for the cases.
    common_distributed.skip_if_small_worldsize = lambda case: case
    from torch.testing._internal.distributed import distributed_test

    importlib.import_module("sglb.collective.backend")  # before the fork

    original = dist.init_process_group
    if name != "reccl":
        distributed_c10d.get_backend = lambda group=None: dist.Backend(name)

    def init(*args: object, backend: str | None = None, **kwargs: object) -> None:
        original(*args, backend="reccl", **kwargs)

    class Cases(distributed_test.TestDistBackend, distributed_test.DistributedTest._DistTestBase):
        def setUp(self) -> None:
            super().setUp()
            self._start_processes(torch.multiprocessing.get_context("fork").Process)

        @classmethod
        def _run(cls, *args: object, **kwargs: object) -> None:
            dist.init_process_group = init
            torch.set_num_threads(1)
            super()._run(*args, **kwargs)

    return Cases


class _Result(unittest.TestResult):
    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path
        self._found: dict[str, tuple[str, str, float]] = {}
        self._began_s = 0.0

    def startTest(self, test: unittest.TestCase) -> None:
        super().startTest(test)
        self._began_s = time.monotonic()

    def _note(self, test: unittest.TestCase, what: str, why: str = "") -> None:
        took_s = round(time.monotonic() - self._began_s, 2)
        self._found[test._testMethodName] = (what, why, took_s)
        self._path.write_text(json.dumps(self._found, indent=1))

    def addSuccess(self, test: unittest.TestCase) -> None:
        self._note(test, "passed")

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:
        self._note(test, "skipped", reason)

    def addFailure(self, test: unittest.TestCase, err: object) -> None:
        self._note(test, "failed", self._exc_info_to_string(err, test))

    addError = addFailure


if __name__ == "__main__":
    main(*sys.argv[1:])
