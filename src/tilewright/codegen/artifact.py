"""Compiled code: artifacts that can be kept, sent and loaded elsewhere, and loaded libraries."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol, TypeAlias, runtime_checkable

# A loaded function: takes its arguments as 8-byte slots, returns 0 or what it failed with.
Kernel: TypeAlias = Callable[[bytes], int]


@dataclass(frozen=True)
class Artifact:
    """Compiled code, with the names that it offers and wants.

    `kind` names the backend; `meta` is what that has to know of the code besides, such as the
    machine that it was compiled for.
    """

    kind: str
    data: bytes = field(repr=False)
    defined: tuple[str, ...] = ()
    undefined: tuple[str, ...] = ()
    meta: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def digest(self) -> str:
        """A name for exactly this code."""
        head = [self.kind, self.defined, self.undefined, sorted(self.meta.items())]
        return hashlib.sha256(repr(head).encode() + self.data).hexdigest()


@runtime_checkable
class SimulatedKernel(Protocol):
    """A function of a simulated machine, which says how long a run takes there."""

    @property
    def nanoseconds(self) -> int: ...

    def __call__(self, slots: bytes, /) -> int: ...


class Library(Protocol):
    """Loaded code; it stays loaded as long as this object lives."""

    def kernel(self, name: str, /) -> Kernel:
        """A function by its name in the module."""
        ...
