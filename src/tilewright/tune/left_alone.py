"""The parts of a program that no schedule changes, told to its user before the search begins."""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.ir import For, IntImm, IRModule, IterType, Node, children
from tilewright.schedule import Schedule
from tilewright.schedule.analysis import has_trivial_binding
from tilewright.schedule.conditions.checks import why_not_compact
from tilewright.schedule.conditions.slices import free_positions
from tilewright.schedule.state.scope import child_blocks, loops_of
from tilewright.schedule.state.sref import StmtSRef
from tilewright.schedule.state.state import ScheduleState

_OTHER_ITERATORS = {IterType.ORDERED: "ordered", IterType.OPAQUE: "opaque"}


def left_alone(mod: IRModule) -> list[str]:
    """A sentence for each block whose loops stay as they are written, and each loop that does."""
    state = Schedule(mod).state
    sentences: list[str] = []
    for root in state.roots.values():
        blocks = child_blocks(state, root)
        reasons = {block: _reason(block, state) for block in blocks}
        tuned = sum(not reason for reason in reasons.values())
        sentences += [
            f"block {block.name!r} {reason}, so its loops stay as written; {_rest(tuned)}"
            for block, reason in reasons.items()
            if reason
        ]
        assert root.stmt is not None
        sentences += [
            f"loop {loop.loop_var.name!r} runs as often as its data say (`{loop.extent}`), so it "
            "stays as written; the loops around it are tuned"
            for loop in _dynamic_loops(root.stmt)
        ]
    return sentences


def _reason(block: StmtSRef, state: ScheduleState) -> str:
    """What keeps a block from being scheduled; empty: nothing does."""
    loops = loops_of(block)
    if has_trivial_binding(block) and free_positions(block.block):
        return ""  # along some of its axes
    why = why_not_compact(state, loops[0], block) if loops else ""
    for iterator in block.block.iter_vars if why else ():
        if iterator.iter_type in _OTHER_ITERATORS:
            return f"has the {_OTHER_ITERATORS[iterator.iter_type]} iterator {iterator.var.name!r}"
    return why.removeprefix("it ")


def _rest(tuned: int) -> str:
    if not tuned:
        return (
            "to have it tuned, write into another buffer than it reads, or move the loop that "
            "carries values on into the block"
        )
    return "the other block is tuned" if tuned == 1 else f"the other {tuned} blocks are tuned"


def _dynamic_loops(stmt: Node) -> Iterator[For]:
    if isinstance(stmt, For) and not isinstance(stmt.extent, IntImm):
        yield stmt
    for child in children(stmt):
        yield from _dynamic_loops(child)
