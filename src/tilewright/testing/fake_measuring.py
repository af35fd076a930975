"""A builder and a runner without processes, for tests of the tuner: times follow from the program.

tune_tir(func, "llvm", max_trials_global=16, builder=FakeBuilder(), runner=FakeRunner())
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence

from tilewright.ir import IRModule, structural_hash
from tilewright.measure.base import Builder, FinishedFuture, FunctionFuture, Runner
from tilewright.records import (
    BuilderFuture,
    BuilderInput,
    BuilderResult,
    FailureKind,
    RunnerFuture,
    RunnerInput,
    RunnerResult,
)

Failure = Callable[[int], FailureKind | None]  # of the program with this hash


def seconds_of_hash(shash: int) -> float:
    """Between 10 and 110 microseconds."""
    return 1e-5 * (1 + shash % 1009 / 100.9)


def seconds_of(mod: IRModule) -> float:
    """What `FakeRunner` says that a program takes."""
    return seconds_of_hash(structural_hash(mod))


class FakeBuilder(Builder):
    """Compiles nothing: its artefacts are hashes of programs."""

    def __init__(self, failure: Failure = lambda shash: None) -> None:
        self.failure = failure
        self.built: list[int] = []  # the hashes of all programs, in order

    def build(self, build_inputs: Sequence[BuilderInput]) -> list[BuilderResult]:
        return [self._build(structural_hash(each.mod)) for each in build_inputs]

    def _build(self, shash: int) -> BuilderResult:
        self.built.append(shash)
        failure = self.failure(shash)
        if failure is None:
            return BuilderResult(f"fake:{shash:x}")
        return BuilderResult(None, f"fake {failure.value} of the builder", failure)


class EagerFakeBuilder(FakeBuilder):
    """The same, for candidates that are built while others are chosen."""

    def __init__(self, failure: Failure = lambda shash: None) -> None:
        super().__init__(failure)
        self.started: list[int] = []  # the hashes of programs whose builds were started, in order

    def begin(self, build_input: BuilderInput) -> BuilderFuture:
        """Build a program when somebody asks for the result."""
        shash = structural_hash(build_input.mod)
        self.started.append(shash)
        return FunctionFuture(lambda: False, lambda: self._build(shash))


class FakeRunner(Runner):
    """Says what a program takes by its hash; `delay` is what that takes itself."""

    def __init__(
        self,
        failure: Failure = lambda shash: None,
        *,
        seconds: Callable[[int], float] = seconds_of_hash,
        before: Callable[[], object] = lambda: None,  # called for each candidate
        delay: float = 0.0,
    ) -> None:
        self.failure = failure
        self.seconds = seconds
        self.before = before
        self.delay = delay
        self.ran: list[int] = []  # the hashes of all programs, in order
        self.inputs: deque[RunnerInput] = deque(maxlen=16)  # the last ones

    def run(self, runner_inputs: Sequence[RunnerInput]) -> list[RunnerFuture]:
        return [FinishedFuture(self._run(each)) for each in runner_inputs]

    def _run(self, runner_input: RunnerInput) -> RunnerResult:
        self.before()
        time.sleep(self.delay)
        self.inputs.append(runner_input)
        shash = int(runner_input.artifact_path.removeprefix("fake:"), 16)
        self.ran.append(shash)
        failure = self.failure(shash)
        if failure is not None:
            return RunnerResult(None, f"fake {failure.value}", failure, protocol="fake")
        checked = runner_input.reference_path is not None
        return RunnerResult((self.seconds(shash),), checked=checked, protocol="fake")
