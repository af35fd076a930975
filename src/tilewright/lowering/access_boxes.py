"""Boxes of elements that an access reaches: all it may read, or all it is sure to write.

Bounds of an axis are lists: an element lies above every lower and below every upper bound. That
spares proofs about minima and maxima.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import reduce

from tilewright import ir
from tilewright.arith import Analyzer, estimate_region_strict_bound
from tilewright.arith.affine import affine_in, affine_of, is_dense
from tilewright.lowering.access_bounds import IndexBounds
from tilewright.lowering.tried_boxes import holds_everywhere, try_out

_TRIED_VALUES = 64  # of one variable

Axes = Sequence[ir.Range]  # of an access: what it touches at once
Domains = dict[ir.Var, ir.Range]


@dataclass
class BoxSpan:
    """The elements of one axis between all bounds, which are included."""

    lows: list[ir.PrimExpr] = field(default_factory=list)
    highs: list[ir.PrimExpr] = field(default_factory=list)


Box = list[BoxSpan]


def axis_at(index: ir.PrimExpr) -> ir.Range:
    """The axis of an access to a single element."""
    return ir.Range(index, ir.const(1, index.dtype))


class Boxes:
    """Boxes under what an analyzer knows."""

    def __init__(self, analyzer: Analyzer) -> None:
        self._analyzer = analyzer

    # --- what is read --------------------------------------------------------------------------

    def around(
        self, buffer: ir.Buffer, axes: Axes, domains: Domains, tests: Iterable[ir.PrimExpr]
    ) -> Box:
        """A box that holds all that is accessed inside the buffer where `tests` are true."""
        box = []
        bounds = IndexBounds(domains, self._analyzer)
        for axis, extent in zip(axes, buffer.shape, strict=True):
            span = BoxSpan([ir.const(0, extent.dtype)], [extent - 1])
            first, size = bounds.of(axis.min), bounds.of(axis.extent)
            if first is not None and size is not None:
                span.lows.append(first.low)
                span.highs.append(first.high + size.high - 1)
            box.append(span)
        for test in tests:
            self.narrow(box, axes, domains, test)
        return box

    # --- what is written -----------------------------------------------------------------------

    def within(self, axes: Axes, domains: Domains, tests: Sequence[ir.PrimExpr]) -> Box | None:
        """A box of which every element is accessed while the domains are run through.

        Only elements for which all `tests` are true are; None if no such box is known.
        """
        single = [axis.min for axis in axes if ir.is_one(axis.extent)]
        for var, domain in domains.items():
            # A loop that may run never leaves out everything, which must show in what it indexes.
            if not runs(domain) and not any(_ends_with(index, var, domains) for index in single):
                return None
        box = self._whole(axes, domains)
        if box is not None and all([self.narrow(box, axes, domains, test) for test in tests]):
            return box
        exact = self._by_iterator_map(axes, domains, tests) or try_out(axes, domains, tests)
        return None if exact is None else [BoxSpan([low], [high]) for low, high in exact]

    def _by_iterator_map(
        self, axes: Axes, domains: Domains, tests: Sequence[ir.PrimExpr]
    ) -> list[tuple[ir.PrimExpr, ir.PrimExpr]] | None:
        simplify = self._analyzer.simplify
        axes = [ir.Range(simplify(axis.min), axis.extent) for axis in axes]
        tests = [simplify(test) for test in tests]
        if not all(self._shows(test, axes, domains) for test in tests):
            return None
        condition = ir.logical_and(*tests) if tests else ir.TRUE
        exact = estimate_region_strict_bound(axes, domains, condition, self._analyzer)
        if exact is None:
            return None
        return [(interval.min_value, interval.max_value) for interval in exact]

    def _shows(self, test: ir.PrimExpr, axes: Axes, domains: Domains) -> bool:
        """True if the bounds of the axes show when a test leaves no iteration at all."""
        variables = ir.free_vars(test)
        running = [var for var in variables if var in domains]
        return (
            bool(running)
            and all(any(ir.uses_var(axis.min, var.same_as) for axis in axes) for var in running)
            and (len(running) == len(variables) or all(ir.is_one(axis.extent) for axis in axes))
        )

    def _whole(self, axes: Axes, domains: Domains) -> Box | None:
        """The box of an access whose axes run independently of each other and without gaps."""
        box: Box = []
        used: set[ir.Var] = set()
        bounds = IndexBounds(domains, self._analyzer)
        for axis in axes:
            variables = _variables_without_gaps(axis, domains)
            first = bounds.of(axis.min)
            if variables is None or first is None or not used.isdisjoint(variables):
                return None
            used |= variables
            box.append(BoxSpan([first.low], [first.high + axis.extent - 1]))
        return box

    def narrow(self, box: Box, axes: Axes, domains: Domains, test: ir.PrimExpr) -> bool:
        """Keep what satisfies a test if that is a box again; otherwise keep all and be False."""
        if self._analyzer.can_prove(test):
            return True
        gap = gap_of(test)
        if gap is None:
            return False
        for axis, span in zip(axes, box, strict=True):
            if not ir.is_one(axis.extent):
                continue
            # `gap >= 0` bounds an index from below if their difference is fixed, ...
            low = self._analyzer.simplify(axis.min - gap)
            if not ir.uses_var(low, domains.__contains__):
                span.lows.append(low)
                return True
            # ... and from above if their sum is.
            high = self._analyzer.simplify(axis.min + gap)
            if not ir.uses_var(high, domains.__contains__):
                span.highs.append(high)
                return True
        return False

    # --- comparing -----------------------------------------------------------------------------

    def cover(self, outer: Box, inner: Box) -> bool:
        """True if one box surely holds the other."""
        return all(map(self._holds, outer, inner))

    def cover_together(self, parts: Sequence[Box], inner: Box) -> bool:
        """True if some boxes, put next to each other along one axis, surely hold another box."""
        for axis, span in enumerate(inner):
            others = [other for other in range(len(inner)) if other != axis]
            fitting = [
                part[axis]
                for part in parts
                if all(self._holds(part[other], inner[other]) for other in others)
            ]
            if len(fitting) > 1 and self._line_up(fitting, span):
                return True
        return False

    def _line_up(self, parts: Sequence[BoxSpan], inner: BoxSpan) -> bool:
        """True if intervals follow each other without gaps from the start to the end of `inner`."""
        left = [part for part in parts if len(part.highs) == 1]
        starts = inner.lows
        while left:
            following = next((part for part in left if self._above(part.lows, starts)), None)
            if following is None:
                return False
            if self._below(inner.highs, following.highs):
                return True
            left = [part for part in left if part is not following]
            starts = [following.highs[0] + 1]
        return False

    def _holds(self, outer: BoxSpan, inner: BoxSpan) -> bool:
        return self._above(outer.lows, inner.lows) and self._below(inner.highs, outer.highs)

    def _above(self, outer: Sequence[ir.PrimExpr], inner: Sequence[ir.PrimExpr]) -> bool:
        known = [*inner, reduce(ir.maximum, inner)] if len(inner) > 1 else inner
        return all(any(self._proves_order(low, start) for start in known) for low in outer)

    def _below(self, inner: Sequence[ir.PrimExpr], outer: Sequence[ir.PrimExpr]) -> bool:
        known = [*inner, reduce(ir.minimum, inner)] if len(inner) > 1 else inner
        return all(any(self._proves_order(end, high) for end in known) for high in outer)

    def _proves_order(self, small: ir.PrimExpr, large: ir.PrimExpr) -> bool:
        """True if one index surely is at most another."""
        gap = affine_of(large).plus(affine_of(small), -1)
        return self._prove(small <= large) if gap.terms else bool(gap.base >= 0)

    def _prove(self, claim: ir.PrimExpr) -> bool:
        """Minima and maxima of minima and maxima are beyond all rules; loops are often short."""
        if self._analyzer.can_prove(claim):
            return True
        if not any(isinstance(node, ir.Min | ir.Max) for node in ir.walk(claim)):
            return False
        domains: Domains = {}
        for var in ir.free_vars(claim):
            bound = self._analyzer.const_int_bound(var)
            if bound.max_value - bound.min_value >= _TRIED_VALUES:
                return False
            extent = bound.max_value - bound.min_value + 1
            domains[var] = ir.Range(
                ir.const(bound.min_value, var.dtype), ir.const(extent, var.dtype)
            )
        return holds_everywhere(claim, domains)


def gap_of(test: ir.PrimExpr) -> ir.PrimExpr | None:
    """The number that is not negative exactly where a comparison of integers is true."""
    match test:
        case ir.LT(a=a, b=b) | ir.GT(a=b, b=a) if a.dtype.is_int:
            return b - a - 1
        case ir.LE(a=a, b=b) | ir.GE(a=b, b=a) if a.dtype.is_int:
            return b - a
    return None


def runs(domain: ir.Range) -> bool:
    """True if a loop has at least one iteration."""
    return isinstance(domain.extent, ir.IntImm) and domain.extent.value > 0


def _ends_with(index: ir.PrimExpr, var: ir.Var, domains: Domains) -> bool:
    """True if the bounds of an index are empty where the loop of a variable never runs.

    Not those of `i + j` if `j` alone reaches further than one step of `i`.
    """
    if not ir.uses_var(index, var.same_as):
        return False
    found = affine_in(index, domains.__contains__)
    if found is None:
        return True
    form = found[0]
    reach = 1
    for other, factor in form.variable_terms():
        extent = domains[other].extent
        if other is var:
            continue
        if not isinstance(extent, ir.IntImm):
            return False
        reach += abs(factor) * (extent.value - 1)
    return bool(abs(form.terms.get(var, 0)) >= reach)


def _variables_without_gaps(axis: ir.Range, domains: Domains) -> set[ir.Var] | None:
    """The variables that an axis runs over; None if it may jump over elements, as `2 * i` does."""
    start, lanes, stride = axis.min, 1, 1
    match start:
        case ir.Ramp(base=base, stride=ir.IntImm(value=step), lanes=count):
            start, lanes, stride = base, count, step
    found = affine_in(start, domains.__contains__)
    if found is None or ir.uses_var(axis.extent, domains.__contains__):
        return None
    scales = dict(found[0].variable_terms())
    steps, counts = [stride], [lanes]
    if isinstance(axis.extent, ir.IntImm):
        steps.append(1)
        counts.append(axis.extent.value)
    if lanes == 1 and [abs(scale) for scale in scales.values()] == [1]:
        return set(scales)  # however long the loop is
    for var, scale in scales.items():
        extent = domains[var].extent
        if not isinstance(extent, ir.IntImm):
            return None
        steps.append(scale)
        counts.append(extent.value)
    return set(scales) if is_dense(steps, counts) else None
