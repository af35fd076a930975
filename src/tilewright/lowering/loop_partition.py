"""Loops are split so that bound checks vanish from their main part.

Tiles that do not divide their extent leave conditions marked `likely`. A serial loop is cut into
the iterations where all such conditions hold (they are dropped there) and the rest. Where a loop
cannot be cut, because it is parallel or the condition is not linear in it, its body is versioned:
one test decides between a body without checks and one with them. If only the last tile is ragged,
and so always in the same way, its inner loops are cut in turn, and it becomes a smaller tile
without checks. The first step of a reduction loop, which alone runs the initialisation, is cut off
in the same way.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tilewright import ir
from tilewright.ir.intrinsics import likely
from tilewright.lowering.analyzing_rewriter import AnalyzingRewriter
from tilewright.lowering.base import FunctionPass, register_pass
from tilewright.lowering.bound_check import BoundCheck, RaggedTile, conditions_in
from tilewright.lowering.rewriters import LIKELY, FoldingSubstituter
from tilewright.lowering.widen_expr import conjuncts
from tilewright.target import Target

# Rows and columns may be ragged at once; each test doubles the code.
MAX_NESTED_VERSIONS = 2
WIDEST_VECTOR = 512
GPU_VECTOR = 128
_CUTTABLE = (ir.ForKind.SERIAL, ir.ForKind.UNROLLED)


@register_pass
class LoopPartition(FunctionPass):
    """Split loops so that conditions marked `likely` hold throughout their main part."""

    enable: bool = True
    partition_const_loop: bool = True  # cut loops with constant bounds, too
    max_copied_stores: int = 64  # a body with more stores is not copied for bound checks
    max_peeled_stores: int = 16  # nor, beyond this, for the first step of a reduction

    def run_function(self, func: ir.PrimFunc, target: Target | None = None) -> ir.PrimFunc:
        if not self.enable or not conditions_in(func.body)[0]:
            return func
        return func.with_body(_Partitioner(self, func, _vector_bits(target)).rewrite(func.body))


def _vector_bits(target: Target | None) -> int:
    if target is None:
        return WIDEST_VECTOR
    return target.vector_bits if target.is_cpu else GPU_VECTOR


class _Decided(FoldingSubstituter):
    """Replaces conditions, by identity, with what is known of them; and variables."""

    def __init__(
        self,
        known: dict[ir.PrimExpr, ir.PrimExpr],
        bindings: dict[ir.Var, ir.PrimExpr],
        fresh: bool,
    ) -> None:
        super().__init__(bindings, fresh_binders=fresh)
        self._known = known

    def visit(self, node: Any) -> Any:
        return super().visit(self._known.get(node, node))


class _Unmarked(FoldingSubstituter):
    """Removes the marks, so that nobody tries to make the conditions vanish once more."""

    def visit_call(self, node: ir.Call) -> ir.PrimExpr:
        return self.rewrite(node.args[0]) if node.op is LIKELY else super().visit_call(node)


@dataclass(frozen=True)
class _LastTile:
    """Conditions that fail together, first in one tile and then, if there is more, entirely."""

    check: BoundCheck  # one of them
    tile: RaggedTile
    left: dict[ir.PrimExpr, ir.PrimExpr]  # of each condition in that tile

    def all(self, value: ir.PrimExpr) -> dict[ir.PrimExpr, ir.PrimExpr]:
        """The conditions where all are true, or false."""
        return dict.fromkeys(self.left, value)

    @property
    def started(self) -> ir.PrimExpr:
        """Not negative up to, and in, that tile."""
        return self.check.worst + self.tile.reach


def _without_later_cuts(node: ir.For, checks: list[BoundCheck]) -> list[BoundCheck]:
    """The bound checks of tiles below a loop, less those for which a loop over tiles will be cut.

    That is a serial loop right below this one; cutting it needs no test.
    """
    over_tiles = {loop.loop_var for loop in _loops_right_below(node)}

    def is_cut_later(check: BoundCheck) -> bool:
        varying = check.inner.form.terms.keys()
        return bool(varying & over_tiles) and not varying <= over_tiles

    return [
        check
        for check in checks
        if check.spans_loops and not check.is_first_step_test and not is_cut_later(check)
    ]


def _loops_right_below(node: ir.For) -> Iterator[ir.For]:
    """Serial loops that are the whole body of a loop, one inside the other."""
    body = node.body
    while isinstance(body, (ir.For, ir.Allocate, ir.DeclBuffer, ir.AttrStmt)):
        if isinstance(body, ir.For):
            if body.kind != ir.ForKind.SERIAL or body.annotations:
                return
            yield body
        body = body.body


class _Partitioner(AnalyzingRewriter):
    def __init__(self, options: LoopPartition, func: ir.PrimFunc, vector_bits: int) -> None:
        super().__init__(func)
        self._options = options
        self._vector_bits = vector_bits
        self._threads: set[ir.Var] = set()

    def visit_attr_stmt(self, node: ir.AttrStmt) -> Any:
        if isinstance(node.node, ir.IterVar):
            self._threads.add(node.node.var)
        return super().visit_attr_stmt(node)

    def visit_prim_expr(self, node: ir.PrimExpr) -> ir.PrimExpr:
        return self.analyzer.simplify(node) if node.dtype == "bool" else node

    def visit_call(self, node: ir.Call) -> ir.PrimExpr:
        if node.op is not LIKELY:
            return node
        inner = self.visit(node.args[0])
        return node if inner is node.args[0] else likely(inner)

    visit_select = visit_let = visit_prim_expr

    def visit_allocate(self, node: ir.Allocate) -> ir.Stmt:
        node = self.generic_visit(node)
        return node.body if ir.is_no_op(node.body) else node

    def visit_for(self, node: ir.For) -> ir.Stmt:
        self.analyzer.bind(node.loop_var, ir.Range(node.min, node.extent), allow_override=True)
        checks = self._checks(node)
        if checks and node.kind in _CUTTABLE:
            pieces = self._cut(node, checks) or self._cut_symbolic(node, checks)
            pieces = pieces or self._cut_last_tile(node, checks)
            if pieces is not None:
                return pieces
        elif checks and node.kind == ir.ForKind.VECTORIZED:
            return self._shrink(node, checks)
        body = self._versions(node, checks, MAX_NESTED_VERSIONS)
        if ir.is_no_op(body):
            return body
        return node if body is node.body else ir.replace(node, body=body)

    def _checks(self, node: ir.For) -> list[BoundCheck]:
        conditions, stores = conditions_in(node.body)
        if stores > self._options.max_copied_stores:
            return []
        checks = [
            BoundCheck.of(found, node.loop_var, self.analyzer)
            for found in conditions
            # Threads of a kernel have to run through the same loops.
            if not ir.uses_var(found.node, self._threads.__contains__)
        ]
        may_peel = stores <= self._options.max_peeled_stores and node.kind == ir.ForKind.SERIAL
        return [
            check
            for check in checks
            if check is not None and (may_peel or not check.is_first_step_test)
        ]

    # --- a loop with constant bounds: before, main part, after ---------------------------------

    def _cut(self, node: ir.For, checks: list[BoundCheck]) -> ir.Stmt | None:
        if not isinstance(node.min, ir.IntImm) or not isinstance(node.extent, ir.IntImm):
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
        return ir.seq(self._piece(node, *piece) for piece in pieces)

    def _failing(
        self, checks: list[BoundCheck], first: int, last: int
    ) -> dict[ir.PrimExpr, ir.PrimExpr]:
        """The bound checks that are sure to fail from `first` to `last`."""
        if first > last:
            return {}
        failing: dict[ir.PrimExpr, ir.PrimExpr] = {}
        for check in checks:
            if check.is_first_step_test or not check.coefficient:
                continue
            easiest = last if check.coefficient > 0 else first
            best = self.analyzer.simplify(check.best_at(easiest))
            if isinstance(best, ir.IntImm) and best.value < 0:
                failing[check.node] = ir.FALSE
        return failing

    def _piece(
        self, node: ir.For, first: int, last: int, known: dict[ir.PrimExpr, ir.PrimExpr]
    ) -> ir.Stmt | None:
        """The iterations from `first` to `last`, with what is known of conditions there."""
        if first > last:
            return None
        kind = node.loop_var.dtype
        if first == last:
            only = {node.loop_var: ir.const(first, kind)}
            return self.rewrite(_Decided(known, only, fresh=True).rewrite(node.body))
        extent = ir.const(last - first + 1, node.extent.dtype)
        return self._copy(node, ir.const(first, kind), extent, known)

    def _copy(
        self,
        node: ir.For,
        start: ir.PrimExpr,
        extent: ir.PrimExpr,
        known: dict[ir.PrimExpr, ir.PrimExpr],
    ) -> ir.Stmt | None:
        """The loop over other iterations, with what is known of conditions there."""
        loop_var = ir.replace(node.loop_var)
        body = _Decided(known, {node.loop_var: loop_var}, fresh=True).visit(node.body)
        if ir.is_no_op(body):
            return None
        return self.rewrite(
            ir.replace(node, loop_var=loop_var, min=start, extent=extent, body=body)
        )

    # --- a loop with a symbolic extent: main part, after -----------------------------------------

    def _cut_symbolic(self, node: ir.For, checks: list[BoundCheck]) -> ir.Stmt | None:
        if isinstance(node.extent, ir.IntImm) or node.annotations:
            return None
        upper = [check for check in checks if check.coefficient and check.coefficient < 0]
        upper = [check for check in upper if not check.is_first_step_test]
        if not upper:
            return None
        last = node.min + node.extent - 1
        for check in upper:
            last = ir.minimum(last, ir.floordiv(check.rest, -(check.coefficient or 1)))
        count = self.analyzer.simplify(ir.maximum(last - node.min + 1, 0))
        known = {check.node: check.decided for check in upper}
        main_var, rest_var = ir.replace(node.loop_var), ir.replace(node.loop_var)
        main_body = _Decided(known, {node.loop_var: main_var}, fresh=True).visit(node.body)
        main = ir.replace(node, loop_var=main_var, extent=count, body=main_body)
        rest_body = _Unmarked({node.loop_var: rest_var}, fresh_binders=True).visit(node.body)
        start, extent = node.min + count, self.analyzer.simplify(node.extent - count)
        rest = ir.replace(node, loop_var=rest_var, min=start, extent=extent, body=rest_body)
        self.analyzer.bind(main_var, ir.Range(main.min, count), allow_override=True)
        return ir.seq((ir.replace(main, body=self.visit(main.body)), rest))

    # --- a loop that meets a ragged tile, where depends on loops outside: main part, that tile ---

    def _cut_last_tile(self, node: ir.For, checks: list[BoundCheck]) -> ir.Stmt | None:
        if node.kind != ir.ForKind.SERIAL or node.annotations:
            return None
        ragged = self._last_tile([check for check in checks if (check.coefficient or 0) < 0])
        if ragged is None:
            return None
        check, tile = ragged.check, ragged.tile

        def iterations(rest: ir.PrimExpr) -> ir.PrimExpr:
            fitting = ir.floordiv(rest, -(check.coefficient or 1)) + 1 - node.min
            return self.analyzer.simplify(ir.maximum(ir.minimum(fitting, node.extent), 0))

        whole = iterations(check.rest)
        started = iterations(check.rest + tile.reach) if tile.has_beyond else node.extent
        parts = [self._part(node, 0, whole, ragged.all(ir.TRUE))]
        if not ir.is_zero(tile.left):
            parts.append(self._part(node, whole, started, ragged.left))
        if tile.has_beyond:
            parts.append(self._part(node, started, node.extent, ragged.all(ir.FALSE)))
        return ir.seq(parts)

    def _part(
        self,
        node: ir.For,
        first: ir.PrimExpr | int,
        end: ir.PrimExpr,
        known: dict[ir.PrimExpr, ir.PrimExpr],
    ) -> ir.Stmt | None:
        """The iterations from `first` up to `end`, counted from where the loop begins."""
        start, extent = (self.analyzer.simplify(e) for e in (node.min + first, end - first))
        return self._copy(node, start, extent, known)

    def _last_tile(self, checks: list[BoundCheck]) -> _LastTile | None:
        """The checks that fail together, in one tile."""
        found: _LastTile | None = None
        for check in checks:
            if check.is_first_step_test or not check.spans_loops:
                continue
            if found is not None and not ir.expr_deep_equal(check.worst, found.check.worst):
                continue
            tile = check.last_tile(self.analyzer)
            if tile is None or (found is not None and tile.reach != found.tile.reach):
                continue
            found = found or _LastTile(check, tile, {})
            found.left[check.node] = tile.left
        return found

    # --- a loop that cannot be cut: tests, and a body for each outcome ---------------------------

    def _versions(self, node: ir.For, checks: list[BoundCheck], nested: int) -> ir.Stmt:
        """The body without checks where they hold, and with what is left of them elsewhere."""
        checks = _without_later_cuts(node, checks)
        if not checks:
            return self.rewrite(node.body)
        ragged = self._last_tile(checks) if nested else None
        if ragged is None:
            return self._two_versions(node, checks)

        def version(known: dict[ir.PrimExpr, ir.PrimExpr]) -> ir.Stmt:
            decided = _Decided(known, {}, fresh=True).visit(node.body)
            loop = ir.replace(node, body=decided)
            return self._versions(loop, self._checks(loop), nested - 1)

        slow = version(ragged.left)
        if ragged.tile.has_beyond:
            slow = self._either(ragged.started, slow, version(ragged.all(ir.FALSE)))
        return self._either(ragged.check.worst, version(ragged.all(ir.TRUE)), slow)

    def _either(self, slack: ir.PrimExpr, then_case: ir.Stmt, else_case: ir.Stmt) -> ir.Stmt:
        test = self.analyzer.simplify(ir.greater_equal(slack, 0))
        if isinstance(test, ir.IntImm):
            return then_case if test.value else else_case
        return ir.IfThenElse(likely(test), then_case, None if ir.is_no_op(else_case) else else_case)

    def _two_versions(self, node: ir.For, checks: list[BoundCheck]) -> ir.Stmt:
        tests = (ir.greater_equal(check.worst, 0) for check in checks)
        test = self.analyzer.simplify(ir.logical_and(*tests))
        if ir.is_zero(test):
            return self.rewrite(node.body)
        known = {check.node: check.decided for check in checks}
        fast: ir.Stmt = _Decided(known, {}, fresh=False).visit(node.body)
        if ir.is_true(test):
            return self.rewrite(fast)
        slow: ir.Stmt = _Unmarked({}, fresh_binders=True).visit(node.body)
        return ir.IfThenElse(likely(test), self.rewrite(fast), slow)

    # --- a vectorised loop of which only the first lanes are on: fewer lanes, the last ones masked

    def _shrink(self, node: ir.For, checks: list[BoundCheck]) -> ir.Stmt:
        guard = node.body
        if not isinstance(guard, ir.IfThenElse) or guard.else_case is not None or len(checks) != 1:
            return node
        (check,) = checks
        span, parts = check.span(), conjuncts(guard.condition)
        if span is None or span[1] is None or len(parts) > 1 or parts[0] is not check.node:
            return node
        if not isinstance(node.min, ir.IntImm) or not isinstance(node.extent, ir.IntImm):
            return node
        lanes = span[1] - node.min.value + 1
        if lanes <= 0:
            return ir.no_op()
        if lanes >= node.extent.value:
            return ir.replace(node, body=guard.then_case)
        # Elements in a vector register, as far as a store tells how large they are.
        store = guard.then_case
        bits = store.value.dtype.bits if isinstance(store, ir.BufferStore) else 32
        vector = max(1, self._vector_bits // max(1, bits))
        # Whole vectors or, where one is enough, a power of two.
        whole = -(-lanes // vector) * vector if lanes >= vector else 1 << (lanes - 1).bit_length()
        fewer = min(whole, node.extent.value)
        body = guard.then_case if fewer == lanes else guard
        return ir.replace(node, extent=ir.const(fewer, node.extent.dtype), body=body)
