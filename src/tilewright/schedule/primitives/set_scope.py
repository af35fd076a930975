"""`set_scope`: move a buffer that a block writes to another kind of memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tilewright.ir import HANDLE, Buffer, PointerType, Var
from tilewright.ir.node import replace
from tilewright.schedule.caches.stage import accessed_region, check_storage_scope
from tilewright.schedule.layouts.allocated_buffer import (
    AllocationChanger,
    allocating_block,
    change_allocation,
)
from tilewright.schedule.state.sref import StmtSRef
from tilewright.schedule.state.state import ScheduleState
from tilewright.schedule.trace.instruction import Outputs, Primitive, keywords, register_primitive

if TYPE_CHECKING:
    from tilewright.schedule.schedule import Schedule


class ScopeChanger(AllocationChanger):
    """Moves a buffer, and what is matched to parts of it, to another scope."""

    def __init__(self, buffer: Buffer, scope: str) -> None:
        super().__init__(buffer, in_scope(buffer, scope))
        self._scope = scope

    def change_match(self, buffer: Buffer) -> Buffer:
        return in_scope(buffer, self._scope)


def in_scope(buffer: Buffer, scope: str) -> Buffer:
    """The same buffer in another scope, named after it."""
    name = f"{buffer.name}_{scope}"
    return replace(buffer, name=name, data=Var(name, HANDLE, PointerType(buffer.dtype, scope)))


def set_scope(state: ScheduleState, block: StmtSRef, index: int, storage_scope: str) -> None:
    """Change the storage scope of a buffer that `block` writes."""
    check_storage_scope(storage_scope)
    buffer = accessed_region(block, "writes", index).buffer
    owner = allocating_block(block, buffer)
    if buffer.scope != storage_scope:
        change_allocation(state, owner, ScopeChanger(buffer, storage_scope))


def _run(
    sch: Schedule, inputs: Sequence[Any], attrs: Sequence[Any], decision: Any
) -> tuple[Outputs, Any]:
    set_scope(sch.state, sch.get_sref(inputs[0]), *attrs)
    return None, None


register_primitive(
    Primitive("SetScope", "set_scope", _run, keywords("block", "buffer_index", "storage_scope"))
)
