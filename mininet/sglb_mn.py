"""Fabrics of P4 switches in Mininet: topologies, and nodes for `sglb switch` and for BMv2.

    mn --custom mininet/sglb_mn.py --topo leafspine,4,4 --switch sglb --controller none --test pingall

Mininet runs on the system's Python, so this file needs nothing but Mininet; the `sglb` command is looked
for in $SGLB, beside this file's tree (.venv/bin) and on PATH.
"""

import argparse
import atexit
import ctypes
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

from mininet.cli import CLI
from mininet.link import Intf, Link, TCIntf
from mininet.log import error, info, setLogLevel
from mininet.net import Mininet as PlainMininet
from mininet.node import Host, Switch
from mininet.topo import Topo

START_TIMEOUT_S = 120  # the first switch compiles the program
STOP_TIMEOUT_S = 10
FIRST_GRPC_PORT = 50051  # as the tutorials number them
FIRST_THRIFT_PORT = 9090

# `mn` reads this file by exec, which sets no __file__.
HERE = Path(sys._getframe().f_code.co_filename).resolve().parent


class LabError(Exception):
    """What keeps a lab from starting, in one line."""


def sglb_command():
    """The `sglb` command. Raises LabError."""
    tree = HERE.parent / ".venv" / "bin" / "sglb"
    for found in (os.environ.get("SGLB"), tree, shutil.which("sglb")):
        if found and os.access(found, os.X_OK):
            return str(found)
    raise LabError("there is no sglb command on PATH; set SGLB to where it is")


def scratch_folder():
    """A folder that is gone at the end."""
    folder = Path(tempfile.mkdtemp(prefix="sglb-mn-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def run_sglb(*arguments):
    """Runs an `sglb` command. Raises LabError with what it had to say."""
    found = subprocess.run([sglb_command(), *arguments], capture_output=True, text=True)
    if found.returncode:
        raise LabError(found.stderr.strip() or "sglb {} failed".format(" ".join(arguments)))


def how_ended(name, status, log_file):
    """A line of a process that ended, with what it had to say at last."""
    if status < 0:
        return f"{name} ended with signal {-status}"
    lines = [x for x in log_file.read_text(errors="replace").splitlines() if not x.startswith("+ ")]
    last = lines[-1].removeprefix("error: ") if lines else f"see {log_file}"
    return f"{name} ended with status {status}: {last}"


def _end_with_parent():
    """In a child: SIGTERM when Mininet is gone, however it went; and no Ctrl-C of its terminal."""
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)
    os.setpgrp()


def _go_first():
    """The same, and before other processes: who is late with a heartbeat is taken for dead."""
    _end_with_parent()
    os.nice(-20)


# --- nodes ------------------------------------------------------------------------------------------


class P4Switch(Switch):
    """A switch that is a process of its own, in the namespace of Mininet.

    program: a P4 program; entries: a runtime file with what its tables hold (None: a controller
    writes them). grpc_port, device_id: counted up from 50051 and 0, in the order of the switches.
    cpu_port: the port of packet-ins. timers, realtime: as of `sglb switch`. log_dir: where NAME.log
    and, with pcap, captures go.
    """

    made = 0
    started: ClassVar[set[str]] = set()

    def __init__(
        self,
        name,
        program=None,
        entries=None,
        grpc_port=None,
        device_id=None,
        cpu_port=510,
        log_dir=None,
        pcap=False,
        timers=(),
        realtime=0,
        **params,
    ):
        number = P4Switch.made
        P4Switch.made += 1
        self.device_id = int(device_id) if device_id is not None else number
        params.setdefault("dpid", "%x" % (number + 1))
        Switch.__init__(self, name, **params)
        self.program = program
        self.entries = entries
        self.number = number
        self.grpc_port = int(grpc_port) if grpc_port is not None else FIRST_GRPC_PORT + number
        self.cpu_port = int(cpu_port)
        self.log_dir = Path(log_dir) if log_dir else P4Switch.default_log_dir()
        self.pcap = pcap
        self.timers = timers
        self.realtime = realtime
        self.process = None

    _log_dir = None

    @classmethod
    def default_log_dir(cls):
        """One folder for all switches that were given none; it is gone at the end."""
        if P4Switch._log_dir is None:
            P4Switch._log_dir = scratch_folder()
        return P4Switch._log_dir

    @property
    def log_file(self):
        """What the process has to say."""
        return self.log_dir / f"{self.name}.log"

    @property
    def address(self):
        """Of the P4Runtime server."""
        return f"127.0.0.1:{self.grpc_port}"

    def data_ports(self):
        """(port, interface) of all ports that frames pass."""
        return [(n, i) for n, i in sorted(self.intfs.items()) if i.name != "lo"]

    def launch(self, command):
        """Starts the process; it ends with Mininet."""
        with self.log_file.open("w") as log:
            log.write("+ {}\n".format(" ".join(command)))
            log.flush()
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                preexec_fn=_go_first if self.realtime else _end_with_parent,
            )

    def start(self, _controllers):
        """Begins to start; `batchStartup` waits, so that all start side by side.

        But the first with a program compiles it alone: the others find what it has kept.
        """
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", self.grpc_port))
            except OSError:
                raise LabError(f"{self.name}: {self.address} is in use") from None
        for _, intf in self.data_ports():
            # Or the kernel of this namespace would speak on the links, too.
            self.cmd(f"sysctl -qw net.ipv6.conf.{intf.name}.disable_ipv6=1")
        self.launch(self.command())
        if self.program not in self.started:
            self.wait_ready(time.monotonic() + START_TIMEOUT_S)
            self.started.add(self.program)

    def connected(self):
        """Whether the process takes P4Runtime sessions. Raises LabError when it never will."""
        if self.ended():
            raise LabError(self.ended())
        return self.process is not None and self.listens()

    def ended(self):
        """How the process ended, if it did so by itself; else an empty text."""
        status = None if self.process is None else self.process.poll()
        return "" if status is None else how_ended(self.name, status, self.log_file)

    def listens(self):
        """Whether somebody listens at the P4Runtime address."""
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.grpc_port)) == 0

    def wait_ready(self, deadline):
        """Raises LabError when the process ends, or does not listen in time."""
        while not self.listens():
            if self.process.poll() is not None:
                raise LabError(f"{self.name} did not start:\n{self.last_words()}")
            if time.monotonic() > deadline:
                raise LabError(f"{self.name} does not listen on {self.address}")
            time.sleep(0.05)

    def last_words(self):
        """The end of the log."""
        with self.log_file.open() as log:
            return "".join(log.readlines()[1:][-10:]).strip()

    @classmethod
    def batchStartup(cls, switches):  # noqa: N802 - Mininet's name
        """Waits until all of these listen. Raises LabError."""
        deadline = time.monotonic() + START_TIMEOUT_S
        for switch in switches:
            switch.wait_ready(deadline)
        return switches

    def stop(self, deleteIntfs=True):  # noqa: N803 - Mininet's name
        """Ends the process and removes the links."""
        if self.process is not None:
            self.process.terminate()
            try:
                self.process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
            self.process = None
        Switch.stop(self, deleteIntfs)

    def describe(self):
        """A line for the user."""
        return f"{self.name}: P4Runtime on {self.address}, device {self.device_id}, log {self.log_file}"


class FabricControl:
    """`sglb control`: fills the switches of a fabric, and runs its agents."""

    wanted = None  # what `topology.json` says of it
    process = None
    log_file = None
    failure = ""  # how it ended, unless with status 0

    @classmethod
    def launch(cls, switches, log_dir):
        """Starts it and waits until all is filled. Raises LabError."""
        log_file = cls.log_file = log_dir / "control.log"
        command = [sglb_command(), "control", cls.wanted["fabric"]]
        command += ["--policy", cls.wanted["policy"], "--log-dir", str(log_dir)]
        if cls.wanted["mbps"]:
            command += ["--mbps", str(cls.wanted["mbps"])]
        for switch in switches:
            command += ["--switch", f"{switch.name}={switch.address}"]
        with log_file.open("w") as log:
            cls.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                preexec_fn=_go_first,
            )
        deadline = time.monotonic() + START_TIMEOUT_S
        while "ready" not in log_file.read_text().split():
            if cls.process.poll() is not None or time.monotonic() > deadline:
                raise LabError(f"the controller did not start:\n{log_file.read_text().strip()}")
            time.sleep(0.05)

    @classmethod
    def end(cls):
        """Ends it, if it runs."""
        if cls.process is not None:
            cls.process.terminate()
            status = cls.process.wait()
            cls.process = None
            cls.failure = how_ended("sglb control", status, cls.log_file) if status else ""


class SglbSwitch(P4Switch):
    """`sglb switch`. It shapes its ports to the bandwidth of their links itself."""

    @classmethod
    def batchStartup(cls, switches):  # noqa: N802 - Mininet's name
        """Waits for all, then starts the fabric's controller if it has one."""
        P4Switch.batchStartup(switches)
        if FabricControl.wanted is not None:
            FabricControl.launch(switches, switches[0].log_dir)
        return switches

    def stop(self, deleteIntfs=True):  # noqa: N803 - Mininet's name
        """Ends the controller before its switches."""
        FabricControl.end()
        P4Switch.stop(self, deleteIntfs)

    def command(self):
        """The command line. Raises LabError."""
        command = [sglb_command(), "switch"]
        if self.program:
            command += [self.program, "--port-events"]
        command += [f"--timer={timer}" for timer in self.timers]
        if self.realtime:
            command += ["--realtime", str(self.realtime)]
        if self.entries:
            command += ["--entries", self.entries]
        for port, intf in self.data_ports():
            command += ["--port", f"{port}:{intf.name}"]
            bw = intf.params.get("bw")
            if bw:
                command += ["--rate", f"{port}:{float(bw):.6f}M"]
        command += ["--grpc", self.address, "--device-id", str(self.device_id)]
        command += ["--cpu-port", str(self.cpu_port)]
        if self.pcap:
            command += ["--pcap", self._capture_folder()]
        return command

    def _capture_folder(self):
        folder = self.log_dir / f"{self.name}-pcap"
        folder.mkdir(exist_ok=True)
        return str(folder)


class Bmv2Switch(P4Switch):
    """BMv2's `simple_switch_grpc`, with the program as `p4c-bm2-ss` compiles it; both on PATH."""

    compiled: ClassVar[dict[str, Path]] = {}

    def command(self):
        """The command line. Raises LabError."""
        for tool in ("simple_switch_grpc", "p4c-bm2-ss"):
            if shutil.which(tool) is None:
                raise LabError(f"{tool} is not on PATH")
        command = ["simple_switch_grpc", "--no-p4", "--device-id", str(self.device_id)]
        for port, intf in self.data_ports():
            command += ["-i", f"{port}@{intf.name}"]
            # Checksums that a host's kernel leaves to hardware would never be made up.
            for end in (intf.link.intf1, intf.link.intf2):
                if isinstance(end.node, Host):
                    end.node.cmd(f"ethtool -K {end.name} tx off")
        command += ["--thrift-port", str(FIRST_THRIFT_PORT + self.number)]
        if self.pcap:
            command.append(f"--pcap={self.log_dir}")
        command += ["--", "--grpc-server-addr", self.address, "--cpu-port", str(self.cpu_port)]
        return command

    def json_file(self):
        """The compiled program. Raises LabError."""
        if self.program not in self.compiled:
            path = self.log_dir / f"{Path(self.program).stem}.json"
            found = subprocess.run(
                ["p4c-bm2-ss", "--std", "p4-16", "-o", str(path), self.program],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            if found.returncode:
                raise LabError(f"p4c-bm2-ss {self.program}: {found.stdout.strip()}")
            self.compiled[self.program] = path
        return self.compiled[self.program]

    @classmethod
    def batchStartup(cls, switches):  # noqa: N802 - Mininet's name
        """Waits for all, then loads programs and entries."""
        P4Switch.batchStartup(switches)
        for switch in switches:
            if switch.program and switch.entries:
                run_sglb(
                    "load",
                    switch.program,
                    switch.entries,
                    f"--grpc={switch.address}",
                    f"--device-id={switch.device_id}",
                    f"--device-config={switch.json_file()}",
                )
        return switches


class P4Host(Host):
    """A host with one interface eth0, no IPv6 and, if given, commands to run at the start."""

    def config(self, commands=(), **params):
        """Mininet calls this once the links are there."""
        result = Host.config(self, **params)
        self.defaultIntf().rename("eth0")
        for kind in ("all", "default"):
            self.cmd(f"sysctl -qw net.ipv6.conf.{kind}.disable_ipv6=1")
        for command in commands:
            told = self.cmd(command).strip()
            if told:
                info(f"{self.name}: {command}: {told}\n")
        return result


class P4Intf(TCIntf):
    """An interface with bandwidth and delay by tc; a switch that shapes its own ports has no need."""

    def config(self, bw=None, delay=None, **params):
        """Reports a qdisc that the kernel lacks, and goes on without."""
        shaped = bw is not None and not isinstance(self.node, SglbSwitch)
        if not shaped and not delay:
            return Intf.config(self, **params)
        return TCIntf.config(self, bw=bw if shaped else None, delay=delay, **params)


class P4Link(Link):
    """A veth pair of such interfaces."""

    def __init__(self, *args, **params):
        """Takes what `Link` takes, and bw (Mbit/s) and delay (`5ms`)."""
        params["intf"] = P4Intf
        Link.__init__(self, *args, **params)


# --- topologies -------------------------------------------------------------------------------------


class FileTopo(Topo):
    """p4,DIR/topology.json

    A topology of the P4 tutorials, with the runtime files that it names.

    path: the file, whose own paths start from its folder. programs, entries: switch -> P4 program,
    runtime file, in place of those that the file names.
    """

    def build(self, path=None, programs=None, entries=None, log_dir=None, pcap=False):
        """Reads the file. Raises LabError."""
        if path is None:
            raise LabError("--topo p4,FILE: which topology.json?")
        data = read_json(path)
        FabricControl.wanted = data.get("control")
        root = Path(path).resolve().parent
        for name, params in data["switches"].items():
            program = (programs or {}).get(name) or params.get("program")
            held = (entries or {}).get(name)
            held = held or params.get("runtime_json") or params.get("cli_input")
            told = {
                "program": str(root / program) if program else None,
                "entries": str(root / held) if held else None,
                "device_id": params.get("device_id"),
                "cpu_port": params.get("cpu_port"),
                "timers": params.get("timers"),
                "realtime": params.get("realtime"),
                "log_dir": log_dir,
                "pcap": pcap or None,
            }
            # What the file leaves open is the switch's, or `--switch sglb,...`'s to say.
            self.addSwitch(name, **{k: v for k, v in told.items() if v is not None})
        for name, params in data["hosts"].items():
            self.addHost(
                name,
                cls=P4Host,
                ip=params["ip"],
                mac=params.get("mac"),
                commands=params.get("commands", ()),
            )
        for link in data["links"]:
            self._link(data["hosts"], *link)

    def _link(self, hosts, one, two, delay=None, mbps=None):
        ends = [(n, None) if n in hosts else split_port(n) for n in (one, two)]
        if isinstance(delay, (int, float)):
            delay = f"{delay}ms" if delay else None
        elif delay is not None and not delay.strip("0.").rstrip("umns"):
            delay = None  # no qdisc for nothing
        (node1, port1), (node2, port2) = ends
        self.addLink(node1, node2, port1=port1, port2=port2, cls=P4Link, bw=mbps, delay=delay)


def split_port(text):
    """("s1", 2) of "s1-p2". Raises LabError."""
    name, dash, port = text.rpartition("-p")
    if not dash or not port.isdigit():
        raise LabError(f"{text!r} is neither a host nor a switch with its port, as in s1-p2")
    return name, int(port)


def read_json(path):
    """A JSON file. Raises LabError."""
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as problem:
        raise LabError(f"{path}: {problem.strerror}") from None
    except ValueError as problem:
        raise LabError(f"{path}: is not JSON: {problem}") from None


class FabricTopo(FileTopo):
    """A fabric as `sglb export` writes it, running the balancing program.

    policy: ecmp, flowlet or spray, by entries alone, or dlb or glb, with a controller and agents. bw:
    Mbit/s of the fastest link (None: as fast as it goes; for dlb and glb what the machine can follow).
    """

    def export(self, what, policy="flowlet", bw=None):
        """Writes the files and builds what they say. Raises LabError."""
        folder = scratch_folder()
        rate = [] if bw is None else [f"--mbps={bw}"]
        run_sglb("export", what, str(folder), f"--policy={policy}", *rate)
        FileTopo.build(self, folder / "topology.json")


class LeafSpineTopo(FabricTopo):
    """leafspine,LEAVES,SPINES[,HOSTS A LEAF]"""

    def build(self, leaves=2, spines=2, hosts=1, **how):
        """See `FabricTopo.export` for what else may be given."""
        self.export(f"leafspine,{leaves},{spines},{hosts}", **how)


class Clos3Topo(FabricTopo):
    """clos3,PODS,LEAVES A POD,SPINES A POD,CORES A SPINE,HOSTS A LEAF"""

    def build(self, pods=2, leaves=2, spines=2, cores=1, hosts=1, **how):
        """See `FabricTopo.export` for what else may be given."""
        self.export(f"clos3,{pods},{leaves},{spines},{cores},{hosts}", **how)


class ScenarioTopo(FabricTopo):
    """scenario,FILE.yaml"""

    def build(self, path="", **how):
        """See `FabricTopo.export` for what else may be given."""
        self.export(path, **how)


@contextmanager
def _status_1():
    """For `mn`: what goes wrong in here ends it with a line and status 1.

    An exception would have it remove all that it takes for Mininet's, other labs' too, and end with 0.
    """
    try:
        yield
    except LabError as problem:
        raise SystemExit("error: {}".format(str(problem).removeprefix("error: "))) from None


def _for_mn(kind):
    """What `mn` calls; it knows of no mistakes in --topo."""

    def make(*numbers, **how):
        try:
            with _status_1():
                return kind(*numbers, **how)
        except TypeError as problem:
            usage = kind.__doc__.splitlines()[0]
            raise SystemExit(f"error: --topo {usage}: {problem}") from None

    return make


topos = {
    "leafspine": _for_mn(LeafSpineTopo),
    "clos3": _for_mn(Clos3Topo),
    "scenario": _for_mn(ScenarioTopo),
    "p4": _for_mn(FileTopo),
}
switches = {"sglb": SglbSwitch, "bmv2": Bmv2Switch}


# --- networks ---------------------------------------------------------------------------------------


class Lab(PlainMininet):
    """A network that tells when a part of it fails."""

    stopped = False

    def build(self):
        """Makes nodes and links. Raises LabError, with nothing left behind."""
        try:
            PlainMininet.build(self)
        except LabError:
            self._take_down()
            raise
        except Exception as problem:  # Mininet's own, of a command that failed
            self._take_down()
            raise LabError(
                f"{' '.join(str(problem).split())}: is another lab running, or was one killed?"
            ) from None

    def start(self):
        """Starts all of it. Raises LabError, with nothing left behind."""
        try:
            PlainMininet.start(self)
        except LabError:
            self._take_down()
            raise

    def stop(self):
        """Ends all of it; a second time does nothing. Raises LabError for what had ended by itself."""
        if self.stopped:
            return
        ends = [s.ended() for s in self.switches if isinstance(s, P4Switch)]
        self._take_down()
        told = [line for line in (*ends, FabricControl.failure) if line]
        if told:
            raise LabError("\n".join(told))

    def _take_down(self):
        self.stopped = True
        PlainMininet.stop(self)


class Mininet(Lab):
    """`mn` makes its network from a class of this name, if a --custom file has one."""

    def build(self):
        """See `Lab`. Raises SystemExit."""
        with _status_1():
            Lab.build(self)

    def start(self):
        """See `Lab`. Raises SystemExit."""
        with _status_1():
            Lab.start(self)

    def stop(self):
        """See `Lab`. Raises SystemExit."""
        with _status_1():
            Lab.stop(self)


# --- one lab from its files -------------------------------------------------------------------------


def run_lab(options):
    """Builds, starts, tests or hands over to the prompt, and removes all of it; the exit status."""
    topo = FileTopo(
        path=options.topology,
        programs=json.loads(options.programs),
        entries=json.loads(options.entries),
        log_dir=options.log_dir,
        pcap=options.pcap,
    )
    net = Lab(topo=topo, switch=switches[options.switch], controller=None)
    try:
        net.start()
        for switch in net.switches:
            info(f"{switch.describe()}\n")
        if options.test == "pingall":
            return 1 if net.pingAll(timeout="3") else 0
        if options.test is None:
            CLI(net, script=options.script)
        return 0
    finally:
        net.stop()


def main():
    """`python3 sglb_mn.py TOPOLOGY ...`, as `sglb tutorial` calls it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("topology")
    parser.add_argument("--programs", default="{}")
    parser.add_argument("--entries", default="{}")
    parser.add_argument("--switch", choices=sorted(switches), default="sglb")
    parser.add_argument("--log-dir")
    parser.add_argument("--pcap", action="store_true")
    parser.add_argument("--test", choices=("pingall", "none"))
    parser.add_argument("--script")
    options = parser.parse_args()
    setLogLevel("info")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        return run_lab(options)
    except LabError as problem:
        error(f"error: {problem}\n")
        return 1
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
