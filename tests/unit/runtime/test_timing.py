"""How compiled functions are timed."""

# The annotations of a kernel are script, not types.
# mypy: disable-error-code="valid-type, no-untyped-def"

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest

from tilewright.codegen.host.shared_library import PACKED_TYPE
from tilewright.driver import build
from tilewright.errors import ArgumentError, KernelAssertError, RegistryError
from tilewright.runtime import cpu, timing
from tilewright.runtime.module import Module
from tilewright.runtime.registry import register_func, remove_global_func
from tilewright.runtime.timing import BenchmarkResult, EvaluatorOptions, evaluate, format_seconds
from tilewright.script import tir as T


class Counter:
    """A packed function that counts its runs, sleeps, and fails from some run on."""

    def __init__(self, seconds: float = 0, fails_at: int = 0, status: int = 5) -> None:
        self.runs = 0

        def run(slots: int) -> int:
            self.runs += 1
            time.sleep(seconds)
            return status if fails_at and self.runs >= fails_at else 0

        self.function = PACKED_TYPE(run)


def measured(counter: Counter, **options: Any) -> timing.Evaluation:
    run = partial(cpu().api.time, counter.function, b"\0" * 8)
    return evaluate(run, EvaluatorOptions(**options))


def test_runs_are_counted_and_timed() -> None:
    counter = Counter(0.002)
    outcome = measured(counter, number=3, repeat=4)
    assert counter.runs == 1 + 3 * 4
    assert outcome.result is not None
    assert len(outcome.result.results) == 4
    assert all(0.002 <= seconds < 1 for seconds in outcome.result.results)


def test_a_row_grows_until_it_is_long_enough() -> None:
    counter = Counter(0.001)
    outcome = measured(counter, number=1, repeat=2, min_repeat_ms=8)
    assert outcome.result is not None
    assert 1 <= outcome.number <= 20
    assert outcome.number * min(outcome.result.results) >= 0.008


@pytest.mark.parametrize("status", [5, -7])
@pytest.mark.parametrize("fails_at", [1, 2, 6])
def test_a_failing_run_ends_the_measurement(fails_at: int, status: int) -> None:
    counter = Counter(fails_at=fails_at, status=status)
    outcome = measured(counter, number=3, repeat=4)
    assert (outcome.status, outcome.result, counter.runs) == (status, None, fails_at)


def test_resting_between_repeats() -> None:
    start = time.perf_counter()
    measured(Counter(), number=1, repeat=5, cooldown_interval_ms=10, repeats_to_cooldown=2)
    assert time.perf_counter() - start >= 0.02


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"number": 0}, "time_evaluator: number must be a whole number from 1, got 0"),
        ({"repeat": 2.5}, "time_evaluator: repeat must be a whole number from 1, got 2.5"),
        ({"min_repeat_ms": -1}, "time_evaluator: min_repeat_ms must be 0 or more, got -1"),
        (
            {"cooldown_interval_ms": "x"},
            "time_evaluator: cooldown_interval_ms must be 0 or more, got 'x'",
        ),
    ],
)
def test_options_that_make_no_sense(options: dict[str, Any], expected: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        EvaluatorOptions(**options)
    assert str(caught.value) == expected


def test_the_figures_of_a_result() -> None:
    result = BenchmarkResult((1e-3, 2e-3, 6e-3))
    assert result.mean == pytest.approx(3e-3)
    assert (result.median, result.min, result.max) == (2e-3, 1e-3, 6e-3)
    assert result.std == pytest.approx(2.1602e-3, rel=1e-4)
    assert str(result) == (
        "median 2.00 ms, mean 3.00 ms, min 1.00 ms, max 6.00 ms, std 2.16 ms over 3 repeats"
    )
    assert str(BenchmarkResult((2.5e-5,))).endswith("std 0.00 ns over 1 repeat")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (2.0, "2.00 s"),
        (0.1234, "123 ms"),
        (1.5e-5, "15.0 µs"),
        (9.99e-7, "999 ns"),
        (0.0, "0.00 ns"),
    ],
)
def test_durations_as_text(seconds: float, text: str) -> None:
    assert format_seconds(seconds) == text


# --- through a module ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def module() -> Module:
    @T.prim_func
    def main(A: T.Buffer((1024,), "float32"), n: T.int32, B: T.Buffer((1024,), "float32")):
        assert n >= 0, "n must not be negative"
        for i in range(1024):
            B[i] = A[i] + T.float32(1)

    return build(main)


@pytest.fixture
def arrays() -> tuple[Any, ...]:
    return np.zeros(1024, np.float32), 1, np.zeros(1024, np.float32)


@pytest.fixture(autouse=True)
def clean_registry() -> Iterator[None]:
    yield
    remove_global_func("t.prepare")


def test_an_evaluator_goes_on_with_the_number_it_found(
    module: Module, arrays: tuple[Any, ...]
) -> None:
    evaluator: Any = module.time_evaluator("main", number=1, repeat=1, min_repeat_ms=2)
    first = evaluator(*arrays)
    found = evaluator._number
    assert found > 10
    evaluator(*arrays)
    assert evaluator._number >= found
    assert first.mean * found >= 1.9e-3


def test_the_spellings_of_tvm(module: Module, arrays: tuple[Any, ...]) -> None:
    evaluator = module.time_evaluator(
        "main",
        dev=None,
        number=2,
        repeat=3,
        min_repeat_ms=0,
        limit_zero_time_iterations=10,
        cooldown_interval_ms=0,
        repeats_to_cooldown=1,
        f_preproc="cache_flush_cpu_non_first_arg",
    )
    assert len(evaluator(*arrays).results) == 3


def test_preparation_by_a_global_function(module: Module, arrays: tuple[Any, ...]) -> None:
    seen: list[tuple[Any, ...]] = []
    register_func("t.prepare", lambda *args: seen.append(args))
    module.time_evaluator("main", number=2, repeat=3, f_preproc="t.prepare")(*arrays)
    assert len(seen) == 3
    assert seen[0][0] is arrays[0]
    with pytest.raises(RegistryError, match=r"no global function 't\.nothing'"):
        module.time_evaluator("main", f_preproc="t.nothing")(*arrays)


def test_flushing_makes_a_run_slower() -> None:
    @T.prim_func
    def main(A: T.Buffer((262144,), "float32"), B: T.Buffer((16,), "float32")):
        for i in range(262144 // 16):
            B[i % 16] = B[i % 16] + A[i * 16]

    kernel = build(main)
    a, b = np.ones(262144, np.float32), np.zeros(16, np.float32)
    warm = kernel.time_evaluator("main", number=1, repeat=9)(a, b)
    cold = kernel.time_evaluator("main", number=1, repeat=9, flush=True)(a, b)
    assert cold.min > warm.min


def test_errors_come_out_of_an_evaluator(module: Module, arrays: tuple[Any, ...]) -> None:
    evaluator = module.time_evaluator("main", number=3)
    with pytest.raises(KernelAssertError, match=r"^main\(\): n must not be negative$"):
        evaluator(arrays[0], -1, arrays[2])
    with pytest.raises(ArgumentError, match="takes 3 arguments"):
        evaluator(arrays[0])
    with pytest.raises(ArgumentError, match="expected A: float32"):
        module.time_evaluator("main", flush=True)(None, 1, arrays[2])
