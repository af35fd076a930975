"""Buffer accesses as script writes them: points, slices, vectors, pointers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright import ir
from tilewright.errors import IRError
from tilewright.ir.script_forms import extent_between
from tilewright.script import diagnostics
from tilewright.script.forms import StoreForm


def index_buffer(buffer: ir.Buffer, indices: Sequence[Any]) -> ir.BufferLoad | ir.BufferRegion:
    """`A[...]`: an element, a vector (a slice with a step), or a region (slices without)."""
    if len(indices) != len(buffer.shape):
        raise IRError(diagnostics.wrong_index_count(buffer, len(indices)))
    is_region = [isinstance(index, slice) and index.step is None for index in indices]
    if any(is_region):
        return ir.BufferRegion(buffer, tuple(_range(buffer, d, i) for d, i in enumerate(indices)))
    return ir.BufferLoad(buffer, tuple(_index(buffer, d, i) for d, i in enumerate(indices)))


def _point(buffer: ir.Buffer, axis: int, index: Any) -> ir.PrimExpr:
    """An index: an integer, or a vector of integers."""
    try:
        expr = ir.convert(index)
    except IRError:
        raise IRError(diagnostics.bad_index(buffer, axis, index)) from None
    if not expr.dtype.is_integral:
        raise IRError(diagnostics.bad_index(buffer, axis, expr))
    extent = buffer.shape[axis]
    if isinstance(expr, ir.IntImm) and isinstance(extent, ir.IntImm) and not buffer.strides:
        in_bounds = 0 <= expr.value < extent.value
        if not in_bounds:
            raise IRError(
                f"index {expr.value} is out of bounds: dimension {axis} of buffer "
                f"{buffer.name!r} goes from 0 to {extent.value - 1}"
            )
    return expr


def _bounds(buffer: ir.Buffer, axis: int, index: slice) -> tuple[ir.PrimExpr, ir.PrimExpr]:
    extent = buffer.shape[axis]
    start = 0 if index.start is None else index.start
    stop = extent if index.stop is None else index.stop
    return ir.match_types(start, stop)


def _range(buffer: ir.Buffer, axis: int, index: Any) -> ir.Range:
    if not isinstance(index, slice):
        point = _point(buffer, axis, index)
        if isinstance(point, ir.Ramp) and ir.is_one(point.stride):
            return ir.Range(point.base, ir.const(point.lanes, point.base.dtype))
        return ir.Range(point, ir.const(1, point.dtype))
    begin, end = _bounds(buffer, axis, index)
    return ir.Range(begin, extent_between(begin, end))


def _index(buffer: ir.Buffer, axis: int, index: Any) -> ir.PrimExpr:
    if not isinstance(index, slice):
        return _point(buffer, axis, index)
    begin, end = _bounds(buffer, axis, index)
    length, step = extent_between(begin, end), ir.convert(index.step)
    if not isinstance(length, ir.IntImm) or not isinstance(step, ir.IntImm):
        raise IRError(diagnostics.slice_needs_constant_length(buffer))
    return ir.Ramp(begin, ir.const(step.value, begin.dtype), -(-length.value // step.value))


def region_as_load(region: ir.BufferRegion) -> ir.BufferLoad | None:
    """The vector that a region stands for in an expression, or None if it is not one."""
    if not region.region:
        return ir.BufferLoad(region.buffer, ())
    *outer, last = region.region
    if any(not ir.is_one(dom.extent) for dom in outer) or not isinstance(last.extent, ir.IntImm):
        return None
    lanes = last.extent.value
    index = last.min if lanes == 1 else ir.Ramp(last.min, ir.const(1, last.min.dtype), lanes)
    return ir.BufferLoad(region.buffer, (*(dom.min for dom in outer), index))


def as_region(value: Any) -> ir.BufferRegion:
    """What `T.reads` and `T.writes` list: an element, a vector, a region or a whole buffer."""
    if isinstance(value, ir.BufferRegion):
        return value
    if isinstance(value, ir.Buffer):
        return ir.BufferRegion.full(value)
    if isinstance(value, ir.BufferLoad):
        ranges = (_range(value.buffer, axis, index) for axis, index in enumerate(value.indices))
        return ir.BufferRegion(value.buffer, tuple(ranges))
    raise IRError(f"expected a region of a buffer such as A[0:16, j], got {value!r}")


def _indices(buffer: ir.Buffer, begin: Any, lanes: int) -> tuple[ir.PrimExpr, ...]:
    items = list(begin) if isinstance(begin, (tuple, list)) else [begin]
    if len(items) != len(buffer.shape):
        raise IRError(diagnostics.wrong_index_count(buffer, len(items)))
    indices = [_point(buffer, axis, item) for axis, item in enumerate(items)]
    if lanes > 1 and indices[-1].dtype.lanes == 1:
        indices[-1] = ir.Ramp(indices[-1], ir.const(1, indices[-1].dtype), lanes)
    return tuple(indices)


def buffer_attribute(buffer: ir.Buffer, name: str) -> Any:
    """Attributes of a buffer that mean more in script than on the node; None for all others."""

    def vload(begin: Any, dtype: str | None = None, predicate: Any = None) -> ir.BufferLoad:
        lanes = 1 if dtype is None else ir.DType(dtype).lanes // buffer.dtype.lanes
        mask = None if predicate is None else ir.convert(predicate)
        return ir.BufferLoad(buffer, _indices(buffer, begin, lanes), mask)

    def vstore(begin: Any, value: Any, predicate: Any = None) -> StoreForm:
        stored = ir.convert(value)
        indices = _indices(buffer, begin, stored.dtype.lanes // buffer.dtype.lanes)
        return StoreForm(
            buffer, indices, stored, None if predicate is None else ir.convert(predicate)
        )

    if name == "elem_offset":
        return ir.const(0) if buffer.elem_offset is None else buffer.elem_offset
    return {"vload": vload, "vstore": vstore}.get(name)
