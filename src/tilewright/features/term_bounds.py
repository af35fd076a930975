"""Bounds of index terms while some loops run and others stand at their first value.

They are the bounds that TVM's features are made of, which are not always the tightest: TVM learns
the divisibility of a loop variable while the loop stands at its first value, and keeps it when the
loop runs. So a remainder keeps the value that it has in the first iteration.
"""

from __future__ import annotations

from collections.abc import Mapping, Set

from tilewright.arith import Analyzer, ConstIntBound
from tilewright.ir import Add, Cast, FloorDiv, FloorMod, IntImm, Max, Min, Mul, PrimExpr, Sub, Var

Bound = tuple[int, int]
Ranges = Mapping[Var, Bound]
_STANDS_STILL: frozenset[Var] = frozenset()


def bound_of(term: PrimExpr, ranges: Ranges, running: Set[Var]) -> Bound:
    """The smallest and largest value; variables without a range stand at zero."""
    match term:
        case Var():
            first, last = ranges.get(term, (0, 0))
            return first, last if term in running else first
        case IntImm(value=value):
            return value, value
        case Add(a=a, b=b):
            left, right = bound_of(a, ranges, running), bound_of(b, ranges, running)
            return left[0] + right[0], left[1] + right[1]
        case Sub(a=a, b=b):
            left, right = bound_of(a, ranges, running), bound_of(b, ranges, running)
            return left[0] - right[1], left[1] - right[0]
        case Mul(a=a, b=IntImm(value=factor)):
            low, high = bound_of(a, ranges, running)
            return (low * factor, high * factor) if factor >= 0 else (high * factor, low * factor)
        case FloorDiv(a=a, b=IntImm(value=divisor)) if divisor > 0:
            low, high = bound_of(a, ranges, running)
            return low // divisor, high // divisor
        case FloorMod(a=a, b=IntImm(value=divisor)) if divisor > 0:
            first = bound_of(a, ranges, _STANDS_STILL)[0] % divisor
            return first, first
        case Min(a=a, b=b):
            left, right = bound_of(a, ranges, running), bound_of(b, ranges, running)
            return min(left[0], right[0]), min(left[1], right[1])
        case Max(a=a, b=b):
            left, right = bound_of(a, ranges, running), bound_of(b, ranges, running)
            return max(left[0], right[0]), max(left[1], right[1])
        case Cast(dtype=dtype, value=value) if dtype.is_int and value.dtype.is_int:
            return bound_of(value, ranges, running)
    return _ask_analyzer(term, ranges, running)


def _ask_analyzer(term: PrimExpr, ranges: Ranges, running: Set[Var]) -> Bound:
    analyzer = Analyzer()
    for var, (first, last) in ranges.items():
        analyzer.update(var, ConstIntBound(first, last if var in running else first))
    return analyzer.const_int_bound(term)
