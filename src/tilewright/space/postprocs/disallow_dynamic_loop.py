"""`DisallowDynamicLoop`: reject programs with loops whose extent is not a number."""

from __future__ import annotations

from tilewright.ir import For, IntImm, Node, Stmt, children
from tilewright.schedule import Schedule
from tilewright.space.base import Postproc, postprocs


@postprocs.register("DisallowDynamicLoop")
class DisallowDynamicLoop(Postproc):
    """Accepts a candidate when the extent of every loop is known."""

    def apply(self, sch: Schedule) -> bool:
        return not any(_has_dynamic_loop(func.body) for func in sch.mod.functions.values())


def _has_dynamic_loop(stmt: Node) -> bool:
    if isinstance(stmt, For) and not isinstance(stmt.extent, IntImm):
        return True
    return any(_has_dynamic_loop(child) for child in children(stmt) if isinstance(child, Stmt))
