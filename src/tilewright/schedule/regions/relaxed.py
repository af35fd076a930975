"""Regions that blocks touch while the loops around them run, seen from a place further out.

A region is relaxed over the loops between a block and that place; what stays symbolic are the loops
further out. Sums of loop variables with constant extents are relaxed by plain integer arithmetic;
everything else is left to `arith`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tilewright import arith, ir
from tilewright.arith.affine import Terms, affine_of, collect
from tilewright.schedule.state.scope import domains_of


class NotASum(Exception):
    """An expression that integer arithmetic on its terms cannot relax."""


@dataclass(eq=False, slots=True)
class SumSpan:
    """The integers from `Σ coefficient · atom + offset` on, `extent` of them.

    `exact` says that each of them is touched, and not only the first and the last, `once` that each
    is touched by one combination of iterations only, in ascending order; `inner` are the variables
    that were relaxed.
    """

    terms: Terms
    offset: int
    extent: int
    dtype: ir.DType
    exact: bool = True
    once: bool = True
    inner: Sequence[ir.Var] = ()

    def low(self) -> ir.PrimExpr:
        """The first integer."""
        return sum_of(self.terms, self.offset, self.dtype)

    def interval(self) -> arith.IntervalSet:
        """The same as an interval with symbolic ends."""
        low = self.low()
        if self.extent == 1:
            return arith.IntervalSet(low, low)
        return arith.IntervalSet(low, sum_of(self.terms, self.offset + self.extent - 1, self.dtype))

    def same_terms(self, other: SumSpan) -> bool:
        """True when both start at a constant distance from each other."""
        mine, others = self.terms, other.terms
        return len(mine) == len(others) and all(
            others.get(atom) == factor for atom, factor in mine.items()
        )


Dimension: TypeAlias = SumSpan | arith.IntervalSet
Box: TypeAlias = list[Dimension]


def sum_of(terms: Terms, offset: int, dtype: ir.DType) -> ir.PrimExpr:
    """The expression of a sum, its constant last."""
    total: ir.PrimExpr | None = None
    for atom, factor in terms.items():
        if factor == 0:
            continue
        if total is None:
            total = atom if factor == 1 else atom * ir.const(factor, dtype)
        elif factor > 0:
            total = total + (atom if factor == 1 else atom * ir.const(factor, dtype))
        else:
            total = total - (atom if factor == -1 else atom * ir.const(-factor, dtype))
    if total is None:
        return ir.const(offset, dtype)
    if offset == 0:
        return total
    return total + ir.const(offset, dtype) if offset > 0 else total - ir.const(-offset, dtype)


def points_at(indices: Iterable[ir.PrimExpr]) -> list[ir.Range]:
    """The region of one element."""
    return [ir.Range(index, ir.const(1, index.dtype)) for index in indices]


def interval_of(dimension: Dimension) -> arith.IntervalSet:
    """A dimension as an interval with symbolic ends."""
    return dimension.interval() if isinstance(dimension, SumSpan) else dimension


def constant_loop(loop: ir.For) -> tuple[int, int] | None:
    """First value and number of iterations of a loop, when both are constants."""
    begin, extent = loop.min, loop.extent
    if type(begin) is ir.IntImm and type(extent) is ir.IntImm:
        return begin.value, extent.value
    return None


def scaled_ends(factor: int, domain: tuple[int, int] | None) -> tuple[int, int] | None:
    """The smallest and the largest multiple of what runs over a domain, if that is known."""
    if domain is None:
        return None
    first, last = factor * domain[0], factor * (domain[0] + domain[1] - 1)
    return (first, last) if first <= last else (last, first)


class Surroundings:
    """The loops around a place; an analyzer that knows them is made when it is first needed."""

    __slots__ = ("_analyzer", "domains", "loops", "units")

    def __init__(self, loops: Iterable[ir.For] = ()) -> None:
        self.loops = tuple(loops)
        self.domains: dict[ir.Var, tuple[int, int] | None] = {}
        self.units: dict[ir.Var, int] = {}  # loops of one iteration, which are constants
        for loop in self.loops:
            known = self.domains[loop.loop_var] = constant_loop(loop)
            if known is not None and known[1] == 1:
                self.units[loop.loop_var] = known[0]
        self._analyzer: arith.Analyzer | None = None

    @property
    def analyzer(self) -> arith.Analyzer:
        """An analyzer that knows the loops."""
        if self._analyzer is None:
            self._analyzer = arith.Analyzer(domains_of(self.loops))
        return self._analyzer

    def bounds(self, terms: Terms) -> tuple[int, int]:
        """Smallest and largest value of a sum of loop variables; raises NotASum for others."""
        low = high = 0
        for atom, factor in terms.items():
            ends = scaled_ends(factor, self.domains.get(atom))  # type: ignore[call-overload]
            if ends is None:
                raise NotASum
            low, high = low + ends[0], high + ends[1]
        return low, high


NOWHERE = Surroundings()


class RelaxedView:
    """How a block looks from outside some of the loops around it.

    `inner` are the loops to relax, `outer` what stays around them.
    """

    __slots__ = ("_bindings", "_inner", "_inner_loops", "_outer", "predicate")

    def __init__(
        self, realize: ir.BlockRealize, inner: Iterable[ir.For], outer: Surroundings = NOWHERE
    ) -> None:
        self._bindings = realize.values
        self.predicate = realize.predicate
        self._inner_loops = tuple(inner)
        self._inner: dict[ir.Var, tuple[int, int] | None] = {
            loop.loop_var: constant_loop(loop) for loop in self._inner_loops
        }
        self._outer = outer

    def box(self, region: Sequence[ir.Range]) -> tuple[Box, bool]:
        """Everything a region touches, and whether each point of the box is touched."""
        always = type(self.predicate) is ir.IntImm
        if always or self.inner_predicate() is ir.TRUE:
            try:
                spans = [self.span(item) for item in region]
            except NotASum:
                pass
            else:
                exact = all(span.exact for span in spans) and _independent(spans)
                if always or exact:
                    return list(spans), exact and always
        return self._estimated(region)

    def span(self, item: ir.Range) -> SumSpan:
        """A dimension by integer arithmetic; raises NotASum where that is not enough."""
        extent = item.extent
        if type(extent) is not ir.IntImm:
            raise NotASum
        terms: Terms = {}
        offset = collect(item.min, 1, terms, self._collect)
        inner = [atom for atom in terms if atom in self._inner]
        if not inner:
            return SumSpan(terms, offset, extent.value, item.min.dtype)
        return self._relaxed(terms, offset, extent.value, inner, item.min.dtype)

    def is_one_to_one(self, region: Sequence[ir.Range]) -> bool:
        """True when a region surely touches each point of a box by one combination of iterations.

        Loops that the region does not depend on are left out of account.
        """
        if type(self.predicate) is not ir.IntImm:
            return False
        try:
            spans = [self.span(item) for item in region]
        except NotASum:
            return False
        return all(span.exact and span.once for span in spans) and _independent(spans)

    def _relaxed(
        self, terms: Terms, offset: int, width: int, inner: Sequence[ir.PrimExpr], dtype: ir.DType
    ) -> SumSpan:
        steps: list[tuple[int, int]] = []
        exact = once = True
        for atom in inner:
            factor = terms.pop(atom)
            domain = self._inner[atom]  # type: ignore[index]
            if domain is None:
                raise NotASum
            begin, count = domain
            if factor == 0 or count <= 0:
                continue
            offset += factor * (begin if factor > 0 else begin + count - 1)
            steps.append((abs(factor), count - 1))
            once = once and factor > 0
        steps.sort()
        for step, times in steps:
            if times and step != width:
                exact = exact and step < width
                once = once and step > width
            width += step * times
        variables = [atom for atom in inner if isinstance(atom, ir.Var)]
        return SumSpan(terms, offset, width, dtype, exact=exact, once=once, inner=variables)

    def _collect(self, expr: ir.PrimExpr, scale: int, terms: Terms) -> int:
        """Add `scale * expr`, which is neither a sum nor a constant, to `terms`, as `collect`."""
        if isinstance(expr, ir.Var):
            if (binding := self._bindings.get(expr)) is not None:
                return collect(binding, scale, terms, self._collect)
            if (unit := self._outer.units.get(expr)) is not None:
                return scale * unit
            terms[expr] = terms.get(expr, 0) + scale
            return 0
        quotient = self._quotient(expr) if type(expr) is ir.FloorDiv else None
        if quotient is None:
            quotient = {self._atom(expr): 1}, 0
        for atom, factor in quotient[0].items():
            terms[atom] = terms.get(atom, 0) + scale * factor
        return scale * quotient[1]

    def _quotient(self, expr: ir.FloorDiv) -> tuple[Terms, int] | None:
        """A quotient as a sum, where what does not divide never makes a step by itself."""
        if type(expr.b) is not ir.IntImm or expr.b.value <= 0:
            return None
        divisor = expr.b.value
        terms: Terms = {}
        low = high = collect(expr.a, 1, terms, self._collect)
        divided: Terms = {}
        for atom, factor in terms.items():
            if factor % divisor == 0:
                divided[atom] = factor // divisor
                continue
            domain = self._inner.get(atom) or self._outer.domains.get(atom)  # type: ignore[call-overload]
            if (ends := scaled_ends(factor, domain)) is None:
                return None
            low, high = low + ends[0], high + ends[1]
        return (divided, low // divisor) if low // divisor == high // divisor else None

    def _atom(self, expr: ir.PrimExpr) -> ir.PrimExpr:
        """A part that is no sum; it must not depend on what is relaxed."""
        if ir.uses_var(expr, self._bindings.__contains__):
            expr = ir.substitute(expr, self._bindings)
        if ir.uses_var(expr, lambda var: var in self._inner or var in self._outer.units):
            raise NotASum
        return expr

    def _estimated(self, region: Sequence[ir.Range]) -> tuple[Box, bool]:
        """Bounds by way of iterator maps, for the dimensions that need them."""
        spans = [self._span_or_none(item) for item in region]
        hard = [item for item, span in zip(region, spans, strict=True) if span is None]
        # What is not exact by itself is not exact together with others.
        if len(hard) < len(region) and any(self._exact([item]) is None for item in hard):
            exact = None
        else:
            exact = self._exact(region)
        if exact is not None:
            honoured = self.inner_predicate() is self.predicate
            return [compact(item, self._outer.analyzer) for item in exact], honoured
        pairs = zip(region, spans, strict=True)
        return [span or self._bounds(item) for item, span in pairs], False

    def _span_or_none(self, item: ir.Range) -> SumSpan | None:
        if type(self.predicate) is not ir.IntImm:
            return None
        try:
            return self.span(item)
        except NotASum:
            return None

    def _exact(self, region: Sequence[ir.Range]) -> list[arith.IntervalSet] | None:
        ranges = [ir.substitute(item, self._bindings) for item in region]
        domains, predicate = domains_of(self._inner_loops), self.inner_predicate()
        return arith.estimate_region_strict_bound(ranges, domains, predicate, self._outer.analyzer)

    def _bounds(self, item: ir.Range) -> Dimension:
        """What surrounds a dimension."""
        domains, predicate = domains_of(self._inner_loops), self.inner_predicate()
        bound, analyzer = ir.substitute(item, self._bindings), self._outer.analyzer
        (interval,) = arith.estimate_region_upper_bound([bound], domains, predicate, analyzer)
        return compact(interval, analyzer)

    def inner_predicate(self) -> ir.PrimExpr:
        """The predicate of the block where the relaxed loops decide it alone, else "always"."""
        if ir.uses_var(self.predicate, self._outer.domains.__contains__):
            return ir.TRUE
        return self.predicate


def _independent(spans: Iterable[SumSpan]) -> bool:
    """No relaxed variable moves two dimensions at once."""
    seen: set[ir.Var] = set()
    for span in spans:
        for var in span.inner:
            if var in seen:
                return False
            seen.add(var)
    return True


def compact(interval: arith.IntervalSet, analyzer: arith.Analyzer) -> Dimension:
    """An interval as a span where its length is constant."""
    if not (interval.has_lower_bound and interval.has_upper_bound):
        return interval
    low, high = analyzer.simplify(interval.min_value), interval.max_value
    length = analyzer.simplify(ir.subtract(high, low) + 1)
    if not isinstance(length, ir.IntImm):
        return arith.IntervalSet(low, analyzer.simplify(high))
    form = affine_of(low)
    return SumSpan(form.terms, form.base, length.value, low.dtype)


def join(boxes: Sequence[Box], place: Surroundings) -> Box:
    """The smallest box around several."""
    if len(boxes) == 1:
        return boxes[0]
    return [_join_dimension(dims, place) for dims in zip(*boxes, strict=True)]


def _join_dimension(dims: Sequence[Dimension], place: Surroundings) -> Dimension:
    spans = [dim for dim in dims if isinstance(dim, SumSpan)]
    first = spans[0] if len(spans) == len(dims) else None
    if first is None or not all(first.same_terms(other) for other in spans[1:]):
        return compact(
            arith.union([interval_of(dim) for dim in dims], place.analyzer), place.analyzer
        )
    begin = min(span.offset for span in spans)
    end = max(span.offset + span.extent for span in spans)
    return SumSpan(first.terms, begin, end - begin, first.dtype, exact=False)
