"""Every way to run a program gives the same numbers: blocks, each lowering stage, C, and LLVM."""

# Script annotations are not types.
# mypy: disable-error-code="valid-type, no-untyped-def"

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright import te
from tilewright.driver import lower
from tilewright.ir import PrimFunc, structural_equal, structural_hash, verify_well_formed
from tilewright.ir.json import load_json, save_json
from tilewright.ir.numpy_bridge import to_numpy
from tilewright.script import tir as T
from tilewright.testing import oracle, te_workload as workloads
from tilewright.testing.c_compiler import CompiledC
from tilewright.testing.oracle import OracleOptions

# Small shapes for which every operator still pads, strides, groups and dilates.
SHAPES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "C1D": (workloads.conv1d_nlc, (1, 9, 3, 4, 3, 2, 1)),
    "C2D": (workloads.conv2d_nhwc, (1, 7, 6, 3, 4, 3, 2, 1)),
    "C3D": (workloads.conv3d_ndhwc, (1, 3, 4, 5, 2, 3, 3, 2, 1)),
    "GMM": (workloads.batch_matmul_nkkm, (2, 5, 6, 7)),
    "GRP": (workloads.conv2d_nhwc, (1, 5, 5, 4, 6, 3, 1, 1, 1, 2)),
    "DIL": (workloads.conv2d_nhwc, (1, 7, 7, 2, 3, 3, 1, 2, 2)),
    "DEP": (workloads.depthwise_conv2d_nhwc, (1, 6, 6, 4, 3, 2, 1)),
    "T2D": (workloads.conv2d_transpose_nhwc, (1, 3, 3, 4, 3, 4, 2, 1)),
    "CAP": (workloads.conv2d_capsule_nhwijc, (1, 4, 4, 2, 2, 3, 2, 1)),
    "NRM": (workloads.norm_bmn, (2, 5, 6)),
    "SFM": (workloads.softmax_mn, (5, 7)),
    "CBR": (workloads.conv2d_nhwc_bn_relu, (1, 5, 5, 3, 4, 3, 2, 1)),
    "TBG": (workloads.transpose_batch_matmul, (1, 5, 3, 4)),
}


def function_of(name: str) -> PrimFunc:
    maker, arguments = SHAPES[name]
    return te.create_prim_func(maker(*arguments))


def arrays_for(func: PrimFunc) -> list[Any]:
    rng = np.random.default_rng(7)
    arrays = []
    for param in func.params:
        buffer = func.buffer_map[param]
        shape = tuple(int(extent) for extent in buffer.shape)  # type: ignore[call-overload]
        numbers = rng.uniform(0.5, 2.0, shape)
        arrays.append(numbers.astype(to_numpy(buffer.dtype)))
    return arrays


def outcome(program: Any, arrays: list[Any], **options: Any) -> list[Any]:
    copies = [array.copy() for array in arrays]
    oracle.run(program, *copies, **options)
    return copies


def assert_same(actual: list[Any], expected: list[Any], tolerance: float) -> None:
    for found, wanted in zip(actual, expected, strict=True):
        if tolerance:
            np.testing.assert_allclose(found, wanted, rtol=tolerance)
        else:
            np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("name", SHAPES)
def test_workload(name: str, c_compiler: str, tmp_path: Path) -> None:
    func = function_of(name)
    assert verify_well_formed(func)
    arrays = arrays_for(func)
    expected = outcome(func, arrays)
    assert any(not np.array_equal(a, b) for a, b in zip(arrays, expected, strict=True))
    assert_same(outcome(func, arrays, options=OracleOptions(plain=True)), expected, 0)

    stages = lower(func, stages=True)
    for stage in stages:
        assert verify_well_formed(stage.module)
        assert_same(outcome(stage.module, arrays), expected, 0)

    from_c = [array.copy() for array in arrays]
    assert CompiledC(stages.module, tmp_path, c_compiler).call(*from_c) == 0
    assert_same(from_c, expected, 4e-7)  # libm rounds exp and tanh its own way

    from_llvm = [array.copy() for array in arrays]
    tw.build(func)(*from_llvm)
    assert_same(from_llvm, expected, 1e-5)  # it may fuse a multiplication and an addition


@pytest.mark.parametrize("name", SHAPES)
def test_workload_as_json(name: str) -> None:
    func = function_of(name)
    again = load_json(save_json(func))
    assert structural_equal(func, again)
    assert structural_hash(func) == structural_hash(function_of(name)) == structural_hash(again)
    lowered = lower(func)
    assert structural_equal(lowered, load_json(save_json(lowered)))


def scheduled_matmul() -> PrimFunc:
    """Tiled with a tail, vectorised, parallel, with a local cache."""

    @T.prim_func
    def main(
        A: T.Buffer((30, 19), "float32"),
        B: T.Buffer((19, 26), "float32"),
        C: T.Buffer((30, 26), "float32"),
    ):
        local = T.alloc_buffer((30, 26), "float32")
        for io in T.parallel(8):
            for jo, k in T.grid(4, 19):
                for ii in T.unroll(4):
                    for ji in T.vectorized(8):
                        with T.block("update"):
                            T.where(io * 4 + ii < 30 and jo * 8 + ji < 26)
                            vi = T.axis.spatial(30, io * 4 + ii)
                            vj = T.axis.spatial(26, jo * 8 + ji)
                            vk = T.axis.reduce(19, k)
                            with T.init():
                                local[vi, vj] = T.float32(0)
                            local[vi, vj] = local[vi, vj] + A[vi, vk] * B[vk, vj]
        for i in T.parallel(30):
            for j in T.vectorized(26):
                with T.block("write"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    C[vi, vj] = T.max(local[vi, vj], T.float32(0.5))

    return main


def integer_mixture() -> PrimFunc:
    """Narrow types, divisions, shifts and a gather."""

    @T.prim_func
    def main(A: T.Buffer((64,), "int8"), I: T.Buffer((64,), "int32"), O: T.Buffer((64,), "int32")):
        for i in range(64):
            with T.block("mix"):
                vi = T.axis.spatial(64, i)
                O[vi] = T.if_then_else(
                    I[vi] % 3 == 0,
                    T.Cast("int32", A[I[vi] % 64]) * 100 // T.max(I[vi] - 30, 1),
                    T.shift_right(I[vi], 2) - (I[vi] - 32) % 5 * (vi // 7),
                )

    return main


def half_precision() -> PrimFunc:
    @T.prim_func
    def main(A: T.Buffer((40,), "float16"), B: T.Buffer((40,), "float16")):
        for i in T.vectorized(40):
            with T.block("half"):
                vi = T.axis.spatial(40, i)
                B[vi] = A[vi] * A[39 - vi] + T.float16(0.1)

    return main


@pytest.mark.parametrize("make", [scheduled_matmul, integer_mixture, half_precision])
def test_scheduled_program(make: Any, c_compiler: str, tmp_path: Path) -> None:
    func = make()
    assert verify_well_formed(func)
    arrays = arrays_for(func)
    if make is integer_mixture:
        rng = np.random.default_rng(3)
        arrays[0] = rng.integers(-128, 128, 64).astype("int8")
        arrays[1] = rng.integers(0, 1000, 64).astype("int32")
    expected = outcome(func, arrays)
    tolerance = 2e-3 if make is half_precision else 0
    lowered = lower(func)
    assert_same(outcome(lowered, arrays), expected, tolerance)
    from_c, from_llvm = ([array.copy() for array in arrays] for _ in "ab")
    assert CompiledC(lowered, tmp_path, c_compiler).call(*from_c) == 0
    assert_same(from_c, expected, tolerance)
    tw.build(func)(*from_llvm)
    assert_same(from_llvm, expected, max(tolerance, 1e-5))
