"""The values that an index takes while some loops run, by evaluating it.

Schedules index GPU buffers with quotients and remainders of fused thread numbers, which arithmetic
on intervals overestimates. Their loops have few iterations, so all values can simply be computed.

Where loops together count through all numbers below some bound, as fused loops and threads do
(`i * 128 + thread * 4 + lane`), quotients and remainders of that number take all values between two
ends, which are known without looking at the iterations.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright import ir
from tilewright.arith.affine import Affine, Bound, Terms, affine_of, used_vars
from tilewright.arith.numpy_eval import Values, evaluate_on_arrays
from tilewright.arith.ranges import remainder_bounds
from tilewright.errors import ArithError

# Combinations of iterations that are worth evaluating.
_MOST_POINTS = 1 << 16


@dataclass(frozen=True)
class AxisRange:
    """`extent` integers from `origin + low` on; the origin is what the other loops decide.

    It is a sum of terms, each with a coefficient.
    """

    origin: Mapping[Hashable, int]
    low: int
    extent: int


class Unbounded(Exception):
    """The values of an index are too many to look at, or no plain arithmetic."""


class IndexRanges:
    """What the indices of one block do while the loops in `inner` run.

    `bindings` are the values of the block's iterators; iterations where `predicate` is false do not
    count, as far as the inner loops alone decide that.
    """

    def __init__(
        self,
        inner: Mapping[ir.Var, Domain],
        bindings: Mapping[ir.Var, ir.PrimExpr],
        predicate: ir.PrimExpr = ir.TRUE,
    ) -> None:
        self._inner = inner
        self._bindings = bindings
        self._conditions = [
            (condition, used)
            for condition in ir.conjuncts(predicate)
            if (used := set(ir.free_vars(condition))) and used <= inner.keys()
        ]

    def of(self, index: ir.PrimExpr, length: int = 1) -> AxisRange:
        """The range of `length` elements from an index on; raises Unbounded."""
        form = affine_of(ir.substitute(index, self._bindings))
        moving: Terms = {}
        origin: dict[Hashable, int] = {}
        for term, scale in form.terms.items():
            used = used_vars(term)
            if used <= self._inner.keys():
                moving[term] = scale
            elif used.isdisjoint(self._inner):
                key = term if isinstance(term, ir.Var) else _structural_key(term)
                origin[key] = origin.get(key, 0) + scale
            else:
                raise Unbounded  # what the inner loops add depends on the other ones
        low = high = form.base
        for variables, terms in self._groups(moving):
            first, last = self._extremes(variables, terms)
            low, high = low + first, high + last
        return AxisRange(origin, low, high - low + length)

    def _groups(self, moving: Terms) -> list[tuple[set[ir.Var], Terms]]:
        """Variables that must be looked at together, with the terms that use them."""
        merged: list[tuple[set[ir.Var], Terms]] = []
        clusters: list[tuple[set[ir.Var], Terms]] = [
            *((used_vars(term), {term: scale}) for term, scale in moving.items()),
            *((used, {}) for _, used in self._conditions),
        ]
        for variables, terms in clusters:
            touching = [known for known in merged if known[0] & variables]
            merged = [known for known in merged if not known[0] & variables]
            for known, others in touching:
                variables, terms = variables | known, {**others, **terms}
            merged.append((variables, terms))
        return [(variables, terms) for variables, terms in merged if terms]

    def _extremes(self, variables: set[ir.Var], terms: Terms) -> Bound:
        form = Affine(terms)
        conditions = [c for c, used in self._conditions if used <= variables]
        if form.is_plain and not conditions:
            return form.bounds(self._ends_of)
        if len(terms) == 1 and not form.is_plain:
            ((term, factor),) = terms.items()
            ends = ends_of_digit(term, self._inner, conditions)
            if ends is not None:
                low, high = sorted((factor * ends[0], factor * ends[1]))
                return low, high
        grid = self._grid(variables)
        total: Values = np.asarray(0)
        try:
            for term, factor in terms.items():
                total = total + factor * evaluate_on_arrays(term, grid)
            if conditions:
                holds = [evaluate_on_arrays(condition, grid) for condition in conditions]
                total, mask = np.broadcast_arrays(total, functools.reduce(np.logical_and, holds))
                total = total[mask]
        except ArithError as error:
            raise Unbounded from error
        return (int(total.min()), int(total.max())) if total.size else (0, 0)

    def _ends_of(self, var: Any) -> Bound:
        begin, count = self._inner[var]
        return begin, begin + count - 1

    def _grid(self, variables: set[ir.Var]) -> dict[ir.Var, Values]:
        ordered = list(variables)
        counts = [self._inner[var][1] for var in ordered]
        if math.prod(counts) > _MOST_POINTS:
            raise Unbounded
        axes = np.meshgrid(
            *(np.arange(self._inner[v][0], sum(self._inner[v])) for v in ordered),
            indexing="ij",
            sparse=True,
        )
        return dict(zip(ordered, axes, strict=True))


Domain = tuple[int, int]  # first value, number of values
Domains = Mapping[Any, Domain]  # of variables


def ends_of_digit(
    expr: ir.PrimExpr, domains: Domains, conditions: Sequence[ir.PrimExpr]
) -> tuple[int, int] | None:
    """Smallest and largest value of a digit of a counter, all values between which it takes.

    Iterations where a condition is false do not count. None where `expr` is no such digit, or a
    condition none that bounds the counter.
    """
    match expr:
        case ir.FloorDiv(a=a, b=ir.IntImm(value=divisor)) if divisor > 0:
            inner = ends_of_digit(a, domains, conditions)
            return inner and (inner[0] // divisor, inner[1] // divisor)
        case ir.FloorMod(a=a, b=ir.IntImm(value=modulus)) if modulus > 0:
            inner = ends_of_digit(a, domains, conditions)
            return inner and remainder_bounds(inner, modulus)
    return _ends_of_counter(affine_of(expr), domains, conditions)


def _ends_of_counter(
    counter: Affine, domains: Domains, conditions: Sequence[ir.PrimExpr]
) -> tuple[int, int] | None:
    if not counter.is_plain or not _is_dense(counter, domains):
        return None
    count = 1 + sum(f * (domains[var][1] - 1) for var, f in counter.terms.items())
    for condition in conditions:
        bound = _bound_on(counter, domains, condition)
        if bound is None:
            return None
        count = min(count, bound)
    return (counter.base, counter.base + count - 1) if count > 0 else None


def _is_dense(counter: Affine, domains: Domains) -> bool:
    """True when the variables are the digits of a number, so that it takes each value once."""
    expected = 1
    for var, factor in sorted(counter.terms.items(), key=lambda item: item[1]):
        begin, count = domains.get(var, (1, 0))
        if begin != 0:
            return False
        if count > 1:
            if factor != expected:
                return False
            expected = factor * count
    return True


def _bound_on(counter: Affine, domains: Domains, condition: ir.PrimExpr) -> int | None:
    """A number that the counter (without its constant) is below exactly where a condition holds."""
    if not isinstance(condition, ir.LT) or not isinstance(condition.b, ir.IntImm):
        return None
    left = affine_of(condition.a)
    if not left.is_plain or not left.terms:
        return None
    # The condition may be on the leading digits only: the counter is then `scale` times as large.
    var, factor = next(iter(left.terms.items()))
    scale, remainder = divmod(counter.terms.get(var, 0), factor)
    if scale < 1 or remainder:
        return None
    if any(counter.terms.get(v) != scale * f for v, f in left.terms.items()):
        return None
    trailing = sum(f * (domains[v][1] - 1) for v, f in counter.terms.items() if v not in left.terms)
    return scale * (condition.b.value - left.base) if trailing < scale else None


def _structural_key(value: Any) -> Hashable:
    """Equal for expressions that are equal up to sharing; variables count by identity."""
    if isinstance(value, tuple):
        return tuple(map(_structural_key, value))
    if not isinstance(value, ir.PrimExpr):
        return value if not isinstance(value, ir.Node) else id(value)
    if not value.child_fields and not isinstance(value, ir.IntImm):
        return id(value)
    return (type(value), *(_structural_key(getattr(value, f)) for f in value.__struct_fields__))
