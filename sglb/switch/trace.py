"""A packet's way through a switch, told step by step: as text for people, as plain data for JSON.

A `TraceRecorder` is given to a switch (`Switch.recorder`); several switches may share one. It decides
which packets are worth the cost. Copies (clones, replicas, further passes) get traces of their own
that name the one they came from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from sglb.p4.source import Span
from sglb.switch.clock import PS_PER_US

Step = dict[str, Any]


class PacketTrace:
    """The steps of one packet in one switch; implements `sglb.p4.runtime.Trace`.

    `steps` are dicts with a "step" name and plain values only. Locations are "file:line:column".
    """

    def __init__(
        self, number: int, switch: str, time_ps: int, origin: str, parent: int | None
    ) -> None:
        self.number = number
        self.switch = switch
        self.time_ps = time_ps
        self.origin = origin
        self.parent = parent
        self.steps: list[Step] = []

    # --- runtime.Trace ---

    def enter(self, block: str) -> None:
        """A block begins."""
        self.steps.append({"step": "enter", "block": block})

    def state(self, name: str, span: Span) -> None:
        """A parser state is entered."""
        self.steps.append({"step": "state", "name": name, "at": str(span)})

    def extract(self, header: str, fields: dict[str, int], span: Span) -> None:
        """A header was extracted."""
        self.steps.append(
            {"step": "extract", "header": header, "fields": dict(fields), "at": str(span)}
        )

    def error(self, name: str, span: Span) -> None:
        """The parser stops with this error."""
        self.steps.append({"step": "error", "name": name, "at": str(span)})

    def table(
        self,
        name: str,
        key: dict[str, int],
        hit: bool,
        action: str,
        args: tuple[int, ...],
        span: Span,
    ) -> None:
        """A table was applied."""
        self.steps.append(
            {
                "step": "table",
                "name": name,
                "key": dict(key),
                "hit": hit,
                "action": action,
                "args": list(args),
                "at": str(span),
            }
        )

    def assign(self, target: str, value: int, span: Span) -> None:
        """A slot was written."""
        self.steps.append({"step": "assign", "target": target, "value": value, "at": str(span)})

    def extern(
        self, op: str, instance: str, ins: tuple[int, ...], outs: tuple[int, ...], span: Span
    ) -> None:
        """An extern was called."""
        self.steps.append(
            {
                "step": "extern",
                "op": op,
                "instance": instance,
                "ins": list(ins),
                "outs": list(outs),
                "at": str(span),
            }
        )

    def emit(self, header: str, span: Span) -> None:
        """A valid header was emitted."""
        self.steps.append({"step": "emit", "header": header, "at": str(span)})

    def log(self, message: str, span: Span) -> None:
        """`log_msg` was called."""
        self.steps.append({"step": "log", "message": message, "at": str(span)})

    # --- the switch ---

    def event(self, step: str, time_ps: int, **values: object) -> None:
        """Something the switch did: receive, queue, dequeue, clone, send, drop …"""
        self.steps.append({"step": step, "time_ps": time_ps, **values})

    # --- for people ---

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "packet": self.number,
            "parent": self.parent,
            "switch": self.switch,
            "time_ps": self.time_ps,
            "origin": self.origin,
            "steps": self.steps,
        }

    def lines(self) -> Iterator[str]:
        """One line a step."""
        parent = "" if self.parent is None else f", from packet {self.parent}"
        yield f"packet {self.number} in {self.switch}: {self.origin}{parent}"
        for step in self.steps:
            yield "  " + _line(step)

    def text(self) -> str:
        """All lines."""
        return "\n".join(self.lines())


def _pairs(values: dict[str, Any]) -> str:
    return ", ".join(f"{k}={v:#x}" if isinstance(v, int) else f"{k}={v}" for k, v in values.items())


def _table_line(step: Step) -> str:
    args = ", ".join(map(str, step["args"]))
    outcome = "hit" if step["hit"] else "miss"
    return f"  table {step['name']} [{_pairs(step['key'])}] {outcome} -> {step['action']}({args})"


def _extern_line(step: Step) -> str:
    name = f"{step['instance']}.{step['op']}" if step["instance"] else step["op"]
    outs = ", ".join(map(str, step["outs"]))
    return f"  {name}({', '.join(map(str, step['ins']))})" + (f" -> {outs}" if outs else "")


_LINES: dict[str, Callable[[Step], str]] = {
    "enter": lambda s: s["block"],
    "state": lambda s: f"  state {s['name']}",
    "extract": lambda s: f"  extract {s['header']} [{_pairs(s['fields'])}]",
    "error": lambda s: f"  parser error {s['name']}",
    "table": _table_line,
    "assign": lambda s: f"  {s['target']} = {s['value']:#x}",
    "extern": _extern_line,
    "emit": lambda s: f"  emit {s['header']}",
    "log": lambda s: f"  log: {s['message']}",
}


def _line(step: Step) -> str:
    make = _LINES.get(step["step"])
    if make is not None:
        where = f"   ({step['at']})" if "at" in step else ""
        return make(step) + where
    rest = ", ".join(f"{k} {v}" for k, v in step.items() if k not in ("step", "time_ps"))
    return f"{step['time_ps'] / PS_PER_US:.6f} us: {step['step']} {rest}"


class TraceRecorder:
    """Keeps the traces of the first `limit` packets that `wanted(switch, port, data)` accepts.

    Copies of a traced packet are always traced and do not count towards the limit.
    """

    def __init__(
        self, *, limit: int = 100, wanted: Callable[[str, int, bytes], bool] | None = None
    ) -> None:
        self.limit = limit
        self.traces: list[PacketTrace] = []
        self._wanted = wanted
        self._taken = 0

    def begin(self, switch: str, port: int, data: bytes, time_ps: int) -> PacketTrace | None:
        """A trace for a packet that arrives, None when it is not wanted."""
        if self._taken >= self.limit:
            return None
        if self._wanted is not None and not self._wanted(switch, port, data):
            return None
        self._taken += 1
        return self._make(switch, time_ps, f"{len(data)} bytes on port {port}", None)

    def copy(self, parent: PacketTrace, time_ps: int, origin: str) -> PacketTrace:
        """A trace for a copy of a traced packet."""
        return self._make(parent.switch, time_ps, origin, parent.number)

    def _make(self, switch: str, time_ps: int, origin: str, parent: int | None) -> PacketTrace:
        trace = PacketTrace(len(self.traces), switch, time_ps, origin, parent)
        self.traces.append(trace)
        return trace

    def to_json(self) -> list[dict[str, Any]]:
        """Plain data of all traces."""
        return [trace.to_json() for trace in self.traces]

    def text(self) -> str:
        """All traces as text."""
        return "\n".join(trace.text() for trace in self.traces)
