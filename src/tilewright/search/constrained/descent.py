"""Descent, ours: children of CGA beside the neighbours of the best, one step of a knob away.

A genetic search finds the region, steps find its summit: from the best measured solutions every
knob goes one value up and down, whatever stands in the same products with it gives way, and the
model chooses among these steps and the children. A quarter of a batch is steps in any case, so that
a model that is wrong about the best cannot hide what lies next to them.
"""

from __future__ import annotations

import numpy as np

from tilewright.search.constrained.base import constrained_strategies
from tilewright.search.constrained.cga import ConstrainedGenetic
from tilewright.solver.base import NO_HINT, Columns
from tilewright.solver.domains import value_set

_STARTS = 4  # of the best, from which steps go
_SHARE_OF_STEPS = 0.25
_WAYS = (-1, 1)


@constrained_strategies.register("descent")
class Descent(ConstrainedGenetic):
    """CGA that also looks next to the best."""

    def _propose(self, count: int) -> Columns:
        children = super()._propose(count)
        if not self.model.is_trained:
            return children
        steps = self.unknown(self._steps())
        certain = self.best_predicted(steps, round(_SHARE_OF_STEPS * count))
        everyone = np.concatenate([children, self.unknown_beside(steps, certain)])
        return np.concatenate([certain, self.best_predicted(everyone, count - len(certain))])

    def _steps(self) -> Columns:
        """Solutions one step of a knob away from the best, in both directions."""
        wishes = [
            wish
            for start in self.best_measured(_STARTS)
            for knob in self.knobs
            for way in _WAYS
            if (wish := self._step(start, knob, way)) is not None
        ]
        if not wishes:
            return self.points[:0]
        return self.space.repair(np.asarray(wishes), self.rng).values

    def _step(self, start: Columns, knob: int, way: int) -> Columns | None:
        """Hints: the knob one value further, other knobs as they are, all else as it comes."""
        values = value_set(self.space.problem.variables[knob].domain).values
        place = int(np.searchsorted(values, start[knob])) + way
        if not 0 <= place < len(values):
            return None
        wish = np.full(len(start), NO_HINT, dtype=np.int64)
        wish[list(self.knobs)] = start[list(self.knobs)]
        wish[knob] = values[place]
        return wish
