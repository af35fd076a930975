"""`match_buffer` inside blocks: accesses of the view become accesses of the buffer behind it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tilewright.errors import LowerError
from tilewright.ir import (
    Block,
    Buffer,
    BufferRegion,
    IntImm,
    MatchBufferRegion,
    PrimExpr,
    PrimFunc,
    Ramp,
    Range,
    Var,
    add,
    cast,
    const,
    expr_deep_equal,
    is_one,
    multiply,
    replace,
)
from tilewright.lowering.base import function_pass
from tilewright.lowering.divisibility import is_multiple
from tilewright.lowering.rewriters import FoldingSubstituter, crosses_rows


@dataclass(frozen=True)
class _View:
    """Where the elements of a matched buffer lie in the buffer behind it."""

    buffer: Buffer
    offsets: tuple[PrimExpr, ...]
    is_contiguous: bool  # its rows follow each other without gaps

    def indices(self, indices: tuple[PrimExpr, ...]) -> tuple[PrimExpr, ...]:
        leading = len(self.offsets) - len(indices)
        inner = (_shifted(i, o) for o, i in zip(self.offsets[leading:], indices, strict=True))
        return (*self.offsets[:leading], *inner)


def _shifted(index: PrimExpr, offset: PrimExpr) -> PrimExpr:
    if isinstance(index, Ramp):
        base = add(offset, index.base)
        return Ramp(base, cast(base.dtype, index.stride), index.lanes)
    return add(offset, index)


def compact_strides(shape: tuple[PrimExpr, ...]) -> tuple[PrimExpr, ...]:
    """The strides of a row-major layout without gaps."""
    strides: list[PrimExpr] = []
    stride: PrimExpr = const(1)
    for extent in reversed(shape):
        strides.append(stride)
        stride = multiply(stride, extent)
    return tuple(reversed(strides))


class _ViewRemover(FoldingSubstituter):
    def __init__(self) -> None:
        super().__init__({})
        self._views: dict[Buffer, _View] = {}

    def visit_block(self, node: Block) -> Any:
        for match in node.match_buffers:
            self._add_view(node, match)
        if node.match_buffers:
            node = replace(node, match_buffers=())
        return super().visit_block(node)

    def _add_view(self, block: Block, match: MatchBufferRegion) -> None:
        place = f"block {block.name_hint!r}: match_buffer {match.buffer.name}"
        view = match.buffer
        source: BufferRegion = self.visit(match.source)
        _check_kind(place, view, source.buffer)
        leading = len(source.region) - len(view.shape)
        if leading < 0 or not all(is_one(axis.extent) for axis in source.region[:leading]):
            raise LowerError(
                f"{place} has {len(view.shape)} dimensions, which do not fit the region of "
                f"{source.buffer.name} with {len(source.region)}"
            )
        offsets = tuple(axis.min for axis in source.region)
        for extent, axis in zip(view.shape, source.region[leading:], strict=True):
            self._bind(place, "an extent", extent, axis.extent)
        strides = source.buffer.strides or compact_strides(source.buffer.shape)
        for stride, behind in zip(view.strides, strides[leading:], strict=bool(view.strides)):
            self._bind(place, "a stride", stride, behind)
        self._bind_offset(place, view, source.buffer.offset_of(offsets))
        self.bindings[view.data] = source.buffer.data
        contiguous = _is_contiguous(view.shape, strides[leading:])
        self._views[view] = _View(source.buffer, offsets, contiguous)

    def _bind_offset(self, place: str, view: Buffer, offset: PrimExpr) -> None:
        if view.offset_factor > 1 and not is_multiple(offset, view.offset_factor):
            raise LowerError(
                f"{place} promises an offset that is a multiple of {view.offset_factor}, but "
                f"`{offset}` is not known to be one"
            )
        if view.elem_offset is not None:
            self._bind(place, "the offset", view.elem_offset, offset)

    def _bind(self, place: str, what: str, declared: PrimExpr, actual: PrimExpr) -> None:
        known = self.visit(declared)
        if isinstance(declared, Var) and known is declared:
            self.bindings[declared] = actual
            return
        both_known = isinstance(known, IntImm) and isinstance(actual, IntImm)
        if both_known and not _same_number(known, actual):
            raise LowerError(f"{place} declares {what} of {known}, but it is {actual}")

    def with_buffer(self, node: Any) -> Any:
        view = self._views.get(node.buffer)
        if view is None:
            return super().with_buffer(node)
        if not isinstance(node, BufferRegion):
            _check_rows(node.buffer, node.indices, view)
            return replace(node, buffer=view.buffer, indices=view.indices(node.indices))
        starts = view.indices(tuple(axis.min for axis in node.region))
        leading = len(starts) - len(node.region)
        extents = [const(1)] * leading + [axis.extent for axis in node.region]
        return BufferRegion(view.buffer, tuple(map(Range, starts, extents)))


def _check_rows(buffer: Buffer, indices: tuple[PrimExpr, ...], view: _View) -> None:
    if crosses_rows(buffer, indices) and not view.is_contiguous:
        raise LowerError(
            f"match_buffer {buffer.name} is accessed across its rows, which do not follow each "
            f"other in {view.buffer.name}; declare its strides, or match a contiguous region"
        )


def _is_contiguous(shape: tuple[PrimExpr, ...], strides: tuple[PrimExpr, ...]) -> bool:
    return all(
        is_one(extent) or _same_number(stride, wanted)
        for extent, stride, wanted in zip(shape, strides, compact_strides(shape), strict=True)
    )


def _same_number(a: PrimExpr, b: PrimExpr) -> bool:
    """Are two extents the same, be they 32 or 64 bits wide?"""
    if isinstance(a, IntImm) and isinstance(b, IntImm):
        return a.value == b.value
    return expr_deep_equal(a, b)


def _check_kind(place: str, view: Buffer, source: Buffer) -> None:
    if view.dtype != source.dtype:
        raise LowerError(f"{place} has dtype {view.dtype!s}, {source.name} has {source.dtype!s}")
    if view.scope != source.scope:
        raise LowerError(f"{place} has scope {view.scope!r}, {source.name} has {source.scope!r}")
    if source.data_alignment % view.data_alignment:
        raise LowerError(
            f"{place} promises an alignment of {view.data_alignment} bytes, {source.name} has "
            f"only {source.data_alignment}"
        )


def without_views(func: PrimFunc) -> PrimFunc:
    """The function with accesses of views as accesses of the buffers behind them."""
    return func.with_body(_ViewRemover().rewrite(func.body))


@function_pass
def LowerMatchBuffer(func: PrimFunc) -> PrimFunc:
    """Replace views made by `match_buffer` by the buffers behind them."""
    return without_views(func)
