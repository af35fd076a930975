"""Solves a condition for one variable: where it holds whatever the others do."""

from __future__ import annotations

from tilewright import ir
from tilewright.arith import interval as intervals
from tilewright.arith.analyzer import Analyzer
from tilewright.arith.bounds import ConstIntBound
from tilewright.arith.linear import WHOLE, LinearForm


def deduce_bound(
    var: ir.Var,
    condition: ir.ExprLike,
    hint_map: intervals.DomainMap | None = None,
    relax_map: intervals.DomainMap | None = None,
) -> intervals.IntervalSet:
    """Values of `var` for which `condition` holds for all values of the variables in `relax_map`.

    The set is exact where the condition is linear in `var`, and empty where it cannot be solved.
    Variables that are only in `hint_map` stay symbolic in the answer.
    """
    analyzer = Analyzer()
    for other, domain in (hint_map or {}).items():
        if other is not var:
            _bind_constant_domain(analyzer, other, domain)
    simple = analyzer.simplify(ir.convert(condition))
    if not isinstance(simple, (ir.LT, ir.LE, ir.GT, ir.GE)) or not simple.a.dtype.is_int:
        return intervals.NOTHING
    below, above = (
        (simple.a, simple.b) if isinstance(simple, (ir.LT, ir.LE)) else (simple.b, simple.a)
    )
    limit = -1 if isinstance(simple, (ir.LT, ir.GT)) else 0
    difference = analyzer.linear_form(below).plus(analyzer.linear_form(above), -1)
    return _solve(analyzer, var, difference, limit, simple.a, relax_map or {})


def _bind_constant_domain(analyzer: Analyzer, var: ir.Var, domain: intervals.Domain) -> None:
    interval = intervals.as_interval(domain)
    if not (interval.has_lower_bound and interval.has_upper_bound):
        return
    low = analyzer.const_int_bound(interval.min_value)
    high = analyzer.const_int_bound(interval.max_value)
    analyzer.update(var, ConstIntBound(low.min_value, high.max_value))


def _solve(
    analyzer: Analyzer,
    var: ir.Var,
    form: LinearForm,
    limit: int,
    sample: ir.PrimExpr,
    relax_map: intervals.DomainMap,
) -> intervals.IntervalSet:
    """`var` such that `form <= limit` for the largest value of everything else."""
    own = [
        (split, scale) for split, scale in form.terms.items() if ir.uses_var(split[0], var.same_as)
    ]
    if len(own) != 1 or own[0][0][0] is not var or own[0][0][1:] != (1, WHOLE):
        return intervals.NOTHING
    split, scale = own[0]
    rest = LinearForm({s: v for s, v in form.terms.items() if s is not split}, form.base)
    others = intervals.evaluate(analyzer.from_linear_form(rest, sample.dtype), relax_map, analyzer)
    if not others.has_upper_bound:
        return intervals.NOTHING
    room = ir.subtract(limit, others.max_value)  # scale * var <= room
    if scale > 0:
        return intervals.IntervalSet(
            intervals.NEGATIVE_INFINITY, analyzer.simplify(ir.floordiv(room, scale))
        )
    smallest = ir.subtract(0, ir.floordiv(room, -scale))
    return intervals.IntervalSet(analyzer.simplify(smallest), intervals.POSITIVE_INFINITY)
