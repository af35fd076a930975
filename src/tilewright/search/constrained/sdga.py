"""SDGA: a genetic algorithm on numbers that need not fit; a solver decodes them to solutions."""

from __future__ import annotations

import numpy as np

from tilewright.search.constrained.base import ConstrainedStrategy, constrained_strategies
from tilewright.search.constrained.legality import one_point
from tilewright.solver.base import Columns


@constrained_strategies.register("sdga")
class DecodedGenetic(ConstrainedStrategy):
    """Genes are hints; what is measured is the solution that a repair makes of them."""

    kept = ("_genes",)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._genes = self.sample(self.settings.pop_num)

    def _propose(self, count: int) -> Columns:
        genes = np.concatenate([self._genes, self.best_measured(self.settings.history_topk)])
        solutions = self.space.repair(genes, self.rng).values
        for _ in range(self.settings.iter_walks):
            children = self._children(genes, self.predict(solutions))
            decoded = self.space.repair(children, self.rng).values
            genes, solutions = (
                np.concatenate([genes, children]),
                np.concatenate([solutions, decoded]),
            )
            order = np.argsort(-self.predict(solutions), kind="stable")[: self.settings.pop_num]
            genes, solutions = genes[order], solutions[order]
        self._genes = genes
        return self.batch(solutions, count)

    def _children(
        self, genes: Columns, scores: np.ndarray[tuple[int], np.dtype[np.float64]]
    ) -> Columns:
        """Cut and joined genes, one of them replaced by that of a random solution."""
        count = self.settings.pop_num
        weights = scores - scores.min() + 1e-16
        picked = self.rng.choice(len(genes), (2, count), p=weights / weights.sum())
        children = one_point(genes[picked[0]], genes[picked[1]], self.rng)
        donors = self.sample(count)
        rows = np.arange(count)
        place = self.rng.integers(0, children.shape[1], count)
        children[rows, place] = donors[rows, place]
        return children
