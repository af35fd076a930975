"""Ways to time candidates: TVM's `EvaluatorConfig`, and a cheaper protocol of our own.

Ours first runs a candidate once. One that is clearly worse than the best known of its workload
stops there. The others run in several short rows, and the median row counts: one that was disturbed
by something else on the machine has no say, and the shorter rows are, the fewer of them that is.
They race with the best while they do: the more rows they have, the less they may lag behind it for
another one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.errors import TuneError
from tilewright.runtime.module import CompiledFunction


@dataclass(frozen=True)
class EvaluatorConfig:
    """Time as TVM does: each of `repeat` results is the mean of at least `number` runs in a row.

    `number` grows until a row takes `min_repeat_ms`. With `enable_cpu_cache_flush` no array but the
    first is in a cache when a row starts.
    """

    number: int = 3
    repeat: int = 1
    min_repeat_ms: float = 100
    enable_cpu_cache_flush: bool = False

    def __post_init__(self) -> None:
        for name in ("number", "repeat"):
            value: object = getattr(self, name)
            if not isinstance(value, int) or value < 1:
                raise TuneError(
                    f"EvaluatorConfig: {name} must be a whole number from 1, got {value!r}"
                )
        least: object = self.min_repeat_ms
        if not isinstance(least, int | float) or not least >= 0:
            raise TuneError(f"EvaluatorConfig: min_repeat_ms must be 0 or more, got {least!r}")

    def __str__(self) -> str:
        flush = ", cache flush" if self.enable_cpu_cache_flush else ""
        return (
            f"number={self.number}, repeat={self.repeat}, min_repeat_ms={self.min_repeat_ms:g}"
            f"{flush}"
        )


@dataclass(frozen=True)
class AdaptiveProtocol:
    """Rows of `row_ms` each, `rows` of them; less for those that cannot win any more."""

    rows: int = 7
    row_ms: float = 1.0
    first_ms: float = 0.5
    give_up_factor: float = 2.0
    # A first run also pays for page faults and for waking threads up: it must be worse by far,
    # and of a function that takes less than `first_ms` it says nothing.
    give_up_at_once_factor: float = 10.0
    # After 1, 2, 3, 4 rows: who took longer than this times the best in all of them gets no more.
    lag_factors: tuple[float, ...] = (1.25, 1.1, 1.06, 1.04)

    def __str__(self) -> str:
        fewest = min(self.rows, _FEWEST_ROWS)
        rows = f"{self.rows}" if fewest == self.rows else f"{fewest} to {self.rows}"
        return f"median of {rows} rows of {self.row_ms:g} ms"

    def first_look(
        self, function: CompiledFunction, args: Sequence[object], best: float | None
    ) -> FirstLook:
        """Run a function a few times, once if that says enough."""
        cold = function.run_in_a_row(args)
        if best is not None and self.gives_up(cold, best):
            return FirstLook(cold, hopeless=True)
        number = _runs_in(self.first_ms, cold)
        # One run that takes as long as a row says as much.
        factor = self.lag_factors[0] if cold * 1e3 > self.row_ms else self.give_up_factor
        enough = None if best is None else factor * best
        looks = [cold]
        # A disturbance must not cost a good candidate its chance; a long run evens it out, and
        # two looks that are alike were not disturbed.
        for _ in range(1 if cold * 1e3 > _LONG_RUN_MS else _LOOKS):
            looks.append(function.run_in_a_row(args, number) / number)
            is_calm = max(looks[-2:]) <= _ALIKE * min(looks[-2:])
            if enough is None or looks[-1] <= enough or is_calm:
                break
        secs = min(looks)
        return FirstLook(secs, enough is not None and secs > enough)

    def gives_up(self, cold: float, best: float) -> bool:
        """True if a first run takes so long that nothing more need be known."""
        return cold * 1e3 > self.first_ms and cold > self.give_up_at_once_factor * best

    def look_limit(self, best: float) -> float:
        """The seconds that a first look at a candidate may take at most, with all around it."""
        return _AROUND_A_LOOK_SECS + 2 * self.give_up_at_once_factor * best

    def rows_for(self, secs: float) -> int:
        """The number of rows for a function that takes `secs`."""
        is_slow = secs * 1e3 > _SLOW_ROWS * self.row_ms
        return min(self.rows, _ROWS_OF_SLOW) if is_slow else self.rows

    def row(self, function: CompiledFunction, args: Sequence[object], secs: float) -> float:
        """Seconds of a run, the mean of one row; `secs` says what to expect."""
        number = _runs_in(self.row_ms, secs)
        return function.run_in_a_row(args, number) / number

    def full(
        self,
        function: CompiledFunction,
        args: Sequence[object],
        secs: float,
        best: float | None = None,
    ) -> list[float]:
        """Seconds of a run, once for each row.

        Who falls behind the best has fewer of them, and so has who takes as long in each of them.
        """
        rows: list[float] = []
        while len(rows) < self.rows_for(secs) and not self.lags(rows, best) and not _agree(rows):
            rows.append(self.row(function, args, secs))
        return rows

    def lags(self, rows: Sequence[float], best: float | None) -> bool:
        """True if all rows took so much longer than the best that no other need follow."""
        if best is None or not 0 < len(rows) <= len(self.lag_factors):
            return False
        return min(rows) > self.lag_factors[len(rows) - 1] * best


@dataclass(frozen=True)
class FirstLook:
    """About how long a run takes, and whether that is clearly too long."""

    secs: float
    hopeless: bool


Protocol = EvaluatorConfig | AdaptiveProtocol

_LOOKS, _ALIKE = 4, 1.05
_LONG_RUN_MS = 20.0
_AROUND_A_LOOK_SECS = 4.0  # loading, arguments, a busy machine
_SLOW_ROWS = 5.0  # a function whose one run takes as many rows is slow
_ROWS_OF_SLOW = 3
_FEWEST_ROWS, _SAME = 3, 1.02  # rows are enough if they differ by this factor at most


def _agree(rows: Sequence[float]) -> bool:
    return len(rows) >= _FEWEST_ROWS and max(rows) <= _SAME * min(rows)


def _runs_in(milliseconds: float, secs: float) -> int:
    return max(1, round(milliseconds * 1e-3 / max(secs, 1e-9)))


def evaluate_as_tvm(
    function: CompiledFunction, sets: Sequence[Sequence[object]], config: EvaluatorConfig
) -> list[float]:
    """Run times under TVM's protocol: `repeat` of them for each set of arguments."""
    evaluator = function.time_evaluator(
        number=config.number,
        repeat=config.repeat,
        min_repeat_ms=config.min_repeat_ms,
        f_preproc="cache_flush_cpu_non_first_arg" if config.enable_cpu_cache_flush else "",
    )
    return [secs for args in sets for secs in evaluator(*args).results]
