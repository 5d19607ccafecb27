"""What the handlers of all entity kinds share: update types, undo steps, object look-ups."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from typing import Protocol, TypeVar

from finsy.proto import p4r

from sglb.switch.p4runtime.status import Code, P4RuntimeError
from sglb.switch.p4runtime.translation import Translator
from sglb.switch.p4runtime.values import encode_bits

#: Takes back an update that was applied; run in reverse order when a batch is rolled back.
Undo = Callable[[], None]


class UpdateType(Enum):
    """What an update does."""

    INSERT = p4r.Update.INSERT
    MODIFY = p4r.Update.MODIFY
    DELETE = p4r.Update.DELETE


class EntityHandler(Protocol):
    """Reads and writes one kind of entity of one pipeline.

    `write` applies one update whole or raises with nothing changed, and returns what takes it back.
    `read` yields the entities that a request selects. `object_id` is the P4Info id an entity is
    about, which roles are checked against; 0 for a wildcard or for kinds without one.
    """

    def write(self, update: UpdateType, entity: p4r.Entity) -> Undo:
        """Applies one update."""

    def read(self, entity: p4r.Entity) -> Iterator[p4r.Entity]:
        """The entities that the request selects."""

    def object_id(self, entity: p4r.Entity) -> int:
        """The P4Info id that the entity is about."""


T = TypeVar("T")


def find(objects: Mapping[int, T], kind: str, object_id: int) -> T:
    """The object with this P4Info id; INVALID_ARGUMENT when there is none."""
    found = objects.get(object_id)
    if found is None:
        hint = "an id must be given" if object_id == 0 else "not in the P4Info"
        raise P4RuntimeError(
            Code.INVALID_ARGUMENT, f"{kind} id {object_id} ({object_id:#010x}): {hint}"
        )
    return found


def modify_only(update: UpdateType, kind: str, name: str) -> None:
    """INVALID_ARGUMENT for an update that isn't MODIFY."""
    if update is not UpdateType.MODIFY:
        raise P4RuntimeError(
            Code.INVALID_ARGUMENT, f"{kind} {name}: only MODIFY is allowed, not {update.name}"
        )


class IndexMap:
    """Array indices as the controller numbers them (`index_type_name` may be a translated type)."""

    def __init__(self, name: str, size: int, translator: Translator | None) -> None:
        self.name = name
        self.size = size
        # A string cannot stand in an int64: such arrays are addressed by the device's numbers.
        self._translator = None if translator is None or translator.is_string else translator

    def to_device(self, index: p4r.Index) -> int:
        """The element; INVALID_ARGUMENT for a negative index, OUT_OF_RANGE beyond the end."""
        number: int = index.index
        if number < 0:
            raise P4RuntimeError(Code.INVALID_ARGUMENT, f"{self.name}: index {number} is negative")
        if self._translator is not None:
            number = self._translator.to_device(encode_bits(number), 64, f"{self.name} index")
        if number >= self.size:
            raise P4RuntimeError(
                Code.OUT_OF_RANGE, f"{self.name}: index {number}, the size is {self.size}"
            )
        return number

    def to_controller(self, number: int) -> p4r.Index:
        """The message for an element."""
        if self._translator is not None:
            number = int.from_bytes(self._translator.to_controller(number), "big")
        return p4r.Index(index=number)

    def chosen(self, message: p4r.CounterEntry | p4r.MeterEntry | p4r.RegisterEntry) -> range:
        """The element that an entry names, or all when its index is unset."""
        if not message.HasField("index"):
            return range(self.size)
        index = self.to_device(message.index)
        return range(index, index + 1)


def all_of(undos: list[Undo]) -> Undo:
    """One undo step for several, last first."""

    def undo() -> None:
        for step in reversed(undos):
            step()

    return undo


def nothing() -> None:
    """The undo step of an update that changed nothing."""


class ExternHandler:
    """ExternEntry: there are none in v1model, so a read of all finds nothing."""

    def object_id(self, entity: p4r.Entity) -> int:
        """The extern instance's id."""
        return int(entity.extern_entry.extern_id)

    def write(self, update: UpdateType, entity: p4r.Entity) -> Undo:
        """UNIMPLEMENTED."""
        raise P4RuntimeError(
            Code.UNIMPLEMENTED,
            f"{update.name} of extern type {entity.extern_entry.extern_type_id}: v1model has no "
            "externs beyond the standard ones",
        )

    def read(self, entity: p4r.Entity) -> Iterator[p4r.Entity]:
        """Nothing; INVALID_ARGUMENT when one extern type is asked for."""
        if entity.extern_entry.extern_type_id:
            raise P4RuntimeError(
                Code.INVALID_ARGUMENT,
                f"extern type id {entity.extern_entry.extern_type_id} is not in the P4Info",
            )
        return iter(())
