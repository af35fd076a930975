"""Our own native code in machine code: for this process, and for exported libraries."""

from __future__ import annotations

import ctypes
import hashlib
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

import msgspec

from tilewright.codegen.artifact import Artifact
from tilewright.codegen.host.code_key import key_of
from tilewright.codegen.host.code_store import CodeStore, code_store
from tilewright.codegen.host.loading import load_permanently
from tilewright.codegen.host.shared_library import SharedLibrary
from tilewright.codegen.llvm.compiler import MachineOptions, compile_ir, host_machine
from tilewright.errors import RuntimeFailure
from tilewright.native.dlpack_ir import PYTHON_FUNCTIONS, capsule_ir
from tilewright.native.elf import link_shared_object
from tilewright.native.platform import is_linux_x86_64, platform_of
from tilewright.native.runtime_ir import process_ir, runtime_ir

_loading = threading.Lock()
_adopted: dict[str, int] = {}  # the runtime that came with a file


@lru_cache(maxsize=8)
def runtime_object(machine: MachineOptions) -> Artifact:
    """The runtime compiled for ``machine``: what an exported library is linked with."""
    return compile_ir(runtime_ir(platform_of(machine.triple)), machine)


def symbols() -> dict[str, int]:
    """Addresses of every ``tw_*`` function of the runtime in this process.

    Loaded on first use and never unloaded: the pool's threads may still run while Python exits.
    Locked, because a second copy would start a second set of threads.
    """
    with _loading:
        return dict(_load())


def process_object(machine: MachineOptions) -> Artifact:
    """The runtime of a process, compiled: a file with kernels brings it along."""
    return compile_ir(process_ir(platform_of(machine.triple)), machine)


def link_process_library(runtime: Artifact, name: str) -> bytes:
    """The same as a shared library."""
    return link_shared_object([runtime.data], name, runtime.defined, stays_loaded=True)


def process_key(triple: str) -> str:
    """Names the source of the runtime: a library that was made from another one does not fit."""
    return hashlib.sha256(process_ir(platform_of(triple)).encode()).hexdigest()


def adopt(load: Callable[[], SharedLibrary], names: Sequence[str]) -> None:
    """Take a runtime that was compiled earlier for this process, if none is loaded yet."""
    with _loading:
        if not _adopted and not _load.cache_info().currsize:
            library = load()
            _adopted.update({name: library[name] for name in names})


def capsule_functions(manager_at: Mapping[str, int]) -> dict[str, int]:
    """Addresses of the code that frees DLPack capsules; see `native/dlpack_ir.py`."""
    imports = {
        name: ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0
        for name in PYTHON_FUNCTIONS
    }
    return load_permanently([compile_ir(capsule_ir(manager_at), host_machine())], imports)


@lru_cache(maxsize=1)
def _load() -> dict[str, int]:
    if _adopted:
        return _adopted
    store = code_store()
    if store is None:
        return load_permanently([process_object(host_machine())])
    key = key_of("native runtime")
    found = _recall(store, key)
    if found is None and is_linux_x86_64(host_machine().triple):
        runtime = process_object(host_machine())
        library = link_process_library(runtime, f"{key}.so")
        store.put(key, library, msgspec.json.encode(runtime.defined))
        found = _recall(store, key)
    return found or load_permanently([process_object(host_machine())])


def _recall(store: CodeStore, key: str) -> dict[str, int] | None:
    """The addresses of the stored runtime's functions, for the rest of the process's life."""
    text = store.description(key)
    if text is None:
        return None
    try:
        library = SharedLibrary(store.path(key))
        return {name: library[name] for name in msgspec.json.decode(text, type=list[str])}
    except (msgspec.MsgspecError, RuntimeFailure):
        return None
