"""A masked store into local memory becomes a store of a blend of new and old values.

Masks keep the tails of vectors from writing where they must not. In memory that a kernel allocates
for itself, and where all lanes provably lie inside, writing back what was there is as good; and
unlike masked stores, plain ones can be kept in registers. Memory that ends in the middle of such a
vector is made larger.

Where every vector of some memory has the same mask, nobody sees the other lanes. Then there is
nothing to blend, which would cost as much as a multiply-add.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from tilewright import ir
from tilewright.arith import Analyzer
from tilewright.lowering.base import function_pass
from tilewright.lowering.rewriters import StmtRewriter


def _with_size(body: ir.Stmt, data: ir.Var, size: int) -> ir.Stmt:
    """Gives some allocated memory another size, in everything that refers to it."""

    @functools.cache
    def sized(buffer: ir.Buffer) -> ir.Buffer:
        return ir.replace(buffer, shape=(ir.const(size, buffer.shape[0].dtype),))

    def access(node: Any) -> Any:
        own = node.buffer.data is data
        return ir.replace(node, buffer=sized(node.buffer)) if own else node

    return ir.rewrite(body, {(ir.BufferLoad, ir.BufferStore, ir.DeclBuffer): access})


def _has_one_mask(data: ir.Var, body: ir.Stmt, analyzer: Analyzer) -> bool:
    """True if all vectors in some memory have the same mask, which leaves out the same lanes."""
    nodes = list(ir.walk(body))
    accesses = [node for node in nodes if isinstance(node, ir.BufferLoad | ir.BufferStore)]
    vectors = [access for access in accesses if access.buffer.data is data]
    first = vectors[0].predicate if vectors else None
    if first is None or any(node is data for node in nodes):  # it is passed on
        return False
    masks = [vector.predicate for vector in vectors]
    is_same = all(mask is not None and ir.expr_deep_equal(mask, first) for mask in masks)
    loop_vars = {node.loop_var for node in nodes if isinstance(node, ir.For)}
    lanes = first.dtype.lanes
    apart = all(_is_whole_vector(vector.indices, lanes, analyzer) for vector in vectors)
    return is_same and loop_vars.isdisjoint(ir.free_vars(first)) and apart


def _is_whole_vector(indices: Sequence[ir.PrimExpr], lanes: int, analyzer: Analyzer) -> bool:
    """True for one of the vectors into which memory is cut."""
    match indices:
        case (ir.Ramp(base=base, stride=ir.IntImm(value=1), lanes=count),) if count == lanes:
            return analyzer.can_prove_equal(ir.floormod(base, lanes), 0)
    return False


class _Blender(StmtRewriter):
    def __init__(self) -> None:
        self._analyzer = Analyzer()
        self._uniform: set[ir.Var] = set()  # memory whose vectors all have the same mask
        self._sizes: dict[ir.Var, int] = {}
        self._needed: dict[ir.Var, int] = {}

    def visit_allocate(self, node: ir.Allocate) -> ir.Stmt:
        data, size = node.buffer_var, node.extents[0]
        annotation = data.type_annotation
        is_local = annotation is not None and annotation.storage_scope == "local"
        if not is_local or len(node.extents) != 1 or not isinstance(size, ir.IntImm):
            return self.generic_visit(node)
        self._sizes[data] = self._needed[data] = size.value
        if _has_one_mask(data, node.body, self._analyzer):
            self._uniform.add(data)
        node = self.generic_visit(node)
        needed = self._needed[data]
        if needed == size.value:
            return node
        body = _with_size(node.body, data, needed)
        return ir.replace(node, extents=(ir.const(needed, size.dtype),), body=body)

    def visit_for(self, node: ir.For) -> ir.Stmt:
        self._analyzer.bind(node.loop_var, ir.Range(node.min, node.extent), allow_override=True)
        return self.generic_visit(node)

    def visit_buffer_store(self, node: ir.BufferStore) -> ir.Stmt:
        mask = node.predicate
        if mask is None or not self._is_inside(node):
            return node

        def unmasked(load: ir.BufferLoad) -> ir.PrimExpr:
            same = load.predicate is not None and ir.expr_deep_equal(load.predicate, mask)
            return ir.replace(load, predicate=None) if same and self._is_inside(load) else load

        # Lanes that the blend throws away may be loaded as well.
        value = ir.rewrite(node.value, {ir.BufferLoad: unmasked})
        if node.buffer.data in self._uniform:
            return ir.replace(node, value=value, predicate=None)
        old = ir.BufferLoad(node.buffer, node.indices)
        return ir.replace(node, value=ir.Select(mask, value, old), predicate=None)

    def _is_inside(self, node: ir.BufferStore | ir.BufferLoad) -> bool:
        """True if all lanes can be touched. If some lie past the end, the memory will be larger."""
        data = node.buffer.data
        match node.indices:
            case (ir.Ramp(base=base, stride=ir.IntImm(value=step), lanes=lanes),) if (
                data in self._sizes and step > 0
            ):
                bound = self._analyzer.const_int_bound(base)
                needed = bound.max_value + step * (lanes - 1) + 1
                if bound.min_value < 0 or needed >= self._sizes[data] + lanes:
                    return False
                self._needed[data] = max(self._needed[data], needed)
                return True
        return False


@function_pass
def BlendLocalStores(func: ir.PrimFunc) -> ir.PrimFunc:
    """Replace masked stores into local memory by plain ones."""
    if all(store.predicate is None for store in ir.nodes_of(func.body, ir.BufferStore)):
        return func
    return func.with_body(_Blender().rewrite(func.body))
