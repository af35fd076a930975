"""Members that do next to nothing, under the names that TVM's tests know them by."""

from __future__ import annotations

import random
from collections.abc import Sequence

from tilewright.measure.base import Builder, Runner
from tilewright.records import (
    BuilderInput,
    BuilderResult,
    RunnerFuture,
    RunnerInput,
    RunnerResult,
)
from tilewright.schedule import Trace
from tilewright.space.base import Mutator


class DummyRunnerFuture(RunnerFuture):
    """A few random times between 5 and 30 seconds."""

    def done(self) -> bool:
        return True

    def result(self) -> RunnerResult:
        return RunnerResult(tuple(random.uniform(5, 30) for _ in range(random.randint(1, 10))))


class DummyBuilder(Builder):
    """Compiles nothing."""

    def build(self, build_inputs: Sequence[BuilderInput]) -> list[BuilderResult]:
        return [BuilderResult("test_path") for _ in build_inputs]


class DummyRunner(Runner):
    """Runs nothing."""

    def run(self, runner_inputs: Sequence[RunnerInput]) -> list[RunnerFuture]:
        return [DummyRunnerFuture() for _ in runner_inputs]


class DummyMutator(Mutator):
    """Forgets all decisions of a trace, so that they are drawn anew."""

    def apply(self, trace: Trace, seed: int) -> Trace:
        return Trace(trace.insts, {})
