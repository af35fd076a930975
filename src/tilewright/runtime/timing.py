"""Timing compiled functions from native code, so that Python takes no part in what is measured."""

from __future__ import annotations

import ctypes
import time
from dataclasses import dataclass
from functools import lru_cache
from statistics import fmean, median, pstdev

from tilewright.runtime.jit import compile_ir, host_machine, load_permanently

# Runs a packed function `number` times; returns nanoseconds, or the negative status of a failed run.
_REPEAT_IR = """
declare i32 @clock_gettime(i32, ptr)

define internal i64 @now() {
  %spec = alloca { i64, i64 }
  %status = call i32 @clock_gettime(i32 1, ptr %spec)
  %seconds = load i64, ptr %spec
  %tail = getelementptr { i64, i64 }, ptr %spec, i32 0, i32 1
  %nanos = load i64, ptr %tail
  %scaled = mul i64 %seconds, 1000000000
  %now = add i64 %scaled, %nanos
  ret i64 %now
}

define i64 @tw_repeat(ptr %function, ptr %slots, i64 %number) {
entry:
  %start = call i64 @now()
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %more ]
  %status = call i32 %function(ptr %slots)
  %ok = icmp eq i32 %status, 0
  br i1 %ok, label %more, label %failed
more:
  %next = add i64 %i, 1
  %again = icmp slt i64 %next, %number
  br i1 %again, label %loop, label %done
done:
  %end = call i64 @now()
  %elapsed = sub i64 %end, %start
  ret i64 %elapsed
failed:
  %wide = sext i32 %status to i64
  %negative = sub i64 0, %wide
  ret i64 %negative
}

define i64 @tw_read_through(ptr %data, i64 %bytes) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %sum = phi i64 [ 0, %entry ], [ %total, %loop ]
  %place = getelementptr i8, ptr %data, i64 %i
  %value = load volatile i64, ptr %place
  %total = add i64 %sum, %value
  %next = add i64 %i, 64
  %again = icmp slt i64 %next, %bytes
  br i1 %again, label %loop, label %done
done:
  ret i64 %total
}
"""


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
        figures = (self.median, self.min, self.max, self.std)
        middle, low, high, spread = (f"{seconds * 1e6:.2f} µs" for seconds in figures)
        return f"median {middle}, min {low}, max {high}, std {spread} over {len(self.results)}"


@lru_cache(maxsize=1)
def _native() -> tuple[ctypes._CFuncPtr, ctypes._CFuncPtr]:
    addresses = load_permanently([compile_ir(_REPEAT_IR, host_machine())])
    repeat = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
    read = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64)
    return repeat(addresses["tw_repeat"]), read(addresses["tw_read_through"])


def run_repeatedly(address: int, slots: ctypes.Array[ctypes.c_char], number: int) -> int:
    """Nanoseconds of `number` runs; negative: minus the status of the run that failed."""
    repeat, _ = _native()
    return int(repeat(address, ctypes.addressof(slots), number))


class CacheFlusher:
    """Pushes everything else out of the caches by reading a large buffer."""

    def __init__(self, size: int = 96 << 20) -> None:
        self._buffer = ctypes.create_string_buffer(size)

    def flush(self) -> None:
        _, read = _native()
        read(ctypes.addressof(self._buffer), len(self._buffer) - 8)


@dataclass(frozen=True)
class EvaluatorOptions:
    """How a function is timed.

    Each of `repeat` results is the mean of `number` runs; `number` grows until one repeat takes at
    least `min_repeat_ms`. Between repeats the evaluator rests for `cooldown_interval_ms`, and with
    `flush` it empties the caches first (then one run is what makes sense: number=1).
    """

    number: int = 10
    repeat: int = 1
    min_repeat_ms: int = 0
    cooldown_interval_ms: int = 0
    flush: bool = False


def evaluate(
    address: int, slots: ctypes.Array[ctypes.c_char], options: EvaluatorOptions
) -> tuple[int, BenchmarkResult | None]:
    """Time a packed function; the status is not zero when a run failed."""
    first = run_repeatedly(address, slots, 1)  # warms caches, pool and workspace
    if first < 0:
        return -first, None
    number, results = max(1, options.number), []
    flusher = CacheFlusher() if options.flush else None
    for turn in range(options.repeat):
        if turn and options.cooldown_interval_ms:
            time.sleep(options.cooldown_interval_ms / 1000)
        while True:
            if flusher is not None:
                flusher.flush()
            elapsed = run_repeatedly(address, slots, number)
            if elapsed < 0:
                return -elapsed, None
            if elapsed >= options.min_repeat_ms * 1_000_000:
                break
            wanted = options.min_repeat_ms * 1_000_000 / max(1, elapsed / number)
            number = max(number + 1, min(number * 10, int(wanted * 1.1) + 1))
        results.append(elapsed / number * 1e-9)
    return 0, BenchmarkResult(tuple(results))
