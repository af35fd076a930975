"""Reads indices as affine forms over loop variables, given what the variables in scope stand for.

Most indices of scheduled programs are plain sums, or divide in a way that the extents of loops
decide; `direct` reads them. Only what is left is shown to the (much slower) simplifier, by `read`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright import ir
from tilewright.arith import Analyzer
from tilewright.arith.affine import Affine, Bound, Terms, affine_of, used_vars
from tilewright.arith.ranges import RangeEvaluator
from tilewright.nest.loops import UNKNOWN_EXTENT

Indices = tuple[Affine, ...]
_DIVISIONS = (ir.FloorDiv, ir.FloorMod)
_NOWHERE: Bound = (None, None)
_UNREAD = Affine({})


class IndexReader:
    """Reads indices; it is told about loops and blocks on the way down to them."""

    def __init__(self) -> None:
        self._analyzer: Analyzer | None = None
        self._unbound: dict[ir.Var, tuple[int, int]] = {}  # what the analyzer was not told yet
        self.ranges: dict[ir.Var, Bound] = {}
        self.counters: dict[ir.Var, Bound] = {}  # the same counted from zero, with likely extents
        self._values: dict[ir.Var, ir.PrimExpr] = {}  # of block iterators
        self._direct: dict[ir.PrimExpr, Affine | None] = {}
        self._meaning: dict[ir.Var, Affine] = {}  # of variables that cannot be read directly
        self._variables: dict[
            ir.PrimExpr, frozenset[ir.Var]
        ] = {}  # of terms that are not variables
        self._simplified: dict[ir.PrimExpr, Affine] = {}
        self._quotients: dict[tuple[Any, ...], Affine] = {}  # and remainders
        self._digits: dict[tuple[type, ir.PrimExpr, int], ir.PrimExpr] = {}

    # --- what variables stand for ---------------------------------------------------------------

    def enter_loop(self, var: ir.Var, first: int, extent: int | None) -> None:
        """`var` runs from `first`; over a single value it is that value."""
        if extent == 1:
            self._direct[var] = Affine({}, first, True)
            return
        self._direct[var] = Affine({var: 1}, 0, True)
        self.counters[var] = (0, (UNKNOWN_EXTENT if extent is None else extent) - 1)
        if extent is not None:
            self.ranges[var] = (first, first + extent - 1)
            self._unbound[var] = (first, extent)

    def rename(self, var: ir.Var, other: ir.Var) -> None:
        """`var` is another loop variable."""
        self._direct[var] = None
        self._meaning[var] = self.read(other)

    def enter_let(self, var: ir.Var) -> None:
        """`var` has a value of its own, which is not looked into."""
        self._direct[var] = None
        self._meaning[var] = Affine({var: 1})

    def enter_block(self, iterators: Sequence[ir.IterVar], values: Sequence[ir.PrimExpr]) -> None:
        """The iterators stand for `values`."""
        for iterator, value in zip(iterators, values, strict=True):
            self._values[iterator.var] = value

    # --- reading --------------------------------------------------------------------------------

    def direct(self, index: ir.PrimExpr) -> Affine | None:
        """The index as a sum of loop variables, where no more than their ranges is needed."""
        known = self._direct.get(index, _UNREAD)
        if known is _UNREAD:
            known = self._direct[index] = self._read_directly(index)
        return known

    def _read_directly(self, index: ir.PrimExpr) -> Affine | None:
        kind = type(index)
        if kind is ir.Var:
            value = self._values.get(index)  # type: ignore[call-overload]
            return Affine({index: 1}, 0, True) if value is None else self.direct(value)
        if isinstance(index, ir.BinaryOp):
            if kind is ir.Add or kind is ir.Sub:
                left, right = self.direct(index.a), self.direct(index.b)
                if left is None or right is None:
                    return None
                if not (left.is_plain and right.is_plain) and self._may_join(left, right):
                    return None
                return left.plus(right, 1 if kind is ir.Add else -1)
            number = index.b.value if type(index.b) is ir.IntImm else None
            if number is None or (kind is not ir.Mul and (kind not in _DIVISIONS or number <= 0)):
                return None
            inner = self.direct(index.a)
            if inner is None:
                return None
            return inner.times(number) if kind is ir.Mul else self._divide(kind, inner, number)
        if kind is ir.IntImm:
            return Affine({}, index.value, True)  # type: ignore[attr-defined]
        return Affine({index: 1}, 0, True) if kind is ir.SizeVar else None

    def _divide(self, kind: type, index: Affine, divisor: int) -> Affine | None:
        """Quotient or remainder of a sum where all but multiples of the divisor stays below it,
        or of a variable alone."""
        rest, base = _rest(index, divisor)
        low = high = base
        ranges = self.ranges
        for term, scale in rest.items():
            bound = ranges.get(term) or self._bound_of_digit(term)  # type: ignore[call-overload]
            if bound is None:
                return self._digit(kind, index, divisor)
            low += scale * bound[0 if scale > 0 else 1]
            high += scale * bound[1 if scale > 0 else 0]
        lost = low // divisor
        if lost != high // divisor:
            return self._digit(kind, index, divisor)
        if kind is ir.FloorMod:
            return Affine(rest, base - lost * divisor)
        return Affine(_multiples(index, divisor), (index.base - base) // divisor + lost)

    def _digit(self, kind: type, index: Affine, divisor: int) -> Affine | None:
        """`x // d`, `x % d` or `x % (c * d) // d` of a variable that counts from zero."""
        if len(index.terms) != 1 or index.base:
            return None
        ((term, scale),) = index.terms.items()
        if scale != 1:
            return None
        if isinstance(term, ir.Var):
            first, last = self.ranges.get(term, _NOWHERE)
            fits = first == 0 and last >= divisor
        else:
            fits = kind is ir.FloorDiv and _is_remainder_of_multiples(term, divisor)
        if not fits:
            return None
        return Affine({self._one_object(kind, term, divisor): 1}, 0, False)

    def _one_object(self, kind: type, dividend: ir.PrimExpr, divisor: int) -> ir.PrimExpr:
        """The same node for each quotient or remainder that looks the same."""
        key = (kind, dividend, divisor)
        known = self._digits.get(key)
        if known is None:
            dtype = dividend.dtype
            known = self._digits[key] = kind(dividend, ir.const(divisor, dtype))
        return known

    def _as_one_object(self, term: ir.PrimExpr) -> ir.PrimExpr:
        """A term that the simplifier made, as the object that is known for it."""
        if not isinstance(term, _DIVISIONS) or not isinstance(term.b, ir.IntImm):
            return term
        form = affine_of(term.a)
        parts = {self._as_one_object(part): scale for part, scale in form.terms.items()}
        key = (type(term), term.b.value, form.base, frozenset(parts.items()))
        known = self._quotients.get(key)
        if known is not None and len(known.terms) == 1:
            return next(iter(known.terms))
        dividend = self._as_one_object(term.a)
        if isinstance(dividend, ir.Var) or type(dividend) is ir.FloorMod:
            return self._one_object(type(term), dividend, term.b.value)
        if known is None:
            self._quotients[key] = Affine({term: 1}, 0, False)
        return term

    def read(self, index: ir.PrimExpr) -> Affine:
        """The index over loop variables, as the simplifier would write it."""
        known = self._direct.get(index) or self.direct(index)
        return self._read_with_help(index) if known is None else known

    def _read_with_help(self, index: ir.PrimExpr) -> Affine:
        kind = type(index)
        if isinstance(index, ir.Var):
            known = self._meaning.get(index)
            if known is None:
                known = self._meaning[index] = self.read(self._values[index])
            return known
        if isinstance(index, (ir.Add, ir.Sub)):
            return self._sum(self.read(index.a), self.read(index.b), 1 if kind is ir.Add else -1)
        if isinstance(index, ir.Mul) and isinstance(index.b, ir.IntImm):
            return self.read(index.a).times(index.b.value)
        if kind in _DIVISIONS and isinstance(index, ir.BinaryOp):
            divisor = index.b.value if isinstance(index.b, ir.IntImm) else 0
            if divisor > 0:
                return self._divided(kind, self.read(index.a), divisor, index.dtype)
        return self._simplify(self.resolved(index))

    def _divided(self, kind: type, index: Affine, divisor: int, dtype: ir.DType) -> Affine:
        """Quotient or remainder: multiples of the divisor leave, the simplifier sees the rest."""
        rest, base = _rest(index, divisor)
        low, high = self._bounds_of(rest, base)
        if low is not None and high is not None and low // divisor == high // divisor:
            lost = low // divisor
            part = Affine(rest, base - lost * divisor) if kind is ir.FloorMod else Affine({}, lost)
        else:
            part = self._divided_rest(kind, Affine(rest, base), divisor, dtype)
        if kind is ir.FloorMod:
            return part
        whole = Affine(_multiples(index, divisor), (index.base - base) // divisor)
        return self._sum(whole, part, 1)

    def _bounds_of(self, terms: Terms, base: int) -> tuple[int | None, int | None]:
        low = high = base
        for term, scale in terms.items():
            bound = self.bound(term)
            if bound is None:
                return None, None
            low += scale * bound[0 if scale > 0 else 1]
            high += scale * bound[1 if scale > 0 else 0]
        return low, high

    def _divided_rest(self, kind: type, rest: Affine, divisor: int, dtype: ir.DType) -> Affine:
        key = (kind, divisor, rest.base, frozenset(rest.terms.items()))
        known = self._quotients.get(key)
        if known is None:
            known = self._leading_digit(kind, rest, divisor)
            if known is None and self._is_sum_of_counters(rest):
                # In the order of the simplifier: falling divisors, variables last.
                parts = sorted(rest.terms, key=_divisor_of, reverse=True)
                total = Affine(dict.fromkeys(parts, 1)).expr(dtype)
                known = Affine({kind(total, ir.const(divisor, dtype)): 1}, 0, False)
            if known is None:
                known = self._simplify(kind(rest.expr(dtype), ir.const(divisor, dtype)))
            self._quotients[key] = known
        return known

    def _is_sum_of_counters(self, form: Affine) -> bool:
        """True for `x + y` where both count from zero: nothing of it can leave a division.

        The same holds for quotients `x // d`, but not for one alone, since `x // d // e` is one.
        """
        if form.base or any([scale != 1 for scale in form.terms.values()]):
            return False
        counters = [each.a if type(each) is ir.FloorDiv else each for each in form.terms]
        if len(counters) == 1 and counters[0] not in form.terms:
            return False
        if len(set(counters)) < len(counters) or not all([type(var) is ir.Var for var in counters]):
            return False
        ends = [self.bound(term) or _NOWHERE for term in form.terms]
        return all([first == 0 and last > 0 for first, last in ends])

    def _leading_digit(self, kind: type, rest: Affine, divisor: int) -> Affine | None:
        """`(x * c + y) // (c * d)` is `x // d` where `y` stays below `c`; remainders likewise."""
        unit = max(rest.terms.values(), default=0)
        if unit < 1 or divisor % unit:
            return None
        leading = {term: 1 for term, scale in rest.terms.items() if scale == unit}
        below = {term: scale for term, scale in rest.terms.items() if scale != unit}
        low, high = self._bounds_of(below, rest.base)
        if low is None or high is None or low < 0 or high >= unit:
            return None
        digit = self._digit(kind, Affine(leading), divisor // unit)
        if digit is None or kind is ir.FloorDiv:
            return digit
        return digit.times(unit).plus(Affine(below, rest.base))

    def resolved(self, expr: ir.PrimExpr) -> ir.PrimExpr:
        """`expr` over loop variables, not simplified."""
        return ir.substitute(expr, self._value_of)

    def _value_of(self, var: ir.Var) -> ir.PrimExpr | None:
        meaning = self.read(var)
        return None if meaning.terms.get(var) == 1 else meaning.expr(var.dtype)

    def minus(self, index: Affine, origin: Affine) -> Affine:
        """`index - origin`."""
        if not origin.terms and not origin.base:
            return index
        return self._sum(index, origin, -1)

    def _sum(self, left: Affine, right: Affine, factor: int) -> Affine:
        total = left.plus(right, factor)
        if total.is_plain or not self._may_join(left, right):
            return total
        return self._simplify(total.expr(next(iter(left.terms)).dtype))

    def _may_join(self, left: Affine, right: Affine) -> bool:
        """True when different terms of both sides use one variable: parts may become a whole."""
        if not left.terms or not right.terms or left.variables.isdisjoint(right.variables):
            return False
        ours = [(term, self.variables_of(term)) for term in left.terms]
        return any(
            term is not other and not self.variables_of(term).isdisjoint(used)
            for term in right.terms
            for other, used in ours
        )

    # --- variables and their bounds -------------------------------------------------------------

    def variables_of(self, term: ir.PrimExpr) -> frozenset[ir.Var]:
        """The variables that a term uses."""
        known = self._variables.get(term)
        if known is None:
            known = self._variables[term] = frozenset(used_vars(term))
        return known

    def first_of(self, var: ir.Var) -> int:
        """The first value of a loop variable; 0 for others."""
        first: int = self.ranges.get(var, (0, 0))[0]
        return first

    def bound(self, term: ir.PrimExpr) -> Bound | None:
        """The smallest and the largest value of a term while all its loops run."""
        if isinstance(term, ir.Var):
            return self.ranges.get(term)
        if (known := self._bound_of_digit(term)) is not None:
            return known
        if any(var not in self.ranges for var in self.variables_of(term)):
            return None
        return RangeEvaluator(self.ranges, self._bound_of_other).of(term)

    def _bound_of_other(self, term: ir.PrimExpr) -> Bound:
        return self._told_analyzer().const_int_bound(term)

    def _bound_of_digit(self, term: Any) -> Bound | None:
        """The bounds of `x // d`, `x % d` and `x % e // d` where `x` counts from zero."""
        if type(term) not in _DIVISIONS:
            return None
        if isinstance(term.a, ir.Var):
            first, last = self.ranges.get(term.a, _NOWHERE)
        elif type(term.a) is ir.FloorMod and isinstance(term.a.a, ir.Var):
            first, last = self._bound_of_digit(term.a) or _NOWHERE
        else:
            return None
        if first != 0 or type(term.b) is not ir.IntImm or term.b.value <= 0:
            return None
        divisor = term.b.value
        return (0, last // divisor) if type(term) is ir.FloorDiv else (0, min(last, divisor - 1))

    # --- the simplifier -------------------------------------------------------------------------

    def _told_analyzer(self) -> Analyzer:
        if self._analyzer is None:
            self._analyzer = Analyzer()
        for var, (first, extent) in self._unbound.items():
            domain = ir.Range(ir.const(first, var.dtype), ir.const(extent, var.dtype))
            self._analyzer.bind(var, domain, allow_override=True)
        self._unbound.clear()
        return self._analyzer

    def simplify(self, expr: ir.PrimExpr) -> ir.PrimExpr:
        """The simplest form of an expression over loop variables, one object for each form."""
        return self._told_analyzer().representative(expr)

    def _simplify(self, expr: ir.PrimExpr) -> Affine:
        simple = self.simplify(expr)
        known = self._simplified.get(simple)
        if known is None:
            form = affine_of(simple)
            if not form.is_plain:
                terms = {self._as_one_object(term): scale for term, scale in form.terms.items()}
                form = Affine(terms, form.base)
            known = self._simplified[simple] = form
        return known


def _rest(index: Affine, divisor: int) -> tuple[Terms, int]:
    """Terms and base of a sum without what is a multiple of `divisor`."""
    rest = {term: scale for term, scale in index.terms.items() if scale % divisor}
    return rest, index.base if index.base % divisor else 0


def _multiples(index: Affine, divisor: int) -> Terms:
    """The terms whose scales are multiples of `divisor`, over it."""
    return {t: scale // divisor for t, scale in index.terms.items() if scale % divisor == 0}


def _divisor_of(term: ir.PrimExpr) -> int:
    """The number that a term is divided by; a variable counts as not divided."""
    match term:
        case ir.FloorDiv(b=ir.IntImm(value=divisor)):
            return divisor
    return 1


def _is_remainder_of_multiples(term: ir.PrimExpr, divisor: int) -> bool:
    """True for `x % (c * divisor)` with `c` greater than one."""
    match term:
        case ir.FloorMod(a=ir.Var(), b=ir.IntImm(value=modulus)):
            return modulus > divisor and modulus % divisor == 0
    return False
