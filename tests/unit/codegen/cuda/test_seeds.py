"""Recorded schedules of int8 programs for GPUs: they replay, compile, and compute what they should.

Two are of a product with `dp4a`, taken by TVM; one is of a convolution with matrix instructions in
a quantized residual block. The emulator runs them with fewer or smaller blocks.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright.intrin  # noqa: F401
from tilewright import build, ir
from tilewright.ir.intrinsics import call_intrin as call
from tilewright.lowering.context import PassContext
from tilewright.runtime import Module, cuda, ndarray as nd
from tilewright.schedule import Schedule, Trace
from tilewright.space.base import postprocs
from tilewright.target import Target
from tilewright.testing import simt
from tilewright.testing.cuda_kernels import KernelBuilder, as_kernel
from tilewright.testing.gpu_lowering import lower_for_gpu, random_arrays
from tilewright.testing.int8_workloads import (
    create_int8_workload,
    prepare_residual_block,
    residual_block_result,
)
from tilewright.testing.known_gpu_sketches import dense_int8
from tilewright.testing.schedule_checks import verify_trace_roundtrip
from tilewright.testing.space_generation import SpaceTask

RECORDS = Path(__file__).parents[3] / "golden" / "schedule" / "records"
TARGETS = ("nvidia/geforce-rtx-2080-ti", "nvidia/geforce-rtx-3070", "nvidia/nvidia-h200")
DP4A = ("dense_dp4a_1", "dense_dp4a_2")
CONVOLUTION = "conv2d_int8_wmma"
FUNCTIONS: dict[str, Callable[[], ir.PrimFunc]] = {
    **dict.fromkeys(DP4A, lambda: dense_int8(1024, 1024, 1024)),
    CONVOLUTION: lambda: create_int8_workload("Conv2dInt8"),
}
STEPS = (
    "RewriteCooperativeFetch",
    "RewriteParallelVectorizeUnroll",
    "RewriteReductionBlock",
    "RewriteTensorize",
)
# The extents of a smaller product for each record, and the tiles that make it of the same blocks.
SMALLER = {
    "dense_dp4a_1": ((64, 128, 64), {9: [1, 1, 2, 4, 8], 11: [1, 1, 16, 1, 8], 13: [2, 8, 1]}),
    "dense_dp4a_2": ((512, 1024, 32), {9: [1, 2, 32, 1, 8], 13: [2, 4, 1]}),
}


@pytest.fixture
def _compiler() -> None:
    pytest.importorskip("cuda.core", reason="NVRTC is missing: pip install tilewright[cuda]")


def recorded(name: str) -> Any:
    return json.loads((RECORDS / f"{name}.json").read_text(encoding="utf-8"))


def replay(trace: Any, func: ir.PrimFunc, *, finished: bool = True) -> Schedule:
    """The schedule of a record; without the steps of post-processors if it is not finished."""
    module = ir.IRModule({"main": func})
    sch = Schedule(module)
    Trace.apply_json_to_schedule(trace, sch)
    if finished:
        return sch
    assert sch.trace is not None
    bare = Schedule(module)
    sch.trace.apply_to_schedule(bare, remove_postproc=True)
    return bare


def with_tiles(name: str, tiles: dict[int, list[int]]) -> Any:
    """A record with other decisions of some of its steps."""
    insts, decisions = recorded(name)
    return [insts, [[step, tiles.get(step, value)] for step, value in decisions]]


def emulated(scheduled: ir.IRModule, arrays: list[Any]) -> Any:
    simt.run(lower_for_gpu(scheduled, TARGETS[-1]), arrays)
    return arrays[-1]


def product(arrays: list[Any]) -> Any:
    x, w = (array.astype("float64") for array in arrays[:2])  # exact
    return (x @ w.T).astype("int32")


def residual_block_arrays(func: ir.PrimFunc) -> list[Any]:
    arrays = random_arrays(func)
    for data in arrays[:2]:
        data *= 25
    prepare_residual_block(arrays)
    return arrays


def test_the_record_of_the_convolution_replays() -> None:
    trace, func = recorded(CONVOLUTION), FUNCTIONS[CONVOLUTION]()
    sch = replay(trace, func)
    assert sch.trace is not None
    assert sch.trace.as_json() == trace
    verify_trace_roundtrip(sch, ir.IRModule({"main": func}), text_format="json")


# --- compiling ----------------------------------------------------------------------------------


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", DP4A)
@pytest.mark.usefixtures("_compiler")
def test_a_product_compiles(name: str, target: str) -> None:
    module = build(replay(recorded(name), FUNCTIONS[name]()).mod, target)
    assert "__dp4a(" in module.get_source("cuda")
    assert list(module.resources) == ["main_kernel"]
    assert module.resources["main_kernel"]["shared_bytes"] == 24576


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.usefixtures("_compiler")
def test_the_convolution_compiles(target: str) -> None:
    module = build(replay(recorded(CONVOLUTION), FUNCTIONS[CONVOLUTION]()).mod, target)
    text = module.get_source("cuda")
    for instruction in (
        "wmma.load.a.sync.aligned.row.m16n16k16.shared.s8",
        "wmma.load.b.sync.aligned.col.m16n16k16.shared.s8",
        "wmma.mma.sync.aligned.row.col.m16n16k16.s32.s8.s8.s32",
        "wmma.store.d.sync.aligned.row.m16n16k16.shared.s32",
    ):
        assert text.count(instruction) == 1
    assert module.resources["main_kernel"]["spill_stores"] == 0


@pytest.mark.parametrize("name", DP4A)
def test_the_steps_of_post_processors(name: str) -> None:
    """They turn the recorded candidate into the recorded program, down to its CUDA C++."""
    func, target = FUNCTIONS[name](), Target(TARGETS[1])
    sch = replay(recorded(name), func, finished=False)
    assert "__dp4a" not in sch.mod.script()
    for step in STEPS:
        member = postprocs.create(step)
        member._initialize_with_tune_context(SpaceTask(ir.IRModule({"main": func}), target))
        assert member.apply(sch), step
    finished = replay(recorded(name), func)
    assert ir.structural_equal(lower_for_gpu(sch.mod), lower_for_gpu(finished.mod))


# --- numbers, emulated --------------------------------------------------------------------------


@pytest.mark.parametrize("name", DP4A)
def test_a_product_emulated(name: str) -> None:
    (m, n, k), tiles = SMALLER[name]
    func = dense_int8(m, n, k)
    sch = replay(with_tiles(name, tiles), func)
    arrays = random_arrays(func)
    np.testing.assert_array_equal(emulated(sch.mod, arrays), product(arrays))


def test_the_convolution_emulated() -> None:
    """One image in place of 16."""
    func = create_int8_workload("Conv2dInt8", N=1)
    sch = replay(with_tiles(CONVOLUTION, {46: [49, 1, 2, 1, 2]}), func)
    arrays = residual_block_arrays(func)
    expected = residual_block_result(arrays)
    assert len(np.unique(expected)) > 10
    np.testing.assert_array_equal(emulated(sch.mod, arrays), expected)


def test_matrix_instructions_that_race() -> None:
    func = create_int8_workload("Conv2dInt8", N=1)
    sch = replay(with_tiles(CONVOLUTION, {46: [49, 1, 2, 1, 2]}), func)
    with (
        PassContext(disabled_pass=["ThreadSync"]),
        pytest.raises(simt.RaceError, match="a thread reads buf_shmem where another wrote"),
    ):
        emulated(sch.mod, random_arrays(func))


def test_matrix_instructions_of_half_a_warp() -> None:
    kernel = KernelBuilder()
    fragment = kernel.ib.allocate("float32", 256, "fragment", "wmma.accumulator").buffer.data
    with kernel.ib.if_scope(kernel.tx < 16):
        kernel.ib.emit(call("void", "tir.tvm_fill_fragment", fragment, 16, 16, 16, 0, 1.0))
    launch = call("int32", "tir.tvm_call_packed", "kernel", 4, 32)
    func = as_kernel(kernel.function).with_attr(
        "tir.kernel_launch_params", ["blockIdx.x", "threadIdx.x"]
    )
    module = ir.IRModule({"main": ir.PrimFunc((), ir.Evaluate(launch)), "kernel": func})
    with pytest.raises(simt.RaceError) as caught:
        simt.run(module, [])
    assert str(caught.value) == "some threads of a warp do not reach a matrix instruction"


# --- numbers, on a GPU --------------------------------------------------------------------------


def on_device(module: Module, arrays: list[Any]) -> Any:
    there = [nd.array(array, cuda()) for array in arrays]
    module(*there)
    return there[-1].numpy()


@pytest.mark.cuda
@pytest.mark.parametrize("name", DP4A)
def test_a_product_on_a_gpu(name: str) -> None:
    func = FUNCTIONS[name]()
    arrays = random_arrays(func)
    found = on_device(build(replay(recorded(name), func).mod, "cuda"), arrays)
    np.testing.assert_array_equal(found, product(arrays))


@pytest.mark.cuda
def test_the_convolution_on_a_gpu() -> None:
    func = FUNCTIONS[CONVOLUTION]()
    arrays = residual_block_arrays(func)
    found = on_device(build(replay(recorded(CONVOLUTION), func).mod, "cuda"), arrays)
    np.testing.assert_array_equal(found, residual_block_result(arrays))
