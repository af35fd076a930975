"""Affine forms: `sum(scale * term) + base`, the one form in which indices are worked with.

A term is a variable or, where an index divides or takes remainders, a whole expression. Scales,
bases and bounds may be numbers or arrays of numbers (one for each of many programs).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from typing import Any, TypeVar

from tilewright import ir

_Term = TypeVar("_Term")
Terms = dict[ir.PrimExpr, Any]  # numbers or arrays
Bound = tuple[Any, Any]  # smallest and largest value
Collect = Callable[[ir.PrimExpr, int, Terms], int]
STILL: Bound = (0, 0)  # of a variable that does not run


class Affine:
    """`sum(scale * term) + base`; no scale is zero. Never changed once made."""

    __slots__ = ("_variables", "base", "is_plain", "terms")

    def __init__(self, terms: Terms, base: Any = 0, is_plain: bool | None = None) -> None:
        self.terms = terms
        self.base = base
        if is_plain is None:
            is_plain = True
            for term in terms:
                if not isinstance(term, ir.Var):
                    is_plain = False
                    break
        self.is_plain = is_plain  # all terms are variables
        self._variables: set[ir.Var] | None = None

    @property
    def variables(self) -> Set[ir.PrimExpr]:
        """The variables that the form uses, those inside of terms included."""
        if self.is_plain:
            return self.terms.keys()
        if self._variables is None:
            self._variables = found = set()
            for term in self.terms:
                if isinstance(term, ir.Var):
                    found.add(term)
                else:
                    found |= used_vars(term)
        return self._variables

    @property
    def variable(self) -> ir.Var | None:
        """The variable that the form is; None if it is anything else."""
        if self.base or len(self.terms) != 1 or not self.is_plain:
            return None
        ((var, scale),) = self.terms.items()
        return var if scale == 1 else None  # type: ignore[return-value] # no other terms if plain

    def variable_terms(self) -> list[tuple[ir.Var, Any]]:
        """The terms that are variables."""
        return [(term, scale) for term, scale in self.terms.items() if isinstance(term, ir.Var)]

    def plus(self, other: Affine, factor: int = 1) -> Affine:
        """`self + factor * other`, without joining terms that divide the same variable."""
        base = self.base + factor * other.base
        if not other.terms:
            return Affine(self.terms, base, self.is_plain)
        terms = summed(self.terms, other.terms, factor)
        return Affine(terms, base, (self.is_plain and other.is_plain) or None)

    def times(self, factor: int) -> Affine:
        if factor == 0:
            return Affine({}, 0, True)
        scaled = {term: scale * factor for term, scale in self.terms.items()}
        return Affine(scaled, self.base * factor, self.is_plain)

    def bounds(self, bound_of: Callable[[ir.PrimExpr], Bound]) -> Bound:
        """The smallest and the largest value, from those of the terms."""
        low = high = self.base
        for term, scale in self.terms.items():
            first, last = bound_of(term)
            low = low + scale * (first if scale > 0 else last)
            high = high + scale * (last if scale > 0 else first)
        return low, high

    def ends(self, ranges: Mapping[Any, Bound]) -> Bound:
        """The same of a plain form, while variables run."""
        low = high = self.base
        for term, scale in self.terms.items():
            first, last = ranges.get(term, STILL)
            low = low + scale * (first if scale > 0 else last)
            high = high + scale * (last if scale > 0 else first)
        return low, high

    def reach(self, ranges: Mapping[Any, Bound]) -> Any:
        """How far apart the ends of a plain form are while variables run."""
        low, high = self.ends(ranges)
        return high - low

    def in_order(self) -> Iterator[tuple[ir.PrimExpr | None, int]]:
        """The terms as they are printed: falling scales; None stands for the base."""
        items = self.terms.items()
        ordered = sorted(items, key=lambda item: -item[1]) if len(items) > 1 else items
        positive = True
        for term, scale in ordered:
            if positive and scale < 0:
                positive = False
                if self.base > 0:
                    yield None, self.base
            yield term, scale
        if self.base < 0 or (positive and self.base > 0):
            yield None, self.base

    def expr(self, dtype: ir.DType) -> ir.PrimExpr:
        """The same sum as an expression."""
        result: ir.PrimExpr | None = None
        for term, scale in self.in_order():
            if term is None or abs(scale) != 1:
                size = ir.const(abs(scale), dtype)
                term = size if term is None else ir.Mul(term, size)
            if result is None:
                result = term if scale > 0 else ir.Sub(ir.const(0, dtype), term)
            else:
                result = ir.Add(result, term) if scale > 0 else ir.Sub(result, term)
        return ir.const(0, dtype) if result is None else result


def summed(
    terms: Mapping[_Term, int], others: Mapping[_Term, int], factor: int
) -> dict[_Term, int]:
    """`terms + factor * others`, without terms that cancel."""
    result = dict(terms)
    for term, scale in others.items():
        total = result.get(term, 0) + factor * scale
        if total:
            result[term] = total
        else:
            result.pop(term, None)
    return result


def affine_in(
    expr: ir.PrimExpr, is_variable: Callable[[ir.Var], bool]
) -> tuple[Affine, list[ir.PrimExpr]] | None:
    """`expr` as a form in the variables that `is_variable` accepts, and other parts of the sum.

    None where such a variable is in one of those parts.
    """
    form = affine_of(expr)
    chosen: Terms = {var: scale for var, scale in form.variable_terms() if is_variable(var)}
    others = [term for term in form.terms if term not in chosen]
    if any(ir.uses_var(term, is_variable) for term in others):
        return None
    return Affine(chosen, form.base, True), others


def is_injective(coefficients: Iterable[int], extents: Iterable[int]) -> bool:
    """True when no two points of a box share a value of the form with these coefficients.

    Sorted by size, each coefficient must reach beyond everything the smaller ones can add up to.
    """
    reach = 0
    for coefficient, extent in sorted(zip(map(abs, coefficients), extents, strict=True)):
        if extent > 1:
            if coefficient <= reach:
                return False
            reach += coefficient * (extent - 1)
    return True


def is_dense(coefficients: Iterable[int], extents: Iterable[int]) -> bool:
    """True when a form with these coefficients reaches every number between its ends."""
    reach = 0
    for coefficient, extent in sorted(zip(map(abs, coefficients), extents, strict=True)):
        if coefficient > reach + 1:
            return False
        reach += coefficient * (extent - 1)
    return True


_DIVISIONS = frozenset({ir.FloorDiv, ir.FloorMod})


def undivided(term: ir.PrimExpr) -> ir.PrimExpr:
    """What a term divides by constants, or takes remainders of."""
    while type(term) in _DIVISIONS and type(term.b) is ir.IntImm:  # type: ignore[attr-defined]
        term = term.a  # type: ignore[attr-defined]
    return term


def used_vars(expr: ir.PrimExpr) -> set[ir.Var]:
    """The variables of an expression."""
    expr = undivided(expr)
    if isinstance(expr, ir.Var):
        return {expr}
    found: set[ir.Var] = set()
    pending: list[ir.Node] = [expr]
    while pending:
        part = pending.pop()
        if isinstance(part, ir.Var):
            found.add(part)
        elif isinstance(part, ir.BinaryOp):
            pending += (part.a, part.b)
        elif isinstance(part, ir.PrimExpr):
            pending += ir.children(part)
    return found


def only_variable(term: ir.PrimExpr) -> ir.Var | None:
    """The one variable that a term uses; None if there are several."""
    inner = undivided(term)
    if isinstance(inner, ir.Var):
        return inner
    used = used_vars(inner)
    return used.pop() if len(used) == 1 else None


def affine_of(expr: ir.PrimExpr) -> Affine:
    """An expression as a sum, as it stands; anything but sums and scales is a term."""
    if type(expr) is ir.Var:
        return Affine({expr: 1}, 0, True)
    terms: Terms = {}
    base = collect(expr, 1, terms)
    return Affine({term: scale for term, scale in terms.items() if scale}, base)


def _as_term(expr: ir.PrimExpr, factor: int, terms: Terms) -> int:
    terms[expr] = terms.get(expr, 0) + factor
    return 0


def collect(expr: Any, factor: int, terms: Terms, other: Collect = _as_term) -> int:
    """Add `factor * expr` to `terms`; its constant part is returned.

    `other` does the same for what is neither a sum, a scale nor a constant.
    """
    kind = type(expr)
    if kind is ir.IntImm:
        return factor * expr.value  # type: ignore[no-any-return]
    if kind is ir.Add:
        return collect(expr.a, factor, terms, other) + collect(expr.b, factor, terms, other)
    if kind is ir.Sub:
        return collect(expr.a, factor, terms, other) + collect(expr.b, -factor, terms, other)
    if kind is ir.Mul:
        a, b = expr.a, expr.b
        if type(b) is ir.IntImm:
            return collect(a, factor * b.value, terms, other)
        if type(a) is ir.IntImm:
            return collect(b, factor * a.value, terms, other)
    return other(expr, factor, terms)
