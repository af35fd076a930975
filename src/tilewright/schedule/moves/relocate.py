"""Taking a block out of its loops and putting a new nest of it somewhere else."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tilewright import ir
from tilewright.errors import ScheduleError
from tilewright.schedule.errors import PrimitiveError
from tilewright.schedule.state import ScheduleState, StmtSRef
from tilewright.schedule.state.scope import DEFINITIONS, lowest_common_ancestor
from tilewright.schedule.state.splice import splice
from tilewright.schedule.state.sref import upwards


class OnlyBlockOfScope(PrimitiveError):
    reason = "block {block!r} is the only one under {scope!r}"
    remedy = "a scope cannot be left empty"


class StatementAroundBlock(PrimitiveError):
    reason = "block {block!r} is inside a {statement} statement, which would be lost"
    remedy = "only blocks directly inside loops can be taken away"


def check_removable(block: StmtSRef, users: Sequence[StmtSRef] = ()) -> StmtSRef:
    """The outermost statement that holds nothing but the block and can go with it.

    `users` are the blocks and loops that get what is taken away: definitions may stand around the
    block where they stand around all of these, too.
    """
    top = block
    while True:
        parent = top.around
        body = _below_definitions(parent.body, [top, *users])
        if type(body) is ir.SeqStmt:
            _require_plain(block, body.seq[position_in(body, top)], top)
            return top
        _require_plain(block, body, top)
        if type(parent.stmt) is ir.Block:
            raise OnlyBlockOfScope(block=block, scope=parent.name)
        top = parent


def check_stands_free(block: StmtSRef, top: StmtSRef) -> None:
    """Nothing stands between `top`, which holds a block, and the block around it."""
    body = top.around.body
    _require_plain(
        block, body.seq[position_in(body, top)] if type(body) is ir.SeqStmt else body, top
    )


def _below_definitions(body: ir.Stmt, held: Sequence[StmtSRef]) -> ir.Stmt:
    """The innermost statement in `body` around which there are only definitions for all `held`."""
    item = body.seq[position_in(body, held[0])] if type(body) is ir.SeqStmt else body
    shared = len(held) > 1 and all(_holds(item, each.stmt) for each in held)
    if shared and isinstance(item, DEFINITIONS):
        return _below_definitions(item.body, held)
    return body


def _require_plain(block: StmtSRef, item: ir.Stmt, expected: StmtSRef) -> None:
    inside = item.block if isinstance(item, ir.BlockRealize) else item
    if inside is not expected.stmt:
        kind = type(item).__name__
        raise StatementAroundBlock(block=block, statement=kind)


def position_in(body: ir.SeqStmt, child: StmtSRef) -> int:
    """Which statement of a sequence holds a block or loop."""
    items = body.seq
    index = child.seq_index
    if 0 <= index < len(items) and _is(items[index], child):
        return index
    for index, item in enumerate(items):
        if _is(item, child) or _holds(item, child.stmt):
            return index
    raise ScheduleError(f"{child.name!r} is not where its reference says")


def _is(item: ir.Stmt, child: StmtSRef) -> bool:
    return item is child.stmt or (type(item) is ir.BlockRealize and item.block is child.stmt)


def _holds(item: ir.Stmt, stmt: object) -> bool:
    return any(each is stmt for each in ir.nodes_of(item, ir.Stmt))


def move(
    state: ScheduleState, removed: StmtSRef, loop: StmtSRef, nest: ir.Stmt, index: int
) -> None:
    """Put `nest`, which realizes a block anew, into `loop`; its old loops (`removed`) go away."""
    top = lowest_common_ancestor([removed, loop])
    filled = loop.with_body(inserted(loop.body, nest, index))
    body = exchanged(top.body, path_below(top, loop), filled)
    state.set_body(top, exchanged(body, path_below(top, removed)))


def remove(
    state: ScheduleState,
    removed: StmtSRef,
    change: Callable[[ir.Block], ir.Block],
    changed: Mapping[ir.Block, ir.Block],
) -> None:
    """Take `removed` out of its scope and `change` what is left of the scope.

    `changed` says which blocks became which others on the way.
    """
    top = removed.scope_root
    rest = exchanged(top.body, path_below(top, removed))
    state.replace(top, change(ir.replace(top.block, body=rest)), changed)


def exchanged(body: ir.Stmt, path: Sequence[StmtSRef], *new: ir.Stmt) -> ir.Stmt:
    """`body` with `new` where the statement at the end of `path` stands; with nothing, if need be.

    Something must be left behind then.
    """
    *loops, old = path
    for loop in reversed(loops):
        new, old = (loop.with_body(splice(loop.body, old.stmt, new)),), loop
    return splice(body, old.stmt, new)


def path_below(top: StmtSRef, sref: StmtSRef) -> list[StmtSRef]:
    """What lies between `top` (left out) and `sref` (included), outermost first."""
    return [*upwards(sref, top)][::-1]


def inserted(body: ir.Stmt, item: ir.Stmt, index: int) -> ir.Stmt:
    """`body` with `item` in front of its statement number `index`."""
    items = ir.statements_of(body)
    return ir.SeqStmt((*items[:index], item, *items[index:]))
