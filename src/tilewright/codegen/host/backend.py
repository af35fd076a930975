"""Loading, keeping and exporting: what backends that make relocatable objects have in common.

Kept code is a shared library of our own linker in the code store, which is loaded without LLVM.
What it takes from the runtime it reaches through a table of addresses that is filled after loading,
so that all code of a process shares one thread pool. Only x86-64 Linux has that linker; elsewhere
nothing is kept.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence

import msgspec

from tilewright.codegen.artifact import Artifact, Library
from tilewright.codegen.base import Backend, Exporter
from tilewright.codegen.host.code_store import CodeStore
from tilewright.codegen.host.loading import load_objects
from tilewright.codegen.host.shared_library import SharedLibrary
from tilewright.codegen.llvm.compiler import MachineOptions, compile_ir, machine_of
from tilewright.codegen.llvm.optimizer import UNOPTIMISED
from tilewright.codegen.module_info import ModuleInfo
from tilewright.errors import CodegenError, RuntimeFailure
from tilewright.native.abi import PACKED_SUFFIX, RUNTIME_PREFIX
from tilewright.native.elf import link_shared_object
from tilewright.native.platform import is_linux_x86_64

IMPORT_TABLE = "tw_imports"


class _Description(msgspec.Struct, frozen=True):
    info: ModuleInfo
    imports: tuple[str, ...]


class HostBackend(Backend):
    """Loads, keeps and exports relocatable objects; `meta` of an artifact is its machine."""

    def exporters(self) -> Mapping[str, Exporter]:
        """Objects, and libraries with a header and an example in C."""
        from tilewright.codegen.host.export import EXPORTERS  # which loading kept code never needs

        return EXPORTERS

    def load(self, artifact: Artifact, imports: Mapping[str, int]) -> Library:
        """Link an object into this process."""
        return load_objects([artifact], imports)

    def recall(
        self, store: CodeStore, key: str, symbols: Callable[[], Mapping[str, int]]
    ) -> tuple[ModuleInfo, Library] | None:
        """A stored module, loaded; None if there is none that can be used."""
        addresses, text = symbols(), store.description(key)
        if text is None:
            return None
        try:
            found = msgspec.json.decode(text, type=_Description)
            library = SharedLibrary(store.path(key))
            fill_import_table(library, found.imports, addresses)
        except (msgspec.MsgspecError, RuntimeFailure, KeyError):
            return None
        return found.info, library

    def keep(self, store: CodeStore, key: str, info: ModuleInfo, artifact: Artifact) -> None:
        """Store a module, if all that it needs is our runtime and the system's libraries."""
        imports, machine = artifact.undefined, machine_of(artifact)
        own = all(name.startswith(RUNTIME_PREFIX) for name in imports)
        if not own or not is_linux_x86_64(machine.triple):
            return
        exports = [function.name + PACKED_SUFFIX for function in info.functions]
        objects = [artifact.data]
        if imports:
            objects.append(import_table(imports, machine))
            exports.append(IMPORT_TABLE)
        try:
            library = link_shared_object(objects, f"{key}.so", exports)
        except CodegenError:
            return  # our linker has not met something in it yet; the module is loaded otherwise
        store.put(key, library, msgspec.json.encode(_Description(info, imports)))


def fill_import_table(
    library: SharedLibrary, imports: Sequence[str], addresses: Mapping[str, int]
) -> None:
    """Tell loaded code where the functions are that it takes from the runtime."""
    if imports:
        table = library.variable(IMPORT_TABLE, ctypes.c_uint64 * len(imports))
        table[:] = [addresses[name] for name in imports]


def import_table(imports: Sequence[str], machine: MachineOptions) -> bytes:
    """An object that defines every imported function as a jump, whatever its signature is."""
    lines = [f"@{IMPORT_TABLE} = global [{len(imports)} x ptr] zeroinitializer, align 64"]
    for position, name in enumerate(imports):
        code = f".globl {name}\\0A.type {name},@function\\0A"
        lines.append(f'module asm "{code}{name}: jmpq *{IMPORT_TABLE}+{8 * position}(%rip)"')
    return compile_ir("\n".join(lines) + "\n", machine, UNOPTIMISED).data
