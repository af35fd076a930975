"""Putting statements into the body of a block or loop, beside or instead of one that is there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tilewright import ir
from tilewright.schedule.state.sref import StmtSRef
from tilewright.schedule.state.state import ScheduleState


def splice(body: ir.Stmt, old: ir.Stmt, new: Sequence[ir.Stmt]) -> ir.Stmt:
    """`body` with `new` where the loop or block `old` stood; a block's realization goes with it."""
    if _stands_for(body, old):
        return ir.seq(new)
    if isinstance(body, ir.SeqStmt):
        for position, item in enumerate(body.seq):
            if _stands_for(item, old):
                return ir.seq((*body.seq[:position], *new, *body.seq[position + 1 :]))
    if isinstance(body, (ir.For, ir.BlockRealize)):
        return body
    return ir.map_children(
        body, lambda child: splice(child, old, new) if isinstance(child, ir.Stmt) else child
    )


def _stands_for(stmt: ir.Stmt, target: ir.Stmt) -> bool:
    return stmt is target or (isinstance(stmt, ir.BlockRealize) and stmt.block is target)


def replace_in_parent(
    state: ScheduleState,
    old: StmtSRef,
    new: Sequence[ir.Stmt],
    block_sref_reuse: Mapping[ir.Block, ir.Block],
) -> None:
    """Exchange a loop, or a block with its realization, for the statements `new`."""
    parent = old.parent
    assert parent is not None
    assert parent.stmt is not None
    assert old.stmt is not None
    target = ir.replace(parent.stmt, body=splice(parent.stmt.body, old.stmt, new))
    reuse = dict(block_sref_reuse)
    if isinstance(parent.stmt, ir.Block) and isinstance(target, ir.Block):
        reuse[parent.stmt] = target
    state.replace(parent, target, reuse)


def replace_run_in_parent(
    state: ScheduleState,
    run: Sequence[StmtSRef],
    new: ir.Stmt,
    block_sref_reuse: Mapping[ir.Block, ir.Block],
) -> None:
    """Exchange consecutive statements of one sequence for `new`."""
    first, *others = run
    parent = first.parent
    assert parent is not None
    assert parent.stmt is not None
    assert first.stmt is not None
    body = splice(parent.stmt.body, first.stmt, (new,))
    for other in others:
        assert other.stmt is not None
        body = splice(body, other.stmt, ())
    target = ir.replace(parent.stmt, body=body)
    reuse = dict(block_sref_reuse)
    if isinstance(parent.stmt, ir.Block) and isinstance(target, ir.Block):
        reuse[parent.stmt] = target
    state.replace(parent, target, reuse)


def copy_path(top: StmtSRef, bottom: StmtSRef, new: ir.Stmt) -> ir.Stmt:
    """The statement of `top` with `new` where `bottom`, which lies below it, stands."""
    node = bottom
    while node is not top:
        parent = node.parent
        assert parent is not None
        assert parent.stmt is not None
        assert node.stmt is not None
        new = ir.replace(parent.stmt, body=splice(parent.stmt.body, node.stmt, (new,)))
        node = parent
    return new


def loop_nest(loops: Sequence[tuple[ir.Var, ir.PrimExpr]], body: ir.Stmt) -> ir.Stmt:
    """Serial loops from 0 around a statement, given as variables and extents, outermost first."""
    for variable, extent in reversed(loops):
        body = ir.For(variable, ir.const(0, variable.dtype), extent, ir.ForKind.SERIAL, body)
    return body
