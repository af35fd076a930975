"""`DisallowDynamicLoop`: reject schedules that make loops whose extent is not a number.

Loops of the program itself may run as often as its data say.
"""

from __future__ import annotations

from tilewright.ir import For, IntImm, IRModule, nodes_of
from tilewright.schedule import Schedule
from tilewright.space.base import Postproc, TaskContext, postprocs


@postprocs.register("DisallowDynamicLoop")
class DisallowDynamicLoop(Postproc):
    """Accepts a candidate when the extent of every loop is known that was not so before."""

    def __init__(self) -> None:
        self._allowed = 0

    def _initialize_with_tune_context(self, context: TaskContext) -> None:
        self._allowed = 0 if context.mod is None else _dynamic_loops_of(context.mod)

    def apply(self, sch: Schedule) -> bool:
        return _dynamic_loops_of(sch.mod) <= self._allowed


def _dynamic_loops_of(mod: IRModule) -> int:
    loops = (loop for func in mod.functions.values() for loop in nodes_of(func.body, For))
    return sum(not isinstance(loop.extent, IntImm) for loop in loops)
