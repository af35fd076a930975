"""State of an active import hook, for the rest of the package.

Code written for another package runs under a hook that offers its names. It shall also print those
names, and find them in the processes that it starts.
"""

from __future__ import annotations

import sys
from typing import Protocol, runtime_checkable


@runtime_checkable
class PackageHook(Protocol):
    """A finder of `sys.meta_path` that offers us under another name."""

    package: str  # the name, as printed programs import it
    install: str  # "module:function" that activates it in another process


def active_hooks() -> list[PackageHook]:
    """The hooks of this kind that are active, the last one first."""
    return [finder for finder in sys.meta_path if isinstance(finder, PackageHook)]


def printed_package() -> str:
    """The package that printed programs say they import."""
    hooks = active_hooks()
    return hooks[0].package if hooks else "tilewright"
