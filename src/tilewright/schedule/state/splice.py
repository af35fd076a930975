"""Putting statements into the body of a block or loop, beside or instead of one that is there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tilewright import ir
from tilewright.schedule.state.sref import StmtSRef
from tilewright.schedule.state.state import ScheduleState


def splice(body: ir.Stmt, old: ir.Stmt | None, new: Sequence[ir.Stmt]) -> ir.Stmt:
    """`body` with `new` where the loop or block `old` stood; a block's realization goes with it."""
    if _stands_for(body, old):
        return ir.seq(new)
    if isinstance(body, ir.SeqStmt):
        for position, item in enumerate(body.seq):
            if _stands_for(item, old):
                return ir.seq((*body.seq[:position], *new, *body.seq[position + 1 :]))
    if isinstance(body, (ir.For, ir.BlockRealize)):
        return body
    return ir.map_statements(body, lambda child: splice(child, old, new))


def _stands_for(stmt: ir.Stmt, target: ir.Stmt | None) -> bool:
    return stmt is target or (isinstance(stmt, ir.BlockRealize) and stmt.block is target)


def replace_in_parent(
    state: ScheduleState,
    old: StmtSRef,
    new: Sequence[ir.Stmt],
    block_sref_reuse: Mapping[ir.Block, ir.Block],
) -> None:
    """Exchange a loop, or a block with its realization, for the statements `new`."""
    parent = old.around
    state.set_body(parent, splice(parent.body, old.stmt, new), block_sref_reuse)


def replace_run_in_parent(
    state: ScheduleState,
    run: Sequence[StmtSRef],
    new: ir.Stmt,
    block_sref_reuse: Mapping[ir.Block, ir.Block],
) -> None:
    """Exchange consecutive statements of one sequence for `new`."""
    first, *others = run
    body = splice(first.around.body, first.stmt, (new,))
    for other in others:
        body = splice(body, other.stmt, ())
    state.set_body(first.around, body, block_sref_reuse)


def copy_path(top: StmtSRef, bottom: StmtSRef, new: ir.Stmt) -> ir.Stmt:
    """The statement of `top` with `new` where `bottom`, which lies below it, stands."""
    node = bottom
    while node is not top:
        parent = node.around
        new = parent.with_body(splice(parent.body, node.stmt, (new,)))
        node = parent
    return new


def loop_nest(loops: Sequence[tuple[ir.Var, ir.PrimExpr]], body: ir.Stmt) -> ir.Stmt:
    """Serial loops from 0 around a statement, given as variables and extents, outermost first."""
    for variable, extent in reversed(loops):
        body = ir.For(variable, ir.const(0, variable.dtype), extent, ir.ForKind.SERIAL, body)
    return body


class BlockKeeper(ir.BufferRewriter):
    """A rewriter that remembers which block became which, for those who `replace` them."""

    def __init__(self) -> None:
        self.reuse: dict[ir.Block, ir.Block] = {}

    def visit_block(self, node: ir.Block) -> ir.Block:
        changed: ir.Block = super().visit_block(node)
        if changed is not node:
            self.reuse[node] = changed
        return changed
