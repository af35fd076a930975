"""Vectorised loops become vector expressions.

A loop of kind VECTORIZED with a constant extent n is replaced by its body over n lanes. A condition
that differs between lanes becomes a mask on the loads and stores below it (so tails need no scalar
loop); a condition that all lanes share stays an `if`. A statement that has no vector form keeps a
serial loop around itself, and so does a body whose lanes would get into each other's way. A loop
of more lanes than LLVM is known to compile, or of an unusual number, becomes several vectors.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright import ir
from tilewright.lowering.base import FunctionPass, register_pass
from tilewright.lowering.host_abi import Accesses
from tilewright.lowering.lane_conflicts import lanes_conflict
from tilewright.lowering.rewriters import FoldingSubstituter
from tilewright.lowering.unroll_loop import element_bytes
from tilewright.lowering.widen_expr import ExprWidener, NotVectorizable, broadcast
from tilewright.target import Target
from tilewright.target.vector_types import known_lanes

SHORTEST_PIECE = 4
MOST_UNROLLED_PIECES = 256
_ACCESSES = (ir.BufferLoad, ir.BufferStore)


class _LoopBodyWidener(ExprWidener):
    """Widens the statements of one vectorised loop."""

    def __init__(self, loop: ir.For, lanes: int) -> None:
        super().__init__(loop.loop_var, loop.min, lanes)
        self._loop = loop
        self._inseparable = 0  # depth of constructs whose body cannot get a serial loop of its own

    def statement(self, node: ir.Stmt) -> ir.Stmt:
        """The vector form of a statement, or a serial loop around it."""
        try:
            result: ir.Stmt = self.visit(node)
        except NotVectorizable:
            if self._inseparable or self.mask is not None:
                raise
            return self._serial(node)
        return result

    def _serial(self, node: ir.Stmt) -> ir.Stmt:
        loop = self._loop
        if not ir.uses_var(node, lambda var: var is loop.loop_var) and _is_idempotent(node):
            return node
        index = ir.replace(loop.loop_var)
        body = FoldingSubstituter({loop.loop_var: index}, fresh_binders=True).rewrite(node)
        return ir.For(index, loop.min, loop.extent, ir.ForKind.SERIAL, body)

    def _whole(self, node: ir.Stmt) -> ir.Stmt:
        """Visit a body that shares state between statements, so that none can be split off."""
        self._inseparable += 1
        try:
            return self.rewrite(node)
        finally:
            self._inseparable -= 1

    def visit_seq_stmt(self, node: ir.SeqStmt) -> ir.Stmt:
        widened = []
        for child in node.seq:
            try:
                widened.append(self.visit(child))
            except NotVectorizable:
                others = [other for other in node.seq if other is not child]
                if self._inseparable or self.mask is not None or not _is_apart(child, others):
                    raise
                widened.append(self._serial(child))
        return ir.seq(widened)

    def visit_buffer_store(self, node: ir.BufferStore) -> ir.Stmt:
        if node.predicate is not None:
            raise NotVectorizable("a masked store inside a vectorised loop")
        value = self.visit(node.value)
        buffer, index = self.access(node.buffer, node.indices)
        if index.dtype.lanes > 1:
            return ir.BufferStore(buffer, broadcast(value, self.lanes), (index,), self.mask)
        # All iterations write one element: only if they all write the same, one store is enough.
        if value.dtype.lanes > 1 or self.mask is not None or not _is_idempotent(node):
            raise NotVectorizable(f"all lanes store to one element of {node.buffer.name}")
        return ir.replace(node, value=value, indices=(index,))

    def visit_if_then_else(self, node: ir.IfThenElse) -> ir.Stmt:
        uniform, varying = self.split_condition(node.condition)
        if varying is None:
            then_case = self.statement(node.then_case)
            else_case = None if node.else_case is None else self.statement(node.else_case)
            return ir.IfThenElse(uniform, then_case, else_case)
        if node.else_case is not None and not ir.is_true(uniform):
            varying = ir.logical_and(broadcast(uniform, self.lanes), varying)
            uniform = ir.TRUE
        then_case = self._masked(varying, node.then_case)
        result = then_case if ir.is_true(uniform) else ir.IfThenElse(uniform, then_case)
        if node.else_case is None:
            return result
        return ir.seq((result, self._masked(ir.logical_not(varying), node.else_case)))

    def _masked(self, mask: ir.PrimExpr, node: ir.Stmt) -> ir.Stmt:
        test = None if self.mask is not None else _some_lane(mask)
        outside, self.needs_guard = self.needs_guard, False
        body = self.under_mask(mask, node, guarded=test is not None)
        guarded = ir.IfThenElse(test, body) if self.needs_guard and test is not None else body
        self.needs_guard = outside
        return guarded

    def visit_for(self, node: ir.For) -> ir.Stmt:
        start, extent = self.visit(node.min), self.visit(node.extent)
        if start.dtype.lanes > 1 or extent.dtype.lanes > 1:
            raise NotVectorizable("the bounds of an inner loop differ between lanes")
        return ir.replace(node, min=start, extent=extent, body=self._whole(node.body))

    def visit_let_stmt(self, node: ir.LetStmt) -> ir.Stmt:
        value = self.visit(node.value)
        var = self.bind_let(node.var, value)
        return ir.LetStmt(var, value, self._whole(node.body))

    def visit_allocate(self, node: ir.Allocate) -> ir.Stmt:
        extent = self.visit(node.extents[0])
        if len(node.extents) != 1 or extent.dtype.lanes > 1:
            raise NotVectorizable("the size of an allocation differs between lanes")
        copies = ir.replace(node.buffer_var)
        self.private[node.buffer_var] = copies
        body = self._whole(node.body)
        return ir.replace(
            node, buffer_var=copies, extents=(ir.multiply(extent, self.lanes),), body=body
        )

    def visit_decl_buffer(self, node: ir.DeclBuffer) -> ir.Stmt:
        return self.statement(node.body)

    def visit_attr_stmt(self, node: ir.AttrStmt) -> ir.Stmt:
        value, body = self.visit(node.value), self.statement(node.body)
        if value.dtype.lanes > 1:
            raise NotVectorizable("an attribute that differs between lanes")
        return ir.replace(node, value=value, body=body)

    def visit_evaluate(self, node: ir.Evaluate) -> ir.Stmt:
        value = self.visit(node.value)  # calls with effects raise
        return ir.Evaluate(value)

    def visit_while(self, node: ir.While) -> ir.Stmt:
        raise NotVectorizable("a while loop")

    def visit_assert_stmt(self, node: ir.AssertStmt) -> ir.Stmt:
        raise NotVectorizable("an assertion")


def _is_apart(child: ir.Stmt, others: Sequence[ir.Stmt]) -> bool:
    """True when a statement may get a loop of its own: no memory ties it to its neighbours."""
    mine, theirs = Accesses(child), Accesses(*others)
    return not (mine.written & (theirs.read | theirs.written) or theirs.written & mine.read)


def _is_idempotent(node: ir.Stmt) -> bool:
    """True for a store of a value that does not read what it overwrites."""
    return isinstance(node, ir.BufferStore) and all(
        load.buffer.data is not node.buffer.data for load in ir.nodes_of(node.value, ir.BufferLoad)
    )


# For a comparison of a rising ramp with a constant: the lane that decides whether any lane is on.
_DECIDING_LANE: dict[type[ir.CmpOp], int] = {ir.LT: 0, ir.LE: 0, ir.GT: -1, ir.GE: -1}


def _some_lane(mask: ir.PrimExpr) -> ir.PrimExpr | None:
    """The scalar condition that some lane of a mask is on, where it has a simple form."""
    if not isinstance(mask, ir.CmpOp) or type(mask) not in _DECIDING_LANE:
        return None
    ramp, limit = mask.a, mask.b
    if not isinstance(ramp, ir.Ramp) or not isinstance(limit, ir.Broadcast):
        return None
    if not isinstance(ramp.stride, ir.IntImm) or ramp.stride.value <= 0:
        return None
    lane = _DECIDING_LANE[type(mask)] % ramp.lanes
    return type(mask)(ramp.base + ramp.stride.value * lane, limit.value)


def _vectorized(node: ir.For, extent: int) -> ir.Stmt:
    accesses = (each for each in ir.walk(node.body) if isinstance(each, _ACCESSES))
    widest = max((element_bytes(access.buffer) for access in accesses), default=1)
    # Backends make good code of vectors of a power of two, and bad code of 48 lanes: take three
    # times 16 instead. A short vector with no such divisor to speak of is left as it is; of a long
    # one as much is taken as LLVM is known to compile, since it may fail on any other.
    divisor = extent & -extent  # the largest power of two in it
    lanes = known_lanes(extent if divisor < SHORTEST_PIECE else divisor, widest)
    if lanes == extent:
        return _LoopBodyWidener(node, lanes).statement(node.body)
    count, rest = divmod(extent, lanes)
    return ir.seq((_pieces(node, count, lanes), *([_tail(node, rest)] if rest else [])))


def _pieces(node: ir.For, count: int, lanes: int) -> ir.Stmt:
    """The first `count * lanes` iterations."""
    if count == 1:
        return _vectorized(ir.replace(node, extent=ir.const(lanes, node.loop_var.dtype)), lanes)
    piece = ir.Var(f"{node.loop_var.name}_piece", node.loop_var.dtype)
    inner = ir.Var(node.loop_var.name, node.loop_var.dtype)
    body = FoldingSubstituter({node.loop_var: piece * lanes + inner}).rewrite(node.body)
    vector = ir.For(inner, node.min, ir.const(lanes, inner.dtype), ir.ForKind.VECTORIZED, body)
    kind = ir.ForKind.UNROLLED if count <= MOST_UNROLLED_PIECES else ir.ForKind.SERIAL
    number, zero = ir.const(count, piece.dtype), ir.const(0, piece.dtype)
    return ir.For(piece, zero, number, kind, _vectorized(vector, lanes))


def _tail(node: ir.For, rest: int) -> ir.Stmt:
    """The last `rest` iterations, beside the others."""
    var = ir.replace(node.loop_var)
    first = node.min + (node.extent - rest)
    index = first if rest == 1 else var
    body = FoldingSubstituter({node.loop_var: index}, fresh_binders=True).rewrite(node.body)
    if rest == 1:
        return body
    loop = ir.For(var, first, ir.const(rest, var.dtype), ir.ForKind.VECTORIZED, body)
    return _vectorized(loop, rest)


@register_pass
class VectorizeLoop(FunctionPass):
    """Turn vectorised loops into vector code, or into serial loops when not enabled."""

    enable_vectorize: bool = True

    def run_function(self, func: ir.PrimFunc, target: Target | None = None) -> ir.PrimFunc:
        return ir.rewrite(func, {ir.For: self._without_lanes})

    def _without_lanes(self, node: ir.For) -> ir.Stmt:
        if node.kind != ir.ForKind.VECTORIZED:
            return node
        extent = node.extent.value if isinstance(node.extent, ir.IntImm) else 0
        if extent == 1 and self.enable_vectorize:
            return FoldingSubstituter({node.loop_var: node.min}).rewrite(node.body)
        if not self.enable_vectorize or extent < 1 or lanes_conflict(node, extent):
            return ir.replace(node, kind=ir.ForKind.SERIAL)
        return _vectorized(node, extent)
