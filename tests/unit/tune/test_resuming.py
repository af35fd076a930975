"""The same call again goes on where it stopped, and measures nothing twice."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tilewright.cost_model import GBDTModel
from tilewright.cost_model.prior import AnalyticPrior
from tilewright.database import Database, MemoryDatabase, SQLiteDatabase
from tilewright.records import (
    CANDIDATE_HASH,
    MeasureCandidate,
    RunnerResult,
    TuningRecord,
    Workload,
)
from tilewright.schedule import Schedule
from tilewright.search import EvolutionarySearch
from tilewright.search.base import SearchStrategy
from tilewright.space.generators import ScheduleFn
from tilewright.space.mutators import MutateTileSize
from tilewright.testing.fake_measuring import FakeBuilder, FakeRunner
from tilewright.testing.small_search import matmul, tile_all, tile_two
from tilewright.tune import TuneContext, tune_tir
from tilewright.tune.events import Event, PhaseChanged, RoundMeasured, TaskFinished, TuningStarted
from tilewright.tune.resume.saved_search import fingerprint_of


def space() -> ScheduleFn:
    """Thousands of programs that are made quickly."""
    return ScheduleFn(tile_all, [], [], {MutateTileSize(): 1.0})


def evolution(population: int = 10) -> EvolutionarySearch:
    return EvolutionarySearch.frugal(
        population_size=population, genetic_num_iters=1, init_min_unmeasured=2
    )


def model() -> GBDTModel:
    """Learns from the second round on."""
    return GBDTModel(prior=AnalyticPrior(), num_warmup_samples=6)


class Call:
    """One call of the tuner with fakes."""

    def __init__(
        self, database: Database, trials: int | None = 16, seed: int | None = 5, **options: Any
    ) -> None:
        self.database = database
        self.builder, self.runner = FakeBuilder(), options.pop("runner", FakeRunner())
        self.events: list[Event] = []
        self.raised: BaseException | None = None
        options = {"space": space(), "strategy": evolution(), "cost_model": model(), **options}
        try:
            tune_tir(
                matmul,
                "llvm -num-cores=2",
                max_trials_global=trials,
                num_trials_per_iter=4,
                builder=self.builder,
                runner=self.runner,
                database=database,
                seed=seed,
                observers=[self.events.append],
                console=False,
                **options,
            )
        except KeyboardInterrupt as error:
            self.raised = error

    @property
    def measured(self) -> list[int]:
        return list(self.runner.ran)

    @property
    def phases(self) -> list[str]:
        return [event.phase for event in self.events if isinstance(event, PhaseChanged)]

    @property
    def ends(self) -> list[str]:
        return [event.reason for event in self.events if isinstance(event, TaskFinished)]


def hashes(database: Database) -> list[str]:
    return [str(record.extra[CANDIDATE_HASH]) for record in database.get_all_tuning_records()]


def trials_of(database: Database) -> list[int]:
    return [trial.number for trial in database.history.trials()]


@pytest.fixture
def database(tmp_path: Path) -> Database:
    return SQLiteDatabase(tmp_path / "a.db")


def interrupting(after: int) -> FakeRunner:
    """Ctrl-C when the candidate after so many is run."""

    def count() -> None:
        if len(runner.ran) == after:
            raise KeyboardInterrupt

    runner = FakeRunner(before=count)
    return runner


# --- everything is known ------------------------------------------------------------------------


def test_the_same_call_again_measures_nothing(database: Database) -> None:
    first = Call(database)
    again = Call(database)
    assert (len(first.measured), again.measured, again.builder.built) == (16, [], [])
    assert again.phases == []  # nothing was searched either
    assert again.ends == ["all 16 trials are known already, nothing is measured again"]
    assert len(database) == 16


def test_a_search_asks_for_the_best_records_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def get_top_k(database: MemoryDatabase, workload: Workload, top_k: int) -> list[TuningRecord]:
        asked.append(top_k)
        return real(database, workload, top_k)

    real = MemoryDatabase.get_top_k
    monkeypatch.setattr(MemoryDatabase, "get_top_k", get_top_k)
    Call(MemoryDatabase(), trials=24)  # six rounds, each with two of the best as parents
    assert asked[0] == 2
    assert asked.count(2) == 1


def test_a_database_in_memory_remembers_too() -> None:
    database = MemoryDatabase()
    Call(database, runner=interrupting(6))
    assert len(Call(database).measured) == 10
    assert hashes(database) == straight()
    assert Call(database).measured == []


def test_the_known_trials_are_told_at_the_start(database: Database) -> None:
    Call(database)
    again = Call(database)
    (started,) = [event for event in again.events if isinstance(event, TuningStarted)]
    (task,) = started.tasks
    assert (task.trials, task.counts.reused, task.counts.rounds) == (16, 16, 4)
    assert task.best_secs == min(record.mean_secs for record in database.get_all_tuning_records())


def test_it_is_said_in_the_log(tmp_path: Path) -> None:
    database = MemoryDatabase()
    for _ in range(2):
        Call(database, work_dir=tmp_path)
    log = (tmp_path / "logs" / "tilewright.tune.task_scheduler.log").read_text()
    assert "[INFO] Task #0 goes on from an earlier run: 16 trial(s) are known already" in log
    why = "all 16 trials are known already, nothing is measured again"
    assert f"[INFO] Task #0 has finished ({why}). Remaining task(s): 0" in log


def test_fewer_trials_than_are_known(database: Database) -> None:
    Call(database)
    again = Call(database, trials=8)
    assert again.measured == []
    assert again.ends == ["all 16 trials are known already, nothing is measured again"]


def test_a_space_that_was_used_up_is_known_to_be(database: Database) -> None:
    options: dict[str, Any] = {"space": tile_two, "strategy": "replay-trace", "trials": 100}
    first = Call(database, **options)
    again = Call(database, **options)
    assert (len(first.measured), again.measured, again.phases) == (25, [], [])
    assert again.ends == ["known already: the search has no more candidates"]


def test_a_plateau_that_was_reached_is_known(database: Database) -> None:
    def flat() -> FakeRunner:
        return FakeRunner(seconds=lambda shash: 1e-5)

    first = Call(database, plateau_trials=6, runner=flat())
    again = Call(database, plateau_trials=6, runner=flat())
    assert (len(first.measured), again.measured) == (8, [])
    assert again.ends == first.ends == ["no gain in the last 6 trials"]
    further = Call(database, runner=flat())
    assert len(further.measured) == 8


def test_a_seed_that_was_drawn_is_kept(database: Database) -> None:
    Call(database, seed=None)
    again = Call(database, seed=None)
    assert again.measured == []


# --- going on -----------------------------------------------------------------------------------


@functools.cache
def straight() -> list[str]:
    """The programs that a run of 16 trials measures that nobody interrupts."""
    database = MemoryDatabase()
    Call(database)
    return hashes(database)


def test_more_trials_go_on_from_the_first(database: Database) -> None:
    Call(database, 8)
    Call(database, 16)
    assert hashes(database) == straight()
    assert trials_of(database) == list(range(16))


def test_a_number_of_trials_in_the_middle_of_a_round(database: Database) -> None:
    first = Call(database, 6)
    again = Call(database, 16)
    assert len(database) == 16
    assert (len(first.measured), len(again.measured)) == (6, 10)
    assert trials_of(database) == list(range(16))


@pytest.mark.parametrize("after", [1, 4, 7, 15])
def test_ctrl_c_keeps_what_was_measured(database: Database, after: int) -> None:
    first = Call(database, runner=interrupting(after))
    assert isinstance(first.raised, KeyboardInterrupt)
    assert len(database) == after
    (run,) = database.history.runs()
    assert run.status == "interrupted"
    again = Call(database)
    assert set(first.measured) & set(again.measured) == set()
    assert hashes(database) == straight()
    (run,) = database.history.runs()
    assert run.status == "finished"
    assert trials_of(database) == list(range(16))


def test_ctrl_c_again_and_again(database: Database) -> None:
    for _ in range(6):
        Call(database, runner=interrupting(3))
    assert len(database) == 16
    assert hashes(database) == straight()


def test_ctrl_c_while_searching(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    Call(database, 8)
    with monkeypatch.context() as patch:

        def interrupted(*args: object) -> None:
            raise KeyboardInterrupt

        patch.setattr(EvolutionarySearch, "_propose", interrupted)
        assert Call(database).raised is not None
    assert len(database) == 8
    Call(database)
    assert hashes(database) == straight()


def test_the_time_is_up_in_the_middle_of_a_round(database: Database) -> None:
    """Each call measures one candidate: its time is up at once."""
    for _ in range(6):
        Call(database, budget_secs=1e-6)
    assert len(database) == 6
    Call(database)
    assert hashes(database) == straight()


def test_the_funnel_counts_every_draft_once(database: Database) -> None:
    whole = MemoryDatabase()
    Call(whole)
    for _ in range(6):
        Call(database, runner=interrupting(3))
    stages = ("proposed", "legal", "built", "ran", "correct")

    def totals(of: Database) -> list[int]:
        counts = of.history.funnel()
        return [sum(c.count for c in counts if c.stage == s and not c.reason) for s in stages]

    assert totals(database)[2:] == totals(whole)[2:] == [16, 16, 16]
    # What a search that was interrupted had proposed is proposed again, not counted twice.
    assert totals(database)[0] >= totals(whole)[0]


# --- other searches -----------------------------------------------------------------------------


def test_another_seed_measures_something_else(database: Database) -> None:
    first = Call(database, seed=5)
    other = Call(database, seed=6)
    assert len(other.measured) == 16
    assert set(first.measured) & set(other.measured) == set()


def test_another_space_is_another_search(database: Database) -> None:
    Call(database)
    other = Call(database, space=tile_two)
    assert len(other.measured) > 0


def test_another_strategy_is_another_search(database: Database) -> None:
    Call(database)
    other = Call(database, strategy="replay-trace")
    assert len(other.measured) == 16


def test_settings_tell_searches_apart() -> None:
    def setting(space: Any = tile_all, strategy: Any = "replay-trace") -> str:
        return fingerprint_of(
            TuneContext(matmul, target="llvm", space_generator=space, search_strategy=strategy)
        )

    assert setting() == setting()
    others = [
        setting(tile_two),
        setting("post-order-apply"),
        setting("tilewright"),
        setting(strategy="replay-func"),
        setting(strategy=EvolutionarySearch(population_size=10)),
        setting(strategy=EvolutionarySearch(population_size=11)),
    ]
    assert len({setting(), *others}) == 1 + len(others)


class Forgetful(SearchStrategy):
    """Cannot tell its state, and proposes the same two programs whenever it is asked."""

    def clone(self) -> Forgetful:
        return Forgetful()

    def pre_tuning(self, max_trials: int, *args: Any, **more: Any) -> None:
        self.left = max_trials

    def post_tuning(self) -> None:
        """Nothing to do."""

    def _initialize_with_tune_context(self, context: Any) -> None:
        self.context = context

    def generate_measure_candidates(self) -> list[MeasureCandidate] | None:
        made = []
        for loop in range(2):
            sch = Schedule(self.context.mod)
            sch.unroll(sch.get_loops(sch.get_block("matmul"))[loop])
            made.append(MeasureCandidate(sch, ()))
        return made

    def notify_runner_results(
        self, measure_candidates: Any, results: Sequence[RunnerResult]
    ) -> None:
        assert len(results) == 2


def test_what_a_strategy_proposes_again_is_not_measured_again() -> None:
    database = MemoryDatabase()
    call = Call(database, 8, space=tile_all, strategy=Forgetful(), cost_model=None)
    assert len(call.measured) == 2
    (started,) = [event for event in call.events if isinstance(event, TuningStarted)]
    assert (started.tasks[0].trials, started.tasks[0].counts.reused) == (8, 6)
    assert len(database) == 2
    rounds = [event.trials for event in call.events if isinstance(event, RoundMeasured)]
    assert rounds == [2, 2, 2, 2]


# --- what was saved is damaged ------------------------------------------------------------------


def damage(database: Database, change: Callable[[dict[str, Any]], object]) -> None:
    (workload,) = database.workloads()
    records = database.get_all_tuning_records()
    target, seed = records[0].target, records[0].extra["seed"]
    assert target is not None
    key = f"search/{workload.shash:x}/{target.fingerprint}/{seed}"
    state = database.load_state(key)
    assert isinstance(state, dict)
    change(state)
    database.save_state(key, state)


@pytest.mark.parametrize(
    "change",
    [
        lambda state: state.update(format=99),
        lambda state: state.pop("latency_ms"),
        lambda state: state.update(latency_ms="many"),
        lambda state: state.update(failures=3),
        lambda state: state["search"].update(version=99),
        lambda state: state["search"].pop("trials"),
    ],
    ids=["newer", "missing", "no list", "no counts", "newer search", "half a search"],
)
def test_a_damaged_state_does_no_harm(change: Callable[[dict[str, Any]], object]) -> None:
    database = MemoryDatabase()
    Call(database, 8)
    damage(database, change)
    again = Call(database, 16)
    assert again.raised is None
    assert len(set(hashes(database))) == len(database) >= 16
