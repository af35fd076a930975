"""Programs without threads on a GPU: their loops are shared among threads."""

# The annotations of a kernel are script, not types.
# mypy: disable-error-code="valid-type, no-untyped-def, no-untyped-call"

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import tilewright as tw
from tilewright import te, topi
from tilewright.errors import LowerError
from tilewright.ir import IRModule, PrimFunc, as_module, structural_equal
from tilewright.script import tir as T
from tilewright.space.gpu.plain_loops import with_threads
from tilewright.target import Target
from tilewright.testing.gpu_lowering import lower_for_gpu
from tilewright.testing.simt import run
from tilewright.tune import default_schedule

GPU = Target("nvidia/nvidia-h200")


def product_of_any_size() -> PrimFunc:
    rows = te.var("rows")
    a, b = te.placeholder((rows, 16), name="A"), te.placeholder((16, 12), name="B")
    return te.create_prim_func([a, b, topi.matmul(a, b)])


matmul = product_of_any_size()


@T.prim_func
def total(A: T.Buffer((100,), "float32"), B: T.Buffer((), "float32")):
    for k in range(100):
        with T.block("B"):
            vk = T.axis.reduce(100, k)
            with T.init():
                B[()] = T.float32(0)
            B[()] += A[vk]


@T.prim_func
def on_cores(A: T.Buffer((6, 40), "float32"), B: T.Buffer((6, 40), "float32")):
    for i in T.parallel(6):
        for j in T.vectorized(40):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] + T.float32(1)


def bound() -> tw.tir.Schedule:
    sch = tw.tir.Schedule(matmul)
    (block,) = sch.get_child_blocks(sch.get_block("root"))
    sch.bind(sch.get_loops(block)[0], "threadIdx.x")
    return sch


@pytest.mark.parametrize("rows", [1, 7, 130])
def test_a_product_of_any_size(rows: int) -> None:
    a = np.random.default_rng(0).integers(-3, 4, (rows, 16)).astype("float32")
    b = np.random.default_rng(1).integers(-3, 4, (16, 12)).astype("float32")
    c = np.full((rows, 12), np.nan, "float32")
    run(lower_for_gpu(with_threads(as_module(matmul), GPU), str(GPU)), [a, b, c], [rows])
    np.testing.assert_array_equal(c, a @ b)


def test_a_sum_of_everything() -> None:
    a, b = np.arange(100, dtype="float32"), np.array(np.nan, "float32")
    run(lower_for_gpu(with_threads(as_module(total), GPU), str(GPU)), [a, b])
    assert b == 4950


@pytest.mark.parametrize(
    "schedule", [with_threads, lambda mod, gpu: default_schedule(mod, gpu).mod]
)
def test_loops_for_the_cores_of_a_cpu(schedule: Callable[[IRModule, Target], IRModule]) -> None:
    a, b = np.ones((6, 40), "float32"), np.zeros((6, 40), "float32")
    run(lower_for_gpu(schedule(as_module(on_cores), GPU), str(GPU)), [a, b])
    np.testing.assert_array_equal(b, a + 1)


def test_build_does_it() -> None:
    pytest.importorskip("cuda.bindings")
    assert "threadIdx.x" in tw.build(matmul, target=GPU).get_source("cuda")


def test_threads_that_are_bound_stay_as_they_are() -> None:
    module = bound().mod
    assert structural_equal(with_threads(module, GPU), module)


def test_what_is_left_outside_of_threads_is_refused() -> None:
    sch = tw.tir.Schedule(as_module(total))
    copy = sch.cache_write(sch.get_block("B"), 0, "global")
    assert copy is not None
    loop = sch.add_unit_loop(copy)
    sch.bind(loop, "threadIdx.x")
    with pytest.raises(LowerError, match="outside of all threads"):
        tw.build(sch.mod, target=GPU)
