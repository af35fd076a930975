"""A scheduled program as loop nests: each store with its loops, its accesses and its operations.

Read straight from TensorIR with blocks, without lowering, since the prior looks at hundreds of
candidates before one is measured.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass

from tilewright import ir
from tilewright.arith.affine import Affine
from tilewright.arith.interning import Interner
from tilewright.arith.ranges import Ranges
from tilewright.ir.annotation_keys import SKIP_ZERO_TERMS
from tilewright.nest.access import MemoryAccess, MovingRanges, Reaches, raw_index
from tilewright.nest.index_reader import IndexReader
from tilewright.nest.limits import IndexLimits, limits_of
from tilewright.nest.reading import EnclosingBlock, Loops, Reading, StoreSite

_UNROLLED = ir.ForKind.UNROLLED
LONG_EXPRESSION = 8  # operations from which on it is worth looking for those that repeat


@dataclass(slots=True)
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
    accesses = _Accesses(reading.reader)
    for site in reading.sites:
        if isinstance(site.node, ir.Block):
            yield _tensor_nest(site.node, site, accesses)
        elif not site.in_instruction:
            yield _nest(site.node, site, accesses)


class _Accesses:
    """Reads the accesses of a function."""

    def __init__(self, reader: IndexReader) -> None:
        self._reader = reader
        self._direct = reader.direct
        self._limits: dict[EnclosingBlock | None, IndexLimits | None] = {}
        self.ranges: Ranges = reader.counters
        self._reaches = Reaches(MovingRanges(self.ranges))
        self._divided: dict[tuple[EnclosingBlock | None, ir.PrimExpr], Affine] = {}

    def of_region(
        self, region: ir.BufferRegion, is_store: bool, scope: EnclosingBlock | None
    ) -> MemoryAccess:
        """What a tensor instruction reads or writes."""
        sizes = (axis.extent for axis in region.region)
        count = math.prod(size.value if isinstance(size, ir.IntImm) else 1 for size in sizes)
        size = count * max(1, region.buffer.dtype.bits // 8)
        firsts = [axis.min for axis in region.region]
        return self.of(region.buffer, firsts, is_store, scope, size)

    def of(
        self,
        buffer: ir.Buffer,
        indices: Sequence[ir.PrimExpr],
        is_store: bool,
        scope: EnclosingBlock | None,
        unit_bytes: int = 0,
    ) -> MemoryAccess:
        """A load or store."""
        read = tuple([self._direct(index) or self._raw(index, scope) for index in indices])
        shared = self._reaches, self._limits_in(scope)
        return MemoryAccess(buffer, read, is_store, self.ranges, unit_bytes, *shared)

    def _limits_in(self, scope: EnclosingBlock | None) -> IndexLimits | None:
        """What the predicates of all blocks around hold back, if anything."""
        if scope not in self._limits:
            predicates = [around.realize.predicate for around in _around(scope)]
            limits = [
                limit
                for predicate in predicates
                if not isinstance(predicate, ir.IntImm)
                for limit in limits_of(predicate, self._reader)
            ]
            self._limits[scope] = IndexLimits(limits) if limits else None
        return self._limits[scope]

    def _raw(self, index: ir.PrimExpr, scope: EnclosingBlock | None) -> Affine:
        known = self._divided.get((scope, index))
        if known is None:
            bound = index if scope is None else ir.substitute(index, scope.bindings)
            known = self._divided[scope, index] = raw_index(bound, self.ranges)
        return known


# Products a cycle of instructions that work on tiles; those that work on vectors take a cycle.
_TILE_PRODUCTS = 1024


def _tensor_nest(block: ir.Block, site: StoreSite, accesses: _Accesses) -> StoreNest:
    """A block that is one tensor instruction: it touches regions, whatever it does inside."""
    (write,) = block.writes
    target = accesses.of_region(write, True, site.scope)
    loads = [accesses.of_region(region, False, site.scope) for region in block.reads]
    others = tuple(load for load in loads if load.buffer is not write.buffer)
    operations = tensor_operations(
        [each.unit_bytes // each.element_bytes for each in (target, *others)]
    )
    again = len(others) < len(loads)
    share = _share(site.scope, accesses.ranges)
    return StoreNest(site.loops, target, others, operations, again, share, site.packs_weights)


def tensor_operations(sizes: Sequence[int]) -> float:
    """What a tensor instruction costs, by the elements of its result and of its operands."""
    # The sides of a product of matrices follow from the sizes of its three operands.
    products = math.sqrt(math.prod(sizes))
    return max(1.0, products / _TILE_PRODUCTS) if len(sizes) == 3 else 1.0


def _nest(store: ir.BufferStore, site: StoreSite, accesses: _Accesses) -> StoreNest:
    store = ir.substitute(store, site.lets) if site.lets else store
    if any([SKIP_ZERO_TERMS in loop.annotations for loop in site.loops]):
        store = ir.replace(store, value=unconditional(store.value))
    operations, count, loads = _counted(store.value)
    if operations > LONG_EXPRESSION:
        operations = count.inside(_moving(site))
    if any([loop.kind is _UNROLLED and loop.extent > 1 for loop in site.loops]):
        operations /= count.cases
    others = [load for load in loads if load.buffer is not store.buffer]
    return StoreNest(
        site.loops,
        accesses.of(store.buffer, store.indices, True, site.scope),
        tuple([accesses.of(each.buffer, each.indices, False, site.scope) for each in others]),
        max(operations, 0.5),
        len(others) < len(loads),
        _share(site.scope, accesses.ranges),
        site.packs_weights,
    )


def unconditional(value: ir.PrimExpr) -> ir.PrimExpr:
    """A value where no term is left out: what decides about that stands outside of the tiles."""

    def chosen(call: ir.Call) -> ir.PrimExpr:
        is_choice = getattr(call.op, "name", "") == "tir.if_then_else"
        return call.args[1] if is_choice and len(call.args) == 3 else call

    return ir.rewrite(value, {ir.Call: chosen})


def _share(scope: EnclosingBlock | None, ranges: Ranges) -> float:
    """The share of iterations that the predicates of all blocks around let through."""
    share = 1.0
    for around in _around(scope):
        predicate = around.realize.predicate
        if not isinstance(predicate, ir.IntImm):
            share *= _share_of(predicate, MovingRanges(ranges))
    return share


def _around(scope: EnclosingBlock | None) -> Iterator[EnclosingBlock]:
    """A block and those around it, the innermost first."""
    while scope is not None:
        yield scope
        scope = scope.outer


def _share_of(predicate: ir.PrimExpr, ranges: MovingRanges) -> float:
    """The share of iterations that bound checks `index < limit` let through."""
    share = 1.0
    for check in ir.conjuncts(predicate):
        if isinstance(check, ir.LT) and isinstance(check.b, ir.IntImm):
            share *= min(1.0, check.b.value / (ranges.of(check.a)[1] + 1))
    return share


def distinct_loads(loads: Sequence[ir.BufferLoad]) -> list[ir.BufferLoad]:
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


@dataclass(frozen=True)
class WrittenOperations:
    """The operations of a value as it is written, before it is known which loops are innermost."""

    total: float
    loads: list[ir.BufferLoad]
    moving: list[tuple[float, frozenset[ir.Var]]] | None  # what they cost where variables move
    cases: int  # of which an index that is written out leaves one


def operations_of(value: ir.PrimExpr) -> WrittenOperations:
    """The operations of a value; those of a long one count where their variables move."""
    total, count, _ = _counted(value)
    moving = count.by_variables() if total > LONG_EXPRESSION else None
    return WrittenOperations(total, count.loads, moving, count.cases)


def _counted(value: ir.PrimExpr) -> tuple[float, _Operations, list[ir.BufferLoad]]:
    """What a value costs as it is written, each operation of a long one once, and its loads."""
    count = _Operations()
    total, loads = count.of(value), distinct_loads(count.loads)
    # What repeats and moves has a variable or a load in it that does so, too.
    if total > LONG_EXPRESSION and (count.has_variables or len(loads) < len(count.loads)):
        written, count = count.loads, _Operations()
        count.of(Interner().intern(value))
        count.loads = written
    return total, count, loads


class _Operations:
    """Counts the operations of an expression and collects what it loads."""

    def __init__(self) -> None:
        self.loads: list[ir.BufferLoad] = []
        self.has_variables = False  # outside of indices of loads
        self._choices: list[ir.Select] = []
        self._costs: dict[ir.Node, float] = {}  # of operations, each object once

    def of(self, expr: ir.Node) -> float:
        """The operations; a sum with a product in it is one multiply-add."""
        kind = type(expr)
        if kind is ir.BufferLoad:
            self.loads.append(expr)  # type: ignore[arg-type]
            return 0.0
        if isinstance(expr, ir.BinaryOp):
            a, b = expr.a, expr.b
            fused = kind is ir.Add and (type(a) is ir.Mul or type(b) is ir.Mul)
            cost = 0.0 if fused else _COSTS.get(kind, 0.0)
            below = self.of(a) + self.of(b)
        elif expr.child_fields:
            cost = _COSTS.get(kind, 0.0)
            if isinstance(expr, ir.Select):
                self._choices.append(expr)
            elif isinstance(expr, ir.Call):
                cost = 1.0 if getattr(expr.op, "name", "") in _CHEAP_CALLS else _CALL_COST
            below = sum([self.of(part) for part in ir.children(expr)])
        else:
            self.has_variables |= isinstance(expr, ir.Var)
            return 0.0
        if cost:
            self._costs[expr] = cost
        return cost + below

    def inside(self, moving: Set[ir.Var]) -> float:
        """What a compiler leaves inside of the innermost loop: nothing twice, nothing constant.

        For expressions in which equal parts are one object.
        """
        moves: dict[ir.Node, bool] = dict.fromkeys(moving, True)
        return sum([cost for expr, cost in self._costs.items() if _is_moving(expr, moves)])

    @property
    def cases(self) -> int:
        """Of how many expressions an index chooses one: where it is written out, one is left."""
        conditions = [choice.condition for choice in self._choices]
        compared = [
            str(condition.a)
            for condition in conditions
            if isinstance(condition, ir.EQ) and isinstance(condition.b, ir.IntImm)
        ]
        return 1 + len(compared) // max(1, len(set(compared)))

    def by_variables(self) -> list[tuple[float, frozenset[ir.Var]]]:
        """All costs, with the variables that move what costs them."""
        return [(cost, frozenset(ir.nodes_of(expr, ir.Var))) for expr, cost in self._costs.items()]


def _is_moving(expr: ir.Node, moves: dict[ir.Node, bool]) -> bool:
    """True when an expression uses what `moves`, where answers are kept."""
    known = moves.get(expr)
    if known is None:
        known = moves[expr] = any([_is_moving(part, moves) for part in ir.children(expr)])
    return known


def _moving(site: StoreSite) -> Set[ir.Var]:
    """The innermost loop's variable and what is bound to it."""
    moving = {loop.var for loop in [loop for loop in site.loops if loop.extent > 1][-1:]}
    for scope in reversed(list(_around(site.scope))):
        for iter_var, value in scope.realize.bindings:
            value = ir.substitute(value, scope.lets) if scope.lets else value
            if ir.uses_var(value, moving.__contains__):
                moving.add(iter_var.var)
    return moving
