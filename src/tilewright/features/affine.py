"""Indices as sums of scaled terms, read straight from scheduled blocks.

`Affine` holds what features need of an index in the form that simplifying would give it: its terms
in printing order, its operations and its bounds. A term is a loop variable or, where an index
divides or takes remainders, a whole expression. Most indices of scheduled programs are plain sums,
so the (much slower) simplifier is only asked where terms are not variables.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from typing import Any

from tilewright.arith import Analyzer
from tilewright.features.term_bounds import Bound, bound_of
from tilewright.ir import (
    Add,
    BinaryOp,
    Block,
    DType,
    FloorDiv,
    FloorMod,
    IntImm,
    Mul,
    PrimExpr,
    Range,
    Sub,
    Var,
    children,
    const,
    substitute,
)

Terms = dict[PrimExpr, int]
_DIVISIONS = (FloorDiv, FloorMod)


class Affine:
    """`sum(scale * term) + base`; no scale is zero. Never changed once made."""

    __slots__ = ("_plain", "base", "terms")

    def __init__(self, terms: Terms, base: int = 0) -> None:
        self.terms = terms
        self.base = base
        self._plain: bool | None = None

    @property
    def is_plain(self) -> bool:
        """True when all terms are variables."""
        if self._plain is None:
            self._plain = all(isinstance(term, Var) for term in self.terms)
        return self._plain

    def plus(self, other: Affine, factor: int = 1) -> Affine:
        """`self + factor * other`, without joining terms that divide the same variable."""
        if not other.terms:
            return Affine(self.terms, self.base + factor * other.base)
        terms = dict(self.terms)
        for term, scale in other.terms.items():
            total = terms.get(term, 0) + factor * scale
            if total:
                terms[term] = total
            else:
                terms.pop(term, None)
        return Affine(terms, self.base + factor * other.base)

    def times(self, factor: int) -> Affine:
        if factor == 0:
            return Affine({})
        scaled = {term: scale * factor for term, scale in self.terms.items()}
        return Affine(scaled, self.base * factor)

    def in_order(self) -> Iterator[tuple[PrimExpr | None, int]]:
        """The terms as they are printed: falling scales; None stands for the base."""
        ordered = sorted(self.terms.items(), key=_falling_scale) if len(self.terms) > 1 else None
        positive = True
        for term, scale in ordered or self.terms.items():
            if positive and scale < 0:
                positive = False
                if self.base > 0:
                    yield None, self.base
            yield term, scale
        if self.base < 0 or (positive and self.base > 0):
            yield None, self.base

    def expr(self, dtype: DType) -> PrimExpr:
        """The same sum as an expression."""
        result: PrimExpr | None = None
        for term, scale in self.in_order():
            size = const(abs(scale), dtype)
            part = size if term is None else term if abs(scale) == 1 else Mul(term, size)
            if result is None:
                result = part if scale > 0 else Sub(const(0, dtype), part)
            else:
                result = Add(result, part) if scale > 0 else Sub(result, part)
        return const(0, dtype) if result is None else result


def _falling_scale(item: tuple[PrimExpr, int]) -> int:
    return -item[1]


class IndexReader:
    """Reads indices, given what the variables in scope stand for."""

    def __init__(self) -> None:
        self._analyzer = Analyzer()
        self._unbound: dict[Var, Range] = {}  # what the analyzer was not told yet
        self._ranges: dict[Var, Bound] = {}
        self._meaning: dict[Var, Affine] = {}
        self._variables: dict[PrimExpr, frozenset[Var]] = {}  # of terms that are not variables
        self._simplified: dict[PrimExpr, Affine] = {}
        self._quotients: dict[tuple[Any, ...], Affine] = {}  # and remainders

    def enter_loop(self, var: Var, first: int, extent: int | None) -> None:
        """`var` runs from `first`; over a single value it is that value."""
        if extent == 1:
            self._meaning[var] = Affine({}, first)
            return
        self._meaning[var] = Affine({var: 1})
        if extent is not None:
            self._ranges[var] = (first, first + extent - 1)
            self._unbound[var] = Range(const(first, var.dtype), const(extent, var.dtype))

    def rename(self, var: Var, other: Var) -> None:
        """`var` is another loop variable."""
        self._meaning[var] = self.read(other)

    def enter_block(self, block: Block, values: tuple[PrimExpr, ...]) -> None:
        """The iterators of `block` stand for `values`."""
        for iterator, value in zip(block.iter_vars, values, strict=True):
            self._meaning[iterator.var] = self.read(value)

    def read(self, index: PrimExpr) -> Affine:
        """The index over loop variables."""
        kind = type(index)
        if isinstance(index, Var):
            known = self._meaning.get(index)
            if known is None:
                known = self._meaning[index] = Affine({index: 1})
            return known
        if isinstance(index, IntImm):
            return Affine({}, index.value)
        if isinstance(index, (Add, Sub)):
            return self._sum(self.read(index.a), self.read(index.b), 1 if kind is Add else -1)
        if isinstance(index, Mul) and isinstance(index.b, IntImm):
            return self.read(index.a).times(index.b.value)
        if kind in _DIVISIONS and isinstance(index, BinaryOp):
            divisor = index.b.value if isinstance(index.b, IntImm) else 0
            if divisor > 0:
                return self._divided(kind, self.read(index.a), divisor, index.dtype)
        return self._simplify(self.resolved(index))

    def _divided(self, kind: type, index: Affine, divisor: int, dtype: DType) -> Affine:
        """Quotient or remainder: multiples of the divisor leave, the simplifier sees the rest."""
        rest = {term: scale for term, scale in index.terms.items() if scale % divisor}
        base = index.base if index.base % divisor else 0
        low, high = self._bounds_of(rest, base)
        if low is not None and high is not None and low // divisor == high // divisor:
            lost = low // divisor
            part = Affine(rest, base - lost * divisor) if kind is FloorMod else Affine({}, lost)
        else:
            part = self._divided_rest(kind, Affine(rest, base), divisor, dtype)
        if kind is FloorMod:
            return part
        whole = {term: scale // divisor for term, scale in index.terms.items() if term not in rest}
        return self._sum(Affine(whole, (index.base - base) // divisor), part, 1)

    def _bounds_of(self, terms: Terms, base: int) -> tuple[int | None, int | None]:
        low = high = base
        for term, scale in terms.items():
            bound = self.bound(term)
            if bound is None:
                return None, None
            low += scale * bound[0 if scale > 0 else 1]
            high += scale * bound[1 if scale > 0 else 0]
        return low, high

    def _divided_rest(self, kind: type, rest: Affine, divisor: int, dtype: DType) -> Affine:
        key = (kind, divisor, rest.base, frozenset(rest.terms.items()))
        known = self._quotients.get(key)
        if known is None:
            node = kind(rest.expr(dtype), const(divisor, dtype))
            known = self._quotients[key] = self._simplify(node)
        return known

    def resolved(self, expr: PrimExpr) -> PrimExpr:
        """`expr` over loop variables, not simplified."""
        return substitute(expr, self._value_of)

    def _value_of(self, var: Var) -> PrimExpr | None:
        meaning = self._meaning.get(var)
        if meaning is None or meaning.terms.get(var) == 1:
            return None
        return meaning.expr(var.dtype)

    def minus(self, index: Affine, origin: Affine) -> Affine:
        """`index - origin`."""
        if not origin.terms and not origin.base:
            return index
        return self._sum(index, origin, -1)

    def _sum(self, left: Affine, right: Affine, factor: int) -> Affine:
        total = left.plus(right, factor)
        if left.is_plain and right.is_plain:
            return total
        if not self._may_join(left, right):
            return total
        return self._simplify(total.expr(next(iter(left.terms)).dtype))

    def _may_join(self, left: Affine, right: Affine) -> bool:
        """True when different terms of both sides use one variable: parts may become a whole."""
        ours = [(term, self.variables_of(term)) for term in left.terms]
        for term in right.terms:
            used = self.variables_of(term)
            if any(term is not other and not used.isdisjoint(vars_) for other, vars_ in ours):
                return True
        return False

    def variables_of(self, term: PrimExpr) -> frozenset[Var]:
        """The variables that a term uses."""
        known = self._variables.get(term)
        if known is None:
            known = frozenset(_variables_below(term))
            self._variables[term] = known
        return known

    def variables_in(self, index: Affine) -> set[Var]:
        """The variables that an index uses."""
        return set().union(*map(self.variables_of, index.terms))

    def first_of(self, var: Var) -> int:
        """The first value of a loop variable; 0 for others."""
        return self._ranges.get(var, (0, 0))[0]

    def bound(self, term: PrimExpr) -> Bound | None:
        """The smallest and the largest value of a term while all its loops run."""
        if isinstance(term, Var):
            return self._ranges.get(term)
        if any(var not in self._ranges for var in self.variables_of(term)):
            return None
        self._tell_analyzer()
        return self._analyzer.const_int_bound(term)

    def bounds_while(self, index: Affine, running: Set[Var]) -> Bound:
        """Bounds of an index while some loops run and all others stand at their first value."""
        low = high = index.base
        for term, scale in index.terms.items():
            bound = bound_of(term, self._ranges, running)
            low += scale * bound[0 if scale > 0 else 1]
            high += scale * bound[1 if scale > 0 else 0]
        return low, high

    def _tell_analyzer(self) -> None:
        for var, domain in self._unbound.items():
            self._analyzer.bind(var, domain, allow_override=True)
        self._unbound.clear()

    def simplify(self, expr: PrimExpr) -> PrimExpr:
        """The simplest form of an expression over loop variables, one object for each form."""
        self._tell_analyzer()
        return self._analyzer.representative(expr)

    def _simplify(self, expr: PrimExpr) -> Affine:
        simple = self.simplify(expr)
        known = self._simplified.get(simple)
        if known is None:
            known = self._simplified[simple] = _split(simple)
        return known


def _variables_below(node: PrimExpr) -> Iterator[Var]:
    if isinstance(node, Var):
        yield node
    for child in children(node):
        if isinstance(child, PrimExpr):
            yield from _variables_below(child)


def _split(expr: PrimExpr) -> Affine:
    """A simplified expression as a sum; anything but sums and scales is a term."""
    match expr:
        case IntImm(value=value):
            return Affine({}, value)
        case Add(a=a, b=b):
            return _split(a).plus(_split(b))
        case Sub(a=a, b=b):
            return _split(a).plus(_split(b), -1)
        case Mul(a=a, b=IntImm(value=factor)):
            return _split(a).times(factor)
    return Affine({expr: 1})
