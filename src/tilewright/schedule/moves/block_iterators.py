"""Expressing a block in terms of other iterators."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from tilewright import arith, ir
from tilewright.ir.node import map_nodes_in, nodes_in
from tilewright.schedule.state import Domains, Values
from tilewright.schedule.state.scope import domain_of

Relax = Callable[[ir.BufferRegion], ir.BufferRegion]


def kept_annotations(
    annotations: Mapping[str, object], values: Values, iterators: Sequence[ir.IterVar] = ()
) -> dict[str, object]:
    """Annotations over new variables; those that speak of an iterator without a value go."""
    gone = {iter_var.var for iter_var in iterators} - values.keys()
    return {
        key: map_nodes_in(note, lambda node: ir.substitute(node, values))
        for key, note in annotations.items()
        if not any(ir.uses_var(node, gone.__contains__) for node in nodes_in(note))
    }


Rename = Callable[[str], str]


def renamed_loops(loops: Iterable[ir.For], rename: Rename = str) -> dict[ir.Var, ir.PrimExpr]:
    """Variables for copies of loops."""
    variables = [loop.loop_var for loop in loops]
    return {var: ir.Var(rename(var.name), var.dtype) for var in variables}


def renamed_iterators(
    iter_vars: Sequence[ir.IterVar], rename: Rename = str
) -> tuple[tuple[ir.IterVar, ...], dict[ir.Var, ir.PrimExpr]]:
    """The same iterators with variables of their own, and which variable became which."""
    old = [iter_var.var for iter_var in iter_vars]
    fresh = {var: ir.Var(rename(var.name), var.dtype) for var in old}
    return tuple(ir.replace(iter_var, var=fresh[iter_var.var]) for iter_var in iter_vars), {**fresh}


class IteratorSubstitution(ir.Rewriter):
    """Replaces the iterators of a block by expressions over new ones, and simplifies.

    Most indices are an iterator and nothing else; their replacements are in normal form, so the
    simplifier is only asked where an iterator takes part in arithmetic.
    """

    def __init__(self, values: Values, iterators: Sequence[ir.IterVar]) -> None:
        self._values = values
        self._iterators = iterators
        self._analyzer: arith.Analyzer | None = None
        self._in_arithmetic = False

    def block(self, block: ir.Block) -> ir.Block:
        """The block over the new iterators; its `iter_vars` are still the old ones."""
        inside = ir.map_children(ir.replace(block, iter_vars=()), self.visit)
        return ir.replace(inside, iter_vars=block.iter_vars)

    @property
    def analyzer(self) -> arith.Analyzer:
        """Knows the domains of the new iterators."""
        if self._analyzer is None:
            domains = {iter_var.var: domain_of(iter_var) for iter_var in self._iterators}
            # As in TVM, an iterator with one value stays in the indices.
            wide = {var: domain for var, domain in domains.items() if not ir.is_one(domain.extent)}
            self._analyzer = arith.Analyzer(wide)
        return self._analyzer

    # --- expressions ----------------------------------------------------------------------------

    def visit_var(self, node: ir.Var) -> ir.PrimExpr:
        if (found := self._values.get(node)) is None:
            return node
        self._in_arithmetic = True
        return found

    def _root(self, expr: ir.PrimExpr) -> ir.PrimExpr:
        """An expression that is not part of another one."""
        outside, self._in_arithmetic = self._in_arithmetic, False
        changed: ir.PrimExpr = self.visit(expr)
        if self._in_arithmetic:
            changed = self.analyzer.simplify(changed)
        self._in_arithmetic = outside
        return changed

    def _index(self, expr: ir.PrimExpr) -> ir.PrimExpr:
        if type(expr) is ir.Var:
            return self._values.get(expr, expr)
        return expr if type(expr) is ir.IntImm else self._root(expr)

    def visit_buffer_load(self, node: ir.BufferLoad) -> ir.BufferLoad:
        indices = ir.map_tuple(node.indices, self._index)
        return node if indices is node.indices else ir.replace(node, indices=indices)

    # --- statements and regions -----------------------------------------------------------------

    def visit_stmt(self, node: ir.Stmt) -> ir.Stmt:
        return ir.map_children(
            node, lambda n: self._root(n) if isinstance(n, ir.PrimExpr) else self.visit(n)
        )

    def visit_buffer_store(self, node: ir.BufferStore) -> ir.BufferStore:
        value = self._root(node.value)
        indices = ir.map_tuple(node.indices, self._index)
        mask = None if node.predicate is None else self._root(node.predicate)
        return ir.BufferStore(node.buffer, value, indices, mask)

    def visit_range(self, node: ir.Range) -> ir.Range:
        begin, extent = self._index(node.min), self._index(node.extent)
        return node if begin is node.min and extent is node.extent else ir.Range(begin, extent)

    # --- regions --------------------------------------------------------------------------------

    def relaxing(self, iterators: Sequence[ir.IterVar]) -> Relax:
        """How a region grows while `iterators` take all their values."""
        domains = {iter_var.var: domain_of(iter_var) for iter_var in iterators}

        def relax(region: ir.BufferRegion) -> ir.BufferRegion:
            ranges = [
                self._relaxed(axis, domains, extent)
                for axis, extent in zip(region.region, region.buffer.shape, strict=True)
            ]
            return ir.BufferRegion(region.buffer, tuple(ranges))

        return relax

    def _relaxed(self, axis: ir.Range, domains: Domains, size: ir.PrimExpr) -> ir.Range:
        begin = axis.min
        if ir.is_one(axis.extent):
            if isinstance(begin, ir.Var):
                return domains.get(begin, axis)
            if (
                isinstance(begin, ir.Add)
                and isinstance(begin.b, ir.Var)
                and begin.b in domains
                and not ir.uses_var(begin.a, domains.__contains__)
            ):
                return ir.Range(begin.a, domains[begin.b].extent)
        if not ir.uses_var(axis, domains.__contains__):
            return axis
        (bound,) = arith.estimate_region_upper_bound([axis], domains, analyzer=self.analyzer)
        if bound.has_lower_bound and bound.has_upper_bound:
            found = arith.to_range(bound, self.analyzer)
            if not ir.uses_var(found, domains.__contains__):
                return found
        # What is read decides where: it may be anywhere.
        return ir.Range(ir.const(0, size.dtype), size)
