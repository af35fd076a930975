"""The nests of whole programs as tables: which ones a case has, and which parts they play."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tilewright.algebra.batch_cases import CaseTree, Rows
from tilewright.algebra.model import StructureCase, Uncovered

NOTHING = -1


@dataclass(frozen=True, eq=False)
class Programs:
    """Programs, by places in them; `NOTHING` after the last."""

    nests: Rows  # numbers of nests
    regions: Rows  # nests with the same number run in one parallel loop
    ranked: Rows  # the places by work, the most first


class ProgramTable:
    """By number of a case: its nests, their parallel loops, and their order by work."""

    def __init__(
        self, tree: CaseTree[StructureCase | Uncovered], packed_before: bool = False
    ) -> None:
        self._tree = tree
        self._packed_before = packed_before
        empty = np.zeros((0, 1), np.int64)
        self._programs = Programs(empty, empty, empty)

    def at(self, cases: Rows) -> Programs:
        """The programs of cases, by their numbers."""
        known = self._programs
        new = self._tree.nodes[len(known.nests) :]
        if new:
            nests, regions, ranked = zip(*map(self._parts, new), strict=True)
            self._programs = known = Programs(
                _below(known.nests, nests),
                _below(known.regions, regions),
                _below(known.ranked, ranked),
            )
        return Programs(known.nests[cases], known.regions[cases], known.ranked[cases])

    def _parts(self, node: object) -> tuple[list[int], list[int], list[int]]:
        if not isinstance(node, StructureCase):
            return [], [], []
        kept = [
            n
            for n, nest in enumerate(node.nests)
            if not (nest.nest.packs_weights and self._packed_before)
        ]
        ranked = sorted(range(len(kept)), key=lambda n: -node.nests[kept[n]].work)
        return [node.nests[n].number for n in kept], [node.regions[n] for n in kept], ranked


def _below(table: Rows, rows: Sequence[Sequence[int]]) -> Rows:
    """A table with more rows; all are filled up to the width of the widest."""
    width = max([table.shape[1], *map(len, rows)])
    made = np.full((len(table) + len(rows), width), NOTHING)
    made[: len(table), : table.shape[1]] = table
    for number, row in enumerate(rows, len(table)):
        made[number, : len(row)] = row
    return made
