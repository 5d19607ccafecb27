"""Runs csg-htsim's RoCE simulator, built elsewhere, on a permutation; a peer for `bench/sim.py`.

https://github.com/Broadcom/csg-htsim, program `sim/datacenter/htsim_roce`. Nothing of it is part of
sglb. It is given a topology (`.topo`) and a connection matrix (`.cm`) in its own formats; its CPU time
is read from the system: from the line with which it says that it starts simulating, to its end.
"""

from __future__ import annotations

import os
import pty
import re
import resource
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

MTU_BYTES = 4096
_STARTED = "Starting simulation"
_PACKETS = re.compile(r"New: (\d+) Rtx: (\d+)")


@dataclass(frozen=True, slots=True)
class Fabric:
    """A fabric of equal links: `spines` of one tier above the leaves, or a k-ary fat tree (`k`)."""

    name: str
    hosts: int
    hosts_per_leaf: int
    spines: int = 0
    k: int = 0
    rate_gbps: int = 100
    delay_ns: int = 1000

    @property
    def topo(self) -> str:
        """The fabric in csg-htsim's words."""
        if not self.k:
            leaves = self.hosts // self.hosts_per_leaf
            head = [f"Nodes {self.hosts}", "Tiers 2", f"Podsize {self.hosts}"]
            tiers = [(self.hosts_per_leaf, self.spines), (leaves, 0)]
        else:
            half = self.k // 2
            head = [f"Nodes {self.hosts}", "Tiers 3", f"Podsize {half * half}"]
            tiers = [(half, half), (half, half), (self.k, 0)]
        lines = head
        for number, (down, up) in enumerate(tiers):
            lines += [f"Tier {number}", f"Downlink_speed_Gbps {self.rate_gbps}"]
            lines += [f"Radix_Down {down}"] + ([f"Radix_Up {up}"] if up else [])
            lines += [f"Downlink_Latency_ns {self.delay_ns}", "Switch_Latency_ns 0"]
            lines += ["Bundle 1"] if self.k and number else []
        return "\n".join(lines) + "\n"

    def hops(self, src: int, dst: int) -> int:
        """Links between two hosts."""
        if src // self.hosts_per_leaf == dst // self.hosts_per_leaf:
            return 2
        if not self.k:
            return 4
        pod = (self.k // 2) ** 2
        return 4 if src // pod == dst // pod else 6


@dataclass(frozen=True, slots=True)
class Result:
    """What a run took: CPU seconds of the event loop, peak memory of the process, packet-hops."""

    cpu_s: float
    peak_mib: float
    hops: int
    last_us: float

    @property
    def hops_per_s(self) -> float:
        """Packet-hops a CPU second."""
        return self.hops / self.cpu_s


def run(program: Path, fabric: Fabric, flows: Sequence[tuple[int, int, int]], seed: int) -> Result:
    """One run of RoCE with PFC over ECMP. `flows` are (src, dst, bytes).

    Packet-hops: data packets and their acknowledges, one each, over the links of each flow's path;
    packets sent again are charged the mean path. Raises RuntimeError when the program fails.
    """
    with tempfile.TemporaryDirectory() as folder:
        topo, matrix = Path(folder, "fabric.topo"), Path(folder, "flows.cm")
        topo.write_text(fabric.topo)
        matrix.write_text(_matrix(fabric.hosts, flows))
        arguments = [
            *("-topo", topo, "-tm", matrix, "-nodes", fabric.hosts, "-mtu", MTU_BYTES),
            *("-strat", "ecmp_host", "-paths", 128, "-linkspeed", fabric.rate_gbps * 1000),
            *("-q", 1000, "-end", 100_000, "-seed", seed, "-o", Path(folder, "out.dat")),
        ]
        lines, loop_s, peak_mib = _watch([str(program.resolve()), *map(str, arguments)], folder)
    text = "\n".join(lines)
    sent = _PACKETS.search(text)
    if sent is None:
        raise RuntimeError(f"{program} ended without a result:\n" + "\n".join(lines[-5:]))
    needed = [-(-size // MTU_BYTES) for _, _, size in flows]
    hops = [fabric.hops(src, dst) for src, dst, _ in flows]
    links = sum(2 * n * h for n, h in zip(needed, hops, strict=True))
    resent = int(sent[2])
    links += resent * 2 * sum(hops) // len(hops)
    finished = [float(x) for x in re.findall(r"finished at ([\d.]+)", text)]
    return Result(loop_s, peak_mib, links, max(finished, default=0.0))


def _matrix(hosts: int, flows: Iterable[tuple[int, int, int]]) -> str:
    lines = [
        f"{src}->{dst} id {number} start 0 size {size}"
        for number, (src, dst, size) in enumerate(flows, 1)
    ]
    return "\n".join([f"Nodes {hosts}", f"Connections {len(lines)}", *lines]) + "\n"


def _watch(command: list[str], folder: str) -> tuple[list[str], float, float]:
    """Lines of a program's output, CPU seconds since it said that it starts, peak MiB.

    A pseudo terminal, so that it does not hold its lines back.
    """
    reader, writer = pty.openpty()
    process = subprocess.Popen(
        command, stdout=writer, stderr=writer, stdin=subprocess.DEVNULL, cwd=folder
    )
    os.close(writer)
    lines: list[str] = []
    before = peak_mib = 0.0
    with os.fdopen(reader, errors="replace") as output:
        try:
            for line in output:
                if line.startswith(_STARTED):
                    before = _cpu_s(process.pid)
                peak_mib = _peak_mib(process.pid) or peak_mib
                lines.append(line.rstrip())
        except OSError:
            pass  # a pseudo terminal ends with an error when the program does
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{command[0]} ended with {process.returncode}: " + " ".join(lines[-3:]))
    return lines, usage.ru_utime + usage.ru_stime - before, peak_mib


def _cpu_s(pid: int) -> float:
    """User and system seconds of a process so far (fields 14 and 15 of `proc_pid_stat(5)`)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _peak_mib(pid: int) -> float:
    """Peak memory of a process that runs, 0 when it has ended.

    The system's own figure after the end counts what the process was before it became the program.
    """
    status = Path(f"/proc/{pid}/status").read_text()
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    return int(found[1]) / 1024 if found else 0.0


def peak_mib() -> float:
    """Peak resident memory of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
