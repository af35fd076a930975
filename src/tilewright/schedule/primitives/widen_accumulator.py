"""`widen_accumulator`: add up in a wider type, and round each result once."""

from __future__ import annotations

from tilewright import ir
from tilewright.schedule.caches.stage import accessed_region
from tilewright.schedule.conditions.checks import is_reduction_block
from tilewright.schedule.core import ScheduleCore
from tilewright.schedule.errors import PrimitiveError
from tilewright.schedule.layouts.allocated_buffer import AllocationChanger, change_allocation
from tilewright.schedule.primitives.cache_write import cache_write
from tilewright.schedule.primitives.unsafe_set_dtype import element_type, with_dtype
from tilewright.schedule.state import BlockRV
from tilewright.schedule.trace.instruction import Primitive, given, register_primitive

_LANEWISE = (ir.Add, ir.Sub, ir.Mul, ir.Max, ir.Min)


class NotAnAccumulation(PrimitiveError):
    reason = "block {block!r} does not add up one result from an initial value"
    remedy = "give a reduction block with T.init"


class NotWider(PrimitiveError):
    reason = "{dtype} does not hold all values of {buffer!r}, which is {old}"
    remedy = "give a wider floating type"


class _Widener(AllocationChanger):
    """Computes what is stored into a buffer in its new type; others still get the old one."""

    def __init__(self, buffer: ir.Buffer, dtype: ir.DType) -> None:
        super().__init__(buffer, with_dtype(buffer, dtype))
        self._buffer, self._dtype = buffer, dtype

    def visit_buffer_load(self, node: ir.BufferLoad) -> ir.PrimExpr:
        changed: ir.BufferLoad = super().visit_buffer_load(node)
        return ir.Cast(node.dtype, changed) if node.buffer is self._buffer else changed

    def visit_buffer_store(self, node: ir.BufferStore) -> ir.BufferStore:
        changed: ir.BufferStore = super().visit_buffer_store(node)
        if node.buffer is not self._buffer:
            return changed
        return ir.replace(changed, value=self._widened(changed.value))

    def _is_better(self, given: ir.DType, cast: ir.DType) -> bool:
        """Whether a value need not be cast to the old type before it is cast to the new one."""
        return given == self._dtype or not given.is_float or given.bits < cast.bits

    def _widened(self, value: ir.PrimExpr) -> ir.PrimExpr:
        """A value of the old type in the new one, with as few roundings as possible."""
        if not value.dtype.is_float:
            return ir.cast(self._dtype, value)
        match value:
            case ir.Cast(value=inner) if self._is_better(inner.dtype, value.dtype):
                return ir.cast(self._dtype, inner)
            case ir.FloatImm(value=number):
                return ir.const(number, self._dtype)
            case ir.Select(condition=condition, true_value=chosen, false_value=other):
                return ir.Select(condition, self._widened(chosen), self._widened(other))
            case ir.BinaryOp() if isinstance(value, _LANEWISE):
                return type(value)(self._widened(value.a), self._widened(value.b))
        return ir.cast(self._dtype, value)


@register_primitive
class WidenAccumulator(Primitive[BlockRV]):
    """Let a reduction accumulate in a wider type; the block that rounds its results."""

    block: BlockRV = given()
    dtype: str

    def run(self, sch: ScheduleCore) -> BlockRV:
        state, block, chosen = sch.state, sch.get_sref(self.block), element_type(self.dtype)
        buffer = accessed_region(block, "writes", 0).buffer
        if len(block.block.writes) != 1 or not is_reduction_block(state, block):
            raise NotAnAccumulation(block=block)
        if not (chosen.is_float and buffer.dtype.is_float and chosen.bits > buffer.dtype.bits):
            raise NotWider(block, dtype=chosen, buffer=buffer.name, old=buffer.dtype)
        rounding = cache_write(state, block, 0, "global")
        accumulator = accessed_region(block, "writes", 0).buffer
        change_allocation(state, block.scope_root, _Widener(accumulator, chosen))
        return sch.block_rv(rounding)
