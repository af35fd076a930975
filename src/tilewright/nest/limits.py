"""Predicates of blocks as limits: sums of loop variables that stay below a number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tilewright import ir
from tilewright.arith.affine import Affine, affine_of, undivided, used_vars
from tilewright.nest.index_reader import IndexReader


class Limit(NamedTuple):
    """A sum of what counts from zero, and the largest value that it may take."""

    form: Affine
    last: int

    def held_in(self, index: Affine) -> Limit | None:
        """The part of an index that is held back: its terms that are in the sum, in proportion."""
        found, own = index.terms, self.form.terms
        shared = {term: found[term] for term in own if term in found}
        if not shared:
            return None
        first = next(iter(shared))
        times, of = shared[first], own[first]
        if times < 0 or any([scale * of != own[term] * times for term, scale in shared.items()]):
            return None
        return Limit(Affine(shared), self.last * times // of)


class DividedIndex(NamedTuple):
    """A sum as a part that a limit holds back, its largest value, and all else."""

    held: Affine | DividedIndex
    last: int
    rest: Affine | DividedIndex


class IndexLimits:
    """All limits on one access: which indices they concern, and how they divide those."""

    def __init__(self, limits: Sequence[Limit]) -> None:
        self._limits = limits
        self._variables = set().union(*[limit.form.variables for limit in limits])
        self._divided: dict[Affine, Affine | DividedIndex] = {}
        self._forms: dict[ir.PrimExpr, Affine] = {}
        self.last: dict[ir.PrimExpr, int] = {}  # of terms alone, whatever others are
        for limit in limits:
            for term, scale in limit.form.terms.items():
                last = limit.last // scale
                self.last[term] = min(last, self.last.get(term, last))

    def concern(self, index: Affine) -> bool:
        """True when limits hold back terms of an index, or what they divide."""
        if index.is_plain:
            return not self.last.keys().isdisjoint(index.terms)
        return any([self._concern_term(term) for term in index.terms])

    def _concern_term(self, term: ir.PrimExpr) -> bool:
        inner = undivided(term)
        if term in self.last or inner in self.last:
            return True
        return not isinstance(inner, ir.Var) and not self._variables.isdisjoint(used_vars(inner))

    def divide(self, index: Affine) -> Affine | DividedIndex:
        """An index as parts of which each is bounded by itself."""
        known = self._divided.get(index)
        if known is None:
            known = self._divided[index] = _divided(index, self._limits)
        return known

    def form_of(self, expr: ir.PrimExpr) -> Affine:
        """A sum inside of an index."""
        known = self._forms.get(expr)
        if known is None:
            known = self._forms[expr] = affine_of(expr)
        return known


def _divided(index: Affine, limits: Sequence[Limit]) -> Affine | DividedIndex:
    for number, limit in enumerate(limits):
        held = limit.held_in(index)
        if held is not None:
            inside = limits[number + 1 :]
            others = {t: scale for t, scale in index.terms.items() if t not in held.form.terms}
            rest = Affine(others, index.base)
            return DividedIndex(_divided(held.form, inside), held.last, _divided(rest, inside))
    return index


def limits_of(predicate: ir.PrimExpr, reader: IndexReader) -> list[Limit]:
    """The limits in a predicate, those over most terms first; what is none is left out."""
    found = [limit for check in ir.conjuncts(predicate) if (limit := _limit(check, reader))]
    return sorted(found, key=lambda limit: -len(limit.form.terms))


def _limit(check: ir.PrimExpr, reader: IndexReader) -> Limit | None:
    if not isinstance(check, ir.LT) or not isinstance(check.b, ir.IntImm):
        return None
    form = reader.read(check.a)
    if not form.terms or any(scale < 0 for scale in form.terms.values()):
        return None
    return Limit(Affine(form.terms), check.b.value - 1 - form.base)
