"""Everything a loaded program keeps between packets, found by index, P4Info id or name."""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate, pairwise
from threading import RLock
from typing import TYPE_CHECKING, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from sglb.p4 import ir
from sglb.p4.hashing import CRC16, CRC32, CrcModel, HashAlgorithms
from sglb.p4.native import abi
from sglb.p4.native import table_layout as lay
from sglb.p4.random_stream import RandomStream
from sglb.p4.runtime import CounterState, MeterState, PipelineState, RegisterState
from sglb.switch.clock import Scheduler
from sglb.switch.counters import CounterArray
from sglb.switch.errors import NoSuchEntry
from sglb.switch.locking import SwitchLock, locked
from sglb.switch.memory import Arena, address_of
from sglb.switch.meters import MeterArray
from sglb.switch.profiles import ActionProfile
from sglb.switch.registers import RegisterArray
from sglb.switch.tables import Table
from sglb.switch.value_sets import ValueSetTable

if TYPE_CHECKING:
    from sglb.p4.compiler import CompiledProgram

T = TypeVar("T")

#: What `ProgramState.by_name` can find.
Stateful = Table | ValueSetTable | RegisterArray | CounterArray | MeterArray | ActionProfile


#: What custom CRCs are until somebody gives them other parameters; nobody writes to these.
_CUSTOM_CRCS: Final = {
    name: np.array(lay.crc_words(model), dtype=np.uint64)
    for name, model in (("crc16_custom", CRC16), ("crc32_custom", CRC32))
}


class ProgramState:
    """State of one loaded program.

    `tables` and `value_sets` stand in the order of the IR; `registers`, `counters`, `meters` and
    `profiles` are by P4Info id. `pipeline` is what the interpreter works on, `machine` what native
    code does: the same state. `lock` is held by whoever writes, and by whoever runs packets in another
    thread than the writer's.
    """

    def __init__(
        self,
        program: CompiledProgram,
        clock: Scheduler,
        port_up: Callable[[int], bool],
        rng: RandomStream,
        *,
        drop_port: int = 511,
        lock: SwitchLock | None = None,
    ) -> None:
        self.lock: SwitchLock = lock or RLock()
        self.program = program
        self._rng = rng
        self._drop_port = drop_port
        self._active = False
        self._machine: NDArray[np.int64] | None = None
        self._crcs = dict(_CUSTOM_CRCS)
        code = program.ir
        self.hashes = HashAlgorithms(rng)
        self._arena = Arena()
        self._words = self._arena.take(lay.state_words(code) * lay.WORD).view(np.int64)
        heads = self._heads()
        self.registers: dict[int, RegisterArray] = {}
        self.counters: dict[int, CounterArray] = {}
        self.meters: dict[int, MeterArray] = {}
        self.profiles: dict[int, ActionProfile] = {}
        limits = {p.preamble.id: p.max_group_size for p in program.p4info.action_profiles}
        by_members = {
            p.preamble.id for p in program.p4info.action_profiles if p.HasField("sum_of_members")
        }
        by_instance: dict[int, ActionProfile] = {}
        engine_side: list[RegisterState | CounterState | MeterState | None] = []
        for index, instance in enumerate(code.instances):
            engine_side.append(self._make(instance))
            if instance.kind in (
                ir.InstanceKind.ACTION_PROFILE,
                ir.InstanceKind.ACTION_SELECTOR,
            ):
                by_instance[index] = self.profiles[instance.p4info_id] = ActionProfile(
                    instance,
                    port_up,
                    self.hashes[instance.algorithm or "crc32"],
                    max_group_size=limits.get(instance.p4info_id, 0),
                    sum_of_members=instance.p4info_id in by_members,
                    lock=self.lock,
                )
        self.tables = tuple(
            Table(
                decl,
                clock,
                profile=None if decl.implementation is None else by_instance[decl.implementation],
                meter_packets=decl.direct_meter is not None
                and code.instances[decl.direct_meter].counts == "packets",
                lock=self.lock,
                arena=self._arena,
                head=head,
            )
            for decl, head in zip(code.tables, heads, strict=True)
        )
        self.value_sets = tuple(ValueSetTable(decl, self.lock) for decl in code.value_sets)
        #: P4Info id of each digest instance, by its index in the IR.
        self.digest_ids = {
            i: inst.p4info_id
            for i, inst in enumerate(code.instances)
            if inst.kind is ir.InstanceKind.DIGEST
        }
        self.pipeline = PipelineState(self.tables, engine_side, self.value_sets)
        self._tables = {t.p4info_id: t for t in self.tables}
        self._value_sets = {v.p4info_id: v for v in self.value_sets}

    # --- native code ---

    def _heads(self) -> list[NDArray[np.uint64]]:
        """The tables' heads, which stand behind the machine: packets need nearly all of both."""
        code = self.program.ir
        ends = list(accumulate(map(lay.head_words, code.tables), initial=lay.machine_words(code)))
        words = self._words.view(np.uint64)
        return [words[start:end] for start, end in pairwise(ends)]

    @property
    def machine(self) -> NDArray[np.int64]:
        """The machine of this state (see `native.abi`); every later write reaches it too.

        Made on first use. The words of the digest buffer are the engine's to set.
        """
        if self._machine is None:
            self._machine = self._make_machine()
            if self._active:
                self._rng.move(self._machine, abi.RANDOM_STATE)
        return self._machine

    def activate(self) -> None:
        """This state's program runs from now on: its machine holds the switch's random state."""
        self._active = True
        if self._machine is not None:
            self._rng.move(self._machine, abi.RANDOM_STATE)

    @locked
    def set_custom_crc(self, name: str, model: CrcModel) -> None:
        """Gives a custom CRC other parameters. Raises as `HashAlgorithms.set_custom`."""
        self.hashes.set_custom(name, model)
        self._crcs[name] = np.array(lay.crc_words(model), dtype=np.uint64)
        if self._machine is not None:
            self._point_to_crcs(self._machine)

    @locked
    def _make_machine(self) -> NDArray[np.int64]:
        code = self.program.ir
        machine = self._words[: lay.machine_words(code)]
        machine[abi.DROP_PORT] = self._drop_port
        machine[abi.TRAIL] = address_of(self._arena.take(abi.TRAIL_WORDS * 4))
        self._point_to_crcs(machine)
        for index, table in enumerate(self.tables):
            machine[lay.table_word(index)] = table.share(address_of(machine))
        for index, instance in enumerate(self.pipeline.instances):
            if isinstance(instance, RegisterArray | CounterArray | MeterArray):
                machine[lay.instance_word(code, index)] = instance.address
        for index, values in enumerate(self.value_sets):
            machine[lay.value_set_word(code, index)] = values.share()
        return machine

    def _point_to_crcs(self, machine: NDArray[np.int64]) -> None:
        machine[lay.CUSTOM_CRC16] = address_of(self._crcs["crc16_custom"])
        machine[lay.CUSTOM_CRC32] = address_of(self._crcs["crc32_custom"])

    def _make(self, instance: ir.Instance) -> RegisterState | CounterState | MeterState | None:
        kind = instance.kind
        if kind is ir.InstanceKind.REGISTER:
            register = self.registers[instance.p4info_id] = RegisterArray(
                instance, self.lock, self._arena
            )
            return register
        if kind is ir.InstanceKind.COUNTER:
            counter = self.counters[instance.p4info_id] = CounterArray(instance, self._arena)
            return counter
        if kind is ir.InstanceKind.METER:
            meter = self.meters[instance.p4info_id] = MeterArray(instance, self._arena)
            return meter
        return None

    # --- by P4Info id or name ---

    def table(self, p4info_id: int) -> Table:
        """The table. Raises `NoSuchEntry`, as do the others below."""
        return _found(self._tables, "table", p4info_id)

    def value_set(self, p4info_id: int) -> ValueSetTable:
        """The value set."""
        return _found(self._value_sets, "value set", p4info_id)

    def register(self, p4info_id: int) -> RegisterArray:
        """The register array."""
        return _found(self.registers, "register", p4info_id)

    def counter(self, p4info_id: int) -> CounterArray:
        """The indirect counter."""
        return _found(self.counters, "counter", p4info_id)

    def meter(self, p4info_id: int) -> MeterArray:
        """The indirect meter."""
        return _found(self.meters, "meter", p4info_id)

    def profile(self, p4info_id: int) -> ActionProfile:
        """The action profile or selector."""
        return _found(self.profiles, "action profile", p4info_id)

    def by_name(self, name: str) -> Stateful:
        """The object with this full name, or of which it is the one unambiguous dotted suffix."""
        everything: list[Stateful] = [
            *self.tables,
            *self.value_sets,
            *self.registers.values(),
            *self.counters.values(),
            *self.meters.values(),
            *self.profiles.values(),
        ]
        exact = [o for o in everything if o.name == name]
        found = exact or [o for o in everything if o.name.endswith("." + name)]
        if len(found) != 1:
            what = "no" if not found else "more than one"
            known = ", ".join(sorted(o.name for o in found or everything))
            raise NoSuchEntry(f"the program has {what} object named {name!r}; known are {known}")
        return found[0]


def _found(objects: dict[int, T], kind: str, p4info_id: int) -> T:
    found = objects.get(p4info_id)
    if found is None:
        raise NoSuchEntry(f"the program has no {kind} with id {p4info_id:#010x}")
    return found
