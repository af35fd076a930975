"""Expressing a block in terms of other iterators."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tilewright.arith import Analyzer, estimate_region_upper_bound, to_range
from tilewright.ir import (
    Add,
    Block,
    BufferLoad,
    BufferRegion,
    BufferStore,
    IntImm,
    IterVar,
    PrimExpr,
    Range,
    Rewriter,
    Stmt,
    Var,
    const,
    is_one,
    map_tuple,
    substitute,
    uses_var,
)
from tilewright.ir.node import map_children, map_nodes_in, nodes_in, replace

Relax = Callable[[BufferRegion], BufferRegion]


def kept_annotations(
    annotations: Mapping[str, Any],
    values: Mapping[Var, PrimExpr],
    iterators: Sequence[IterVar] = (),
) -> dict[str, Any]:
    """Annotations over new variables; those that speak of an iterator without a value go."""
    gone = {iter_var.var for iter_var in iterators} - values.keys()
    return {
        key: map_nodes_in(note, lambda node: substitute(node, values))
        for key, note in annotations.items()
        if not any(uses_var(node, gone.__contains__) for node in nodes_in(note))
    }


class IteratorSubstitution(Rewriter):
    """Replaces the iterators of a block by expressions over new ones, and simplifies.

    Most indices are an iterator and nothing else; their replacements are in normal form, so the
    simplifier is only asked where an iterator takes part in arithmetic.
    """

    def __init__(self, values: Mapping[Var, PrimExpr], iterators: Sequence[IterVar]) -> None:
        self._values = values
        self._iterators = iterators
        self._analyzer: Analyzer | None = None
        self._in_arithmetic = False

    def block(self, block: Block) -> Block:
        """The block over the new iterators; its `iter_vars` are still the old ones."""
        inside = map_children(replace(block, iter_vars=()), self.visit)
        return replace(inside, iter_vars=block.iter_vars)

    @property
    def analyzer(self) -> Analyzer:
        """Knows the domains of the new iterators."""
        if self._analyzer is None:
            self._analyzer = Analyzer()
            for iter_var in self._iterators:
                assert iter_var.dom is not None
                extent = iter_var.dom.extent
                # As in TVM, an iterator with one value stays in the indices.
                if not is_one(extent):
                    self._analyzer.bind(iter_var.var, iter_var.dom)
        return self._analyzer

    # --- expressions ----------------------------------------------------------------------------

    def visit_var(self, node: Var) -> PrimExpr:
        found = self._values.get(node)
        if found is None:
            return node
        self._in_arithmetic = True
        return found

    def _root(self, expr: PrimExpr) -> PrimExpr:
        """An expression that is not part of another one."""
        outside, self._in_arithmetic = self._in_arithmetic, False
        changed: PrimExpr = self.visit(expr)
        if self._in_arithmetic:
            changed = self.analyzer.simplify(changed)
        self._in_arithmetic = outside
        return changed

    def _index(self, expr: PrimExpr) -> PrimExpr:
        if type(expr) is Var:
            return self._values.get(expr, expr)
        return expr if type(expr) is IntImm else self._root(expr)

    def visit_buffer_load(self, node: BufferLoad) -> Any:
        indices = map_tuple(node.indices, self._index)
        return node if indices is node.indices else replace(node, indices=indices)

    # --- statements and regions -----------------------------------------------------------------

    def visit_stmt(self, node: Stmt) -> Any:
        return map_children(node, self._child)

    def _child(self, child: Any) -> Any:
        return self._root(child) if isinstance(child, PrimExpr) else self.visit(child)

    def visit_buffer_store(self, node: BufferStore) -> Any:
        value = self._root(node.value)
        indices = map_tuple(node.indices, self._index)
        mask = None if node.predicate is None else self._root(node.predicate)
        return BufferStore(node.buffer, value, indices, mask)

    def visit_range(self, node: Range) -> Any:
        begin, extent = self._index(node.min), self._index(node.extent)
        return node if begin is node.min and extent is node.extent else Range(begin, extent)

    # --- regions --------------------------------------------------------------------------------

    def relaxing(self, iterators: Sequence[IterVar]) -> Relax:
        """How a region grows while `iterators` take all their values."""
        domains = {iter_var.var: iter_var.dom for iter_var in iterators if iter_var.dom is not None}

        def relax(region: BufferRegion) -> BufferRegion:
            ranges = [
                self._relaxed(axis, domains, extent)
                for axis, extent in zip(region.region, region.buffer.shape, strict=True)
            ]
            return BufferRegion(region.buffer, tuple(ranges))

        return relax

    def _relaxed(self, axis: Range, domains: Mapping[Var, Range], size: PrimExpr) -> Range:
        begin = axis.min
        if is_one(axis.extent):
            if isinstance(begin, Var):
                return domains.get(begin, axis)
            if (
                isinstance(begin, Add)
                and isinstance(begin.b, Var)
                and begin.b in domains
                and not uses_var(begin.a, domains.__contains__)
            ):
                return Range(begin.a, domains[begin.b].extent)
        if not uses_var(axis, domains.__contains__):
            return axis
        (bound,) = estimate_region_upper_bound([axis], domains, analyzer=self.analyzer)
        if bound.has_lower_bound and bound.has_upper_bound:
            found = to_range(bound, self.analyzer)
            if not uses_var(found, domains.__contains__):
                return found
        return Range(const(0, size.dtype), size)  # what is read decides where: it may be anywhere
