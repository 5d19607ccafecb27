"""What can run the switches of a live fabric: ours, or BMv2."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sglb.fabric.live.errors import LiveError
from sglb.fabric.live.fabric import LiveFabric
from sglb.fabric.live.lossless import live_buffers
from sglb.fabric.live.namespaces import mount_own_sysfs
from sglb.fabric.live.processes import ProcessSpec
from sglb.fabric.live.switches import Aside, SwitchProcess, live_config, warm_up
from sglb.fabric.scenario import Scenario
from sglb.p4.compiler import CompiledProgram
from sglb.switch.wire.port import InterfacePort

_COMPILER: Final = "p4c-bm2-ss"
_SWITCH: Final = "simple_switch_grpc"
_CPU_PORT: Final = "510"


class Embedded:
    """`sglb switch` in each namespace, as `fabric.SwitchTarget`.

    `aside` is called in each switch's process once it serves. Raises `LiveError` for a lossless class
    that finds no room.
    """

    name = "live"
    compiled: Path | None = None

    def __init__(
        self, scenario: Scenario, program: CompiledProgram, aside: Aside | None = None
    ) -> None:
        warm_up(program)
        self._aside = aside
        self._buffers = {n.id: live_buffers(scenario, n.id) for n in scenario.topology.switches}
        self._program = program
        self._config = live_config(scenario.model.switch.queue_bytes)
        self.depth_unit_bytes = self._config.cell_bytes

    def process(self, fabric: LiveFabric, switch_id: int) -> ProcessSpec:
        """The process of a switch."""
        topology = fabric.topology
        name = topology.by_id(switch_id).name
        ports = tuple(
            InterfacePort(port, fabric.ends[switch_id, port].interface, link.spec.rate_bps)
            for port, link in topology.ports(switch_id).items()
        )
        timers = fabric.plane.timers(switch_id)
        target = SwitchProcess(
            fabric.view,
            name,
            switch_id,
            self._program,
            ports,
            timers,
            self._config,
            buffers=self._buffers[switch_id],
            aside=self._aside,
        )
        return ProcessSpec(name, target, fabric.namespaces[switch_id], nice=-20)


def check_bmv2() -> None:
    """Raises `LiveError` without BMv2 and p4c."""
    for tool in (_COMPILER, _SWITCH):
        if shutil.which(tool) is None:
            raise LiveError(f"--on bmv2: {tool} is not on PATH")


class Bmv2:
    """BMv2's `simple_switch_grpc` in each namespace, as `fabric.SwitchTarget`.

    `source` is compiled into `folder`. Queues are not shaped: BMv2 knows rates in packets only. With
    `waited` the program sums up queue depths (`ecn.p4`). Raises `LiveError` without BMv2 and p4c, and
    for a program that p4c refuses.
    """

    name = "bmv2"

    def __init__(
        self, scenario: Scenario, source: Path, folder: Path, waited: bool = False
    ) -> None:
        check_bmv2()
        self.depth_unit_bytes = scenario.model.transport.mtu_bytes
        self.compiled: Path | None = folder / f"{source.stem}.bmv2"
        command = [_COMPILER, "--std", "p4-16", *(["-DWAITED"] if waited else [])]
        command += ["-o", str(self.compiled), str(source)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            lines = (done.stderr or done.stdout).strip().splitlines()
            raise LiveError(f"{_COMPILER} {source}: {lines[0] if lines else done.returncode}")

    def process(self, fabric: LiveFabric, switch_id: int) -> ProcessSpec:
        """The process of a switch."""
        topology = fabric.topology
        name = topology.by_id(switch_id).name
        ports = tuple(
            f"{port}@{fabric.ends[switch_id, port].interface}" for port in topology.ports(switch_id)
        )
        path = Path(fabric.view.addresses[switch_id].removeprefix("unix:"))
        target = Bmv2Process(name, switch_id, ports, path, fabric.view.ready(name))
        return ProcessSpec(name, target, fabric.namespaces[switch_id], nice=-15)


@dataclass(frozen=True)
class Bmv2Process:
    """The target of a process, which becomes `simple_switch_grpc`; it is ready once it serves."""

    name: str
    device_id: int
    ports: tuple[str, ...]
    path: Path
    ready: Path

    def __call__(self) -> None:
        """Becomes it."""
        mount_own_sysfs()  # where it looks for its interfaces
        self.path.unlink(missing_ok=True)
        self.ready.unlink(missing_ok=True)
        self.ready.symlink_to(self.path)  # leads nowhere until the socket is there
        command = [_SWITCH, "--no-p4", "--device-id", str(self.device_id)]
        command += ["--log-console", "-L", "warn", "--thrift-port", "9090"]
        command += ["--notifications-addr", f"ipc://{self.path.with_suffix('.ipc')}"]
        for port in self.ports:
            command += ["-i", port]
        command += ["--", "--grpc-server-addr", f"unix:{self.path}", "--cpu-port", _CPU_PORT]
        command += ["--priority-queues", "8"]
        os.execvp(_SWITCH, command)
