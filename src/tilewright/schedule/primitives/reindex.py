"""`reindex`: give a block a buffer of its own that is indexed by the block's iterators."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tilewright import arith, ir
from tilewright.schedule.caches import stage
from tilewright.schedule.caches.copy_block import iterators_over, make_copy_block, realize_over
from tilewright.schedule.caches.place import CachePlace, domains_between, takes_all_values
from tilewright.schedule.conditions.checks import has_affine_binding
from tilewright.schedule.core import ScheduleCore
from tilewright.schedule.errors import PrimitiveError
from tilewright.schedule.regions import buffer_access
from tilewright.schedule.state import BlockRV, Exprs, StmtSRef, leaf_realizes
from tilewright.schedule.state.flags import check_stage_pipeline, forget_flow
from tilewright.schedule.state.scope import domain_of, iterator_domains
from tilewright.schedule.trace.instruction import BufferPrimitive, register_primitive


class NotALeafBlock(PrimitiveError):
    reason = "block {block!r} holds other blocks"
    remedy = "reindex the blocks inside it"


class LoopsNotInAChain(PrimitiveError):
    reason = "loop {loop!r} holds more than the way to block {block!r}"
    remedy = "reindex before other blocks are moved under its loops"


class IteratorNotFromZero(PrimitiveError):
    reason = "block iterator {iterator!r} starts at {begin}, not at 0"
    remedy = "indices of the new buffer start at 0"


class SkipsIterations(PrimitiveError):
    reason = "block {block!r} may not run for every value of its iterators"
    remedy = "what it writes can be reindexed when its bindings take each combination of values"


class ReadsMoreThanItsPart(PrimitiveError):
    reason = (
        "the copy for all values of the iterators of block {block!r} would read more than block "
        "{part!r} around it says"
    )
    remedy = "reindex before the program is cut into parts"


@register_primitive
class ReIndex(BufferPrimitive[BlockRV]):
    """Copy what the block reads (side 0), or writes (side 1), in the order of its iterators."""

    method = "reindex"

    def run(self, sch: ScheduleCore) -> BlockRV:
        side = 1 if self.side else 0
        state, block, index = sch.state, sch.get_sref(self.block), self.buffer_index
        region = stage.accessed_region(block, "writes" if side else "reads", index)
        top = block.scope_root
        check_stage_pipeline(state, top)
        stmt, buffer = block.block, region.buffer
        if next(leaf_realizes(stmt.body), None) is not None:
            raise NotALeafBlock(block=block)
        access = buffer_access.single_access(block, buffer, side)
        anchor = _top_of_chain(block)
        loops = domains_between(block, top)
        if not has_affine_binding(state, block) or not takes_all_values(block.realize, loops):
            if side == 1:
                raise SkipsIterations(block=block)
            if top.parent is not None:
                raise ReadsMoreThanItsPart(block=block, part=top)
            access = replace(access, is_conditional=True)
        buffer_access.check_always_inside(block, buffer, access)
        indices = _simplified(stmt, access.indices)
        used = {var for index in indices for var in ir.free_vars(index)}
        covered = [iter_var for iter_var in stmt.iter_vars if iter_var.var in used]
        new = _reindexed(buffer, covered)
        changer = buffer_access.AccessChanger(
            buffer, new, tuple(iter_var.var for iter_var in covered)
        )
        changer.visit(stmt)
        nest, copy = _copy(buffer, new, covered, indices, into_new=side == 0)
        edit = stage.ScopeEdit(top, reuse=changer.reuse, buffers=[new])
        edit.insert(CachePlace(top, anchor, at_end=side == 1), nest)
        edit.apply(state)
        forget_flow(
            state, block, *stage.readers_after(state.scope_of(top), state.srefs[copy], buffer)
        )
        return sch.block_rv(stage.mark_copy_block(state, copy, complete=side == 1))


def _top_of_chain(block: StmtSRef) -> ir.Stmt:
    """The statement in the scope's body that leads to a block and to nothing else."""
    node: ir.Stmt = block.realize
    parent = block.parent
    while parent is not None and isinstance(parent.stmt, ir.For):
        if parent.stmt.body is not node:
            raise LoopsNotInAChain(loop=parent, block=block.name)
        node, parent = parent.stmt, parent.parent
    return node


def _simplified(block: ir.Block, indices: Exprs) -> tuple[ir.PrimExpr, ...]:
    """Indices without what the iterators' domains make superfluous; constants stay as written."""
    if all(isinstance(index, ir.Var) for index in indices):
        return tuple(indices)
    analyzer = arith.Analyzer(iterator_domains(block))
    simple = [analyzer.simplify(index) for index in indices]
    return tuple(
        old if isinstance(new, ir.IntImm) else new for old, new in zip(indices, simple, strict=True)
    )


def _reindexed(buffer: ir.Buffer, covered: Sequence[ir.IterVar]) -> ir.Buffer:
    name = f"{buffer.name}_reindex"
    data = ir.Var(name, ir.HANDLE, ir.PointerType(buffer.dtype, buffer.scope))
    shape = tuple(_extent_from_zero(iter_var) for iter_var in covered)
    return ir.Buffer(data, buffer.dtype, shape, name=name, data_alignment=buffer.data_alignment)


def _extent_from_zero(iter_var: ir.IterVar) -> ir.PrimExpr:
    domain = domain_of(iter_var)
    if not ir.is_zero(domain.min):
        raise IteratorNotFromZero(iterator=iter_var.var.name, begin=domain.min)
    return domain.extent


def _copy(
    buffer: ir.Buffer,
    new: ir.Buffer,
    covered: Sequence[ir.IterVar],
    indices: Exprs,
    *,
    into_new: bool,
) -> tuple[ir.Stmt, ir.Block]:
    iterators = iterators_over(new.shape)
    renamed: dict[ir.Var, ir.PrimExpr] = {
        old.var: fresh.var for old, fresh in zip(covered, iterators, strict=True)
    }
    at_old = tuple(ir.substitute(index, renamed) for index in indices)
    ends = ((buffer, at_old), (new, tuple(renamed.values())))
    source, target = ends if into_new else ends[::-1]
    block = make_copy_block(f"{target[0].name}_reindex", iterators, source, target)
    return realize_over(new.shape, block), block
