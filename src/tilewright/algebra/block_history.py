"""Versions of blocks, as they were before later steps changed them.

Steps on blocks are carried out first, all of them. Steps on loops come later, but see blocks as
they were in between: before a copy was made, or before a buffer got another layout.
"""

from __future__ import annotations

from collections.abc import Mapping

from tilewright import ir
from tilewright.algebra.loop_tree import Node, NotInterpreted, StageNode
from tilewright.schedule.state import ScheduleState, StmtSRef

_ALWAYS = -1


class BlockHistory:
    """The versions of all blocks of a program, each with the number of the step that made it."""

    def __init__(self, state: ScheduleState) -> None:
        self._state = state
        self._versions: dict[StmtSRef, list[tuple[int, ir.Block]]] = {}
        self.note(_ALWAYS, restarts=True)

    def note(self, step: int, *, restarts: bool) -> None:
        """Remember what a step changed; `restarts`: as if it had never been otherwise."""
        for sref in self._state.infos:
            versions = self._versions.setdefault(sref, [])
            if not versions:
                versions.append((step, sref.block))
            elif versions[-1][1] is not sref.block:
                if restarts:
                    versions[:] = [(versions[0][0], sref.block)]
                else:
                    versions.append((step, sref.block))

    def versions_of(self, nodes: Mapping[ir.Node, Node]) -> StageVersions:
        """The versions of stages; `nodes` has those of the last blocks."""
        found: dict[StageNode, list[tuple[int, ir.Block]]] = {}
        for versions in self._versions.values():
            stage = nodes.get(versions[-1][1])
            if isinstance(stage, StageNode) and (len(versions) > 1 or versions[0][0] >= 0):
                found[stage] = versions
        return StageVersions(found)


class StageVersions:
    """Shows stages as they were at some step."""

    def __init__(self, versions: Mapping[StageNode, list[tuple[int, ir.Block]]]) -> None:
        self._versions = dict(versions)
        self._shown = {stage: stage.block for stage in versions}

    def show(self, step: int | None) -> None:
        """Let stages be what they were at a step; None: after all of them."""
        for stage, versions in self._versions.items():
            before = [block for number, block in versions if step is None or number < step]
            stage.is_made = bool(before)
            wanted = before[-1] if before else versions[0][1]
            if wanted is not self._shown[stage]:
                self._exchange(stage, wanted)

    def _exchange(self, stage: StageNode, wanted: ir.Block) -> None:
        if stage.block is not self._shown[stage]:
            raise NotInterpreted(f"block {stage.name!r} changes after it became part of another")
        stage.block = self._shown[stage] = wanted
