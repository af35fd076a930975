"""`blockize`: everything under a loop, or a run of blocks, as one block."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tilewright import arith, ir
from tilewright.arith.interval import as_interval
from tilewright.schedule.conditions.checks import check_names_no_loops
from tilewright.schedule.core import ScheduleCore
from tilewright.schedule.errors import PrimitiveError
from tilewright.schedule.moves.block_iterators import IteratorSubstitution
from tilewright.schedule.moves.init_block import initialization, reads_with_writes
from tilewright.schedule.moves.relocate import path_below
from tilewright.schedule.regions.subspace import DividedBindings, Part, divide_bindings
from tilewright.schedule.state import BlockInfo, BlockRV, LoopRV, ScheduleState, StmtSRef
from tilewright.schedule.state.flags import forget_flow
from tilewright.schedule.state.scope import DepKind, domain_of, domains_of, lowest_common_ancestor
from tilewright.schedule.state.splice import copy_path, replace_in_parent, replace_run_in_parent
from tilewright.schedule.state.sref import leaf_realizes
from tilewright.schedule.trace.instruction import Primitive, constant, given, register_primitive


class NotAroundOneBlock(PrimitiveError):
    reason = "{count} blocks are under loop {loop!r}"
    remedy = "blockize takes a loop around exactly one block, or a list of blocks"


class CannotDivide(PrimitiveError):
    reason = (
        "the bindings or the predicate of block {block!r} mix the loops from {loop!r} on with "
        "those outside"
    )
    remedy = "split and reorder so that each iterator is outer * extent + inner"


class LengthFromOutside(PrimitiveError):
    reason = (
        "how often loop {loop!r} runs, `{extent}`, depends on loop {outer!r}, which would lie "
        "outside of the new block"
    )
    remedy = "blockize from loop {outer!r} on, or only what is inside of loop {loop!r}"


OuterIterator = Callable[[ir.IterVar, Part], ir.IterVar]


def _iterator(model: ir.IterVar, suffix: str, extent: ir.PrimExpr) -> ir.IterVar:
    variable = ir.Var(f"{model.var.name}_{suffix}", model.var.dtype)
    return ir.IterVar(ir.Range(ir.const(0, variable.dtype), extent), variable, model.iter_type)


def _new_outer_iterator(model: ir.IterVar, part: Part) -> ir.IterVar:
    return _iterator(model, "o", part.extent)


@dataclass(frozen=True)
class InnerBlock:
    """A block after its iterators were divided, and the iterators it needs outside."""

    realize: ir.BlockRealize
    outer_iters: tuple[ir.IterVar, ...]
    outer_values: tuple[ir.PrimExpr, ...]
    outer_predicate: ir.PrimExpr
    reads: tuple[ir.BufferRegion, ...]  # while the inner iterators take all their values
    writes: tuple[ir.BufferRegion, ...]


def divide_block(
    realize: ir.BlockRealize,
    bindings: DividedBindings,
    *,
    preserve_unit_iters: bool,
    outer_iterator: OuterIterator = _new_outer_iterator,
) -> InnerBlock:
    """A block in terms of outer and inner iterators."""
    block = realize.block
    outer_iters: list[ir.IterVar] = []
    inner_iters: list[ir.IterVar] = []
    inner_values: list[ir.PrimExpr] = []
    values: dict[ir.Var, ir.PrimExpr] = {}
    for iter_var, division in zip(block.iter_vars, bindings.divisions, strict=True):
        outer, inner = division.outer, division.inner
        outer_iters.append(outer_iterator(iter_var, outer))
        outer_var = outer_iters[-1].var
        if inner.is_unit:
            value: ir.PrimExpr = outer_var
            if outer.is_unit and not preserve_unit_iters:
                value = ir.const(0, outer_var.dtype)
        else:
            inner_iters.append(_iterator(iter_var, "i", inner.extent))
            inner_var = inner_iters[-1].var
            inner_values.append(inner.value)
            value = inner_var if outer.is_unit else outer_var * inner.extent + inner_var
        values[iter_var.var] = value if division.offset is None else value + division.offset
    substitution = IteratorSubstitution(values, (*outer_iters, *inner_iters))
    changed = ir.replace(substitution.block(block), iter_vars=tuple(inner_iters))
    relax = substitution.relaxing(inner_iters)
    return InnerBlock(
        ir.BlockRealize(tuple(inner_values), bindings.inner_predicate, changed),
        tuple(outer_iters),
        tuple(division.outer.value for division in bindings.divisions),
        bindings.outer_predicate,
        tuple(relax(region) for region in changed.reads),
        tuple(relax(region) for region in changed.writes),
    )


@dataclass(frozen=True)
class BlockizedLoop:
    """What stands where a loop stood, and the block that was under it, before and after."""

    realize: ir.BlockRealize
    block: StmtSRef
    before: ir.Block
    after: ir.Block


def blockized_loop(
    state: ScheduleState, loop: StmtSRef, *, preserve_unit_iters: bool
) -> BlockizedLoop:
    """What is under `loop`, and the loop, as a block; changes nothing yet."""
    found = list(leaf_realizes(loop.loop.body))
    if len(found) != 1:
        raise NotAroundOneBlock(loop=loop, count=len(found))
    realize = found[0]
    block = state.srefs[realize.block]
    around = block.loops
    inside = around[around.index(loop) :]
    bindings = _divide(block, realize, around, inside, preserve_unit_iters)
    inner = divide_block(realize, bindings, preserve_unit_iters=preserve_unit_iters)
    init: ir.Stmt | None = None
    inner_realize = inner.realize
    if realize.block.init is not None:
        init, inner_realize = _move_init(inner.realize, [sref.loop for sref in inside])
    outer = ir.Block(
        inner.outer_iters,
        inner.reads,
        inner.writes,
        f"{realize.block.name_hint}_o",
        copy_path(loop, block, inner_realize),
        init,
    )
    check_names_no_loops(block, outer, loop)
    check_names_no_loops(block, ir.replace(outer, body=ir.no_op()))
    new = ir.BlockRealize(inner.outer_values, inner.outer_predicate, outer)
    return BlockizedLoop(new, block, realize.block, inner_realize.block)


def blockize_loop(state: ScheduleState, loop: StmtSRef, *, preserve_unit_iters: bool) -> StmtSRef:
    """Wrap what is under `loop`, and the loop, into a block."""
    made = blockized_loop(state, loop, preserve_unit_iters=preserve_unit_iters)
    replace_in_parent(state, loop, (made.realize,), {made.before: made.after})
    state.infos[made.block] = BlockInfo()
    return _wrapped(state, state.srefs[made.realize.block])


def _wrapped(state: ScheduleState, outer: StmtSRef) -> StmtSRef:
    """The new block; what is read from it comes in larger pieces now."""
    forget_flow(state, *state.scope_of(outer.scope_root).consumers(outer, *DepKind))
    return outer


def _divide(
    block: StmtSRef,
    realize: ir.BlockRealize,
    around: Sequence[StmtSRef],
    inside: Sequence[StmtSRef],
    preserve_unit_iters: bool,
) -> DividedBindings:
    domains = domains_of(s.loop for s in around)
    inner_loops = {s.loop.loop_var for s in inside}
    for sref in inside:
        _check_length(sref, [var for var in domains if var not in inner_loops])
    bindings = divide_bindings(
        realize, domains, inner_loops, preserve_unit_iters=preserve_unit_iters
    )
    if bindings is None:
        boundary = inside[0] if inside else block
        raise CannotDivide(block=block, loop=boundary)
    return bindings


def _check_length(loop: StmtSRef, outside: Sequence[ir.Var]) -> None:
    """Bodies of blocks know nothing of the loops around them."""
    for end in (loop.loop.min, loop.loop.extent):
        if isinstance(end, ir.IntImm):
            continue
        for outer in outside:
            if ir.uses_var(end, outer.same_as):
                raise LengthFromOutside(loop=loop, extent=loop.loop.extent, outer=outer.name)


def _move_init(
    realize: ir.BlockRealize, loops: Sequence[ir.For]
) -> tuple[ir.Stmt, ir.BlockRealize]:
    """The init statement as a nest for the outer block, and the inner block without it."""
    _, nest = initialization(
        realize,
        loops,
        rename_loop=lambda name: name,
        rename_iterator=lambda name: f"{name}_init",
        annotations={},
    )
    block = realize.block
    update = ir.replace(block, init=None, reads=reads_with_writes(block))
    return nest, ir.replace(realize, block=update)


class NoBlocks(PrimitiveError):
    reason = "the list of blocks is empty"


class NotSiblings(PrimitiveError):
    reason = "the blocks {blocks} and what is between them are not consecutive statements"
    remedy = "give blocks of one scope that follow each other, with nothing else in between"


class BlockGivenTwice(PrimitiveError):
    reason = "block {block!r} is given twice"


class JoinedReduction(PrimitiveError):
    reason = "block {block!r} has the reduction iterator {iterator!r}"
    remedy = "several blocks can be joined only if they have no reduction; blockize each first"


class DifferentPredicates(PrimitiveError):
    reason = "blocks {first!r} and {second!r} run under different conditions on the outer loops"


def blockize_blocks(
    state: ScheduleState, blocks: Sequence[StmtSRef], *, preserve_unit_iters: bool
) -> StmtSRef:
    """Wrap blocks that follow each other, with the loops around each, into one block."""
    tops = _tops_in_order(blocks)
    outer_iters: list[ir.IterVar] = []
    outer_values: list[ir.PrimExpr] = []
    parts = {
        block: _divide_in_run(block, top, outer_iters, outer_values, preserve_unit_iters)
        for block, top in tops.items()
    }
    first = next(iter(parts))
    guard = parts[first].outer_predicate
    for block, part in parts.items():
        if not ir.expr_deep_equal(part.outer_predicate, guard):
            raise DifferentPredicates(first=first, second=block)
    statements = [copy_path(tops[block], block, part.realize) for block, part in parts.items()]
    outer = ir.Block(
        tuple(outer_iters),
        _joined([part.reads for part in parts.values()]),
        _joined([part.writes for part in parts.values()]),
        "outer_" + "".join(f"{block.name}_" for block in parts),
        ir.seq(statements),
    )
    realize = ir.BlockRealize(tuple(outer_values), guard, outer)
    reuse = {block.block: part.realize.block for block, part in parts.items()}
    replace_run_in_parent(state, list(tops.values()), realize, reuse)
    for block in parts:
        state.infos[block] = BlockInfo()
    return _wrapped(state, state.srefs[outer])


def _tops_in_order(blocks: Sequence[StmtSRef]) -> dict[StmtSRef, StmtSRef]:
    """Blocks in program order, with the statement of one sequence that each stands in."""
    if not blocks:
        raise NoBlocks()
    if len(set(blocks)) != len(blocks):
        twice = next(block for block in blocks if list(blocks).count(block) > 1)
        raise BlockGivenTwice(block=twice)
    for block in blocks:
        for iter_var in block.block.iter_vars:
            if iter_var.iter_type is ir.IterType.COMM_REDUCE:
                raise JoinedReduction(block=block, iterator=iter_var.var.name)
    parent: StmtSRef | None = lowest_common_ancestor(blocks)
    if parent is not None and len(blocks) == 1:
        parent = parent.parent
    names = ", ".join(repr(block.name) for block in blocks)
    if parent is None or parent in blocks:
        raise NotSiblings(*blocks, blocks=names)
    pairs = sorted(
        ((path_below(parent, block)[0], block) for block in blocks),
        key=lambda pair: pair[0].seq_index,
    )
    positions = [top.seq_index for top, _ in pairs]
    consecutive = positions == list(range(positions[0], positions[0] + len(positions)))
    alone = all(_holds_only(top, block) for top, block in pairs)
    if not alone or (len(pairs) > 1 and not consecutive):
        raise NotSiblings(*blocks, blocks=names)
    return {block: top for top, block in pairs}


def _holds_only(top: StmtSRef, block: StmtSRef) -> bool:
    if top is block:
        return True
    if not top.is_loop:
        return False
    return [realize.block for realize in leaf_realizes(top.loop.body)] == [block.stmt]


def _divide_in_run(
    block: StmtSRef,
    top: StmtSRef,
    outer_iters: list[ir.IterVar],
    outer_values: list[ir.PrimExpr],
    preserve_unit_iters: bool,
) -> InnerBlock:
    """Divide a block; it shares the outer iterators of earlier blocks with the same bindings."""
    realize, around = block.realize, block.loops
    inside = around[around.index(top) :] if top is not block else []
    bindings = _divide(block, realize, around, inside, preserve_unit_iters)
    free = list(range(len(outer_iters)))

    def outer_iterator(model: ir.IterVar, part: Part) -> ir.IterVar:
        for index in free:
            known = outer_iters[index]
            if (
                known.iter_type is model.iter_type
                and ir.expr_deep_equal(domain_of(known).extent, part.extent)
                and ir.expr_deep_equal(outer_values[index], part.value)
            ):
                free.remove(index)
                return known
        outer_iters.append(_new_outer_iterator(model, part))
        outer_values.append(part.value)
        return outer_iters[-1]

    return divide_block(
        realize,
        bindings,
        preserve_unit_iters=preserve_unit_iters,
        outer_iterator=outer_iterator,
    )


def _joined(regions: Sequence[Sequence[ir.BufferRegion]]) -> tuple[ir.BufferRegion, ...]:
    """One region a buffer; those of later blocks come first, as in TVM."""
    by_buffer: dict[ir.Buffer, list[ir.BufferRegion]] = {}
    for group in reversed(regions):
        for region in group:
            by_buffer.setdefault(region.buffer, []).append(region)
    return tuple(_union(found) for found in by_buffer.values())


def _union(regions: Sequence[ir.BufferRegion]) -> ir.BufferRegion:
    first = regions[0]
    if all(ir.expr_deep_equal(region, first) for region in regions):
        return first
    analyzer = arith.Analyzer()
    boxes = [[as_interval(axis) for axis in region.region] for region in regions]
    bounds = arith.region_union(boxes, analyzer)
    return ir.BufferRegion(first.buffer, tuple(arith.to_range(bound, analyzer) for bound in bounds))


@register_primitive
class Blockize(Primitive[BlockRV]):
    target: LoopRV | list[BlockRV] = given()
    preserve_unit_iters: bool = constant(from_json=bool)

    def run(self, sch: ScheduleCore) -> BlockRV:
        preserve = self.preserve_unit_iters
        if isinstance(self.target, list):
            blocks = [sch.get_sref(block) for block in self.target]
            made = blockize_blocks(sch.state, blocks, preserve_unit_iters=preserve)
        else:
            loop = sch.get_sref(self.target)
            made = blockize_loop(sch.state, loop, preserve_unit_iters=preserve)
        return sch.block_rv(made)
