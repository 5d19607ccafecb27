"""One Redis for a module, filled anew for each test."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("redis", reason="redis is not installed (the extra sglb[sonic])")
from sonic_kit import SERVER, Redis


@pytest.fixture(scope="module")
def server() -> Iterator[Redis]:
    if SERVER is None:
        pytest.skip("redis-server is not installed (Debian: redis-server)")
    # A short path: that of a Unix socket has 107 bytes at most.
    with tempfile.TemporaryDirectory(prefix="sglb") as folder:
        running = Redis(Path(folder))
        try:
            yield running
        finally:
            running.stop()


@pytest.fixture
def switch(server: Redis) -> Redis:
    server.fill()
    return server
