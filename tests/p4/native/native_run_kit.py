"""Programs made by hand run as native code, with what they leave in every slot made visible."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from sglb.p4 import ir
from sglb.p4.native import abi
from sglb.p4.native.engine import NativeEngine
from sglb.p4.native.program import NativeProgram, compile_native
from sglb.p4.runtime import PacketContext
from sglb.switch.clock import VirtualClock
from sglb.switch.memory import address_of
from sglb.switch.tables import Table


def in_row(program: ir.Program) -> ir.Program:
    """The program with all its slots declared metadata, so that they lie in the row."""
    return replace(program, metadata=(0, len(program.slots)))


def in_block(program: ir.Program) -> ir.Program:
    """The program with slots that only ingress knows, and a twin of each in the row.

    Ingress takes its slots from the twins and puts them back at its end, however it ends.
    """
    count = len(program.slots)
    twins = tuple(replace(slot, name=f"twin of {slot.name}") for slot in program.slots)
    inner = ir.Proc("inner", "control", program.procs[program.ingress].body)
    procs = [*program.procs, inner]
    load = tuple(ir.Copy(target=i, source=count + i, count=1) for i in range(count))
    save = tuple(ir.Copy(target=count + i, source=i, count=1) for i in range(count))
    call = ir.Call(proc=len(procs) - 1, copy_out=save)
    procs[program.ingress] = ir.Proc("outer", "control", (*load, call))
    return replace(
        program,
        slots=program.slots + twins,
        procs=tuple(procs),
        metadata=(count, count),
        standard_metadata={n: count + s for n, s in program.standard_metadata.items()},
    )


def machine_of(native: NativeProgram, tables: Sequence[Table] = ()) -> np.ndarray:
    """A machine with these tables, and no state else."""
    machine = np.zeros(native.machine_words, dtype=np.int64)
    machine[abi.DROP_PORT] = 511
    for index, table in enumerate(tables):
        machine[native.table_word(index)] = table.share(address_of(machine))
    return machine


def real_tables(program: ir.Program) -> list[Table]:
    """The tables of a program, with the entries that it states."""
    return [Table(decl, VirtualClock(), meter_packets=False) for decl in program.tables]


class NativeIngress:
    """The ingress control of a program made by hand."""

    def __init__(self, program: ir.Program) -> None:
        self.native = compile_native(program)
        self.tables = real_tables(program)
        self.machine = machine_of(self.native, self.tables)
        self.engine = NativeEngine(self.native, self.machine)
        self._first = program.metadata[0]
        self._count = program.metadata[1]

    def run(self, start: Mapping[int, int], data: bytes = b"") -> list[int]:
        """What every slot holds after ingress, when some held something before."""
        context = self.context(start, data)
        self.engine.ingress(context)
        return self.slots(context)

    def context(self, start: Mapping[int, int], data: bytes = b"") -> PacketContext:
        context = self.engine.new_context(data, 0)
        for slot, value in start.items():
            context.frame[self._first + slot] = value
        return context

    def slots(self, context: PacketContext) -> list[int]:
        return [context.frame[self._first + i] for i in range(self._count)]
