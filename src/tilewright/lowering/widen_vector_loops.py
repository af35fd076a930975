"""An unrolled loop that continues a vectorised one becomes part of its vector.

A tile of 8 x 4 columns is often scheduled as an unrolled loop of 8 around a vectorised loop of 4.
Written out, that is eight statements on short vectors where one on 32 lanes says the same: the
backend would have to find the wide form again among thousands of instructions, and often does not.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright import ir
from tilewright.arith.affine import affine_in
from tilewright.ir.annotation_keys import AUTO_UNROLL_MAX_STEP
from tilewright.lowering.base import function_pass
from tilewright.lowering.lane_conflicts import lanes_conflict
from tilewright.lowering.rewriters import FoldingSubstituter
from tilewright.lowering.unroll_loop import element_bytes, int_of
from tilewright.target.vector_types import MAX_VECTOR_BYTES


class _NotContinued(Exception):
    """The outer loop does not go on where the vector ends."""


class _Continuation(ir.Visitor):
    """Checks that `outer` and `lane` occur only as `lane + lanes * outer`, inside indices."""

    def __init__(self, outer: ir.Var, lane: ir.Var, lanes: int) -> None:
        self._outer = outer
        self._lane = lane
        self._lanes = lanes
        self.stores = 0
        self.widest_element = 0

    def _is_ours(self, var: ir.Var) -> bool:
        return var is self._outer or var is self._lane

    def _step(self, node: ir.BufferLoad | ir.BufferStore) -> int:
        found = affine_in(node.indices[-1], self._is_ours) if len(node.indices) == 1 else None
        if found is None:
            raise _NotContinued
        step: int = found[0].terms.get(self._lane, 0)
        if found[0].terms.get(self._outer, 0) != step * self._lanes:
            raise _NotContinued
        self.widest_element = max(self.widest_element, element_bytes(node.buffer))
        return step

    def visit_buffer_load(self, node: ir.BufferLoad) -> None:
        self._step(node)

    def visit_buffer_store(self, node: ir.BufferStore) -> None:
        if self._step(node) == 0:
            raise _NotContinued
        self.stores += 1
        self.visit(node.value)

    def visit_var(self, node: ir.Var) -> None:
        if self._is_ours(node):
            raise _NotContinued

    def _refuse(self, node: ir.Evaluate | ir.While | ir.Allocate) -> None:
        raise _NotContinued

    visit_evaluate = visit_while = visit_allocate = _refuse


@dataclass(frozen=True)
class _VectorNest:
    """A loop, the loops that are its whole body one after the other, and a vectorised one last."""

    outer: ir.For
    between: tuple[ir.For, ...]
    vector: ir.For

    @staticmethod
    def below(outer: ir.For) -> _VectorNest | None:
        """The nest that a loop is the head of, if all its loops have constant bounds."""
        between: list[ir.For] = []
        node: ir.Stmt = outer
        while (
            isinstance(node, ir.For) and isinstance(node.extent, ir.IntImm) and ir.is_zero(node.min)
        ):
            if node.kind == ir.ForKind.VECTORIZED:
                return _VectorNest(outer, tuple(between[1:]), node) if between else None
            if node.kind not in (ir.ForKind.SERIAL, ir.ForKind.UNROLLED):
                return None
            between.append(node)
            node = node.body
        return None

    def continuation(self) -> _Continuation | None:
        """What the body does with the two loop variables, if it fits one vector."""
        check = _Continuation(self.outer.loop_var, self.vector.loop_var, _step_count(self.vector))
        try:
            check.visit(self.vector.body)
        except _NotContinued:
            return None
        return check

    def is_unrolled(self, max_step: int, stores: int) -> bool:
        """True if all loops around the vector will be unrolled."""
        steps = stores
        for loop in (*reversed(self.between), self.outer):
            steps *= _step_count(loop)
            if loop.kind != ir.ForKind.UNROLLED and steps > max_step:
                return False
        return True

    @property
    def lanes(self) -> int:
        """Lanes of a vector that covers the outer loop too."""
        return _step_count(self.vector) * _step_count(self.outer)

    def widened(self) -> ir.Stmt | None:
        """The loops between around the wide vector, if its lanes keep out of each other's way."""
        lane = self.vector.loop_var
        zero = {self.outer.loop_var: ir.const(0, self.outer.loop_var.dtype)}
        body = FoldingSubstituter(zero).rewrite(self.vector.body)
        wide = ir.replace(self.vector, extent=ir.const(self.lanes, lane.dtype), body=body)
        if lanes_conflict(ir.replace(wide, body=self._between(body)), self.lanes):
            return None
        return self._between(wide)

    def _between(self, stmt: ir.Stmt) -> ir.Stmt:
        for loop in reversed(self.between):
            stmt = ir.replace(loop, body=stmt)
        return stmt


def _step_count(loop: ir.For) -> int:
    assert isinstance(loop.extent, ir.IntImm)
    return loop.extent.value


def _with_wide_vectors(stmt: ir.Stmt, max_step: int = 0) -> ir.Stmt:
    def inside(node: ir.AttrStmt) -> ir.Stmt | None:
        if node.attr_key != AUTO_UNROLL_MAX_STEP:
            return None
        return ir.updated(node, body=_with_wide_vectors(node.body, int_of(node)))

    def widened(node: ir.For) -> ir.Stmt:
        nest = _VectorNest.below(node)
        if nest is None or (not max_step and node.kind != ir.ForKind.UNROLLED):
            return node
        if nest.lanes & -nest.lanes <= _step_count(nest.vector):
            return node  # no wider than before, once it is cut into convenient pieces
        found = nest.continuation()
        if found is None or not nest.is_unrolled(max_step, found.stores):
            return node
        if nest.lanes * found.widest_element > MAX_VECTOR_BYTES:
            return node
        return nest.widened() or node

    return ir.rewrite(stmt, {ir.For: widened}, before={ir.AttrStmt: inside})


@function_pass
def WidenVectorLoops(func: ir.PrimFunc) -> ir.PrimFunc:
    """Let vectorised loops take in the unrolled loops that continue them."""
    return func.with_body(_with_wide_vectors(func.body))
