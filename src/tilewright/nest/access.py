"""Accesses to buffers: strides, what they depend on, and the boxes of elements that they touch.

Ends and extents may be numbers or arrays of numbers (one for each of many programs).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tilewright import ir
from tilewright.arith.affine import STILL, Affine, Bound, Terms, affine_of, only_variable
from tilewright.arith.ranges import RangeEvaluator, Ranges, larger
from tilewright.ir import FloorDiv, FloorMod, IntImm, PrimExpr, Var
from tilewright.nest.index_reader import Indices
from tilewright.nest.loops import Loop

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


LINE = 64  # bytes of a cache line


class MovingRanges(RangeEvaluator):
    """Ranges of what indices divide, while some loops run and the others stand at zero."""

    def __init__(self, ranges: Ranges) -> None:
        super().__init__(ranges, self._of_other)

    def _of_other(self, expr: ir.PrimExpr) -> Bound:
        """It is only known whether it moves, not where."""
        bounds = [self.of(child) for child in ir.children(expr) if isinstance(child, ir.PrimExpr)]
        return 0, int(any(_differ(low, high) for low, high in bounds))


def ranges_of(extents: Mapping[ir.Var, Any]) -> dict[ir.Var, Bound]:
    """The values of variables that count from zero."""
    return {var: (0, extent - 1) for var, extent in extents.items()}


class MemoryAccess:
    """A buffer and where it is read or written."""

    __slots__ = (
        "_others", "_ranges", "_steps", "buffer", "element_bytes", "indices", "is_store",
        "unit_bytes",
    )  # fmt: skip

    def __init__(
        self,
        buffer: ir.Buffer,
        indices: Indices,
        is_store: bool,
        ranges: Ranges,
        unit_bytes: int = 0,
        reaches: Reaches | None = None,
    ) -> None:
        self.buffer = buffer
        self.indices = indices
        self.is_store = is_store
        self.unit_bytes = unit_bytes  # that a tensor instruction touches at once; 0: none does
        self.element_bytes = max(1, buffer.dtype.bits // 8)
        self._ranges = ranges  # of all loops
        # Accesses of one function share what is known of their indices.
        self._steps, self._others = (reaches or Reaches(MovingRanges(ranges))).steps(indices)

    @property
    def is_plain(self) -> bool:
        """True when no index divides."""
        return all(index.is_plain for index in self.indices)

    def depends_on(self, loop: Loop) -> bool:
        """True when another element is touched in each iteration of a loop."""
        for _, reach in self._steps.get(loop.var, ()):
            if reach if type(reach) is int else _differ(reach, 0):
                return True
        for axis in self._others:
            index = self.indices[axis]
            if loop.var in index.terms or (
                loop.var in index.variables
                and any([_is_moved(term, loop) for term in irregular(index)])
            ):
                return True
        return False

    def stride(self, loop: Loop) -> int | None:
        """Elements between two iterations; None: not in a regular way."""
        total, scale = 0, 1
        others: list[tuple[ir.PrimExpr, int]] = []
        for index, extent in zip(reversed(self.indices), reversed(self.buffer.shape), strict=True):
            total += index.terms.get(loop.var, 0) * scale
            if not index.is_plain:
                others += [(term, index.terms[term] * scale) for term in irregular(index)]
            scale *= extent.value if type(extent) is ir.IntImm else 1
        if not any(_is_moved(part, loop) for part, _ in others):
            return total
        joined = _stride_of_digits(others, loop)
        return None if joined is None else total + joined

    def footprint(self, extents: Mapping[ir.Var, Any], line: int = LINE) -> Any:
        """Bytes, in whole cache lines, that are touched while some loops run."""
        moving = MovingRanges(ranges_of(extents))
        return self._bytes([_span(index, moving) for index in self.indices], line)

    def footprints(self, loops: Sequence[Loop], line: int = LINE) -> list[Any]:
        """The same below each of some nested loops, and (last) while none of them runs."""
        steps, others = self._steps, self._others
        running: dict[ir.Var, Bound] = {}
        moving = MovingRanges(running)
        spans = [1] * len(self.indices)
        for axis in others:
            spans[axis] = _span(self.indices[axis], moving)
        found = [self._bytes(spans, line)]
        for loop in reversed(loops):
            var = loop.var
            moved = var in steps
            if moved:
                for axis, reach in steps[var]:
                    spans[axis] = spans[axis] + reach
            if others:
                running[var] = self._ranges.get(var, STILL)
            for axis in others:
                if var in self.indices[axis].variables:
                    spans[axis] = _span(self.indices[axis], moving)
                    moved = True
            found.append(self._bytes(spans, line) if moved else found[-1])
        return found[::-1]

    def _bytes(self, spans: Sequence[Any], line: int) -> Any:
        if not spans:
            return line
        width = spans[-1] * self.element_bytes
        if self.unit_bytes:
            width = larger(width, self.unit_bytes)
        return math.prod(spans[:-1]) * (-(-width // line) * line)


def irregular(index: Affine) -> list[ir.PrimExpr]:
    """The terms of an index that are not variables."""
    return [] if index.is_plain else [term for term in index.terms if not isinstance(term, ir.Var)]


def _span(index: Affine, moving: MovingRanges) -> Any:
    """How many values an index takes between its ends while the loops in `moving` run."""
    low, high = index.bounds(moving.of)
    return high - low + 1


def _is_moved(part: ir.PrimExpr, loop: Loop) -> bool:
    low, high = MovingRanges({loop.var: (0, loop.extent - 1)}).of(part)
    return _differ(low, high)


def _differ(low: Any, high: Any) -> bool:
    """True when two numbers, or some of two arrays, are not the same."""
    moved = low != high
    return moved if type(moved) is bool else bool(np.any(moved))


def _stride_of_digits(parts: Sequence[tuple[ir.PrimExpr, int]], loop: Loop) -> int | None:
    """The stride of `x // c * (c * f) + x % c * f`, which is `x * f`; None for all else."""
    match parts:
        case [
            (ir.FloorMod(a=low, b=ir.IntImm(value=divisor)), factor),
            (ir.FloorDiv(a=high, b=ir.IntImm(value=cut)), times),
        ] if (
            divisor == cut
            and times == factor * cut
            and (low is high or ir.expr_deep_equal(low, high))
        ):
            whole = raw_index(low, {})
            if not any(_is_moved(part, loop) for part in irregular(whole)):
                step: int = whole.terms.get(loop.var, 0) * factor
                return step
    return None


def raw_index(expr: PrimExpr, ranges: Ranges) -> Affine:
    """The affine form of an expression over loop variables; its base does not matter."""
    form = affine_of(expr)
    if form.is_plain:
        return form
    terms: Terms = {}
    for term, factor in form.terms.items():
        digits = _digits(term, ranges)
        for part, scale in ({term: 1} if digits is None else digits).items():
            terms[part] = terms.get(part, 0) + factor * scale
    return Affine(terms)


def _digits(term: PrimExpr, ranges: Ranges) -> Terms | None:
    """Quotient or remainder of a sum whose terms divide or together stay below the divisor."""
    if not isinstance(term, (FloorDiv, FloorMod)) or not isinstance(term.b, IntImm):
        return None
    divisor = term.b.value
    if divisor <= 0:
        return None
    whole = raw_index(term.a, ranges).terms
    low = {part: scale for part, scale in whole.items() if scale % divisor}
    if not all(isinstance(part, Var) for part in low):
        return None
    if Affine(low, 0, True).reach(ranges) >= divisor:
        return None
    if isinstance(term, FloorMod):
        return low
    return {part: scale // divisor for part, scale in whole.items() if scale % divisor == 0}
