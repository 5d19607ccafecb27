"""LLVM text made callable: functions of single tables, value sets and hashes."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import llvmlite.binding as llvm
import numpy as np

from sglb.p4 import ir
from sglb.p4.native import table_layout as lay
from sglb.p4.native.emit_hash import hash_functions, random_function
from sglb.p4.native.emit_lookup import count_function, lookup_function, value_set_function
from sglb.p4.native.emit_meter import meter_functions
from sglb.switch.memory import address_of
from sglb.switch.tables import Table, TableEntry
from sglb.switch.value_sets import ValueSetTable

llvm.initialize_native_target()
llvm.initialize_native_asmprinter()


class Module:
    """Compiled text. Functions are called by their address."""

    def __init__(self, text: str, level: int = 1) -> None:
        module = llvm.parse_assembly(text)
        module.verify()
        target = llvm.Target.from_default_triple()
        machine = target.create_target_machine(
            cpu=llvm.get_host_cpu_name(),
            features=llvm.get_host_cpu_features().flatten(),
            opt=level,
        )
        options = llvm.create_pipeline_tuning_options(speed_level=level)
        builder = llvm.create_pass_builder(machine, options)
        builder.getModulePassManager().run(module, builder)
        self._engine = llvm.create_mcjit_compiler(module, machine)
        self._engine.finalize_object()

    def function(self, name: str, result: Any, *args: Any) -> Any:
        return ctypes.CFUNCTYPE(result, *args)(self._engine.get_function_address(name))


def _loads(shapes: Sequence[lay.KeyShape]) -> tuple[str, str, tuple[int, ...], int]:
    """Text that loads keys from %keys, arguments to pass them on, their offsets and bytes."""
    offsets, end = lay.place([key.width for key in shapes])
    text, args = "", ""
    for number, (key, offset) in enumerate(zip(shapes, offsets, strict=True)):
        size = lay.natural_bytes(key.width)
        text += f"  %p{number} = getelementptr i8, ptr %keys, i64 {offset}\n"
        text += f"  %w{number} = load i{8 * size}, ptr %p{number}, align 1\n"
        narrow = f"trunc i{8 * size} %w{number} to i{key.width}"
        same = f"add i{key.width} %w{number}, 0"
        text += f"  %k{number} = {same if 8 * size == key.width else narrow}\n"
        args += f"i{key.width} %k{number}, "
    return text, args, offsets, end


class _Caller:
    def __init__(self, shapes: Sequence[lay.KeyShape]) -> None:
        self.text, self.args, self._offsets, end = _loads(shapes)
        self._shapes = shapes
        self.keys = bytearray(max(end, 1))

    def put(self, values: Sequence[int]) -> Any:
        for value, key, offset in zip(values, self._shapes, self._offsets, strict=True):
            size = lay.natural_bytes(key.width)
            self.keys[offset : offset + size] = value.to_bytes(size, "little")
        return (ctypes.c_char * len(self.keys)).from_buffer(self.keys)


class NativeTable:
    """The lookup of one declaration, for any table of it."""

    def __init__(self, decl: ir.Table, algorithm: str = "crc32") -> None:
        self._layout = lay.record_layout(decl)
        self._widths = [[width for _, width in action.params] for action in decl.actions]
        self._caller = caller = _Caller(self._layout.index.keys)
        selected = hash_functions({algorithm}) + random_function() if algorithm else ""
        text = (
            f"{selected}{lookup_function(decl, 3, algorithm)}{count_function()}{meter_functions()}"
            "define void @look(ptr %head, ptr %keys, ptr %sel, i32 %n, i64 %now, ptr %out) {\n"
            f"{caller.text}"
            f"  %r = call {{ptr, ptr}} @lookup_3(ptr %head, {caller.args}ptr %sel, i32 %n, i64 %now, "
            "ptr null)\n"
            "  store {ptr, ptr} %r, ptr %out\n  ret void\n}\n"
            "define void @tally(ptr %entry, i32 %n) {\n"
            "  call void @count_entry(ptr %entry, i32 %n)\n  ret void\n}\n"
            "define i32 @meter(ptr %entry, i32 %n, i64 %now) {\n"
            "  %r = call i32 @entry_meter(ptr %entry, i32 %n, i64 %now)\n  ret i32 %r\n}\n"
        )
        self.module = Module(text)
        pointer, i32, i64 = ctypes.c_void_p, ctypes.c_int32, ctypes.c_int64
        self._look = self.module.function("look", None, pointer, *(pointer,) * 2, i32, i64, pointer)
        self._tally = self.module.function("tally", None, pointer, i32)
        self._meter = self.module.function("meter", i32, pointer, i32, i64)
        self._out = np.zeros(2, dtype=np.uint64)
        self._machine = np.zeros(lay.machine_words(_NO_PROGRAM), dtype=np.uint64)

    def share(self, table: Table) -> int:
        return table.share(address_of(self._machine))

    def lookup(
        self, head: int, values: Sequence[int], selector: bytes = b"", now_ps: int = 0
    ) -> tuple[int, int]:
        """Addresses of the result's record and the entry's."""
        keys = self._caller.put(values)
        out = address_of(self._out)
        self._look(head, ctypes.addressof(keys), selector, len(selector), now_ps, out)
        return int(self._out[0]), int(self._out[1])

    def read(self, result: int) -> tuple[int, tuple[int, ...]]:
        """Action and data of a result."""
        action = ctypes.c_int32.from_address(result + lay.ACTION).value
        if action < 0:
            return action, ()
        offsets = self._layout.params[action]
        return action, tuple(
            int.from_bytes(ctypes.string_at(result + at, lay.natural_bytes(width)), "little")
            for at, width in zip(offsets, self._widths[action], strict=True)
        )

    def count(self, entry: int, length_bytes: int) -> None:
        self._tally(entry, length_bytes)

    def meter(self, entry: int, length_bytes: int, now_ps: int) -> int:
        return int(self._meter(entry, length_bytes, now_ps))


class NativeSet:
    """`contains` of one value set declaration."""

    def __init__(self, decl: ir.ValueSet) -> None:
        self._caller = caller = _Caller(lay.value_set_shapes(decl))
        args = caller.args[:-2]
        text = (
            f"{value_set_function(decl, 1)}define i1 @look(ptr %head, ptr %keys) {{\n{caller.text}"
            f"  %r = call i1 @in_set_1(ptr %head, {args})\n  ret i1 %r\n}}\n"
        )
        self.module = Module(text)
        self._look = self.module.function("look", ctypes.c_bool, *(ctypes.c_void_p,) * 2)

    def contains(self, values: ValueSetTable, operands: Sequence[int]) -> bool:
        keys = self._caller.put(operands)
        return bool(self._look(values.share(), ctypes.addressof(keys)))


def hit(address: int) -> int:
    """The hit flag of an entry's record."""
    return ctypes.c_int32.from_address(address + lay.HIT).value


def entry_at(table: Table, address: int) -> TableEntry:
    """The entry whose record that is."""
    everything = (*table.entries(), table.default)
    return next(entry for entry in everything if entry.record.address == address)


_NO_PROGRAM = ir.Program(
    slots=(),
    headers=(),
    arrays=(),
    procs=(),
    tables=(),
    instances=(),
    value_sets=(),
    parser=0,
    verify_checksum=0,
    ingress=0,
    egress=0,
    compute_checksum=0,
    deparser=0,
    standard_metadata={},
    metadata=(0, 0),
    headers_out=(0, 0),
    field_lists={},
    errors=(),
)
