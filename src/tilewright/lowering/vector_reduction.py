"""Reduction loops marked `vector_reduction` run in vectors of partial results.

`for k: acc[0] = acc[0] + f(k)` has one accumulator, and so a vector could not help. With the
annotation the user (or a rule) allows the terms to be added in another order: `width` partial sums
side by side, the last of them masked, and a tree of additions at the end. The loop may contain
further loops; the innermost one is what is cut into vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from tilewright import ir
from tilewright.ir.annotation_keys import VECTOR_REDUCTION
from tilewright.ir.intrinsics import if_then_else, lower_limit, upper_limit
from tilewright.lowering.base import function_pass
from tilewright.lowering.rewriters import FoldingSubstituter, is_element


@dataclass(frozen=True)
class _Reducer:
    node: type
    combine: Callable[[ir.PrimExpr, ir.PrimExpr], ir.PrimExpr]
    identity: Callable[[ir.DType], ir.PrimExpr]


_REDUCERS = (
    _Reducer(ir.Add, ir.add, lambda dtype: ir.const(0, dtype)),
    _Reducer(ir.Mul, ir.multiply, lambda dtype: ir.const(1, dtype)),
    _Reducer(ir.Or, ir.logical_or, lambda dtype: ir.const(False, dtype)),
    _Reducer(ir.And, ir.logical_and, lambda dtype: ir.const(True, dtype)),
    _Reducer(ir.Max, ir.maximum, lower_limit),
    _Reducer(ir.Min, ir.minimum, upper_limit),
)


@dataclass(frozen=True)
class _Reduction:
    """`store.buffer[store.indices] = reducer(itself, term)` below some loops."""

    loops: tuple[ir.For, ...]
    views: tuple[ir.DeclBuffer, ...]
    store: ir.BufferStore
    reducer: _Reducer
    term: ir.PrimExpr

    @staticmethod
    def of(loop: ir.For) -> _Reduction | None:
        """The reduction that a loop is, if it has that form."""
        loops: list[ir.For] = []
        views: list[ir.DeclBuffer] = []
        node: ir.Stmt = loop
        while isinstance(node, (ir.For, ir.DeclBuffer)):
            if isinstance(node, ir.For):
                if node.kind not in (ir.ForKind.SERIAL, ir.ForKind.UNROLLED):
                    return None
                loops.append(node)
            else:
                views.append(node)
            node = node.body
        if not isinstance(node, ir.BufferStore) or node.predicate is not None:
            return None
        variables = {inner.loop_var for inner in loops}
        if any(ir.uses_var(index, variables.__contains__) for index in node.indices):
            return None
        value = node.value
        reducer = next((each for each in _REDUCERS if isinstance(value, each.node)), None)
        if reducer is None or not isinstance(value, ir.BinaryOp):
            return None
        for old, term in ((value.a, value.b), (value.b, value.a)):
            loads = ir.nodes_of(term, ir.BufferLoad)
            apart = all(load.buffer.data is not node.buffer.data for load in loads)
            if apart and is_element(old, node):
                return _Reduction(tuple(loops), tuple(views), node, reducer, term)
        return None

    def vectorized(self, width: int) -> ir.Stmt | None:
        """The reduction in vectors of `width` partial results; None if it has fewer terms."""
        *outer, inner = self.loops
        if isinstance(inner.extent, ir.IntImm) and inner.extent.value < width:
            return None
        store, combine = self.store, self.reducer.combine
        dtype = store.buffer.dtype
        partial = ir.decl_buffer((width,), dtype, f"{store.buffer.name}_partial", scope="local")
        identity = self.reducer.identity(dtype)
        start = _vector(width, lambda lane: ir.BufferStore(partial, identity, (lane,)))
        body = self._below(outer, ir.seq(self._vectors(partial, width)))
        total = combine(ir.BufferLoad(store.buffer, store.indices), partial[0])
        last = ir.replace(store, value=total)
        stmts = ir.seq((start, body, *self._folds(partial, width), last))
        extents = (ir.const(width),)
        return ir.Allocate(partial.data, dtype, extents, ir.TRUE, ir.DeclBuffer(partial, stmts))

    def _vectors(self, partial: ir.Buffer, width: int) -> Iterator[ir.Stmt]:
        """The innermost loop: whole vectors of terms, then what is left."""
        inner = self.loops[-1]
        whole, rest = ir.floordiv(inner.extent, width), ir.floormod(inner.extent, width)
        step = ir.Var(f"{inner.loop_var.name}_0", inner.loop_var.dtype)
        yield _serial(step, whole, self._add_terms(partial, width, ir.multiply(step, width)))
        begin = ir.multiply(whole, width)
        if isinstance(rest, ir.IntImm):
            if rest.value:
                yield self._add_terms(partial, width, begin, rest)
        elif _gathers(self.term, inner.loop_var):
            yield _serial(step, rest, self._add_terms(partial, 1, ir.add(begin, step)))
        else:
            last = self._add_terms(partial, width, begin, rest)
            yield ir.IfThenElse(ir.less(ir.const(0, rest.dtype), rest), last)

    def _below(self, outer: Sequence[ir.For], body: ir.Stmt) -> ir.Stmt:
        for view in reversed(self.views):
            body = ir.replace(view, body=body)
        for loop in reversed(outer):
            body = ir.replace(loop, body=body, annotations=_unmarked(loop))
        return body

    def _add_terms(
        self, partial: ir.Buffer, width: int, base: ir.PrimExpr, limit: ir.PrimExpr | None = None
    ) -> ir.Stmt:
        """One vector of terms, of which the first `limit` exist."""
        inner = self.loops[-1]

        def body(lane: ir.Var) -> ir.Stmt:
            position = ir.add(inner.min, ir.add(base, lane))
            term = FoldingSubstituter({inner.loop_var: position}).rewrite(self.term)
            if limit is not None:
                term = if_then_else(
                    ir.less(lane, limit), term, self.reducer.identity(partial.dtype)
                )
            return ir.BufferStore(partial, self.reducer.combine(partial[lane], term), (lane,))

        return _vector(width, body)

    def _folds(self, partial: ir.Buffer, width: int) -> Iterator[ir.Stmt]:
        """Fewer and fewer partial results; an odd one out joins the first."""
        combine = self.reducer.combine

        def join(lane: ir.Var) -> ir.Stmt:
            joined = combine(partial[lane], partial[ir.add(lane, width)])
            return ir.BufferStore(partial, joined, (lane,))

        while width > 1:
            if width % 2:
                joined = combine(partial[0], partial[width - 1])
                yield ir.BufferStore(partial, joined, (ir.const(0),))
            width //= 2
            yield _vector(width, join)


def _gathers(term: ir.PrimExpr, var: ir.Var) -> bool:
    """True if elements are read at places that other elements name.

    Masking those costs a branch each.
    """
    indices = (index for load in ir.nodes_of(term, ir.BufferLoad) for index in load.indices)
    inner = (load for index in indices for load in ir.nodes_of(index, ir.BufferLoad))
    return any(ir.uses_var(load, var.same_as) for load in inner)


def _vector(width: int, body: Callable[[ir.Var], ir.Stmt]) -> ir.Stmt:
    lane = ir.Var("lane", ir.DType("int32"))
    if width == 1:
        return FoldingSubstituter({lane: ir.const(0)}).rewrite(body(lane))
    return ir.For(lane, ir.const(0), ir.const(width), ir.ForKind.VECTORIZED, body(lane))


def _serial(var: ir.Var, count: ir.PrimExpr, body: ir.Stmt) -> ir.Stmt:
    if ir.is_one(count):
        return FoldingSubstituter({var: ir.const(0, var.dtype)}).rewrite(body)
    return ir.For(var, ir.const(0, var.dtype), count, ir.ForKind.SERIAL, body)


def _unmarked(loop: ir.For) -> dict[str, object]:
    return {key: value for key, value in loop.annotations.items() if key != VECTOR_REDUCTION}


def _vectorized(node: ir.For) -> ir.Stmt | None:
    width = node.annotations.get(VECTOR_REDUCTION)
    if width is None:
        return None
    found = _Reduction.of(node)
    vectors = None if found is None else found.vectorized(int(getattr(width, "value", width)))
    return vectors or ir.replace(node, annotations=_unmarked(node))


@function_pass
def VectorReduction(func: ir.PrimFunc) -> ir.PrimFunc:
    """Run marked reduction loops in vectors of partial results."""
    return ir.rewrite(func, before={ir.For: _vectorized})
