"""The stores of a tree of loops with all that costs and features ask of them, as expressions.

Loops are slots: where decisions say how many of them run in parallel or make a vector, slots carry
marks. A depth between two slots of one fused loop is no place at which anything is seen.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from tilewright import ir
from tilewright.algebra.access_view import AccessReader, AccessView, Touched
from tilewright.algebra.expr import (
    Expr,
    Value,
    both,
    either,
    equal,
    is_more_than_one,
    maximum,
    multiply,
    negate,
    where,
)
from tilewright.algebra.loop_tree import (
    LoopNode,
    LoopTree,
    Node,
    NotInterpreted,
    Predicate,
    StageNode,
    digits_of,
    inner_stages,
    is_spatial,
    iterators_of,
    loops_of,
    roots_of,
    scopes_of,
)
from tilewright.algebra.reach import DigitReaches
from tilewright.algebra.stage_keys import stage_key
from tilewright.ir.annotation_keys import (
    AUTO_UNROLL_MAX_STEP,
    LAYOUT_REWRITE_PREPROC,
    SKIP_ZERO_TERMS,
    VECTOR_REDUCTION,
)
from tilewright.nest.nests import (
    WrittenOperations,
    distinct_loads,
    operations_of,
    tensor_operations,
    unconditional,
)


@dataclass(frozen=True)
class Slot:
    """A loop, or a part of one that decisions make."""

    extent: Value
    kind: ir.ForKind
    tag: str = ""  # of the thread axis that it is bound to
    in_parallel: Value = 0
    in_vector: Value = 0


@dataclass(frozen=True)
class NestView:
    """One store, the slots around it and its accesses."""

    name: str
    slots: tuple[Slot, ...]
    store: AccessView
    loads: tuple[AccessView, ...]
    operations: Value | float  # at least a half
    is_reduction: bool
    shares: tuple[tuple[Value, Value], ...]  # iterations that a predicate lets through, and all
    unroll_step: Value = 0
    reduction_width: Value = 0  # of a vector that adds up, where a loop is marked so
    packs_weights: bool = False
    boundaries: tuple[Value, ...] = ()  # 1 where a loop begins, and inside
    region: int = 0  # the number of its parallel loop, or of the loop that begins it

    @property
    def accesses(self) -> tuple[AccessView, ...]:
        return (self.store, *self.loads)


_Placed: TypeAlias = tuple[NestView, LoopNode | None]  # with its parallel loop
KnownNests: TypeAlias = dict[Hashable, tuple[NestView, ...]]  # by all that they depend on


def nests_of(tree: LoopTree, known: KnownNests | None = None) -> list[NestView]:
    """All nests in program order; those of stages that are `known` are taken from there."""
    numbers: dict[LoopNode | None, int] = {}
    return [
        replace(nest, region=numbers.setdefault(loop, len(numbers)))
        for stage in tree.stages()
        for nest, loop in _known_nests(stage, {} if known is None else known)
    ]


def _known_nests(stage: StageNode, known: KnownNests) -> list[_Placed]:
    key = stage_key(stage)
    if key is None:
        return _nests(stage)
    if key not in known:
        known[key] = tuple(nest for nest, _ in _nests(stage))
    loops = loops_of(stage)
    region = next((each for each in loops if each.kind is ir.ForKind.PARALLEL), None)
    return [(nest, region or (loops[0] if loops else None)) for nest in known[key]]


def _nests(stage: StageNode, around: Sequence[LoopNode] = ()) -> list[_Placed]:
    block = stage.block
    loops = [*around, *loops_of(stage)]
    if block.match_buffers:
        return [_tensor_nest(stage, loops)]
    found: list[_Placed] = []
    if block.init is not None and stage.does != "update":
        results = loops if stage.does == "init" else _loops_of_results(stage, loops)
        found += _body_nests(stage, block.init, stage.init_parts, results)
    if stage.does != "init":
        found += _body_nests(stage, block.body, stage.parts, loops)
    return found


def _body_nests(
    stage: StageNode, body: ir.Stmt, parts: Sequence[Node], loops: Sequence[LoopNode]
) -> list[_Placed]:
    """The nests of a statement of a block, or of the blocks in it."""
    if not parts:
        return [_nest(stage, body, loops)]
    return [nest for inner in inner_stages(parts) for nest in _nests(inner, loops)]


def _tensor_nest(stage: StageNode, loops: Sequence[LoopNode]) -> _Placed:
    """A block that is one tensor instruction: it touches regions, whatever it does inside."""
    if len(stage.block.writes) != 1:
        raise NotInterpreted(f"the instruction of block {stage.name!r} has several results")
    (write,) = stage.block.writes
    reads = [region for region in stage.block.reads if region.buffer is not write.buffer]
    sizes = [_elements(region) for region in (write, *reads)]
    touched = [
        Touched(region.buffer, [axis.min for axis in region.region], size)
        for region, size in zip((write, *reads), sizes, strict=True)
    ]
    again = len(reads) < len(stage.block.reads)
    return _view(stage, loops, touched, tensor_operations(sizes), again)


def _elements(region: ir.BufferRegion) -> int:
    return math.prod(
        axis.extent.value if isinstance(axis.extent, ir.IntImm) else 1 for axis in region.region
    )


def _loops_of_results(stage: StageNode, loops: Sequence[LoopNode]) -> list[LoopNode]:
    """The loops of a reduction in which its results start: those that do not reduce."""
    reducing = {
        digit
        for iter_var, terms in zip(stage.block.iter_vars, stage.bindings, strict=True)
        if not is_spatial(iter_var)
        for digit in roots_of(terms)
    }
    return [loop for loop in loops if reducing.isdisjoint(loop.digits)]


def _nest(stage: StageNode, body: ir.Stmt, loops: Sequence[LoopNode]) -> _Placed:
    if not isinstance(body, ir.BufferStore):
        raise NotInterpreted(f"block {stage.name!r} is more than one store")
    if any(SKIP_ZERO_TERMS in loop.annotations for loop in loops):
        body = ir.replace(body, value=unconditional(body.value))
    written = operations_of(body.value)
    if written.cases > 1:
        raise NotInterpreted(f"block {stage.name!r} chooses between expressions by an index")
    loads = distinct_loads(written.loads)
    others = [load for load in loads if load.buffer is not body.buffer]
    touched = [Touched(body.buffer, body.indices)]
    touched += [Touched(load.buffer, load.indices) for load in others]
    operations = _operations(stage, written, _seen(loops))
    return _view(stage, loops, touched, operations, len(others) < len(loads))


def _seen(loops: Sequence[LoopNode]) -> list[LoopNode]:
    """What never runs twice is no place at which anything could be seen."""
    return [loop for loop in loops if not isinstance(loop.extent, int) or loop.extent > 1]


def _view(
    stage: StageNode,
    loops: Sequence[LoopNode],
    touched: Sequence[Touched],  # first what is stored to
    operations: Value | float,
    is_reduction: bool,
) -> _Placed:
    region = next((each for each in loops if each.kind is ir.ForKind.PARALLEL), None)
    seen = _seen(loops)
    slots = tuple(Slot(o.extent, o.kind, o.tag, o.in_parallel, o.in_vector) for o in seen)
    reader = AccessReader(stage, seen)
    store, *loads = [reader.read(each, number == 0) for number, each in enumerate(touched)]
    made = NestView(
        stage.name,
        slots,
        store,
        tuple(loads),
        operations,
        is_reduction,
        tuple(_shares(stage)),
        _largest(AUTO_UNROLL_MAX_STEP, loops),
        _largest(VECTOR_REDUCTION, loops),
        any(LAYOUT_REWRITE_PREPROC in each.annotations for each in scopes_of(stage)),
        tuple(_boundaries(slots)),
    )
    return made, region or (loops[0] if loops else None)


def _operations(
    stage: StageNode, written: WrittenOperations, loops: Sequence[LoopNode]
) -> Value | float:
    """Operations that are left inside of the innermost loop; of short expressions it is all."""
    if written.moving is None:
        return max(written.total, 0.5)
    moved = _moved_inside(stage, loops)
    total: Value = 0
    for cost, variables in written.moving:
        moves: Value = 0
        for var in variables:
            moves = either(moves, moved.get(var, 0))
        total = total + multiply(moves, int(cost))
    return total if isinstance(total, Expr) else max(total, 0.5)


def _moved_inside(stage: StageNode, loops: Sequence[LoopNode]) -> dict[ir.Var, Value]:
    """1 for the iterators of a stage that the innermost loop moves."""
    chosen: list[tuple[LoopNode, Value]] = []
    waiting: Value = 1
    in_vector: Value = 0
    in_parallel: Value = 0
    for loop in reversed(loops):
        runs = is_more_than_one(loop.extent)
        first = both(waiting, runs)
        in_vector = either(in_vector, both(first, loop.in_vector))
        in_parallel = either(in_parallel, both(first, loop.in_parallel))
        joins = either(both(in_vector, loop.in_vector), both(in_parallel, loop.in_parallel))
        chosen.append((loop, either(first, both(runs, joins))))
        waiting = both(waiting, negate(runs))
    found: dict[ir.Var, Value] = {}
    for var, terms in iterators_of(stage).items():
        roots = roots_of(terms)
        moves: Value = 0
        for loop, is_chosen in chosen:
            if not roots.isdisjoint(loop.digits):
                moves = either(moves, is_chosen)
        found[var] = moves
    return found


def _boundaries(slots: Sequence[Slot]) -> list[Value]:
    found: list[Value] = [1]
    for outer, inner in itertools.pairwise(slots):
        fused = either(
            both(outer.in_parallel, inner.in_parallel), both(outer.in_vector, inner.in_vector)
        )
        found.append(negate(fused))
    return [*found, 1] if slots else found


def _shares(stage: StageNode) -> list[tuple[Value, Value]]:
    """Limits of predicates, and how far loops would get without them; each counts once."""
    found: list[tuple[Value, Value]] = []
    before: list[Predicate] = []
    for scope in scopes_of(stage):
        reaches = DigitReaches(digits_of(loops_of(scope)))
        for each in scope.predicates:
            again: Value = 0
            for other in before:
                again = either(again, _says_same(other, each))
            limit, covered = each.limit, reaches.of(each.terms) + 1
            found.append((where(again, 1, limit), where(again, 1, covered)))
            before.append(each)
    return found


def _says_same(one: Predicate, other: Predicate) -> Value:
    """1 where two predicates are one: those of a moved loop that is split are, if it is alone."""
    shared = one.terms.keys() & other.terms.keys()
    if not shared or any(one.terms[digit] != other.terms[digit] for digit in shared):
        return 0
    same = equal(one.limit, other.limit)
    for digit in one.terms.keys() ^ other.terms.keys():
        same = both(same, equal(digit.extent, 1))
    return same


def _largest(key: str, loops: Sequence[LoopNode]) -> Value:
    """The largest annotation of loops."""
    most: Value = 0
    for loop in loops:
        most = maximum(most, loop.annotations.get(key, 0))
    return most
