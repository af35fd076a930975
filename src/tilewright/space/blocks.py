"""Finding blocks of a module without recording anything in its trace."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tilewright.schedule import Schedule, StmtSRef
from tilewright.schedule.primitives.get_blocks import neighbours
from tilewright.schedule.state.scope import child_blocks
from tilewright.schedule.state.state import ScheduleState


def blocks_in_order(state: ScheduleState) -> Iterator[tuple[str, StmtSRef]]:
    """All blocks but the roots in program order, inner ones after outer ones, with their function.

    The program must not change while this runs.
    """
    for function, root in state.roots.items():
        for block in _below(state, root):
            yield function, block


def _below(state: ScheduleState, block: StmtSRef) -> Iterator[StmtSRef]:
    for child in child_blocks(state, block):
        yield child
        yield from _below(state, child)


def blocks_inner_first(state: ScheduleState, block: StmtSRef) -> Iterator[StmtSRef]:
    """The blocks below another one in program order, inner ones before outer ones."""
    for child in child_blocks(state, block):
        yield from blocks_inner_first(state, child)
        yield child


def all_before(
    sch: Schedule, block: StmtSRef, stop_at: Callable[[StmtSRef], bool] = lambda other: False
) -> list[StmtSRef]:
    """All producers of a block, direct or not, the last one in the program first.

    Blocks that `stop_at` names are left out, and whatever only they read.
    """
    found: dict[StmtSRef, None] = {}
    waiting = [block]
    while waiting:
        for other in neighbours(sch, waiting.pop(), before=True):
            if other not in found and not stop_at(other):
                found[other] = None
                waiting.append(other)
    order = [sref for sref in sch.state.srefs.values() if sref in found]
    return sorted(order, key=_position, reverse=True)


def _position(block: StmtSRef) -> int:
    """Where a block stands among the statements of its function."""
    top = block
    while top.parent is not None and top.parent.parent is not None:
        top = top.parent
    return top.seq_index
