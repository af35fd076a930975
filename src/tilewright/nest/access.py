"""Accesses to buffers: what they depend on, strides, and the boxes of elements that they touch.

Ends and extents may be numbers or arrays of numbers (one for each of many programs).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tilewright import ir
from tilewright.arith.affine import (
    STILL,
    Affine,
    Bound,
    Terms,
    affine_of,
    only_variable,
    undivided,
    used_vars,
)
from tilewright.arith.ranges import RangeEvaluator, Ranges, is_any, larger, smaller
from tilewright.ir import FloorDiv, FloorMod, IntImm, PrimExpr, Var
from tilewright.nest.index_reader import Indices
from tilewright.nest.limits import DividedIndex, IndexLimits
from tilewright.nest.loops import Loop
from tilewright.nest.quotients import Joined, step_of

_Scaled = list[tuple[PrimExpr, int]]  # terms and their factors
_Moves = list[tuple[Var, Any]]  # variables, and how far they move something
_Limited = tuple[_Moves, int, _Moves | None]
Steps = dict[Var, list[tuple[int, Any]]]  # for each variable: dimensions, and by how much they grow
Caps = list[tuple[int, int]]  # the largest value of a part, and the dimension that it is a part of
_UNREAD: _Moves = []


class Reaches:
    """By how much variables move indices, worked out once for each index.

    `running` says where terms lie while all loops run.
    """

    def __init__(self, running: RangeEvaluator) -> None:
        self._running = running
        self._known: dict[Affine, _Moves | None] = {}
        self._limited: dict[tuple[Affine, IndexLimits], _Limited] = {}

    def steps(
        self, indices: Indices, limits: IndexLimits | None = None
    ) -> tuple[Steps, list[int], Caps]:
        """By how much the box of an access grows in each dimension once a variable runs.

        Then the dimensions where it matters which of several loops run, which are left out, and
        caps on what limits hold back: that grows at places behind all dimensions.
        """
        steps: dict[Any, list[tuple[int, Any]]] = {}
        others: list[int] = []
        caps: Caps = []
        ranges: Mapping[Any, Bound] = self._running.ranges
        for axis, index in enumerate(indices):
            if limits is None and index.is_plain:
                for term, scale in index.terms.items():
                    low, high = ranges.get(term, STILL)
                    step = axis, abs(scale) * (high - low)
                    if term in steps:
                        steps[term].append(step)
                    else:
                        steps[term] = [step]
                continue
            if limits is None:
                moves = self._of(index)
            else:
                held, last, moves = self._of_limited(index, limits)
                if held:
                    _add_steps(steps, len(indices) + len(caps), held)
                    caps.append((last, axis))
            if moves is None:
                others.append(axis)
            else:
                _add_steps(steps, axis, moves)
        return steps, others, caps

    def _of(self, index: Affine) -> _Moves | None:
        moves = self._known.get(index, _UNREAD)
        if moves is _UNREAD:
            moves = self._known[index] = _moves(index, self._running)
        return moves

    def _of_limited(self, index: Affine, limits: IndexLimits) -> _Limited:
        """The same for the part of an index that a limit holds back, its end, and the rest."""
        known = self._limited.get((index, limits))
        if known is None:
            if limits.concern(index):
                running = LimitedRanges(self._running.ranges, limits)
                known = _limited_moves(limits.divide(index), running)
            else:
                known = [], 0, self._of(index)
            self._limited[index, limits] = known
        return known


def _limited_moves(parts: Affine | DividedIndex, running: LimitedRanges) -> _Limited:
    if isinstance(parts, Affine):
        return [], 0, _moves(parts, running)
    if isinstance(parts.held, Affine) and isinstance(parts.rest, Affine):
        held, rest = _moves(parts.held, running), _moves(parts.rest, running)
        if held is not None and rest is not None and _counts_from_zero(parts.held):
            return held, parts.last, rest
    return [], 0, None


def _moves(index: Affine, running: RangeEvaluator) -> _Moves | None:
    """Variables with reaches; None where it matters which of several loops run."""
    found: _Moves = []
    if index.is_plain:
        ranges: Mapping[Any, Bound] = running.ranges
        for term, scale in index.terms.items():
            low, high = ranges.get(term, STILL)
            found.append((term, abs(scale) * (high - low)))  # type: ignore[arg-type] # it is plain
        return found
    for term, scale in index.terms.items():
        var = only_variable(term)
        if var is None:
            return None
        low, high = running.of(term)
        found.append((var, abs(scale) * (high - low)))
    return found


def _add_steps(steps: Steps, place: int, moves: Iterable[tuple[Var, Any]]) -> None:
    for var, reach in moves:
        if var in steps:
            steps[var].append((place, reach))
        else:
            steps[var] = [(place, reach)]


def _counts_from_zero(part: Affine) -> bool:
    """True for sums of variables, divided or not."""
    return part.is_plain or all([isinstance(undivided(term), Var) for term in part.terms])


LINE = 64  # bytes of a cache line
_SUMS = frozenset({ir.Add, ir.Sub, ir.Mul})
_INT = ir.DType("int32")


class MovingRanges(RangeEvaluator):
    """Ranges of indices and of what they divide; loops that do not run stand at zero."""

    __slots__ = ()

    def of_index(self, index: Affine) -> Bound:
        """The smallest and the largest value of a sum."""
        return index.ends(self.ranges) if index.is_plain else index.bounds(self.of)

    def of_other(self, expr: ir.PrimExpr) -> Bound:
        """It is only known whether it moves, not where."""
        bounds = [self.of(child) for child in ir.children(expr) if isinstance(child, ir.PrimExpr)]
        return 0, int(any(_differ(low, high) for low, high in bounds))


class LimitedRanges(MovingRanges):
    """The same where limits hold sums of variables back."""

    __slots__ = ("_limits",)

    def __init__(self, ranges: Ranges, limits: IndexLimits) -> None:
        super().__init__(ranges)
        self._limits = limits

    def of(self, expr: ir.PrimExpr) -> Bound:
        if type(expr) in _SUMS:
            return self.of_index(self._limits.form_of(expr))
        return super().of(expr)

    def of_var(self, var: ir.Var) -> Bound:
        low, high = self.ranges.get(var, STILL)
        return low, smaller(high, self._limits.last[var]) if var in self._limits.last else high

    def of_index(self, index: Affine) -> Bound:
        return self._of_parts(self._limits.divide(index))

    def _of_parts(self, parts: Affine | DividedIndex) -> Bound:
        if isinstance(parts, Affine):
            return super().of_index(parts)
        low, high = self._of_parts(parts.held)
        first, last = self._of_parts(parts.rest)
        return first + low, last + smaller(high, parts.last)


def moving_ranges(ranges: Ranges, limits: IndexLimits | None) -> MovingRanges:
    """Ranges while some loops run, with or without limits."""
    return MovingRanges(ranges) if limits is None else LimitedRanges(ranges, limits)


def ranges_of(extents: Mapping[ir.Var, Any]) -> dict[ir.Var, Bound]:
    """The values of variables that count from zero."""
    return {var: (0, extent - 1) for var, extent in extents.items()}


@dataclass(slots=True, eq=False)
class BufferAccess:
    """A buffer and where it is read or written, by one affine form for each axis."""

    buffer: ir.Buffer
    indices: Indices

    @staticmethod
    def at(buffer: ir.Buffer, indices: Iterable[PrimExpr]) -> BufferAccess:
        """An access at indices as they stand."""
        return BufferAccess(buffer, tuple([affine_of(index) for index in indices]))

    @staticmethod
    def of(region: ir.BufferRegion) -> BufferAccess:
        """An access to the first element of a region."""
        return BufferAccess.at(region.buffer, [axis.min for axis in region.region])

    @property
    def variables(self) -> set[PrimExpr]:
        """The variables that its indices use."""
        return set().union(*[index.variables for index in self.indices])

    def uses(self, var: Var) -> bool:
        """True when a variable occurs in an index."""
        return any([var in index.variables for index in self.indices])

    def axes_using(self, var: Var) -> list[int]:
        """The axes in whose indices a variable occurs."""
        return [axis for axis, index in enumerate(self.indices) if var in index.variables]

    def axis_of(self, var: Var) -> int | None:
        """The first axis that a variable indexes by itself."""
        found = (axis for axis, index in enumerate(self.indices) if index.variable is var)
        return next(found, None)

    def ends_in(self, variables: Sequence[PrimExpr]) -> bool:
        """True when some variables, in this order, index the last axes by themselves."""
        last = self.indices[len(self.indices) - len(variables) :]
        return len(last) == len(variables) and all(
            [index.variable is var for index, var in zip(last, variables, strict=True)]
        )

    def lies_along(self, var: Var) -> bool:
        """True when neighbours along a variable are neighbours in memory."""
        return self.ends_in([var]) and not any([var in i.variables for i in self.indices[:-1]])

    def is_at(self, other: BufferAccess) -> bool:
        """True when an access to another buffer has the same indices."""
        mine, theirs = ([index.expr(_INT) for index in each.indices] for each in (self, other))
        return len(mine) == len(theirs) and all(map(ir.expr_deep_equal, mine, theirs))

    def vectors(self, extents: Mapping[Var, int], lanes: int) -> int:
        """How many vectors hold the elements that are touched while some loops run."""
        moving = MovingRanges(ranges_of(extents))
        elements: int = math.prod([_span(index, moving) for index in self.indices])
        return -(-elements // lanes)

    @property
    def last(self) -> Var | None:
        """The variable that indexes the last axis by itself."""
        return self.indices[-1].variable if self.indices else None

    def runs_along(self, var: Var) -> bool:
        """True when the last index is a variable, maybe with something added to it.

        Nothing may be subtracted: what begins before the first element, as windows do where padding
        is left out, would need a mask at each step.
        """
        last = self.indices[-1] if self.indices else None
        if last is None or last.terms.get(var) != 1 or min([last.base, *last.terms.values()]) < 0:
            return False
        return not any([var in used_vars(term) for term in irregular(last)])


class MemoryAccess(BufferAccess):
    """An access from within loops, over their variables."""

    __slots__ = (
        "_caps", "_limits", "_others", "_quotients", "_ranges", "_steps", "_strides",
        "element_bytes", "is_store", "unit_bytes",
    )  # fmt: skip

    def __init__(
        self,
        buffer: ir.Buffer,
        indices: Indices,
        is_store: bool,
        ranges: Ranges,
        unit_bytes: int = 0,
        reaches: Reaches | None = None,
        limits: IndexLimits | None = None,
    ) -> None:
        super().__init__(buffer, indices)
        self.is_store = is_store
        self.unit_bytes = unit_bytes  # that a tensor instruction touches at once; 0: none does
        self.element_bytes = max(1, buffer.dtype.bits // 8)
        self._ranges = ranges  # of all loops
        self._limits = limits
        self._strides: dict[PrimExpr, int] | None = None  # of variables, once asked for
        self._quotients: _Quotients | None = None  # the same of terms that divide
        # Accesses of one function share what is known of their indices.
        known = reaches or Reaches(MovingRanges(ranges))
        self._steps, self._others, self._caps = known.steps(indices, limits)

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
        if self._strides is None:
            self._find_strides()
        stride = self._strides.get(loop.var, 0)  # type: ignore[union-attr] # found above
        if self._quotients is None or loop.var not in self._quotients.variables:
            return stride
        stepped = self._quotients.stride(loop)
        return None if stepped is None else stride + stepped

    def _find_strides(self) -> None:
        """The strides of variables, and the terms that divide, which need a closer look."""
        strides: dict[PrimExpr, int] = {}
        self._strides = strides
        parts: _Scaled = []
        distance = 1
        for index, extent in zip(reversed(self.indices), reversed(self.buffer.shape), strict=True):
            for term, scale in index.terms.items():
                if index.is_plain or isinstance(term, Var):
                    strides[term] = strides.get(term, 0) + scale * distance
                else:
                    parts.append((term, scale * distance))
            if type(extent) is IntImm:
                distance *= extent.value
        if parts:
            self._quotients = _Quotients(parts, self._ranges)

    def footprint(self, extents: Mapping[ir.Var, Any], line: int = LINE) -> Any:
        """Bytes, in whole cache lines, that are touched while some loops run."""
        moving = moving_ranges(ranges_of(extents), self._limits)
        return self._box_bytes([_span(index, moving) for index in self.indices], line)

    def touched(self, loops: Sequence[Loop], line: int = LINE) -> Any:
        """The same while all of some loops run."""
        running = {loop.var: self._ranges.get(loop.var, STILL) for loop in loops}
        spans = self._points()
        for var in running:
            for axis, reach in self._steps.get(var, ()):
                spans[axis] = spans[axis] + reach
        if self._others:
            moving = moving_ranges(running, self._limits)
            for axis in self._others:
                spans[axis] = _span(self.indices[axis], moving)
        return self._bytes(spans, line)

    def footprints(self, loops: Sequence[Loop], line: int = LINE) -> list[Any]:
        """The same below each of some nested loops, and (last) while none of them runs."""
        steps, others = self._steps, self._others
        running: dict[ir.Var, Bound] = {}
        moving = moving_ranges(running, self._limits)
        spans = self._points()
        used = [(axis, index := self.indices[axis], index.variables) for axis in others]
        for axis, index, _ in used:
            spans[axis] = _span(index, moving)
        found = [self._bytes(spans, line)]
        for loop in reversed(loops):
            var = loop.var
            moved = var in steps
            if moved:
                for axis, reach in steps[var]:
                    spans[axis] = spans[axis] + reach
            if others:
                running[var] = self._ranges.get(var, STILL)
            for axis, index, variables in used:
                if var in variables:
                    spans[axis] = _span(index, moving)
                    moved = True
            found.append(self._bytes(spans, line) if moved else found[-1])
        return found[::-1]

    def _points(self) -> list[Any]:
        """One element in each dimension, and nothing at the places of what is held back."""
        return [1] * len(self.indices) + [0] * len(self._caps)

    def _capped(self, spans: list[Any]) -> list[Any]:
        """A box whose parts at the end, which are held back, are added to its dimensions."""
        count = len(self.indices)
        box = spans[:count]
        for held, (last, axis) in zip(spans[count:], self._caps, strict=True):
            box[axis] = box[axis] + smaller(held, last)
        return box

    def _bytes(self, spans: list[Any], line: int) -> Any:
        return self._box_bytes(self._capped(spans) if self._caps else spans, line)

    def _box_bytes(self, spans: list[Any], line: int) -> Any:
        if not spans:
            return line
        width = spans[-1] * self.element_bytes
        if self.unit_bytes:
            width = larger(width, self.unit_bytes)
        return math.prod(spans[:-1]) * (-(-width // line) * line)


class _Quotients:
    """The terms of an access that divide, each times its distance in memory."""

    __slots__ = ("_parts", "_running", "_used", "_whole", "variables")

    def __init__(self, parts: _Scaled, ranges: Ranges) -> None:
        self._running = MovingRanges(ranges)
        self._parts = parts
        self._used = [used_vars(term) for term, _ in parts]
        self.variables: set[Var] = set().union(*self._used)
        self._whole: list[Joined | None] = []  # the number whose digits they are, once asked for

    def stride(self, loop: Loop) -> int | None:
        """Elements between two iterations; None: not in a regular way."""
        var, running = loop.var, self._running
        moved = [
            part
            for part, used in zip(self._parts, self._used, strict=True)
            if var in used and _is_moved(part[0], loop)
        ]
        if not moved:
            return 0
        if not self._whole:
            self._whole.append(Joined.of(self._parts, running))
        whole = self._whole[0]
        if whole is not None and (stride := whole.stride(var)) is not None:
            return stride
        # Other loops may have digits of their own.
        own = Joined.of(moved, running) if len(moved) < len(self._parts) else None
        if own is not None and (stride := own.stride(var)) is not None:
            return stride
        steps = [(step_of(term, var, running), factor) for term, factor in moved]
        known = [step * factor for step, factor in steps if step is not None]
        return sum(known) if len(known) == len(steps) else None


def irregular(index: Affine) -> list[ir.PrimExpr]:
    """The terms of an index that are not variables."""
    return [] if index.is_plain else [term for term in index.terms if not isinstance(term, ir.Var)]


def divisors(index: Affine, var: Var) -> list[int | None]:
    """All that an index divides a variable by; None for what is not a number."""
    nodes = [node for term in irregular(index) for node in ir.nodes_of(term, FloorDiv)]
    found = [node.b for node in nodes if node.a is var]
    return [each.value if isinstance(each, IntImm) else None for each in found]


def _span(index: Affine, moving: MovingRanges) -> Any:
    """How many values an index takes between its ends while the loops in `moving` run."""
    low, high = moving.of_index(index)
    return high - low + 1


def _is_moved(part: ir.PrimExpr, loop: Loop) -> bool:
    low, high = MovingRanges({loop.var: (0, loop.extent - 1)}).of(part)
    return _differ(low, high)


def _differ(low: Any, high: Any) -> bool:
    """True when two numbers, or some of two arrays, are not the same."""
    return is_any(low != high)


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
