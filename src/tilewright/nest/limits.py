"""Predicates of blocks as limits: sums of loop variables that stay below a number."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from tilewright import ir
from tilewright.arith.affine import Affine
from tilewright.nest.index_reader import IndexReader


@dataclass(frozen=True, eq=False)
class Limit:
    """A sum of what counts from zero, and the largest value that it may take."""

    form: Affine
    last: int

    def concerns(self, index: Affine) -> bool:
        """True when an index uses variables that the limit holds back."""
        return not self.form.variables.isdisjoint(index.variables)

    def held_in(self, index: Affine) -> Limit | None:
        """The part of an index that is held back: its terms that are in the sum, in proportion."""
        shared = [(term, scale) for term, scale in self.form.terms.items() if term in index.terms]
        ratios = {Fraction(index.terms[term], scale) for term, scale in shared}
        ratio = ratios.pop() if len(ratios) == 1 else Fraction(0)
        if ratio <= 0:
            return None
        part = Affine({term: index.terms[term] for term, _ in shared})
        return Limit(part, math.floor(self.last * ratio))


def limits_of(predicate: ir.PrimExpr, reader: IndexReader) -> list[Limit]:
    """The limits in a predicate, those over most terms first; what is none is left out."""
    found = [limit for check in _checks(predicate) if (limit := _limit(check, reader))]
    return sorted(found, key=lambda limit: -len(limit.form.terms))


def _checks(predicate: ir.PrimExpr) -> Iterator[ir.PrimExpr]:
    if isinstance(predicate, ir.And):
        yield from _checks(predicate.a)
        yield from _checks(predicate.b)
    else:
        yield predicate


def _limit(check: ir.PrimExpr, reader: IndexReader) -> Limit | None:
    if not isinstance(check, ir.LT) or not isinstance(check.b, ir.IntImm):
        return None
    form = reader.read(check.a)
    if not form.terms or any(scale < 0 for scale in form.terms.values()):
        return None
    return Limit(Affine(form.terms), check.b.value - 1 - form.base)
