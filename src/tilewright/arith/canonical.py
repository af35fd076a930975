"""The canonical simplifier: index arithmetic as linear forms, printed in one fixed order.

Sums are ordered by falling scale. Division and remainder by a positive constant `c` are worked out
on the form: multiples of `c` split off, the rest vanishes when its bounds say so, common factors
cancel, and a low part smaller than every other factor moves out of the way.
"""

from __future__ import annotations

from collections.abc import Callable
from math import gcd
from typing import TYPE_CHECKING, TypeAlias

from tilewright import ir
from tilewright.arith.bounds import ConstIntBound, dtype_bound, is_index_type
from tilewright.arith.interning import has_side_effect
from tilewright.arith.linear import (
    WHOLE,
    LinearForm,
    NotLinear,
    Split,
    atom_form,
    bound_of_terms,
    constant_form,
)
from tilewright.arith.rewrite import RewriteSimplifier
from tilewright.arith.rule_compiler import fits

if TYPE_CHECKING:
    from tilewright.arith.facts import Facts

# How often simplifying an atom may bring another sum to light; tables and forms could disagree.
_MAX_UNFOLDING = 8
_LINEAR = frozenset({ir.Add, ir.Sub, ir.Mul, ir.FloorDiv, ir.FloorMod})
_COMPARED = frozenset({ir.EQ, ir.NE, ir.LT, ir.LE, ir.GT, ir.GE, ir.Min, ir.Max})


class CanonicalSimplifier:
    """Simplifies through linear forms, under the facts of one analyzer."""

    def __init__(self, facts: Facts, rewriter: RewriteSimplifier) -> None:
        self._facts = facts
        self._rewriter = rewriter
        self._unfolding = 0

    def visit(self, expr: ir.PrimExpr) -> ir.PrimExpr:
        """The canonical form of `expr`."""
        memory = self._facts.canonical
        known = memory.get(expr)
        if known is None:
            known = self._simplify(expr)
            memory[expr] = known
            memory[known] = known
        return known

    def _simplify(self, expr: ir.PrimExpr) -> ir.PrimExpr:
        if isinstance(expr, (ir.Var, ir.IntImm, ir.FloatImm)):
            return self._rewriter.visit(expr)
        dtype = expr.dtype
        is_linear = type(expr) in _LINEAR and dtype.lanes == 1 and is_index_type(dtype)
        if is_linear or (isinstance(expr, ir.Cast) and widens_index(expr)):
            try:
                return self.to_expr(self.to_form(expr), dtype)
            except NotLinear:
                return self._other(expr)
        return self._other(expr)

    def _other(self, expr: ir.PrimExpr) -> ir.PrimExpr:
        """A node that is not linear: canonical children, then the rule tables."""
        if isinstance(expr, ir.Let):
            return expr
        interner = self._facts.interner
        if isinstance(expr, ir.BinaryOp):
            a, b = self.visit(expr.a), self.visit(expr.b)
            if type(expr) in _COMPARED and a.dtype.lanes == 1 and is_index_type(a.dtype):
                decided = self._decide(type(expr), a, b)
                if decided is not None:
                    return interner.intern(decided)
            return self._rewriter.reduce_root(interner.binary(type(expr), a, b))
        changed = ir.map_children(
            expr, lambda n: self.visit(n) if isinstance(n, ir.PrimExpr) else n
        )
        if isinstance(expr, ir.BufferLoad):  # no table has a rule for loads; keep canonical indices
            return interner.intern(changed)
        return self._rewriter.visit(changed) if changed is not expr else expr

    def _decide(
        self, kind: type[ir.BinaryOp], a: ir.PrimExpr, b: ir.PrimExpr
    ) -> ir.PrimExpr | None:
        """A comparison, minimum or maximum that the bounds of the difference settle."""
        try:
            difference = self.to_form(a).plus(self.to_form(b), -1)
        except NotLinear:
            return None
        low, high = self.bound_of_form(difference, a.dtype)
        if kind in (ir.Min, ir.Max):
            if high <= 0:
                return a if kind is ir.Min else b
            return (b if kind is ir.Min else a) if low >= 0 else None
        verdict = _VERDICTS[kind](low, high)
        return None if verdict is None else ir.const(verdict, "bool")

    def bound_of_form(self, form: LinearForm, dtype: ir.DType) -> ConstIntBound:
        """Bounds of the form, also from what is known of its sum as a whole."""
        low, high = bound_of_terms(self._facts, form.terms.items(), form.base)
        if self._facts.expr_bounds and len(form.terms) > 1:
            known = self._facts.bound(self.to_expr(LinearForm(form.terms), dtype))
            low, high = max(low, known[0] + form.base), min(high, known[1] + form.base)
            opposite = LinearForm(form.terms).times(-1)
            known = self._facts.bound(self.to_expr(opposite, dtype))
            low, high = max(low, form.base - known[1]), min(high, form.base - known[0])
        return ConstIntBound(low, high)

    # --- from expressions to forms ---

    def to_form(self, expr: ir.PrimExpr) -> LinearForm:
        """The linear form of a scalar index expression."""
        match expr:
            case ir.IntImm(value=value):
                return constant_form(value)
            case ir.Add(a=a, b=b):
                return self.to_form(a).plus(self.to_form(b))
            case ir.Sub(a=a, b=b):
                return self.to_form(a).plus(self.to_form(b), -1)
            case ir.Mul(a=a, b=b):
                return self._product(self.to_form(a), self.to_form(b), expr.dtype)
            case ir.FloorDiv(a=a, b=ir.IntImm(value=divisor)) if divisor > 0:
                return self.divide(self.to_form(a), divisor, expr.dtype)
            case ir.FloorMod(a=a, b=ir.IntImm(value=divisor)) if divisor > 0:
                return self.remainder(self.to_form(a), divisor, expr.dtype)
            case ir.Cast() if widens_index(expr):
                return self._widened(self.to_form(expr.value), expr.dtype)
            case ir.FloorDiv() | ir.FloorMod():
                a, b = self.visit(expr.a), self.visit(expr.b)
                node = self._facts.interner.binary(type(expr), a, b)
                return self._form_of_atom(self._rewriter.reduce_root(node), node)
            case ir.Var():
                return self._form_of_atom(self._rewriter.visit(expr), expr)
        if has_side_effect(expr):
            raise NotLinear
        return self._form_of_atom(self.visit(expr), expr)

    def _form_of_atom(self, simplified: ir.PrimExpr, original: ir.PrimExpr) -> LinearForm:
        """An atom, unless simplifying it brought a linear expression to light."""
        if isinstance(simplified, ir.IntImm):
            return constant_form(simplified.value)
        if simplified is original or type(simplified) not in _LINEAR:
            return atom_form(simplified)
        if self._unfolding >= _MAX_UNFOLDING:
            return atom_form(simplified)
        self._unfolding += 1
        try:
            return self.to_form(simplified)
        finally:
            self._unfolding -= 1

    def _product(self, a: LinearForm, b: LinearForm, dtype: ir.DType) -> LinearForm:
        if not b.terms:
            return a.times(b.base)
        if not a.terms:
            return b.times(a.base)
        a_scale, b_scale = _single_scale(a), _single_scale(b)
        left = self.to_expr(a.divided_exactly(a_scale), dtype)
        right = self.to_expr(b.divided_exactly(b_scale), dtype)
        if isinstance(right, ir.Mul):  # x * (y * z) reads x * y * z
            left, right = ir.Mul(left, right.a), right.b
        interner = self._facts.interner
        atom = interner.product(interner.intern(left), interner.intern(right))
        return atom_form(atom, scale=a_scale * b_scale)

    def _widened(self, form: LinearForm, dtype: ir.DType) -> LinearForm:
        intern = self._facts.interner.intern
        terms = {
            (intern(ir.Cast(dtype, atom)), lower, upper): scale
            for (atom, lower, upper), scale in form.terms.items()
        }
        return LinearForm(terms, form.base)

    # --- division ---

    def divide(self, form: LinearForm, divisor: int, dtype: ir.DType) -> LinearForm:
        """`floor(form / divisor)`."""
        if divisor == 1:
            return form
        multiple, rest = form.partition(divisor)
        quotient = LinearForm({split: scale // divisor for split, scale in multiple.items()})
        if not rest:
            return quotient.plus(constant_form(form.base // divisor))
        if form.base % divisor == 0:
            quotient = quotient.plus(constant_form(form.base // divisor))
            return quotient.plus(self._divide_rest(LinearForm(rest), divisor, dtype))
        return quotient.plus(self._divide_rest(LinearForm(rest, form.base), divisor, dtype))

    def _divide_rest(self, rest: LinearForm, divisor: int, dtype: ir.DType) -> LinearForm:
        low, high = self.bound_of_form(rest, dtype)
        if low // divisor == high // divisor:
            return constant_form(low // divisor)
        common = rest.scale_gcd(divisor)
        if common > 1:
            return self.divide(rest.divided_exactly(common), divisor // common, dtype)
        parts = self._high_and_low(rest, divisor)
        if parts is not None:
            factor, upper_part, _ = parts
            return self.divide(upper_part, divisor // factor, dtype)
        split, scale = next(iter(rest.terms.items()))
        if len(rest.terms) == 1 and scale == 1 and rest.base == 0:
            atom, lower, upper = split
            return atom_form(atom, lower * divisor, upper)
        return atom_form(self.to_expr(rest, dtype), divisor)

    def remainder(self, form: LinearForm, divisor: int, dtype: ir.DType) -> LinearForm:
        """`form mod divisor`, between 0 and `divisor - 1`."""
        if divisor == 1:
            return constant_form(0)
        rest = {
            split: scale % divisor if scale >= divisor else scale
            for split, scale in form.partition(divisor)[1].items()
        }
        if not rest:
            return constant_form(form.base % divisor)
        reduced = LinearForm(rest, form.base % divisor)
        for candidate in (reduced, LinearForm(rest, form.base)):
            low, high = self.bound_of_form(candidate, dtype)
            if low // divisor == high // divisor:
                return candidate.plus(constant_form(-(low // divisor) * divisor))
        return self._remainder_of_rest(reduced, divisor, dtype)

    def _remainder_of_rest(self, rest: LinearForm, divisor: int, dtype: ir.DType) -> LinearForm:
        common = rest.scale_gcd(divisor)
        if common > 1:
            inner = self.remainder(rest.divided_exactly(common), divisor // common, dtype)
            return inner.times(common).plus(constant_form(rest.base % common))
        parts = self._high_and_low(rest, divisor)
        if parts is not None:
            factor, upper_part, low_part = parts
            inner = self.remainder(upper_part, divisor // factor, dtype)
            return inner.times(factor).plus(low_part)
        split, scale = next(iter(rest.terms.items()))
        if len(rest.terms) == 1 and scale == 1 and rest.base == 0:
            atom, lower, upper = split
            if upper == WHOLE or upper % (lower * divisor) == 0:
                return atom_form(atom, lower, lower * divisor)
        return atom_form(self.to_expr(rest, dtype), 1, divisor)

    def _high_and_low(
        self, form: LinearForm, divisor: int
    ) -> tuple[int, LinearForm, LinearForm] | None:
        """`(f, high, low)`: `form == f * high + low`, `f` divides `divisor`, `0 <= low < f`."""
        factor = divisor
        for scale in sorted({abs(scale) for scale in form.terms.values()}, reverse=True):
            factor = gcd(factor, scale)
            if factor == 1:
                return None
            multiple, rest = form.partition(factor)
            low_part = LinearForm(rest, form.base % factor)
            low, high = bound_of_terms(self._facts, rest.items(), low_part.base)
            if multiple and low >= 0 and high < factor:
                upper = LinearForm(multiple, form.base - low_part.base)
                return factor, upper.divided_exactly(factor), low_part
        return None

    # --- back to expressions ---

    def to_expr(self, form: LinearForm, dtype: ir.DType) -> ir.PrimExpr:
        """The form as an expression: positive terms, a positive base, negative terms, the rest."""
        form = self._with_atoms_opened(self._with_divisions_undone(form))
        # By falling scale, then from the highest digits of an atom down.
        ordered = sorted(form.terms.items(), key=lambda t: (-t[1], -t[0][1], -t[0][2]))
        positive = [term for term in ordered if term[1] > 0]
        negative = [term for term in ordered if term[1] < 0]
        result: ir.PrimExpr | None = None
        for split, scale in positive:
            term = self._term(split, scale, dtype)
            result = term if result is None else self._make(ir.Add, result, term)
        if form.base > 0 and result is not None:
            result = self._make(ir.Add, result, _constant(form.base, dtype))
        if result is None:
            if len(negative) == 1 and form.base == 0:
                return self._term(*negative[0], dtype)
            result = _constant(max(form.base, 0) if negative else form.base, dtype)
            if not negative:
                return self._facts.interner.intern(result)
        for split, scale in negative:
            result = self._make(ir.Sub, result, self._term(split, -scale, dtype))
        if form.base < 0:
            result = self._make(ir.Sub, result, _constant(-form.base, dtype))
        return result

    def _with_divisions_undone(self, form: LinearForm) -> LinearForm:
        """`x // c * c + y % c` is `x` where `x` and `y` differ by a multiple of `c`.

        Such `y` come from remainders, of which the scales are reduced.
        """
        for low, scale in form.terms.items():
            y, lower, c = low
            if lower != 1 or c == WHOLE:
                continue
            for high, high_scale in form.terms.items():
                x, cut, upper = high
                if cut != c or upper != WHOLE or high_scale != scale * c:
                    continue
                whole = self.to_form(x)
                if whole.is_congruent(self.to_form(y), c):
                    rest = {s: f for s, f in form.terms.items() if s is not low and s is not high}
                    joined = LinearForm(rest, form.base).plus(whole, scale)
                    return self._with_divisions_undone(joined)
        return form

    def _with_atoms_opened(self, form: LinearForm) -> LinearForm:
        """Recombined sums, e.g. `(x + y) // 4 * 4 + (x + y) % 4`, are sums again."""
        opened = form
        for split, scale in form.terms.items():
            atom, lower, upper = split
            if lower == 1 and upper == WHOLE and type(atom) in (ir.Add, ir.Sub):
                terms = dict(opened.terms)
                del terms[split]
                opened = LinearForm(terms, opened.base).plus(self.to_form(atom), scale)
        return opened if opened is form else self._with_atoms_opened(opened)

    def _term(self, split: Split, scale: int, dtype: ir.DType) -> ir.PrimExpr:
        atom, lower, upper = split
        expr = atom
        if upper != WHOLE:
            expr = self._make(ir.FloorMod, expr, _constant(upper, dtype))
        if lower != 1:
            expr = self._make(ir.FloorDiv, expr, _constant(lower, dtype))
        return expr if scale == 1 else self._make(ir.Mul, expr, _constant(scale, dtype))

    def _make(self, kind: type[ir.BinaryOp], a: ir.PrimExpr, b: ir.PrimExpr) -> ir.PrimExpr:
        interner = self._facts.interner
        return interner.binary(kind, interner.intern(a), interner.intern(b))


def _constant(value: int, dtype: ir.DType) -> ir.PrimExpr:
    if not fits(value, dtype):
        raise NotLinear
    return ir.const(value, dtype)


def _single_scale(form: LinearForm) -> int:
    """The scale of a form with one term and no base, else 1: what a product may pull out."""
    if len(form.terms) == 1 and form.base == 0:
        return next(iter(form.terms.values()))
    return 1


def widens_index(expr: ir.Cast) -> bool:
    """True for the cast of an index to a type that holds all its values."""
    source = expr.value.dtype
    return (
        is_index_type(expr.dtype)
        and is_index_type(source)
        and source.lanes == 1
        and dtype_bound(expr.dtype)[1] >= dtype_bound(source)[1]
    )


_Verdict: TypeAlias = Callable[[int, int], bool | None]
_VERDICTS: dict[type[ir.BinaryOp], _Verdict] = {
    ir.LT: lambda low, high: True if high < 0 else False if low >= 0 else None,
    ir.LE: lambda low, high: True if high <= 0 else False if low > 0 else None,
    ir.GT: lambda low, high: True if low > 0 else False if high <= 0 else None,
    ir.GE: lambda low, high: True if low >= 0 else False if high < 0 else None,
    ir.EQ: lambda low, high: False if low > 0 or high < 0 else True if low == high == 0 else None,
    ir.NE: lambda low, high: True if low > 0 or high < 0 else False if low == high == 0 else None,
}
