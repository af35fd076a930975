"""Backends by target kind: ours, registered ones, and those of installed packages."""

from __future__ import annotations

import importlib

from tilewright.codegen.base import Backend
from tilewright.errors import TargetError
from tilewright.support.plugins import Family

BACKENDS: Family[Backend] = Family("backend", "tilewright.backend")
DEFAULT_KIND = "llvm"

# Loaded when first asked for: the code generators are large.
_OURS = {
    "c": "tilewright.codegen.c.backend",
    "cuda": "tilewright.codegen.cuda.backend",
    "llvm": "tilewright.codegen.llvm.backend",
    "vta": "tilewright.codegen.vta.backend",
}


def register_backend(backend: type[Backend]) -> type[Backend]:
    """Make a backend known under its kind, as a decorator."""
    return BACKENDS.register(backend.kind)(backend)


def has_backend(kind: str) -> bool:
    """True if programs can be compiled for targets of that kind."""
    return kind in _OURS or kind in BACKENDS


def find_backend(kind: str) -> Backend:
    """The backend for targets of a kind."""
    if kind in _OURS:
        importlib.import_module(_OURS[kind])
    elif kind not in BACKENDS:
        known = ", ".join(map(repr, sorted({*_OURS, *BACKENDS})))
        raise TargetError(
            f"no backend compiles for target kind {kind!r}, there are {known}; "
            "register_backend() adds others"
        )
    return BACKENDS.create(kind)
