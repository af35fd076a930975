"""The native runtime as an entry of the code store, and the store that the settings ask for."""

from __future__ import annotations

from functools import lru_cache

import msgspec

from tilewright.codegen.host.code_store import CodeStore, open_store
from tilewright.codegen.host.shared_library import SharedLibrary
from tilewright.codegen.llvm.compiler import CompiledObject
from tilewright.config import settings
from tilewright.errors import RuntimeFailure
from tilewright.native.elf import link_shared_object
from tilewright.native.platform import is_linux_x86_64


@lru_cache(maxsize=1)
def code_store() -> CodeStore | None:
    """The store that the settings ask for."""
    folder = settings().cache_dir
    return None if folder is None else open_store(folder)


def keep_runtime(store: CodeStore, key: str, runtime: CompiledObject) -> None:
    """Store the native runtime."""
    if is_linux_x86_64(runtime.machine.triple):
        library = link_shared_object(
            [runtime.object_bytes], f"{key}.so", runtime.defined, stays_loaded=True
        )
        store.put(key, library, msgspec.json.encode(runtime.defined))


def recall_runtime(store: CodeStore, key: str) -> dict[str, int] | None:
    """The addresses of the stored runtime's functions, for the rest of the process's life."""
    text = store.description(key)
    if text is None:
        return None
    try:
        library = SharedLibrary(store.path(key))
        return {name: library[name] for name in msgspec.json.decode(text, type=list[str])}
    except (msgspec.MsgspecError, RuntimeFailure):
        return None
