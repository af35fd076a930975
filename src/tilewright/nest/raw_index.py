"""Indices as affine forms without the simplifier: what divides unevenly stays an expression."""

from __future__ import annotations

from tilewright.arith.affine import Affine, Terms
from tilewright.arith.ranges import Ranges
from tilewright.ir import Add, FloorDiv, FloorMod, IntImm, Mul, PrimExpr, Sub, Var


def raw_index(expr: PrimExpr, ranges: Ranges) -> Affine:
    """The affine form of an expression over loop variables; its base does not matter."""
    terms: Terms = {}
    _add(expr, 1, ranges, terms)
    return Affine(terms)


def _add(expr: PrimExpr, factor: int, ranges: Ranges, terms: Terms) -> None:
    match expr:
        case IntImm():
            return
        case Add(a=a, b=b):
            _add(a, factor, ranges, terms)
            _add(b, factor, ranges, terms)
        case Sub(a=a, b=b):
            _add(a, factor, ranges, terms)
            _add(b, -factor, ranges, terms)
        case Mul(a=a, b=IntImm(value=times)):
            _add(a, factor * times, ranges, terms)
        case FloorDiv(a=a, b=IntImm(value=divisor)) | FloorMod(a=a, b=IntImm(value=divisor)) if (
            digits := _digits(a, divisor, isinstance(expr, FloorMod), ranges)
        ) is not None:
            for term, scale in digits.items():
                terms[term] = terms.get(term, 0) + factor * scale
        case _:
            terms[expr] = terms.get(expr, 0) + factor


def _digits(expr: PrimExpr, divisor: int, is_remainder: bool, ranges: Ranges) -> Terms | None:
    """Quotient or remainder of a sum whose terms divide or together stay below `divisor`."""
    whole = raw_index(expr, ranges).terms
    if divisor <= 0:
        return None
    low = {term: scale for term, scale in whole.items() if scale % divisor}
    if not all(isinstance(term, Var) for term in low):
        return None
    if Affine(low, 0, True).reach(ranges) >= divisor:
        return None
    if is_remainder:
        return low
    return {term: scale // divisor for term, scale in whole.items() if scale % divisor == 0}
