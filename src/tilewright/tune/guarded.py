"""Calls builders and runners of the user's own, which may raise: their candidates fail then.

That happens in a run that keeps going; otherwise an exception ends it.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.measure import Builder, Runner
from tilewright.measure.futures import FinishedFuture
from tilewright.records import (
    BuilderFuture,
    BuilderInput,
    BuilderResult,
    FailureKind,
    RunnerFuture,
    RunnerInput,
    RunnerResult,
)
from tilewright.support.member_failures import MemberFailures


def submit_to(
    builder: Builder, inputs: Sequence[BuilderInput], failures: MemberFailures
) -> list[BuilderFuture]:
    """The futures that a builder gives for candidates."""
    try:
        return list(builder.submit(inputs))
    except Exception as error:
        failed = _not_built(failures, builder, error)
        return [FinishedFuture(failed) for _ in inputs]


def built_by(builder: Builder, future: BuilderFuture, failures: MemberFailures) -> BuilderResult:
    """The result of a builder's future."""
    try:
        return future.result()
    except Exception as error:
        return _not_built(failures, builder, error)


def run_by(
    runner: Runner, inputs: Sequence[RunnerInput], failures: MemberFailures
) -> list[RunnerFuture]:
    """The futures that a runner gives for candidates."""
    try:
        return list(runner.run(inputs))
    except Exception as error:
        failed = _not_run(failures, runner, error)
        return [FinishedFuture(failed) for _ in inputs]


def result_by(runner: Runner, future: RunnerFuture, failures: MemberFailures) -> RunnerResult:
    """The result of a runner's future."""
    try:
        return future.result()
    except Exception as error:
        return _not_run(failures, runner, error)


def _not_built(failures: MemberFailures, builder: Builder, error: Exception) -> BuilderResult:
    text = _taken(failures, "builder", builder, error)
    return BuilderResult(None, text, FailureKind.BUILD_ERROR)


def _not_run(failures: MemberFailures, runner: Runner, error: Exception) -> RunnerResult:
    text = _taken(failures, "runner", runner, error)
    return RunnerResult(None, text, FailureKind.RUN_ERROR)


def _taken(failures: MemberFailures, what: str, member: object, error: Exception) -> str:
    name = f"{what} {type(member).__name__}"
    if not failures.take(name, error, member):
        raise error
    return f"{name} failed: {type(error).__name__}: {error}"
