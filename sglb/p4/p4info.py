"""P4Info: the control plane's view of a program, equal to what p4c 1.2.5 writes for v1model."""

from __future__ import annotations

from typing import Any

from finsy.proto import p4i, p4r

from sglb.p4.control_plane import (
    ControlPlane,
    CpCounter,
    CpEntry,
    CpObject,
    CpParam,
    CpProfile,
    CpTable,
    CpValueSet,
)
from sglb.p4.p4info_names import (
    Annotations,
    Prefix,
    SymbolTable,
    add_annotations,
    add_documentation,
    field_ids,
    find,
    integer_argument,
    is_hidden,
    key_values,
    p4info_error,
    string_argument,
)
from sglb.p4.p4info_types import TypeInfo, field_name, to_bytes, underlying, width_of
from sglb.p4.types import BitsT, EnumT, SerEnumT, StructT, Type

_MATCH_TYPES = {
    "exact": p4i.MatchField.EXACT,
    "lpm": p4i.MatchField.LPM,
    "ternary": p4i.MatchField.TERNARY,
    "range": p4i.MatchField.RANGE,
    "optional": p4i.MatchField.OPTIONAL,
}
_PRIORITY_KINDS = ("ternary", "range", "optional")
_PROFILE_ANNOTATIONS = (
    "max_group_size",
    "selector_size_semantics",
    "max_member_weight",
    "weights_disallowed",
)
#: What the annotations of a meter say about its kind.
_METER_TYPES = {
    "two_rate_three_color": p4i.MeterSpec.TWO_RATE_THREE_COLOR,
    "single_rate_three_color": p4i.MeterSpec.SINGLE_RATE_THREE_COLOR,
    "single_rate_two_color": p4i.MeterSpec.SINGLE_RATE_TWO_COLOR,
}
_DEFAULT_TABLE_SIZE = 1024
_PACKAGE_KEYS = {
    "pkginfo": ("name", "version", "organization", "contact", "url", "arch"),
    "platform_property": (
        "multicast_group_table_size",
        "multicast_group_table_total_replicas",
        "multicast_group_table_max_replicas_per_entry",
    ),
}


def make_p4info(control_plane: ControlPlane, *, arch: str = "v1model") -> p4i.P4Info:
    """The P4Info message of a program.

    Raises P4Error (phase "p4info") for bad or repeated `@id`s, names used twice for one kind of object,
    and types that P4Runtime can't carry. With arch "v1model2020", counters, meters and registers also
    tell the named type of their index, which p4c leaves out for "v1model".
    """
    return _Writer(control_plane, arch).write()


def make_entries(control_plane: ControlPlane) -> p4r.WriteRequest:
    """The entries that a program states, as INSERT updates in source order.

    `const entries` of tables with ternary, range or optional keys get priorities N down to 1, others
    the priority that the source gives; don't-care keys are absent; byte strings are padded.
    """
    symbols = collect_symbols(control_plane)
    actions = {action.name: action for action in control_plane.actions}
    request = p4r.WriteRequest()
    for table in control_plane.tables:
        for place, entry in enumerate(table.entries):
            update = request.updates.add(type=p4r.Update.INSERT)
            message = update.entity.table_entry
            message.table_id = symbols.id(Prefix.TABLE, table.name)
            _add_match(message, table, entry)
            call = message.action.action
            call.action_id = symbols.id(Prefix.ACTION, entry.action)
            _add_arguments(call.params, actions[entry.action].params, entry.args)
            message.is_const = table.entries_const or entry.is_const
            if any(key.match_kind in _PRIORITY_KINDS for key in table.keys):
                counted = len(table.entries) - place
                message.priority = counted if table.entries_const else entry.priority
    return request


def collect_symbols(control_plane: ControlPlane) -> SymbolTable:
    """Ids and aliases of all objects, hidden ones included."""
    symbols = SymbolTable()
    groups: list[tuple[Prefix, list[Any]]] = [
        (Prefix.ACTION, control_plane.actions),
        (Prefix.TABLE, control_plane.tables),
        (Prefix.VALUE_SET, control_plane.value_sets),
        (Prefix.ACTION_PROFILE, control_plane.profiles),
        (Prefix.REGISTER, control_plane.registers),
        (Prefix.DIGEST, control_plane.digests),
    ]
    for prefix, objects in groups:
        for item in objects:
            symbols.add(prefix, item.name, item.annotations)
    for counter in control_plane.counters:
        symbols.add(_counter_prefix(counter), counter.name, counter.annotations)
    for header in control_plane.controller_headers:
        symbols.add(Prefix.CONTROLLER_HEADER, header.type_name, header.annotations)
    symbols.settle()
    return symbols


def _counter_prefix(counter: CpCounter) -> Prefix:
    if counter.kind == "counter":
        return Prefix.DIRECT_COUNTER if counter.direct else Prefix.COUNTER
    return Prefix.DIRECT_METER if counter.direct else Prefix.METER


# --- entries --------------------------------------------------------------------------------------


def _add_arguments(params: Any, declared: tuple[CpParam, ...], args: tuple[int, ...]) -> None:
    ids = field_ids("an action", [(p.name, p.annotations) for p in declared])
    for number, param, value in zip(ids, declared, args, strict=False):
        params.add(param_id=number, value=to_bytes(value, width_of(param.type)))


def _add_match(message: p4r.TableEntry, table: CpTable, entry: CpEntry) -> None:
    ids = field_ids(table.name, [(k.name, k.annotations) for k in table.keys])
    matched = [
        pair for pair in zip(ids, table.keys, strict=True) if pair[1].match_kind != "selector"
    ]
    for (number, key), held in zip(matched, entry.keys, strict=True):
        if held is None:
            continue
        width = width_of(key.type)
        value, other = held
        full = (1 << width) - 1
        if key.match_kind == "exact":
            message.match.add(field_id=number).exact.value = to_bytes(value, width)
        elif key.match_kind == "optional":
            message.match.add(field_id=number).optional.value = to_bytes(value, width)
        elif key.match_kind == "lpm" and other:
            lpm = message.match.add(field_id=number).lpm
            lpm.value = to_bytes(value & other, width)
            lpm.prefix_len = other.bit_count()
        elif key.match_kind == "ternary" and other:
            ternary = message.match.add(field_id=number).ternary
            ternary.value = to_bytes(value & other, width)
            ternary.mask = to_bytes(other, width)
        elif key.match_kind == "range" and (value, other) != (0, full):
            between = message.match.add(field_id=number).range
            between.low, between.high = to_bytes(value, width), to_bytes(other, width)


# --- P4Info ---------------------------------------------------------------------------------------


class _Writer:
    """Writes one P4Info, object by object."""

    def __init__(self, control_plane: ControlPlane, arch: str) -> None:
        self._program = control_plane
        self._arch = arch
        self._symbols = collect_symbols(control_plane)
        self._info = p4i.P4Info()
        self._types = TypeInfo(self._info, control_plane.errors)

    def write(self) -> p4i.P4Info:
        program = self._program
        if program.has_externs:
            self._types.touch()
        self._package()
        written: set[str] = set()
        for action in program.actions:
            if action.name not in written and not is_hidden(action.annotations):
                written.add(action.name)
                self._action(action.name, action.params, action.annotations)
        for table in program.tables:
            if not is_hidden(table.annotations):
                self._table(table)
        for profile in program.profiles:
            self._profile(profile)
        for counter in program.counters:
            if not counter.direct:
                self._indirect(counter)
        for register in program.registers:
            message = self._info.registers.add()
            self._preamble(message.preamble, Prefix.REGISTER, register)
            message.size = register.size
            if register.type is not None:
                message.type_spec.CopyFrom(self._types.spec(register.type))
            self._index_type(message, register.index_type)
        self._digests()
        for value_set in program.value_sets:
            self._value_set(value_set)
        self._controller_headers()
        self._check_names()
        return self._info

    def _preamble(self, message: p4i.Preamble, prefix: Prefix, item: CpObject) -> None:
        self._symbols.preamble(message, prefix, item.name, item.annotations)

    # --- the package ------------------------------------------------------------------------------

    def _package(self) -> None:
        annotations = self._program.package_annotations
        package = self._info.pkg_info
        package.arch = self._arch
        for name, target, kind in (
            ("pkginfo", package, str),
            ("platform_property", package.platform_properties, int),
        ):
            annotation = find(annotations, name)
            if annotation is None:
                continue
            for key, value in key_values(annotation).items():
                if key in _PACKAGE_KEYS[name]:
                    if not isinstance(value, kind):
                        raise p4info_error(
                            f"{key} of @{name} needs a value of type {kind.__name__}", [annotation]
                        )
                    setattr(target, key, value)
        others = [a for a in annotations if a.name not in _PACKAGE_KEYS]
        add_annotations(package, others)
        add_documentation(package, annotations)

    # --- actions and tables -----------------------------------------------------------------------

    def _action(self, name: str, params: tuple[CpParam, ...], annotations: Annotations) -> None:
        message = self._info.actions.add()
        self._symbols.preamble(message.preamble, Prefix.ACTION, name, annotations)
        ids = field_ids(name, [(p.name, p.annotations) for p in params])
        for number, param in zip(ids, params, strict=True):
            added = message.params.add(id=number, name=param.name)
            add_annotations(added, param.annotations)
            add_documentation(added, param.annotations)
            if isinstance(param.type, EnumT):
                self._types.spec(param.type)
                added.type_name.name = param.type.name
                continue
            added.bitwidth = width_of(param.type)
            self._type_name(added, param.type)

    def _type_name(self, message: Any, type_: Type) -> None:
        name = self._types.name_of(type_)
        if name is not None:
            message.type_name.name = name

    def _index_type(self, message: Any, type_: Type | None) -> None:
        if type_ is None or self._arch == "v1model":
            return
        name = self._types.name_of(type_)
        if name is not None:
            message.index_type_name.name = name

    def _table(self, table: CpTable) -> None:
        message = self._info.tables.add()
        self._types.touch()
        self._preamble(message.preamble, Prefix.TABLE, table)
        message.size = table.size or _DEFAULT_TABLE_SIZE
        self._default_action(message, table)
        for ref in table.actions:
            self._action_ref(message.action_refs.add(), table, ref.action, ref.annotations)
        ids = field_ids(table.name, [(k.name, k.annotations) for k in table.keys])
        for number, key in zip(ids, table.keys, strict=True):
            if key.match_kind == "selector":
                continue
            field = message.match_fields.add(id=number, name=key.name)
            field.bitwidth = width_of(key.type)
            self._match_kind(field, key.match_kind)
            add_annotations(field, key.annotations)
            add_documentation(field, key.annotations)
            self._type_name(field, key.type)
        message.is_const_table = table.entries_const
        message.has_initial_entries = bool(table.entries)
        if table.implementation:
            message.implementation_id = self._symbols.id(
                Prefix.ACTION_PROFILE, table.implementation
            )
        for kind, name in (("counter", table.direct_counter), ("meter", table.direct_meter)):
            if name:
                self._direct(message, table, kind, name)
        if table.support_timeout:
            message.idle_timeout_behavior = p4i.Table.NOTIFY_CONTROL

    def _match_kind(self, field: p4i.MatchField, kind: str) -> None:
        if kind in _MATCH_TYPES:
            field.match_type = _MATCH_TYPES[kind]
        else:
            field.other_match_type = kind

    def _default_action(self, message: p4i.Table, table: CpTable) -> None:
        number = self._symbols.id(Prefix.ACTION, table.default_action)
        if table.const_default:
            message.const_default_action_id = number
        message.initial_default_action.action_id = number
        action = next(a for a in self._program.actions if a.name == table.default_action)
        _add_arguments(message.initial_default_action.arguments, action.params, table.default_args)

    def _action_ref(
        self, message: p4i.ActionRef, table: CpTable, action: str, annotations: Annotations
    ) -> None:
        message.id = self._symbols.id(Prefix.ACTION, action)
        add_annotations(message, annotations)
        names = {a.name for a in annotations}
        if {"tableonly", "defaultonly"} <= names:
            raise p4info_error(
                f"{action} is both @tableonly and @defaultonly in table {table.name}", annotations
            )
        if "tableonly" in names:
            message.scope = p4i.ActionRef.TABLE_ONLY
        elif "defaultonly" in names:
            message.scope = p4i.ActionRef.DEFAULT_ONLY

    def _direct(self, table: p4i.Table, owner: CpTable, kind: str, name: str) -> None:
        counter = next(
            c for c in self._program.counters if c.name == name and c.direct and c.kind == kind
        )
        prefix = _counter_prefix(counter)
        table.direct_resource_ids.append(self._symbols.id(prefix, name))
        message: p4i.DirectCounter | p4i.DirectMeter
        if kind == "counter":
            message = self._info.direct_counters.add()
        else:
            message = self._info.direct_meters.add()
        self._preamble(message.preamble, prefix, counter)
        _set_unit(message, counter)
        message.direct_table_id = self._symbols.id(Prefix.TABLE, owner.name)

    # --- externs ----------------------------------------------------------------------------------

    def _profile(self, profile: CpProfile) -> None:
        message = self._info.action_profiles.add()
        self._symbols.preamble(
            message.preamble,
            Prefix.ACTION_PROFILE,
            profile.name,
            profile.annotations,
            _PROFILE_ANNOTATIONS,
        )
        message.with_selector = profile.selector
        message.size = profile.size
        for table in sorted(profile.tables):
            message.table_ids.append(self._symbols.id(Prefix.TABLE, table))
        if not profile.selector:
            return
        group = find(profile.annotations, "max_group_size")
        if group is not None:
            message.max_group_size = integer_argument(group)
        semantics = find(profile.annotations, "selector_size_semantics")
        if semantics is not None:
            word = string_argument(semantics).lower()
            if word not in ("sum_of_weights", "sum_of_members"):
                raise p4info_error(
                    f"unknown selector_size_semantics {word!r} of {profile.name}",
                    [semantics],
                    'use "sum_of_weights" or "sum_of_members"',
                )
            getattr(message, word).SetInParent()
        message.weights_disallowed = find(profile.annotations, "weights_disallowed") is not None
        weight = find(profile.annotations, "max_member_weight")
        if weight is not None and message.HasField("sum_of_members"):
            message.sum_of_members.max_member_weight = integer_argument(weight)

    def _indirect(self, counter: CpCounter) -> None:
        message: p4i.Counter | p4i.Meter
        if counter.kind == "counter":
            message = self._info.counters.add()
        else:
            message = self._info.meters.add()
        self._preamble(message.preamble, _counter_prefix(counter), counter)
        _set_unit(message, counter)
        message.size = counter.size
        self._index_type(message, counter.index_type)

    def _digests(self) -> None:
        written: set[str] = set()
        for digest in self._program.digests:
            if digest.name in written or digest.type is None:
                continue
            written.add(digest.name)
            message = self._info.digests.add()
            self._preamble(message.preamble, Prefix.DIGEST, digest)
            message.type_spec.CopyFrom(self._types.spec(digest.type))

    def _value_set(self, value_set: CpValueSet) -> None:
        message = self._info.value_sets.add()
        self._preamble(message.preamble, Prefix.VALUE_SET, value_set)
        message.size = value_set.size
        element = underlying(value_set.type) if value_set.type else None
        if isinstance(element, StructT):
            members = [
                leaf
                for f in element.fields
                for leaf in _flattened(CpParam(field_name(f), f.type, f.annotations))
            ]
            ids = field_ids(value_set.name, [(m.name, m.annotations) for m in members])
            for number, field in zip(ids, members, strict=True):
                match = message.match.add(id=number, name=field.name)
                match.bitwidth = width_of(field.type)
                kind = find(field.annotations, "match")
                self._match_kind(match, kind.tokens[0] if kind and kind.tokens else "exact")
                add_annotations(match, field.annotations, ("match",))
                add_documentation(match, field.annotations)
        elif isinstance(element, SerEnumT):
            for number, member in enumerate(element.members, 1):
                match = message.match.add(id=number, name=member)
                match.bitwidth = element.underlying.width
                match.match_type = p4i.MatchField.EXACT
        elif isinstance(element, BitsT):
            match = message.match.add(id=1, bitwidth=element.width)
            match.match_type = p4i.MatchField.EXACT
        else:
            raise p4info_error(
                f"value set {value_set.name} holds {value_set.type}, which P4Runtime can't carry",
                value_set.annotations,
                "use bit<W>, a struct of bit<W> fields or a serializable enum",
            )

    def _controller_headers(self) -> None:
        for header in self._program.controller_headers:
            if is_hidden(header.annotations):
                continue
            message = self._info.controller_packet_metadata.add()
            self._symbols.preamble(
                message.preamble, Prefix.CONTROLLER_HEADER, header.type_name, header.annotations
            )
            message.preamble.name = message.preamble.alias = header.name
            fields = [flat for field in header.fields for flat in _flattened(field)]
            ids = field_ids(header.name, [(f.name, f.annotations) for f in fields])
            for number, field in zip(ids, fields, strict=True):
                if is_hidden(field.annotations):
                    continue
                added = message.metadata.add(id=number, name=field.name)
                add_annotations(added, field.annotations)
                added.bitwidth = width_of(field.type)
                self._type_name(added, field.type)

    def _check_names(self) -> None:
        groups: dict[str, Any] = {
            "tables": self._info.tables,
            "actions": self._info.actions,
            "action profiles": self._info.action_profiles,
            "counters": self._info.counters,
            "direct counters": self._info.direct_counters,
            "meters": self._info.meters,
            "direct meters": self._info.direct_meters,
            "controller headers": self._info.controller_packet_metadata,
            "value sets": self._info.value_sets,
            "registers": self._info.registers,
            "digests": self._info.digests,
        }
        for kind, messages in groups.items():
            seen: set[str] = set()
            for message in messages:
                name = message.preamble.name
                if name in seen:
                    raise p4info_error(
                        f"two {kind} have the name {name}", hint="give one another @name"
                    )
                seen.add(name)


def _flattened(field: CpParam) -> list[CpParam]:
    """A field, or the leaves of a struct by their path; inner annotations come first."""
    if not isinstance(field.type, StructT):
        return [field]
    out = []
    for inner in field.type.fields:
        names = {a.name for a in inner.annotations}
        annotations = inner.annotations + tuple(a for a in field.annotations if a.name not in names)
        path = f"{field.name}.{field_name(inner)}"
        out += _flattened(CpParam(path, inner.type, annotations))
    return out


def _set_unit(message: Any, counter: CpCounter) -> None:
    units = p4i.CounterSpec if counter.kind == "counter" else p4i.MeterSpec
    message.spec.SetInParent()
    message.spec.unit = getattr(units, counter.unit.upper(), units.UNSPECIFIED)
    if counter.kind == "counter":
        return
    kinds = [a for a in counter.annotations if a.name in _METER_TYPES]
    if len(kinds) > 1:
        raise p4info_error(
            f"meter {counter.name} is both @{kinds[0].name} and @{kinds[1].name}", kinds[1:]
        )
    if kinds:
        message.spec.type = _METER_TYPES[kinds[0].name]
