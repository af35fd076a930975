"""Builders and runners of the user's own may raise: their candidates count as failed then.

That happens in a run that keeps going; otherwise an exception ends it.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.measure import Builder, Runner
from tilewright.measure.futures import FinishedFuture
from tilewright.records import (
    BuilderInput,
    BuilderResult,
    FailureKind,
    RunnerFuture,
    RunnerInput,
    RunnerResult,
)
from tilewright.support.member_failures import MemberFailures


def built_by(
    builder: Builder, inputs: Sequence[BuilderInput], failures: MemberFailures
) -> list[BuilderResult]:
    """What a builder gives for candidates."""
    try:
        return list(builder.build(inputs))
    except Exception as error:
        text = _taken(failures, "builder", builder, error)
        return [BuilderResult(None, text, FailureKind.BUILD_ERROR) for _ in inputs]


def run_by(
    runner: Runner, inputs: Sequence[RunnerInput], failures: MemberFailures
) -> list[RunnerFuture]:
    """The futures that a runner gives for candidates."""
    try:
        return list(runner.run(inputs))
    except Exception as error:
        text = _taken(failures, "runner", runner, error)
        failed = RunnerResult(None, text, FailureKind.RUN_ERROR)
        return [FinishedFuture(failed) for _ in inputs]


def result_by(runner: Runner, future: RunnerFuture, failures: MemberFailures) -> RunnerResult:
    """What a future of a runner comes to."""
    try:
        return future.result()
    except Exception as error:
        text = _taken(failures, "runner", runner, error)
        return RunnerResult(None, text, FailureKind.RUN_ERROR)


def _taken(failures: MemberFailures, what: str, member: object, error: Exception) -> str:
    name = f"{what} {type(member).__name__}"
    if not failures.take(name, error, member):
        raise error
    return f"{name} failed: {type(error).__name__}: {error}"
