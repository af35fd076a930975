"""Tells CPUs with tile registers (AMX), and asks the operating system for leave to use them.

LLVM lists the extensions when the CPU has them and the system saves tiles between threads. That is
not enough: Linux hands tiles out on request only, and a sandbox may not know the request.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterable

_PREFIX = "amx-"
_BASE = "amx-tile"
_COMMON = frozenset({_BASE, "amx-int8", "amx-bf16"})
# Tiles are nothing that plain IR maps to, so the extensions of a CPU by name cannot be probed.
EXTENSIONS_OF_CPU = {
    "sapphirerapids": _COMMON,
    "emeraldrapids": _COMMON,
    "graniterapids": _COMMON | {"amx-fp16"},
    "graniterapids-d": _COMMON | {"amx-fp16"},
}

_SYS_ARCH_PRCTL = 158
_ARCH_GET_XCOMP_SUPP = 0x1021
_TILE_DATA_BIT = 1 << 18


def usable(features: Iterable[str]) -> frozenset[str]:
    """Features of this machine, without tiles if the system keeps them from us."""
    given = frozenset(features)
    if _BASE not in given or system_allows_tiles():
        return given
    return frozenset(name for name in given if not name.startswith(_PREFIX))


def consistent(features: Iterable[str], removed: Iterable[str]) -> frozenset[str]:
    """Features in which every extension of tiles comes with the tiles themselves.

    One that was asked for brings them along, unless they were removed: then none is left.
    """
    given = frozenset(features)
    extensions = frozenset(name for name in given if name.startswith(_PREFIX))
    if _BASE in removed:
        return given - extensions
    return given | {_BASE} if extensions else given


def system_allows_tiles() -> bool:
    """True if the system gives tiles to processes that ask for them."""
    if sys.platform != "linux" or ctypes.sizeof(ctypes.c_void_p) != ctypes.sizeof(ctypes.c_uint64):
        return False
    supported = ctypes.c_uint64(0)
    syscall = ctypes.CDLL(None).syscall
    syscall.restype = ctypes.c_long
    arguments = (_SYS_ARCH_PRCTL, _ARCH_GET_XCOMP_SUPP, ctypes.addressof(supported))
    status = syscall(*map(ctypes.c_long, arguments))
    return bool(status == 0 and supported.value & _TILE_DATA_BIT)
