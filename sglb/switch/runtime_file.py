"""Runtime files of the P4 tutorials (`s1-runtime.json`): what one switch should hold.

A mapping with any of these lists; every other key (`target`, `p4info`, `bmv2_json`) is for the tools of
the tutorials and not looked at.

- `table_entries`: `table`, `action_name`, `action_params`, and `match` (with `priority` where a table
  needs one) or `"default_action": true`. A match is a value (exact, optional), `[value, prefix length]`,
  `[value, mask]` or `[low, high]`; a field that does not matter is left out.
- `multicast_group_entries`: `multicast_group_id`, `replicas` of `egress_port` and `instance`.
- `clone_session_entries`: `clone_session_id`, `replicas`, and `packet_length_bytes` (0: all of it).

Values are numbers, or text with a number (`0x` for hexadecimal), an IPv4, IPv6 or MAC address.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from finsy import (
    Action,
    Match,
    P4CloneSessionEntry,
    P4MulticastGroupEntry,
    P4Schema,
    P4TableAction,
    P4TableEntry,
)
from finsy.p4values import DecodeFormat, decode_exact, encode_exact
from finsy.proto import p4i, p4r

MAX_BYTES = 64_000_000

#: How bad values are told here: finsy also raises KeyError, OverflowError and TypeError.
BAD_VALUES = (ValueError, LookupError, OverflowError, TypeError)

Entity = P4TableEntry | P4MulticastGroupEntry | P4CloneSessionEntry

_MATCH = p4i.MatchField
#: What a runtime file without any entry still has.
_OF_TOOLS = frozenset({"target", "p4info", "bmv2_json"})
_PAIRS = {
    _MATCH.LPM: "[value, prefix length]",
    _MATCH.TERNARY: "[value, mask]",
    _MATCH.RANGE: "[low, high]",
}
#: Kinds of keys for which an entry needs a priority.
BY_PRIORITY = (_MATCH.TERNARY, _MATCH.RANGE, _MATCH.OPTIONAL)


class RuntimeFileError(ValueError):
    """What is wrong in a runtime file: its name, the place in it, and why."""


def read(path: Path, schema: P4Schema) -> list[p4r.Update]:
    """The updates that bring a freshly started switch to what a file says, in its order.

    `schema` is that of the switch's program. Raises `RuntimeFileError`.
    """
    return parse(text_of(path), str(path), schema)


def text_of(path: Path) -> str:
    """The text of such a file. Raises `RuntimeFileError`."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise RuntimeFileError(f"{path}: is larger than {MAX_BYTES} bytes")
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise RuntimeFileError(f"{path}: cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise RuntimeFileError(f"{path}: is not UTF-8 text") from None


def parse(text: str, file: str, schema: P4Schema) -> list[p4r.Update]:
    """As `read`, of the text of a file."""
    try:
        data = json.loads(text)
    except RecursionError:
        raise RuntimeFileError(f"{file}: is nested too deep") from None
    except ValueError as error:
        line = getattr(error, "lineno", 0)
        message = getattr(error, "msg", error)
        raise RuntimeFileError(f"{file}:{line}: is not JSON: {message}") from None
    if not isinstance(data, dict):
        raise RuntimeFileError(f"{file}: must be a mapping with table_entries")
    if data and not data.keys() & (_KINDS.keys() | _OF_TOOLS):
        known = ", ".join(_KINDS)
        raise RuntimeFileError(f"{file}: is no runtime file, it has none of {known}")
    found: list[p4r.Update] = []
    for key, make in _KINDS.items():
        items = data.get(key, [])
        if not isinstance(items, list):
            raise RuntimeFileError(f"{file}: {key} must be a list")
        for n, item in enumerate(items):
            try:
                found.append(make(item, schema))
            except BAD_VALUES as error:
                why = error.args[0] if error.args else error
                raise RuntimeFileError(f"{file}: {key}[{n}]: {why}") from None
    return found


class _Fields:
    """A mapping of the file, asked for keys of a type."""

    def __init__(self, item: Any) -> None:
        if not isinstance(item, dict):
            raise ValueError("must be a mapping")
        self._item = item

    def has(self, key: str) -> bool:
        return key in self._item

    def text(self, key: str) -> str:
        found = self._item.get(key)
        if not isinstance(found, str) or not found:
            raise ValueError(f"{key} must be a name")
        return found

    def number(self, key: str, default: int | None = None) -> int:
        found = self._item.get(key, default)
        if not isinstance(found, int) or isinstance(found, bool) or not 0 <= found < 1 << 32:
            raise ValueError(f"{key} must be a number from 0 to 2^32 - 1")
        return found

    def mapping(self, key: str) -> dict[str, Any]:
        found = self._item.get(key) or {}
        if not isinstance(found, dict):
            raise ValueError(f"{key} must be a mapping")
        return found

    def flag(self, key: str) -> bool:
        found = self._item.get(key) or False
        if not isinstance(found, bool):
            raise ValueError(f"{key} must be true or false")
        return found

    def replicas(self) -> list[tuple[int, int]]:
        found = self._item.get("replicas", [])
        if not isinstance(found, list):
            raise ValueError("replicas must be a list")
        made = []
        for n, item in enumerate(found):
            try:
                fields = _Fields(item)
                made.append((fields.number("egress_port"), fields.number("instance", 0)))
            except ValueError as error:
                raise ValueError(f"replicas[{n}]: {error}") from None
        return made


def _insert(entity: Entity, schema: P4Schema) -> p4r.Update:
    return p4r.Update(type=p4r.Update.INSERT, entity=entity.encode(schema))


def table_entry(item: Any, schema: P4Schema) -> p4r.Update:
    """The update that an item of `table_entries` stands for. Raises one of `BAD_VALUES`."""
    fields = _Fields(item)
    table = known(fields.text("table"), schema.p4info.tables, "table")
    name = table.preamble.name
    action = _action(fields, table, schema)
    given = fields.mapping("match")
    if fields.flag("default_action"):
        if given:
            raise ValueError(f"table {name}: a default action has no match")
        entry = P4TableEntry(name, action=action, is_default_action=True)
        return p4r.Update(type=p4r.Update.MODIFY, entity=entry.encode(schema))
    match = _match(given, table)
    priority = fields.number("priority", 0)
    by_priority = any(f.match_type in BY_PRIORITY for f in table.match_fields)
    if by_priority and not priority:
        raise ValueError(f"table {name}: an entry needs a priority above 0")
    entry = P4TableEntry(name, match=Match(match), action=action, priority=priority)
    return _insert(entry, schema)


def known(name: str, among: Iterable[Any], what: str) -> Any:
    """The object of P4Info with a name or alias. Raises ValueError, which names the others."""
    objects = list(among)
    for found in objects:
        if name in (found.preamble.name, found.preamble.alias):
            return found
    others = ", ".join(o.preamble.name for o in objects[:20]) or "none"
    raise ValueError(f"the program has no {what} {name[:80]!r}; it has {others}")


def _action(fields: _Fields, table: p4i.Table, schema: P4Schema) -> P4TableAction:
    allowed = {ref.id for ref in table.action_refs}
    actions = [a for a in schema.p4info.actions if a.preamble.id in allowed]
    action = known(fields.text("action_name"), actions, f"action for {table.preamble.name} named")
    given = fields.mapping("action_params")
    wanted = [p.name for p in action.params]
    if set(given) != set(wanted):
        raise ValueError(
            f"action {action.preamble.name} has the parameters {', '.join(wanted) or '(none)'}, "
            f"given: {', '.join(given) or '(none)'}"
        )
    values = {}
    for param in action.params:
        values[param.name] = _placed(
            f"action parameter {param.name}", _value, given[param.name], param.bitwidth
        )
    return Action(action.preamble.name, **values)


def _match(given: Mapping[str, Any], table: p4i.Table) -> dict[str, Any]:
    """The match of an entry as finsy takes it."""
    fields = {f.name: f for f in table.match_fields}
    made: dict[str, Any] = {}
    for name, value in given.items():
        if name not in fields:
            known = ", ".join(fields) or "none"
            table_name = table.preamble.name
            raise ValueError(f"table {table_name} matches no {name[:80]!r}; it matches {known}")
        made[name] = _placed(f"match {name}", _match_value, value, fields[name])
    for name, field in fields.items():
        if field.match_type == _MATCH.EXACT and name not in made:
            raise ValueError(f"table {table.preamble.name}: match {name} is missing, it is exact")
    return made


def _placed(where: str, make: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return make(*arguments)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None


def _match_value(value: Any, field: p4i.MatchField) -> Any:
    width = field.bitwidth
    kind = field.match_type
    if kind not in _PAIRS:
        return _value(value, width)
    if not isinstance(value, list) or len(value) != 2:
        raise ValueError(f"must be {_PAIRS[kind]}, got {value!r:.60}")
    first = _value(value[0], width)
    if kind == _MATCH.LPM:
        length = value[1]
        if not isinstance(length, int) or isinstance(length, bool) or not 0 <= length <= width:
            raise ValueError(f"the prefix length must be 0 to {width}, got {length!r:.40}")
        return first, length
    second = _value(value[1], width)
    if (
        kind == _MATCH.RANGE
        and isinstance(first, int)
        and isinstance(second, int)
        and first > second
    ):
        raise ValueError(f"the range {value!r:.60} ends before it begins")
    return first, second


def _value(value: Any, width: int) -> int | str:
    """A value of so many bits; text stays text for a translated type (width 0)."""
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if width == 0:
        if not isinstance(value, str):
            raise ValueError(f"must be text, got {value!r:.40}")
        return value
    if isinstance(value, str):
        number = _number(value, width)
    elif isinstance(value, int) and not isinstance(value, bool):
        number = value
    else:
        raise ValueError(f"must be a number or text, got {value!r:.40}")
    if number < 0:
        number += 1 << width  # two's complement, as the tutorials have it
    if not 0 <= number < 1 << width:
        raise ValueError(f"{value!r:.60} does not fit into {width} bits")
    return number


def _number(text: str, width: int) -> int:
    try:
        return int.from_bytes(encode_exact(text, width), "big")
    except ValueError:
        raise ValueError(f"{text[:60]!r} is no value of {width} bits") from None


def multicast_group(item: Any, schema: P4Schema) -> p4r.Update:
    """As `table_entry`, of `multicast_group_entries`."""
    fields = _Fields(item)
    group = fields.number("multicast_group_id")
    return _insert(P4MulticastGroupEntry(group, replicas=fields.replicas()), schema)


def clone_session(item: Any, schema: P4Schema) -> p4r.Update:
    """As `table_entry`, of `clone_session_entries`."""
    fields = _Fields(item)
    session = fields.number("clone_session_id")
    length = fields.number("packet_length_bytes", 0)
    entry = P4CloneSessionEntry(session, replicas=fields.replicas(), packet_length_bytes=length)
    return _insert(entry, schema)


_KINDS: dict[str, Callable[[Any, P4Schema], p4r.Update]] = {
    "table_entries": table_entry,
    "multicast_group_entries": multicast_group,
    "clone_session_entries": clone_session,
}


# --- writing ------------------------------------------------------------------------------------------


def to_json(entities: Iterable[Entity], schema: P4Schema, **head: str) -> str:
    """The text of a runtime file that says these entities, with `head` as further keys.

    Entries may have a match, a priority and an action, groups and sessions plain replicas: there are no
    words for more. Raises ValueError for others.
    """
    lists: dict[str, list[dict[str, Any]]] = {key: [] for key in _KINDS}
    for entity in entities:
        message = entity.encode(schema)
        if message.HasField("table_entry"):
            lists["table_entries"].append(_entry_out(message.table_entry, schema))
        else:
            pre = message.packet_replication_engine_entry
            if pre.HasField("multicast_group_entry"):
                group = pre.multicast_group_entry
                lists["multicast_group_entries"].append(
                    {
                        "multicast_group_id": group.multicast_group_id,
                        "replicas": list(_replicas_out(group.replicas)),
                    }
                )
            else:
                session = pre.clone_session_entry
                lists["clone_session_entries"].append(
                    {
                        "clone_session_id": session.session_id,
                        "replicas": list(_replicas_out(session.replicas)),
                        "packet_length_bytes": session.packet_length_bytes,
                    }
                )
    return json.dumps({**head, **{k: v for k, v in lists.items() if v}}, indent=1) + "\n"


def _entry_out(entry: p4r.TableEntry, schema: P4Schema) -> dict[str, Any]:
    table = next(t for t in schema.p4info.tables if t.preamble.id == entry.table_id)
    called = entry.action.action
    if not entry.action.HasField("action"):
        raise ValueError(f"table {table.preamble.name}: a runtime file has no word for groups")
    action = next(a for a in schema.p4info.actions if a.preamble.id == called.action_id)
    params = {p.id: p for p in action.params}
    made: dict[str, Any] = {"table": table.preamble.name}
    if entry.is_default_action:
        made["default_action"] = True
    else:
        fields = {f.id: f for f in table.match_fields}
        made["match"] = {
            fields[m.field_id].name: _match_out(m, fields[m.field_id].bitwidth) for m in entry.match
        }
    if entry.priority:
        made["priority"] = entry.priority
    made["action_name"] = action.preamble.name
    made["action_params"] = {
        params[p.param_id].name: _value_out(p.value, params[p.param_id].bitwidth)
        for p in called.params
    }
    return made


def _match_out(match: p4r.FieldMatch, width: int) -> Any:
    match match.WhichOneof("field_match_type"):
        case "lpm":
            return [_value_out(match.lpm.value, width, address=True), match.lpm.prefix_len]
        case "ternary":
            return [_value_out(match.ternary.value, width), _value_out(match.ternary.mask, width)]
        case "range":
            return [_value_out(match.range.low, width), _value_out(match.range.high, width)]
        case "optional":
            return _value_out(match.optional.value, width)
        case _:
            return _value_out(match.exact.value, width)


def _value_out(value: bytes, width: int, address: bool = False) -> int | str:
    """What 48 bits hold is written as a MAC address, and prefixes as IP addresses; text as it is."""
    if width in (0, 48) or (address and width in (32, 128)):
        text = decode_exact(value, width, DecodeFormat.STRING | DecodeFormat.ADDRESS)
        return str(text)
    return int.from_bytes(value)


def _replicas_out(replicas: Iterable[p4r.Replica]) -> Iterator[dict[str, int]]:
    for replica in replicas:
        if replica.backup_replicas:
            raise ValueError("a runtime file has no word for backup replicas")
        port = int.from_bytes(replica.port) if replica.port else replica.egress_port
        yield {"egress_port": port, "instance": replica.instance}
