"""Measure callbacks: ours, and a user's own that fails."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tilewright.cost_model.base import CostModel
from tilewright.database import Database, MemoryDatabase
from tilewright.errors import DatabaseError
from tilewright.records import (
    CANDIDATE_HASH,
    FAILED_RUN_SECS,
    BuilderResult,
    FailureKind,
    MeasureCandidate,
    RunnerResult,
    TuningRecord,
    candidate_hash,
)
from tilewright.testing.fake_measuring import FakeBuilder, FakeRunner
from tilewright.testing.small_search import matmul, tile_all
from tilewright.tune import tune_tir
from tilewright.tune.callbacks import (
    AddToDatabase,
    MeasureCallback,
    RemoveBuildArtifact,
    UpdateCostModel,
    default_callbacks,
    measure_callbacks,
)
from tilewright.tune.policy import RoundRobin


class Seen(MeasureCallback):
    """Remembers all rounds."""

    def __init__(self) -> None:
        self.rounds: list[tuple[Any, int, list[Any], list[Any], list[Any]]] = []

    def apply(
        self,
        task_scheduler: Any,
        task_id: int,
        measure_candidates: Sequence[MeasureCandidate],
        builder_results: Sequence[BuilderResult],
        runner_results: Sequence[RunnerResult],
    ) -> None:
        lists = (list(measure_candidates), list(builder_results), list(runner_results))
        self.rounds.append((task_scheduler, task_id, *lists))


class Failing(Seen):
    """Fails after it has looked."""

    def apply(self, *args: Any) -> None:
        super().apply(*args)
        raise RuntimeError("no disk")


class Listening(CostModel):
    """Remembers what it was told."""

    def __init__(self) -> None:
        self.told: list[tuple[list[MeasureCandidate], list[RunnerResult]]] = []

    def load(self, path: str) -> None: ...

    def save(self, path: str) -> None: ...

    def update(
        self,
        context: Any,
        candidates: Sequence[MeasureCandidate],
        results: Sequence[RunnerResult],
    ) -> None:
        self.told.append((list(candidates), list(results)))

    def predict(
        self, context: Any, candidates: Sequence[MeasureCandidate]
    ) -> npt.NDArray[np.float64]:
        return np.arange(len(candidates), dtype=np.float64)


def tune(*callbacks: MeasureCallback, trials: int = 8, **options: Any) -> Database:
    defaults = {
        "builder": FakeBuilder(),
        "runner": FakeRunner(),
        "space": tile_all,
        "strategy": "replay-trace",
        "cost_model": None,
        "seed": 7,
        "console": False,
    }
    return tune_tir(
        matmul,
        "llvm -num-cores=2",
        max_trials_global=trials,
        num_trials_per_iter=4,
        measure_callbacks=callbacks,
        **{**defaults, **options},
    )


def failing(kind: FailureKind) -> Any:
    return lambda shash: kind if shash % 2 else None


# --- a user's own -------------------------------------------------------------------------------


def test_a_callback_sees_every_round() -> None:
    seen = Seen()
    tune(AddToDatabase(), seen)
    assert [(task_id, len(c), len(b), len(r)) for _, task_id, c, b, r in seen.rounds] == [
        (0, 4, 4, 4),
        (0, 4, 4, 4),
    ]
    scheduler = seen.rounds[0][0]
    assert scheduler.tasks[0].trials == 8
    assert isinstance(scheduler.database, MemoryDatabase)


def test_one_callback_need_not_be_a_list() -> None:
    seen = Seen()
    tune_tir(
        matmul, "llvm", max_trials_global=2, builder=FakeBuilder(), runner=FakeRunner(),
        space=tile_all, strategy="replay-trace", cost_model=None, console=False,
        measure_callbacks=seen,
    )  # fmt: skip
    assert len(seen.rounds) == 1


def test_a_run_that_keeps_going_logs_a_callback_that_fails_once(tmp_path: Path) -> None:
    bad, good = Failing(), Seen()
    database = tune(AddToDatabase(), bad, good, work_dir=tmp_path, keep_going=True)
    assert (len(bad.rounds), len(good.rounds), len(database)) == (2, 2, 8)
    log = (tmp_path / "logs" / "tilewright.tune.task_scheduler.log").read_text()
    assert log.count("[ERROR] measure callback Failing failed: RuntimeError: no disk") == 1


def test_a_database_that_fails_ends_the_tuning() -> None:
    class Full(MemoryDatabase):
        def commit_tuning_record(self, record: TuningRecord) -> None:
            raise DatabaseError("the disk is full")

    with pytest.raises(DatabaseError, match="the disk is full"):
        tune(*default_callbacks(), database=Full())


def test_callbacks_by_name() -> None:
    assert list(measure_callbacks) == [
        "add-to-database",
        "remove-build-artifact",
        "update-cost-model",
    ]
    kinds = [type(each) for each in default_callbacks()]
    assert kinds == [AddToDatabase, RemoveBuildArtifact, UpdateCostModel]


# --- AddToDatabase ------------------------------------------------------------------------------


def test_what_a_record_says() -> None:
    seen, model = Seen(), Listening()
    database = tune(AddToDatabase(), seen, cost_model=model)
    records = database.get_all_tuning_records()
    candidates = [each for _, _, batch, _, _ in seen.rounds for each in batch]
    results = [each for *_, batch in seen.rounds for each in batch]
    for number, (record, each, result) in enumerate(zip(records, candidates, results, strict=True)):
        assert record.run_secs == result.run_secs
        assert str(record.trace) == str(each.sch.trace)
        assert record.target is not None
        assert record.target.num_cores == 2
        assert record.args_info == each.args_info
        extra = dict(record.extra)
        assert extra.pop("elapsed") >= 0
        assert extra == {
            CANDIDATE_HASH: candidate_hash(each),
            "protocol": "fake",
            "seed": records[0].extra["seed"],
            "round": number // 4,
            "run": 1,
            "task": "main",
            "trial": number,
            "prediction": float(number % 4),
            "built": True,
            "checked": True,
            "stopped_early": False,
        }


def test_failures_are_records_too() -> None:
    database = tune(AddToDatabase(), runner=FakeRunner(failing(FailureKind.CRASH)))
    failed = [r for r in database.get_all_tuning_records() if r.failure is not None]
    assert 0 < len(failed) < 8
    for record in failed:
        assert record.run_secs == (FAILED_RUN_SECS,)
        assert (record.failure, record.error_msg) == (FailureKind.CRASH, "fake crash")
        assert not record.is_valid


def test_the_history_has_every_trial() -> None:
    database = tune(AddToDatabase())
    trials = database.history.trials()
    assert [(t.run, t.task, t.number, t.round) for t in trials] == [
        (1, "main", number, number // 4) for number in range(8)
    ]


def test_without_it_nothing_is_kept() -> None:
    database = tune(Seen())
    assert len(database) == 0
    again = Seen()
    tune(again, database=database)
    assert len(again.rounds) == 2


def test_without_a_database_there_is_nothing_to_do() -> None:
    AddToDatabase().apply(RoundRobin(), 0, [], [], [])


# --- RemoveBuildArtifact ------------------------------------------------------------------------


def test_folders_of_artefacts_are_removed(tmp_path: Path) -> None:
    paths = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        paths.append(tmp_path / name / "kernel.o")
        paths[-1].write_text("code")
    other = tmp_path / "other"
    other.mkdir()
    built = [
        *(BuilderResult(str(path)) for path in paths),
        BuilderResult(None, "failed"),
        BuilderResult("fake:123"),
        BuilderResult(str(tmp_path / "gone" / "kernel.o")),
    ]
    RemoveBuildArtifact().apply(RoundRobin(), 0, [], built, [])
    assert list(tmp_path.iterdir()) == [other]


# --- UpdateCostModel ----------------------------------------------------------------------------


def test_the_model_learns_from_every_round() -> None:
    model = Listening()
    tune(UpdateCostModel(), cost_model=model)
    assert [len(candidates) for candidates, _ in model.told] == [4, 4]


def test_what_did_not_compile_teaches_nothing() -> None:
    model = Listening()
    builder = FakeBuilder(failing(FailureKind.BUILD_ERROR))
    tune(UpdateCostModel(), cost_model=model, builder=builder)
    assert 0 < sum(len(candidates) for candidates, _ in model.told) < 8
    assert all(result.run_secs for _, results in model.told for result in results)


def test_what_crashed_does() -> None:
    model = Listening()
    tune(UpdateCostModel(), cost_model=model, runner=FakeRunner(failing(FailureKind.CRASH)))
    results = [result for _, results in model.told for result in results]
    assert len(results) == 8
    assert any(result.failure is FailureKind.CRASH for result in results)


def test_a_model_that_fails_is_no_harm_if_the_run_keeps_going() -> None:
    class Broken(Listening):
        def update(self, *args: Any) -> None:
            raise RuntimeError("not today")

        def predict(self, *args: Any) -> npt.NDArray[np.float64]:
            raise RuntimeError("nor this")

    database = tune(*default_callbacks(), cost_model=Broken(), keep_going=True)
    assert len(database) == 8
    assert all("prediction" not in r.extra for r in database.get_all_tuning_records())
