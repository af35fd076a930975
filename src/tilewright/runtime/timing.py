"""Protocol and result of timing a function: rows of runs, repeats, pauses between them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import fmean, median, pstdev
from typing import TypeAlias

from tilewright.errors import ArgumentError
from tilewright.runtime.devices import Timing
from tilewright.support.text import counted

_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))


def format_seconds(seconds: float) -> str:
    """A duration with three digits and the unit that suits it."""
    scale, unit = next((item for item in _UNITS if seconds >= item[0]), _UNITS[-1])
    value = seconds / scale
    digits = max(0, 2 - math.floor(math.log10(value))) if value >= 1 else 2
    return f"{value:.{digits}f} {unit}"


@dataclass(frozen=True)
class BenchmarkResult:
    """Seconds of one run, once for each repeat."""

    results: tuple[float, ...]

    @property
    def mean(self) -> float:
        return fmean(self.results)

    @property
    def median(self) -> float:
        return median(self.results)

    @property
    def min(self) -> float:
        return min(self.results)

    @property
    def max(self) -> float:
        return max(self.results)

    @property
    def std(self) -> float:
        return pstdev(self.results)

    def __str__(self) -> str:
        names = ("median", "mean", "min", "max", "std")
        figures = ", ".join(f"{name} {format_seconds(getattr(self, name))}" for name in names)
        return f"{figures} over {counted(len(self.results), 'repeat')}"


@dataclass(frozen=True)
class EvaluatorOptions:
    """How a function is timed.

    Each of `repeat` results is the mean of `number` runs in a row; `number` grows until such a row
    takes at least `min_repeat_ms` (or the clock has read zero `limit_zero_time_iterations` times),
    and stays that large for what follows. After every `repeats_to_cooldown` repeats the evaluator
    rests for `cooldown_interval_ms`.
    """

    number: int = 10
    repeat: int = 1
    min_repeat_ms: float = 0
    limit_zero_time_iterations: int = 100
    cooldown_interval_ms: float = 0
    repeats_to_cooldown: int = 1

    def __post_init__(self) -> None:
        for name, least in (("number", 1), ("repeat", 1), ("repeats_to_cooldown", 1)):
            value: object = getattr(self, name)
            if not isinstance(value, int) or value < least:
                raise ArgumentError(
                    f"time_evaluator: {name} must be a whole number from {least}, got {value!r}"
                )
        for name in ("min_repeat_ms", "cooldown_interval_ms", "limit_zero_time_iterations"):
            value = getattr(self, name)
            if not isinstance(value, int | float) or not value >= 0:
                raise ArgumentError(f"time_evaluator: {name} must be 0 or more, got {value!r}")


@dataclass(frozen=True)
class Evaluation:
    """The outcome of a measurement: a result, or the status of the run that failed."""

    status: int
    result: BenchmarkResult | None
    number: int = 1


Run: TypeAlias = Callable[[int], Timing]  # takes the number of runs in a row


def evaluate(
    run: Run, options: EvaluatorOptions, prepare: Callable[[], object] | None = None
) -> Evaluation:
    """Time a function; `prepare` is called before every row of runs."""
    warm = run(1)  # caches, thread pool, workspace
    if warm.status:
        return Evaluation(warm.status, None)
    number, results = options.number, []
    for turn in range(options.repeat):
        if turn and turn % options.repeats_to_cooldown == 0 and options.cooldown_interval_ms:
            time.sleep(options.cooldown_interval_ms / 1000)
        row, number = _one_row(run, number, options, prepare)
        if row.status:
            return Evaluation(row.status, None)
        results.append(row.nanoseconds / number * 1e-9)
    return Evaluation(0, BenchmarkResult(tuple(results)), number)


def _one_row(
    run: Run, number: int, options: EvaluatorOptions, prepare: Callable[[], object] | None
) -> tuple[Timing, int]:
    """Time `number` runs, and more and more of them until the row is long enough."""
    wanted, zeros = options.min_repeat_ms * 1e6, 0
    while True:
        if prepare is not None:
            prepare()
        timing = run(number)
        zeros += timing.nanoseconds == 0
        enough = timing.nanoseconds >= wanted or zeros > options.limit_zero_time_iterations
        if timing.status or enough:
            return timing, number
        each = max(timing.nanoseconds, 1) / number
        number = int(max(min(wanted / each + 1, number * 1000), number * 1.618, number + 1))
