"""Measurements that are made up, for tests of commands: quick, and always the same."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.measure import Builder, FinishedFuture, Runner
from tilewright.records import (
    BuilderInput,
    BuilderResult,
    FailureKind,
    RunnerFuture,
    RunnerInput,
    RunnerResult,
    candidate_hash,
)


class NoBuilder(Builder):
    """Compiles nothing."""

    def build(self, build_inputs: Sequence[BuilderInput]) -> list[BuilderResult]:
        return [BuilderResult("nowhere") for _ in build_inputs]


class MadeUp(Runner):
    """The time of a candidate follows from its program; counts what it is asked."""

    def __init__(self) -> None:
        self.asked = 0
        self.interrupt_at: int | None = None
        self.interrupt: BaseException = KeyboardInterrupt()
        self.failure: FailureKind | None = None

    def run(self, runner_inputs: Sequence[RunnerInput]) -> Sequence[RunnerFuture]:
        self.asked += len(runner_inputs)
        if self.interrupt_at is not None and self.asked > self.interrupt_at:
            self.interrupt_at = None
            raise self.interrupt
        return [FinishedFuture(self._result(each)) for each in runner_inputs]

    def _result(self, given: RunnerInput) -> RunnerResult:
        if self.failure is not None:
            return RunnerResult(None, "it was no good", self.failure)
        assert given.candidate is not None
        return RunnerResult(((int(candidate_hash(given.candidate), 16) % 1000 + 1) * 1e-6,))
