"""The padding of buffers that are written at loop variables instead of block iterators.

The loops then run over the new layout, as those around an ordinary block do.
"""

from __future__ import annotations

from tilewright import ir
from tilewright.schedule.layouts import padding as paddings
from tilewright.schedule.layouts.layout import axes_of
from tilewright.schedule.regions.buffer_access import AccessChanger
from tilewright.schedule.state.splice import loop_nest


def padded_loops(
    body: ir.Stmt, padding: paddings.LayoutPadding
) -> tuple[ir.For, ir.Stmt, dict[ir.Block, ir.Block]] | None:
    """The loops that write all of the old buffer, and their successors that write the padding, too.

    None where there are none of this kind, or something else happens in them; `body` is that of
    the scope.
    """
    nests = [
        item
        for item in ir.statements_of(body)
        if any(s.buffer is padding.old for s in ir.nodes_of(item, ir.BufferStore))
    ]
    top = nests[0] if len(nests) == 1 else None
    if not isinstance(top, ir.For):
        return None
    loops = _outer_loops(top, padding.old.ndim)
    if loops is None or not _is_simple(loops[-1].body, padding.old):
        return None
    variables = _indices(loops[-1].body, padding.old)
    if variables is None or not _cover(loops, variables, padding.old):
        return None
    new = _rewritten(loops[-1].body, variables, padding)
    return top, new, dict(zip(ir.nodes_of(top, ir.Block), ir.nodes_of(new, ir.Block), strict=True))


def _outer_loops(top: ir.For, count: int) -> list[ir.For] | None:
    """So many loops, each directly inside the one before."""
    loops: list[ir.For] = []
    node: ir.Stmt = top
    while len(loops) < count and isinstance(node, ir.For):
        loops.append(node)
        node = node.body
    return loops if len(loops) == count > 0 and all(map(paddings.is_plain_loop, loops)) else None


def _is_simple(stmt: ir.Stmt, buffer: ir.Buffer) -> bool:
    """Nothing but stores into the buffer, in loops and blocks without iterators."""
    match stmt:
        case ir.BufferStore():
            return stmt.buffer is buffer
        case ir.For():
            return _is_simple(stmt.body, buffer)
        case ir.SeqStmt():
            return all(_is_simple(part, buffer) for part in stmt.seq)
        case ir.BlockRealize(block=block):
            own = block.iter_vars or block.match_buffers or block.alloc_buffers or block.init
            return (
                not own and isinstance(stmt.predicate, ir.IntImm) and _is_simple(block.body, buffer)
            )
    return False


def _indices(stmt: ir.Stmt, buffer: ir.Buffer) -> list[ir.Var] | None:
    """The variables at which all accesses of the buffer are."""
    found = paddings.only_indices(stmt, buffer)
    variables = [index for index in found or () if isinstance(index, ir.Var)]
    return variables if found is not None and len(set(variables)) == len(found) else None


def _cover(loops: list[ir.For], variables: list[ir.Var], buffer: ir.Buffer) -> bool:
    """The variables are those of the loops, which run over all of the buffer."""
    by_variable = {loop.loop_var: loop for loop in loops}
    return set(variables) == set(by_variable) and all(
        ir.is_zero(loop.min) and ir.expr_deep_equal(loop.extent, extent)
        for loop, extent in zip((by_variable[v] for v in variables), buffer.shape, strict=True)
    )


def _rewritten(stmt: ir.Stmt, old: list[ir.Var], padding: paddings.LayoutPadding) -> ir.Stmt:
    axes = axes_of(padding.new.shape)
    body: ir.Stmt = AccessChanger(padding.old, padding.new, tuple(axes)).visit(stmt)
    body = ir.substitute(body, dict(zip(old, padding.inverse.map_indices(axes), strict=True)))
    body = paddings.with_padded_stores(body, padding.new, *padding.at(axes))
    return loop_nest(list(zip(axes, padding.new.shape, strict=True)), body)
