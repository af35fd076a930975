"""Conditions that decide themselves for part of a loop.

A bound check `i * 16 + j < 100` holds for every `j` once `i` is small enough; the test for the
first step of a reduction, `k * 4 + l == 0`, fails for every `l` once `k` is large enough. Both are
decided where `slack >= 0` for a slack that is linear in the inner loops, so its worst case over
them is an expression in what lies outside.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.arith import Analyzer
from tilewright.ir import (
    EQ,
    FALSE,
    GE,
    GT,
    LE,
    LT,
    TRUE,
    BufferStore,
    Call,
    For,
    IfThenElse,
    IntImm,
    PrimExpr,
    Stmt,
    Var,
    Visitor,
    const,
    substitute,
    uses_var,
)
from tilewright.lowering.linear_form import linear_form
from tilewright.lowering.walk import LIKELY
from tilewright.lowering.widen_expr import conjuncts


@dataclass(frozen=True)
class Condition:
    """A part of the condition of an `if`, and the loops between it and where the search began."""

    node: PrimExpr
    loops: tuple[For, ...]


class _ConditionFinder(Visitor):
    def __init__(self) -> None:
        self.found: list[Condition] = []
        self.stores = 0
        self._loops: tuple[For, ...] = ()

    def visit_prim_expr(self, node: PrimExpr) -> None:
        """Only statements have the conditions that are looked for."""

    def visit_buffer_store(self, node: BufferStore) -> None:
        self.stores += 1

    def visit_for(self, node: For) -> None:
        outside = self._loops
        self._loops = (*outside, node)
        self.generic_visit(node)
        self._loops = outside

    def visit_if_then_else(self, node: IfThenElse) -> None:
        condition = node.condition
        marked = isinstance(condition, Call) and condition.op is LIKELY
        for part in conjuncts(condition):
            if marked or isinstance(part, EQ):
                self.found.append(Condition(part, self._loops))
        self.generic_visit(node)


def conditions_in(stmt: Stmt) -> tuple[list[Condition], int]:
    """The bound checks and first-step tests below a statement, and its number of stores."""
    finder = _ConditionFinder()
    finder.visit(stmt)
    return finder.found, finder.stores


@dataclass(frozen=True)
class BoundCheck:
    """A condition that is sure to be `decided` wherever `worst >= 0`."""

    node: PrimExpr
    decided: PrimExpr
    worst: PrimExpr  # in variables from outside and the loop variable
    best: PrimExpr  # where this is negative, a bound check is sure to fail
    coefficient: int | None  # of the loop variable in `worst`; None: not linear
    rest: PrimExpr  # `worst` without the loop variable
    loop_var: Var
    spans_loops: bool  # does the condition change inside inner loops?

    @property
    def is_first_step_test(self) -> bool:
        return self.decided is FALSE

    @staticmethod
    def of(condition: Condition, loop_var: Var, analyzer: Analyzer) -> BoundCheck | None:
        """The check behind a condition, or None if it has no such form or is none of the loop's."""
        slack = _slack(condition.node)
        if slack is None:
            return None
        extremes = _extremes(analyzer.simplify(slack), condition.loops)
        if extremes is None:
            return None
        worst, best = (analyzer.simplify(substitute(slack, ends)) for ends in extremes)
        if not uses_var(worst, lambda var: var is loop_var):
            return None
        decided = FALSE if isinstance(condition.node, EQ) else TRUE
        form = linear_form(worst, lambda var: var is loop_var)
        coefficient = None if form is None else form.coefficients.get(loop_var)
        rest = substitute(worst, {loop_var: const(0, loop_var.dtype)})
        return BoundCheck(
            condition.node,
            decided,
            worst,
            best,
            coefficient,
            analyzer.simplify(rest),
            loop_var,
            bool(extremes[0]),
        )

    def best_at(self, iteration: int) -> PrimExpr:
        """The largest slack in one iteration of the loop."""
        value = const(iteration, self.loop_var.dtype)
        return substitute(self.best, {self.loop_var: value})

    def span(self) -> tuple[int | None, int | None] | None:
        """The first and last iteration between which the condition is decided, if constant."""
        if not self.coefficient or not isinstance(self.rest, IntImm):
            return None
        rest, coefficient = self.rest.value, self.coefficient
        if coefficient > 0:
            return -(rest // coefficient), None
        return None, rest // -coefficient


def _slack(condition: PrimExpr) -> PrimExpr | None:
    """An expression that is not negative exactly where the condition is decided."""
    match condition:
        case LT(a=a, b=b):
            slack = b - a - 1 if a.dtype.is_int else None
        case LE(a=a, b=b):
            slack = b - a if a.dtype.is_int else None
        case GT(a=a, b=b):
            slack = a - b - 1 if a.dtype.is_int else None
        case GE(a=a, b=b):
            slack = a - b if a.dtype.is_int else None
        case EQ(a=a, b=b):  # `a > b` rules it out
            slack = a - b - 1 if a.dtype.is_int else None
        case _:
            slack = None
    return slack


def _extremes(
    slack: PrimExpr, loops: tuple[For, ...]
) -> tuple[dict[Var, PrimExpr], dict[Var, PrimExpr]] | None:
    """The values of inner loop variables where the slack is smallest, and where it is largest."""
    inner = {loop.loop_var: loop for loop in loops}
    form = linear_form(slack, inner.__contains__)
    if form is None:
        return None
    smallest: dict[Var, PrimExpr] = {}
    largest: dict[Var, PrimExpr] = {}
    for var, coefficient in form.coefficients.items():
        loop = inner[var]
        if not isinstance(loop.min, IntImm) or not isinstance(loop.extent, IntImm):
            return None
        first, last = loop.min, loop.min + (loop.extent.value - 1)
        smallest[var], largest[var] = (first, last) if coefficient >= 0 else (last, first)
    return smallest, largest
