"""Loops that together count through all numbers below some bound, and digits of those numbers.

Fused loops and threads make such counters: `i * 128 + thread * 4 + lane`. The quotients and
remainders by which buffers are indexed then take all values between two ends, which are known
without looking at the iterations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tilewright.arith.affine import Affine, affine_of
from tilewright.arith.ranges import remainder_bounds
from tilewright.ir import LT, FloorDiv, FloorMod, IntImm, PrimExpr

Domain = tuple[int, int]  # first value, number of values
Domains = Mapping[Any, Domain]  # of variables


def ends_of_digit(
    expr: PrimExpr, domains: Domains, conditions: Sequence[PrimExpr]
) -> tuple[int, int] | None:
    """Smallest and largest value of a digit of a counter, all values between which it takes.

    Iterations where a condition is false do not count. None where `expr` is no such digit, or a
    condition none that bounds the counter.
    """
    match expr:
        case FloorDiv(a=a, b=IntImm(value=divisor)) if divisor > 0:
            inner = ends_of_digit(a, domains, conditions)
            return inner and (inner[0] // divisor, inner[1] // divisor)
        case FloorMod(a=a, b=IntImm(value=modulus)) if modulus > 0:
            inner = ends_of_digit(a, domains, conditions)
            return inner and remainder_bounds(inner, modulus)
    return _ends_of_counter(affine_of(expr), domains, conditions)


def _ends_of_counter(
    counter: Affine, domains: Domains, conditions: Sequence[PrimExpr]
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


def _bound_on(counter: Affine, domains: Domains, condition: PrimExpr) -> int | None:
    """A number that the counter (without its constant) is below exactly where a condition holds."""
    if not isinstance(condition, LT) or not isinstance(condition.b, IntImm):
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
