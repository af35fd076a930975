"""Functions of users for other machines, which import them by name."""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.errors import TuneError
from tilewright.measure.hooks import Hook, importable_name


def names_of(owner: str, hooks: Mapping[str, Hook | None]) -> dict[str, str]:
    """The names of those that are given; one that cannot be imported is an error."""
    names = {}
    for option, hook in hooks.items():
        if hook is None:
            continue
        name = importable_name(hook)
        if name is None:
            raise TuneError(
                f"{owner}: {option}={getattr(hook, '__qualname__', hook)!r} cannot be imported by "
                "name on another machine; put it into a module that is installed there"
            )
        names[option] = name
    return names
