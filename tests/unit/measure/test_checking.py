"""Arguments, tolerances and comparisons: what tells a right result from a wrong one."""

# mypy: disable-error-code="valid-type, no-untyped-def"

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tilewright.ir import as_module
from tilewright.ir.annotation_keys import ALLOW_TF32, FAST_SUMS
from tilewright.measure import LocalRunner
from tilewright.measure.arguments import (
    GUARD_BYTES,
    ArgumentSet,
    GuardedArray,
    TensorSpec,
    random_values,
    same_bytes,
)
from tilewright.measure.checking import difference, usual_size
from tilewright.measure.tolerance import Rounding, rounding_of
from tilewright.records import FailureKind, RunnerInput
from tilewright.script import tir as T
from tilewright.testing.te_workload import create_te_workload
from tilewright.testing.tile_programs import product

ALL_TYPES = [
    "bool int8 uint8 int16 uint16 int32 uint32 int64 uint64 float16 bfloat16 float32 float64",
    "float8_e4m3fn float8_e5m2 int4 uint4",
]
MakeInput = Callable[..., RunnerInput]


# --- arrays with guards ---


@pytest.mark.parametrize("dtype", " ".join(ALL_TYPES).split())
def test_random_values_of_every_type(dtype: str) -> None:
    rng = np.random.default_rng(0)
    values = random_values(TensorSpec(dtype, (50, 4)), rng)
    assert values.shape == (50, 4)
    wide = values.astype(np.float64)
    assert np.isfinite(wide).all()
    assert len(np.unique(wide)) > 1
    if "float" in dtype:
        assert (np.abs(wide) <= 1).all()
        assert (wide < 0).any()
        positive = random_values(TensorSpec(dtype, (50, 4)), rng, positive=True)
        assert (positive.astype(np.float64) >= 0.5).all()


def test_bytes_take_all_values() -> None:
    values = random_values(TensorSpec("int8", (20000,)), np.random.default_rng(0))
    assert (values.min(), values.max()) == (-128, 127)


@pytest.mark.parametrize(("dtype", "is_poison"), [("float32", np.isnan), ("float16", np.isnan)])
def test_poisoned_floats_are_not_numbers(dtype: str, is_poison: Callable[..., Any]) -> None:
    guarded = GuardedArray(np.dtype(dtype), (3, 5))
    guarded.poison()
    assert is_poison(guarded.array).all()


def test_poisoned_bfloat16_is_not_a_number() -> None:
    guarded = GuardedArray(np.dtype(ml_dtypes.bfloat16), (8,))
    guarded.poison()
    assert np.isnan(guarded.array.astype(np.float32)).all()


def test_guards() -> None:
    guarded = GuardedArray(np.dtype("int32"), (10,))
    assert guarded.touched_guard() == ""
    assert guarded.array.ctypes.data % 64 == 0
    everything = guarded.bytes.base
    assert isinstance(everything, np.ndarray)
    start = guarded.bytes.ctypes.data - everything.ctypes.data
    everything[start + 43] = 0
    assert guarded.touched_guard() == "3 bytes behind its end"
    guarded.reset_guards()
    everything[start - 8] = 0
    assert guarded.touched_guard() == "8 bytes before its start"
    everything[start - GUARD_BYTES] = 0
    assert guarded.touched_guard() == "8 bytes before its start"


def test_arguments_are_the_same_in_every_process() -> None:
    infos = [TensorSpec("float32", (9,)), TensorSpec("float32", (9,)), TensorSpec("int8", (9,))]
    first, again = (
        ArgumentSet.random(infos, ("r", "w", "rw"), 5, positive=False) for _ in range(2)
    )
    np.testing.assert_array_equal(first.arrays[0], again.arrays[0])
    np.testing.assert_array_equal(first.arrays[2], again.arrays[2])
    other = ArgumentSet.random(infos, ("r", "w", "rw"), 6, positive=False)
    assert (first.arrays[0] != other.arrays[0]).any()
    assert (first.arrays[0] != first.arrays[1]).all()


def test_arguments_are_restored() -> None:
    info = TensorSpec("float32", (4,))
    arguments = ArgumentSet.random([info] * 3, ("r", "w", "rw"), 1, positive=False)
    before = [array.copy() for array in arguments.arrays]
    for array in arguments.arrays:
        array += 1
    assert arguments.damage() == "it changed argument 0, which is an input"
    arguments.restore()
    assert arguments.damage() == ""
    for array, old in zip(arguments.arrays, before, strict=True):
        np.testing.assert_array_equal(array, old)
    assert [position for position, _ in arguments.outputs()] == [1, 2]


@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 64])
def test_same_bytes(size: int) -> None:
    first = np.arange(size, dtype=np.uint8)
    assert same_bytes(first, first.copy())
    for position in range(size):
        other = first.copy()
        other[position] ^= 1
        assert not same_bytes(first, other)


# --- comparisons ---


def test_integers_must_be_equal() -> None:
    expected = np.arange(6, dtype="int32").reshape(2, 3)
    actual = expected.copy()
    assert difference(expected, actual, "int32", 0.0) == ""
    actual[1, 1] = 7
    assert difference(expected, actual, "int32", 0.0) == (
        "1 of 6 elements are wrong, the first at [1, 1]: expected 4, got 7"
    )


def test_floats_may_differ_by_the_tolerance() -> None:
    expected = np.linspace(1, 2, 100, dtype="float32")
    assert difference(expected, expected * np.float32(1 + 1e-6), "float32", 1e-5) == ""
    wrong = difference(expected, expected * np.float32(1.001), "float32", 1e-5)
    assert wrong.startswith(
        "100 of 100 elements are wrong, the first at [0]: expected 1.0, got 1.0"
    )
    assert wrong.endswith(", tolerance 1.0e-05")


def test_not_a_number_must_be_in_the_same_places() -> None:
    expected = np.array([1, np.nan, np.inf, -np.inf, 0], "float32")
    nearly = expected.copy()
    nearly[0] += 1e-7
    assert difference(expected, nearly, "float32", 1e-5) == ""
    for position in range(5):
        actual = nearly.copy()
        actual[position] = np.nan if position != 1 else 1
        found = difference(expected, actual, "float32", 1e-5)
        assert found.startswith(f"1 of 5 elements are wrong, the first at [{position}]"), found


def test_small_results_are_measured_against_usual_ones() -> None:
    """Terms that cancel leave a small sum with the error of large ones."""
    expected = np.ones(1000, "float32")
    expected[0] = 1e-8
    actual = expected.copy()
    actual[0] = 3e-8
    assert difference(expected, actual, "float32", 1e-6) == ""
    actual[0] = 1e-3
    assert difference(expected, actual, "float32", 1e-6) != ""


def test_giants_do_not_hide_errors() -> None:
    expected = np.ones(1000, "float32")
    expected[0] = 1e30
    assert usual_size(expected) == 4.0
    actual = expected.copy()
    actual[5] = 1.1
    assert difference(expected, actual, "float32", 1e-5) != ""


def test_small_floats_are_compared_in_float32() -> None:
    expected = np.linspace(1, 2, 50).astype(ml_dtypes.bfloat16)
    assert difference(expected, expected.copy(), "bfloat16", 0.1) == ""
    actual = (expected.astype("float32") * 2).astype(ml_dtypes.bfloat16)
    assert "expected 1, got 2" in difference(expected, actual, "bfloat16", 0.1).replace(".0", "")


# --- tolerances ---


def test_rounding_of_a_matmul() -> None:
    rounding = rounding_of(as_module(create_te_workload("GMM", 0)))
    assert rounding == Rounding(("float32",), (("float32", 128),))
    unit = 2.0**-23
    assert rounding.tolerance("float32") == pytest.approx(unit * (16 + 8 * math.sqrt(128)))
    assert rounding.tolerance("int32") == 0.0


def test_longer_sums_may_be_further_off() -> None:
    short, long = (Rounding(("float32",), (("float32", n),)) for n in (10, 1000))
    assert short.tolerance("float32") < long.tolerance("float32") < 1e-4


def test_inputs_do_not_round() -> None:
    @T.prim_func
    def widen(A: T.Buffer((8,), "float16"), B: T.Buffer((8,), "float32")):
        for i in T.serial(8):
            with T.block("B"):
                v = T.axis.spatial(8, i)
                B[v] = T.Cast("float32", A[v]) * T.float32(3)

    assert rounding_of(as_module(widen)) == Rounding(("float32",), ())


def test_tensor_cores_keep_fewer_digits() -> None:
    unit, digits_of_sums = 2.0**-10, 2.0**-13
    plain = create_te_workload("GMM", 0)
    assert rounding_of(as_module(plain.with_attr(ALLOW_TF32, True))).tensor_cores == unit
    short = product((8, 8, 1024), ("float8_e4m3fn", "float32"))
    assert rounding_of(as_module(short)).tensor_cores == digits_of_sums
    fast = rounding_of(as_module(short.with_attr(FAST_SUMS, True)))
    assert fast.tensor_cores == 8 * digits_of_sums
    assert fast.tolerance("float32") > 16 * 8 * digits_of_sums


# --- whole programs ---


@T.prim_func
def logarithm(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    for i in T.serial(64):
        with T.block("B"):
            v = T.axis.spatial(64, i)
            B[v] = T.log(A[v])


@T.prim_func
def almost_logarithm(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    for i in T.serial(64):
        with T.block("B"):
            v = T.axis.spatial(64, i)
            B[v] = T.log(A[v]) + T.float32(0.001)


@T.prim_func
def accumulates(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    for i in T.serial(64):
        with T.block("B"):
            v = T.axis.spatial(64, i)
            B[v] = B[v] + A[v]


@T.prim_func
def overwrites(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    for i in T.serial(64):
        with T.block("B"):
            v = T.axis.spatial(64, i)
            B[v] = A[v]


@pytest.mark.parametrize(
    ("program", "right", "wrong"),
    [
        (logarithm, logarithm, almost_logarithm),  # not a number for most signed arguments
        (accumulates, accumulates, overwrites),  # what it writes is also an input
        (overwrites, overwrites, accumulates),
    ],
)
def test_programs_with_special_needs(
    program: Any, right: Any, wrong: Any, runner: LocalRunner, input_of: MakeInput
) -> None:
    good, bad = (
        future.result()
        for future in runner.run([input_of(right, program), input_of(wrong, program)])
    )
    assert good.failure is None, good.error_msg
    assert good.checked
    assert bad.failure is FailureKind.WRONG_RESULT
