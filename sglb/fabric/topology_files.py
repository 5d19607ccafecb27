"""Topologies from files of other tools: the P4 tutorials' `topology.json`, HPCC's ns-3 text.

`topology.json`: `hosts` and `switches` by name, and `links` as [node, node, latency, Mbit/s], the last
two optional; a switch is written with its port, `s1-p2`. A latency is a number of ms or text with a
unit (`5us`; without one it is us, as `tc` takes it). Port numbers are kept. Addresses, programs and
commands in the file are not used here.

HPCC: `nodes switches links`, the switches' numbers, then `src dst rate delay error` for each link, as
in `0 320 100Gbps 1000ns 0.000000`. Host 0 becomes `h0`, switch 320 `s320`; `error` is the probability
that a frame is lost, in each direction.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sglb.fabric.faults import LinkLoss
from sglb.fabric.generators import MAX_LINKS
from sglb.fabric.topology import (
    MAX_NODES,
    Edge,
    LinkSpec,
    Topology,
    TopologyBuilder,
    TopologyError,
)
from sglb.fabric.yaml_source import Problem, SourceError
from sglb.switch.clock import PS_PER_NS, PS_PER_S, PS_PER_US

MAX_BYTES = 64_000_000
_PS = {
    "ps": 1,
    "ns": PS_PER_NS,
    "us": PS_PER_US,
    "ms": 1_000 * PS_PER_US,
    "s": PS_PER_S,
}
_BPS = {"bps": 1, "kbps": 10**3, "mbps": 10**6, "gbps": 10**9, "tbps": 10**12}
_QUANTITY = re.compile(r"(\d{1,15}(?:\.\d{1,15})?)([A-Za-z]+)\Z")
_PLAIN = re.compile(r"\d{1,15}\Z")
_MAX_PS = 86_400 * PS_PER_S
_MAX_BPS = 100 * 10**12


@dataclass(frozen=True, slots=True)
class FileTopology:
    """What a file says: the fabric, and links that lose frames at random."""

    topology: Topology
    losses: tuple[LinkLoss, ...] = ()


def read(path: Path, host: LinkSpec, fabric: LinkSpec) -> FileTopology:
    """Read a file, by its ending; `host` and `fabric` are for links without rate or delay.

    Raises `SourceError` with file and, where there are lines, line.
    """
    try:
        if path.stat().st_size > MAX_BYTES:
            raise _bad(path, 0, f"is larger than {MAX_BYTES} bytes")
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise _bad(path, 0, f"cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise _bad(path, 0, "is not UTF-8 text") from None
    if path.suffix == ".json":
        return parse_p4lang(text, str(path), host, fabric)
    return parse_hpcc(text, str(path))


def _bad(file: Path | str, line: int, message: str) -> SourceError:
    return SourceError([Problem(str(file), line, (), message)])


# topology.json


def parse_p4lang(text: str, file: str, host: LinkSpec, fabric: LinkSpec) -> FileTopology:
    """A tutorial's `topology.json`."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        line = getattr(error, "lineno", 0)
        raise _bad(file, line, f"is not JSON: {getattr(error, 'msg', error)}") from None
    if not isinstance(data, dict):
        raise _bad(file, 0, "must be a mapping with hosts, switches and links")
    for key in ("hosts", "switches"):
        if not isinstance(data.get(key), dict):
            raise _bad(file, 0, f"{key} must be a mapping of names")
    if not isinstance(data.get("links"), list):
        raise _bad(file, 0, "links must be a list")
    build = TopologyBuilder()
    try:
        for name in data["switches"]:
            build.switch(name)
        for name in data["hosts"]:
            build.host(name)
        for n, link in enumerate(data["links"]):
            try:
                _add_link(build, link, data["hosts"], host, fabric)
            except (TopologyError, ValueError) as error:
                raise _bad(file, 0, f"links[{n}]: {error}") from None
        return FileTopology(build.build())
    except TopologyError as error:
        raise _bad(file, 0, str(error)) from None


def _add_link(
    build: TopologyBuilder, link: Any, hosts: Any, host: LinkSpec, fabric: LinkSpec
) -> None:
    if not isinstance(link, list) or not 2 <= len(link) <= 4:
        raise ValueError("must be [node, node], with latency and bandwidth if need be")
    if not all(isinstance(end, str) for end in link[:2]):
        raise ValueError("the two nodes must be text, as in h1 and s1-p1")
    ends = [_end(end, hosts) for end in link[:2]]
    default = host if any(name in hosts for name, _ in ends) else fabric
    delay_ps = _latency(link[2]) if len(link) > 2 else default.delay_ps
    rate_bps = _bandwidth(link[3]) if len(link) > 3 else default.rate_bps
    (a, a_port), (b, b_port) = ends
    build.link(a, b, LinkSpec(rate_bps, delay_ps), a_port, b_port)


def _end(text: str, hosts: Any) -> tuple[str, int | None]:
    if text in hosts:
        return text, None
    name, dash, port = text.rpartition("-p")
    if not dash or not port.isascii() or not port.isdigit() or len(port) > 5:
        raise ValueError(f"{text[:40]!r} is neither a host nor a switch with its port, as in s1-p2")
    return name, int(port)


def _latency(value: Any) -> int:
    if isinstance(value, str):
        text = f"{value}us" if _PLAIN.match(value) else value
        return _quantity(text, _PS, "latency", _MAX_PS)
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1e6:
        return round(value * _PS["ms"])
    raise ValueError(f"latency must be a number of ms or text with a unit, got {value!r:.40}")


def _bandwidth(value: Any) -> int:
    if isinstance(value, int | float) and not isinstance(value, bool) and 1e-6 <= value <= 1e8:
        return round(value * _BPS["mbps"])
    raise ValueError(f"bandwidth must be Mbit/s above 0, got {value!r:.40}")


def _quantity(text: str, units: dict[str, int], what: str, most: int) -> int:
    match = _QUANTITY.match(text.strip())
    unit = units.get(match[2].lower()) if match else None
    if match is None or unit is None:
        known = ", ".join(units)
        raise ValueError(f"{what} must be a number and one of {known}, got {text[:40]!r}")
    value = round(float(match[1]) * unit)
    if value > most:
        raise ValueError(f"{what} {text[:40]} is too large")
    return value


# HPCC


def parse_hpcc(text: str, file: str) -> FileTopology:
    """A topology of HPCC's ns-3 simulations."""
    lines = [(n, line.split()) for n, line in enumerate(text.splitlines(), 1)]
    rows = [(n, words) for n, words in lines if words]
    nodes, switches, links = _numbers(file, rows, 0, "the counts of nodes, switches and links", 3)
    if not 1 <= switches < nodes <= MAX_NODES or not 1 <= links <= MAX_LINKS:
        raise _bad(
            file,
            rows[0][0],
            f"cannot be {nodes} nodes (at most {MAX_NODES}), {switches} of them switches, "
            f"and {links} links (at most {MAX_LINKS})",
        )
    of_switches = set(_numbers(file, rows, 1, "the numbers of the switches", switches))
    if len(of_switches) < switches or max(of_switches) >= nodes:
        message = f"must be {switches} different switches, numbered below {nodes}"
        raise _bad(file, rows[1][0], message)
    if len(rows) - 2 < links:
        message = f"says {links} links, there are {len(rows) - 2}"
        raise _bad(file, rows[0][0], message)
    name = [f"s{n}" if n in of_switches else f"h{n}" for n in range(nodes)]
    build = TopologyBuilder()
    for n in range(nodes):
        (build.switch if n in of_switches else build.host)(name[n])
    errors = []
    for line, words in rows[2 : links + 2]:
        try:
            errors.append(_hpcc_link(build, name, words))
        except (TopologyError, ValueError) as error:
            raise _bad(file, line, str(error)) from None
    try:
        topology = build.build()
    except TopologyError as error:
        raise _bad(file, 0, str(error)) from None
    lossy = zip(topology.links, errors, strict=True)
    losses = tuple(
        LinkLoss(
            tuple(Edge(link, end, link.other(end)) for end in (link.a, link.b)), 0.0, p, 0, None
        )
        for link, p in lossy
        if p
    )
    return FileTopology(topology, losses)


def _numbers(
    file: str, rows: list[tuple[int, list[str]]], at: int, what: str, count: int
) -> list[int]:
    if len(rows) <= at:
        raise _bad(file, 0, f"ends before {what}")
    line, words = rows[at]
    if len(words) != count or not all(w.isascii() and w.isdigit() and len(w) < 10 for w in words):
        raise _bad(file, line, f"must be {what}: {count} whole numbers")
    return [int(word) for word in words]


def _hpcc_link(build: TopologyBuilder, name: list[str], words: list[str]) -> float:
    """Adds a link; returns its error rate."""
    if len(words) != 5:
        raise ValueError(f"a link is `src dst rate delay error`, got {len(words)} words")
    ends = []
    for word in words[:2]:
        if not (word.isascii() and word.isdigit() and len(word) < 10) or int(word) >= len(name):
            raise ValueError(f"node {word[:40]!r} must be a number below {len(name)}")
        ends.append(name[int(word)])
    rate_bps = _quantity(words[2], _BPS, "rate", _MAX_BPS)
    delay_ps = _quantity(words[3], _PS, "delay", _MAX_PS)
    try:
        error = float(words[4])
    except ValueError:
        error = -1.0
    if not 0 <= error <= 1:
        raise ValueError(f"error must be a probability, got {words[4][:40]!r}")
    build.link(ends[0], ends[1], LinkSpec(rate_bps, delay_ps))
    return error
