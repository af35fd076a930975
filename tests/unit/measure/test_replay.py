"""`runner="replay"`: recorded measurements instead of new ones."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tilewright.errors import TuneError
from tilewright.ir import as_module, structural_hash
from tilewright.measure import Builder, ReplayBuilder, ReplayRunner, Runner
from tilewright.records import (
    BuilderInput,
    FailureKind,
    MeasureCandidate,
    RunnerInput,
    RunnerResult,
    TuningRecord,
    Workload,
    args_info_of,
)
from tilewright.schedule import Schedule
from tilewright.target import Target
from tilewright.testing import faults
from tilewright.testing.conformance import builder as builder_suite, runner as runner_suite

MOD = as_module(faults.double)
WORKLOAD = Workload(MOD, structural_hash(MOD))


def split_by(factor: int) -> Schedule:
    sch = Schedule(MOD)
    (loop,) = sch.get_loops(sch.get_block("double"))
    sch.split(loop, [None, factor])
    return sch


def record(factor: int, run_secs: tuple[float, ...] | None, **more: object) -> TuningRecord:
    trace = split_by(factor).trace
    assert trace is not None
    return TuningRecord(trace, WORKLOAD, run_secs, **more)  # type: ignore[arg-type]


RECORDS = [
    record(2, (2.0, 2.5), extra={"protocol": "by hand"}),
    record(4, (4.0,)),
    record(8, None, failure=FailureKind.TIMEOUT, error_msg="too slow"),
    record(2, (9.0,)),
]


class ListDatabase:
    """As much of a database as the runner needs."""

    def get_all_tuning_records(self) -> list[TuningRecord]:
        return RECORDS


def runner_input(factor: int) -> RunnerInput:
    (built,) = ReplayBuilder().build([BuilderInput(split_by(factor).mod, Target("llvm"))])
    assert built.artifact_path is not None
    return RunnerInput(built.artifact_path, "llvm", args_info_of(MOD))


def results(runner: Runner, *factors: int) -> list[RunnerResult]:
    return [future.result() for future in runner.run([runner_input(f) for f in factors])]


@pytest.mark.parametrize("source", [RECORDS, ListDatabase()])
def test_answers_are_the_recorded_ones(source: list[TuningRecord]) -> None:
    runner = ReplayRunner(source)
    assert len(runner) == 3
    four, two, eight = results(runner, 4, 2, 8)
    assert four.run_secs == (4.0,)
    assert two == RunnerResult((2.0, 2.5), protocol="by hand")
    assert eight == RunnerResult(None, "too slow", FailureKind.TIMEOUT)


def test_unknown_candidates_fail() -> None:
    (unknown,) = results(ReplayRunner(RECORDS), 16)
    assert unknown.failure is FailureKind.RUN_ERROR
    assert unknown.error_msg == ("ReplayRunner: this program was not measured in the recorded run")


def test_candidates_behind_another_builder() -> None:
    sch = split_by(4)
    candidate = MeasureCandidate(sch, args_info_of(sch.mod))
    given = RunnerInput("/tmp/x.kernel", "llvm", candidate.args_info, candidate=candidate)
    (future,) = ReplayRunner(RECORDS).run([given])
    assert future.result().run_secs == (4.0,)
    nameless = RunnerInput("/tmp/x.kernel", "llvm", candidate.args_info)
    with pytest.raises(TuneError, match="the replay runner cannot tell which candidate it got"):
        ReplayRunner(RECORDS).run([nameless])


def test_records_that_cannot_be_replayed_are_counted() -> None:
    other = as_module(faults.triple)
    trace = split_by(2).trace
    assert trace is not None
    runner = ReplayRunner([TuningRecord(trace, Workload(other, 0), (1.0,)), *RECORDS])
    assert runner.unreadable == 1
    assert len(runner) == 3


def test_by_name() -> None:
    assert isinstance(Builder.create("replay"), ReplayBuilder)
    assert isinstance(Runner.create("replay", records=RECORDS), ReplayRunner)


@pytest.mark.parametrize("check", builder_suite.CHECKS)
def test_builder_conformance(check: Callable[..., None]) -> None:
    check(ReplayBuilder)


@pytest.mark.parametrize("check", runner_suite.CHECKS)
def test_runner_conformance(check: Callable[..., None]) -> None:
    check(lambda: ReplayRunner(RECORDS), [runner_input(2), runner_input(4)], runner_input(16))
