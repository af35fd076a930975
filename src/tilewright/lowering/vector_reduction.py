"""Reduction loops marked `vector_reduction` run in vectors of partial results.

`for k: acc[0] = acc[0] + f(k)` has one accumulator, and so a vector could not help. With the
annotation the user (or a rule) allows the terms to be added in another order: `width` partial sums
side by side, the last of them masked, and a tree of additions at the end. The loop may contain
further loops; the innermost one is what is cut into vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tilewright import ir
from tilewright.ir.annotation_keys import VECTOR_REDUCTION
from tilewright.ir.intrinsics import if_then_else, lower_limit, upper_limit
from tilewright.lowering.base import function_pass
from tilewright.lowering.rewriters import FoldingSubstituter, StmtRewriter


@dataclass(frozen=True)
class _Reducer:
    node: type
    combine: Callable[[ir.PrimExpr, ir.PrimExpr], ir.PrimExpr]
    identity: Callable[[Any], ir.PrimExpr]


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
        return _matched(tuple(loops), tuple(views), node)

    def vectorized(self, width: int) -> ir.Stmt | None:
        """The reduction in vectors of `width` partial results; None if it has fewer terms."""
        *outer, inner = self.loops
        if isinstance(inner.extent, ir.IntImm) and inner.extent.value < width:
            return None
        dtype = self.store.buffer.dtype
        partial = ir.decl_buffer(
            (width,), dtype, f"{self.store.buffer.name}_partial", scope="local"
        )
        body = self._below(outer, ir.seq(self._vectors(partial, width)))
        stmts = [self._set(partial, width), body, *self._folds(partial, width), self._last(partial)]
        extents = (ir.const(width),)
        return ir.Allocate(
            partial.data, dtype, extents, ir.TRUE, ir.DeclBuffer(partial, ir.seq(stmts))
        )

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

    def _set(self, partial: ir.Buffer, width: int) -> ir.Stmt:
        identity = self.reducer.identity(partial.dtype)
        return _vector(width, lambda lane: ir.BufferStore(partial, identity, (lane,)))

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
        while width > 1:
            half = width // 2
            if width % 2:
                joined = self.reducer.combine(partial[0], partial[width - 1])
                yield ir.BufferStore(partial, joined, (ir.const(0),))
            yield _vector(half, lambda lane, half=half: self._join(partial, lane, half))  # type: ignore[misc]
            width = half

    def _join(self, partial: ir.Buffer, lane: ir.Var, half: int) -> ir.Stmt:
        joined = self.reducer.combine(partial[lane], partial[ir.add(lane, half)])
        return ir.BufferStore(partial, joined, (lane,))

    def _last(self, partial: ir.Buffer) -> ir.Stmt:
        store = self.store
        total = self.reducer.combine(ir.BufferLoad(store.buffer, store.indices), partial[0])
        return ir.replace(store, value=total)


def _matched(
    loops: tuple[ir.For, ...], views: tuple[ir.DeclBuffer, ...], store: ir.BufferStore
) -> _Reduction | None:
    value = store.value
    for reducer in _REDUCERS:
        if isinstance(value, ir.BinaryOp) and isinstance(value, reducer.node):
            for old, term in ((value.a, value.b), (value.b, value.a)):
                loads = ir.nodes_of(term, ir.BufferLoad)
                apart = all(load.buffer.data is not store.buffer.data for load in loads)
                if apart and _is_element(old, store):
                    return _Reduction(loops, views, store, reducer, term)
    return None


def _is_element(expr: ir.PrimExpr, store: ir.BufferStore) -> bool:
    return (
        isinstance(expr, ir.BufferLoad)
        and expr.buffer.data is store.buffer.data
        and all(map(ir.expr_deep_equal, expr.indices, store.indices))
    )


def _gathers(term: ir.PrimExpr, var: ir.Var) -> bool:
    """Are elements read at places that other elements say? Masking those costs a branch each."""
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


def _unmarked(loop: ir.For) -> dict[str, Any]:
    return {key: value for key, value in loop.annotations.items() if key != VECTOR_REDUCTION}


class _Vectorizer(StmtRewriter):
    def visit_for(self, node: ir.For) -> ir.Stmt:
        width = node.annotations.get(VECTOR_REDUCTION)
        if width is None:
            return self.generic_visit(node)
        found = _Reduction.of(node)
        vectors = None if found is None else found.vectorized(int(getattr(width, "value", width)))
        return vectors or ir.replace(node, annotations=_unmarked(node))


@function_pass
def VectorReduction(func: ir.PrimFunc) -> ir.PrimFunc:
    """Run marked reduction loops in vectors of partial results."""
    return func.with_body(_Vectorizer().rewrite(func.body))
