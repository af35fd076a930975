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

from tilewright.ir import (
    TRUE,
    Add,
    Allocate,
    And,
    BinaryOp,
    Buffer,
    BufferLoad,
    BufferStore,
    DeclBuffer,
    DType,
    For,
    ForKind,
    IfThenElse,
    IntImm,
    Max,
    Min,
    Mul,
    Or,
    PrimExpr,
    PrimFunc,
    Stmt,
    Var,
    add,
    const,
    decl_buffer,
    expr_deep_equal,
    floordiv,
    floormod,
    is_one,
    less,
    logical_and,
    logical_or,
    maximum,
    minimum,
    multiply,
    replace,
    seq,
    uses_var,
)
from tilewright.ir.annotation_keys import VECTOR_REDUCTION
from tilewright.ir.intrinsics import if_then_else, lower_limit, upper_limit
from tilewright.ir.patterns import nodes_of
from tilewright.lowering.base import function_pass
from tilewright.lowering.rewriters import FoldingSubstituter, StmtRewriter


@dataclass(frozen=True)
class _Reducer:
    node: type
    combine: Callable[[PrimExpr, PrimExpr], PrimExpr]
    identity: Callable[[Any], PrimExpr]


_REDUCERS = (
    _Reducer(Add, add, lambda dtype: const(0, dtype)),
    _Reducer(Mul, multiply, lambda dtype: const(1, dtype)),
    _Reducer(Or, logical_or, lambda dtype: const(False, dtype)),
    _Reducer(And, logical_and, lambda dtype: const(True, dtype)),
    _Reducer(Max, maximum, lower_limit),
    _Reducer(Min, minimum, upper_limit),
)


@dataclass(frozen=True)
class _Reduction:
    """`store.buffer[store.indices] = reducer(itself, term)` below some loops."""

    loops: tuple[For, ...]
    views: tuple[DeclBuffer, ...]
    store: BufferStore
    reducer: _Reducer
    term: PrimExpr

    @staticmethod
    def of(loop: For) -> _Reduction | None:
        """The reduction that a loop is, if it has that form."""
        loops: list[For] = []
        views: list[DeclBuffer] = []
        node: Stmt = loop
        while isinstance(node, (For, DeclBuffer)):
            if isinstance(node, For):
                if node.kind not in (ForKind.SERIAL, ForKind.UNROLLED):
                    return None
                loops.append(node)
            else:
                views.append(node)
            node = node.body
        if not isinstance(node, BufferStore) or node.predicate is not None:
            return None
        variables = {inner.loop_var for inner in loops}
        if any(uses_var(index, variables.__contains__) for index in node.indices):
            return None
        return _matched(tuple(loops), tuple(views), node)

    def vectorized(self, width: int) -> Stmt | None:
        """The reduction in vectors of `width` partial results; None if it has fewer terms."""
        *outer, inner = self.loops
        if isinstance(inner.extent, IntImm) and inner.extent.value < width:
            return None
        dtype = self.store.buffer.dtype
        partial = decl_buffer((width,), dtype, f"{self.store.buffer.name}_partial", scope="local")
        body = self._below(outer, seq(self._vectors(partial, width)))
        stmts = [self._set(partial, width), body, *self._folds(partial, width), self._last(partial)]
        extents = (const(width),)
        return Allocate(partial.data, dtype, extents, TRUE, DeclBuffer(partial, seq(stmts)))

    def _vectors(self, partial: Buffer, width: int) -> Iterator[Stmt]:
        """The innermost loop: whole vectors of terms, then what is left."""
        inner = self.loops[-1]
        whole, rest = floordiv(inner.extent, width), floormod(inner.extent, width)
        step = Var(f"{inner.loop_var.name}_0", inner.loop_var.dtype)
        yield _serial(step, whole, self._add_terms(partial, width, multiply(step, width)))
        begin = multiply(whole, width)
        if isinstance(rest, IntImm):
            if rest.value:
                yield self._add_terms(partial, width, begin, rest)
        elif _gathers(self.term, inner.loop_var):
            yield _serial(step, rest, self._add_terms(partial, 1, add(begin, step)))
        else:
            last = self._add_terms(partial, width, begin, rest)
            yield IfThenElse(less(const(0, rest.dtype), rest), last)

    def _below(self, outer: Sequence[For], body: Stmt) -> Stmt:
        for view in reversed(self.views):
            body = replace(view, body=body)
        for loop in reversed(outer):
            body = replace(loop, body=body, annotations=_unmarked(loop))
        return body

    def _set(self, partial: Buffer, width: int) -> Stmt:
        identity = self.reducer.identity(partial.dtype)
        return _vector(width, lambda lane: BufferStore(partial, identity, (lane,)))

    def _add_terms(
        self, partial: Buffer, width: int, base: PrimExpr, limit: PrimExpr | None = None
    ) -> Stmt:
        """One vector of terms, of which the first `limit` exist."""
        inner = self.loops[-1]

        def body(lane: Var) -> Stmt:
            position = add(inner.min, add(base, lane))
            term = FoldingSubstituter({inner.loop_var: position}).rewrite(self.term)
            if limit is not None:
                term = if_then_else(less(lane, limit), term, self.reducer.identity(partial.dtype))
            return BufferStore(partial, self.reducer.combine(partial[lane], term), (lane,))

        return _vector(width, body)

    def _folds(self, partial: Buffer, width: int) -> Iterator[Stmt]:
        """Fewer and fewer partial results; an odd one out joins the first."""
        while width > 1:
            half = width // 2
            if width % 2:
                joined = self.reducer.combine(partial[0], partial[width - 1])
                yield BufferStore(partial, joined, (const(0),))
            yield _vector(half, lambda lane, half=half: self._join(partial, lane, half))  # type: ignore[misc]
            width = half

    def _join(self, partial: Buffer, lane: Var, half: int) -> Stmt:
        joined = self.reducer.combine(partial[lane], partial[add(lane, half)])
        return BufferStore(partial, joined, (lane,))

    def _last(self, partial: Buffer) -> Stmt:
        store = self.store
        total = self.reducer.combine(BufferLoad(store.buffer, store.indices), partial[0])
        return replace(store, value=total)


def _matched(
    loops: tuple[For, ...], views: tuple[DeclBuffer, ...], store: BufferStore
) -> _Reduction | None:
    value = store.value
    for reducer in _REDUCERS:
        if isinstance(value, BinaryOp) and isinstance(value, reducer.node):
            for old, term in ((value.a, value.b), (value.b, value.a)):
                loads = nodes_of(term, BufferLoad)
                apart = all(load.buffer.data is not store.buffer.data for load in loads)
                if apart and _is_element(old, store):
                    return _Reduction(loops, views, store, reducer, term)
    return None


def _is_element(expr: PrimExpr, store: BufferStore) -> bool:
    return (
        isinstance(expr, BufferLoad)
        and expr.buffer.data is store.buffer.data
        and all(map(expr_deep_equal, expr.indices, store.indices))
    )


def _gathers(term: PrimExpr, var: Var) -> bool:
    """Are elements read at places that other elements say? Masking those costs a branch each."""
    indices = (index for load in nodes_of(term, BufferLoad) for index in load.indices)
    inner = (load for index in indices for load in nodes_of(index, BufferLoad))
    return any(uses_var(load, var.same_as) for load in inner)


def _vector(width: int, body: Callable[[Var], Stmt]) -> Stmt:
    lane = Var("lane", DType("int32"))
    if width == 1:
        return FoldingSubstituter({lane: const(0)}).rewrite(body(lane))
    return For(lane, const(0), const(width), ForKind.VECTORIZED, body(lane))


def _serial(var: Var, count: PrimExpr, body: Stmt) -> Stmt:
    if is_one(count):
        return FoldingSubstituter({var: const(0, var.dtype)}).rewrite(body)
    return For(var, const(0, var.dtype), count, ForKind.SERIAL, body)


def _unmarked(loop: For) -> dict[str, Any]:
    return {key: value for key, value in loop.annotations.items() if key != VECTOR_REDUCTION}


class _Vectorizer(StmtRewriter):
    def visit_for(self, node: For) -> Stmt:
        width = node.annotations.get(VECTOR_REDUCTION)
        if width is None:
            return self.generic_visit(node)
        found = _Reduction.of(node)
        vectors = None if found is None else found.vectorized(int(getattr(width, "value", width)))
        return vectors or replace(node, annotations=_unmarked(node))


@function_pass
def VectorReduction(func: PrimFunc) -> PrimFunc:
    """Run marked reduction loops in vectors of partial results."""
    return func.with_body(_Vectorizer().rewrite(func.body))
