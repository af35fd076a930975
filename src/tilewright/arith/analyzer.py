"""The analyzer: knows the variables in scope and answers questions about expressions."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from tilewright import ir
from tilewright.arith.bounds import NEG_INF, POS_INF, ConstIntBound, dtype_bound
from tilewright.arith.canonical import CanonicalSimplifier
from tilewright.arith.facts import Facts
from tilewright.arith.interval import DomainMap, IntervalSet, evaluate
from tilewright.arith.linear import LinearForm, NotLinear, atom_form
from tilewright.arith.modular import ModularSet, make_modular
from tilewright.arith.rewrite import RewriteSimplifier
from tilewright.errors import ArithError

_LIKELY = ir.Op.get("tir.likely")


class Analyzer:
    """Bounds, divisibility, simplification and proofs, given domains and conditions."""

    def __init__(self, domains: Mapping[ir.Var, ir.Range] | None = None) -> None:
        self._facts = Facts()
        self._rewriter = RewriteSimplifier(self._facts, self.constraint_scope)
        self._canonical = CanonicalSimplifier(self._facts, self._rewriter)
        self.bind_all(domains or {})

    # --- what the analyzer is told ---

    def bind(
        self, var: ir.Var, value: ir.Range | ir.ExprLike, *, allow_override: bool = False
    ) -> None:
        """Say that `var` lies in a range, or equals an expression."""
        facts = self._facts
        if not allow_override and (var in facts.var_ranges or var in facts.var_values):
            self._check_rebinding(var, value)
            return
        if isinstance(value, ir.Range):
            if isinstance(value.extent, ir.IntImm) and value.extent.value == 1:
                self.bind(var, value.min, allow_override=allow_override)
                return
            facts.var_bounds[var] = self._bound_of_range(value)
            facts.var_ranges[var] = value
            facts.var_values.pop(var, None)
        else:
            expr = self.simplify(ir.convert(value))
            facts.var_bounds[var] = facts.bound(expr)
            facts.var_modular[var] = facts.modular(expr)
            facts.var_values[var] = expr
            facts.var_ranges.pop(var, None)
        facts.forget()

    def bind_all(self, domains: Mapping[ir.Var, ir.Range]) -> None:
        """Bind several variables."""
        for var, domain in domains.items():
            self.bind(var, domain)

    def update(self, var: ir.Var, bound: ConstIntBound, *, override: bool = False) -> None:
        """Say that the constant bounds of `var` are `bound`."""
        known = None if override else self._facts.var_bounds.get(var)
        if known is not None:
            bound = ConstIntBound(
                max(bound.min_value, known.min_value), min(bound.max_value, known.max_value)
            )
        self._facts.var_bounds[var] = bound
        self._facts.forget()

    def _check_rebinding(self, var: ir.Var, value: ir.Range | ir.ExprLike) -> None:
        old_range = self._facts.var_ranges.get(var)
        old_value = self._facts.var_values.get(var)
        if isinstance(value, ir.Range):
            if isinstance(value.extent, ir.IntImm) and value.extent.value == 1:
                self._check_rebinding(var, value.min)
                return
            same = old_range is not None and (
                self.can_prove_equal(old_range.min, value.min)
                and self.can_prove_equal(old_range.extent, value.extent)
            )
        else:
            same = old_value is not None and self.can_prove_equal(old_value, ir.convert(value))
        if not same:
            raise ArithError(
                f"variable {var.name} is bound already; pass allow_override=True to bind it anew"
            )

    def _bound_of_range(self, domain: ir.Range) -> ConstIntBound:
        if isinstance(domain.min, ir.IntImm) and isinstance(domain.extent, ir.IntImm):
            start, size = domain.min.value, domain.extent.value
            return ConstIntBound(start, start + max(size, 1) - 1)
        first, extent = self.const_int_bound(domain.min), self.const_int_bound(domain.extent)
        last = self.const_int_bound(self.simplify(ir.subtract(domain.min + domain.extent, 1)))
        whole = dtype_bound(domain.min.dtype)
        unbounded = extent.max_value == POS_INF or first.max_value == POS_INF
        high = POS_INF if unbounded else min(last.max_value, whole[1])
        return ConstIntBound(first.min_value, max(high, first.min_value))

    @contextmanager
    def constraint_scope(self, condition: ir.ExprLike) -> Iterator[None]:
        """Inside the scope, `condition` is known to hold."""
        simple = self.simplify(ir.convert(condition))
        with self._facts.scope():
            self._learn(simple)
            yield

    def _learn(self, condition: ir.PrimExpr) -> None:
        """Take note of a simplified condition and of what follows from it."""
        facts = self._facts
        match condition:
            case ir.And(a=a, b=b):
                self._learn(a)
                self._learn(b)
                return
            case ir.Call(op=op, args=(inner,)) if op is _LIKELY:
                self._learn(inner)
                return
            case ir.IntImm():
                return
        facts.known_conditions[facts.interner.intern(condition)] = True
        opposite = self._rewriter.visit(ir.Not(condition))
        facts.known_conditions[opposite] = False
        self._learn_bounds(condition)
        facts.forget()

    def _learn_bounds(self, condition: ir.PrimExpr) -> None:
        facts = self._facts
        match condition:
            case ir.LT(a=a, b=b):
                self._learn_difference(a, b, strict=True)
            case ir.LE(a=a, b=b):
                self._learn_difference(a, b, strict=False)
            case ir.EQ(
                a=ir.FloorMod(a=dividend, b=ir.IntImm(value=divisor)), b=ir.IntImm(value=remainder)
            ):
                learnt = make_modular(divisor, remainder)
                facts.learn_modular(facts.interner.intern(dividend), learnt)
            case ir.EQ(a=a, b=ir.IntImm(value=value)):
                facts.learn_bound(facts.interner.intern(a), value, value)
            case ir.EQ(a=a, b=b) if a.dtype.is_int:
                self._learn_difference(a, b, strict=False)
                self._learn_difference(b, a, strict=False)
            case ir.NE(a=a, b=ir.IntImm(value=value)):
                low, high = facts.bound(a)
                if low == value:
                    facts.learn_bound(facts.interner.intern(a), low=value + 1)
                elif high == value:
                    facts.learn_bound(facts.interner.intern(a), high=value - 1)

    def _learn_difference(self, a: ir.PrimExpr, b: ir.PrimExpr, *, strict: bool) -> None:
        """`a < b` or `a <= b`, as a bound of an expression without constant part."""
        if not a.dtype.is_integral or a.dtype.lanes != 1:
            return
        facts, slack = self._facts, int(strict)
        if isinstance(b, ir.IntImm):
            facts.learn_bound(facts.interner.intern(a), high=b.value - slack)
        elif isinstance(a, ir.IntImm):
            facts.learn_bound(facts.interner.intern(b), low=a.value + slack)
        elif a.dtype.is_int:
            # Bounds of one side bound the other ...
            low_a, high_b = facts.bound(a)[0], facts.bound(b)[1]
            if high_b < POS_INF:
                facts.learn_bound(facts.interner.intern(a), high=high_b - slack)
            if low_a > NEG_INF:
                facts.learn_bound(facts.interner.intern(b), low=low_a + slack)
            # ... and so does the difference of both, whatever else is known.
            with contextlib.suppress(NotLinear):
                form = self._canonical.to_form(a).plus(self._canonical.to_form(b), -1)
                moving = LinearForm(form.terms)
                if moving.terms:
                    difference = self._canonical.to_expr(moving, a.dtype)
                    facts.learn_bound(difference, high=-slack - form.base)

    # --- what it is asked ---

    def simplify(self, expr: ir.ExprLike, steps: int = 2) -> ir.PrimExpr:
        """The simplest form of `expr` that the tables and the canonical form lead to."""
        node = ir.convert(expr)
        if isinstance(node, (ir.IntImm, ir.FloatImm)):
            return node
        known = self._facts.simplified.get(node)
        if known is not None:
            return known
        current = self._simplify_in_rounds(node, steps)
        self._facts.simplified[node] = current
        self._facts.simplified[current] = current
        return current

    def _simplify_in_rounds(self, current: ir.PrimExpr, rounds: int) -> ir.PrimExpr:
        """Tables and canonical form in turn, until neither finds anything to do."""
        for round_number in range(rounds):
            rewritten = self._rewriter.visit(current)
            if round_number > 0 and rewritten is current:
                return current
            known = self._facts.simplified.get(rewritten)
            if known is not None or _is_plain_sum(rewritten):
                return rewritten if known is None else known
            current = self._canonical.visit(rewritten)
            if current is rewritten:
                return current
        return current

    def rewrite_simplify(self, expr: ir.ExprLike) -> ir.PrimExpr:
        """Simplify with the rule tables only."""
        return self._rewriter.visit(ir.convert(expr))

    def canonical_simplify(self, expr: ir.ExprLike) -> ir.PrimExpr:
        """Simplify through canonical linear forms."""
        return self._canonical.visit(ir.convert(expr))

    def representative(self, expr: ir.ExprLike) -> ir.PrimExpr:
        """One object for all expressions with the same simplified form, fit for dictionary keys."""
        return self._facts.interner.intern(self.simplify(expr))

    def linear_form(self, expr: ir.PrimExpr) -> LinearForm:
        """A scalar index expression as a sum of scaled atoms; `from_linear_form` goes back."""
        try:
            return self._canonical.to_form(expr)
        except NotLinear:
            return atom_form(expr)

    def from_linear_form(self, form: LinearForm, dtype: ir.DType) -> ir.PrimExpr:
        """The expression of a linear form."""
        try:
            return self._canonical.to_expr(form, dtype)
        except NotLinear:
            raise ArithError(f"a constant of a linear form does not fit {dtype!s}") from None

    def const_int_bound(self, expr: ir.ExprLike) -> ConstIntBound:
        """Constant bounds of an integer expression; `NEG_INF` and `POS_INF` mean "none"."""
        return self._facts.bound(ir.convert(expr))

    def modular_set(self, expr: ir.ExprLike) -> ModularSet:
        """`coeff` and `base` with `expr == coeff * k + base`."""
        return self._facts.modular(ir.convert(expr))

    def int_set(self, expr: ir.ExprLike, dom_map: DomainMap | None = None) -> IntervalSet:
        """An interval with symbolic ends around `expr`; by default over all bound variables."""
        return evaluate(expr, self._facts.var_ranges if dom_map is None else dom_map, self)

    def can_prove(self, condition: ir.ExprLike) -> bool:
        """True only if `condition` holds for every value of the variables."""
        node = ir.convert(condition)
        if isinstance(node, ir.IntImm):
            return node.value != 0
        result = self.simplify(node)
        if isinstance(result, ir.IntImm):
            return result.value != 0
        return self._prove_symbolically(result)

    def can_prove_equal(self, a: ir.ExprLike, b: ir.ExprLike) -> bool:
        """True only if `a == b` always."""
        left, right = ir.match_types(ir.convert(a), ir.convert(b))
        if left is right:
            return True
        if isinstance(left, ir.IntImm) and isinstance(right, ir.IntImm):
            return left.value == right.value
        if left.dtype.is_float or left.dtype.is_handle:
            return self.simplify(left) is self.simplify(right)
        return self.can_prove(ir.equal(left, right))

    def can_prove_less(self, a: ir.ExprLike, b: ir.ExprLike) -> bool:
        """True only if `a < b` always."""
        return self.can_prove(ir.less(a, b))

    def can_prove_greater_equal(self, a: ir.ExprLike, b: ir.ExprLike) -> bool:
        """True only if `a >= b` always."""
        return self.can_prove(ir.greater_equal(a, b))

    # --- proofs that need symbolic ends of domains ---

    def _prove_symbolically(self, condition: ir.PrimExpr) -> bool:
        match condition:
            case ir.And(a=a, b=b):
                return self.can_prove(a) and self.can_prove(b)
            case ir.LT(a=a, b=b) if a.dtype.is_int and a.dtype.lanes == 1:
                return self._always_positive(ir.subtract(b, a))
            case ir.LE(a=a, b=b) if a.dtype.is_int and a.dtype.lanes == 1:
                return self._always_positive(ir.subtract(b, a) + 1)
        return False

    def _always_positive(self, expr: ir.PrimExpr) -> bool:
        """True when the smallest value over the symbolic ranges of the variables is positive."""
        try:
            return self._eliminate_until_positive(expr)
        except NotLinear:
            return False

    def _eliminate_until_positive(self, expr: ir.PrimExpr) -> bool:
        for _ in range(len(self._facts.var_ranges) + 1):
            form = self._canonical.to_form(expr)
            if self._canonical.bound_of_form(form, expr.dtype)[0] > 0:
                return True
            eliminated = self._eliminate_one(form.terms)
            if eliminated is None:
                return False
            var, end = eliminated
            scale = form.terms[(var, 1, POS_INF)]
            expr = self._canonical.to_expr(form, expr.dtype) + (end - var) * scale
        return False

    def _eliminate_one(
        self, terms: Mapping[tuple[ir.PrimExpr, int, int], int]
    ) -> tuple[ir.Var, ir.PrimExpr] | None:
        """A variable that occurs linearly and the end of its range where the sum is smallest."""
        for (atom, lower, upper), scale in terms.items():
            if not isinstance(atom, ir.Var) or lower != 1 or upper != POS_INF:
                continue
            domain = self._facts.var_ranges.get(atom)
            if domain is None:
                continue
            symbolic = not (
                isinstance(domain.min, ir.IntImm) and isinstance(domain.extent, ir.IntImm)
            )
            alone = sum(other[0] is atom for other in terms) == 1
            if symbolic and alone:
                return atom, domain.min if scale > 0 else domain.min + domain.extent - 1
        return None


def _is_plain_sum(expr: ir.PrimExpr) -> bool:
    """True for what is canonical at first sight: a variable, a constant, `i * 16 + j + 3`."""
    if isinstance(expr, (ir.Var, ir.IntImm, ir.FloatImm)):
        return True
    rest = expr
    match expr:
        case ir.Add(a=a, b=ir.IntImm()) | ir.Sub(a=a, b=ir.IntImm()):
            rest = a
    smallest, seen = 1, set[ir.Var]()
    while isinstance(rest, ir.Add):
        scale = _scale_of_var(rest.b, seen)
        # Read from the right, scales must not fall, or the canonical order would be another one.
        if scale < smallest:
            return False
        smallest, rest = scale, rest.a
    return _scale_of_var(rest, seen) >= smallest


def _scale_of_var(term: ir.PrimExpr, seen: set[ir.Var]) -> int:
    """The positive scale of a variable not seen before, else 0."""
    scale = 1
    match term:
        case ir.Mul(a=factor, b=ir.IntImm(value=scale)):
            term = factor
    if not isinstance(term, ir.Var) or term in seen:
        return 0
    seen.add(term)
    return max(scale, 0)
