"""A small live fabric whose host h0 tries what it should not; prints what came of it as JSON.

A program of its own: a fabric's supervisor has no threads and no gRPC when it forks.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import sglb.p4
from controller.live.agent import key_path
from sglb import programs
from sglb.fabric import scenario as scenarios
from sglb.fabric.live import packets
from sglb.fabric.live.control import load_live_control_plane
from sglb.fabric.live.fabric import LiveFabric
from sglb.fabric.live.folders import private_folder
from sglb.fabric.live.namespaces import Namespace
from sglb.fabric.live.scaled import default_scale, scaled
from sglb.fabric.live.targets import Embedded
from sglb.fabric.live.traffic import probe_frame, probe_number
from sglb.syncmesh import messages as m
from sglb.syncmesh.key_file import read_key

LEAF0, LEAF1, SPINE0, H0, H1 = 1, 2, 3, 5, 6
FORGED_ROUNDS = 20
PROBES = 200
NOBODY = 65_534
SETTLE_S = 1.0

#: Reads the counters of leaf0's incoming SyncMesh frames, in a process that may have threads.
COUNTERS = """
import sys, grpc
from finsy import P4Schema
from finsy.proto import p4r, p4r_grpc
with grpc.insecure_channel(sys.argv[1]) as channel:
    stub = p4r_grpc.P4RuntimeStub(channel)
    info = stub.GetForwardingPipelineConfig(
        p4r.GetForwardingPipelineConfigRequest(device_id=1)
    ).config.p4info
    (found,) = [c.preamble.id for c in info.counters if c.preamble.name.endswith(".sync_in")]
    wanted = p4r.Entity(counter_entry=p4r.CounterEntry(counter_id=found))
    request = p4r.ReadRequest(device_id=1, entities=[wanted])
    cells = {}
    for answer in stub.Read(request):
        for entity in answer.entities:
            cells[entity.counter_entry.index.index] = entity.counter_entry.data.packet_count
    print(*(cells[i] for i in range(8)))
"""


def forged(key: m.FabricKey, seq: int) -> list[bytes]:
    """SyncMesh of every kind in the name of spine0, as far as its neighbours would take it."""
    head = {"origin": SPINE0, "incarnation": 0xFFFF, "seq": seq}
    payloads = [
        m.Note(**head, subject=LEAF1, code=8, capacity_mbps=0, urgent=True).encode(),
        m.Beat(**head, lost=True).encode(),
        m.Hello(**head, hold_us=1_000_000, nonce=7, wants_notes=True).encode(key),
        m.Delta(**head, entries=(m.Entry(LEAF1, 8, 0, seq),)).encode(key),
        m.Bye(**head).encode(key),
    ]
    return [m.frame(bytes((2, 0, 0, 0, 0, SPINE0)), payload) for payload in payloads]


def counters(address: str) -> list[int]:
    found = subprocess.run(
        [sys.executable, "-c", COUNTERS, address], capture_output=True, text=True, check=True
    )
    return [int(word) for word in found.stdout.split()]


def control_sockets(fabric: LiveFabric) -> list[Path]:
    """Of switches and agents."""
    return sorted(fabric.view.folder.glob("*.sock"))


def reached_by_nobody(fabric: LiveFabric, namespace: Namespace) -> list[str]:
    """What a process of another user in a host's namespace gets through to."""
    sockets = control_sockets(fabric)
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        with suppress(BaseException):
            os.close(reader)
            namespace.enter()
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            os.write(writer, json.dumps([*_opened(sockets), *_answering(), *_listening()]).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        text = pipe.read()
    os.waitpid(pid, 0)
    found: list[str] = json.loads(text)
    return found


def _opened(sockets: list[Path]) -> list[str]:
    found = []
    for path in sockets:
        with socket.socket(socket.AF_UNIX) as attempt, suppress(OSError):
            attempt.connect(str(path))
            found.append(str(path))
    return found


def _answering() -> list[str]:
    found = []
    for address in ("127.0.0.1", "10.0.1.254", "169.254.1.1"):
        for port in (9559, 50051, 9339):
            with socket.socket() as attempt, suppress(OSError):
                attempt.settimeout(0.2)
                attempt.connect((address, port))
                found.append(f"{address}:{port}")
    return found


def _listening() -> list[str]:
    """Inet sockets of this namespace, and abstract Unix ones."""
    found = []
    for name in ("tcp", "tcp6", "udp", "udp6"):
        with suppress(OSError):
            found += Path(f"/proc/self/net/{name}").read_text().splitlines()[1:]
    with suppress(OSError):
        found += [
            line for line in Path("/proc/self/net/unix").read_text().splitlines() if "@" in line
        ]
    return found


def listening_in(fabric: LiveFabric, node_id: int) -> list[str]:
    """The same of a switch's own namespace, where its process runs."""
    with fabric.namespaces[node_id].inside():
        found = []
        for name in ("tcp", "tcp6", "udp", "udp6"):
            with suppress(OSError):
                path = Path(f"/proc/thread-self/net/{name}")
                found += path.read_text().splitlines()[1:]
    return found


async def probes_that_came(fabric: LiveFabric) -> int:
    """Of probes from h0 to h1 by many ports, and so both spines."""
    topology = fabric.topology
    src, dst = topology.address(H0), topology.address(H1)
    sender = packets.open_socket(fabric.namespaces[H0], fabric.ends[H0, 1].interface)
    receiver = packets.open_socket(fabric.namespaces[H1], fabric.ends[H1, 1].interface)
    came = set()
    try:
        for number in range(PROBES):
            sender.send(probe_frame(src, dst, topology.by_id(LEAF0).mac, 50_000 + number, number))
            await asyncio.sleep(0.002)
        await asyncio.sleep(SETTLE_S)
        with suppress(BlockingIOError):
            while True:
                came.add(probe_number(receiver.recv(2048)))
    finally:
        sender.close()
        receiver.close()
    return len(came - {None})


async def attack(fabric: LiveFabric) -> dict[str, object]:
    await asyncio.sleep(SETTLE_S)
    address = fabric.view.addresses[LEAF0]
    before = counters(address)
    key = read_key(key_path(fabric.view))  # even one who has it is heard on a host's port by nobody
    wire = packets.open_socket(fabric.namespaces[H0], fabric.ends[H0, 1].interface)
    sent = 0
    for n in range(FORGED_ROUNDS):
        for frame in forged(key, 0xFFFF_0000 + n):
            wire.send(frame)
            sent += 1
        await asyncio.sleep(0.01)
    wire.close()
    came = await probes_that_came(fabric)
    after = counters(address)
    return {
        "sent": sent,
        "counted": [b - a for a, b in zip(before, after, strict=True)],
        "probes": PROBES,
        "came": came,
        "reached_by_owner": len(_opened(control_sockets(fabric))),
        "reached": reached_by_nobody(fabric, fabric.namespaces[H0]),
        "listening": [listening_in(fabric, node.id) for node in fabric.topology.switches],
    }


def main() -> None:
    scenario = scenarios.from_dict(
        {
            "topology": {"leaf_spine": {"leaves": 2, "spines": 2, "hosts_per_leaf": 1}},
            "workload": {"flows": [{"src": "h0", "dst": "h1", "bytes": 1_000}]},
            "policies": ["glb"],
        }
    )
    scenario = scaled(scenario, default_scale(scenario))
    target = Embedded(scenario, sglb.p4.compile(programs.glb()))

    async def run(folder: Path) -> dict[str, object]:
        plane = load_live_control_plane()
        async with LiveFabric(scenario, "glb", folder, target, plane) as fabric:
            return await attack(fabric)

    with private_folder() as folder:
        sys.stdout.write(json.dumps(asyncio.run(run(folder))))


main()
