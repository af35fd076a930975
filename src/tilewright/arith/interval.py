"""Interval sets with symbolic ends, and their evaluation over the domains of variables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, Final, Protocol, TypeAlias

from tilewright import ir

__all__ = ["POSITIVE_INFINITY", "NEGATIVE_INFINITY", "IntervalSet", "EVERYTHING", "NOTHING"]


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
            return IntervalSet.point(
                expr if isinstance(expr, ir.Var) else self.prover.simplify(expr)
            )
        if expr.dtype.is_int and expr.dtype.lanes == 1:
            # Terms that cancel must cancel before each of them is relaxed on its own.
            expr = self.prover.simplify(expr)
            if isinstance(expr, ir.IntImm):
                return IntervalSet.point(expr)
        if isinstance(expr, ir.Var):
            return self._variable(expr)
        if isinstance(expr, ir.BinaryOp) and type(expr) in _BINARY:
            a, b = self.visit(expr.a), self.visit(expr.b)
            return NOTHING if a.is_nothing or b.is_nothing else _BINARY[type(expr)](self, a, b)
        rule = _RULES.get(type(expr))
        return EVERYTHING if rule is None else rule(self, expr)

    def either(self, *exprs: ir.PrimExpr) -> IntervalSet:
        """All values of several expressions."""
        return union_of(map(self.visit, exprs), self.prover)

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

    def is_nonnegative(self, expr: ir.PrimExpr) -> bool:
        return expr.dtype.is_int and self.prover.can_prove(expr >= 0)

    def make(self, low: ir.PrimExpr | None, high: ir.PrimExpr | None) -> IntervalSet:
        return _interval(self.prover, low, high)


def _low(interval: IntervalSet) -> ir.PrimExpr | None:
    return interval.min_value if interval.has_lower_bound else None


def _high(interval: IntervalSet) -> ir.PrimExpr | None:
    return interval.max_value if interval.has_upper_bound else None


_Combine: TypeAlias = Callable[[ir.PrimExpr, ir.PrimExpr], ir.PrimExpr]


def _both(a: ir.PrimExpr | None, b: ir.PrimExpr | None, combine: _Combine) -> ir.PrimExpr | None:
    """What two ends make; none if one of them is infinite."""
    return None if a is None or b is None else combine(a, b)


def _tighter(a: ir.PrimExpr | None, b: ir.PrimExpr | None, pick: _Combine) -> ir.PrimExpr | None:
    """The end that `pick` makes of two; the finite one if the other is infinite."""
    return b if a is None else a if b is None else pick(a, b)


def _interval(prover: Prover, low: ir.PrimExpr | None, high: ir.PrimExpr | None) -> IntervalSet:
    return IntervalSet(
        NEGATIVE_INFINITY if low is None else prover.simplify(low),
        POSITIVE_INFINITY if high is None else prover.simplify(high),
    )


def _mul(ev: _Evaluator, a: IntervalSet, b: IntervalSet) -> IntervalSet:
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
    low, high = _both(_low(a), factor, combine), _both(_high(a), factor, combine)
    if ev.is_nonnegative(factor):
        return ev.make(low, high)
    if ev.is_nonnegative(ir.subtract(ir.const(0, factor.dtype), factor)):
        return ev.make(high, low)
    return EVERYTHING


def _floordiv(ev: _Evaluator, a: IntervalSet, b: IntervalSet) -> IntervalSet:
    zero = isinstance(b.min_value, ir.IntImm) and b.min_value.value == 0
    if zero or not b.is_single_point:
        return EVERYTHING
    return _scaled(ev, a, b.min_value, ir.floordiv)


def _floormod(ev: _Evaluator, a: IntervalSet, b: IntervalSet) -> IntervalSet:
    divisor = b.min_value
    if not (b.is_single_point and divisor.dtype.is_int and ev.prover.can_prove(divisor > 0)):
        return EVERYTHING
    low, high = _low(a), _high(a)
    if low is not None and high is not None:
        cycles = ir.floordiv(low, divisor), ir.floordiv(high, divisor)
        if ev.prover.can_prove_equal(*cycles):
            return ev.make(ir.floormod(low, divisor), ir.floormod(high, divisor))
    return ev.make(ir.const(0, divisor.dtype), ir.subtract(divisor, 1))


def _call(ev: _Evaluator, expr: ir.Call) -> IntervalSet:
    name = expr.op.name if isinstance(expr.op, ir.Op) else ""
    if name == "tir.if_then_else":
        return ev.either(*expr.args[1:])
    return ev.visit(expr.args[0]) if name == "tir.likely" else EVERYTHING


def _cast(ev: _Evaluator, expr: ir.Cast) -> IntervalSet:
    dtype, source = expr.dtype, expr.value.dtype
    if not (dtype.is_int and source.is_int) or dtype.bits < source.bits:
        return EVERYTHING
    inner = ev.visit(expr.value)
    ends = (_low(inner), _high(inner))
    return ev.make(*(None if end is None else ir.cast(dtype, end) for end in ends))


# Of two intervals that hold something.
_BINARY: dict[type, Callable[[_Evaluator, IntervalSet, IntervalSet], IntervalSet]] = {
    ir.Add: lambda ev, a, b: ev.make(
        _both(_low(a), _low(b), ir.add), _both(_high(a), _high(b), ir.add)
    ),
    ir.Sub: lambda ev, a, b: ev.make(
        _both(_low(a), _high(b), ir.subtract), _both(_high(a), _low(b), ir.subtract)
    ),
    ir.Mul: _mul,
    ir.FloorDiv: _floordiv,
    ir.FloorMod: _floormod,
    ir.Min: lambda ev, a, b: ev.make(
        _both(_low(a), _low(b), ir.minimum), _tighter(_high(a), _high(b), ir.minimum)
    ),
    ir.Max: lambda ev, a, b: ev.make(
        _tighter(_low(a), _low(b), ir.maximum), _both(_high(a), _high(b), ir.maximum)
    ),
}
_RULES: dict[type, Callable[[_Evaluator, Any], IntervalSet]] = {
    ir.Select: lambda ev, expr: ev.either(expr.true_value, expr.false_value),
    ir.Call: _call,
    ir.Cast: _cast,
    ir.Ramp: lambda ev, expr: ev.either(
        expr.base, ir.add(expr.base, ir.multiply(expr.stride, expr.lanes - 1))
    ),
    ir.Broadcast: lambda ev, expr: ev.visit(expr.value),
}


def union_of(sets: Iterable[IntervalSet], prover: Prover) -> IntervalSet:
    """The smallest interval around all sets."""
    result = NOTHING
    for item in sets:
        if result.is_nothing:
            result = item
        elif not item.is_nothing:
            low = _both(_low(result), _low(item), ir.minimum)
            high = _both(_high(result), _high(item), ir.maximum)
            result = _interval(prover, low, high)
    return result


def intersection_of(sets: Iterable[IntervalSet], prover: Prover) -> IntervalSet:
    """The interval that all sets share."""
    result = EVERYTHING
    for item in sets:
        if item.is_nothing:
            return NOTHING
        low = _tighter(_low(result), _low(item), ir.maximum)
        high = _tighter(_high(result), _high(item), ir.minimum)
        result = _interval(prover, low, high)
    if result.has_lower_bound and result.has_upper_bound:
        empty = prover.can_prove_less(result.max_value, result.min_value)
        return NOTHING if empty else result
    return result
