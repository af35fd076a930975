"""Loops are split so that bound checks vanish from their main part.

Tiles that do not divide their extent leave conditions marked `likely`. A serial loop is cut into
the iterations where all such conditions hold (they are dropped there) and the rest. Where a loop
cannot be cut, because it is parallel or the condition is not linear in it, its body is versioned:
one test decides between a body without checks and one with them. The first step of a reduction
loop, which alone runs the initialisation, is cut off in the same way.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from tilewright.ir import (
    FALSE,
    Call,
    For,
    ForKind,
    IfThenElse,
    IntImm,
    PrimExpr,
    PrimFunc,
    Range,
    Stmt,
    Var,
    const,
    floordiv,
    greater_equal,
    is_no_op,
    logical_and,
    maximum,
    minimum,
    no_op,
    replace,
    seq,
)
from tilewright.ir.intrinsics import likely
from tilewright.lowering.base import FunctionPass, register_pass
from tilewright.lowering.bound_check import BoundCheck, conditions_in
from tilewright.lowering.scoped import ScopedRewriter
from tilewright.lowering.walk import LIKELY, FoldingSubstituter, is_false, is_true
from tilewright.target import Target

_CUTTABLE = (ForKind.SERIAL, ForKind.UNROLLED)


@register_pass
@dataclass(frozen=True)
class LoopPartition(FunctionPass):
    """Split loops so that conditions marked `likely` hold throughout their main part."""

    name: ClassVar[str] = "LoopPartition"
    enable: bool = True
    partition_const_loop: bool = True  # cut loops with constant bounds, too
    max_copied_stores: int = 64  # a body with more stores is not copied for bound checks
    max_peeled_stores: int = 16  # nor, beyond this, for the first step of a reduction

    def run_function(self, func: PrimFunc, target: Target | None = None) -> PrimFunc:
        if not self.enable or not conditions_in(func.body)[0]:
            return func
        return func.with_body(_Partitioner(self, func).rewrite(func.body))


class _Decided(FoldingSubstituter):
    """Replaces conditions, by identity, with what is known of them; and variables."""

    def __init__(
        self, known: dict[PrimExpr, PrimExpr], bindings: dict[Var, PrimExpr], fresh: bool
    ) -> None:
        super().__init__(bindings, fresh_binders=fresh)
        self._known = known

    def visit(self, node: Any) -> Any:
        decided = self._known.get(node)
        return super().visit(node) if decided is None else decided


class _Unmarked(FoldingSubstituter):
    """Removes the marks, so that nobody tries to make the conditions vanish once more."""

    def visit_call(self, node: Call) -> Any:
        return self.visit(node.args[0]) if node.op is LIKELY else super().visit_call(node)


class _Partitioner(ScopedRewriter):
    def __init__(self, options: LoopPartition, func: PrimFunc) -> None:
        super().__init__(func)
        self._options = options

    def visit_prim_expr(self, node: PrimExpr) -> PrimExpr:
        return self.analyzer.simplify(node) if node.dtype == "bool" else node

    def visit_call(self, node: Call) -> Any:
        if node.op is not LIKELY:
            return node
        inner = self.visit(node.args[0])
        return node if inner is node.args[0] else likely(inner)

    visit_select = visit_let = visit_prim_expr

    def visit_for(self, node: For) -> Any:
        self.analyzer.bind(node.loop_var, Range(node.min, node.extent), allow_override=True)
        checks = self._checks(node)
        if checks and node.kind in _CUTTABLE:
            pieces = self._cut(node, checks) or self._cut_symbolic(node, checks)
            if pieces is not None:
                return pieces
        elif checks and node.kind == ForKind.VECTORIZED:
            return _shrink(node, checks)
        body = self._version(node, checks) or self.visit(node.body)
        return node if body is node.body else replace(node, body=body)

    def _checks(self, node: For) -> list[BoundCheck]:
        conditions, stores = conditions_in(node.body)
        if stores > self._options.max_copied_stores:
            return []
        checks = [BoundCheck.of(found, node.loop_var, self.analyzer) for found in conditions]
        may_peel = stores <= self._options.max_peeled_stores and node.kind == ForKind.SERIAL
        return [
            check
            for check in checks
            if check is not None and (may_peel or not check.is_first_step_test)
        ]

    # --- a loop with constant bounds: before, main part, after ---------------------------------

    def _cut(self, node: For, checks: list[BoundCheck]) -> Stmt | None:
        if not isinstance(node.min, IntImm) or not isinstance(node.extent, IntImm):
            return None
        if not self._options.partition_const_loop:
            return None
        begin, end = node.min.value, node.min.value + node.extent.value - 1
        low, high, known = begin, end, {}
        for check in checks:
            span = check.span()
            if span is None:
                continue
            first = low if span[0] is None else max(low, span[0])
            last = high if span[1] is None else min(high, span[1])
            if first <= last:  # else this condition is never decided within what is left
                low, high, known[check.node] = first, last, check.decided
        if not known:
            return None
        pieces = [(begin, low - 1, self._failing(checks, begin, low - 1)), (low, high, known)]
        pieces.append((high + 1, end, self._failing(checks, high + 1, end)))
        return seq(self._piece(node, *piece) for piece in pieces)

    def _failing(self, checks: list[BoundCheck], first: int, last: int) -> dict[PrimExpr, PrimExpr]:
        """The bound checks that are sure to fail from `first` to `last`."""
        if first > last:
            return {}
        failing: dict[PrimExpr, PrimExpr] = {}
        for check in checks:
            if check.is_first_step_test or not check.coefficient:
                continue
            easiest = last if check.coefficient > 0 else first
            best = self.analyzer.simplify(check.best_at(easiest))
            if isinstance(best, IntImm) and best.value < 0:
                failing[check.node] = FALSE
        return failing

    def _piece(
        self, node: For, first: int, last: int, known: dict[PrimExpr, PrimExpr]
    ) -> Stmt | None:
        """The iterations from `first` to `last`, with what is known of conditions there."""
        if first > last:
            return None
        kind = node.loop_var.dtype
        if first == last:
            only = {node.loop_var: const(first, kind)}
            alone: Stmt = self.visit(_Decided(known, only, fresh=True).visit(node.body))
            return alone
        loop_var = replace(node.loop_var)
        body = _Decided(known, {node.loop_var: loop_var}, fresh=True).visit(node.body)
        if is_no_op(body):
            return None
        extent = const(last - first + 1, node.extent.dtype)
        loop = replace(node, loop_var=loop_var, min=const(first, kind), extent=extent, body=body)
        result: Stmt = self.visit(loop)
        return result

    # --- a loop with a symbolic extent: main part, after -----------------------------------------

    def _cut_symbolic(self, node: For, checks: list[BoundCheck]) -> Stmt | None:
        if isinstance(node.extent, IntImm) or node.annotations:
            return None
        upper = [check for check in checks if check.coefficient and check.coefficient < 0]
        upper = [check for check in upper if not check.is_first_step_test]
        if not upper:
            return None
        last = node.min + node.extent - 1
        for check in upper:
            last = minimum(last, floordiv(check.rest, -(check.coefficient or 1)))
        count = self.analyzer.simplify(maximum(last - node.min + 1, 0))
        known = {check.node: check.decided for check in upper}
        main_var, rest_var = replace(node.loop_var), replace(node.loop_var)
        main_body = _Decided(known, {node.loop_var: main_var}, fresh=True).visit(node.body)
        main = replace(node, loop_var=main_var, extent=count, body=main_body)
        rest_body = _Unmarked({node.loop_var: rest_var}, fresh_binders=True).visit(node.body)
        start, extent = node.min + count, self.analyzer.simplify(node.extent - count)
        rest = replace(node, loop_var=rest_var, min=start, extent=extent, body=rest_body)
        self.analyzer.bind(main_var, Range(main.min, count), allow_override=True)
        return seq((replace(main, body=self.visit(main.body)), rest))

    # --- a loop that cannot be cut: one test, two bodies ----------------------------------------

    def _version(self, node: For, checks: list[BoundCheck]) -> Stmt | None:
        bound_checks = [
            check for check in checks if check.spans_loops and not check.is_first_step_test
        ]
        if not bound_checks:
            return None
        tests = (greater_equal(check.worst, 0) for check in bound_checks)
        test = self.analyzer.simplify(logical_and(*tests))
        if is_false(test):
            return None
        known = {check.node: check.decided for check in bound_checks}
        fast: Stmt = _Decided(known, {}, fresh=False).visit(node.body)
        if is_true(test):
            return self._visited(fast)
        slow: Stmt = _Unmarked({}, fresh_binders=True).visit(node.body)
        return IfThenElse(likely(test), self._visited(fast), slow)

    def _visited(self, stmt: Stmt) -> Stmt:
        result: Stmt = self.visit(stmt)
        return result


def _shrink(node: For, checks: list[BoundCheck]) -> Stmt:
    """A vectorised loop of which only the first lanes are on: fewer lanes, or else a mask."""
    guard = node.body
    if not isinstance(guard, IfThenElse) or guard.else_case is not None or len(checks) != 1:
        return node
    span = checks[0].span()
    alone = guard.condition is checks[0].node or (
        isinstance(guard.condition, Call) and guard.condition.args[0] is checks[0].node
    )
    if span is None or span[1] is None or not alone or not isinstance(node.min, IntImm):
        return node
    lanes = span[1] - node.min.value + 1
    if lanes <= 0:
        return no_op()
    if isinstance(node.extent, IntImm) and lanes >= node.extent.value:
        return replace(node, body=guard.then_case)
    if lanes & (lanes - 1):
        return node  # not a power of two: a mask on whole vectors is cheaper
    return replace(node, extent=const(lanes, node.extent.dtype), body=guard.then_case)
