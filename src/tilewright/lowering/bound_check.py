"""Conditions that are known for part of a loop.

A bound check `i * 16 + j < 100` holds for every `j` once `i` is small enough; the test for the
first step of a reduction, `k * 4 + l == 0`, fails for every `l` once `k` is large enough. Both are
decided where `slack >= 0` for a slack that is linear in the inner loops, so its worst case over
them is an expression in what lies outside.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

from tilewright import ir
from tilewright.arith import Analyzer
from tilewright.arith.affine import Affine, affine_in
from tilewright.lowering.access_boxes import gap_of
from tilewright.lowering.rewriters import LIKELY
from tilewright.lowering.widen_expr import conjuncts


@dataclass(frozen=True)
class Condition:
    """A part of the condition of an `if`, and the loops between it and where the search began."""

    node: ir.PrimExpr
    loops: tuple[ir.For, ...]


def conditions_in(stmt: ir.Stmt) -> tuple[list[Condition], int]:
    """The bound checks and first-step tests below a statement, and its number of stores."""
    found, stores = [], 0
    for node, loops in ir.with_loops(stmt):
        if isinstance(node, ir.BufferStore):
            stores += 1
        elif isinstance(node, ir.IfThenElse):
            condition = node.condition
            marked = isinstance(condition, ir.Call) and condition.op is LIKELY
            parts = [p for p in conjuncts(condition) if marked or isinstance(p, ir.EQ)]
            found += [Condition(part, loops) for part in parts]
    return found, stores


@dataclass(frozen=True)
class _Inner:
    """What inner loops add to a slack while they run."""

    form: Affine
    ranges: dict[ir.Var, tuple[int, int]]  # first and last iteration

    @staticmethod
    def of(slack: ir.PrimExpr, loops: tuple[ir.For, ...]) -> _Inner | None:
        """The part of inner loops in a slack, if it is linear in them and their bounds constant."""
        by_var = {loop.loop_var: loop for loop in loops}
        found = affine_in(slack, by_var.__contains__)
        if found is None:
            return None
        inner = _Inner(found[0], {})
        for var, _ in inner.form.variable_terms():
            loop = by_var[var]
            if not isinstance(loop.min, ir.IntImm) or not isinstance(loop.extent, ir.IntImm):
                return None
            inner.ranges[var] = loop.min.value, loop.min.value + loop.extent.value - 1
        return inner

    def smallest(self) -> dict[ir.Var, int]:
        """The iterations in which they add least."""
        return {var: self.ranges[var][scale < 0] for var, scale in self.form.variable_terms()}

    @property
    def reach(self) -> int:
        """The most that they add beyond the least."""
        reach: int = self.form.reach(self.ranges)
        return reach

    def at_least(self, number: int) -> ir.PrimExpr:
        """The condition that they add at least `number` beyond the least they can add."""
        terms = self.form.variable_terms()
        number += sum(self.form.terms[var] * value for var, value in self.smallest().items())
        match terms:
            case [(var, -1)]:
                return ir.less_equal(var, -number)
        return ir.greater_equal(functools.reduce(ir.add, (v * scale for v, scale in terms)), number)


@dataclass(frozen=True)
class RaggedTile:
    """Where a condition holds in part: there `-reach <= worst < 0`."""

    left: ir.PrimExpr  # of the condition, in inner loops alone; FALSE if there is no such tile
    reach: int
    has_beyond: bool  # are there iterations beyond it, where nothing holds?


@dataclass(frozen=True)
class BoundCheck:
    """A condition that is sure to be `decided` wherever `worst >= 0`."""

    node: ir.PrimExpr
    decided: ir.PrimExpr
    worst: ir.PrimExpr  # in variables from outside and the loop variable
    coefficient: int | None  # of the loop variable in `worst`; None: not linear
    rest: ir.PrimExpr  # `worst` without the loop variable, if it is linear
    loop_var: ir.Var
    inner: _Inner  # what inner loops add to the slack

    @property
    def is_first_step_test(self) -> bool:
        return self.decided is ir.FALSE

    @property
    def spans_loops(self) -> bool:
        """True if the condition changes inside inner loops."""
        return bool(self.inner.form.terms)

    @staticmethod
    def of(condition: Condition, loop_var: ir.Var, analyzer: Analyzer) -> BoundCheck | None:
        """The check behind a condition, or None if it has no such form or is none of the loop's."""
        slack = _slack(condition.node)
        if slack is None or not ir.uses_var(slack, lambda var: var is loop_var):
            return None
        inner = _Inner.of(slack, condition.loops)
        if inner is None:
            return None
        least = {var: ir.const(value, var.dtype) for var, value in inner.smallest().items()}
        worst = analyzer.simplify(ir.substitute(slack, least))
        if not ir.uses_var(worst, lambda var: var is loop_var):
            return None
        decided = ir.FALSE if isinstance(condition.node, ir.EQ) else ir.TRUE
        found = affine_in(worst, lambda var: var is loop_var)
        if found is None:
            return BoundCheck(condition.node, decided, worst, None, worst, loop_var, inner)
        form, others = found
        rest: ir.PrimExpr = ir.const(form.base, loop_var.dtype)
        if others:
            zero = {loop_var: ir.const(0, loop_var.dtype)}
            rest = analyzer.simplify(ir.substitute(worst, zero))
        coefficient = form.terms[loop_var]
        return BoundCheck(condition.node, decided, worst, coefficient, rest, loop_var, inner)

    def best_at(self, iteration: int) -> ir.PrimExpr:
        """The largest slack in one iteration of the loop; a bound check fails if it is negative."""
        value = ir.const(iteration, self.loop_var.dtype)
        return ir.substitute(self.worst, {self.loop_var: value}) + self.inner.reach

    def last_tile(self, analyzer: Analyzer) -> RaggedTile | None:
        """The one tile where the condition holds in part, if there is only one.

        All tiles but the last are whole. Whatever loops outside do, `worst` can then be negative in
        one way only, and what is left of the condition does not depend on which tile it is.
        """
        lowest = analyzer.const_int_bound(self.worst).min_value
        found = analyzer.modular_set(self.worst)
        reach = self.inner.reach
        start = max(lowest, -reach)
        first = start + (found.base - start) % found.coeff if found.coeff else found.base
        if lowest >= 0 or first + found.coeff < 0:
            return None
        left = ir.FALSE if first >= 0 else self.inner.at_least(-first)
        return RaggedTile(left, reach, lowest < -reach)

    def span(self) -> tuple[int | None, int | None] | None:
        """The first and last iteration between which the condition is decided, if constant."""
        if not self.coefficient or not isinstance(self.rest, ir.IntImm):
            return None
        rest, coefficient = self.rest.value, self.coefficient
        if coefficient > 0:
            return -(rest // coefficient), None
        return None, rest // -coefficient


def _slack(condition: ir.PrimExpr) -> ir.PrimExpr | None:
    """An expression that is not negative exactly where the condition is decided."""
    if isinstance(condition, ir.EQ):  # `a > b` rules it out
        return condition.a - condition.b - 1 if condition.a.dtype.is_int else None
    return gap_of(condition)
