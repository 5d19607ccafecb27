"""Whether a client's P4Info describes the program that runs.

What the protocol depends on must be equal: objects, ids, names, key fields, widths, sizes. Comments,
annotations, aliases and package data may differ, and so may fields that older compilers don't write.
"""

from __future__ import annotations

from typing import Any

from finsy.proto import p4i

_KINDS = {
    "tables": "table",
    "actions": "action",
    "action_profiles": "action profile",
    "counters": "counter",
    "direct_counters": "direct counter",
    "meters": "meter",
    "direct_meters": "direct meter",
    "controller_packet_metadata": "controller header",
    "value_sets": "value set",
    "registers": "register",
    "digests": "digest",
    "externs": "extern",
}
_IGNORED = {
    "alias",
    "annotations",
    "annotation_locations",
    "structured_annotations",
    "doc",
    "brief",
    "description",
    "initial_default_action",
    "has_initial_entries",
    "other_properties",
}


def first_difference(given: p4i.P4Info, program: p4i.P4Info) -> str | None:
    """One line naming the first object that differs, None when the two agree."""
    for field, kind in _KINDS.items():
        ours = {o.preamble.id: o for o in getattr(program, field)}
        theirs = {o.preamble.id: o for o in getattr(given, field)}
        for object_id, wanted in ours.items():
            name = f"{kind} {wanted.preamble.name} ({object_id:#010x})"
            if object_id not in theirs:
                return f"the program has {name}, the P4Info has not"
            difference = _compare(theirs[object_id], wanted, "")
            if difference is not None:
                return f"{name}: {difference}"
        for object_id, extra in theirs.items():
            if object_id not in ours:
                name = f"{kind} {extra.preamble.name} ({object_id:#010x})"
                return f"the P4Info has {name}, the program has not"
    return _compare_translations(given, program)


def _compare_translations(given: p4i.P4Info, program: p4i.P4Info) -> str | None:
    for name in sorted(program.type_info.new_types):
        ours = program.type_info.new_types[name]
        if not ours.HasField("translated_type"):
            continue
        if name not in given.type_info.new_types:
            return f"the program has the translated type {name}, the P4Info has not"
        difference = _compare(given.type_info.new_types[name], ours, "")
        if difference is not None:
            return f"type {name}: {difference}"
    return None


def _compare(given: Any, wanted: Any, path: str) -> str | None:
    """The first differing field of two messages of one type."""
    for field in wanted.DESCRIPTOR.fields:
        if field.name in _IGNORED:
            continue
        where = f"{path}.{field.name}" if path else field.name
        theirs, ours = getattr(given, field.name), getattr(wanted, field.name)
        if field.is_repeated:
            if len(theirs) != len(ours):
                return (
                    f"{where} has {len(theirs)} elements in the P4Info, {len(ours)} in the program"
                )
            pairs = [
                (f"{where}[{i}]", a, b) for i, (a, b) in enumerate(zip(theirs, ours, strict=True))
            ]
        elif field.message_type is not None:
            if given.HasField(field.name) != wanted.HasField(field.name):
                has = "has" if given.HasField(field.name) else "lacks"
                return f"the P4Info {has} {where}, unlike the program"
            pairs = [(where, theirs, ours)]
        else:
            pairs = [(where, theirs, ours)]
        for at, a, b in pairs:
            if field.message_type is not None:
                difference = _compare(a, b, at)
                if difference is not None:
                    return difference
            elif a != b:
                return f"{at} is {a!r} in the P4Info, {b!r} in the program"
    return None
