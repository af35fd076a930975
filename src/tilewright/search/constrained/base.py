"""`ConstrainedStrategy`: ask it for solutions of a problem, tell it what they are worth."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tilewright.errors import TuneError
from tilewright.search.constrained.value_model import ValueModel
from tilewright.solver.array_solver import ArraySpace
from tilewright.solver.base import Columns
from tilewright.support.plugins import Family

Scores = NDArray[np.float64]

_DRAWS_FOR_A_PLACE = 8


@dataclass(frozen=True)
class ConstrainedSettings:
    """Heron's settings, under its names."""

    pop_num: int = 200
    iter_walks: int = 5
    history_topk: int = 32
    select_num: int = 100
    crossover_key_ratio: float = 0.2
    temperature: float = 0.6
    epsilon: float = 0.6  # which part of a batch are the best by prediction
    use_cost_model: bool = True

    def __post_init__(self) -> None:
        for name in ("pop_num", "iter_walks", "history_topk", "select_num"):
            if getattr(self, name) < 1:
                raise TuneError(f"{name} must be at least 1, got {getattr(self, name)}")
        for name in ("crossover_key_ratio", "epsilon"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise TuneError(f"{name} is a share, so from 0 to 1, got {getattr(self, name)}")
        if self.temperature <= 0:
            raise TuneError(f"temperature must be positive, got {self.temperature}")

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """All fields."""
        return tuple(each.name for each in fields(cls))


@dataclass(eq=False)
class ConstrainedStrategy(ABC):
    """Proposes solutions, none twice; learns from their scores, of which higher ones are better.

    `knobs`: the columns of the problem that are chosen; all others follow from them.
    """

    # Attributes of a strategy, rows of values, that another process must have to go on.
    kept: ClassVar[tuple[str, ...]] = ()

    space: ArraySpace
    knobs: Sequence[int]
    settings: ConstrainedSettings = field(default_factory=ConstrainedSettings)
    seed: int = 0

    def __post_init__(self) -> None:
        self.space.check_not_empty()
        self.rng = np.random.default_rng(self.seed)
        self.model = ValueModel()
        self.points: Columns = np.zeros((0, len(self.space.names)), dtype=np.int64)
        self.scores: Scores = np.zeros(0)
        self._known: set[bytes] = set()

    # --- the contract ---------------------------------------------------------------------------

    def ask(self, count: int) -> Columns:
        """At most `count` solutions that were not asked for before; fewer: no more are found."""
        chosen = self.unknown(self._propose(count))[:count]
        chosen = np.concatenate([chosen, self._fresh(count - len(chosen), chosen)])
        self._known.update(self._key(row) for row in chosen)
        return chosen

    def tell(self, points: Columns, scores: Sequence[float]) -> None:
        """What solutions are worth; 0: they failed."""
        self.points = np.concatenate([self.points, points])
        self.scores = np.concatenate([self.scores, np.asarray(scores, dtype=np.float64)])
        if self.settings.use_cost_model:
            self.model.fit(self.points, self.scores)

    def state(self) -> dict[str, Any]:
        """Everything that it needs to go on in another process, as plain JSON values."""
        known = [np.frombuffer(key, dtype=np.int64).tolist() for key in sorted(self._known)]
        return {
            "rng": self.rng.bit_generator.state,
            "points": self.points.tolist(),
            "scores": self.scores.tolist(),
            "known": known,
            "kept": {name: getattr(self, name).tolist() for name in self.kept},
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state` returned."""
        self.rng.bit_generator.state = state["rng"]
        self.points, self.scores = self.points[:0], self.scores[:0]
        points = np.asarray(state["points"], dtype=np.int64).reshape(-1, len(self.space.names))
        self._known = {np.asarray(key, dtype=np.int64).tobytes() for key in state["known"]}
        self.tell(points, state["scores"])
        for name, rows in state["kept"].items():
            setattr(self, name, np.asarray(rows, dtype=np.int64).reshape(-1, len(self.space.names)))

    @abstractmethod
    def _propose(self, count: int) -> Columns:
        """Solutions in the order in which they should be measured."""

    # --- what strategies share ------------------------------------------------------------------

    def sample(self, count: int) -> Columns:
        """Random solutions."""
        return self.space.sample(count, self.rng).values

    def _key(self, row: NDArray[np.int64]) -> bytes:
        return row[list(self.knobs)].tobytes()

    def unknown(self, points: Columns) -> Columns:
        """Each solution once, and none that was asked for before."""
        seen = set(self._known)
        kept = []
        for place, row in enumerate(points):
            key = self._key(row)
            if key not in seen:
                seen.add(key)
                kept.append(place)
        return points[kept]

    def _fresh(self, count: int, beside: Columns) -> Columns:
        """New random solutions in places that a strategy left empty."""
        if count <= 0:
            return beside[:0]
        taken = {self._key(row) for row in beside}
        drawn = self.unknown(self.sample(_DRAWS_FOR_A_PLACE * count))
        kept = [place for place, row in enumerate(drawn) if self._key(row) not in taken]
        return drawn[kept[:count]]

    def best_measured(self, count: int) -> Columns:
        """The best solutions so far."""
        order = np.argsort(-self.scores, kind="stable")[:count]
        return self.points[order[self.scores[order] > 0]]

    def predict(self, points: Columns) -> Scores:
        """What the model expects; the same for all before it has learnt anything."""
        return self.model.predict(points)

    def best_predicted(self, points: Columns, count: int) -> Columns:
        """Those of which the model expects most."""
        order = np.argsort(-self.predict(points), kind="stable")[:count]
        return points[order]

    def roulette(self, points: Columns, count: int) -> Columns:
        """Random ones, in proportion to how far they are above the worst."""
        if not len(points):
            return points
        weights = self.predict(points)
        weights = weights - weights.min() + 1e-16
        return points[self.rng.choice(len(points), count, p=weights / weights.sum())]

    def batch(self, points: Columns, count: int) -> Columns:
        """Mostly the best by prediction, then some by roulette."""
        points = self.unknown(points)
        greedy = round(self.settings.epsilon * count)
        best = self.best_predicted(points, greedy)
        rest = self.unknown_beside(points, best)
        return np.concatenate([best, self.roulette(rest, count - greedy) if len(rest) else rest])

    def unknown_beside(self, points: Columns, chosen: Columns) -> Columns:
        """Those that were not chosen."""
        taken = {self._key(row) for row in chosen}
        return points[[place for place, row in enumerate(points) if self._key(row) not in taken]]


constrained_strategies: Family[ConstrainedStrategy] = Family(
    "constrained strategy", "tilewright.constrained_strategy"
)
