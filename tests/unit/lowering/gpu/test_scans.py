"""Running totals by threads together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tilewright import te, topi
from tilewright.target import Target
from tilewright.testing.gpu_lowering import lower_for_gpu
from tilewright.testing.simt import run
from tilewright.tune import default_schedule

TAG = "nvidia/nvidia-h200"


def emulated(
    shape: Any, make: Callable[[Any], Any], dtype: str = "float32"
) -> tuple[Any, Any, str]:
    """Input, output and program."""
    a = te.placeholder(shape, dtype, name="A")
    made = make(a)
    func = te.create_prim_func([a, made])
    lowered = lower_for_gpu(default_schedule(func, Target(TAG)).mod, TAG)
    given = np.random.default_rng(0).integers(-3, 4, shape).astype(dtype)
    out = np.full([int(str(n)) for n in made.shape], 99, str(made.dtype))
    run(lowered, [given, out])
    return given, out, str(lowered)


@pytest.mark.parametrize("shape", [(1, 1), (3, 33), (2, 127), (2, 129), (3, 5001), (1025, 130)])
@pytest.mark.parametrize("exclusive", [False, True])
def test_along_memory(shape: tuple[int, int], exclusive: bool) -> None:
    given, out, text = emulated(shape, lambda a: topi.cumsum(a, 1, exclusive=exclusive))
    totals = given.cumsum(1)
    np.testing.assert_array_equal(out, totals - given if exclusive else totals)
    assert "tvm_warp_shuffle" in text


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("exclusive", [False, True])
def test_across_memory(axis: int, exclusive: bool) -> None:
    given, out, _ = emulated((7, 9, 21), lambda a: topi.cumsum(a, axis, exclusive=exclusive))
    totals = given.cumsum(axis)
    np.testing.assert_array_equal(out, totals - given if exclusive else totals)


def test_of_everything() -> None:
    given, out, _ = emulated((9, 10, 11), topi.cumsum)
    np.testing.assert_array_equal(out, given.cumsum())


@pytest.mark.parametrize("dtype", ["int8", "int32", "float16", "float64"])
def test_types(dtype: str) -> None:
    given, out, _ = emulated((4, 200), lambda a: topi.cumsum(a, 1), dtype)
    np.testing.assert_array_equal(out, given.cumsum(1))


def test_products() -> None:
    shape = (3, 300)
    a = te.placeholder(shape, "float32", name="A")
    func = te.create_prim_func([a, topi.cumprod(a, 1)])
    given = 2.0 ** np.random.default_rng(0).integers(-1, 2, shape).astype("float32")
    out = np.zeros(shape, "float32")
    run(lower_for_gpu(default_schedule(func, Target(TAG)).mod, TAG), [given, out])
    np.testing.assert_array_equal(out, given.cumprod(1))


def test_sizes_that_are_known_later_are_one_thread_each() -> None:
    n = te.var("n")
    a = te.placeholder((8, n), "float32", name="A")
    func = te.create_prim_func([a, topi.cumsum(a, 1)])
    lowered = lower_for_gpu(default_schedule(func, Target(TAG)).mod, TAG)
    given = np.arange(8 * 50, dtype="float32").reshape(8, 50)
    out = np.zeros_like(given)
    run(lowered, [given, out], [50])
    np.testing.assert_array_equal(out, given.cumsum(1))
