"""Futures of builders and runners: results that are there, or fetched when asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

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
