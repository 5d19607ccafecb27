"""The router in the `sglb switch` command: capture files as ports, finsy as the controller."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import finsy as fy
from programs_kit import HERE, program
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.utils import PcapReader, PcapWriter, rdpcap
from test_user_router import MINE_1, NEXT_1, hop, packet, route, routed

READY = re.compile(r"P4Runtime on (127\.0\.0\.1:[0-9]+), device 7, ports \[1, 2, 5\]\n\Z")
PATIENCE_S = 120


def start(folder: Path, *options: str) -> tuple[subprocess.Popen[str], str]:
    """The running command and where it listens."""
    command = [sys.executable, "-c", "from sglb.cli import main; main()", "switch"]
    command += [str(HERE / "router.p4"), "--pcap-dir", str(folder), "--device-id", "7"]
    process = subprocess.Popen(
        [*command, "--grpc", "127.0.0.1:0", "--ports", "1,2", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    match = READY.match(line)
    assert match, (line, process.stderr and process.stderr.read())
    return process, match[1]


def stop(process: subprocess.Popen[str]) -> str:
    """Ends it with SIGTERM, as a service manager would; what it said on standard error."""
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, errors
    return errors


async def program_it(address: str, info: Path) -> None:
    options = fy.SwitchOptions(p4info=info, device_id=7)
    async with fy.Switch("router", address, options) as switch:
        await switch.write([+hop(1, 1, MINE_1, NEXT_1), +route("10.0.0.0/8", 1)])
        (found,) = [entry async for entry in switch.read(fy.P4TableEntry("routes"))]
        assert found.match == {"dst": (10 << 24, 8)}
        assert found.action == fy.Action("via", next_hop=1)


def wait_for(path: Path, packets: int) -> None:
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        with PcapReader(str(path)) as reader:
            if len(list(reader)) >= packets:
                return
        time.sleep(0.05)
    raise AssertionError(f"{path} never held {packets} packets")


def test_a_router_served_to_finsy_with_a_pipe_and_files_as_ports(tmp_path: Path) -> None:
    info = tmp_path / "router.txtpb"
    info.write_text(str(program("router").p4info))
    os.mkfifo(tmp_path / "5.pcap")
    process, address = start(tmp_path)
    try:
        asyncio.run(asyncio.wait_for(program_it(address, info), PATIENCE_S))
        with PcapWriter(str(tmp_path / "5.pcap"), sync=True) as pipe:
            pipe.write(packet("10.9.0.1"))
            pipe.write(packet("11.0.0.1"))  # no route
            pipe.write(packet("10.9.0.2", ttl=9))
        wait_for(tmp_path / "1_out.pcap", 2)
        assert stop(process) == ""
    finally:
        process.kill()
        process.wait()
    expected = [("10.9.0.1", 63), ("10.9.0.2", 8)]
    assert [bytes(p) for p in rdpcap(str(tmp_path / "1_out.pcap"))] == [
        routed(dst, ttl, MINE_1, NEXT_1) for dst, ttl in expected
    ]
    assert len(rdpcap(str(tmp_path / "2_out.pcap"))) == 0
    datagram = rdpcap(str(tmp_path / "1_out.pcap"))[1]
    assert isinstance(datagram, Ether)
    assert (datagram[IP].ttl, datagram[UDP].dport) == (8, 9)
