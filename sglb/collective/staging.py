"""Tensors as memory that the transport reads and writes.

A contiguous CPU tensor is its own memory. Others are copied: strided ones through a contiguous copy,
those of an accelerator through pinned host memory.
"""

from __future__ import annotations

import ctypes
import zlib
from collections.abc import Sequence
from itertools import accumulate, pairwise

import torch

_WRITABLE = 0x200  # PyBUF_WRITE
_view = ctypes.pythonapi.PyMemoryView_FromMemory
_view.argtypes = (ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int)
_view.restype = ctypes.py_object


class Staged:
    """The bytes of a tensor, in `view`, which this object must outlive.

    read: they hold its content; write: `back` stores what they have become, in `target` where that is
    another tensor. apart: never the tensor's own memory, where that is another argument's as well.
    Raises ValueError for a sparse tensor, for one that is neither on the CPU nor on CUDA, and for one to
    write whose elements share memory.
    """

    __slots__ = ("_host", "_stream", "_target", "view")

    def __init__(
        self,
        tensor: torch.Tensor,
        *,
        read: bool = True,
        write: bool = False,
        apart: bool = False,
        target: torch.Tensor | None = None,
    ) -> None:
        if tensor.layout is not torch.strided:
            raise ValueError(f"reccl takes strided tensors here, not {tensor.layout}")
        plain = tensor.detach() if tensor.requires_grad else tensor
        self._stream: torch.Stream | None = None
        host = plain
        if plain.device.type not in ("cpu", "cuda"):
            raise ValueError(f"reccl takes tensors on cpu and cuda, not on {plain.device}")
        if plain.device.type != "cpu":
            host = torch.empty(plain.shape, dtype=plain.dtype, pin_memory=True)
            self._stream = torch.accelerator.current_stream(plain.device)
        elif apart or not plain.is_contiguous() or plain.is_conj() or plain.is_neg():
            host = torch.empty(plain.shape, dtype=plain.dtype)
        if host is not plain and read:
            host.copy_(plain)  # from an accelerator: waits for what its stream has still to write
        self._host = host
        origin = tensor if target is None else target
        own = host is plain and origin is tensor
        self._target = origin.detach() if write and not own else None
        if self._target is not None and _is_expanded(self._target):
            raise ValueError(
                "reccl cannot write to an expanded tensor, whose elements share memory; clone() it"
            )
        self.view = bytes_of(host)

    @property
    def fingerprint(self) -> int:
        """Tells types of elements apart."""
        return zlib.crc32(str(self._host.dtype).encode())

    def back(self) -> None:
        """Stores what was received; on an accelerator in the order of the stream that was current."""
        if self._target is None:
            return
        if self._stream is None:
            self._target.copy_(self._host)
            return
        with self._stream:
            self._target.copy_(self._host, non_blocking=True)
        self._stream.synchronize()  # the pinned memory must outlive the copy


def _is_expanded(tensor: torch.Tensor) -> bool:
    return any(s == 0 < n - 1 for n, s in zip(tensor.shape, tensor.stride(), strict=True))


def bytes_of(tensor: torch.Tensor) -> memoryview:
    """The memory of a contiguous CPU tensor, which must outlive the view.

    Not by `numpy()`: that makes the storage one that cannot be resized any more, as FSDP does.
    """
    view: memoryview = _view(tensor.data_ptr(), tensor.numel() * tensor.itemsize, _WRITABLE)
    return view


def cut(view: memoryview, sizes: Sequence[int]) -> list[memoryview]:
    """Neighbouring parts of these sizes in bytes."""
    bounds = list(accumulate(sizes, initial=0))
    return [view[lo:hi] for lo, hi in pairwise(bounds)]


def overlap(first: Sequence[torch.Tensor], second: Sequence[torch.Tensor]) -> bool:
    """Whether a contiguous tensor of one list may share bytes with one of the other."""
    ours, theirs = ([_span(one) for one in tensors] for tensors in (first, second))
    if min(ours)[0] >= max(end for _, end in theirs) or min(theirs)[0] >= max(e for _, e in ours):
        return False
    return any(a < d and c < b for a, b in ours for c, d in theirs)


def _span(tensor: torch.Tensor) -> tuple[int, int]:
    begin = tensor.data_ptr()
    return begin, begin + tensor.numel() * tensor.itemsize


def all_back(staged: Sequence[Staged]) -> None:
    """Stores what was received in copies."""
    for one in staged:
        one.back()
