"""Timing compiled functions from native code, so that Python takes no part in what is measured."""

from __future__ import annotations

import ctypes
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import fmean, median, pstdev
from typing import Any

from tilewright.codegen.llvm.compiler import compile_ir, host_machine, load_permanently
from tilewright.errors import ArgumentError
from tilewright.native.platform import platform_of

# `tw_repeat` runs a packed function `number` times and writes down the nanoseconds; its result is
# the status of the run that failed, or 0.
_REPEAT_IR = """
declare i32 @clock_gettime(i32, ptr)

define internal i64 @now() {
  %spec = alloca { i64, i64 }
  %status = call i32 @clock_gettime(i32 CLOCK, ptr %spec)
  %seconds = load i64, ptr %spec
  %tail = getelementptr { i64, i64 }, ptr %spec, i32 0, i32 1
  %nanos = load i64, ptr %tail
  %scaled = mul i64 %seconds, 1000000000
  %now = add i64 %scaled, %nanos
  ret i64 %now
}

define i32 @tw_repeat(ptr %function, ptr %slots, i64 %number, ptr %elapsed) {
entry:
  %start = call i64 @now()
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %more ]
  %status = call i32 %function(ptr %slots)
  %ok = icmp eq i32 %status, 0
  br i1 %ok, label %more, label %done
more:
  %next = add i64 %i, 1
  %again = icmp slt i64 %next, %number
  br i1 %again, label %loop, label %done
done:
  %end = call i64 @now()
  %time = sub i64 %end, %start
  store i64 %time, ptr %elapsed
  ret i32 %status
}
"""

# On x86 single lines can be evicted; elsewhere we read so much that nothing else stays cached.
_EVICT_LINES_IR = """
declare void @llvm.x86.sse2.clflush(ptr)
declare void @llvm.x86.sse2.mfence()

define void @tw_evict(ptr %data, i64 %bytes) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %place = getelementptr i8, ptr %data, i64 %i
  call void @llvm.x86.sse2.clflush(ptr %place)
  %next = add i64 %i, 64
  %again = icmp slt i64 %next, %bytes
  br i1 %again, label %loop, label %done
done:
  call void @llvm.x86.sse2.mfence()
  ret void
}
"""
_READ_THROUGH_IR = """
define void @tw_evict(ptr %data, i64 %bytes) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %place = getelementptr i8, ptr %data, i64 %i
  %value = load volatile i8, ptr %place
  %next = add i64 %i, 64
  %again = icmp slt i64 %next, %bytes
  br i1 %again, label %loop, label %done
done:
  ret void
}
"""
_READ_THROUGH_BYTES = 256 << 20
_LINE_BYTES = 64

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
        count = len(self.results)
        return f"{figures} over {count} repeat{'' if count == 1 else 's'}"


@dataclass(frozen=True)
class _NativeTimer:
    repeat: Callable[..., int]
    evict: Callable[..., None]
    evicts_lines: bool


@lru_cache(maxsize=1)
def _native() -> _NativeTimer:
    machine = host_machine()
    platform = platform_of(machine.triple)
    lines = platform.arch == "x86_64"
    source = _REPEAT_IR.replace("CLOCK", str(platform.clock_monotonic))
    source += _EVICT_LINES_IR if lines else _READ_THROUGH_IR
    addresses = load_permanently([compile_ir(source, machine)])
    pointer, number = ctypes.c_void_p, ctypes.c_int64
    repeat = ctypes.CFUNCTYPE(ctypes.c_int32, pointer, pointer, number, pointer)
    evict = ctypes.CFUNCTYPE(None, pointer, number)
    return _NativeTimer(repeat(addresses["tw_repeat"]), evict(addresses["tw_evict"]), lines)


@dataclass(frozen=True)
class Timing:
    """How many nanoseconds some runs took, or the status of the one that failed."""

    status: int
    nanoseconds: int


def run_repeatedly(address: int, slots: bytes, number: int) -> Timing:
    """Run a packed function `number` times in a row."""
    elapsed = ctypes.c_int64(0)
    status = _native().repeat(address, slots, number, ctypes.addressof(elapsed))
    return Timing(int(status), elapsed.value)


def evict(memory: Sequence[tuple[int, int]]) -> None:
    """Push memory, given as (address, bytes), out of all caches."""
    native = _native()
    if native.evicts_lines:
        for address, size in memory:
            if size > 0:
                ahead = address % _LINE_BYTES
                native.evict(address - ahead, size + ahead)
        return
    buffer = ctypes.create_string_buffer(_READ_THROUGH_BYTES)
    native.evict(ctypes.addressof(buffer), _READ_THROUGH_BYTES)


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
            value: Any = getattr(self, name)
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


def evaluate(
    address: int,
    slots: bytes,
    options: EvaluatorOptions,
    prepare: Callable[[], object] | None = None,
) -> Evaluation:
    """Time a packed function; `prepare` is called before every row of runs."""
    warm = run_repeatedly(address, slots, 1)  # caches, thread pool, workspace
    if warm.status:
        return Evaluation(warm.status, None)
    number, results = options.number, []
    for turn in range(options.repeat):
        if turn and turn % options.repeats_to_cooldown == 0 and options.cooldown_interval_ms:
            time.sleep(options.cooldown_interval_ms / 1000)
        row = _one_row(address, slots, number, options, prepare)
        if row.status:
            return Evaluation(row.status, None)
        number = row.number
        results.append(row.nanoseconds / number * 1e-9)
    return Evaluation(0, BenchmarkResult(tuple(results)), number)


@dataclass(frozen=True)
class _Row:
    status: int
    nanoseconds: int
    number: int


def _one_row(
    address: int,
    slots: bytes,
    number: int,
    options: EvaluatorOptions,
    prepare: Callable[[], object] | None,
) -> _Row:
    """Time `number` runs, and more and more of them until the row is long enough."""
    wanted, zeros = options.min_repeat_ms * 1e6, 0
    while True:
        if prepare is not None:
            prepare()
        timing = run_repeatedly(address, slots, number)
        zeros += timing.nanoseconds == 0
        enough = timing.nanoseconds >= wanted or zeros > options.limit_zero_time_iterations
        if timing.status or enough:
            return _Row(timing.status, timing.nanoseconds, number)
        each = max(timing.nanoseconds, 1) / number
        number = int(max(min(wanted / each + 1, number * 1000), number * 1.618, number + 1))
