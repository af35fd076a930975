"""Changing a buffer that a block allocates, everywhere it is used."""

from __future__ import annotations

from collections.abc import Callable

from tilewright import ir
from tilewright.schedule.errors import PrimitiveError
from tilewright.schedule.state import ScheduleState, StmtSRef
from tilewright.schedule.state.splice import BlockKeeper
from tilewright.schedule.state.sref import upwards


class NotAllocated(PrimitiveError):
    reason = "buffer {buffer!r} is not allocated by a block: it is a parameter or a matched buffer"
    remedy = "only buffers that a block allocates can be changed so; cache it into one first"


def allocating_block(block: StmtSRef, buffer: ir.Buffer) -> StmtSRef:
    """The block around `block`, or itself, that allocates a buffer."""
    for node in upwards(block):
        if node.is_block and any(known is buffer for known in node.block.alloc_buffers):
            return node
    raise NotAllocated(block, buffer=buffer.name)


class AllocationChanger(BlockKeeper):
    """Exchanges a buffer, and what is matched to parts of it.

    `change_match` says what becomes of a buffer that is matched to a part of a changed one.
    """

    def __init__(
        self,
        old: ir.Buffer,
        new: ir.Buffer,
        change_match: Callable[[ir.Buffer], ir.Buffer] | None = None,
    ) -> None:
        super().__init__()
        self.buffers = {old: new}
        self._pointers = {old.data: new.data}
        self._change_match = change_match

    def visit_buffer(self, buffer: ir.Buffer) -> ir.Buffer:
        return self.buffers.get(buffer, buffer)

    def visit_var(self, node: ir.Var) -> ir.Var:
        return self._pointers.get(node, node)

    def visit_match_buffer_region(self, node: ir.MatchBufferRegion) -> ir.MatchBufferRegion:
        old = node.buffer
        if node.source.buffer in self.buffers and old not in self.buffers:
            new = self.buffers[old] = self._change_match(old) if self._change_match else old
            self._pointers[old.data] = new.data
        node = ir.map_children(node, self.visit)
        buffer = self.visit_buffer(old)
        return node if buffer is old else ir.replace(node, buffer=buffer)

    def visit_block(self, node: ir.Block) -> ir.Block:
        for match in node.match_buffers:  # before the body, which uses the matched buffers
            self.visit(match)
        return super().visit_block(node)


def change_allocation(state: ScheduleState, owner: StmtSRef, changer: AllocationChanger) -> None:
    """Rewrite the block that allocates a buffer and everything in it."""
    changed = changer.visit(owner.block)
    state.replace(owner, changed, changer.reuse)
