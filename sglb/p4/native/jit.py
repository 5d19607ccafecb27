"""From LLVM text to functions in this process: optimise, generate code, load.

Code is generated for this machine's processor. Object code is kept on disk (see `cache`) under the hash
of the text and of all else that decides what comes out.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache as once
from hashlib import sha256
from typing import Final

import llvmlite
from llvmlite import binding as llvm

from sglb.p4.native import cache

#: LLVM's optimisation level. Level 1 saves a quarter of the time to compile, 3 costs as much; the code
#: of the project's program is as quick either way, nor do vectors of scalars (SLP) help it.
LEVEL: Final = 2
#: What a function may cost, in LLVM's measure, to be woven into its callers: LLVM's own bound.
_INLINE_COST: Final = 225

_numbers = itertools.count(1)
_lock = threading.Lock()


@dataclass(frozen=True, slots=True)
class LoadedCode:
    """Functions in this process, as long as this object lives. `from_cache`: none was compiled."""

    addresses: Mapping[str, int]
    from_cache: bool
    keep: llvm.ResourceTracker


@once
def _target() -> llvm.TargetMachine:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    llvm.initialize_native_asmparser()
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
        opt=LEVEL,
        reloc="pic",
        codemodel="jitdefault",
        jit=True,
    )


@once
def _jit() -> llvm.LLJIT:
    return llvm.create_lljit_compiler(_target())


def cache_key(text: str) -> str:
    """What object code of this text, or of what a stamp stands for, is kept under."""
    parts = (
        text,
        llvmlite.__version__,
        str(llvm.llvm_version_info),
        llvm.get_default_triple(),
        llvm.get_host_cpu_name(),
        llvm.get_host_cpu_features().flatten(),
        f"level {LEVEL}, no SLP",
    )
    return sha256("\0".join(parts).encode()).hexdigest()


def compile_text(text: str, *, inline_cost: int = _INLINE_COST) -> bytes:
    """Object code of LLVM text. RuntimeError when LLVM refuses it, which is a fault of ours."""
    target = _target()
    module = llvm.parse_assembly(text)
    module.triple = target.triple
    module.data_layout = str(target.target_data)
    module.verify()
    options = llvm.create_pipeline_tuning_options(speed_level=LEVEL)
    options.slp_vectorization = False
    options.inlining_threshold = inline_cost
    builder = llvm.create_pass_builder(target, options)
    builder.getModulePassManager().run(module, builder)
    code: bytes = target.emit_object(module)
    return code


def load(text: str, names: Iterable[str]) -> LoadedCode:
    """The functions of these names, compiled now or before."""
    return load_stamped(text, lambda: text, names)


def load_stamped(
    stamp: str, make: Callable[[], str], names: Iterable[str], *, inline_cost: int = _INLINE_COST
) -> LoadedCode:
    """As `load`, of text that is only made if nothing is kept under its stamp.

    A stamp must tell apart whatever texts there can be, and costs of what is woven in.
    """
    with _lock:
        _target()
        key = cache_key(stamp)
        code = cache.load(key)
        from_cache = code is not None
        if code is None:
            code = compile_text(make(), inline_cost=inline_cost)
            cache.save(key, code)
        library = llvm.JITLibraryBuilder().add_object_img(code).add_current_process()
        for name in names:
            library.export_symbol(name)
        tracker = library.link(_jit(), f"p4_{next(_numbers)}")
        return LoadedCode({name: tracker[name] for name in names}, from_cache, tracker)
