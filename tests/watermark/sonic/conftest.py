"""One Redis for a module, filled anew for each test."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("redis", reason="redis is not installed (the extra sglb[sonic])")
from sonic_kit import PORT_OIDS, QUEUE_OIDS, SERVER, Redis


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


@pytest.fixture
def traffic(switch: Redis) -> Iterator[None]:
    for oid in PORT_OIDS.values():
        switch.counters.hset(f"COUNTERS:{oid}", "SAI_PORT_STAT_PFC_3_RX_PAUSE_DURATION_US", "0")
    script = Path(__file__).with_name("traffic.py")
    process = subprocess.Popen([sys.executable, str(script), str(switch.socket)])
    queue = f"COUNTERS:{QUEUE_OIDS['Ethernet0:3']}"
    try:
        while switch.counters.hget(queue, "SAI_QUEUE_STAT_BYTES") == "15000":
            assert process.poll() is None
        yield
    finally:
        process.terminate()
        process.wait(timeout=10)
