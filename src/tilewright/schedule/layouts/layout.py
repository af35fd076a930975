"""Changing the layout of a buffer everywhere it is used."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright import arith, ir
from tilewright.arith.bounds import POS_INF, ConstIntBound
from tilewright.arith.numpy_eval import evaluate_on_arrays
from tilewright.errors import ArithError, ScheduleError
from tilewright.schedule.errors import PrimitiveError
from tilewright.schedule.layouts.views import has_fixed_rows, moved_view
from tilewright.schedule.state import Exprs, ScheduleState, StmtSRef
from tilewright.schedule.state.splice import BlockKeeper
from tilewright.schedule.state.sref import upwards

_MOST_ELEMENTS_TRIED = 1 << 20


class BufferIsView(PrimitiveError):
    reason = "buffer {buffer!r} is a view of another one, made by match_buffer"
    remedy = "change the buffer behind it instead"


class BufferUnknown(PrimitiveError):
    reason = "buffer {buffer!r} is neither allocated around block {block!r} nor a parameter"


class LayoutCannotFollow(PrimitiveError):
    reason = "buffer {buffer!r} is accessed {how}, which cannot follow a change of its layout"
    remedy = "change the layout before tensorizing, vectorizing or passing the buffer on"


@dataclass(frozen=True)
class BufferSite:
    """Where a buffer comes from: the block that holds it, and the parameter it belongs to."""

    buffer: ir.Buffer
    owner: StmtSRef  # allocates it, or is the root of the function that takes it
    parameter: ir.Var | None = None


def buffer_site(state: ScheduleState, block: StmtSRef, buffer: ir.Buffer) -> BufferSite:
    """Find the definition of a buffer that a block uses."""
    for node in upwards(block):
        stmt = node.stmt
        if isinstance(stmt, ir.Block):
            if any(match.buffer is buffer for match in stmt.match_buffers):
                raise BufferIsView(block, buffer=buffer.name)
            if any(known is buffer for known in stmt.alloc_buffers):
                return BufferSite(buffer, node)
    func = state.mod.functions[state.function_of(node)]
    for param, known in func.buffer_map.items():
        if known is buffer:
            return BufferSite(buffer, node, param)
    raise BufferUnknown(buffer=buffer.name, block=block)


class LayoutRewriter(BlockKeeper):
    """Makes every access of a buffer one of its successor, at mapped indices.

    What it cannot rewrite it takes down in `problem`.
    """

    def __init__(self, old: ir.Buffer, new: ir.Buffer, index_map: arith.IndexMap) -> None:
        super().__init__()
        self.old = old
        self.new = new
        self.index_map = index_map
        self.problem = ""
        self.analyzer = arith.Analyzer()

    # --- accesses -------------------------------------------------------------------------------

    def visit_buffer(self, buffer: ir.Buffer) -> ir.Buffer:
        return self.new if buffer is self.old else buffer

    def with_buffer(self, node: Any) -> Any:
        if node.buffer is self.old and isinstance(node, ir.BufferLoad | ir.BufferStore):
            return self._access(node)
        if node.buffer is self.old and isinstance(node, ir.BufferRegion):
            return ir.BufferRegion(self.new, self.region(node.region))
        return super().with_buffer(node)

    def _access(self, node: ir.BufferLoad | ir.BufferStore) -> ir.BufferLoad | ir.BufferStore:
        if any(index.dtype.lanes > 1 for index in node.indices):
            self.problem = self.problem or "by vectors"
            return node
        return ir.replace(node, buffer=self.new, indices=self.indices(node.indices))

    def indices(self, indices: tuple[ir.PrimExpr, ...]) -> tuple[ir.PrimExpr, ...]:
        """The indices of an element in the new layout."""
        return tuple(self.index_map.map_indices(indices, self.analyzer))

    def region(self, ranges: tuple[ir.Range, ...]) -> tuple[ir.Range, ...]:
        """The box of elements in the new layout that a box becomes."""
        if all(ir.is_one(axis.extent) for axis in ranges):
            points = self.indices(tuple(axis.min for axis in ranges))
            return ir.BufferRegion.from_point(self.new, points).region
        try:
            found = self.index_map.map_ranges(ranges, self.analyzer)
        except ArithError:
            return ir.BufferRegion.full(self.new).region
        simplify = self.analyzer.simplify
        return tuple(ir.Range(simplify(axis.min), simplify(axis.extent)) for axis in found)

    def visit_match_buffer_region(self, node: ir.MatchBufferRegion) -> Any:
        if node.source.buffer is not self.old:
            return super().visit_match_buffer_region(node)
        if (region := moved_view(node, self.index_map, self.analyzer)) is None:
            self.problem = self.problem or f"through its view {node.buffer.name!r}"
            return node
        return ir.replace(node, source=ir.BufferRegion(self.new, region))

    def visit_var(self, node: ir.Var) -> ir.Var:
        if node is self.old.data:
            self.problem = self.problem or "through its pointer"
        return node

    # --- domains --------------------------------------------------------------------------------

    def _bind(self, var: ir.Var, domain: ir.Range | None) -> None:
        """A variable with one value keeps its name in indices."""
        if domain is not None and not ir.is_one(domain.extent):
            self.analyzer.bind(var, domain, allow_override=True)

    def visit_for(self, node: ir.For) -> ir.For:
        self._bind(node.loop_var, node.domain)
        return ir.map_children(node, self.visit)

    def visit_block(self, node: ir.Block) -> ir.Block:
        for iter_var in node.iter_vars:
            self._bind(iter_var.var, iter_var.dom)
        for match in node.match_buffers:
            if match.source.buffer is self.old and has_fixed_rows(node, match.buffer):
                self.problem = self.problem or f"through the pointer of {match.buffer.name!r}"
        return super().visit_block(node)

    def check(self, place: StmtSRef) -> None:
        """Raise if something could not be rewritten."""
        if self.problem:
            raise LayoutCannotFollow(place, buffer=self.old.name, how=self.problem)


def change_buffer(
    state: ScheduleState,
    site: BufferSite,
    new: ir.Buffer,
    changed: ir.Block,
    reuse: Mapping[ir.Block, ir.Block],
) -> None:
    """Put the rewritten owner of a buffer in place, and the new buffer into the signature."""
    owner = site.owner
    state.replace(owner, changed, reuse)
    if site.parameter is None:
        return
    name = state.function_of(owner)
    func: ir.PrimFunc = state.mod.functions[name]
    buffer_map = {**func.buffer_map, site.parameter: new}
    state.set_function(name, ir.replace(func, buffer_map=buffer_map))


def axes_of(shape: Exprs, prefix: str = "axis") -> list[ir.Var]:
    """Variables `axis0`, `axis1`, ... over a shape."""
    return [ir.Var(f"{prefix}{axis}", extent.dtype) for axis, extent in enumerate(shape)]


def why_not_injective(index_map: arith.IndexMap, inverse: arith.IndexMap, shape: Exprs) -> str:
    """Why a map might send two elements to one place, or one outside; empty if it does not."""
    analyzer = arith.Analyzer()
    for extent in (*shape, *index_map.map_shape(shape)):
        if isinstance(extent, ir.Var):  # of less than 1 there is no element to move
            analyzer.update(extent, ConstIntBound(1, POS_INF))
    for var, extent in zip(index_map.initial_indices, shape, strict=True):
        analyzer.bind(var, ir.Range(ir.const(0, var.dtype), extent))
    if not all(analyzer.can_prove(index >= 0) for index in index_map.final_indices):
        return "its indices may be negative"
    back = inverse.map_indices(index_map.final_indices, analyzer)
    pairs = zip(index_map.initial_indices, back, strict=True)
    lost = [var for var, value in pairs if not analyzer.can_prove_equal(var, value)]
    if not lost or _is_bijective(index_map, shape):
        return ""
    if _is_inverse_everywhere(index_map, inverse, shape):
        return ""
    return f"it may send several elements to one place, which does not tell {lost[0].name!r}"


def _is_bijective(index_map: arith.IndexMap, shape: Exprs) -> bool:
    try:
        index_map.inverse(shape)
    except ArithError:
        return False
    return index_map.inverse_index_map is None  # what its author says is no proof


def _is_inverse_everywhere(
    index_map: arith.IndexMap, inverse: arith.IndexMap, shape: Exprs
) -> bool:
    """Try all elements of a buffer that is not too large, for what resists proof."""
    extents = [extent.value for extent in shape if isinstance(extent, ir.IntImm)]
    if len(extents) != len(shape) or math.prod(extents) > _MOST_ELEMENTS_TRIED:
        return False
    grid = list(np.indices(extents))
    values = dict(zip(index_map.initial_indices, grid, strict=True))
    places = [
        np.broadcast_to(evaluate_on_arrays(index, values), extents)
        for index in index_map.final_indices
    ]
    there = dict(zip(inverse.initial_indices, places, strict=True))
    back = (evaluate_on_arrays(index, there) for index in inverse.final_indices)
    return all(
        bool(np.array_equal(np.broadcast_to(found, extents), wanted))
        for found, wanted in zip(back, grid, strict=True)
    )


def as_pad_value(pad_value: object, ndim: int, buffer: ir.Buffer) -> arith.IndexMap | None:
    """A padding value in any of the usual forms as a map from the new indices.

    A number takes the type of the buffer if it can be one of its values.
    """
    if pad_value is None or isinstance(pad_value, arith.IndexMap):
        return pad_value
    value = pad_value if callable(pad_value) else lambda *indices: ir.convert(pad_value)
    try:
        made = arith.IndexMap.from_func(value, ndim=ndim, index_dtype="int32")
        results = tuple(_literal_as(result, buffer) for result in made.final_indices)
        return arith.IndexMap(made.initial_indices, results)
    except ArithError as error:
        raise ScheduleError(f"the pad_value does not fit: {error}") from None


def _literal_as(value: ir.PrimExpr, buffer: ir.Buffer) -> ir.PrimExpr:
    match value:
        case ir.IntImm() if not value.dtype.is_bool:
            return ir.const(value.value, buffer.dtype)
        case ir.FloatImm() if buffer.dtype.is_float:
            return ir.const(value.value, buffer.dtype)
    return value
