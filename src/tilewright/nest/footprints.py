"""Boxes of elements that accesses touch while more and more loops around them run.

Ends and extents may be numbers or arrays of numbers (one for each of many programs).
"""

from __future__ import annotations

from typing import Any

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
    for axis, index in enumerate(indices):
        found = index.steps(running.ranges, running.of)
        if found is None:
            others.append(axis)
            continue
        for var, reach in found:
            if var in steps:
                steps[var].append((axis, reach))
            else:
                steps[var] = [(axis, reach)]
    return steps, others
