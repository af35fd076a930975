"""Building and running a round: order, what is known, what fails, what is told to the runner."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import pytest

from tilewright.database import MemoryDatabase
from tilewright.errors import MemberError, TuneError
from tilewright.ir import structural_hash
from tilewright.measure import Builder, Runner
from tilewright.records import (
    BuilderInput,
    BuilderResult,
    FailureKind,
    MeasureCandidate,
    RunnerFuture,
    RunnerInput,
    RunnerResult,
    TuningRecord,
    normalize_mod,
)
from tilewright.schedule import Schedule
from tilewright.testing.fake_measuring import (
    EagerFakeBuilder,
    FakeBuilder,
    FakeRunner,
    seconds_of_hash,
)
from tilewright.testing.small_search import matmul, nothing
from tilewright.tune.context import TuneContext
from tilewright.tune.measuring import KNOWN, Measurer, RoundResults
from tilewright.tune.profiler import Profiler
from tilewright.tune.task import TaskRecord

MODULE = normalize_mod(matmul)
LOGGER = logging.getLogger("tilewright.tune")
REFERENCE = structural_hash(MODULE)


def candidate(factor: int) -> MeasureCandidate:
    sch = Schedule(MODULE)
    sch.split(sch.get_loops(sch.get_block("matmul"))[0], [None, factor])
    return MeasureCandidate(sch, (), structural_hash(sch.mod))


CANDIDATES = [candidate(factor) for factor in (1, 2, 4, 8, 16)]
HASHES = [c.shash for c in CANDIDATES]


def a_task() -> TaskRecord:
    return TaskRecord(TuneContext(matmul, target="llvm -num-cores=2", space_generator=nothing))


def measure(
    builder: Builder, runner: Runner, task: TaskRecord | None = None, **more: Any
) -> tuple[RoundResults, list[tuple[str, int]]]:
    told: list[tuple[str, int]] = []
    measurer = Measurer(builder, runner, LOGGER, more.pop("check", True))
    measured = measurer.measure(
        task or a_task(), CANDIDATES, lambda phase, count: told.append((phase, count)), **more
    )
    return measured, told


def test_one_result_for_each_candidate_in_order() -> None:
    measured, told = measure(FakeBuilder(), FakeRunner())
    secs = [result.run_secs for result in measured.results]
    assert secs == [(seconds_of_hash(shash or 0),) for shash in HASHES]
    assert told == [("build", 5), ("run", 5)]
    assert measured.interrupt is None


def test_what_does_not_build_is_not_run() -> None:
    builder = FakeBuilder(lambda shash: FailureKind.TIMEOUT if shash == HASHES[1] else None)
    runner = FakeRunner()
    measured, told = measure(builder, runner)
    failed = measured.results[1]
    assert failed.run_secs is None
    assert failed.failure is FailureKind.TIMEOUT
    assert failed.error_msg == "fake timeout of the builder"
    assert runner.ran == [HASHES[n] for n in (0, 2, 3, 4)]
    assert told == [("build", 5), ("run", 4)]


def test_a_failure_without_a_kind_is_one_of_building() -> None:
    class Terse(FakeBuilder):
        def build(self, build_inputs: Sequence[BuilderInput]) -> list[BuilderResult]:
            return [BuilderResult(None, "no") for _ in build_inputs]

    measured, _ = measure(Terse(), FakeRunner())
    assert {result.failure for result in measured.results} == {FailureKind.BUILD_ERROR}


def test_what_is_known_is_neither_built_nor_run() -> None:
    task = a_task()
    task.measured.add(CANDIDATES[2], RunnerResult((1.0,)))
    builder, runner = FakeBuilder(), FakeRunner()
    measured, told = measure(builder, runner, task)
    assert measured.results[2].run_secs == (1.0,)
    assert measured.built[2] is KNOWN
    assert HASHES[2] not in runner.ran
    assert task.round.reused == {2}
    assert told == [("build", 4), ("run", 4)]


def test_if_all_are_known_nothing_happens() -> None:
    task = a_task()
    for each in CANDIDATES:
        task.measured.add(each, RunnerResult((1.0,)))
    builder, runner = FakeBuilder(), FakeRunner()
    measured, told = measure(builder, runner, task)
    assert (builder.built, runner.ran, told) == ([], [], [])
    assert len(measured.results) == 5


# --- what a runner is told ----------------------------------------------------------------------


def test_the_untransformed_program_is_built_once() -> None:
    builder, runner, task = FakeBuilder(), FakeRunner(), a_task()
    measurer = Measurer(builder, runner, LOGGER)
    for _ in range(2):
        measured = measurer.measure(task, CANDIDATES, lambda phase, count: None)
        assert all(result.checked for result in measured.results)
    assert builder.built.count(REFERENCE) == 1
    assert {each.reference_path for each in runner.inputs} == {f"fake:{REFERENCE:x}"}


def test_without_checks_there_is_no_reference() -> None:
    builder, runner = FakeBuilder(), FakeRunner()
    measure(builder, runner, check=False)
    assert REFERENCE not in builder.built
    assert {each.reference_path for each in runner.inputs} == {None}


def test_a_reference_that_cannot_be_built(caplog: pytest.LogCaptureFixture) -> None:
    builder = FakeBuilder(lambda shash: FailureKind.CRASH if shash == REFERENCE else None)
    measured, _ = measure(builder, FakeRunner())
    assert all(result.run_secs for result in measured.results)
    assert (
        "candidates of main are not checked, because the untransformed program cannot be built: "
        "fake crash of the builder"
    ) in caplog.text


def test_hints_for_the_runner() -> None:
    task, runner = a_task(), FakeRunner()
    task.counts.latency_ms = [2.0, 0.5]
    measure(FakeBuilder(), runner, task)
    first = runner.inputs[0]
    assert first.best_secs == 0.5e-3
    assert first.device_type == "llvm"
    assert first.candidate is CANDIDATES[0]
    # 65536 operations on two cores: far below a microsecond, and more than nothing.
    assert first.min_secs is not None
    assert 1e-10 < first.min_secs < 1e-7


def test_the_runner_hears_of_the_best_of_earlier_runs() -> None:
    class Listening(FakeRunner):
        def notify_best(self, reference_path: str, secs: float) -> None:
            self.heard = (reference_path, secs)

    task, runner = a_task(), Listening()
    database = MemoryDatabase()
    workload = database.commit_workload(MODULE)
    other = candidate(32)
    assert other.sch.trace is not None
    record = TuningRecord(other.sch.trace, workload, (3e-5,), task.ctx.target)
    task.measured.add_record(record)
    measure(FakeBuilder(), runner, task)
    assert runner.heard == (f"fake:{REFERENCE:x}", 3e-5)


def test_steps_of_the_runner_are_profiled() -> None:
    class Detailed(FakeRunner):
        def _run(self, runner_input: RunnerInput) -> RunnerResult:
            return RunnerResult((1.0,), step_secs={"load": 0.5})

    with Profiler() as profiler:
        measure(FakeBuilder(), Detailed())
    assert profiler.get()["Detailed/load"] == 2.5
    assert {"SendToBuilder", "SendToRunner", "JoinRunnerFutures"} <= set(profiler.get())


# --- runners that work on after they returned ---------------------------------------------------


class Later(Runner):
    """Gives futures that are not done when it returns."""

    def __init__(self) -> None:
        self.calls: list[int] = []

    def run(self, runner_inputs: Sequence[RunnerInput]) -> list[RunnerFuture]:
        self.calls.append(len(runner_inputs))
        return [_Future(each) for each in runner_inputs]


class _Future:
    def __init__(self, runner_input: RunnerInput) -> None:
        self._input = runner_input

    def done(self) -> bool:
        return False

    def result(self) -> RunnerResult:
        shash = int(self._input.artifact_path.removeprefix("fake:"), 16)
        return RunnerResult((seconds_of_hash(shash),))


def test_a_runner_that_works_on_gets_everything_at_once() -> None:
    runner = Later()
    measured, _ = measure(FakeBuilder(), runner)
    assert runner.calls == [1, 4]
    secs = [result.run_secs for result in measured.results]
    assert secs == [(seconds_of_hash(shash or 0),) for shash in HASHES]


# --- time and interrupts ------------------------------------------------------------------------


def test_when_time_is_up_the_first_results_remain() -> None:
    runner = FakeRunner()
    measured, _ = measure(FakeBuilder(), runner, has_time=lambda: len(runner.ran) < 3)
    assert len(measured.results) == len(measured.built) == 3


def test_one_candidate_is_always_run() -> None:
    measured, _ = measure(FakeBuilder(), FakeRunner(), has_time=lambda: False)
    assert len(measured.results) == 1


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_an_interrupt_keeps_the_first_results(error: type[BaseException]) -> None:
    def before() -> None:
        if len(runner.ran) == 2:
            raise error

    runner = FakeRunner(before=before)
    measured, _ = measure(FakeBuilder(), runner)
    assert len(measured.results) == len(measured.built) == 2
    assert isinstance(measured.interrupt, KeyboardInterrupt | MemberError)


def test_an_interrupt_of_the_builder_ends_the_round() -> None:
    def failure(shash: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        measure(FakeBuilder(failure), FakeRunner())


@pytest.mark.parametrize("secs", [0.0, -1e-6, float("nan"), float("inf")])
def test_times_that_are_none(secs: float) -> None:
    measured, _ = measure(FakeBuilder(), FakeRunner(seconds=lambda shash: secs))
    first = measured.results[0]
    assert first.run_secs is None
    assert first.failure is FailureKind.IMPOSSIBLE_SPEED
    assert first.error_msg == f"a run cannot take {secs:g} seconds"


# --- members that break their contract ----------------------------------------------------------


def test_a_builder_that_loses_candidates() -> None:
    class Losing(FakeBuilder):
        def build(self, build_inputs: Sequence[BuilderInput]) -> list[BuilderResult]:
            return super().build(build_inputs)[:-1]

    text = "Losing gave 4 results for 5 candidates; it must give one for each, in order"
    with pytest.raises(TuneError, match=text):
        measure(Losing(), FakeRunner())


def test_a_runner_that_loses_candidates() -> None:
    class Losing(FakeRunner):
        def run(self, runner_inputs: Sequence[RunnerInput]) -> list[RunnerFuture]:
            return []

    measured, _ = measure(FakeBuilder(), Losing())
    assert str(measured.interrupt) == (
        "Losing gave 0 results for 1 candidate; it must give one for each, in order"
    )


# --- building while others are chosen ---


def test_what_was_begun_is_not_built_again() -> None:
    builder, runner, task = EagerFakeBuilder(), FakeRunner(), a_task()
    measurer = Measurer(builder, runner, LOGGER)
    for chosen in CANDIDATES[1:4]:
        measurer.build_ahead(task, chosen)
    assert builder.started == HASHES[1:4]
    measured = measurer.measure(task, CANDIDATES[:3], lambda phase, count: None)
    # The fourth is not wanted after all, but nothing may be built while candidates run.
    assert {*builder.built} == {*HASHES[:4], REFERENCE}
    assert runner.ran == HASHES[:3]
    secs = [result.run_secs for result in measured.results]
    assert secs == [(seconds_of_hash(shash or 0),) for shash in HASHES[:3]]


def test_what_is_known_is_not_begun() -> None:
    builder, task = EagerFakeBuilder(), a_task()
    task.measured.add(CANDIDATES[0], RunnerResult((1.0,)))
    Measurer(builder, FakeRunner(), LOGGER).build_ahead(task, CANDIDATES[0])
    assert builder.started == []


def test_builders_that_do_not_build_ahead_get_all_at_once() -> None:
    builder, task = FakeBuilder(), a_task()
    measurer = Measurer(builder, FakeRunner(), LOGGER)
    measurer.build_ahead(task, CANDIDATES[0])
    assert builder.built == []


def test_what_fails_to_begin_fails_with_its_round() -> None:
    class Refusing(FakeBuilder):
        def begin(self, build_input: BuilderInput) -> None:
            raise ValueError("no")

    builder, task = Refusing(), a_task()
    measurer = Measurer(builder, FakeRunner(), LOGGER, check=False)
    measurer.build_ahead(task, CANDIDATES[0])
    measured = measurer.measure(task, CANDIDATES[:1], lambda phase, count: None)
    assert measured.results[0].run_secs
    assert builder.built == HASHES[:1]
