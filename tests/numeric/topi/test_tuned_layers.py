"""Quantized layers tuned in the default space: right, in one pass with the dot products."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import pytest

import tilewright as tw
from tilewright import meta_schedule as ms, te, topi
from tilewright.ir import PrimFunc
from tilewright.runtime import Module
from tilewright.target import Target
from tilewright.testing import oracle
from tilewright.testing.int8_workloads import create_int8_workload
from tilewright.topi.quantize import Requantization

Array: TypeAlias = np.ndarray[Any, Any]
CHANNELS, ZERO_POINT = 32, 131
rng = np.random.default_rng(15)

pytestmark = pytest.mark.skipif(
    "avx512vnni" not in Target("llvm").features, reason="the processor has no AVX-512 VNNI"
)


def tuned(func: PrimFunc, workers: dict[str, Any]) -> Module:
    """The best of a few candidates, all of which gave the results of the plain program."""
    database = ms.tune_tir(func, "llvm", max_trials_global=2, seed=0, console=False, **workers)
    records = database.get_all_tuning_records()
    assert all(record.run_secs for record in records)
    assert any("dot_16x4_vnni" in str(record.trace) for record in records)
    with database:
        return tw.build(func, "llvm")


def random_of(dtype: str, *shape: int) -> Array:
    limits = np.iinfo(dtype)
    return rng.integers(limits.min, limits.max + 1, shape).astype(dtype)


def test_a_convolution_that_ends_in_bytes(workers: dict[str, Any]) -> None:
    shape, kernel_shape = (1, 9, 9, 16), (3, 3, 16, CHANNELS)
    data, kernel = te.placeholder(shape, "uint8", "data"), te.placeholder(kernel_shape, "int8", "k")
    m, s, b, sums = (te.placeholder((CHANNELS,), "int32", name) for name in ("m", "s", "b", "sums"))
    scale = Requantization(m, s, 3, "uint8", enlarges=False)
    out = topi.nn.quantized_conv2d_nhwc(
        data, kernel, scale, b, ZERO_POINT, padding=1, weight_sums=sums
    )
    module = tuned(te.create_prim_func([data, kernel, m, s, b, sums, out]), workers)

    x, w = random_of("uint8", *shape), random_of("int8", *kernel_shape)
    multiplier, shift = topi.fixed_point_scales(rng.uniform(1e-4, 1e-3, CHANNELS))
    bias = rng.integers(-(2**15), 2**15, CHANNELS).astype("int32")
    result = np.zeros((1, 9, 9, CHANNELS), "uint8")
    weight_sums = w.sum((0, 1, 2), dtype="int32")
    module(x, w, multiplier, shift, bias, weight_sums, result)

    padded = np.pad(x.astype("int64") - ZERO_POINT, [(0, 0), (1, 1), (1, 1), (0, 0)])
    seen = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(1, 2))
    exact = np.einsum("nhwcij,ijco->nhwo", seen, w.astype("int64")) + bias
    total = 31 - shift.astype("int64")
    rounded = (exact * multiplier + (np.int64(1) << (total - 1))) >> total
    np.testing.assert_array_equal(result, np.clip(rounded + 3, 0, 255))
    assert len(set(result.flat)) > 20


def test_the_residual_block(workers: dict[str, Any]) -> None:
    func = create_int8_workload("Conv2dInt8", N=1, H=7, W=7, CI=64, CO=CHANNELS)
    module = tuned(func, workers)
    per_channel = (1, 1, 1, CHANNELS)
    inputs = [
        random_of("int8", 1, 7, 7, 64),
        random_of("int8", CHANNELS, 1, 1, 64),
        random_of("int16", *per_channel).astype("int32"),
        random_of("int16", *per_channel).astype("int32"),
        random_of("int8", *per_channel).astype("int64"),
        random_of("int16", *per_channel).astype("int64"),
        rng.integers(12, 16, per_channel),
        np.array(17, "int32"),
        np.array([90], "int32"),
        random_of("uint8", 1, 7, 7, CHANNELS).astype("int32"),
    ]
    result, expected = np.zeros((2, 1, 7, 7, CHANNELS), "uint8")
    module(*inputs, result)
    oracle.run(func, *inputs, expected)
    np.testing.assert_array_equal(result, expected)
    assert len(set(result.flat)) > 20
