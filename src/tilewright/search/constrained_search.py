"""`ConstrainedSearch`: strategies in constraint problems as searches of the tuner."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from typing_extensions import Self

from tilewright.records import Candidates, RunnerResult, RunnerResults
from tilewright.search.base import search_strategies
from tilewright.search.constrained import (
    ConstrainedSettings,
    ConstrainedStrategy,
    constrained_strategies,
)
from tilewright.search.constrained.decision_problem import SketchProblem, sketch_problem
from tilewright.search.replayer import Draft, Sketch
from tilewright.search.task_search import TaskSearch, Tuning
from tilewright.solver.array_solver import ArraySolver

_ATTEMPTS = 4  # batches, until one has enough candidates that post-processors accept
_SCALE = 40.0  # logarithms of times become scores above 0: nothing takes e**40 seconds


@dataclass
class _Arm:
    """One sketch, and the strategy that searches in it."""

    sketch: Sketch
    problem: SketchProblem
    strategy: ConstrainedStrategy
    best: float = 0.0
    is_empty: bool = False


@dataclass(frozen=True)
class _Origin:
    arm: _Arm
    point: Any = field(repr=False)


class ConstrainedSearch(TaskSearch):
    """Each sketch is a constraint problem; half of a batch comes from the best of them."""

    def __init__(self, kind: str, **settings: Any) -> None:
        super().__init__()
        self.kind = kind  # type: ignore[misc]  # each strategy has a name of its own
        self._settings = ConstrainedSettings(**settings)
        self._arms: list[_Arm] = []
        self._origins: dict[int, _Origin] = {}

    def settings(self) -> dict[str, Any]:
        """What the search was made with."""
        given = {name: getattr(self._settings, name) for name in ConstrainedSettings.names()}
        return {"kind": self.kind, **given}

    def clone(self) -> Self:
        return type(self)(**self.settings())

    def _begin(self, tuning: Tuning) -> None:
        self._origins, self._arms = {}, []
        self._take_more(tuning, tuning.sketches)

    def _take_more(self, tuning: Tuning, sketches: Sequence[Sketch]) -> None:
        spaces = [(sketch, self._space_of(sketch)) for sketch in sketches]
        self._arms += [_Arm(sketch, *made) for sketch, made in spaces]

    def _space_of(self, sketch: Sketch) -> tuple[SketchProblem, ConstrainedStrategy]:
        problem = sketch_problem(self.mod, sketch.space, self.space.postprocs)
        solutions = ArraySolver().prepare(problem.problem)
        seed = self.random.fork_seed()
        strategy = constrained_strategies.create(
            self.kind, solutions, problem.knobs, self._settings, seed
        )
        return problem, strategy

    def _trials_of(self, tuning: Tuning, results: int) -> int:
        return results

    def _propose(self, tuning: Tuning, count: int) -> list[Draft] | None:
        drafts: list[Draft] = []
        for _ in range(_ATTEMPTS):
            for arm, share in self._shares(count - len(drafts)):
                drafts += self._drafts(tuning, arm, share)
            if len(drafts) >= count or all(arm.is_empty for arm in self._arms):
                break
        return drafts[:count] or None

    def _shares(self, count: int) -> list[tuple[_Arm, int]]:
        """How many candidates each sketch proposes: the best one half of them."""
        arms = sorted((arm for arm in self._arms if not arm.is_empty), key=lambda arm: -arm.best)
        if not arms or count < 1:
            return []
        first = count if len(arms) == 1 else math.ceil(count / 2)
        rest = np.array_split(np.arange(count - first), max(1, len(arms) - 1))
        sizes = [first, *(len(part) for part in rest)]
        return [(arm, size) for arm, size in zip(arms, sizes, strict=False) if size]

    def _drafts(self, tuning: Tuning, arm: _Arm, count: int) -> list[Draft]:
        points = arm.strategy.ask(count)
        arm.is_empty = not len(points)
        drafts = []
        for point in points:
            values = dict(zip(arm.strategy.space.names, point.tolist(), strict=True))
            draft = tuning.replayer.replay(arm.problem.trace_of(values), seed=1)
            if draft is None:
                arm.strategy.tell(point[None, :], [0.0])
            elif draft in tuning.known:
                self.statistics.duplicates += 1
            else:
                tuning.known.add(draft)
                self._origins[draft.shash] = _Origin(arm, point)
                drafts.append(draft)
        return drafts

    def notify_runner_results(self, measure_candidates: Candidates, results: RunnerResults) -> None:
        super().notify_runner_results(measure_candidates, results)
        by_arm: dict[int, tuple[list[Any], list[float]]] = {}
        for candidate, result in zip(measure_candidates, results, strict=True):
            origin = self._origins.pop(candidate.program_hash, None)
            if origin is not None:
                points, scores = by_arm.setdefault(self._arms.index(origin.arm), ([], []))
                points.append(origin.point)
                scores.append(score_of(result))
        for number, (points, scores) in by_arm.items():
            arm = self._arms[number]
            arm.best = max(arm.best, *scores)
            arm.strategy.tell(np.stack(points), scores)

    # --- resuming -------------------------------------------------------------------------------

    def _more_state(self) -> dict[str, object]:
        numbers = {id(arm): number for number, arm in enumerate(self._arms)}
        pending = [
            [f"{shash:016x}", numbers[id(origin.arm)], origin.point.tolist()]
            for shash, origin in self._origins.items()
        ]
        arms = [[arm.strategy.state(), arm.best, arm.is_empty] for arm in self._arms]
        return {"arms": arms, "origins": pending}

    def _load_more_state(self, tuning: Tuning, state: Mapping[str, Any]) -> None:
        for arm, (saved, best, is_empty) in zip(self._arms, state["arms"], strict=True):
            arm.strategy.load_state(saved)
            arm.best, arm.is_empty = float(best), bool(is_empty)
        self._origins = {
            int(shash, 16): _Origin(self._arms[number], np.asarray(point, dtype=np.int64))
            for shash, number, point in state["origins"]
        }


def score_of(result: RunnerResult) -> float:
    """What a result is worth; 0: it failed."""
    if not result.run_secs:
        return 0.0
    return _SCALE - math.log(float(np.mean(result.run_secs)))


for _name in ("cga", "crand", "sa", "ga", "rcga", "srga", "sdga", "idea", "descent"):
    search_strategies.register(_name)(partial(ConstrainedSearch, _name))
