"""Requantization as machine code: exact, and a handful of vector instructions."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
import pytest

import tilewright as tw
from tilewright import te, topi
from tilewright.runtime import Module
from tilewright.schedule import Schedule
from tilewright.target import Target

Array: TypeAlias = np.ndarray[Any, Any]
LANES, CHANNELS = 16, 32
HALF = 1 << 30
FEATURES = Target("llvm").features
rng = np.random.default_rng(13)


def requantized(x: Array, multiplier: Array, shift: Array, zero_point: int, dtype: str) -> Array:
    limits = np.iinfo(dtype)
    result = np.empty(x.shape, dtype)
    for i, c in np.ndindex(x.shape):
        scale = Fraction(int(multiplier[c])) * Fraction(2) ** (int(shift[c]) - 31)
        value = (int(x[i, c]) * scale + Fraction(1, 2)).__floor__() + zero_point
        result[i, c] = max(min(value, limits.max), limits.min)
    return result


def vectorized(inputs: Sequence[te.Tensor], output: te.Tensor) -> Module:
    schedule = Schedule(te.create_prim_func([*inputs, output]))
    inner = schedule.get_loops(schedule.get_block("requantize"))[-1]
    schedule.vectorize(schedule.split(inner, [None, LANES])[1])
    return tw.build(schedule.mod, "llvm")


def sums() -> Array:
    """Everything from one to all 32 bits."""
    x = rng.integers(-(2**31), 2**31, (24, CHANNELS)) >> rng.integers(0, 31, (24, CHANNELS))
    x[0], x[1], x[2] = 2**31 - 1, -(2**31), 0
    return x.astype("int32")


def run(module: Module, *inputs: Array, dtype: str) -> Array:
    result = np.zeros(inputs[0].shape, dtype)
    module["main"](*inputs, result)
    return result


X = te.placeholder((24, CHANNELS), "int32", "x")
M, S = te.placeholder((CHANNELS,), "int32", "m"), te.placeholder((CHANNELS,), "int32", "s")


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16"])
@pytest.mark.parametrize(("multiplier", "shift"), [(HALF, 0), (1395864371, -7), (2**31 - 1, 9)])
def test_one_scale(multiplier: int, shift: int, dtype: str) -> None:
    x = sums()
    module = vectorized([X], topi.requantize(X, multiplier, shift, 11, dtype))
    scales = np.full(CHANNELS, multiplier), np.full(CHANNELS, shift)
    np.testing.assert_array_equal(run(module, x, dtype=dtype), requantized(x, *scales, 11, dtype))


@pytest.mark.parametrize("enlarges", [True, False])
def test_a_scale_for_each_channel(enlarges: bool) -> None:
    x = sums()
    scales = np.exp2(rng.uniform(-34, 28 if enlarges else 0, CHANNELS))
    multiplier, shift = topi.fixed_point_scales(scales)
    out = topi.requantize(X, M, S, -7, "int8", enlarges=enlarges)
    result = run(vectorized([X, M, S], out), x, multiplier, shift, dtype="int8")
    np.testing.assert_array_equal(result, requantized(x, multiplier, shift, -7, "int8"))


@pytest.mark.skipif("avx512f" not in FEATURES, reason="the processor has no AVX-512")
def test_products_of_64_bits_stay_in_vectors() -> None:
    out = topi.requantize(X, M, S, 3, "uint8", enlarges=False)
    assembly = vectorized([X, M, S], out).get_source("asm")
    assert assembly.count("vpmuldq") == 2  # sixteen products of 64 bits
    assert assembly.count("vpsravq") == 2
    assert "imul" not in assembly


@pytest.mark.parametrize(("source", "dtype"), [("int32", "uint8"), ("float32", "int16")])
def test_saturating_cast(source: str, dtype: str) -> None:
    x = np.array([0, 1, -1, 127, 128, 255, 256, 40000, -40000, 2**30, -(2**30)] * 3, source)
    a = te.placeholder(x.shape, source, "a")
    module = tw.build(te.create_prim_func([a, topi.saturating_cast(a, dtype)]), "llvm")
    limits = np.iinfo(dtype)
    expected = np.clip(x.astype("int64"), limits.min, limits.max)
    np.testing.assert_array_equal(run(module, x, dtype=dtype), expected)
