"""`reverse_compute_inline`: have a producer compute what its only consumer makes of its result."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tilewright import arith, ir
from tilewright.arith.block_access import block_access_regions
from tilewright.errors import ArithError
from tilewright.schedule.conditions.checks import check_names_no_loops, why_not_complete
from tilewright.schedule.conditions.races import check_no_race
from tilewright.schedule.core import ScheduleCore
from tilewright.schedule.errors import PrimitiveError, is_allowed
from tilewright.schedule.moves.compute_at import UnknownIterations, check_not_output, values_of
from tilewright.schedule.moves.relocate import check_removable, remove
from tilewright.schedule.primitives.compute_inline import check_plain_loads, inlinable, single_store
from tilewright.schedule.regions.relaxed import RelaxedView, Surroundings, interval_of, points_at
from tilewright.schedule.state import BlockRV, ScheduleState, StmtSRef, scope as scopes
from tilewright.schedule.state.flags import forget_flow, produced_box
from tilewright.schedule.trace.instruction import Primitive, given, register_primitive


class NotOneProducer(PrimitiveError):
    reason = "block {block!r} has {count} producers"
    remedy = "it must read exactly one buffer that other blocks write, written by a single block"


class ProducerNotComplete(PrimitiveError):
    reason = "the producer {producer!r} of block {block!r} is not a complete block: {why}"
    remedy = "inline only into blocks that compute each element once; else use reverse_compute_at"


class SeveralConsumers(PrimitiveError):
    reason = "the producer {producer!r} of block {block!r} has {count} consumers"
    remedy = "its result would still be needed; inline or move the other consumers first"


class UsedBetweenBlocks(PrimitiveError):
    reason = "buffer {buffer!r}, which block {block!r} reads, decides which iterations run"
    remedy = "bounds of loops, bindings and conditions would still need it"


class HasPredicate(PrimitiveError):
    reason = "block {block!r} runs only where `{predicate}`"
    remedy = "inline it before splitting its loops"


class UnlikeLoads(PrimitiveError):
    reason = "block {block!r} does not read buffer {buffer!r} at one and the same place"
    remedy = "all its loads must have the same indices"


class IndicesNotBijective(PrimitiveError):
    reason = "the indices `{indices}` of block {block!r} cannot be solved for its iterators"
    remedy = "each element must be read by exactly one iteration, by way of sums and divisions"


class NotCovered(PrimitiveError):
    reason = "block {block!r} runs for iterations without an element of buffer {buffer!r}"
    remedy = "the producer must write an element for each of its iterations"


@dataclass(frozen=True)
class _Pair:
    block: StmtSRef
    producer: StmtSRef
    made: ir.BufferStore  # what the producer does


@dataclass(frozen=True)
class ReverseInlinePlan:
    """A consumer that can be inlined."""

    block: StmtSRef
    producer: StmtSRef
    removed: StmtSRef
    buffer: ir.Buffer  # between the two
    body: ir.BufferStore  # what the producer is to do
    predicate: ir.PrimExpr  # when


def reverse_compute_inline(state: ScheduleState, block: StmtSRef) -> None:
    """Have the producer of `block` do its work, too, and remove the block."""
    _carry_out(state, plan_reverse_compute_inline(state, block))


def can_reverse_compute_inline(state: ScheduleState, block: StmtSRef) -> bool:
    """Whether `reverse_compute_inline` would work; nothing changes."""
    return is_allowed(plan_reverse_compute_inline, state, block)


def plan_reverse_compute_inline(state: ScheduleState, block: StmtSRef) -> ReverseInlinePlan:
    """Check everything and work out the new body of the producer."""
    root = block.scope_root
    store, scope = inlinable(state, block, may_be_output=True)
    realize = block.realize
    if not ir.is_true(realize.predicate):
        raise HasPredicate(block=block, predicate=realize.predicate)
    producer = _only_producer(scope, block)
    check_not_output(root, producer)
    made = single_store(producer)
    if scopes.used_between_blocks(root.block.body, made.buffer):
        raise UsedBetweenBlocks(producer, block=block, buffer=made.buffer.name)
    removed = check_removable(block, [producer])
    check_plain_loads(block, made.buffer)
    around = [loop.loop for loop in producer.loops]
    check_no_race(producer, producer.realize.iter_values, around)
    pair = _Pair(block, producer, made)
    indices = _common_indices(block, store, made.buffer)
    if (values := values_of(realize, [loop.loop for loop in block.loops])) is None:
        raise UnknownIterations(block=block, predicate=realize.predicate)
    inverse = _inverse(block, indices, values, made)
    _check_covered(state, pair, indices)
    analyzer = arith.Analyzer(scopes.iterator_domains(producer.block))
    simple = {var: analyzer.simplify(value) for var, value in inverse.items()}
    predicate = _bound_guard(producer, _guard(pair, indices, values, simple, analyzer))
    body = _merged_body(store, made, inverse)
    check_names_no_loops(block, ir.replace(producer.block, body=body), producer)
    return ReverseInlinePlan(block, producer, removed, made.buffer, body, predicate)


def _bound_guard(producer: StmtSRef, guard: ir.PrimExpr) -> ir.PrimExpr:
    """The predicate of the producer with a guard on its iterators added."""
    realize = producer.realize
    if isinstance(guard, ir.IntImm) and guard.value:
        return realize.predicate
    place = Surroundings(loop.loop for loop in producer.loops)
    bound = place.analyzer.simplify(ir.substitute(guard, realize.values))
    with place.analyzer.constraint_scope(bound):
        implied = place.analyzer.can_prove(realize.predicate)
    return bound if implied else ir.logical_and(realize.predicate, bound)


def _only_producer(scope: scopes.BlockScope, block: StmtSRef) -> StmtSRef:
    producers = scope.producers(block, scopes.DepKind.RAW)
    if len(producers) != 1:
        raise NotOneProducer(*producers, block=block, count=len(producers))
    (producer,) = producers
    if why := why_not_complete(scope, producer):
        raise ProducerNotComplete(block=block, producer=producer, why=why)
    consumers = scope.consumers(producer, scopes.DepKind.RAW)
    if len(consumers) != 1:
        raise SeveralConsumers(
            *consumers, block=block.name, producer=producer, count=len(consumers)
        )
    return producer


def _common_indices(
    block: StmtSRef, store: ir.BufferStore, buffer: ir.Buffer
) -> tuple[ir.PrimExpr, ...]:
    loads = [load for load in ir.nodes_of(store, ir.BufferLoad) if load.buffer is buffer]
    analyzer = arith.Analyzer()
    if not loads or any(
        not analyzer.can_prove_equal(a, b)
        for load in loads[1:]
        for a, b in zip(load.indices, loads[0].indices, strict=True)
    ):
        raise UnlikeLoads(block=block, buffer=buffer.name)
    return loads[0].indices


def _inverse(
    block: StmtSRef,
    indices: Sequence[ir.PrimExpr],
    values: Sequence[ir.Range],
    made: ir.BufferStore,
) -> dict[ir.Var, ir.PrimExpr]:
    """The iterators of the consumer that read what one iteration of the producer writes."""
    domains = dict(zip((iv.var for iv in block.block.iter_vars), values, strict=True))
    units: dict[ir.Var, ir.PrimExpr] = {
        var: dom.min for var, dom in domains.items() if ir.is_one(dom.extent)
    }
    outputs = [ir.Var(f"d{axis}", index.dtype) for axis, index in enumerate(indices)]
    if (inverse := _solved(indices, domains, outputs)) is None:
        fixed = [ir.substitute(index, units) for index in indices]
        moving = {var: dom for var, dom in domains.items() if var not in units}
        inverse = _solved(fixed, moving, outputs) or _solved(
            fixed, _rounded_up(fixed, moving), outputs
        )
    if inverse is None:
        texts = ", ".join(map(str, indices))
        raise IndicesNotBijective(block=block, indices=texts)
    written = {
        output: ir.cast(output.dtype, index)
        for output, index in zip(outputs, made.indices, strict=True)
    }
    solved = {var: ir.substitute(value, written) for var, value in inverse.items()}
    return {**units, **solved}


def _solved(
    indices: Sequence[ir.PrimExpr], domains: Mapping[ir.Var, ir.Range], outputs: Sequence[ir.Var]
) -> dict[ir.Var, ir.PrimExpr] | None:
    """The iterators in terms of the values of the indices."""
    found = arith.detect_iter_map(
        indices, domains, ir.TRUE, arith.IterMapLevel.BIJECTIVE, simplify_trivial_iterators=False
    )
    if found.errors:
        return None
    try:
        return arith.inverse_affine_iter_map(found.indices, outputs, simplified=False)
    except ArithError:
        return None


def _rounded_up(
    indices: Sequence[ir.PrimExpr], domains: Mapping[ir.Var, ir.Range]
) -> Mapping[ir.Var, ir.Range]:
    """Domains with whole tiles: what inverts the indices there inverts them on fewer values, too.

    A consumer that leaves out the padding of its producer runs over part of the last tile only.
    """
    tiles = dict.fromkeys(domains, 1)
    for node in itertools.chain.from_iterable(map(ir.walk, indices)):
        if isinstance(node, ir.FloorDiv | ir.FloorMod) and isinstance(node.b, ir.IntImm):
            for var in ir.free_vars(node.a):
                if var in tiles and node.b.value > 0:
                    tiles[var] = math.lcm(tiles[var], node.b.value)
    return {var: _whole_tiles(dom, tiles[var]) for var, dom in domains.items()}


def _whole_tiles(dom: ir.Range, tile: int) -> ir.Range:
    if not isinstance(dom.extent, ir.IntImm):
        return dom
    return ir.Range(dom.min, ir.const(-(-dom.extent.value // tile) * tile, dom.extent.dtype))


def _check_covered(state: ScheduleState, plan: _Pair, indices: Sequence[ir.PrimExpr]) -> None:
    """Every iteration of the consumer reads an element that the producer writes."""
    block, producer, buffer = plan.block, plan.producer, plan.made.buffer
    root = block.scope_root
    written = produced_box(state, producer, producer.block.writes[0], root)
    view = RelaxedView(block.realize, [loop.loop for loop in block.loops])
    read, _ = view.box(points_at(indices))
    if written is None or not arith.covers(
        list(map(interval_of, written)), list(map(interval_of, read))
    ):
        raise NotCovered(producer, block=block, buffer=buffer.name)


def _guard(
    plan: _Pair,
    indices: Sequence[ir.PrimExpr],
    values: Sequence[ir.Range],
    inverse: Mapping[ir.Var, ir.PrimExpr],
    analyzer: arith.Analyzer,
) -> ir.PrimExpr:
    """For which iterations of the producer there is one of the consumer."""
    conditions: list[ir.PrimExpr] = []
    for iter_var, dom in zip(plan.block.block.iter_vars, values, strict=True):
        value = inverse[iter_var.var]
        conditions += [ir.greater_equal(value, dom.min), ir.less(value, dom.min + dom.extent)]
    for index, written in zip(indices, plan.made.indices, strict=True):
        conditions.append(ir.equal(ir.substitute(index, inverse), ir.cast(index.dtype, written)))
    open_ones = [condition for condition in conditions if not analyzer.can_prove(condition)]
    return ir.logical_and(*map(analyzer.simplify, open_ones))


def _merged_body(
    store: ir.BufferStore, made: ir.BufferStore, inverse: Mapping[ir.Var, ir.PrimExpr]
) -> ir.BufferStore:
    """The consumer's store in terms of the producer: its loads become the producer's value."""
    of_made = {ir.BufferLoad: lambda load: made.value if load.buffer is made.buffer else load}
    # Iterators are replaced first: those of the producer's value stay as they are.
    return ir.rewrite(ir.substitute(store, inverse), of_made)


def _carry_out(state: ScheduleState, plan: ReverseInlinePlan) -> None:
    old = plan.producer.block
    bare = ir.replace(old, body=plan.body)
    found = block_access_regions(bare)
    after = ir.replace(bare, reads=found.reads, writes=found.writes)

    def updated(node: ir.BlockRealize) -> ir.BlockRealize:
        """The producer with its new body and predicate."""
        if node.block is not old:
            return node
        return ir.replace(node, block=after, predicate=plan.predicate)

    def change(root: ir.Block) -> ir.Block:
        buffers = tuple(b for b in root.alloc_buffers if b is not plan.buffer)
        body = ir.rewrite(root.body, {ir.BlockRealize: updated})
        return ir.replace(root, body=body, alloc_buffers=buffers)

    scope = state.scope_of(plan.block.scope_root)
    forget_flow(state, plan.producer, *(e.dst for e in scope.from_block(plan.block)))
    state.info(plan.producer).affine_binding = None
    remove(state, plan.removed, change, {old: after})


@register_primitive
class ReverseComputeInline(Primitive[None]):
    block: BlockRV = given()

    def run(self, sch: ScheduleCore) -> None:
        reverse_compute_inline(sch.state, sch.get_sref(self.block))
