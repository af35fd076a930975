"""Variables that are computed after drawing, and the constraints that are checked then."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tilewright.solver.domains import Values
from tilewright.solver.elimination import Elimination
from tilewright.solver.network import ConstraintNetwork
from tilewright.solver.relations import OPERATIONS, AtMost, Chosen, Computed, Relation


class Later:
    """The postponed relations of an elimination, in an order in which results can be computed."""

    def __init__(self, network: ConstraintNetwork, elimination: Elimination) -> None:
        self.network = network
        drawn = {conditional.variable for conditional in elimination.conditionals}
        drawn |= {*elimination.free}
        known = {
            number
            for number, domain in enumerate(network.domains)
            if domain.size == 1 or number in drawn
        }
        waiting = [r for r in network.relations if r.source in elimination.postponed]
        self.steps: list[tuple[Relation, bool]] = []  # True: computes its first variable
        while waiting:
            ready = next((r for r in waiting if known.issuperset(_needed(r))), None)
            if ready is None:
                raise AssertionError("postponed relations define each other")
            waiting.remove(ready)
            self.steps.append((ready, ready.terms[0] not in known))
            known.add(ready.terms[0])

    def complete(self, columns: dict[int, Values], rows: int) -> NDArray[np.int64]:
        """Add the variables that are missing; for each row how many relations do not hold."""
        broken = np.zeros(rows, dtype=np.int64)
        for relation, computes in self.steps:
            values, is_right = _evaluated(relation, columns)
            if computes:
                columns[relation.terms[0]] = values
                broken += ~self.network.domains[relation.terms[0]].contains(values)
            broken += ~is_right
        return broken


def _needed(relation: Relation) -> tuple[int, ...]:
    return relation.terms if isinstance(relation, AtMost) else relation.terms[1:]


def _evaluated(relation: Relation, columns: dict[int, Values]) -> tuple[Values, NDArray[np.bool_]]:
    """The value of its first variable, and whether that is the one which it has, if it has one."""
    if isinstance(relation, AtMost):
        left, right = (columns[term] for term in relation.terms)
        return left, left <= right
    if isinstance(relation, Computed):
        values = OPERATIONS[relation.operation].apply(*(columns[t] for t in relation.terms[1:]))
    else:
        assert isinstance(relation, Chosen)
        index = columns[relation.terms[1]]
        choices = [columns[term] for term in relation.terms[Chosen.FIRST :]]
        values = np.choose(index.clip(0, len(choices) - 1), choices)
    known = columns.get(relation.terms[0])
    return values, np.ones(len(values), dtype=bool) if known is None else values == known
