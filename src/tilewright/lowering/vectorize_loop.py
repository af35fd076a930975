"""Vectorised loops become vector expressions.

A loop of kind VECTORIZED with a constant extent n is replaced by its body over n lanes. A condition
that differs between lanes becomes a mask on the loads and stores below it (so tails need no scalar
loop); a condition that all lanes share stays an `if`. A statement that has no vector form keeps a
serial loop around itself, and so does a body whose lanes would get into each other's way. A loop
of more lanes than LLVM is known to compile, or of an unusual number, becomes several vectors.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.ir import (
    GE,
    GT,
    LE,
    LT,
    TRUE,
    Allocate,
    AssertStmt,
    AttrStmt,
    Broadcast,
    BufferLoad,
    BufferStore,
    CmpOp,
    DeclBuffer,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    IntImm,
    LetStmt,
    PrimExpr,
    PrimFunc,
    Ramp,
    SeqStmt,
    Stmt,
    Var,
    While,
    const,
    is_true,
    logical_and,
    logical_not,
    multiply,
    replace,
    seq,
    uses_var,
)
from tilewright.ir.patterns import nodes_of, walk
from tilewright.lowering.base import FunctionPass, register_pass
from tilewright.lowering.host_abi import Accesses
from tilewright.lowering.lane_conflicts import lanes_conflict
from tilewright.lowering.rewriters import FoldingSubstituter, StmtRewriter
from tilewright.lowering.unroll_loop import element_bytes
from tilewright.lowering.widen_expr import ExprWidener, NotVectorizable, broadcast
from tilewright.target import Target
from tilewright.target.vector_types import known_lanes

SHORTEST_PIECE = 4
MOST_UNROLLED_PIECES = 256


class _LoopBodyWidener(ExprWidener):
    """Widens the statements of one vectorised loop."""

    def __init__(self, loop: For, lanes: int) -> None:
        super().__init__(loop.loop_var, loop.min, lanes)
        self._loop = loop
        self._inseparable = 0  # depth of constructs whose body cannot get a serial loop of its own

    def statement(self, node: Stmt) -> Stmt:
        """The vector form of a statement, or a serial loop around it."""
        try:
            result: Stmt = self.visit(node)
        except NotVectorizable:
            if self._inseparable or self.mask is not None:
                raise
            return self._serial(node)
        return result

    def _serial(self, node: Stmt) -> Stmt:
        loop = self._loop
        if not uses_var(node, lambda var: var is loop.loop_var) and _is_idempotent(node):
            return node
        index = replace(loop.loop_var)
        body = FoldingSubstituter({loop.loop_var: index}, fresh_binders=True).rewrite(node)
        return For(index, loop.min, loop.extent, ForKind.SERIAL, body)

    def _whole(self, node: Any) -> Any:
        """Visit a body that shares state between statements, so that none can be split off."""
        self._inseparable += 1
        try:
            return self.visit(node)
        finally:
            self._inseparable -= 1

    def visit_seq_stmt(self, node: SeqStmt) -> Stmt:
        widened = []
        for child in node.seq:
            try:
                widened.append(self.visit(child))
            except NotVectorizable:
                others = [other for other in node.seq if other is not child]
                if self._inseparable or self.mask is not None or not _is_apart(child, others):
                    raise
                widened.append(self._serial(child))
        return seq(widened)

    def visit_buffer_store(self, node: BufferStore) -> Stmt:
        if node.predicate is not None:
            raise NotVectorizable("a masked store inside a vectorised loop")
        value = self.visit(node.value)
        buffer, index = self.access(node.buffer, node.indices)
        if index.dtype.lanes == 1:
            return self._uniform_store(node, value, index)
        return BufferStore(buffer, broadcast(value, self.lanes), (index,), self.mask)

    def _uniform_store(self, node: BufferStore, value: PrimExpr, index: PrimExpr) -> Stmt:
        # All iterations write one element: only if they all write the same, one store is enough.
        if value.dtype.lanes > 1 or self.mask is not None or not _is_idempotent(node):
            raise NotVectorizable(f"all lanes store to one element of {node.buffer.name}")
        return replace(node, value=value, indices=(index,))

    def visit_if_then_else(self, node: IfThenElse) -> Stmt:
        uniform, varying = self.split_condition(node.condition)
        if varying is None:
            then_case = self.statement(node.then_case)
            else_case = None if node.else_case is None else self.statement(node.else_case)
            return IfThenElse(uniform, then_case, else_case)
        if node.else_case is not None and not is_true(uniform):
            varying = logical_and(broadcast(uniform, self.lanes), varying)
            uniform = TRUE
        then_case = self._masked(varying, node.then_case)
        result = then_case if is_true(uniform) else IfThenElse(uniform, then_case)
        if node.else_case is None:
            return result
        return seq((result, self._masked(logical_not(varying), node.else_case)))

    def _masked(self, mask: PrimExpr, node: Stmt) -> Stmt:
        test = None if self.mask is not None else _some_lane(mask)
        outside, self.needs_guard = self.needs_guard, False
        body: Stmt = self.under_mask(mask, node, guarded=test is not None)
        guarded = IfThenElse(test, body) if self.needs_guard and test is not None else body
        self.needs_guard = outside
        return guarded

    def visit_for(self, node: For) -> Stmt:
        start, extent = self.visit(node.min), self.visit(node.extent)
        if start.dtype.lanes > 1 or extent.dtype.lanes > 1:
            raise NotVectorizable("the bounds of an inner loop differ between lanes")
        return replace(node, min=start, extent=extent, body=self._whole(node.body))

    def visit_let_stmt(self, node: LetStmt) -> Stmt:
        value = self.visit(node.value)
        var = self.bind_let(node.var, value)
        return LetStmt(var, value, self._whole(node.body))

    def visit_allocate(self, node: Allocate) -> Stmt:
        extent = self.visit(node.extents[0])
        if len(node.extents) != 1 or extent.dtype.lanes > 1:
            raise NotVectorizable("the size of an allocation differs between lanes")
        copies = replace(node.buffer_var)
        self.private[node.buffer_var] = copies
        body = self._whole(node.body)
        return replace(node, buffer_var=copies, extents=(multiply(extent, self.lanes),), body=body)

    def visit_decl_buffer(self, node: DeclBuffer) -> Stmt:
        return self.statement(node.body)

    def visit_attr_stmt(self, node: AttrStmt) -> Stmt:
        value, body = self.visit(node.value), self.statement(node.body)
        if value.dtype.lanes > 1:
            raise NotVectorizable("an attribute that differs between lanes")
        return replace(node, value=value, body=body)

    def visit_evaluate(self, node: Evaluate) -> Stmt:
        value = self.visit(node.value)  # calls with effects raise
        return Evaluate(value)

    def visit_while(self, node: While) -> Stmt:
        raise NotVectorizable("a while loop")

    def visit_assert_stmt(self, node: AssertStmt) -> Stmt:
        raise NotVectorizable("an assertion")


def _is_apart(child: Stmt, others: Sequence[Stmt]) -> bool:
    """True when a statement may get a loop of its own: no memory ties it to its neighbours."""
    mine, theirs = Accesses(child), Accesses(*others)
    return not (mine.written & (theirs.read | theirs.written) or theirs.written & mine.read)


def _is_idempotent(node: Stmt) -> bool:
    """True for a store of a value that does not read what it overwrites."""
    return isinstance(node, BufferStore) and all(
        load.buffer.data is not node.buffer.data for load in nodes_of(node.value, BufferLoad)
    )


# For a comparison of a rising ramp with a constant: the lane that decides whether any lane is on.
_DECIDING_LANE: dict[type[CmpOp], int] = {LT: 0, LE: 0, GT: -1, GE: -1}


def _some_lane(mask: PrimExpr) -> PrimExpr | None:
    """The scalar condition that some lane of a mask is on, where it has a simple form."""
    if not isinstance(mask, CmpOp) or type(mask) not in _DECIDING_LANE:
        return None
    ramp, limit = mask.a, mask.b
    if not isinstance(ramp, Ramp) or not isinstance(limit, Broadcast):
        return None
    if not isinstance(ramp.stride, IntImm) or ramp.stride.value <= 0:
        return None
    lane = _DECIDING_LANE[type(mask)] % ramp.lanes
    return type(mask)(ramp.base + ramp.stride.value * lane, limit.value)


class _LoopVectorizer(StmtRewriter):
    def __init__(self, enable: bool) -> None:
        self._enable = enable

    def visit_for(self, node: For) -> Stmt:
        node = self.generic_visit(node)
        if node.kind != ForKind.VECTORIZED:
            return node
        if not self._enable or not isinstance(node.extent, IntImm) or node.extent.value < 1:
            return replace(node, kind=ForKind.SERIAL)
        if node.extent.value == 1:
            return FoldingSubstituter({node.loop_var: node.min}).rewrite(node.body)
        if lanes_conflict(node, node.extent.value):
            return replace(node, kind=ForKind.SERIAL)
        return _vectorized(node, node.extent.value)


def _vectorized(node: For, extent: int) -> Stmt:
    lanes = _convenient_lanes(extent, _widest_element(node.body))
    if lanes == extent:
        return _LoopBodyWidener(node, lanes).statement(node.body)
    count, rest = divmod(extent, lanes)
    return seq((_pieces(node, count, lanes), *([_tail(node, rest)] if rest else [])))


def _pieces(node: For, count: int, lanes: int) -> Stmt:
    """The first `count * lanes` iterations."""
    if count == 1:
        return _vectorized(replace(node, extent=const(lanes, node.loop_var.dtype)), lanes)
    piece = Var(f"{node.loop_var.name}_piece", node.loop_var.dtype)
    inner = Var(node.loop_var.name, node.loop_var.dtype)
    body = FoldingSubstituter({node.loop_var: piece * lanes + inner}).rewrite(node.body)
    vector = For(inner, node.min, const(lanes, inner.dtype), ForKind.VECTORIZED, body)
    kind = ForKind.UNROLLED if count <= MOST_UNROLLED_PIECES else ForKind.SERIAL
    number, zero = const(count, piece.dtype), const(0, piece.dtype)
    return For(piece, zero, number, kind, _vectorized(vector, lanes))


def _tail(node: For, rest: int) -> Stmt:
    """The last `rest` iterations, beside the others."""
    var = replace(node.loop_var)
    first = node.min + (node.extent - rest)
    index = first if rest == 1 else var
    body = FoldingSubstituter({node.loop_var: index}, fresh_binders=True).rewrite(node.body)
    if rest == 1:
        return body
    loop = For(var, first, const(rest, var.dtype), ForKind.VECTORIZED, body)
    return _vectorized(loop, rest)


def _convenient_lanes(extent: int, element_bytes: int) -> int:
    """Backends make good code of vectors of a power of two, and bad code of 48 lanes: take three
    times 16 instead. A short vector with no such divisor to speak of is left as it is; of a long
    one as much is taken as LLVM is known to compile, since it may fail on any other.
    """
    divisor = extent & -extent  # the largest power of two in it
    return known_lanes(extent if divisor < SHORTEST_PIECE else divisor, element_bytes)


def _widest_element(body: Stmt) -> int:
    accesses = (node for node in walk(body) if isinstance(node, BufferLoad | BufferStore))
    return max((element_bytes(node.buffer) for node in accesses), default=1)


@register_pass
class VectorizeLoop(FunctionPass):
    """Turn vectorised loops into vector code, or into serial loops when not enabled."""

    enable_vectorize: bool = True

    def run_function(self, func: PrimFunc, target: Target | None = None) -> PrimFunc:
        return func.with_body(_LoopVectorizer(self.enable_vectorize).rewrite(func.body))
