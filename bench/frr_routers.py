"""A leaf-spine fabric of Linux routers that run FRR: namespaces, cables, daemons, and a cut."""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, Literal

from sglb.fabric.live import namespaces, processes
from sglb.fabric.live.links import End, LinkSocket
from sglb.fabric.live.namespaces import Namespace
from sglb.fabric.topology import Link, Node, NodeKind, Topology

DAEMONS: Final = Path("/usr/lib/frr")

Setting = Literal["timers", "bfd"]
Cut = Literal["down", "black_hole"]
SETTINGS: Final[tuple[Setting, ...]] = ("timers", "bfd")
CUTS: Final[tuple[Cut, ...]] = ("down", "black_hole")

_SPINE_AS: Final = 64_512
_FIRST_LEAF_AS: Final = 65_000
_CONVERGE_S: Final = 90.0
_HOSTS: Final = "hosts"  #: the leaf's interface to its hosts


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
            dropper.wait()
            for stream in (dropper.stdin, dropper.stderr):
                if stream is not None:
                    stream.close()
        processes.end_all(self._processes)
        self._processes.clear()
        self._stack.close()

    def _build(self) -> None:
        folder = self._folder = Path(
            self._stack.enter_context(tempfile.TemporaryDirectory(prefix="sglb-frr-"))
        )
        folder.chmod(0o755)  # the daemons run as the user frr
        self._stack.enter_context(_watched(folder))
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
                partial(_become, command),
                router.namespace,
            )
            self._processes.append(processes.start(spec, home / f"{daemon}.log"))
        if daemon == "zebra":
            for router in self._routers.values():
                self._await((folder / router.node.name / "zserv.api").exists, "zebra")

    def _config(self, router: _Router, daemon: str) -> str:
        node, topology = router.node, self.topology
        lines = [f"hostname {node.name}"]
        if daemon == "bfdd":
            lines += ["bfd", " profile fast", "  detect-multiplier 3"]
            lines += ["  receive-interval 50", "  transmit-interval 50", " exit", "exit"]
        if daemon != "bgpd":
            return "\n".join([*lines, ""])
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
        if self._setting == "bfd":
            for router in self._routers.values():
                self._await(partial(self._watched, router), f"BFD of {router.node.name}")

    def _watched(self, router: _Router) -> bool:
        """Whether all its BFD sessions are up."""
        home = self._folder / router.node.name
        command = ["vtysh", "--vty_socket", str(home), "-d", "bfdd", "-c", "show bfd peers json"]
        peers = json.loads(_run_in(router.namespace, command) or "[]")
        wanted = sum(n in self._routers for n in self._neighbours(router.node))
        return bool(sum(peer["status"] == "up" for peer in peers) == wanted)

    def _neighbours(self, node: Node) -> list[int]:
        return [link.other(node.id) for link in self.topology.ports(node.id).values()]

    def _complete(self, leaf: Node) -> bool:
        topology = self.topology
        uplinks = sum(n in self._routers for n in self._neighbours(leaf))
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
            hook = f'type filter hook ingress device "{name}" priority 0; policy accept;'
            rules = f"table netdev cut {{\n chain in {{\n {hook}\n }}\n}}\n"
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


@contextmanager
def _watched(folder: Path) -> Iterator[None]:
    """Daemons that were given files in a folder end with this process, even if it is killed.

    They change their user, by which Linux forgets that they wanted to die with their parent. So another
    process waits for the end of this one.
    """
    waits, held = os.pipe()
    watcher = os.fork()
    if watcher == 0:
        try:
            os.close(held)
            os.setsid()
            os.read(waits, 1)
            _kill_daemons(folder)
            shutil.rmtree(folder, ignore_errors=True)
        finally:
            os._exit(0)
    os.close(waits)
    try:
        yield
    finally:
        os.close(held)
        os.waitpid(watcher, 0)


def _kill_daemons(folder: Path) -> None:
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            words = (entry / "cmdline").read_bytes().split(b"\0")
            ours = any(word.startswith(bytes(folder) + b"/") for word in words)
            if ours and words[0].startswith(bytes(DAEMONS)):
                os.kill(int(entry.name), signal.SIGKILL)


def _become(command: list[str]) -> None:
    os.nice(-20)  # a router's control plane does not share its processor with all the others
    os.execv(command[0], command)


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
