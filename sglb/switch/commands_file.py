"""Files of commands for BMv2's `simple_switch_CLI` (`s1-commands.txt`): what one switch should hold.

Read are `table_add TABLE ACTION MATCH... => PARAMETER... [PRIORITY]`, `table_set_default TABLE ACTION
PARAMETER...`, `mc_mgrp_create GROUP`, `mc_node_create INSTANCE PORT...`, `mc_node_associate GROUP NODE`
and `mirroring_add SESSION PORT`; of all others it is told that they are not. A match is a value,
`value/length`, `value&&&mask` or `low->high`. Of two entries the one with the *lower* priority counts,
as in BMv2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from finsy import P4Schema
from finsy.proto import p4i, p4r

from sglb.switch import runtime_file
from sglb.switch.runtime_file import RuntimeFileError

#: P4Runtime's priorities are the other way round.
_PRIORITIES: Final = 1 << 30
_MATCH = p4i.MatchField
_SEPARATORS: Final = {_MATCH.LPM: "/", _MATCH.TERNARY: "&&&", _MATCH.RANGE: "->"}


def read(path: Path, schema: P4Schema) -> list[p4r.Update]:
    """As `runtime_file.read`. Raises `RuntimeFileError`, with the line."""
    return parse(runtime_file.text_of(path), str(path), schema)


def parse(text: str, file: str, schema: P4Schema) -> list[p4r.Update]:
    """As `read`, of the text of a file."""
    commands = _Commands(schema)
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        try:
            commands.take(words)
        except runtime_file.BAD_VALUES as error:
            why = error.args[0] if error.args else error
            raise RuntimeFileError(f"{file}:{number}: {words[0]}: {why}") from None
    return list(commands.updates())


class _Commands:
    def __init__(self, schema: P4Schema) -> None:
        self._schema = schema
        self._found: list[p4r.Update] = []
        self._groups: dict[int, list[int]] = {}
        self._nodes: list[tuple[int, list[int]]] = []
        self._kinds: dict[str, Callable[[list[str]], None]] = {
            "table_add": self._add,
            "table_set_default": self._set_default,
            "mc_mgrp_create": self._group,
            "mc_node_create": self._node,
            "mc_node_associate": self._associate,
            "mirroring_add": self._mirror,
        }

    def take(self, words: list[str]) -> None:
        command = self._kinds.get(words[0])
        if command is None:
            known = ", ".join(self._kinds)
            raise ValueError(f"is not among the commands that are read: {known}")
        command(words[1:])

    def updates(self) -> Iterator[p4r.Update]:
        yield from self._found
        for group, nodes in self._groups.items():
            replicas = [
                {"egress_port": port, "instance": self._nodes[node][0]}
                for node in nodes
                for port in self._nodes[node][1]
            ]
            item = {"multicast_group_id": group, "replicas": replicas}
            yield runtime_file.multicast_group(item, self._schema)

    def _table(self, words: list[str], least: int) -> tuple[p4i.Table, p4i.Action]:
        if len(words) < least:
            raise ValueError("needs a table and an action")
        table = runtime_file.known(words[0], self._schema.p4info.tables, "table")
        action = runtime_file.known(words[1], self._schema.p4info.actions, "action")
        return table, action

    def _entry(self, table: p4i.Table, action: p4i.Action, **more: Any) -> None:
        item = {"table": table.preamble.name, "action_name": action.preamble.name, **more}
        self._found.append(runtime_file.table_entry(item, self._schema))

    def _add(self, words: list[str]) -> None:
        table, action = self._table(words, 2)
        rest = words[2:]
        if "=>" not in rest:
            raise ValueError("needs `=>` between match and parameters")
        given, values = rest[: rest.index("=>")], rest[rest.index("=>") + 1 :]
        fields = table.match_fields
        if len(given) != len(fields):
            names = ", ".join(f.name for f in fields)
            raise ValueError(
                f"table {table.preamble.name} matches {names}; given: {' '.join(given)}"
            )
        match = {f.name: _match(text, f) for text, f in zip(given, fields, strict=True)}
        by_priority = any(f.match_type in runtime_file.BY_PRIORITY for f in fields)
        priority = 0
        if by_priority:
            if len(values) != len(action.params) + 1:
                raise ValueError("needs the parameters and a priority behind `=>`")
            priority = _PRIORITIES - _number(values.pop())
        self._entry(
            table,
            action,
            match={name: value for name, value in match.items() if value is not None},
            action_params=_params(action, values),
            priority=priority,
        )

    def _set_default(self, words: list[str]) -> None:
        table, action = self._table(words, 2)
        values = [word for word in words[2:] if word != "=>"]
        self._entry(table, action, default_action=True, action_params=_params(action, values))

    def _group(self, words: list[str]) -> None:
        (group,) = _numbers(words, 1, "a group")
        self._groups[group] = []

    def _node(self, words: list[str]) -> None:
        instance, *ports = _numbers(words, None, "an instance and ports")
        self._nodes.append((instance, ports))

    def _associate(self, words: list[str]) -> None:
        group, node = _numbers(words, 2, "a group and a node")
        if group not in self._groups or node >= len(self._nodes):
            raise ValueError(f"there is no group {group} or no node {node} yet")
        self._groups[group].append(node)

    def _mirror(self, words: list[str]) -> None:
        session, port = _numbers(words, 2, "a session and a port")
        item = {"clone_session_id": session, "replicas": [{"egress_port": port}]}
        self._found.append(runtime_file.clone_session(item, self._schema))


def _match(text: str, field: p4i.MatchField) -> Any:
    """The value as runtime files have it; None for one that does not matter."""
    separator = _SEPARATORS.get(field.match_type)
    if separator is None:
        return text
    first, found, second = text.partition(separator)
    if not found:
        raise ValueError(f"{field.name} must be value{separator}value, got {text[:40]!r}")
    if field.match_type == _MATCH.LPM:
        length = _number(second)
        return [first, length] if length else None
    if field.match_type == _MATCH.TERNARY and not second.strip("0x:."):
        return None
    return [first, second]


def _params(action: p4i.Action, values: list[str]) -> dict[str, str]:
    names = [p.name for p in action.params]
    if len(values) != len(names):
        wanted = ", ".join(names) or "(none)"
        raise ValueError(
            f"action {action.preamble.name} has the parameters {wanted}; given: {' '.join(values)}"
        )
    return dict(zip(names, values, strict=True))


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise ValueError(f"{text[:40]!r} must be a whole number")
    return int(text)


def _numbers(words: list[str], count: int | None, what: str) -> list[int]:
    if not words or (count is not None and len(words) != count):
        raise ValueError(f"needs {what}")
    return [_number(word) for word in words]
