"""Which task gets the next round, and when it is enough."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import pytest

from tilewright.database import MemoryDatabase
from tilewright.errors import RegistryError, TuneError
from tilewright.ir import IRModule
from tilewright.records import FailureKind, MeasureCandidate, RunnerResult
from tilewright.schedule import Schedule
from tilewright.schedule.trace.random import RandomEngine
from tilewright.search.base import DatabaseLike, SearchStrategy
from tilewright.testing.fake_measuring import FakeBuilder, FakeRunner
from tilewright.testing.small_search import matmul, tile_all, tile_two
from tilewright.tune.api import tune_tir
from tilewright.tune.callbacks import MeasureCallback, default_callbacks
from tilewright.tune.context import TuneContext
from tilewright.tune.events import (
    Event,
    PhaseChanged,
    RoundMeasured,
    TaskFinished,
    TuningFinished,
    TuningStarted,
)
from tilewright.tune.policy import (
    GradientBased,
    ModelGradient,
    RoundRobin,
    TaskScheduler,
    task_schedulers,
)
from tilewright.tune.task import FAILED_MS, TaskRecord


def context(
    name: str = "main", space: Any = tile_all, strategy: Any = "replay-trace"
) -> TuneContext:
    return TuneContext(
        matmul,
        target="llvm -num-cores=2",
        space_generator=space,
        search_strategy=strategy,
        task_name=name,
        rand_state=ord(name[0]),
        num_threads=1,
    )


class Session:
    """A scheduler at work with fakes; `picks` are the tasks of its rounds."""

    def __init__(self, scheduler: TaskScheduler, runner: FakeRunner | None = None) -> None:
        self.scheduler = scheduler
        self.events: list[Event] = []
        scheduler.observers.append(self.events.append)
        self.database = MemoryDatabase()
        self.runner = runner or FakeRunner()
        self.builder = FakeBuilder()

    def tune(
        self,
        *contexts: TuneContext,
        weights: Sequence[float] = (),
        callbacks: Sequence[MeasureCallback] | None = None,
        **limits: Any,
    ) -> Session:
        chosen: dict[str, Any] = {
            "max_trials_global": 24,
            "max_trials_per_task": 24,
            "num_trials_per_iter": 4,
            **limits,
        }
        self.scheduler.tune(
            contexts,
            weights or [1.0] * len(contexts),
            **chosen,
            builder=self.builder,
            runner=self.runner,
            measure_callbacks=default_callbacks() if callbacks is None else callbacks,
            database=self.database,
        )
        return self

    @property
    def picks(self) -> list[int]:
        return [event.task_id for event in self.events if isinstance(event, RoundMeasured)]

    def ends(self) -> list[tuple[int, str]]:
        found = [event for event in self.events if isinstance(event, TaskFinished)]
        return [(event.task_id, event.reason) for event in found]


# --- round robin --------------------------------------------------------------------------------


def test_round_robin_takes_turns() -> None:
    session = Session(RoundRobin()).tune(context("a"), context("b"), context("c"))
    assert session.picks == [0, 1, 2, 0, 1, 2]


def test_round_robin_leaves_out_what_is_finished() -> None:
    session = Session(RoundRobin()).tune(
        context("a", tile_two), context("b"), max_trials_per_task=8, max_trials_global=100
    )
    assert session.picks == [0, 1, 0, 1]
    assert session.scheduler.next_task_id() == -1
    assert session.ends() == [(0, "all its trials are done"), (1, "all its trials are done")]


# --- gradients ----------------------------------------------------------------------------------


def gradient_of(*histories: Sequence[float], weights: Sequence[float] = ()) -> GradientBased:
    scheduler = GradientBased(seed=7)
    for number, history in enumerate(histories):
        record = TaskRecord(context(), weights[number] if weights else 1.0)
        record.counts.best_history, record.counts.rounds = list(history), len(history)
        record.counts.latency_ms = list(history)
        scheduler.tasks.append(record)
    return scheduler


def test_every_task_gets_a_first_round() -> None:
    session = Session(GradientBased(seed=7)).tune(context("a"), context("b"), context("c"))
    assert session.picks[:3] == [0, 1, 2]


def test_the_slowest_task_gains_most() -> None:
    assert gradient_of([1.0], [5.0], [3.0]).next_task_id() == 1


def test_weights_count() -> None:
    assert gradient_of([1.0], [5.0], weights=[6.0, 1.0]).next_task_id() == 0


def test_rounds_without_success_make_a_task_less_promising() -> None:
    # (1 - alpha) * best / rounds: 0.8 * 5 / 6 < 0.8 * 3 / 2
    assert gradient_of([5.0] * 6, [3.0, 3.0]).next_task_id() == 1


def test_recent_gains_count() -> None:
    """With a window of 3: alpha * (4 - 1) / 3 + (1 - alpha) * 1 / 4, against 0.8 * 1.5 / 4."""
    scheduler = gradient_of([4.0, 3.0, 2.0, 1.0], [1.5] * 4)
    assert [scheduler._gain(task) for task in scheduler.tasks] == pytest.approx([0.4, 0.3])
    assert scheduler.next_task_id() == 0
    scheduler.window_size = 4
    assert scheduler._gain(scheduler.tasks[0]) == pytest.approx(0.2)
    assert scheduler.next_task_id() == 1


def test_tasks_without_a_result_come_last() -> None:
    assert gradient_of([FAILED_MS], [0.001]).next_task_id() == 1


def test_of_equal_tasks_chance_decides() -> None:
    scheduler = gradient_of([2.0], [2.0], [2.0])
    engine = RandomEngine(7)
    expected = [engine.integer(0, 3) for _ in range(12)]
    assert [scheduler.next_task_id() for _ in range(12)] == expected
    assert len(set(expected)) == 3


def test_finished_tasks_get_nothing() -> None:
    scheduler = gradient_of([5.0], [1.0])
    scheduler.tasks[0].is_terminated = True
    assert scheduler.next_task_id() == 1
    scheduler.tasks[1].is_terminated = True
    assert scheduler.next_task_id() == -1


def test_settings_of_gradients() -> None:
    text = r"alpha lies between 0 and 1 and window_size is at least 1, got {}"
    with pytest.raises(TuneError, match=text.format(r"1\.5 and 3")):
        GradientBased(alpha=1.5)
    with pytest.raises(TuneError, match=text.format(r"0\.2 and 0")):
        GradientBased(window_size=0)


def test_schedulers_by_name() -> None:
    assert isinstance(task_schedulers.create("gradient", alpha=0.5), GradientBased)
    assert isinstance(task_schedulers.create("round-robin"), RoundRobin)
    with pytest.raises(RegistryError, match=r"'fifo'; known: gradient, model, round-robin"):
        task_schedulers.create("fifo")


# --- whole models -------------------------------------------------------------------------------


def model_of(*histories: Sequence[float], weights: Sequence[float] = ()) -> ModelGradient:
    given = gradient_of(*histories, weights=weights).tasks
    scheduler = ModelGradient(clock=lambda: 0.0)
    scheduler.tasks = given
    scheduler._loop = cast(Any, Ending(scheduler))
    return scheduler


class Ending:
    """Takes note of tasks that end, as the loop does."""

    def __init__(self, scheduler: ModelGradient) -> None:
        self.scheduler = scheduler

    def end_task(self, task_id: int, reason: str) -> None:
        self.scheduler.tasks[task_id].is_terminated = True
        self.scheduler.tasks[task_id].notes.append(reason)


def test_what_is_calculated_is_measured_of_all_tasks_first() -> None:
    assert model_of([5.0], [], [1.0], []).next_task_id() == 1
    assert model_of([], [], [1.0], [], weights=[1.0, 2.0, 9.0, 2.0]).next_task_id() == 1


def test_time_goes_where_the_model_gains_most() -> None:
    assert model_of([1.0], [5.0], weights=[6.0, 1.0]).next_task_id() == 0
    assert model_of([5.0, 5.0, 5.0], [3.0, 2.0, 1.0]).next_task_id() == 1
    # 0.3 * 4 / 8 after three rounds in vain, against 0.3 * 1 of a task that was never searched
    assert model_of([4.0, 4.0, 4.0, 4.0], [1.0]).next_task_id() == 1


def test_a_task_that_no_longer_pays_ends() -> None:
    scheduler = model_of([100.0] * 12, [50.0])
    assert scheduler.next_task_id() == 1
    (reason,) = scheduler.tasks[0].notes
    assert reason == "its next round promises less than 0.1 % of the model's latency"
    assert not scheduler.tasks[1].is_terminated


def test_small_tasks_are_not_searched_at_all() -> None:
    scheduler = model_of([100.0], [0.2])
    assert scheduler.next_task_id() == 0
    assert scheduler.tasks[1].is_terminated


def test_when_nothing_pays_tuning_ends() -> None:
    scheduler = model_of([10.0] * 12, [20.0] * 14)
    assert scheduler.next_task_id() == -1
    assert all(task.is_terminated for task in scheduler.tasks)


def test_a_task_of_which_nothing_works_gets_some_attempts() -> None:
    scheduler = model_of([FAILED_MS] * 2, [1.0])
    assert scheduler.next_task_id() == 0
    assert model_of([FAILED_MS] * 3, [1.0]).next_task_id() == 1


def test_cheap_rounds_come_before_expensive_ones() -> None:
    now = [0.0]
    scheduler = model_of([8.0, 8.0], [8.0, 8.0])
    scheduler.clock = lambda: now[0]
    assert scheduler.next_task_id() == 0
    now[0] = 10.0  # the round took that long, and gained a little
    scheduler._secs[1] = 1.0
    assert scheduler.next_task_id() == 1


def test_of_rivals_the_model_takes_the_fastest() -> None:
    scheduler = model_of([10.0], [8.0], [4.0], weights=[1.0, 1.0, 2.0])
    assert scheduler.latency_ms == 26.0
    direct, tiles, _ = scheduler.tasks
    direct.computes = tiles.computes = "conv"
    assert scheduler.latency_ms == 16.0
    gains = [scheduler.expected_gain(task) for task in scheduler.tasks]
    # 0.3 of each; the first has to catch up by 2 before the model gains
    assert gains == pytest.approx([3.0 - 2.0, 2.4, 2.4])


def test_a_rival_that_cannot_catch_up_ends() -> None:
    scheduler = model_of([10.0], [4.0])
    direct, tiles = scheduler.tasks
    direct.computes = tiles.computes = "conv"
    assert scheduler.next_task_id() == 1
    assert direct.is_terminated


def test_what_is_known_of_the_model_takes_the_place_of_first_measurements() -> None:
    scheduler = model_of([], [5.0], [], [])
    for task, secs in zip(scheduler.tasks, (1e-3, None, 50e-3, 1e-6), strict=True):
        task.expected_secs = secs
    assert scheduler.latency_ms == pytest.approx(1 + 5 + 50 + 1e-3)
    assert scheduler.next_task_id() == 2
    (reason,) = scheduler.tasks[3].notes  # nothing is measured of it
    assert reason == "its next round promises less than 0.1 % of the model's latency"
    scheduler.tasks[2].counts.latency_ms = [20.0]
    assert scheduler.latency_ms == pytest.approx(1 + 5 + 20 + 1e-3)


def test_a_task_of_a_model_starts_when_it_is_its_turn() -> None:
    """The second, which nobody would notice, is not started at all."""
    module = IRModule({"a": matmul, "b": matmul.with_attr("x", 1)})
    events: list[Event] = []
    database = tune_tir(
        module, "llvm -num-cores=2", None, 3, database=MemoryDatabase(), builder=FakeBuilder(),
        runner=FakeRunner(), space=tile_all, strategy="replay-trace", cost_model=None,
        console=False, observers=[events.append], task_scheduler="model",
        expected_secs={"a": 1e-3, "b": 1e-9},
    )  # fmt: skip
    (started,) = [event for event in events if isinstance(event, TuningStarted)]
    a, b = started.tasks
    assert (a.trials, b.trials) == (3, 0)
    assert (len(a.search.sketches), len(b.search.sketches)) == (1, 0)
    assert len(database) == 3


def test_settings_of_models() -> None:
    with pytest.raises(TuneError, match=r"min_gain lies between 0 and 1 .* got 2 and 3"):
        ModelGradient(min_gain=2)


def test_weights_of_functions_reach_the_scheduler() -> None:
    seen: list[float] = []
    computed: list[str] = []

    def watch(event: Event) -> None:
        if isinstance(event, TuningStarted):
            seen.extend(task.task_weight for task in event.tasks)
            computed.extend(task.computes for task in event.tasks)

    module = IRModule({"a": matmul, "b": matmul.with_attr("x", 1), "c": matmul.with_attr("x", 2)})
    tune_tir(
        module, "llvm -num-cores=2", None, 3, database=MemoryDatabase(), builder=FakeBuilder(),
        runner=FakeRunner(), space=tile_all, strategy="replay-trace", cost_model=None,
        console=False, observers=[watch], weights={"a": 3.0, "c": 5.0}, task_scheduler="model",
        rivals={"a": "x", "b": "x"},
    )  # fmt: skip
    assert seen == [3.0, 1.0, 5.0]
    assert computed == ["x", "x", ""]


# --- limits -------------------------------------------------------------------------------------


def test_the_total_number_of_trials_is_never_exceeded() -> None:
    session = Session(RoundRobin()).tune(context("a"), context("b"), max_trials_global=10)
    assert [task.trials for task in session.scheduler.tasks] == [6, 4]
    assert len(session.database) == 10


def test_the_number_of_trials_of_a_task() -> None:
    session = Session(RoundRobin()).tune(
        context("a"), context("b"), max_trials_per_task=6, max_trials_global=100
    )
    assert [task.trials for task in session.scheduler.tasks] == [6, 6]


def test_a_space_that_is_used_up() -> None:
    session = Session(RoundRobin()).tune(context("a", tile_two), max_trials_global=100,
                                         max_trials_per_task=100)  # fmt: skip
    assert session.scheduler.tasks[0].trials == 25
    assert session.ends() == [(0, "the search has no more candidates")]


def test_a_plateau() -> None:
    runner = FakeRunner(seconds=lambda shash: 1e-5)  # nothing is better than the first
    session = Session(RoundRobin(), runner).tune(context("a"), plateau_trials=9)
    assert session.scheduler.tasks[0].trials == 12
    assert session.ends() == [(0, "no gain in the last 9 trials")]


def test_small_gains_are_noise() -> None:
    record = TaskRecord(context())
    record.counts.latency_ms = [2.0, 1.0, 0.995, 0.992, 0.991]
    assert record.counts.since_gain == 3
    record.counts.latency_ms.append(0.98)
    assert record.counts.since_gain == 0


class Clock:
    """Time that passes with each candidate, and nothing else."""

    def __init__(self, step: float) -> None:
        self.now, self.step = 0.0, step

    def __call__(self) -> float:
        return self.now

    def tick(self) -> None:
        self.now += self.step


def test_the_time_ends_a_round_in_the_middle() -> None:
    """Four candidates take a moment each, those after them 3 s; 0.4 s are kept for the final."""
    clock = Clock(step=0.1)
    runner = FakeRunner(before=clock.tick)

    def slow_down(event: Event) -> None:
        clock.step = 3.0 if isinstance(event, RoundMeasured) else clock.step

    scheduler = RoundRobin(clock=clock, observers=[slow_down])
    session = Session(scheduler, runner).tune(context("a"), budget_secs=6.9)
    assert scheduler.tasks[0].trials == 7
    assert len(session.database) == 7
    last = session.events[-1]
    assert isinstance(last, TuningFinished)
    assert (last.reason, round(last.elapsed_secs, 6)) == ("budget", 9.4)


def test_rounds_get_smaller_when_time_runs_short() -> None:
    clock = Clock(step=1.0)
    session = Session(RoundRobin(clock=clock), FakeRunner(before=clock.tick))
    session.tune(context("a"), budget_secs=6.9)
    sizes = [
        event.candidates
        for event in session.events
        if isinstance(event, PhaseChanged) and event.phase == "build"
    ]
    assert sizes == [4, 2]


def test_there_is_always_time_for_one_candidate() -> None:
    clock = Clock(step=5.0)
    session = Session(RoundRobin(clock=clock), FakeRunner(before=clock.tick))
    session.tune(context("a"), budget_secs=0.01)
    assert len(session.database) == 1


# --- events -------------------------------------------------------------------------------------


def test_events_tell_the_story() -> None:
    session = Session(RoundRobin()).tune(context("a"), max_trials_global=5)
    started, *middle, finished = session.events
    assert isinstance(started, TuningStarted)
    assert started.tasks == session.scheduler.tasks
    assert (started.max_trials, started.budget_secs) == (5, None)
    assert len(started.tasks[0].search.sketches) == 1
    story = [
        (event.phase, event.candidates) if isinstance(event, PhaseChanged) else type(event).__name__
        for event in middle
    ]
    one_round = [("search", 0), ("build", 4), ("run", 4), "RoundMeasured"]
    last_round = [("search", 0), ("build", 1), ("run", 1), "RoundMeasured"]
    assert story == [*one_round, *last_round, ("final", 0)]
    assert isinstance(finished, TuningFinished)
    assert finished.reason == "done"


def test_an_observer_that_fails_is_no_harm_if_the_run_keeps_going(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def failing(event: Event) -> None:
        raise RuntimeError("no screen")

    scheduler = RoundRobin(observers=[failing])
    Session(scheduler).tune(context("a"), max_trials_global=4, keep_going=True)
    assert scheduler.tasks[0].trials == 4
    assert caplog.text.count("an observer of the tuning failed: RuntimeError: no screen") == 1


# --- searches that fail -------------------------------------------------------------------------


class Failing(SearchStrategy):
    """Fails in the method that it is told to fail in."""

    def __init__(self, where: str) -> None:
        self.where = where

    def _step(self, name: str) -> None:
        if self.where == name:
            raise RuntimeError(f"{name} failed")

    def clone(self) -> Failing:
        return Failing(self.where)

    def pre_tuning(
        self,
        max_trials: int,
        num_trials_per_iter: int,
        design_spaces: Sequence[Schedule],
        database: DatabaseLike | None = None,
        cost_model: Any = None,
    ) -> None:
        self._step("pre_tuning")
        self.spaces = design_spaces

    def post_tuning(self) -> None:
        """Nothing to do."""

    def generate_measure_candidates(self) -> list[MeasureCandidate] | None:
        self._step("generate")
        if self.where == "empty":
            return []
        sch = Schedule(self.spaces[0].mod)
        (block,) = (sch.get_block("matmul"),)
        sch.parallel(sch.get_loops(block)[0])
        return [MeasureCandidate(sch, ())]

    def notify_runner_results(
        self, measure_candidates: Sequence[MeasureCandidate], results: Sequence[RunnerResult]
    ) -> None:
        self._step("notify")


@pytest.mark.parametrize("where", ["pre_tuning", "generate", "notify"])
def test_in_a_run_that_keeps_going_a_task_that_fails_does_not_end_the_others(where: str) -> None:
    session = Session(RoundRobin()).tune(
        context("bad", strategy=Failing(where)),
        context("good"),
        max_trials_global=9,
        keep_going=True,
    )
    bad, good = session.scheduler.tasks
    assert (bad.trials, good.trials) == ((1, 8) if where == "notify" else (0, 9))
    assert session.ends() == [(0, f"its search failed: RuntimeError: {where} failed")]


def test_if_all_tasks_fail_the_error_is_raised() -> None:
    session = Session(RoundRobin())
    with pytest.raises(RuntimeError, match="generate failed"):
        session.tune(context("bad", strategy=Failing("generate")), keep_going=True)
    last = session.events[-1]
    assert isinstance(last, TuningFinished)
    assert last.reason == "failed"
    assert [run.status for run in session.database.history.runs()] == ["failed"]


def test_a_strategy_that_proposes_nothing_for_ever() -> None:
    session = Session(RoundRobin()).tune(context("a", strategy=Failing("empty")))
    assert session.ends() == [(0, "the search has no more candidates")]


def test_candidates_that_fail_are_counted() -> None:
    kinds = list(FailureKind)
    session = Session(RoundRobin(), FakeRunner(lambda shash: (*kinds, None)[shash % 8]))
    session.builder.failure = lambda shash: None if shash % 3 else FailureKind.BUILD_ERROR
    session.tune(context("a"), max_trials_global=24)
    (task,) = session.scheduler.tasks
    records = session.database.get_all_tuning_records()
    assert task.trials == len(records) == 24
    failed = [record for record in records if record.failure is not None]
    assert sum(task.counts.failures.values()) == len(failed) > 0
    assert task.build_error_count + task.run_error_count == len(failed)
    assert task.build_error_count > 0
    assert task.run_error_count > 0
    assert all(record.error_msg for record in failed)
