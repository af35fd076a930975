"""The functions that compiled code takes from this process: our runtime's, and C functions."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from tilewright.errors import ArgumentError, RuntimeFailure
from tilewright.native.abi import CALL_PACKED
from tilewright.runtime import packed_call, threads

_loaded: dict[str, ctypes.CDLL] = {}


def load_library(path: str | Path) -> ctypes.CDLL:
    """Load a shared library whose functions kernels may call by name from now on."""
    try:
        library = ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
    except OSError as error:
        raise RuntimeFailure(f"cannot load the library {path}: {error}") from error
    _loaded[str(path)] = library
    return library


def runtime_symbols() -> dict[str, int]:
    """Addresses of all that the runtime offers to compiled code."""
    return {**threads.symbols(), CALL_PACKED: packed_call.handler_address()}


def imports_of(undefined: Sequence[str], given: Mapping[str, int]) -> dict[str, int]:
    """Addresses of the names that compiled code lacks."""
    if not undefined:
        return {}
    ours = runtime_symbols()
    return {**ours, **resolve([name for name in undefined if name not in ours], given)}


def resolve(wanted: Iterable[str], given: Mapping[str, int]) -> dict[str, int]:
    """Addresses of extern functions: given ones first, then loaded libraries, then the process."""
    found: dict[str, int] = {}
    missing: list[str] = []
    for symbol in wanted:
        address = _checked(symbol, given[symbol]) if symbol in given else _search(symbol)
        if address:
            found[symbol] = address
        else:
            missing.append(symbol)
    if missing:
        names = ", ".join(map(repr, missing))
        raise RuntimeFailure(
            f"the kernel calls the extern function{'s' if len(missing) > 1 else ''} {names}, which "
            "no loaded library defines; load the library that does with "
            "tilewright.runtime.load_library(path), or pass its address: "
            f"build(..., extern_symbols={{{missing[0]!r}: address}})"
        )
    return found


def _checked(symbol: str, address: object) -> int:
    if not isinstance(address, int) or not 0 < address < 1 << 64:
        raise ArgumentError(
            f"extern_symbols[{symbol!r}]: expected the address of a function, got {address!r}"
        )
    return address


def _search(symbol: str) -> int | None:
    for library in (*_loaded.values(), ctypes.CDLL(None)):
        function = getattr(library, symbol, None)
        if function is not None:
            return ctypes.cast(function, ctypes.c_void_p).value
    return None
