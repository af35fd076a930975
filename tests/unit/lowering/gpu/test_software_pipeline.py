# mypy: disable-error-code="valid-type, no-untyped-def"
"""Pipelined loops compute the same, with as many copies of buffers as are under way."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright import ir
from tilewright.errors import LowerError
from tilewright.script import tir as T
from tilewright.testing.gpu_lowering import count_barriers, lower_for_gpu, result_on_gpu
from tilewright.testing.gpu_programs import pipelined


def reversed_rows(
    rows: int, stages: list[int], order: list[int], asynchronous: list[int]
) -> ir.PrimFunc:
    """Threads fetch a row together and read each other's elements."""

    @T.prim_func
    def main(A: T.Buffer((rows, 128), "float32"), B: T.Buffer((rows, 128), "float32")):
        X = T.alloc_buffer((rows, 128), "float32", scope="shared")
        for _b in T.thread_binding(1, thread="blockIdx.x"):
            for t in T.thread_binding(32, thread="threadIdx.x"):
                for k in T.serial(
                    rows,
                    annotations={
                        "software_pipeline_stage": stages,
                        "software_pipeline_order": order,
                        "software_pipeline_async_stages": asynchronous,
                    },
                ):
                    for v in T.vectorized(4):
                        with T.block("X"):
                            vk = T.axis.spatial(rows, k)
                            vi = T.axis.spatial(128, t * 4 + v)
                            X[vk, vi] = A[vk, vi]
                    for i in range(4):
                        with T.block("B"):
                            vk = T.axis.spatial(rows, k)
                            vi = T.axis.spatial(128, i * 32 + t)
                            B[vk, vi] = X[vk, 127 - vi] + 1.0

    return main


def check(func: ir.PrimFunc) -> ir.IRModule:
    lowered = lower_for_gpu(func)
    before, after = result_on_gpu(func, lowered)
    np.testing.assert_array_equal(after, before[:, ::-1] + 1)
    return lowered


@pytest.mark.parametrize("stages", [1, 2, 3])
def test_threads_that_read_their_own_elements_need_no_barrier(stages: int) -> None:
    func = pipelined(64, stages)
    lowered = lower_for_gpu(func)
    before, after = result_on_gpu(func, lowered)
    np.testing.assert_array_equal(after, before + 1)
    assert count_barriers(lowered) == 0
    assert f'T.allocate([{64 * (stages + 1)}], "float32", "shared")' in str(lowered)


@pytest.mark.parametrize("rows", [1, 2, 3, 4, 9])
@pytest.mark.parametrize("stage", [0, 1, 2, 3])
@pytest.mark.parametrize("order", [[0, 1], [1, 0]])
def test_rows(rows: int, stage: int, order: list[int]) -> None:
    if stage or order == [0, 1]:
        check(reversed_rows(rows, [0, stage], order, []))


@pytest.mark.parametrize("rows", [1, 2, 3, 4, 9])
@pytest.mark.parametrize("stage", [1, 2, 3])
@pytest.mark.parametrize("order", [[0, 1], [1, 0]])
def test_rows_that_arrive_late(rows: int, stage: int, order: list[int]) -> None:
    lowered = check(reversed_rows(rows, [0, stage], order, [0]))
    assert "T.ptx_cp_async" in str(lowered)


def test_one_barrier_an_iteration_if_copies_come_after_their_readers() -> None:
    kernel = str(check(reversed_rows(16, [0, 2], [1, 0], [0])))
    loop = kernel[kernel.index("for k in range(14)") :]
    assert loop.index("ptx_wait_group(1)") < loop.index("tvm_storage_sync")


@pytest.mark.parametrize(
    ("stages", "order", "message"),
    [
        (
            [0, 1, 1],
            [0, 1, 2],
            "loop 'k' has 2 statements, but software_pipeline_stage names 3 and "
            "software_pipeline_order 3 of them",
        ),
        (
            [0, 1],
            [0, 0],
            "loop 'k': software_pipeline_order [0, 0] is not an order of its statements",
        ),
        (
            [1, 0],
            [0, 1],
            "loop 'k': its pipeline reads X before it is written; give the statement that writes "
            "an earlier stage or place",
        ),
    ],
)
def test_wrong_notes(stages: list[int], order: list[int], message: str) -> None:
    with pytest.raises(LowerError) as caught:
        lower_for_gpu(reversed_rows(4, stages, order, []))
    assert str(caught.value) == message
