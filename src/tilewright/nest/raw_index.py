"""Indices as affine forms without the simplifier: what divides unevenly stays an expression."""

from __future__ import annotations

from tilewright.arith.affine import Affine, Terms, affine_of
from tilewright.arith.ranges import Ranges
from tilewright.ir import FloorDiv, FloorMod, IntImm, PrimExpr, Var


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
