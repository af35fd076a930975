"""`set_scope`: move a buffer that a block writes to another kind of memory."""

from __future__ import annotations

import functools

from tilewright.ir import HANDLE, Buffer, PointerType, Var, replace
from tilewright.schedule.caches.stage import accessed_region, check_storage_scope
from tilewright.schedule.core import ScheduleCore
from tilewright.schedule.layouts import allocated_buffer
from tilewright.schedule.state import BlockRV
from tilewright.schedule.trace.instruction import Primitive, given, register_primitive


def in_scope(buffer: Buffer, scope: str) -> Buffer:
    """The same buffer in another scope, named after it."""
    name = f"{buffer.name}_{scope}"
    return replace(buffer, name=name, data=Var(name, HANDLE, PointerType(buffer.dtype, scope)))


@register_primitive
class SetScope(Primitive[None]):
    """Change the storage scope of a buffer that `block` writes."""

    moves_blocks = False
    block: BlockRV = given()
    buffer_index: int
    storage_scope: str

    def run(self, sch: ScheduleCore) -> None:
        block, storage_scope = sch.get_sref(self.block), self.storage_scope
        check_storage_scope(storage_scope)
        buffer = accessed_region(block, "writes", self.buffer_index).buffer
        owner = allocated_buffer.allocating_block(block, buffer)
        if buffer.scope != storage_scope:
            move = functools.partial(in_scope, scope=storage_scope)
            allocated_buffer.change_allocation(
                sch.state, owner, allocated_buffer.AllocationChanger(buffer, move(buffer), move)
            )
