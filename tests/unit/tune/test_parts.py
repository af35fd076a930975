"""Small parts: time budgets, what is remembered of programs, what a model learns again."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tilewright.cost_model.base import CostModel
from tilewright.database import MemoryDatabase
from tilewright.errors import MemberError
from tilewright.features.base import FeatureExtractor, Matrix
from tilewright.ir import structural_hash
from tilewright.records import FailureKind, MeasureCandidate, RunnerResult
from tilewright.schedule import Schedule
from tilewright.testing.fake_measuring import FakeBuilder, FakeRunner
from tilewright.testing.small_search import MODULE, matmul, nothing, tile_all
from tilewright.tune import TuneContext, tune_tir
from tilewright.tune.budget import Budget
from tilewright.tune.remembered import ProgramMemory, RememberedFeatures, RememberedPrior

# --- budgets ------------------------------------------------------------------------------------


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_without_a_budget_there_is_always_time() -> None:
    budget = Budget(None, Clock())
    assert budget.left() == float("inf")
    assert budget.has_time()
    assert budget.allows_round()
    assert budget.fitting(1000) == 1000


def test_time_runs_out() -> None:
    clock = Clock()
    budget = Budget(10.0, clock)
    budget.measured(1, 1.0)
    clock.now += 9.0
    assert budget.elapsed == 9.0
    assert round(budget.left(), 6) == 0.6  # the rest is for the final
    assert budget.has_time()
    clock.now += 1.0
    assert not budget.has_time()
    assert not budget.allows_round()


def test_a_small_budget_keeps_little_for_finals() -> None:
    assert Budget(1.0, Clock(), tasks=5).left() == 0.9


def test_how_many_candidates_fit() -> None:
    budget = Budget(10.4, Clock())
    assert budget.fitting(64) == 64
    budget.measured(4, 4.0)  # one second each
    assert budget.fitting(64) == 10
    budget.measured(2, 6.0)  # three seconds each: two on average
    assert budget.fitting(64) == 5
    budget.measured(0, 50.0)  # says nothing
    assert budget.fitting(64) == 5
    assert budget.fitting(3) == 3
    budget.measured(1, 1000.0)
    assert budget.fitting(3) == 1


def test_no_search_without_time_to_measure_what_it_finds() -> None:
    clock = Clock()
    budget = Budget(10.4, clock)
    budget.searched(4.0)
    clock.now += 8.5
    assert budget.allows_round()  # nothing was measured yet
    budget.measured(1, 0.1)
    assert not budget.allows_round()


# --- what is remembered -------------------------------------------------------------------------


def candidate(factor: int, *, hashed: bool = True) -> MeasureCandidate:
    sch = Schedule(MODULE)
    sch.split(sch.get_loops(sch.get_block("matmul"))[0], [None, factor])
    return MeasureCandidate(sch, (), structural_hash(sch.mod) if hashed else None)


class Counting(FeatureExtractor):
    """The number of loops as features; counts the programs it sees."""

    def __init__(self) -> None:
        self.seen = 0

    def extract_from(self, context: Any, candidates: Sequence[MeasureCandidate]) -> list[Matrix]:
        self.seen += len(candidates)
        return [np.full((1, 2), float(each.shash or 0)) for each in candidates]

    def score(
        self, context: Any, candidates: Sequence[MeasureCandidate]
    ) -> npt.NDArray[np.float64]:
        self.seen += len(candidates)
        return np.array([float(each.shash or 0) for each in candidates])


A, B, C = (candidate(factor) for factor in (2, 4, 8))
TASK = TuneContext(matmul, space_generator=nothing)
OTHER = TuneContext(matmul, space_generator=nothing)


def test_features_are_extracted_once() -> None:
    counting = Counting()
    features = RememberedFeatures(counting)
    first = features.extract_from(TASK, [A, B, A])
    again = features.extract_from(TASK, [C, B])
    assert counting.seen == 3
    assert [matrix[0, 0] for matrix in first] == [A.shash, B.shash, A.shash]
    assert [matrix[0, 0] for matrix in again] == [C.shash, B.shash]
    features.extract_from(OTHER, [A])
    assert counting.seen == 4


def test_prior_scores_are_computed_once() -> None:
    counting = Counting()
    prior = RememberedPrior(counting)
    assert prior.score(TASK, [A, B]).tolist() == [float(A.shash or 0), float(B.shash or 0)]
    assert prior.score(TASK, [B, A]).tolist() == [float(B.shash or 0), float(A.shash or 0)]
    assert counting.seen == 2
    assert prior.score(TASK, []).tolist() == []


def test_programs_without_a_hash_are_not_remembered() -> None:
    counting, unknown = Counting(), candidate(2, hashed=False)
    features = RememberedFeatures(counting)
    features.extract_from(TASK, [unknown, unknown])
    features.extract_from(TASK, [unknown])
    assert counting.seen == 2


def test_old_programs_are_forgotten() -> None:
    memory: ProgramMemory[int] = ProgramMemory(most=2)
    asked: list[int] = []

    def compute(new: Sequence[MeasureCandidate]) -> list[int]:
        asked.extend(each.shash or 0 for each in new)
        return [0] * len(new)

    for each in (A, B, A, C, A, B):
        memory.values_of(TASK, [each], compute)
    assert asked == [A.shash, B.shash, C.shash, B.shash]


# --- what a model learns again ------------------------------------------------------------------


class Listening(CostModel):
    """Remembers what it was told."""

    def __init__(self) -> None:
        self.told: list[list[tuple[int, tuple[float, ...] | None]]] = []

    def load(self, path: str) -> None: ...

    def save(self, path: str) -> None: ...

    def update(
        self,
        context: Any,
        candidates: Sequence[MeasureCandidate],
        results: Sequence[RunnerResult],
    ) -> None:
        self.told.append(
            [
                (structural_hash(each.sch.mod), result.run_secs)
                for each, result in zip(candidates, results, strict=True)
            ]
        )

    def predict(
        self, context: Any, candidates: Sequence[MeasureCandidate]
    ) -> npt.NDArray[np.float64]:
        return np.zeros(len(candidates))


def tune(
    database: MemoryDatabase, trials: int, model: CostModel, *, keep_going: bool = False
) -> None:
    tune_tir(
        matmul,
        "llvm -num-cores=2",
        max_trials_global=trials,
        num_trials_per_iter=4,
        builder=FakeBuilder(lambda shash: FailureKind.BUILD_ERROR if shash % 5 == 0 else None),
        runner=FakeRunner(lambda shash: FailureKind.CRASH if shash % 7 == 0 else None),
        database=database,
        cost_model=model,
        space=tile_all,
        strategy="replay-trace",
        seed=11,
        console=False,
        keep_going=keep_going,
    )


def test_a_model_is_told_the_same_again_in_the_same_order() -> None:
    first, second, whole = Listening(), Listening(), Listening()
    database = MemoryDatabase()
    tune(database, 12, first)
    tune(database, 20, second)
    tune(MemoryDatabase(), 20, whole)
    assert [len(lesson) for lesson in first.told] != [4, 4, 4]  # what did not build is left out
    assert second.told[:3] == first.told
    assert second.told == whole.told


def test_a_model_that_cannot_learn_again_stops_the_run_unless_it_keeps_going() -> None:
    class Broken(Listening):
        def update(self, *args: Any) -> None:
            raise RuntimeError("not today")

    database = MemoryDatabase()
    tune(database, 8, Listening())
    with pytest.raises(MemberError, match="cost model Broken failed: RuntimeError: not today"):
        tune(database, 12, Broken())
    assert len(database) == 8
    tune(database, 12, Broken(), keep_going=True)
    assert len(database) == 12
    assert logging.getLogger("tilewright.tune").handlers == []
