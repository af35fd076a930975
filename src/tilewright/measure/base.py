"""What a builder and a runner are."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from tilewright.records import (
    BuilderInput,
    BuilderResult,
    RunnerFuture,
    RunnerInput,
)
from tilewright.support.plugins import Family


class Builder(ABC):
    """Compiles candidates. Never raises for a candidate that cannot be compiled."""

    @abstractmethod
    def build(self, build_inputs: Sequence[BuilderInput]) -> list[BuilderResult]:
        """One result for each input, in order."""

    @staticmethod
    def create(kind: str = "local", *args: Any, **options: Any) -> Builder:
        """A builder by name."""
        builder: Builder = builders.create(kind, *args, **options)
        return builder


class Runner(ABC):
    """Runs compiled candidates. Never raises for a candidate that cannot be run."""

    @abstractmethod
    def run(self, runner_inputs: Sequence[RunnerInput]) -> Sequence[RunnerFuture]:
        """One future for each input, in order."""

    @staticmethod
    def create(kind: str = "local", *args: Any, **options: Any) -> Runner:
        """A runner by name; the local one runs one candidate at a time, whatever `max_workers`."""
        if kind == "local":
            options.pop("max_workers", None)
        runner: Runner = runners.create(kind, *args, **options)
        return runner


builders: Family[Any] = Family("builder", "tilewright.builder")
runners: Family[Any] = Family("runner", "tilewright.runner")
