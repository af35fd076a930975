"""`unsafe_set_dtype`: keep what a block writes in another type, with casts around every access."""

from __future__ import annotations

from tilewright import ir
from tilewright.errors import TilewrightError
from tilewright.schedule.caches.stage import accessed_region
from tilewright.schedule.core import ScheduleCore
from tilewright.schedule.errors import PrimitiveError
from tilewright.schedule.layouts import allocated_buffer
from tilewright.schedule.state import BlockRV
from tilewright.schedule.trace.instruction import Primitive, given, register_primitive


class NotADtype(PrimitiveError):
    reason = "{dtype!r} is not a type of buffer elements"
    remedy = 'use a type such as "float16" or "int8"'


class DtypeChanger(allocated_buffer.AllocationChanger):
    """Changes the type of a buffer; values have the old type again once they are loaded."""

    def __init__(self, buffer: ir.Buffer, dtype: ir.DType) -> None:
        super().__init__(buffer, with_dtype(buffer, dtype), lambda view: with_dtype(view, dtype))
        self._dtype = dtype
        self._is_exact = dtype.holds(buffer.dtype)

    def visit_buffer_load(self, node: ir.BufferLoad) -> ir.PrimExpr:
        changed: ir.BufferLoad = super().visit_buffer_load(node)
        return ir.Cast(node.dtype, changed) if node.buffer in self.buffers else changed

    def visit_cast(self, node: ir.Cast) -> ir.PrimExpr:
        load, wanted = node.value, self._dtype.with_lanes(node.dtype.lanes)
        is_changed = isinstance(load, ir.BufferLoad) and load.buffer in self.buffers
        if not (is_changed and self._is_exact and node.dtype == wanted):
            return self.generic_visit(node)
        assert isinstance(load, ir.BufferLoad)
        changed: ir.PrimExpr = super().visit_buffer_load(load)
        return changed  # nothing was lost on the way

    def visit_buffer_store(self, node: ir.BufferStore) -> ir.BufferStore:
        changed: ir.BufferStore = super().visit_buffer_store(node)
        if node.buffer not in self.buffers:
            return changed
        dtype = self._dtype.with_lanes(changed.value.dtype.lanes)
        return ir.replace(changed, value=ir.Cast(dtype, changed.value))


def with_dtype(buffer: ir.Buffer, dtype: ir.DType) -> ir.Buffer:
    """A buffer of the same name and shape with elements of another type."""
    data = ir.Var(buffer.data.name, ir.HANDLE, ir.PointerType(dtype, buffer.scope))
    return ir.replace(buffer, dtype=dtype, data=data)


@register_primitive
class UnsafeSetDType(Primitive[None]):
    """Change the element type of a buffer that `block` writes; rounding is the user's concern."""

    method = "unsafe_set_dtype"
    block: BlockRV = given()
    buffer_index: int
    dtype: str

    def run(self, sch: ScheduleCore) -> None:
        state, block = sch.state, sch.get_sref(self.block)
        buffer = accessed_region(block, "writes", self.buffer_index).buffer
        owner = allocated_buffer.allocating_block(block, buffer)
        chosen = element_type(self.dtype)
        if chosen != buffer.dtype:
            allocated_buffer.change_allocation(state, owner, DtypeChanger(buffer, chosen))


def element_type(dtype: str) -> ir.DType:
    """The type that a text names, if elements of a buffer can have it."""
    try:
        chosen = ir.DType(dtype)
    except (TilewrightError, TypeError) as error:
        raise NotADtype(dtype=dtype) from error
    if chosen.is_handle or chosen.lanes != 1:
        raise NotADtype(dtype=dtype)
    return chosen
