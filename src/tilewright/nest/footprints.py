"""Boxes of elements that accesses touch while more and more loops around them run.

Ends and extents may be numbers or arrays of numbers (one for each of many programs).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.arith.affine import STILL, Affine, Bound, only_variable
from tilewright.arith.ranges import RangeEvaluator
from tilewright.ir import Var
from tilewright.nest.index_reader import Indices

Steps = dict[Var, list[tuple[int, Any]]]  # for each variable: dimensions, and by how much they grow


class Reaches:
    """By how much variables move indices, worked out once for each index.

    `running` says where terms lie while all loops run.
    """

    def __init__(self, running: RangeEvaluator) -> None:
        self._running = running
        self._known: dict[Affine, list[tuple[Var, Any]] | None] = {}

    def _of(self, index: Affine) -> list[tuple[Var, Any]] | None:
        """Variables with reaches; None where it matters which of several loops run."""
        found: list[tuple[Var, Any]] = []
        ranges: Mapping[Any, Bound] = self._running.ranges
        for term, scale in index.terms.items():
            var: Any = term if index.is_plain else only_variable(term)
            if var is None:
                return None
            low, high = ranges.get(var, STILL) if term is var else self._running.of(term)
            found.append((var, abs(scale) * (high - low)))
        return found

    def steps(self, indices: Indices) -> tuple[Steps, list[int]]:
        """By how much the box of an access grows in each dimension once a variable runs.

        Then the dimensions where it matters which of several loops run, which are left out.
        """
        steps: Steps = {}
        others: list[int] = []
        known = self._known
        for axis, index in enumerate(indices):
            if index not in known:
                known[index] = self._of(index)
            reaches = known[index]
            if reaches is None:
                others.append(axis)
                continue
            for var, reach in reaches:
                if var in steps:
                    steps[var].append((axis, reach))
                else:
                    steps[var] = [(axis, reach)]
        return steps, others
