"""`load_module`: an exported library as a module again."""

from __future__ import annotations

import ctypes
from pathlib import Path

from tilewright.codegen.artifact import Artifact
from tilewright.codegen.host.export import SET_HANDLER_SYMBOL
from tilewright.codegen.host.library_file import code_of, read_description
from tilewright.codegen.host.shared_library import SharedLibrary
from tilewright.codegen.module_info import why_unrunnable
from tilewright.codegen.registry import find_backend
from tilewright.errors import RuntimeFailure
from tilewright.runtime import packed_call, threads
from tilewright.runtime.module import Module, ModuleSources


def load_module(path: str | Path) -> Module:
    """Load what `Module.export_library` wrote to a shared library, or to a `.cubin` for a GPU.

    Damaged and foreign files, and libraries that this machine cannot run, are refused before
    anything of them is loaded.
    """
    file = Path(path)
    description = read_description(file)
    reason = why_unrunnable(description.module)
    if reason:
        raise RuntimeFailure(f"cannot load {file}: {reason}; export it for this machine")
    missing = f"a module loaded from a library has no source; {file.name} holds machine code only"
    if description.kind:
        artifact = Artifact(description.kind, code_of(file), meta=description.meta)
        loaded = find_backend(description.kind).load(artifact, {})
        return Module(description.module, loaded, ModuleSources(dict, missing))
    library = SharedLibrary(file)
    if description.has_threads:
        threads.follow(library)
    if description.calls_packed:
        library.call(SET_HANDLER_SYMBOL, ctypes.c_void_p(packed_call.handler_address()))
    return Module(description.module, library, ModuleSources(dict, missing))
