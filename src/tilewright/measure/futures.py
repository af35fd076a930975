"""Results of runners that are there already, or that somebody fetches when they are asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tilewright.records import RunnerResult


@dataclass(frozen=True)
class FinishedFuture:
    """A result that is there."""

    value: RunnerResult

    def done(self) -> bool:
        """Always."""
        return True

    def result(self) -> RunnerResult:
        """The result."""
        return self.value


@dataclass(frozen=True)
class FunctionFuture:
    """A future made of two functions, for runners that wait for something of their own."""

    f_done: Callable[[], bool]
    f_result: Callable[[], RunnerResult]

    def done(self) -> bool:
        """Whether the result is there."""
        return self.f_done()

    def result(self) -> RunnerResult:
        """The result; waits for it."""
        return self.f_result()
