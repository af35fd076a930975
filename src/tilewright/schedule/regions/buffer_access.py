"""Element-wise accesses of a block to one of its buffers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tilewright import arith, ir
from tilewright.ir.access import inputs_of
from tilewright.schedule.errors import PrimitiveError
from tilewright.schedule.state import StmtSRef
from tilewright.schedule.state.scope import iterator_domains
from tilewright.schedule.state.splice import BlockKeeper


class NotAccessedInOneWay(PrimitiveError):
    reason = "block {block!r} accesses buffer {buffer!r} {how}"
    remedy = "all its loads and stores must use the same indices over the block's iterators"


class ReadAndWritten(PrimitiveError):
    reason = "block {block!r} both reads and writes buffer {buffer!r}"
    remedy = "only buffers on one side of a block can be indexed anew"


class MayLieOutside(PrimitiveError):
    reason = (
        "block {block!r} reads {buffer!r} at [{indices}], which may lie outside where the "
        "condition around it does not hold"
    )
    remedy = "the copy is made without that condition; remove it first"


@dataclass(frozen=True)
class ElementAccess:
    """The indices that every load and store of a buffer in a block uses."""

    indices: tuple[ir.PrimExpr, ...]
    is_conditional: bool


def single_access(block: StmtSRef, buffer: ir.Buffer, side: int) -> ElementAccess:
    """The one way in which a block reads (side 0) or writes (side 1) a buffer."""
    stmt = block.block
    other_side = stmt.writes if side == 0 else inputs_of(stmt).values()
    if any(region.buffer is buffer for region in other_side):
        raise ReadAndWritten(block=block, buffer=buffer.name)
    finder = _Accesses(buffer)
    finder.visit(stmt)
    if how := finder.problem():
        raise NotAccessedInOneWay(block=block, buffer=buffer.name, how=how)
    return ElementAccess(finder.found[0], finder.is_conditional)


class _Accesses(ir.Visitor):
    def __init__(self, buffer: ir.Buffer) -> None:
        self._buffer = buffer
        self._conditions = 0
        self._bound: set[ir.Var] = set()
        self._is_opaque = False
        self.is_conditional = False
        self.found: list[tuple[ir.PrimExpr, ...]] = []

    def problem(self) -> str:
        """What is wrong with the accesses; empty if nothing is."""
        if self._is_opaque:
            return "through its pointer"
        if not self.found:
            return "in no load or store"
        first = self.found[0]
        if any(not ir.written_alike(first, other) for other in self.found[1:]):
            return "with different indices"
        if any(ir.uses_var(index, self._bound.__contains__) for index in first):
            return "with variables that only exist inside the block"
        if any(map(ir.has_load, first)):
            return "at places that it reads from other buffers, which may not be filled yet"
        return ""

    def visit_buffer_load(self, node: ir.BufferLoad | ir.BufferStore) -> None:
        if node.buffer is self._buffer:
            self.found.append(node.indices)
            self.is_conditional = self.is_conditional or self._conditions > 0
        self.generic_visit(node)

    visit_buffer_store = visit_buffer_load

    def visit_var(self, node: ir.Var) -> None:
        self._is_opaque = self._is_opaque or node is self._buffer.data

    def visit_match_buffer_region(self, node: ir.MatchBufferRegion) -> None:
        self._is_opaque = self._is_opaque or node.source.buffer is self._buffer

    def visit_for(self, node: ir.For) -> None:
        self._bound.add(node.loop_var)
        self.generic_visit(node)

    def visit_block_realize(self, node: ir.BlockRealize) -> None:
        self._bound.update(iter_var.var for iter_var in node.block.iter_vars)
        self.generic_visit(node)

    def visit_let(self, node: ir.Let | ir.LetStmt) -> None:
        self._bound.add(node.var)
        self.generic_visit(node)

    visit_let_stmt = visit_let

    def visit_select(self, node: ir.Call | ir.Select | ir.IfThenElse) -> None:
        self._conditions += 1
        self.generic_visit(node)
        self._conditions -= 1

    visit_if_then_else = visit_select

    def visit_call(self, node: ir.Call) -> None:
        if getattr(node.op, "name", "") == "tir.if_then_else":
            self.visit_select(node)
        else:
            self.generic_visit(node)


def check_always_inside(block: StmtSRef, buffer: ir.Buffer, access: ElementAccess) -> None:
    """An access under a condition stays inside the buffer even where the condition fails."""
    if not access.is_conditional:
        return
    analyzer = arith.Analyzer(iterator_domains(block.block))
    for index, extent in zip(access.indices, buffer.shape, strict=True):
        if ir.is_zero(index):
            continue
        if not (analyzer.can_prove(index >= 0) and analyzer.can_prove(index < extent)):
            indices = ", ".join(map(str, access.indices))
            raise MayLieOutside(block=block, buffer=buffer.name, indices=indices)


class AccessChanger(BlockKeeper):
    """Makes a block access another buffer, at fixed indices, instead of one of its buffers."""

    def __init__(self, old: ir.Buffer, new: ir.Buffer, indices: tuple[ir.PrimExpr, ...]) -> None:
        super().__init__()
        self._old = old
        self._new = new
        self._indices = indices

    def with_buffer(self, node: Any) -> Any:
        if node.buffer is not self._old:
            return node
        if isinstance(node, ir.BufferRegion):
            return ir.BufferRegion.from_point(self._new, self._indices)
        return ir.replace(node, buffer=self._new, indices=self._indices)
