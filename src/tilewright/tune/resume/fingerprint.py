"""The fingerprint of a search: its space and its strategy, besides program, machine and seed."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from tilewright.search.base import SearchStrategy
from tilewright.space.base import SpaceGenerator
from tilewright.tune.abilities import settings_of
from tilewright.tune.context import TuneContext
from tilewright.version import __version__

_LISTS = ("sch_rules", "postprocs", "mutator_probs")


def fingerprint_of(context: TuneContext) -> str:
    """Equal for searches of which one may go on where the other stopped."""
    space, strategy = context.space_generator, context.search_strategy
    parts = [
        __version__,
        "" if space is None else _space(space),
        "" if strategy is None else _strategy(strategy),
    ]
    return hashlib.blake2b("\n".join(parts).encode(), digest_size=12).hexdigest()


def _space(space: SpaceGenerator) -> str:
    """The class of a generator, its members, its functions, and the generators it is made of."""
    attributes = {name: value for name, value in vars(space).items() if not name.startswith("_")}
    lists = [[_member(each) for each in attributes.get(name, ())] for name in _LISTS]
    parts = [
        _space(part)
        for value in attributes.values()
        for part in (value if isinstance(value, list | tuple) else [value])
        if isinstance(part, SpaceGenerator)
    ]
    functions = [
        _name(value)
        for value in attributes.values()
        if callable(value) and hasattr(value, "__qualname__")
    ]
    return f"{_name(type(space))}{lists}{parts}{functions}"


def _strategy(strategy: SearchStrategy) -> str:
    settings = settings_of(strategy)
    chosen = _plain(vars(strategy)) if settings is None else settings
    return f"{_name(type(strategy))}{sorted(chosen.items())}"


def _member(member: object) -> str:
    attributes = vars(member) if hasattr(member, "__dict__") else {}
    return f"{_name(type(member))}{sorted(_plain(attributes).items())}"


def _plain(attributes: Mapping[str, object]) -> dict[str, object]:
    """Numbers and texts; what begins with an underscore is state, and so are random numbers."""
    return {
        name: value
        for name, value in attributes.items()
        if isinstance(value, int | float | str)
        if not name.startswith("_") and name != "rand_state"
    }


def _name(value: Any) -> str:
    return f"{value.__module__}.{value.__qualname__}"
