"""Predicates of iterator maps: conjunctions of bounds on linear expressions of the iterators."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from tilewright import ir
from tilewright.arith.analyzer import Analyzer
from tilewright.arith.iter_map_padding import NotAnIterMap
from tilewright.arith.linear import WHOLE, LinearForm
from tilewright.arith.numpy_eval import evaluate_on_arrays
from tilewright.errors import ArithError

_LIKELY = ir.Op.get("tir.likely")
_NO_PARSE = "the predicate is not a conjunction of bounds on linear expressions of the iterators"


@dataclass(frozen=True, eq=False)
class BoundConstraint:
    """`low <= expr < high`; None means unbounded."""

    expr: ir.PrimExpr
    low: ir.PrimExpr | None
    high: ir.PrimExpr | None


def split_conjunction(condition: ir.PrimExpr) -> Iterator[ir.PrimExpr]:
    """The parts of an `And`, without `likely` hints and constants that hold."""
    match condition:
        case ir.And(a=a, b=b):
            yield from split_conjunction(a)
            yield from split_conjunction(b)
        case ir.Call(op=op, args=(inner,)) if op is _LIKELY:
            yield from split_conjunction(inner)
        case ir.IntImm(value=value) if value:
            return
        case _:
            yield condition


def parse_predicate(
    analyzer: Analyzer, predicate: ir.PrimExpr, iters: Mapping[ir.Var, ir.Range]
) -> list[BoundConstraint]:
    """The bounds that a predicate states; parts without iterators are left to the caller."""
    merged: dict[ir.PrimExpr, BoundConstraint] = {}
    for condition in split_conjunction(predicate):
        if not ir.uses_var(condition, iters.__contains__):
            continue
        if not _fails_at_the_end(condition, iters) and analyzer.can_prove(condition):
            continue
        found = _parse_comparison(analyzer, condition, iters)
        key = analyzer.representative(found.expr)
        merged[key] = _merge(analyzer, merged.get(key), found)
    return sorted(
        merged.values(), key=lambda found: len(list(ir.nodes_of(found.expr, ir.PrimExpr)))
    )


def _fails_at_the_end(condition: ir.PrimExpr, iters: Mapping[ir.Var, ir.Range]) -> bool:
    """Whether the last values of the iterators are known to fail, so that nothing can be proved."""
    last = {
        var: np.asarray(domain.min.value + domain.extent.value - 1)
        for var, domain in iters.items()
        if isinstance(domain.min, ir.IntImm) and isinstance(domain.extent, ir.IntImm)
    }
    try:
        return not evaluate_on_arrays(condition, last)
    except ArithError:  # it depends on something else
        return False


def _merge(
    analyzer: Analyzer, old: BoundConstraint | None, new: BoundConstraint
) -> BoundConstraint:
    if old is None:
        return new
    low = old.low if new.low is None else new.low
    high = old.high if new.high is None else new.high
    if old.low is not None and new.low is not None:
        low = analyzer.simplify(ir.maximum(old.low, new.low))
    if old.high is not None and new.high is not None:
        high = analyzer.simplify(ir.minimum(old.high, new.high))
    return BoundConstraint(old.expr, low, high)


def _parse_comparison(
    analyzer: Analyzer, condition: ir.PrimExpr, iters: Mapping[ir.Var, ir.Range]
) -> BoundConstraint:
    if not isinstance(condition, (ir.LT, ir.LE, ir.GT, ir.GE)) or not condition.a.dtype.is_int:
        raise NotAnIterMap(_NO_PARSE)
    below, above = _ordered(condition)
    slack = 0 if isinstance(condition, (ir.LT, ir.GT)) else 1
    # below - above < slack, with the iterators on the left and everything else on the right
    form = analyzer.linear_form(below).plus(analyzer.linear_form(above), -1)
    dtype = condition.a.dtype
    moving = {
        split: scale
        for split, scale in form.terms.items()
        if ir.uses_var(split[0], iters.__contains__)
    }
    fixed = LinearForm({s: v for s, v in form.terms.items() if s not in moving}, form.base - slack)
    limit = analyzer.from_linear_form(fixed.times(-1), dtype)
    if not moving:
        raise NotAnIterMap("the predicate does not hold for the only value of an iterator")
    if max(moving.values()) > 0:
        return BoundConstraint(analyzer.from_linear_form(LinearForm(moving), dtype), None, limit)
    expr = analyzer.from_linear_form(LinearForm(moving).times(-1), dtype)
    low = analyzer.simplify(ir.subtract(ir.add(ir.const(1, dtype), 0), limit))
    return BoundConstraint(expr, low, None)


def _ordered(condition: ir.BinaryOp) -> tuple[ir.PrimExpr, ir.PrimExpr]:
    """The side that must be smaller, and the other."""
    if isinstance(condition, (ir.LT, ir.LE)):
        return condition.a, condition.b
    return condition.b, condition.a


def shrink_domains(
    analyzer: Analyzer, iters: Mapping[ir.Var, ir.Range], constraints: Iterable[BoundConstraint]
) -> tuple[dict[ir.Var, ir.Range], list[BoundConstraint]]:
    """Bounds on single variables narrow their domains; the other constraints remain."""
    domains, rest = dict(iters), []
    for constraint in constraints:
        form = analyzer.linear_form(constraint.expr)
        ((atom, lower, upper), scale) = next(iter(form.terms.items()))
        single = len(form.terms) == 1 and (lower, upper, scale) == (1, WHOLE, 1)
        if single and isinstance(atom, ir.Var):
            domains[atom] = _narrowed(analyzer, domains[atom], constraint)
        else:
            rest.append(constraint)
    return domains, rest


def _narrowed(analyzer: Analyzer, domain: ir.Range, constraint: BoundConstraint) -> ir.Range:
    first, end = domain.min, ir.add(domain.min, domain.extent)
    if constraint.low is not None:
        first = ir.maximum(first, constraint.low)
    if constraint.high is not None:
        end = ir.minimum(end, constraint.high)
    first = analyzer.simplify(first)
    extent = analyzer.simplify(ir.subtract(end, first))
    if isinstance(extent, ir.IntImm) and extent.value <= 0:
        raise NotAnIterMap("the predicate leaves no iteration at all")
    return domain if extent is domain.extent and first is domain.min else ir.Range(first, extent)
