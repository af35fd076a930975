"""Predicates of iterator maps: conjunctions of bounds on linear expressions of the iterators."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from tilewright.arith.analyzer import Analyzer
from tilewright.arith.iter_map import is_constant
from tilewright.arith.iter_map_padding import NotAnIterMap
from tilewright.arith.linear import WHOLE, LinearForm
from tilewright.ir import (
    GE,
    GT,
    LE,
    LT,
    And,
    BinaryOp,
    Call,
    IntImm,
    Op,
    PrimExpr,
    Range,
    Var,
    add,
    children,
    const,
    maximum,
    minimum,
    subtract,
    uses_var,
)

_LIKELY = Op.get("tir.likely")
_NO_PARSE = "the predicate is not a conjunction of bounds on linear expressions of the iterators"


@dataclass(frozen=True, eq=False)
class BoundConstraint:
    """`low <= expr < high`; None means unbounded."""

    expr: PrimExpr
    low: PrimExpr | None
    high: PrimExpr | None


def split_conjunction(condition: PrimExpr) -> Iterator[PrimExpr]:
    """The parts of an `And`, without `likely` hints and constants that hold."""
    match condition:
        case And(a=a, b=b):
            yield from split_conjunction(a)
            yield from split_conjunction(b)
        case Call(op=op, args=(inner,)) if op is _LIKELY:
            yield from split_conjunction(inner)
        case IntImm(value=value) if value:
            return
        case _:
            yield condition


def parse_predicate(
    analyzer: Analyzer, predicate: PrimExpr, iters: Mapping[Var, Range]
) -> list[BoundConstraint]:
    """The bounds that a predicate states; parts without iterators are left to the caller."""
    merged: dict[PrimExpr, BoundConstraint] = {}
    for condition in split_conjunction(predicate):
        if not uses_var(condition, iters.__contains__) or analyzer.can_prove(condition):
            continue
        found = _parse_comparison(analyzer, condition, iters)
        key = analyzer.representative(found.expr)
        merged[key] = _merge(analyzer, merged.get(key), found)
    return sorted(merged.values(), key=lambda constraint: _size(constraint.expr))


def _merge(
    analyzer: Analyzer, old: BoundConstraint | None, new: BoundConstraint
) -> BoundConstraint:
    if old is None:
        return new
    low = old.low if new.low is None else new.low
    high = old.high if new.high is None else new.high
    if old.low is not None and new.low is not None:
        low = analyzer.simplify(maximum(old.low, new.low))
    if old.high is not None and new.high is not None:
        high = analyzer.simplify(minimum(old.high, new.high))
    return BoundConstraint(old.expr, low, high)


def _parse_comparison(
    analyzer: Analyzer, condition: PrimExpr, iters: Mapping[Var, Range]
) -> BoundConstraint:
    if not isinstance(condition, (LT, LE, GT, GE)) or not condition.a.dtype.is_int:
        raise NotAnIterMap(_NO_PARSE)
    below, above = _ordered(condition)
    slack = 0 if isinstance(condition, (LT, GT)) else 1
    # below - above < slack, with the iterators on the left and everything else on the right
    form = analyzer.linear_form(below).plus(analyzer.linear_form(above), -1)
    dtype = condition.a.dtype
    moving = {
        split: scale
        for split, scale in form.terms.items()
        if uses_var(split[0], iters.__contains__)
    }
    fixed = LinearForm({s: v for s, v in form.terms.items() if s not in moving}, form.base - slack)
    limit = analyzer.from_linear_form(fixed.times(-1), dtype)
    if not moving:
        raise NotAnIterMap("the predicate does not hold for the only value of an iterator")
    if max(moving.values()) > 0:
        return BoundConstraint(analyzer.from_linear_form(LinearForm(moving), dtype), None, limit)
    expr = analyzer.from_linear_form(LinearForm(moving).times(-1), dtype)
    low = analyzer.simplify(subtract(add(const(1, dtype), 0), limit))
    return BoundConstraint(expr, low, None)


def _ordered(condition: BinaryOp) -> tuple[PrimExpr, PrimExpr]:
    """The side that must be smaller, and the other."""
    if isinstance(condition, (LT, LE)):
        return condition.a, condition.b
    return condition.b, condition.a


def _size(expr: PrimExpr) -> int:
    return 1 + sum(_size(child) for child in children(expr) if isinstance(child, PrimExpr))


def shrink_domains(
    analyzer: Analyzer, iters: Mapping[Var, Range], constraints: Iterable[BoundConstraint]
) -> tuple[dict[Var, Range], list[BoundConstraint]]:
    """Bounds on single variables narrow their domains; the other constraints remain."""
    domains, rest = dict(iters), []
    for constraint in constraints:
        form = analyzer.linear_form(constraint.expr)
        ((atom, lower, upper), scale) = next(iter(form.terms.items()))
        single = len(form.terms) == 1 and (lower, upper, scale) == (1, WHOLE, 1)
        if single and isinstance(atom, Var):
            domains[atom] = _narrowed(analyzer, domains[atom], constraint)
        else:
            rest.append(constraint)
    return domains, rest


def _narrowed(analyzer: Analyzer, domain: Range, constraint: BoundConstraint) -> Range:
    first, end = domain.min, add(domain.min, domain.extent)
    if constraint.low is not None:
        first = maximum(first, constraint.low)
    if constraint.high is not None:
        end = minimum(end, constraint.high)
    first = analyzer.simplify(first)
    extent = analyzer.simplify(subtract(end, first))
    if isinstance(extent, IntImm) and extent.value <= 0:
        raise NotAnIterMap("the predicate leaves no iteration at all")
    return domain if extent is domain.extent and first is domain.min else Range(first, extent)


def is_true(predicate: PrimExpr) -> bool:
    return is_constant(predicate, 1)
