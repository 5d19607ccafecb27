"""What a program shows its control plane: the named objects from which P4Info and ids are made.

The lowering pass fills this while it walks the instances, in the order p4c visits them; `sglb.p4.p4info`
turns it into a `p4.config.v1.P4Info` message. Names are full control-plane names after `@name`
(`MyIngress.acl.t`, or `abs.t` for `@name(".abs.t")`).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from sglb.p4.ast import Annotation
from sglb.p4.types import Type


@dataclass(frozen=True, slots=True)
class CpParam:
    """An action's control-plane parameter, a key, or a controller header's field."""

    name: str
    type: Type
    annotations: tuple[Annotation, ...] = ()
    match_kind: str = ""  # of a key


@dataclass(frozen=True, slots=True)
class CpObject:
    """Base: `annotations` as in the source (with @name, @id … still among them)."""

    name: str
    annotations: tuple[Annotation, ...] = ()


@dataclass(frozen=True, slots=True)
class CpAction(CpObject):
    """An action; `params` are the directionless ones that action data supplies."""

    params: tuple[CpParam, ...] = ()


@dataclass(frozen=True, slots=True)
class CpActionRef:
    """An action in a table's list."""

    action: str
    annotations: tuple[Annotation, ...] = ()


@dataclass(frozen=True, slots=True)
class CpEntry:
    """A program entry: `keys` are (kind, value, mask-or-hi) per key, None for don't care."""

    keys: tuple[tuple[int, int] | None, ...]
    action: str
    args: tuple[int, ...]
    priority: int
    is_const: bool


@dataclass(frozen=True, slots=True)
class CpTable(CpObject):
    """A table; `keys` include selector keys, which have no names; those of entries do not."""

    keys: tuple[CpParam, ...] = ()
    actions: tuple[CpActionRef, ...] = ()
    default_action: str = ""
    default_args: tuple[int, ...] = ()
    const_default: bool = False
    size: int = 1024
    implementation: str = ""
    direct_counter: str = ""
    direct_meter: str = ""
    support_timeout: bool = False
    entries: tuple[CpEntry, ...] = ()
    entries_const: bool = False


@dataclass(frozen=True, slots=True)
class CpProfile(CpObject):
    """An action profile or selector. `tables` use it."""

    selector: bool = False
    size: int = 0
    tables: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CpCounter(CpObject):
    """A counter or meter, direct (with its `table`) or indirect (with its `size`).

    `kind` "counter" or "meter"; `unit` "packets", "bytes" or "both". `index_type` is the named type of
    its index, if it has one.
    """

    kind: str = "counter"
    unit: str = "both"
    size: int = 0
    table: str = ""
    direct: bool = False
    index_type: Type | None = None


@dataclass(frozen=True, slots=True)
class CpRegister(CpObject):
    """A register array of `size` elements."""

    type: Type | None = None
    size: int = 0
    index_type: Type | None = None


@dataclass(frozen=True, slots=True)
class CpDigest(CpObject):
    """A digest, named by its struct."""

    type: Type | None = None


@dataclass(frozen=True, slots=True)
class CpValueSet(CpObject):
    """A parser value set."""

    type: Type | None = None
    size: int = 0


@dataclass(frozen=True, slots=True)
class CpControllerHeader(CpObject):
    """A header with @controller_header; `name` is the annotation's string.

    `type_name` is the header type's control-plane name, from which p4c makes the id and aliases.
    """

    type_name: str = ""
    fields: tuple[CpParam, ...] = ()


@dataclass(slots=True)
class ControlPlane:
    """All objects of a program, per kind, in the order p4c lists them.

    Objects marked @hidden are among them: they take part in ids and aliases. `package_annotations`
    are those of `main` (@pkginfo, @brief …). `errors` are the program's error members in order.
    `has_externs` tells that the program declares an extern instance by name or calls an extern
    function in a control or action: p4c writes a (maybe empty) `type_info` then.
    """

    actions: list[CpAction] = field(default_factory=list)
    tables: list[CpTable] = field(default_factory=list)
    profiles: list[CpProfile] = field(default_factory=list)
    counters: list[CpCounter] = field(default_factory=list)
    registers: list[CpRegister] = field(default_factory=list)
    digests: list[CpDigest] = field(default_factory=list)
    value_sets: list[CpValueSet] = field(default_factory=list)
    controller_headers: list[CpControllerHeader] = field(default_factory=list)
    package_annotations: tuple[Annotation, ...] = ()
    errors: tuple[str, ...] = ()
    has_externs: bool = False
