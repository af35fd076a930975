"""A scheduled program as loop nests: each store with its loops, its accesses and its operations.

Read straight from TensorIR with blocks, without lowering, since the prior looks at hundreds of
candidates before one is measured.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

from tilewright import ir
from tilewright.arith.interning import Interner
from tilewright.arith.ranges import Ranges
from tilewright.nest.access import MemoryAccess, MovingRanges
from tilewright.nest.index_reader import IndexReader
from tilewright.nest.raw_index import raw_index
from tilewright.nest.reading import EnclosingBlock, Loops, Reading, StoreSite

LONG_EXPRESSION = 8  # operations from which on it is worth looking for those that repeat


@dataclass(frozen=True, slots=True)
class StoreNest:
    """One store, the loops around it, and the cost of its value in operations."""

    loops: Loops
    store: MemoryAccess
    loads: tuple[MemoryAccess, ...]
    operations: float
    is_reduction: bool  # the store adds to what it finds
    share: float = 1.0  # of the iterations that run at all, where tiles do not divide
    packs_weights: bool = False


def nests_in(reading: Reading) -> Iterator[StoreNest]:
    """All nests of a function that was read, in program order."""
    for site in reading.sites:
        if isinstance(site.node, ir.Block):
            yield _tensor_nest(site.node, site, _Accesses(site, reading.reader))
        elif not site.in_instruction:
            yield _nest(site.node, site, _Accesses(site, reading.reader))


class _Accesses:
    """Reads the accesses of one site."""

    def __init__(self, site: StoreSite, reader: IndexReader) -> None:
        self._site = site
        self._direct = reader.direct
        self.ranges: Ranges = reader.counters

    def of(self, node: ir.BufferLoad | ir.BufferStore) -> MemoryAccess:
        """A load or store."""
        indices = []
        for index in node.indices:
            read_index = self._direct(index)
            indices.append(self._raw(index) if read_index is None else read_index)
        return MemoryAccess(node.buffer, tuple(indices), type(node) is ir.BufferStore, self.ranges)

    def of_region(self, region: ir.BufferRegion, is_store: bool) -> MemoryAccess:
        """What a tensor instruction reads or writes."""
        indices = tuple(self._direct(axis.min) or self._raw(axis.min) for axis in region.region)
        sizes = (axis.extent for axis in region.region)
        count = math.prod(size.value if isinstance(size, ir.IntImm) else 1 for size in sizes)
        size = count * max(1, region.buffer.dtype.bits // 8)
        return MemoryAccess(region.buffer, indices, is_store, self.ranges, size)

    def _raw(self, index: ir.PrimExpr) -> Any:
        return raw_index(ir.substitute(index, _bindings(self._site)), self.ranges)


def _bindings(site: StoreSite) -> Mapping[ir.Var, ir.PrimExpr]:
    return {} if site.scope is None else site.scope.bindings


# Products a cycle of instructions that work on tiles; those that work on vectors take a cycle.
_TILE_PRODUCTS = 1024


def _tensor_nest(block: ir.Block, site: StoreSite, accesses: _Accesses) -> StoreNest:
    """A block that is one tensor instruction: it touches regions, whatever it does inside."""
    (write,) = block.writes
    target = accesses.of_region(write, is_store=True)
    loads = [accesses.of_region(region, is_store=False) for region in block.reads]
    others = tuple(load for load in loads if load.buffer is not write.buffer)
    # The sides of a product of matrices follow from the sizes of its three operands.
    sizes = (each.unit_bytes // each.element_bytes for each in (target, *others))
    products = math.sqrt(math.prod(sizes))
    operations = max(1.0, products / _TILE_PRODUCTS) if len(others) == 2 else 1.0
    again = len(others) < len(loads)
    share = _share(site.scope, accesses.ranges)
    return StoreNest(site.loops, target, others, operations, again, share, site.packs_weights)


def _nest(store: ir.BufferStore, site: StoreSite, accesses: _Accesses) -> StoreNest:
    store = ir.substitute(store, site.lets) if site.lets else store
    count = _Operations()
    operations = count.of(store.value)
    if operations > LONG_EXPRESSION:
        count = _OperationsInside(_moving(site))
        operations = count.of(Interner().intern(store.value))
    others = [load for load in count.loads if load.buffer is not store.buffer]
    return StoreNest(
        site.loops,
        accesses.of(store),
        tuple(map(accesses.of, _distinct(others))),
        max(operations, 0.5),
        len(others) < len(count.loads),
        _share(site.scope, accesses.ranges),
        site.packs_weights,
    )


def _share(scope: EnclosingBlock | None, ranges: Ranges) -> float:
    """The share of iterations that the predicates of all blocks around let through."""
    share = 1.0
    while scope is not None:
        predicate = scope.realize.predicate
        if not isinstance(predicate, ir.IntImm):
            share *= _share_of(predicate, MovingRanges(ranges))
        scope = scope.outer
    return share


def _share_of(predicate: ir.PrimExpr, ranges: MovingRanges) -> float:
    """The share of iterations that bound checks `index < limit` let through."""
    match predicate:
        case ir.And(a=a, b=b):
            return _share_of(a, ranges) * _share_of(b, ranges)
        case ir.LT(a=index, b=ir.IntImm(value=limit)):
            last: int = ranges.of(index)[1]
            return min(1.0, limit / (last + 1))
    return 1.0


def _distinct(loads: Sequence[ir.BufferLoad]) -> list[ir.BufferLoad]:
    """Loads without those of an element that another one has loaded."""
    kept: list[ir.BufferLoad] = []
    for load in loads:
        same = (each for each in kept if each.buffer is load.buffer)
        if not any(ir.expr_deep_equal(each, load) for each in same):
            kept.append(load)
    return kept


# --- operations ---------------------------------------------------------------------------------

# What an operation costs, in multiply-adds.
_COSTS: dict[type, float] = {
    ir.Add: 1.0, ir.Sub: 1.0, ir.Mul: 1.0, ir.Max: 1.0, ir.Min: 1.0, ir.Div: 8.0, ir.Cast: 1.0,
}  # fmt: skip
_CALL_COST = 20.0
_CHEAP_CALLS = frozenset(
    f"tir.{name}"
    for name in (
        "bitwise_and", "bitwise_not", "bitwise_or", "bitwise_xor", "fabs", "if_then_else", "likely",
        "reinterpret", "shift_left", "shift_right",
    )
)  # fmt: skip


class _Operations:
    """Counts the operations of an expression and collects what it loads."""

    def __init__(self) -> None:
        self.loads: list[ir.BufferLoad] = []

    def of(self, expr: ir.Node) -> float:
        """The operations; a sum with a product in it is one multiply-add."""
        if type(expr) is ir.BufferLoad:
            self.loads.append(expr)
            return 0.0
        if isinstance(expr, ir.BinaryOp):
            a, b = expr.a, expr.b
            fused = type(expr) is ir.Add and (type(a) is ir.Mul or type(b) is ir.Mul)
            return (0.0 if fused else self._own(expr)) + self.of(a) + self.of(b)
        if not expr.child_fields:
            return 0.0
        return self._own(expr) + sum(map(self.of, ir.children(expr)))

    def _own(self, expr: ir.Node) -> float:
        if isinstance(expr, ir.Call):
            return 1.0 if getattr(expr.op, "name", "") in _CHEAP_CALLS else _CALL_COST
        return _COSTS.get(type(expr), 0.0)


def _moving(site: StoreSite) -> Set[ir.Var]:
    """The innermost loop's variable and what is bound to it."""
    inner = {loop.var for loop in [loop for loop in site.loops if loop.extent > 1][-1:]}
    bound = _bindings(site).items()
    return inner | {v for v, value in bound if ir.uses_var(value, inner.__contains__)}


class _OperationsInside(_Operations):
    """Counts what a compiler leaves inside the innermost loop: nothing twice, nothing constant.

    For expressions in which equal parts are one object.
    """

    def __init__(self, moving: Set[ir.Var]) -> None:
        super().__init__()
        self._moving = moving
        self._seen: set[ir.Node] = set()

    def of(self, expr: ir.Node) -> float:
        """The operations in every iteration of the innermost loop."""
        if expr in self._seen:
            return 0.0
        self._seen.add(expr)
        return super().of(expr)

    def _own(self, expr: ir.Node) -> float:
        cost = super()._own(expr)
        return cost if cost and ir.uses_var(expr, self._moving.__contains__) else 0.0
