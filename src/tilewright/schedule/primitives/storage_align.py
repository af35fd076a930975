"""`storage_align`: choose the stride of a dimension of what a block writes."""

from __future__ import annotations

from tilewright.ir import annotation_keys as keys
from tilewright.ir.node import replace
from tilewright.schedule.caches.stage import accessed_region
from tilewright.schedule.core import ScheduleCore
from tilewright.schedule.errors import PrimitiveError
from tilewright.schedule.layouts.allocated_buffer import allocating_block
from tilewright.schedule.state import BlockRV, StmtSRef
from tilewright.schedule.trace.instruction import Primitive, given, register_primitive


class AxisOutOfRange(PrimitiveError):
    reason = "buffer {buffer!r} has {ndim} dimensions, axis {axis} is not among them"
    remedy = "use a number from -{ndim} to {ndim} - 1"


class AlignmentNotPositive(PrimitiveError):
    reason = "the factor {factor} of the alignment is not positive"


class BadAlignment(PrimitiveError):
    reason = "the annotation 'buffer_dim_align' of block {block!r} is {value!r}"
    remedy = "it must be a list of [buffer_index, axis, factor, offset]"


@register_primitive
class StorageAlign(Primitive[None]):
    """Let the stride of `axis` be `offset` modulo `factor` when the buffer is allocated."""

    moves_blocks = False
    block: BlockRV = given()
    buffer_index: int
    axis: int
    factor: int
    offset: int

    def run(self, sch: ScheduleCore) -> None:
        block = sch.get_sref(self.block)
        index, axis, factor, offset = map(sch.int_of, self.attrs)
        buffer = accessed_region(block, "writes", index).buffer
        if factor <= 0:
            raise AlignmentNotPositive(block, factor=factor)
        if not -buffer.ndim <= axis < buffer.ndim:
            raise AxisOutOfRange(block, buffer=buffer.name, ndim=buffer.ndim, axis=axis)
        allocating_block(block, buffer)
        entry = [index, axis % buffer.ndim, factor, offset]
        entries = [entry if old[:2] == entry[:2] else old for old in _entries(block)]
        if entry not in entries:
            entries.append(entry)
        annotations = {**block.block.annotations, keys.BUFFER_DIM_ALIGN: entries}
        sch.state.replace(block, replace(block.block, annotations=annotations))


def _entries(block: StmtSRef) -> list[list[int]]:
    value = block.block.annotations.get(keys.BUFFER_DIM_ALIGN, [])
    if isinstance(value, (list, tuple)) and all(map(_is_entry, value)):
        return [[int(number) for number in entry] for entry in value]
    raise BadAlignment(block=block, value=value)


def _is_entry(value: object) -> bool:
    if not isinstance(value, (list, tuple)) or len(value) != 4:
        return False
    return all(isinstance(number, int) for number in value)
