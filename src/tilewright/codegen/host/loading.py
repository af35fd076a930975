"""Linking relocatable objects into this process, through LLVM's JIT linker."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tilewright.codegen.artifact import Artifact
from tilewright.codegen.host.shared_library import SymbolTable
from tilewright.codegen.llvm.compiler import host_machine, llvm, new_target_machine
from tilewright.errors import CodegenError

# LLVM keeps about 11 kB of every library it ever loaded until its engine goes away.
LIBRARIES_PER_ENGINE = 256


class _Engine:
    """One LLJIT that takes a bounded number of libraries."""

    def __init__(self) -> None:
        machine = new_target_machine(host_machine(), codegen_level=2)
        self.lljit = llvm().create_lljit_compiler(machine, use_jit_link=True, suppress_errors=True)
        self.free_names = iter(range(LIBRARIES_PER_ENGINE))


class _EngineSlot:
    """Hands out the engine that still has room; a full one dies with its last library."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._engine: _Engine | None = None

    def take(self) -> tuple[_Engine, str]:
        """An engine and a library name that is unused in it."""
        with self._lock:
            name = None if self._engine is None else next(self._engine.free_names, None)
            if self._engine is None or name is None:
                self._engine = _Engine()
                name = next(self._engine.free_names)
            return self._engine, f"library{name}"


_engines = _EngineSlot()


class LoadedLibrary(SymbolTable):
    """Objects linked into this process; the addresses hold until ``close`` or collection."""

    def __init__(self, engine: _Engine, tracker: Any, addresses: Mapping[str, int]) -> None:
        self._tracker = tracker
        self._engine: _Engine | None = engine
        self._addresses = dict(addresses)

    def __getitem__(self, name: str) -> int:
        if self._tracker is None:
            raise CodegenError(f"cannot look up {name!r}: the library has been unloaded")
        if name not in self._addresses:
            known = ", ".join(sorted(self._addresses)) or "nothing"
            raise CodegenError(f"the library does not define {name!r}; it defines {known}")
        return self._addresses[name]

    def __contains__(self, name: object) -> bool:
        return name in self._addresses

    @property
    def symbols(self) -> dict[str, int]:
        """Every exported name with its address."""
        return dict(self._addresses)

    def close(self) -> None:
        """Unload the code. Calling one of its functions afterwards is undefined."""
        tracker, self._tracker = self._tracker, None
        if tracker is not None:
            tracker.close()
        self._engine = None

    def keep_forever(self) -> LoadedLibrary:
        """Give up unloading: for code that other threads may still run while Python exits."""
        if self._tracker is not None and self._engine is not None:
            self._tracker.detach()
            self._engine.lljit.detach()
        return self

    def __del__(self, is_exiting: Callable[[], bool] = sys.is_finalizing) -> None:
        if getattr(self, "_tracker", None) is None:
            return
        if is_exiting():
            self.keep_forever()  # parts of llvmlite may be gone, and the system frees everything
        else:
            self.close()  # before the engine that holds the library goes


def load_objects(
    objects: Iterable[Artifact], imports: Mapping[str, int] | None = None
) -> LoadedLibrary:
    """Link ``objects`` in memory. Names they lack come from ``imports``, then from this process."""
    engine, name = _engines.take()
    return _link(engine, name, tuple(objects), imports or {})


def load_permanently(
    objects: Iterable[Artifact], imports: Mapping[str, int] | None = None
) -> dict[str, int]:
    """Link ``objects`` for the rest of the process's life and return their addresses."""
    return _link(_Engine(), "permanent", tuple(objects), imports or {}).keep_forever().symbols


def _link(
    engine: _Engine, name: str, objects: tuple[Artifact, ...], imports: Mapping[str, int]
) -> LoadedLibrary:
    defined = [symbol for unit in objects for symbol in unit.defined]
    builder = llvm().JITLibraryBuilder().add_current_process()
    for unit in objects:
        builder.add_object_img(unit.data)
    for symbol, address in _resolve(objects, set(defined), imports).items():
        builder.import_symbol(symbol, address)
    for symbol in defined:
        builder.export_symbol(symbol)
    try:
        tracker = builder.link(engine.lljit, name)
    except RuntimeError as error:
        raise CodegenError(f"LLVM cannot load the compiled code: {error}") from error
    return LoadedLibrary(engine, tracker, {symbol: tracker[symbol] for symbol in defined})


def _resolve(
    objects: tuple[Artifact, ...], defined: set[str], imports: Mapping[str, int]
) -> dict[str, int]:
    """Addresses of all undefined names; LLVM itself would not say which one is missing."""
    wanted = {symbol for unit in objects for symbol in unit.undefined} - defined
    resolved: dict[str, int] = {}
    missing: list[str] = []
    for symbol in sorted(wanted):
        address = imports.get(symbol) or llvm().address_of_symbol(symbol)
        if address:
            resolved[symbol] = address
        else:
            missing.append(symbol)
    if missing:
        raise CodegenError(
            f"the compiled code calls {', '.join(missing)}, which neither the runtime nor this"
            " process defines; pass its address in `imports` or load the library that has it"
        )
    return resolved
