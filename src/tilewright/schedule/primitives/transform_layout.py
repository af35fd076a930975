"""`transform_layout`: the elements of a buffer in another order, possibly padded."""

from __future__ import annotations

from tilewright import arith, ir
from tilewright.errors import ArithError
from tilewright.schedule.conditions.races import check_no_race
from tilewright.schedule.core import ScheduleCore
from tilewright.schedule.errors import PrimitiveError
from tilewright.schedule.layouts import layout as layouts, padding as paddings
from tilewright.schedule.layouts.opaque import padded_loops
from tilewright.schedule.state import ScheduleState, StmtSRef, leaf_realizes
from tilewright.schedule.state.flags import region_cover
from tilewright.schedule.state.scope import loops_from
from tilewright.schedule.trace.instruction import (
    BufferPrimitive,
    constant,
    given,
    register_primitive,
)
from tilewright.schedule.trace.text import index_map_from_json, index_map_to_json

_UNDEF = ir.Op.get("tir.undef")


class WrongRank(PrimitiveError):
    reason = "buffer {buffer!r} has {ndim} dimensions, the index map takes {given}"


class NotInvertible(PrimitiveError):
    reason = "the index map {index_map} cannot be inverted on buffer {buffer!r}: {why}"
    remedy = "pass assume_injective_transform=True if it sends no two elements to one place"


class IntroducesPadding(PrimitiveError):
    reason = (
        "the index map {index_map} takes buffer {buffer!r} from shape ({old}) to ({new}) and adds "
        "elements where {condition}"
    )
    remedy = "say with pad_value what they hold, or pass assume_injective_transform=True"


class BadPadValue(PrimitiveError):
    reason = "the pad_value of buffer {buffer!r} {why}"


class BufferHasStrides(PrimitiveError):
    reason = "buffer {buffer!r} has strides or an offset of its own"
    remedy = "only compact buffers can change their layout"


def _remember_flow(state: ScheduleState, buffer: ir.Buffer) -> None:
    """Find out who reads what was written before the layout makes that hard to prove.

    Elements keep their values wherever they lie, so the answers stay true.
    """
    for stmt, sref in list(state.srefs.items()):
        if isinstance(stmt, ir.Block) and any(
            region.buffer is buffer for region in (*stmt.reads, *stmt.writes)
        ):
            region_cover(state, sref)


def _check_buffer(block: StmtSRef, buffer: ir.Buffer, index_map: arith.IndexMap) -> None:
    if len(index_map.initial_indices) != buffer.ndim:
        raise WrongRank(
            block, buffer=buffer.name, ndim=buffer.ndim, given=len(index_map.initial_indices)
        )
    if buffer.strides or buffer.elem_offset is not None:
        raise BufferHasStrides(block, buffer=buffer.name)


def _new_shape(block: StmtSRef, buffer: ir.Buffer, index_map: arith.IndexMap) -> list[ir.PrimExpr]:
    why = ""
    try:
        shape = index_map.map_shape(buffer.shape)
        if any(isinstance(extent, ir.IntImm) and extent.value <= 0 for extent in shape):
            why = "its indices may be negative"
    except ArithError as error:
        why = str(error)
    if why:
        raise NotInvertible(block, index_map=index_map, buffer=buffer.name, why=why)
    if not buffer.shape:
        return list(shape)
    kind = buffer.shape[0].dtype
    return [ir.const(e.value, kind) if isinstance(e, ir.IntImm) else e for e in shape]


def _check_pad_value(block: StmtSRef, new: ir.Buffer, pad_value: arith.IndexMap | None) -> None:
    if pad_value is None:
        return
    why = ""
    if len(pad_value.final_indices) != 1:
        why = f"has {len(pad_value.final_indices)} results, it must have one"
    elif len(pad_value.initial_indices) != new.ndim:
        why = f"takes {len(pad_value.initial_indices)} indices, the new layout has {new.ndim}"
    elif pad_value.final_indices[0].dtype != new.dtype:
        why = f"is of type {pad_value.final_indices[0].dtype!s}, the buffer holds {new.dtype!s}"
    elif ir.has_load(pad_value.final_indices[0]):
        why = "reads a buffer; it may only depend on the indices"
    if why:
        raise BadPadValue(block, buffer=new.name, why=why)


def _padding(
    block: StmtSRef,
    old: ir.Buffer,
    new: ir.Buffer,
    index_map: arith.IndexMap,
    value: arith.IndexMap | None,
) -> paddings.LayoutPadding | None:
    """The elements that the layout adds; None if there are none that matter."""
    try:
        inverse, condition = index_map.non_surjective_inverse(old.shape)
        why = layouts.why_not_injective(index_map, inverse, old.shape)
    except ArithError as error:
        why = str(error)
    if not why:
        no_padding = isinstance(condition, ir.IntImm) and not condition.value
        if no_padding and _leaves_gaps(old, new):
            why = "it leaves gaps in the new layout"
    if why:
        raise NotInvertible(block, index_map=index_map, buffer=old.name, why=why)
    if no_padding:
        return None
    if value is None:
        raise IntroducesPadding(
            block,
            index_map=index_map,
            buffer=old.name,
            old=", ".join(map(str, old.shape)),
            new=", ".join(map(str, new.shape)),
            condition=condition,
        )
    filler = value.final_indices[0]
    if isinstance(filler, ir.Call) and filler.op is _UNDEF:
        return None
    return paddings.LayoutPadding(old, new, inverse, condition, value)


def _leaves_gaps(old: ir.Buffer, new: ir.Buffer) -> bool:
    sizes = arith.Analyzer().simplify(old.size()), arith.Analyzer().simplify(new.size())
    both_known = isinstance(sizes[0], ir.IntImm) and isinstance(sizes[1], ir.IntImm)
    return both_known and sizes[0].value != sizes[1].value  # type: ignore[attr-defined]


def _rewrite_owner(
    site: layouts.BufferSite,
    rewriter: layouts.LayoutRewriter,
    padding: paddings.LayoutPadding | None,
) -> tuple[ir.Block, list[ir.Block]]:
    """The owner of the buffer in the new layout, and the blocks in it that are new."""
    owner = site.owner.block
    if padding is None:
        return rewriter.visit(owner), []
    if not paddings.is_written(owner.body, site.buffer):
        changed: ir.Block = rewriter.visit(owner)
        promise = paddings.assumption(padding)
        blocks = [leaf.block for leaf in leaf_realizes(promise)]
        return ir.replace(changed, body=ir.seq([promise, changed.body])), blocks
    found = paddings.padded_writer(owner.body, padding) or padded_loops(owner.body, padding)
    if found is None:
        changed = rewriter.visit(owner)
        body = paddings.with_fill(changed.body, padding)
        kept = {leaf.block for leaf in leaf_realizes(changed.body)}
        fresh = [leaf.block for leaf in leaf_realizes(body) if leaf.block not in kept]
        return ir.replace(changed, body=body), fresh
    old_nest, new_nest, reuse = found
    items = ir.statements_of(owner.body)
    # The nest already speaks of the new buffer: the rewriter finds nothing to do in it.
    body = ir.seq([new_nest if item is old_nest else item for item in items])
    changed = rewriter.visit(ir.replace(owner, body=body))
    rewriter.reuse.update(reuse)
    return changed, list(reuse.values())


@register_primitive
class TransformLayout(BufferPrimitive[None]):
    """Store `buffer` in the layout that `index_map` describes, wherever it is used."""

    index_map: arith.IndexMap = given()
    pad_value: arith.IndexMap | None = constant(
        to_json=lambda value: None if value is None else index_map_to_json(value),
        from_json=lambda text: None if text is None else index_map_from_json(text),
    )
    assume_injective_transform: bool = constant(to_json=bool, from_json=bool)

    def run(self, sch: ScheduleCore) -> None:
        state, block = sch.state, sch.get_sref(self.block)
        buffer = sch.buffer_of(self.block, self.side, self.buffer_index)
        index_map, pad_value = sch.concrete_map(self.index_map), self.pad_value
        site = layouts.buffer_site(state, block, buffer)
        _check_buffer(block, buffer, index_map)
        if buffer.shape:
            index_map = index_map.with_dtype(buffer.shape[0].dtype)
        shape = tuple(_new_shape(block, buffer, index_map))
        new = ir.replace(buffer, shape=shape, axis_separators=())
        _check_pad_value(block, new, pad_value)
        padding = None
        if not self.assume_injective_transform:
            padding = _padding(block, buffer, new, index_map, pad_value)
        writers = state.scope_of(site.owner).buffer_writers.get(buffer, [])
        for writer in [] if padding is None else writers:
            # What parallel iterations have for themselves no block outside of them can pad.
            check_no_race(writer, writer.realize.iter_values, loops_from(writer.parent))
        rewriter = layouts.LayoutRewriter(buffer, new, index_map)
        changed, fresh = _rewrite_owner(site, rewriter, padding)
        rewriter.check(block)
        _remember_flow(state, buffer)
        layouts.change_buffer(state, site, new, changed, rewriter.reuse)
        for made in fresh:
            info = state.info(state.srefs[made])
            info.affine_binding = None
            info.region_cover = True if info.region_cover is None else info.region_cover
