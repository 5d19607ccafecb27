"""A two-port L3 program on real packets: `sglb switch` beside bare forwarders and BMv2, in one run.

    sudo .venv/bin/python bench/live.py [--quick] [--simple-switch PATH] [--frame-bytes N] [--json FILE]

Three network namespaces, veth between them: a sender floods frames by sendmmsg, a forwarder stands in
the middle (each in turn), and what arrives at the far end is counted by its interface. The bare
forwarders don't look at packets: they are the limit for packet sockets, once with recvmmsg, once with
TPACKET_V3 rings. Beside frames a second there is the forwarder's CPU time a frame (what the system
charges its threads, the way into the far end's interface included), which other load on the machine
disturbs less, and the time that a single frame takes on an idle switch, where rings that hand over
blocks show their price.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

HERE = Path(__file__).parent
PROGRAM = HERE / "live.p4"
_BATCH = 64
_READY_S = 60
_SETTLE_S = 0.3
_GAP_S = 0.002  #: between single frames
_CLONE_NEWNET = 0x40000000


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)


class Lab:
    """Namespaces for the sender, the forwarder and the far end; `close` removes them."""

    def __init__(self) -> None:
        self.names = [f"live{os.getpid()}{part}" for part in "amb"]
        try:
            for name in self.names:
                _run("ip", "netns", "add", name)
                # Nothing but our frames: no neighbour discovery.
                self.run(name, "sysctl", "-qw", "net.ipv6.conf.default.disable_ipv6=1")
            sender, middle, far = self.names
            for outer, port in ((sender, "p1"), (far, "p2")):
                _run(
                    *f"ip link add eth0 netns {outer} type veth peer name {port} netns {middle}".split()
                )
                self.run(outer, "ip", "link", "set", "eth0", "up")
                self.run(middle, "ip", "link", "set", port, "up")
        except BaseException:
            self.close()
            raise

    @staticmethod
    def run(name: str, *command: str) -> None:
        """Runs a command in a namespace."""
        _run("ip", "netns", "exec", name, *command)

    def close(self) -> None:
        """Removes what is there."""
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)

    def arrived(self) -> int:
        """Frames that came to the far end."""
        path = "/sys/class/net/eth0/statistics/rx_packets"
        command = ["ip", "netns", "exec", self.names[2], "cat", path]
        return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)

    @contextmanager
    def forwarder(self, command: list[str], ready: str) -> Iterator[subprocess.Popen[str]]:
        """A process in the middle, from when it has printed `ready` on."""
        full = ["ip", "netns", "exec", self.names[1], *command]
        process = subprocess.Popen(
            full, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, bufsize=1
        )
        try:
            _await(process, ready)
            yield process
        finally:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(10)
            process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()

    def flood(self, frame_bytes: int, seconds: float, rate: float) -> tuple[float, float]:
        """Sends for that long (frames/s, 0: all it can); frames/s sent, and arrived."""
        command = [sys.executable, __file__, "--send", f"{frame_bytes},{seconds},{rate}"]
        before = self.arrived()
        done = subprocess.run(
            ["ip", "netns", "exec", self.names[0], *command],
            check=True, capture_output=True, text=True,
        )  # fmt: skip
        sent, took = json.loads(done.stdout)
        time.sleep(_SETTLE_S)
        return sent / took, (self.arrived() - before) / took

    def latency_us(self, frame_bytes: int, frames: int) -> float:
        """From sending a frame to its arrival, one at a time, in the median; inf when it gets lost."""
        ends = [packet_socket(self.names[0]), packet_socket(self.names[2])]
        times = []
        try:
            for _ in range(frames):
                began = time.perf_counter()
                ends[0].send(frame(frame_bytes))
                ends[1].recv(2_048)
                times.append(time.perf_counter() - began)
                time.sleep(_GAP_S)
        except TimeoutError:
            return float("inf")
        finally:
            for end in ends:
                end.close()
        return statistics.median(times) * 1e6


def packet_socket(namespace: str) -> socket.socket:
    """A packet socket on eth0 of a namespace."""
    library = ctypes.CDLL(None)
    with (
        Path("/proc/thread-self/ns/net").open() as here,
        Path(f"/run/netns/{namespace}").open() as to,
    ):
        library.setns(to.fileno(), _CLONE_NEWNET)
        try:
            found = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
            found.setsockopt(263, 23, 1)  # PACKET_IGNORE_OUTGOING
            found.bind(("eth0", 3))
        finally:
            library.setns(here.fileno(), _CLONE_NEWNET)
    found.settimeout(1)
    return found


def _await(process: subprocess.Popen[str], ready: str) -> None:
    deadline = time.monotonic() + _READY_S
    lines = []
    assert process.stdout is not None
    while time.monotonic() < deadline:
        line = process.stdout.readline()
        if ready in line:
            return
        if not line:
            break
        lines.append(line)
    raise RuntimeError(f"the forwarder did not start: {''.join(lines)}")


# --- the sender -----------------------------------------------------------------------------------


def frame(size: int) -> bytes:
    """A UDP frame to 10.0.2.1 with a right IPv4 checksum."""
    head = struct.pack(
        "!BBHHHBBH4s4s", 0x45, 0, size - 14, 0, 0, 64, 17, 0,
        socket.inet_aton("10.0.1.1"), socket.inet_aton("10.0.2.1"),
    )  # fmt: skip
    total = sum(struct.unpack("!10H", head))
    total = (total & 0xFFFF) + (total >> 16)
    total = (total & 0xFFFF) + (total >> 16)
    head = head[:10] + struct.pack("!H", ~total & 0xFFFF) + head[12:]
    udp = struct.pack("!HHHH", 1000, 2000, size - 34, 0)
    return bytes.fromhex("0200000000aa0200000000bb0800") + head + udp + bytes(size - 42)


def send(size: int, seconds: float, rate: float) -> tuple[int, float]:
    """Floods eth0 here; (frames, seconds)."""
    data = frame(size)
    raw = ctypes.create_string_buffer(data, len(data))
    iov = (ctypes.c_uint64 * 2)(ctypes.addressof(raw), size)
    messages = (ctypes.c_uint64 * (8 * _BATCH))()
    for i in range(_BATCH):
        messages[i * 8 + 2], messages[i * 8 + 3] = ctypes.addressof(iov), 1
    library = ctypes.CDLL(None)
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as out:
        out.bind(("eth0", 0))
        out.setsockopt(263, 20, 1)  # PACKET_QDISC_BYPASS
        began = time.perf_counter()
        sent = 0
        while (now := time.perf_counter() - began) < seconds:
            if rate and sent > now * rate:
                time.sleep(_BATCH / rate / 2)
                continue
            sent += max(0, library.sendmmsg(out.fileno(), messages, _BATCH, 0))
        return sent, time.perf_counter() - began


# --- forwarders -----------------------------------------------------------------------------------


def forwarders(simple_switch: Path | None, folder: Path) -> dict[str, tuple[list[str], str]]:
    """Commands by name, with what they print when they are ready."""
    sglb = Path(sys.executable).with_name("sglb")
    bare = [sys.executable, str(HERE / "live_bare.py")]
    found = {
        "bare": ([*bare, "mmsg", "p1", "p2"], "ready"),
        "bare_ring": ([*bare, "ring", "p1", "p2"], "ready"),
        "sglb": (
            [
                str(sglb),
                "switch",
                str(PROGRAM),
                *["--port", "1:p1", "--port", "2:p2", "--grpc", "127.0.0.1:0"],
            ],
            "P4Runtime on",
        ),
    }
    if simple_switch is not None:
        compiled = folder / "live.json"
        _run(str(simple_switch.with_name("p4c-bm2-ss")), "-o", str(compiled), str(PROGRAM))
        found["bmv2"] = (
            [
                str(simple_switch),
                *["-i", "1@p1", "-i", "2@p2", "-L", "off", "--thrift-port", "9393"],
                str(compiled),
            ],
            "",
        )
    return found


@dataclass(frozen=True, slots=True)
class Rate:
    """Frames/s that came through and were offered, the forwarder's CPU time a frame, and how long a
    single frame takes.
    """

    arrived: float
    offered: float
    cpu_us: float
    latency_us: float


def cpu_s(process: int) -> float:
    """CPU time of a process so far, seconds."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(lab: Lab, args: argparse.Namespace, folder: Path) -> dict[str, Rate]:
    """The median of floods by forwarder."""
    results = {}
    for name, (command, ready) in forwarders(args.simple_switch, folder).items():
        with lab.forwarder(command, ready) as process:
            time.sleep(2 if not ready else 0.2)
            lab.flood(args.frame_bytes, 0.3, 0)
            runs = []
            for _ in range(args.runs):
                began = cpu_s(process.pid)
                offered, arrived = lab.flood(args.frame_bytes, args.seconds, 0)
                used = cpu_s(process.pid) - began
                runs.append((arrived, offered, used / args.seconds / arrived * 1e6))
            latency_us = lab.latency_us(args.frame_bytes, args.singles)
        medians = [statistics.median(column) for column in zip(*runs, strict=True)]
        found = Rate(*medians, latency_us)
        results[name] = found
        print(
            f"{name}: {found.arrived:,.0f} frames/s of {found.offered:,.0f} offered, "
            f"{found.cpu_us:.2f} us of CPU a frame, {found.latency_us:.0f} us for a single one",
            flush=True,
        )
    return results


def main() -> None:
    """Measure and tell."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--simple-switch", type=Path, metavar="PATH")
    parser.add_argument("--frame-bytes", type=int, default=64, metavar="N")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--send", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.send:
        size, seconds, rate = args.send.split(",")
        print(json.dumps(send(int(size), float(seconds), float(rate))))
        return
    args.seconds, args.runs, args.singles = (1.0, 1, 50) if args.quick else (2.0, 3, 300)
    if os.geteuid() != 0:
        sys.exit("bench/live.py needs root: it makes network namespaces")
    if args.simple_switch is not None:
        for tool in (args.simple_switch, args.simple_switch.with_name("p4c-bm2-ss")):
            if not os.access(tool, os.X_OK):
                parser.error(f"--simple-switch: there is no {tool}")
    lab = Lab()
    try:
        with tempfile.TemporaryDirectory() as folder:
            results = measure(lab, args, Path(folder))
    finally:
        lab.close()
    _report(results, args)


def _report(results: dict[str, Rate], args: argparse.Namespace) -> None:
    mine, bare = results["sglb"], results["bare"]
    print(
        f"sglb to bare: {mine.arrived / bare.arrived:.2f} (frames/s), "
        f"{bare.cpu_us / mine.cpu_us:.2f} (frames a second of CPU)"
    )
    if "bmv2" in results:
        other = results["bmv2"]
        print(
            f"sglb to simple_switch: {mine.arrived / other.arrived:.1f} (frames/s), "
            f"{other.cpu_us / mine.cpu_us:.1f} (frames a second of CPU)"
        )
    if args.json is not None:
        figures = {name: asdict(rate) for name, rate in results.items()}
        args.json.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
