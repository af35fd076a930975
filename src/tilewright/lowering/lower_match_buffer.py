"""`match_buffer` inside blocks: accesses of the view become accesses of the buffer behind it."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from tilewright import ir
from tilewright.errors import LowerError
from tilewright.lowering.base import function_pass
from tilewright.lowering.rewriters import FoldingSubstituter, crosses_rows, is_multiple


@dataclass(frozen=True)
class _View:
    """Where the elements of a matched buffer lie in the buffer behind it."""

    buffer: ir.Buffer
    offsets: tuple[ir.PrimExpr, ...]
    is_contiguous: bool  # its rows follow each other without gaps

    def indices(self, indices: tuple[ir.PrimExpr, ...]) -> tuple[ir.PrimExpr, ...]:
        leading = len(self.offsets) - len(indices)
        inner: list[ir.PrimExpr] = []
        for offset, index in zip(self.offsets[leading:], indices, strict=True):
            first = ir.add(offset, index.base if isinstance(index, ir.Ramp) else index)
            if isinstance(index, ir.Ramp):
                first = ir.Ramp(first, ir.cast(first.dtype, index.stride), index.lanes)
            inner.append(first)
        return (*self.offsets[:leading], *inner)


def compact_strides(shape: tuple[ir.PrimExpr, ...]) -> tuple[ir.PrimExpr, ...]:
    """The strides of a row-major layout without gaps."""
    return tuple(accumulate(reversed(shape), ir.multiply, initial=ir.const(1)))[-2::-1]


class _ViewRemover(FoldingSubstituter):
    def __init__(self) -> None:
        super().__init__({})
        self._views: dict[ir.Buffer, _View] = {}

    def visit_block(self, node: ir.Block) -> ir.Block:
        for match in node.match_buffers:
            self._add_view(node, match)
        if node.match_buffers:
            node = ir.replace(node, match_buffers=())
        return super().visit_block(node)

    def _add_view(self, block: ir.Block, match: ir.MatchBufferRegion) -> None:
        place = f"block {block.name_hint!r}: match_buffer {match.buffer.name}"
        view = match.buffer
        source: ir.BufferRegion = self.visit(match.source)
        _check_kind(place, view, source.buffer)
        leading = len(source.region) - len(view.shape)
        if leading < 0 or not all(ir.is_one(axis.extent) for axis in source.region[:leading]):
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
        wanted = compact_strides(view.shape)
        contiguous = all(
            ir.is_one(extent) or _same_number(*both)
            for extent, *both in zip(view.shape, strides[leading:], wanted, strict=True)
        )
        self._views[view] = _View(source.buffer, offsets, contiguous)

    def _bind_offset(self, place: str, view: ir.Buffer, offset: ir.PrimExpr) -> None:
        if view.offset_factor > 1 and not is_multiple(offset, view.offset_factor):
            raise LowerError(
                f"{place} promises an offset that is a multiple of {view.offset_factor}, but "
                f"`{offset}` is not known to be one"
            )
        if view.elem_offset is not None:
            self._bind(place, "the offset", view.elem_offset, offset)

    def _bind(self, place: str, what: str, declared: ir.PrimExpr, actual: ir.PrimExpr) -> None:
        known = self.visit(declared)
        if isinstance(declared, ir.Var) and known is declared:
            self.bindings[declared] = actual
            return
        both_known = isinstance(known, ir.IntImm) and isinstance(actual, ir.IntImm)
        if both_known and not _same_number(known, actual):
            raise LowerError(f"{place} declares {what} of {known}, but it is {actual}")

    def with_buffer(self, node: Any) -> Any:
        view = self._views.get(node.buffer)
        if view is None:
            return super().with_buffer(node)
        if not isinstance(node, ir.BufferRegion):
            _check_rows(node.buffer, node.indices, view)
            return ir.replace(node, buffer=view.buffer, indices=view.indices(node.indices))
        starts = view.indices(tuple(axis.min for axis in node.region))
        leading = len(starts) - len(node.region)
        extents = [ir.const(1)] * leading + [axis.extent for axis in node.region]
        return ir.BufferRegion(view.buffer, tuple(map(ir.Range, starts, extents)))


def _check_rows(buffer: ir.Buffer, indices: tuple[ir.PrimExpr, ...], view: _View) -> None:
    if crosses_rows(buffer, indices) and not view.is_contiguous:
        raise LowerError(
            f"match_buffer {buffer.name} is accessed across its rows, which do not follow each "
            f"other in {view.buffer.name}; declare its strides, or match a contiguous region"
        )


def _same_number(a: ir.PrimExpr, b: ir.PrimExpr) -> bool:
    """True if two extents are the same, be they 32 or 64 bits wide."""
    if isinstance(a, ir.IntImm) and isinstance(b, ir.IntImm):
        return a.value == b.value
    return ir.expr_deep_equal(a, b)


def _check_kind(place: str, view: ir.Buffer, source: ir.Buffer) -> None:
    if view.dtype != source.dtype:
        raise LowerError(f"{place} has dtype {view.dtype!s}, {source.name} has {source.dtype!s}")
    if view.scope != source.scope:
        raise LowerError(f"{place} has scope {view.scope!r}, {source.name} has {source.scope!r}")
    if source.data_alignment % view.data_alignment:
        raise LowerError(
            f"{place} promises an alignment of {view.data_alignment} bytes, {source.name} has "
            f"only {source.data_alignment}"
        )


@function_pass
def LowerMatchBuffer(func: ir.PrimFunc) -> ir.PrimFunc:
    """Replace views made by `match_buffer` by the buffers behind them."""
    return func.with_body(_ViewRemover().rewrite(func.body))
