"""Pattern tables: which nodes an external backend takes, by its name.

@register_pattern_table("acme")
def acme_patterns():
    return [("acme.conv2d_relu", is_op("nn.relu")(is_op("nn.conv2d")), has_fast_kernel)]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tilewright.byoc.dataflow_pattern import DFPattern, PatternMatch
from tilewright.errors import GraphError
from tilewright.support.suggestions import did_you_mean

Check = Callable[[PatternMatch], bool]
MakeTable = Callable[[], Sequence[Any]]


@dataclass(frozen=True)
class PatternEntry:
    """A pattern under a name; `check` has the last word on what it matches."""

    name: str
    pattern: DFPattern
    check: Check = lambda match: True


_TABLES: dict[str, MakeTable] = {}


def register_pattern_table(compiler: str) -> Callable[[MakeTable], MakeTable]:
    """Decorator: the patterns of a backend, as tuples (name, pattern) or (name, pattern, check).

    Those that stand first are tried first.
    """

    def add(table: MakeTable) -> MakeTable:
        if compiler in _TABLES:
            raise GraphError(f"the pattern table of {compiler!r} is registered already")
        _TABLES[compiler] = table
        return table

    return add


def get_pattern_table(compiler: str) -> list[PatternEntry]:
    """The patterns of a backend."""
    if compiler not in _TABLES:
        raise GraphError(
            f"there is no pattern table for {compiler!r}{did_you_mean(compiler, _TABLES)}"
        )
    entries = []
    for given in _TABLES[compiler]():
        if isinstance(given, PatternEntry):
            entries.append(given)
        elif len(given) in (2, 3) and isinstance(given[1], DFPattern):
            entries.append(PatternEntry(*given))
        else:
            raise GraphError(
                f"the pattern table of {compiler!r} has {given!r}; "
                "expected (name, pattern) or (name, pattern, check)"
            )
    return entries
