"""May the result of a statement be written over one of its inputs?"""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.arith.affine import affine_in, is_injective
from tilewright.ir import (
    BufferLoad,
    BufferStore,
    For,
    IntImm,
    PrimExpr,
    Ramp,
    Stmt,
    Var,
    Visitor,
    expr_deep_equal,
)


class _Accesses(Visitor):
    """Stores to `target`, loads of `source`, and anything that forbids sharing their memory."""

    def __init__(self, target: Var, source: Var) -> None:
        self._target, self._source = target, source
        self.stores: list[BufferStore] = []
        self.loads = 0
        self.loops: list[For] = []
        self.forbidden = False

    def visit_buffer_store(self, node: BufferStore) -> None:
        if node.buffer.data is self._target:
            self.stores.append(node)
        self.forbidden = self.forbidden or node.buffer.data is self._source
        self.generic_visit(node)

    def visit_buffer_load(self, node: BufferLoad) -> None:
        self.loads += node.buffer.data is self._source
        self.forbidden = self.forbidden or node.buffer.data is self._target
        self.generic_visit(node)

    def visit_for(self, node: For) -> None:
        self.loops.append(node)
        self.generic_visit(node)

    def visit_var(self, node: Var) -> None:
        if node is self._target or node is self._source:
            self.forbidden = True


def may_overwrite(stmt: Stmt, target: Var, source: Var) -> bool:
    """True when `stmt` computes each element of `target` from the same element of `source`.

    Then both may share memory: every element is read just before it is overwritten, once.
    """
    accesses = _Accesses(target, source)
    accesses.visit(stmt)
    if accesses.forbidden or len(accesses.stores) != 1 or accesses.loads == 0:
        return False
    store = accesses.stores[0]
    loads = list(_loads_of(store.value, source))
    if len(loads) != accesses.loads:
        return False
    same = all(expr_deep_equal(load.indices[0], store.indices[0]) for load in loads)
    return same and _visits_each_element_once(store.indices[0], accesses.loops)


def _loads_of(expr: PrimExpr, source: Var) -> Iterator[BufferLoad]:
    found: list[BufferLoad] = []

    class _Loads(Visitor):
        def visit_buffer_load(self, node: BufferLoad) -> None:
            if node.buffer.data is source:
                found.append(node)
            self.generic_visit(node)

    _Loads().visit(expr)
    return iter(found)


def _visits_each_element_once(index: PrimExpr, loops: list[For]) -> bool:
    extents: dict[Var, int] = {}
    for loop in loops:
        if not isinstance(loop.extent, IntImm):
            return False
        extents[loop.loop_var] = loop.extent.value
    base, lanes, stride = index, 1, 0
    if isinstance(index, Ramp):
        if not isinstance(index.stride, IntImm):
            return False
        base, lanes, stride = index.base, index.lanes, index.stride.value
    found = affine_in(base, lambda var: var in extents)
    if found is None:
        return False
    coefficients = [found[0].terms.get(var, 0) for var in extents]
    return is_injective([*coefficients, stride], [*extents.values(), lanes])
