"""Boxes of elements that accesses touch while more and more loops around them run.

Ends and extents may be numbers or arrays of numbers (one for each of many programs).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.arith.affine import STILL, Bound, only_variable
from tilewright.arith.ranges import RangeEvaluator
from tilewright.ir import Var
from tilewright.nest.index_reader import Indices

Steps = dict[Var, list[tuple[int, Any]]]  # for each variable: dimensions, and by how much they grow


def steps_of(indices: Indices, running: RangeEvaluator) -> tuple[Steps, list[int]]:
    """By how much the box of an access grows in each dimension once a variable runs.

    `running` says where terms lie while all loops run. Then the dimensions where it matters which
    of several loops run, which are left out.
    """
    steps: Steps = {}
    others: list[int] = []
    ranges: Mapping[Any, Bound] = running.ranges
    for axis, index in enumerate(indices):
        is_plain = index.is_plain
        if not is_plain and None in map(only_variable, index.terms):
            others.append(axis)
            continue
        for term, scale in index.terms.items():
            var: Any = term if is_plain else only_variable(term)
            low, high = ranges.get(var, STILL) if term is var else running.of(term)
            step = (axis, abs(scale) * (high - low))
            if var in steps:
                steps[var].append(step)
            else:
                steps[var] = [step]
    return steps, others
