"""The baseline: a scenario's fabric as Linux routers running FRR, cut at one link, and what that costs.

    sudo .venv/bin/python bench/frr_fabric.py [SCENARIO.yaml] [--link NAME] [--quick] [--json FILE]

Each switch is a network namespace that routes (eBGP over numbered /31 links, an AS a leaf and one for
the spines, the kernel's ECMP by addresses and ports), its daemons are FRR's zebra, bgpd and bfdd. Behind
each leaf stands a namespace for its hosts, from which small UDP packets go between all pairs of hosts of
different leaves, at a fixed rate, over many ports and so all paths. Then a link is cut:

- `down`: both ends `ip link set down`;
- `black_hole`: both ends drop what comes in and say nothing.

Settings: `timers` is FRR's profile for data centres (keepalive 3 s, hold 9 s, no advertisement delay),
`bfd` the same with BFD, 3 x 50 ms. Needs root, Debian's `frr` and `nftables`.
"""

from __future__ import annotations

import argparse
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Final, Literal

from sglb.fabric import scenario as scenarios
from sglb.fabric.live import namespaces, processes
from sglb.fabric.live.links import End, LinkSocket
from sglb.fabric.live.namespaces import Namespace
from sglb.fabric.live.packets import open_socket
from sglb.fabric.live.traffic import probe_frame, probe_number
from sglb.fabric.report import LossWindow
from sglb.fabric.scenario import Scenario
from sglb.fabric.topology import Link, Node, NodeKind, Topology

HERE: Final = Path(__file__).parent
EXAMPLE: Final = HERE.parent / "examples" / "leafspine-failover.yaml"
DAEMONS: Final = Path("/usr/lib/frr")

Setting = Literal["timers", "bfd"]
Cut = Literal["down", "black_hole"]
SETTINGS: Final[tuple[Setting, ...]] = ("timers", "bfd")
CUTS: Final[tuple[Cut, ...]] = ("down", "black_hole")

_SPINE_AS: Final = 64_512
_FIRST_LEAF_AS: Final = 65_000
_CONVERGE_S: Final = 90.0
_STEADY_S: Final = 1.0
_LINGER_S: Final = 0.3
_QUIET_S: Final = 1.0  #: without a loss, the cut is over
#: How long a cut may hurt: hold time and a bit, or detection and a bit.
_LONGEST_S: Final = {"timers": 15.0, "bfd": 5.0}
_SOURCE_PORTS: Final = 97
_HOSTS: Final = "hosts"  #: the leaf's interface to its hosts
_NS: Final = 1_000_000_000


class FrrError(RuntimeError):
    """What keeps the baseline from running, in one line."""


def why_not() -> str:
    """Why the baseline cannot run here, or ''."""
    reason = namespaces.why_not()
    if reason:
        return reason
    missing = [name for name in ("zebra", "bgpd", "bfdd") if not (DAEMONS / name).exists()]
    if missing:
        return f"it needs FRR ({DAEMONS / missing[0]}): apt-get install frr"
    for tool in ("ip", "nft"):
        if shutil.which(tool) is None:
            return f"it needs {tool}: apt-get install iproute2 nftables"
    return ""


@dataclass(frozen=True, slots=True)
class FrrLoss:
    """What one cut cost under one setting.

    `remote` counts probes from leaves that are not at the cut toward the leaf that is, `local` those
    from it; times are from the cut to the sending of the probe. `probes` were sent in all, `rate` a
    second. `recovered` is False when losses had not ended after the longest time that they may take.
    """

    setting: Setting
    cut: Cut
    link: str
    remote: LossWindow
    local: LossWindow
    probes: int
    probes_per_s: int
    recovered: bool

    @property
    def loss_us(self) -> float:
        """From the cut to the last probe lost, remote or local; 0 without a loss."""
        return max(self.remote.last_us or 0.0, self.local.last_us or 0.0)


# --- the routers ----------------------------------------------------------------------------------


@dataclass(slots=True)
class _Router:
    node: Node
    namespace: Namespace
    links: LinkSocket
    asn: int


class FrrFabric:
    """The routers of a leaf-spine topology; use it as a context manager. Raises `FrrError`."""

    def __init__(self, topology: Topology, setting: Setting) -> None:
        self.topology = topology
        self._setting = setting
        self._stack = ExitStack()
        self._processes: list[processes.Process] = []
        self._routers: dict[int, _Router] = {}
        self.hosts: dict[int, Namespace] = {}
        self._ends: dict[tuple[int, int], End] = {}
        self._droppers: dict[int, subprocess.Popen[str]] = {}
        self._batches: dict[int, list[str]] = {}
        self._index = 100

    def __enter__(self) -> FrrFabric:
        try:
            self._build()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the daemons; the namespaces go with the last of them."""
        for dropper in self._droppers.values():
            dropper.kill()
            dropper.communicate()
        processes.end_all(self._processes)
        self._processes.clear()
        self._stack.close()

    def _build(self) -> None:
        folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="sglb-frr-")))
        folder.chmod(0o755)  # the daemons run as the user frr
        topology = self.topology
        for number, node in enumerate(topology.switches):
            if node.kind not in (NodeKind.LEAF, NodeKind.SPINE):
                raise FrrError(f"{node.name}: the baseline is for leaves and spines only")
            namespace = self._namespace(node.name, "net.ipv4.ip_forward=1")
            links = LinkSocket(namespace)
            self._stack.callback(links.close)
            asn = _SPINE_AS if node.kind is NodeKind.SPINE else _FIRST_LEAF_AS + number
            self._routers[node.id] = _Router(node, namespace, links, asn)
            self._batches[node.id] = ["link set lo up"]
        for link in topology.links:
            if link.a in self._routers and link.b in self._routers:
                self._cable(link)
        for leaf in self.leaves():
            self._add_hosts(leaf)
        for router in self._routers.values():
            self._addresses(router)
        for name in ("zebra", "bfdd", "bgpd"):
            if name != "bfdd" or self._setting == "bfd":
                self._start(name, folder)
        self._wait()

    def leaves(self) -> Iterator[Node]:
        """Switches with hosts."""
        return (n for n in self.topology.switches if self.topology.hosts_of(n.id))

    def _namespace(self, name: str, *settings: str) -> Namespace:
        found = Namespace(name)
        self._stack.callback(found.close)
        with found.inside():
            for setting in ("net.ipv4.fib_multipath_hash_policy=1", *settings):
                key, _, value = setting.partition("=")
                Path("/proc/sys", *key.split(".")).write_text(value)
            for kind in ("all", "default"):
                Path(f"/proc/sys/net/ipv4/conf/{kind}/rp_filter").write_text("0")
        return found

    def _end(self, node_id: int, name: str, namespace: Namespace) -> End:
        self._index += 1
        mac = bytes((2, 1)) + node_id.to_bytes(2, "big") + self._index.to_bytes(2, "big")
        return End(namespace, name, self._index, mac)

    def _cable(self, link: Link) -> None:
        """A link between routers, with 172.16.0.2n at a, the next address at b."""
        base = (172 << 24 | 16 << 16) + 2 * link.id
        for place, (own, other) in enumerate(((link.a, link.b), (link.b, link.a))):
            router = self._routers[own]
            name = _interface(link.port(own))
            self._ends[own, link.id] = self._end(own, name, router.namespace)
            self._batches[own].append(f"addr add {_dotted(base + place)}/31 dev {name}")
            del other
        a, b = self._ends[link.a, link.id], self._ends[link.b, link.id]
        self._routers[link.a].links.join(a, b, 1500)
        for node_id, end in ((link.a, a), (link.b, b)):
            self._routers[node_id].links.set_up(end, True)

    def _add_hosts(self, leaf: Node) -> None:
        """One interface stands for all hosts of a leaf; it answers nothing, so neighbours are told."""
        router = self._routers[leaf.id]
        namespace = self.hosts[leaf.id] = self._namespace(f"hosts of {leaf.name}")
        inner = self._end(leaf.id, _HOSTS, router.namespace)
        outer = self._end(leaf.id, "eth0", namespace)
        router.links.join(inner, outer, 1500)
        router.links.set_up(inner, True)
        host_links = LinkSocket(namespace)
        host_links.set_up(outer, True)
        host_links.close()
        prefix = self.topology.prefix4(leaf.id)
        batch = self._batches[leaf.id]
        batch.append(f"addr add {prefix[254]}/24 dev {_HOSTS}")
        for host in self.topology.hosts_of(leaf.id):
            address = self.topology.address(host.id)
            batch.append(f"neigh add {address.ipv4} lladdr {outer.mac.hex(':')} dev {_HOSTS}")
        self._ends[leaf.id, -1] = inner

    def gateway(self, leaf_id: int) -> bytes:
        """The MAC address that a leaf's hosts send to."""
        return self._ends[leaf_id, -1].mac

    def _addresses(self, router: _Router) -> None:
        _run_in(router.namespace, ["ip", "-batch", "-"], "\n".join(self._batches[router.node.id]))

    # --- daemons ---

    def _start(self, daemon: str, folder: Path) -> None:
        for router in self._routers.values():
            home = folder / router.node.name
            if not home.is_dir():
                home.mkdir()
                shutil.chown(home, "frr", "frr")
            config = home / f"{daemon}.conf"
            config.write_text(self._config(router, daemon))
            command = [str(DAEMONS / daemon), "-F", "datacenter", "-f", str(config)]
            command += ["-P", "0", "-z", str(home / "zserv.api")]
            command += ["--vty_socket", str(home), "-i", str(home / f"{daemon}.pid")]
            command += ["--log", "stdout", "--log-level", "warnings"]
            if daemon == "bfdd":
                command += ["--bfdctl", str(home / "bfdd.sock")]
            spec = processes.ProcessSpec(
                f"{daemon} of {router.node.name}",
                partial(os.execv, command[0], command),
                router.namespace,
            )
            self._processes.append(processes.start(spec, home / f"{daemon}.log"))
        if daemon == "zebra":
            for router in self._routers.values():
                self._await((folder / router.node.name / "zserv.api").exists, "zebra")

    def _config(self, router: _Router, daemon: str) -> str:
        if daemon != "bgpd":
            return f"hostname {router.node.name}\n"
        node, topology = router.node, self.topology
        lines = [f"hostname {node.name}"]
        if self._setting == "bfd":
            lines += ["bfd", " profile fast", "  detect-multiplier 3"]
            lines += ["  receive-interval 50", "  transmit-interval 50", " exit", "exit"]
        lines += [f"router bgp {router.asn}", f" bgp router-id 10.255.0.{node.id}"]
        lines += [" no bgp ebgp-requires-policy", " bgp bestpath as-path multipath-relax"]
        for link in topology.ports(node.id).values():
            if link.other(node.id) not in self._routers:
                continue
            peer = _dotted((172 << 24 | 16 << 16) + 2 * link.id + (node.id == link.a))
            asn = self._routers[link.other(node.id)].asn
            lines += [f" neighbor {peer} remote-as {asn}"]
            if self._setting == "bfd":
                lines += [f" neighbor {peer} bfd profile fast"]
        lines += [" address-family ipv4 unicast", "  maximum-paths 64"]
        if topology.hosts_of(node.id):
            lines += [f"  network {topology.prefix4(node.id)}"]
        return "\n".join([*lines, " exit-address-family", "exit", ""])

    def _await(self, true: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + _CONVERGE_S
        while not true():
            for process in self._processes:
                if select.select([process.pidfd], [], [], 0)[0]:
                    raise FrrError(f"{process.spec.name} ended: {process.last_words()}")
            if time.monotonic() > deadline:
                raise FrrError(f"{what}: not there after {_CONVERGE_S:g} s")
            time.sleep(0.05)

    def _wait(self) -> None:
        """Until every leaf has all paths to every other one."""
        for leaf in self.leaves():
            self._await(partial(self._complete, leaf), f"routes of {leaf.name}")

    def _complete(self, leaf: Node) -> bool:
        topology = self.topology
        uplinks = sum(
            one.other(leaf.id) in self._routers for one in topology.ports(leaf.id).values()
        )
        text = _run_in(
            self._routers[leaf.id].namespace, ["ip", "-j", "route", "show", "proto", "bgp"]
        )
        routes = {r["dst"]: len(r.get("nexthops", [r])) for r in json.loads(text or "[]")}
        return all(
            routes.get(str(topology.prefix4(other.id))) == uplinks
            for other in self.leaves()
            if other.id != leaf.id
        )

    # --- the cut ---

    def prepare(self, link: Link) -> None:
        """Has a filter at both ends at hand, so that a black hole opens at once."""
        for node_id in (link.a, link.b):
            name = _interface(link.port(node_id))
            namespace = self._routers[node_id].namespace
            rules = f"""table netdev cut {{ chain in {{
                type filter hook ingress device "{name}" priority 0; policy accept; }} }}"""
            _run_in(namespace, ["nft", "-f", "-"], rules)
            self._droppers[node_id] = subprocess.Popen(
                ["nft", "-f", "-"],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
                preexec_fn=namespace.enter,
            )

    def cut(self, link: Link, kind: Cut) -> int:
        """Cuts a link at both ends; the time of the first, in ns of the monotonic clock."""
        began_ns = time.monotonic_ns()
        for node_id in (link.a, link.b):
            if kind == "down":
                self._routers[node_id].links.set_up(self._ends[node_id, link.id], False)
            else:
                stdin = self._droppers[node_id].stdin
                assert stdin is not None
                stdin.write("add chain netdev cut in { policy drop; }\n")
                stdin.close()
        return began_ns


def _interface(port: int) -> str:
    return f"swp{port}"


def _dotted(number: int) -> str:
    return socket.inet_ntoa(number.to_bytes(4, "big"))


def _run_in(namespace: Namespace, command: Sequence[str], text: str = "") -> str:
    found = subprocess.run(
        command, input=text, capture_output=True, text=True, preexec_fn=namespace.enter
    )
    if found.returncode:
        raise FrrError(f"{namespace.name}: {' '.join(command)}: {found.stderr.strip()}")
    return found.stdout


# --- the probes -----------------------------------------------------------------------------------


@dataclass(slots=True)
class _Probe:
    time_ns: int
    src_leaf: int
    dst_leaf: int
    came: bool = False


class _Prober:
    """Sends probes between all pairs of hosts of different leaves in turn, and notes what comes."""

    def __init__(self, fabric: FrrFabric, probes_per_s: int, seed: int) -> None:
        topology = fabric.topology
        self._sockets = {i: open_socket(n, "eth0") for i, n in fabric.hosts.items()}
        for found in self._sockets.values():
            found.setblocking(False)
        self._poll = select.poll()
        self._by_fd = {found.fileno(): found for found in self._sockets.values()}
        for fd in self._by_fd:
            self._poll.register(fd, select.POLLIN)
        leaf_of = {h.id: topology.switch_of(h.id).id for h in topology.hosts}
        pairs = [
            (a.id, b.id)
            for a in topology.hosts
            for b in topology.hosts
            if leaf_of[a.id] != leaf_of[b.id]
        ]
        import random

        random.Random(seed).shuffle(pairs)
        self._pairs = cycle(pairs)
        self._count = len(pairs)
        self._leaf_of = leaf_of
        self._address = {h.id: topology.address(h.id) for h in topology.hosts}
        self._gateway = {i: fabric.gateway(i) for i in fabric.hosts}
        self._gap_ns = _NS // probes_per_s
        self.probes: list[_Probe] = []
        self._due_ns = time.monotonic_ns()

    def close(self) -> None:
        for found in self._sockets.values():
            found.close()

    def run(self, seconds: float, over: Callable[[int], bool] | None = None) -> bool:
        """Sends for so long, or until `over(now_ns)`; whether it was."""
        end_ns = time.monotonic_ns() + round(seconds * _NS)
        look_ns = 0
        while (now_ns := time.monotonic_ns()) < end_ns:
            while self._due_ns <= now_ns:
                self._send()
                self._due_ns += self._gap_ns
            self._receive(max(0.0, (self._due_ns - time.monotonic_ns()) / 1e6))
            if over is not None and now_ns >= look_ns:
                look_ns = now_ns + _NS // 20
                if over(now_ns):
                    return True
        return False

    def drain(self) -> None:
        """Waits for what is under way."""
        end_s = time.monotonic() + _LINGER_S
        while time.monotonic() < end_s:
            self._receive(10)

    def _send(self) -> None:
        number = len(self.probes)
        src, dst = next(self._pairs)
        leaf = self._leaf_of[src]
        port = 49_152 + number // self._count % _SOURCE_PORTS
        frame = probe_frame(
            self._address[src], self._address[dst], self._gateway[leaf], port, number
        )
        self.probes.append(_Probe(time.monotonic_ns(), leaf, self._leaf_of[dst]))
        try:
            self._sockets[leaf].send(frame)
        except BlockingIOError:
            raise FrrError("the machine is too slow for so many probes a second") from None

    def _receive(self, wait_ms: float) -> None:
        for fd, _ in self._poll.poll(wait_ms):
            for _ in range(64):
                try:
                    frame = self._by_fd[fd].recv(2048)
                except BlockingIOError:
                    break
                number = probe_number(frame)
                if number is not None and number < len(self.probes):
                    self.probes[number].came = True

    def last_loss_ns(self, before_ns: int) -> int:
        """When the last probe was sent that is older than `before_ns` and has not come; 0: none."""
        for probe in reversed(self.probes):
            if probe.time_ns < before_ns and not probe.came:
                return probe.time_ns
        return 0


# --- measuring ------------------------------------------------------------------------------------


def measure(
    scenario: Scenario,
    link: str,
    setting: Setting,
    cut: Cut,
    *,
    probes_per_s: int = 4_000,
) -> FrrLoss:
    """Builds the fabric, waits for its routes, cuts `link` (as in leaf0-spine1) and counts.

    Ends when nothing has been lost for a second. Raises `FrrError`, also when probes were lost before
    the cut, and `TopologyError` for an unknown link.
    """
    topology = scenario.topology
    (dead,) = topology.find_links(link)
    with FrrFabric(topology, setting) as fabric:
        if cut == "black_hole":
            fabric.prepare(dead)
        prober = _Prober(fabric, probes_per_s, scenario.model.seed)
        try:
            prober.run(_STEADY_S)
            prober.drain()
            early = sum(not probe.came for probe in prober.probes[len(prober.probes) // 4 :])
            if early:
                raise FrrError(f"{early} probes were lost before anything was cut")
            start = len(prober.probes)
            prober._due_ns = time.monotonic_ns()
            cut_ns = fabric.cut(dead, cut)
            recovered = prober.run(_LONGEST_S[setting], partial(_over, prober, cut_ns))
            prober.drain()
        finally:
            prober.close()
    seen = prober.probes[start:]
    at_cut = {dead.a, dead.b}
    to_cut = [p for p in seen if p.dst_leaf in at_cut]
    from_cut = [p for p in seen if p.src_leaf in at_cut]
    return FrrLoss(
        setting,
        cut,
        link,
        _window(link, to_cut, cut_ns),
        _window(link, from_cut, cut_ns),
        len(seen),
        probes_per_s,
        recovered,
    )


def _over(prober: _Prober, cut_ns: int, now_ns: int) -> bool:
    """Whether a second has passed in which nothing was lost, and the cut can have been noticed."""
    settled_ns = now_ns - round(_LINGER_S * _NS)
    last_ns = prober.last_loss_ns(settled_ns)
    return now_ns - max(last_ns, cut_ns) > round((_QUIET_S + _LINGER_S) * _NS)


def _window(link: str, probes: Sequence[_Probe], cut_ns: int) -> LossWindow:
    lost = [(p.time_ns - cut_ns) / 1e3 for p in probes if not p.came]
    span_us = (probes[-1].time_ns - probes[0].time_ns) / 1e3 if len(probes) > 1 else 0.0
    return LossWindow(
        link,
        lost[0] if lost else None,
        lost[-1] if lost else None,
        0,
        len(lost),
        span_us / (len(probes) - 1) if len(probes) > 1 else None,
    )


def show(loss: FrrLoss) -> Iterator[str]:
    """A line a figure."""
    name = f"frr {loss.setting} {loss.cut}"
    state = "" if loss.recovered else " (and still losing)"
    yield f"{name} loss duration: {loss.loss_us / 1e3:.1f} ms{state}"
    lost = loss.remote.probes_lost + loss.local.probes_lost
    yield f"{name} packets lost: {lost} of {loss.probes}"


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    def end(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def main() -> int:
    """Measures all settings and cuts, or with --quick one repetition fewer; see the module."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("scenario", type=Path, nargs="?", default=EXAMPLE)
    parser.add_argument("--link", default="leaf0-spine1")
    parser.add_argument("--setting", choices=SETTINGS, action="append")
    parser.add_argument("--cut", choices=CUTS, action="append")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--probes-per-s", type=int, default=4_000)
    parser.add_argument("--quick", action="store_true", help="one run each")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    reason = why_not()
    if reason:
        print(f"error: {reason}", file=sys.stderr)
        return 1
    scenario = scenarios.load(options.scenario)
    found = []
    try:
        with _ended_by_signals():
            for setting in options.setting or SETTINGS:
                for cut in options.cut or CUTS:
                    for _ in range(1 if options.quick else options.runs):
                        loss = measure(
                            scenario, options.link, setting, cut, probes_per_s=options.probes_per_s
                        )
                        found.append(loss)
                        print(*show(loss), sep="\n", flush=True)
    except FrrError as problem:
        print(f"error: {problem}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    if options.json:
        options.json.write_text(json.dumps([asdict(loss) for loss in found], indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
