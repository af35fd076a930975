"""Finding blocks of a module without recording anything in its trace."""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.schedule import StmtSRef
from tilewright.schedule.scope import child_blocks
from tilewright.schedule.state import ScheduleState


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


def blocks_post_order(state: ScheduleState) -> Iterator[tuple[str, StmtSRef]]:
    """The same with inner blocks before outer ones."""
    for function, root in state.roots.items():
        for block in _inner_first(state, root):
            yield function, block


def _inner_first(state: ScheduleState, block: StmtSRef) -> Iterator[StmtSRef]:
    for child in child_blocks(state, block):
        yield from _inner_first(state, child)
        yield child
