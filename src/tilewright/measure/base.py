"""`Builder` and `Runner`: the contracts of those that compile and run candidates; their futures."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from tilewright.records import BuilderFuture, BuilderInput, BuilderResult, RunnerFuture, RunnerInput
from tilewright.support.plugins import Family

ResultT = TypeVar("ResultT")


@dataclass(frozen=True)
class FinishedFuture(Generic[ResultT]):
    """A completed result."""

    value: ResultT

    def done(self) -> bool:
        """Always."""
        return True

    def result(self) -> ResultT:
        """The result."""
        return self.value


@dataclass(frozen=True)
class FunctionFuture(Generic[ResultT]):
    """A future made of two functions, for members that wait for something of their own."""

    f_done: Callable[[], bool]
    f_result: Callable[[], ResultT]

    def done(self) -> bool:
        """Whether the result is there."""
        return self.f_done()

    def result(self) -> ResultT:
        """The result; waits for it."""
        return self.f_result()


class Builder(ABC):
    """Compiles candidates. Never raises for a candidate that cannot be compiled."""

    @abstractmethod
    def build(self, build_inputs: Sequence[BuilderInput]) -> list[BuilderResult]:
        """One result for each input, in order."""

    def submit(self, build_inputs: Sequence[BuilderInput]) -> Sequence[BuilderFuture]:
        """One future for each input, in order; for builders that work on after they returned."""
        return [FinishedFuture(result) for result in self.build(build_inputs)]

    @staticmethod
    def create(kind: str = "local", *args: object, **options: object) -> Builder:
        """A builder by name."""
        return builders.create(kind, *args, **options)


class Runner(ABC):
    """Runs compiled candidates. Never raises for a candidate that cannot be run."""

    @abstractmethod
    def run(self, runner_inputs: Sequence[RunnerInput]) -> Sequence[RunnerFuture]:
        """One future for each input, in order."""

    @staticmethod
    def create(kind: str = "local", *args: object, **options: object) -> Runner:
        """A runner by name; the local one runs one candidate at a time, whatever `max_workers`."""
        if kind == "local":
            options.pop("max_workers", None)
        return runners.create(kind, *args, **options)


builders: Family[Builder] = Family("builder", "tilewright.builder")
runners: Family[Runner] = Family("runner", "tilewright.runner")
