"""Our own native code (thread pool, workspace allocator): one object for the JIT and for export."""

from __future__ import annotations

import threading
from functools import lru_cache

from tilewright.codegen.host.code_key import key_of
from tilewright.codegen.host.kept_runtime import code_store, keep_runtime, recall_runtime
from tilewright.codegen.llvm.compiler import (
    CompiledObject,
    MachineOptions,
    compile_ir,
    host_machine,
    load_permanently,
)
from tilewright.native.allocator import workspace_ir
from tilewright.native.platform import NativePlatform, platform_of
from tilewright.native.thread_pool_ir import thread_pool_ir
from tilewright.native.tile_permission_ir import tile_permission_ir

# Declared once here, since several parts of the native code use them.
_SHARED_DECLARATIONS = """
declare ptr @calloc(i64, i64)
declare i32 @madvise(ptr, i64, i32)
"""

_loading = threading.Lock()


def runtime_ir(platform: NativePlatform) -> str:
    """All native code of the runtime as LLVM IR."""
    parts = (thread_pool_ir(platform), workspace_ir(platform), tile_permission_ir(platform))
    return _SHARED_DECLARATIONS + "".join(parts)


@lru_cache(maxsize=8)
def runtime_object(machine: MachineOptions) -> CompiledObject:
    """The runtime compiled for ``machine``: what an exported library is linked with."""
    return compile_ir(runtime_ir(platform_of(machine.triple)), machine)


def symbols() -> dict[str, int]:
    """Addresses of every ``tw_*`` function of the runtime in this process.

    Loaded on first use and never unloaded: the pool's threads may still run while Python exits.
    Locked, because a second copy would start a second set of threads.
    """
    with _loading:
        return dict(_load())


@lru_cache(maxsize=1)
def _load() -> dict[str, int]:
    store = code_store()
    if store is None:
        return load_permanently([runtime_object(host_machine())])
    key = key_of("native runtime")
    found = recall_runtime(store, key)
    if found is None:
        keep_runtime(store, key, runtime_object(host_machine()))
        found = recall_runtime(store, key)
    return found or load_permanently([runtime_object(host_machine())])
