"""A test of whether the result of a statement may be written over one of its inputs."""

from __future__ import annotations

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
    expr_deep_equal,
)
from tilewright.ir.patterns import nodes_of, walk


def may_overwrite(stmt: Stmt, target: Var, source: Var) -> bool:
    """True when `stmt` computes each element of `target` from the same element of `source`.

    Then both may share memory: every element is read just before it is overwritten, once.
    """
    nodes = list(walk(stmt))
    stores = [node for node in nodes if isinstance(node, BufferStore)]
    loads = [node for node in nodes if isinstance(node, BufferLoad)]
    writing = [store for store in stores if store.buffer.data is target]
    reading = [load for load in loads if load.buffer.data is source]
    if len(writing) != 1 or not reading or any(node is target or node is source for node in nodes):
        return False
    if any(store.buffer.data is source for store in stores):
        return False
    if any(load.buffer.data is target for load in loads):
        return False
    (store,) = writing
    if sum(load.buffer.data is source for load in nodes_of(store.value, BufferLoad)) != len(
        reading
    ):
        return False
    same = all(expr_deep_equal(load.indices[0], store.indices[0]) for load in reading)
    loops = [node for node in nodes if isinstance(node, For)]
    return same and _visits_each_element_once(store.indices[0], loops)


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
