"""A program as native code: where its functions are, and what a caller must know to call them."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Final

from sglb.p4 import ir
from sglb.p4.deep import run_deep
from sglb.p4.native import abi, jit, table_layout
from sglb.p4.native.emit_pass import ENTRIES, PASSES
from sglb.p4.native.layout import Layout
from sglb.p4.native.module import write_module
from sglb.p4.source import Span

_Pointer: Final = ctypes.c_void_p
_PLAIN: Final = ctypes.CFUNCTYPE(None, _Pointer, _Pointer)
_TYPES: Final = {
    "p4_preserve": ctypes.CFUNCTYPE(None, _Pointer, _Pointer, _Pointer, ctypes.c_int32),
    "p4_forward_batch": ctypes.CFUNCTYPE(None, _Pointer, _Pointer, ctypes.c_int64, ctypes.c_int64),
}


@dataclass(frozen=True, eq=False)
class NativeProgram:
    """A program's native code; it stays in memory as long as this object lives.

    `addresses` are those of the entry points (see `abi`), `functions` the same for ctypes.
    `frame_bytes` is the frame's size, `max_header_bytes` the room that OUT needs, `max_parse_bytes`
    how much of a packet the parser can look at (None: as much as there is): of a packet's bytes up to
    there, as many as it has must be readable at DATA, zeros where they are not stored.
    `preserve_lists[i]` are the slots of preserve list i, `failures[STATUS]` message and place of an
    end by STATUS. `digest_layouts` gives the widths of a digest's values by its instance: each takes
    its bits' words of 64, lowest first. `from_cache`: the code was compiled by an earlier process.
    """

    ir: ir.Program
    addresses: Mapping[str, int]
    functions: Mapping[str, Callable[..., None]]
    frame_bytes: int
    max_header_bytes: int
    max_parse_bytes: int | None
    preserve_lists: tuple[tuple[int, ...], ...]
    failures: tuple[tuple[str, Span], ...]
    digest_layouts: Mapping[int, tuple[int, ...]]
    from_cache: bool
    text: str
    _layout: Layout
    _keep: Any

    @property
    def machine_words(self) -> int:
        """Words of a machine."""
        return table_layout.machine_words(self.ir)

    @property
    def row_bytes(self) -> int:
        """Bytes of a row that any entry point can run on, up to a multiple of the rows' alignment."""
        end = self._layout.pass_at + self._layout.pass_bytes
        return -(-end // abi.ROW_ALIGN) * abi.ROW_ALIGN

    def table_word(self, index: int) -> int:
        """The machine's word with the address of a table's head."""
        return table_layout.table_word(index)

    def instance_word(self, index: int) -> int:
        """The machine's word with the address of an instance's first element."""
        return table_layout.instance_word(self.ir, index)

    def value_set_word(self, index: int) -> int:
        """The machine's word with the address of a value set's head."""
        return table_layout.value_set_word(self.ir, index)

    @cached_property
    def places(self) -> tuple[tuple[int, int] | None, ...]:
        """`slot_place` of every slot."""
        return tuple(self._layout.row_place(slot) for slot in range(len(self.ir.slots)))

    def slot_place(self, slot: int) -> tuple[int, int] | None:
        """A slot's offset in the row and size, in bytes; None if only one block knows the slot."""
        return self.places[slot]

    def outlives_a_pass(self, slot: int) -> bool:
        """Whether the slot is in the frame, which a packet has between passes too."""
        return self._layout.outlives_a_pass(slot)


class _Identity:
    """A program as a key: equal to itself only, and kept alive as long as the key is."""

    __slots__ = ("program",)

    def __init__(self, program: ir.Program) -> None:
        self.program = program

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Identity) and other.program is self.program

    def __hash__(self) -> int:
        return id(self.program)


def compile_native(program: ir.Program) -> NativeProgram:
    """Native code of a program; the switches of a fabric, which all run one, share it.

    ValueError when the program names an extern, algorithm or core error that doesn't exist.
    """
    return _compiled(_Identity(program))


@lru_cache(maxsize=16)
def _compiled(key: _Identity) -> NativeProgram:
    return run_deep(lambda: _compile(key.program))


def _compile(program: ir.Program) -> NativeProgram:
    module = write_module(program)
    unit = module.unit
    names = (*ENTRIES.values(), *PASSES)
    code = jit.load(module.text, names)
    return NativeProgram(
        ir=program,
        addresses=code.addresses,
        functions={name: _TYPES.get(name, _PLAIN)(code.addresses[name]) for name in names},
        frame_bytes=unit.layout.frame_bytes,
        max_header_bytes=unit.max_header_bytes,
        max_parse_bytes=unit.max_parse_bytes,
        preserve_lists=tuple(unit.preserve_lists),
        failures=tuple(unit.failures),
        digest_layouts=dict(unit.digests),
        from_cache=code.from_cache,
        text=module.text,
        _layout=unit.layout,
        _keep=code.keep,
    )
