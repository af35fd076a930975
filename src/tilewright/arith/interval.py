"""Interval sets with symbolic ends, and their evaluation over the domains of variables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, Final, Protocol, TypeAlias

from tilewright import ir


class Prover(Protocol):
    """What evaluating intervals needs of an analyzer."""

    def simplify(self, expr: ir.ExprLike) -> ir.PrimExpr: ...
    def can_prove(self, condition: ir.ExprLike) -> bool: ...
    def can_prove_equal(self, a: ir.ExprLike, b: ir.ExprLike) -> bool: ...
    def can_prove_less(self, a: ir.ExprLike, b: ir.ExprLike) -> bool: ...


POSITIVE_INFINITY: Final = ir.Var("pos_inf", ir.HANDLE)
NEGATIVE_INFINITY: Final = ir.Var("neg_inf", ir.HANDLE)


class IntervalSet(ir.Node, frozen=True):
    """The integers from `min_value` to `max_value`, both included; either may be infinite."""

    child_fields: ClassVar[tuple[str, ...]] = ("min_value", "max_value")
    min_value: ir.PrimExpr
    max_value: ir.PrimExpr

    @staticmethod
    def of(min_value: ir.ExprLike, max_value: ir.ExprLike) -> IntervalSet:
        return IntervalSet(ir.convert(min_value), ir.convert(max_value))

    @staticmethod
    def from_range(domain: ir.Range) -> IntervalSet:
        if isinstance(domain.extent, ir.IntImm) and domain.extent.value == 1:
            return IntervalSet(domain.min, domain.min)
        return IntervalSet(domain.min, ir.subtract(ir.add(domain.min, domain.extent), 1))

    @staticmethod
    def point(value: ir.ExprLike) -> IntervalSet:
        node = ir.convert(value)
        return IntervalSet(node, node)

    @property
    def has_lower_bound(self) -> bool:
        return self.min_value is not NEGATIVE_INFINITY and not self.is_nothing

    @property
    def has_upper_bound(self) -> bool:
        return self.max_value is not POSITIVE_INFINITY and not self.is_nothing

    @property
    def is_nothing(self) -> bool:
        return self.min_value is POSITIVE_INFINITY or self.max_value is NEGATIVE_INFINITY

    @property
    def is_everything(self) -> bool:
        return self.min_value is NEGATIVE_INFINITY and self.max_value is POSITIVE_INFINITY

    @property
    def is_single_point(self) -> bool:
        return self.min_value is self.max_value

    def __str__(self) -> str:
        low = "-inf" if self.min_value is NEGATIVE_INFINITY else str(self.min_value)
        high = "inf" if self.max_value is POSITIVE_INFINITY else str(self.max_value)
        return "IntervalSet(nothing)" if self.is_nothing else f"IntervalSet[{low}, {high}]"

    __repr__ = __str__


EVERYTHING: Final = IntervalSet(NEGATIVE_INFINITY, POSITIVE_INFINITY)
NOTHING: Final = IntervalSet(POSITIVE_INFINITY, NEGATIVE_INFINITY)
Domain: TypeAlias = IntervalSet | ir.Range
DomainMap: TypeAlias = Mapping[ir.Var, Domain]


def as_interval(domain: Domain) -> IntervalSet:
    return domain if isinstance(domain, IntervalSet) else IntervalSet.from_range(domain)


def evaluate(expr: ir.ExprLike | ir.Range, domains: DomainMap, prover: Prover) -> IntervalSet:
    """An interval that holds every value of `expr` while the variables range over `domains`."""
    evaluator = _Evaluator(domains, prover)
    if isinstance(expr, ir.Range):
        first = evaluator.visit(expr.min)
        last = evaluator.visit(IntervalSet.from_range(expr).max_value)
        return NOTHING if first.is_nothing else IntervalSet(first.min_value, last.max_value)
    return evaluator.visit(ir.convert(expr))


class _Evaluator:
    """Evaluates bottom-up; what it does not know becomes everything."""

    def __init__(self, domains: DomainMap, prover: Prover) -> None:
        self._domains = domains
        self.prover = prover
        self._active: set[ir.Var] = set()

    def visit(self, expr: ir.PrimExpr) -> IntervalSet:
        if not ir.uses_var(expr, self._domains.__contains__):
            return IntervalSet.point(expr if isinstance(expr, ir.Var) else self.simplify(expr))
        if expr.dtype.is_int and expr.dtype.lanes == 1:
            # Terms that cancel must cancel before each of them is relaxed on its own.
            expr = self.prover.simplify(expr)
            if isinstance(expr, ir.IntImm):
                return IntervalSet.point(expr)
        rule = _RULES.get(type(expr))
        if isinstance(expr, ir.Var):
            return self._variable(expr)
        return EVERYTHING if rule is None else rule(self, expr)

    def _variable(self, var: ir.Var) -> IntervalSet:
        domain = self._domains.get(var)
        if domain is None:
            return IntervalSet.point(var)
        interval = as_interval(domain)
        if interval.is_nothing or var in self._active:
            return NOTHING if interval.is_nothing else EVERYTHING
        self._active.add(var)
        low, high = self._end(interval.min_value, True), self._end(interval.max_value, False)
        self._active.discard(var)
        return IntervalSet(low, high)

    def _end(self, end: ir.PrimExpr, is_low: bool) -> ir.PrimExpr:
        """The end of a domain that may itself depend on other variables."""
        if end is NEGATIVE_INFINITY or end is POSITIVE_INFINITY:
            return end
        inner = self.visit(end)
        return inner.min_value if is_low else inner.max_value

    def simplify(self, expr: ir.PrimExpr) -> ir.PrimExpr:
        return self.prover.simplify(expr)

    def is_nonnegative(self, expr: ir.PrimExpr) -> bool:
        return expr.dtype.is_int and self.prover.can_prove(expr >= 0)

    def is_positive(self, expr: ir.PrimExpr) -> bool:
        return expr.dtype.is_int and self.prover.can_prove(expr > 0)

    def make(self, low: ir.PrimExpr | None, high: ir.PrimExpr | None) -> IntervalSet:
        return IntervalSet(
            NEGATIVE_INFINITY if low is None else self.simplify(low),
            POSITIVE_INFINITY if high is None else self.simplify(high),
        )


def _low(interval: IntervalSet) -> ir.PrimExpr | None:
    return interval.min_value if interval.has_lower_bound else None


def _high(interval: IntervalSet) -> ir.PrimExpr | None:
    return interval.max_value if interval.has_upper_bound else None


_Combine: TypeAlias = Callable[[ir.PrimExpr, ir.PrimExpr], ir.PrimExpr]


def _both(a: ir.PrimExpr | None, b: ir.PrimExpr | None, combine: _Combine) -> ir.PrimExpr | None:
    return None if a is None or b is None else combine(a, b)


def _add(ev: _Evaluator, expr: ir.BinaryOp) -> IntervalSet:
    a, b = ev.visit(expr.a), ev.visit(expr.b)
    if a.is_nothing or b.is_nothing:
        return NOTHING
    return ev.make(_both(_low(a), _low(b), ir.add), _both(_high(a), _high(b), ir.add))


def _sub(ev: _Evaluator, expr: ir.BinaryOp) -> IntervalSet:
    a, b = ev.visit(expr.a), ev.visit(expr.b)
    if a.is_nothing or b.is_nothing:
        return NOTHING
    return ev.make(_both(_low(a), _high(b), ir.subtract), _both(_high(a), _low(b), ir.subtract))


def _mul(ev: _Evaluator, expr: ir.BinaryOp) -> IntervalSet:
    a, b = ev.visit(expr.a), ev.visit(expr.b)
    if a.is_nothing or b.is_nothing:
        return NOTHING
    if not b.is_single_point:
        a, b = b, a
    if not b.is_single_point:
        return _product_of_constants(a, b)
    return _scaled(ev, a, b.min_value, ir.multiply)


def _product_of_constants(a: IntervalSet, b: IntervalSet) -> IntervalSet:
    ends = (a.min_value, a.max_value, b.min_value, b.max_value)
    if not all(isinstance(end, ir.IntImm) for end in ends):
        return EVERYTHING
    values = [end.value for end in ends if isinstance(end, ir.IntImm)]
    corners = [x * y for x in values[:2] for y in values[2:]]
    dtype = a.min_value.dtype
    low, high = min(corners), max(corners)
    if ir.wrap_int(low, dtype) != low or ir.wrap_int(high, dtype) != high:
        return EVERYTHING
    return IntervalSet(ir.const(low, dtype), ir.const(high, dtype))


def _scaled(ev: _Evaluator, a: IntervalSet, factor: ir.PrimExpr, combine: _Combine) -> IntervalSet:
    """`combine(a, factor)` for an operation that is monotonic in `a` on either sign of `factor`."""
    low, high = _low(a), _high(a)
    if ev.is_nonnegative(factor):
        return ev.make(
            None if low is None else combine(low, factor),
            None if high is None else combine(high, factor),
        )
    if ev.is_nonnegative(ir.subtract(ir.const(0, factor.dtype), factor)):
        return ev.make(
            None if high is None else combine(high, factor),
            None if low is None else combine(low, factor),
        )
    return EVERYTHING


def _floordiv(ev: _Evaluator, expr: ir.BinaryOp) -> IntervalSet:
    a, b = ev.visit(expr.a), ev.visit(expr.b)
    if a.is_nothing or b.is_nothing:
        return NOTHING
    zero = isinstance(b.min_value, ir.IntImm) and b.min_value.value == 0
    return (
        _scaled(ev, a, b.min_value, ir.floordiv) if b.is_single_point and not zero else EVERYTHING
    )


def _floormod(ev: _Evaluator, expr: ir.BinaryOp) -> IntervalSet:
    a, b = ev.visit(expr.a), ev.visit(expr.b)
    if a.is_nothing or b.is_nothing:
        return NOTHING
    divisor = b.min_value
    if not b.is_single_point or not ev.is_positive(divisor):
        return EVERYTHING
    low, high = _low(a), _high(a)
    if low is not None and high is not None:
        same_cycle = ev.prover.can_prove_equal(
            ir.floordiv(low, divisor), ir.floordiv(high, divisor)
        )
        if same_cycle:
            return ev.make(ir.floormod(low, divisor), ir.floormod(high, divisor))
    return ev.make(ir.const(0, expr.dtype), ir.subtract(divisor, 1))


def _min(ev: _Evaluator, expr: ir.BinaryOp) -> IntervalSet:
    a, b = ev.visit(expr.a), ev.visit(expr.b)
    if a.is_nothing or b.is_nothing:
        return NOTHING
    highs = [high for high in (_high(a), _high(b)) if high is not None]
    high = ir.minimum(*highs) if len(highs) == 2 else highs[0] if highs else None
    return ev.make(_both(_low(a), _low(b), ir.minimum), high)


def _max(ev: _Evaluator, expr: ir.BinaryOp) -> IntervalSet:
    a, b = ev.visit(expr.a), ev.visit(expr.b)
    if a.is_nothing or b.is_nothing:
        return NOTHING
    lows = [low for low in (_low(a), _low(b)) if low is not None]
    low = ir.maximum(*lows) if len(lows) == 2 else lows[0] if lows else None
    return ev.make(low, _both(_high(a), _high(b), ir.maximum))


def _select(ev: _Evaluator, expr: ir.Select) -> IntervalSet:
    return union_of([ev.visit(expr.true_value), ev.visit(expr.false_value)], ev.prover)


def _call(ev: _Evaluator, expr: ir.Call) -> IntervalSet:
    name = expr.op.name if isinstance(expr.op, ir.Op) else ""
    if name == "tir.if_then_else":
        return union_of([ev.visit(expr.args[1]), ev.visit(expr.args[2])], ev.prover)
    return ev.visit(expr.args[0]) if name == "tir.likely" else EVERYTHING


def _cast(ev: _Evaluator, expr: ir.Cast) -> IntervalSet:
    if not (expr.dtype.is_int and expr.value.dtype.is_int):
        return EVERYTHING
    if expr.dtype.bits < expr.value.dtype.bits:
        return EVERYTHING
    inner = ev.visit(expr.value)
    low, high = _low(inner), _high(inner)
    return ev.make(
        None if low is None else ir.cast(expr.dtype, low),
        None if high is None else ir.cast(expr.dtype, high),
    )


def _ramp(ev: _Evaluator, expr: ir.Ramp) -> IntervalSet:
    last = ir.add(expr.base, ir.multiply(expr.stride, expr.lanes - 1))
    return union_of([ev.visit(expr.base), ev.visit(last)], ev.prover)


_RULES: dict[type, Callable[[_Evaluator, Any], IntervalSet]] = {
    ir.Add: _add,
    ir.Sub: _sub,
    ir.Mul: _mul,
    ir.FloorDiv: _floordiv,
    ir.FloorMod: _floormod,
    ir.Min: _min,
    ir.Max: _max,
    ir.Select: _select,
    ir.Call: _call,
    ir.Cast: _cast,
    ir.Ramp: _ramp,
    ir.Broadcast: lambda ev, expr: ev.visit(expr.value),
}


def union_of(sets: Iterable[IntervalSet], prover: Prover) -> IntervalSet:
    """The smallest interval around all sets."""
    simplify = prover.simplify
    result = NOTHING
    for item in sets:
        if result.is_nothing:
            result = item
        elif not item.is_nothing:
            low = _both(_low(result), _low(item), ir.minimum)
            high = _both(_high(result), _high(item), ir.maximum)
            result = IntervalSet(
                NEGATIVE_INFINITY if low is None else simplify(low),
                POSITIVE_INFINITY if high is None else simplify(high),
            )
    return result


def intersection_of(sets: Iterable[IntervalSet], prover: Prover) -> IntervalSet:
    """The interval that all sets share."""
    result = EVERYTHING
    for item in sets:
        if item.is_nothing:
            return NOTHING
        lows = [low for low in (_low(result), _low(item)) if low is not None]
        highs = [high for high in (_high(result), _high(item)) if high is not None]
        low = ir.maximum(*lows) if len(lows) == 2 else lows[0] if lows else NEGATIVE_INFINITY
        high = ir.minimum(*highs) if len(highs) == 2 else highs[0] if highs else POSITIVE_INFINITY
        result = IntervalSet(
            low if low is NEGATIVE_INFINITY else prover.simplify(low),
            high if high is POSITIVE_INFINITY else prover.simplify(high),
        )
    if result.has_lower_bound and result.has_upper_bound:
        empty = prover.can_prove_less(result.max_value, result.min_value)
        return NOTHING if empty else result
    return result
