"""What a host of a live fabric cannot do: speak SyncMesh, reach a control port."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from sglb.fabric.live import namespaces

REASON = namespaces.why_not()
#: Of the program's counter `sync_in`.
FROM_HOST, UNKNOWN_ORIGIN, OLD_INCARNATION, MALFORMED = 1, 2, 3, 6


@pytest.mark.live
@pytest.mark.skipif(bool(REASON), reason=REASON)
def test_a_host_speaks_no_syncmesh_and_reaches_no_control_port() -> None:
    lab = Path(__file__).with_name("attack_lab.py")
    found = subprocess.run(
        [sys.executable, str(lab)], capture_output=True, text=True, timeout=200, check=False
    )
    assert found.returncode == 0, found.stderr
    seen = json.loads(found.stdout)
    # All that it sent in a spine's name was dropped at its port and counted, whoever has the key.
    assert seen["sent"] == 100
    assert seen["counted"][FROM_HOST] == 100
    assert [seen["counted"][n] for n in (UNKNOWN_ORIGIN, OLD_INCARNATION, MALFORMED)] == [0, 0, 0]
    # No link is marked down by it, and no route is lost: all packets arrive.
    assert seen["came"] == seen["probes"]
    # Control is on Unix sockets in a private folder, and nothing listens on a network.
    assert seen["reached_by_owner"] == 8  # four switches, four agents
    assert seen["reached"] == []
    assert seen["listening"] == [[], [], [], []]
