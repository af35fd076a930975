# mypy: disable-error-code="valid-type, no-untyped-def"
"""DisallowAsyncStridedMemCopy and VerifyVTCMLimit: members for machines with a copy engine."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tilewright.ir import PrimFunc
from tilewright.schedule import Schedule
from tilewright.script import tir as T
from tilewright.space.postprocs import DisallowAsyncStridedMemCopy, VerifyVTCMLimit


def pipeline(row: int, asynchronous: int) -> PrimFunc:
    """Rows of 16 elements, `row` apart, are copied ahead of their use."""

    @T.prim_func
    def main(A: T.Buffer((8, row), "float32"), C: T.Buffer((8, 16), "float32")):
        X = T.alloc_buffer((8, 16), "float32", scope="global.vtcm")
        for k in T.serial(
            8,
            annotations={
                "software_pipeline_stage": [0, 1],
                "software_pipeline_order": [0, 1],
                "software_pipeline_async_stages": [asynchronous],
            },
        ):
            for i in range(16):
                with T.block("X"):
                    vk, vi = T.axis.remap("SS", [k, i])
                    X[vk, vi] = A[vk, vi]
            for i in range(16):
                with T.block("C"):
                    vk, vi = T.axis.remap("SS", [k, i])
                    C[vk, vi] = X[vk, vi] + 1.0

    return main


@pytest.mark.parametrize(
    ("row", "asynchronous", "accepted"),
    [
        (16, 0, True),
        (17, 0, False),  # rows with gaps between them
        (17, 5, True),  # nothing is asynchronous
    ],
)
def test_gaps_between_rows(row: int, asynchronous: int, accepted: bool) -> None:
    sch = Schedule(pipeline(row, asynchronous))
    assert DisallowAsyncStridedMemCopy().apply(sch) is accepted


@T.prim_func
def product(A: T.Buffer((64, 64)), B: T.Buffer((64, 64)), C: T.Buffer((64, 64))):
    for i, j, k in T.grid(64, 64, 64):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = 0.0
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]


@pytest.mark.parametrize("last_stage", [1, 2, 3])
@pytest.mark.parametrize(
    ("operand", "place", "accepted"),
    [
        (0, 0, True),  # rows
        (0, 1, True),
        (1, 0, True),  # all of it
        (1, 1, False),  # columns
        (1, 2, True),  # one element
    ],
)
def test_copies_within_a_loop(operand: int, place: int, accepted: bool, last_stage: int) -> None:
    """As TVM answers, where it does: not for a copy of one element, nor of all."""
    sch = Schedule(product)
    loop = sch.get_loops("C")[place]
    sch.compute_at(sch.cache_read("C", operand, "global.vtcm"), loop)
    sch.annotate(loop, "software_pipeline_stage", [0, last_stage])
    sch.annotate(loop, "software_pipeline_order", [0, 1])
    sch.annotate(loop, "software_pipeline_async_stages", [0])
    assert DisallowAsyncStridedMemCopy().apply(sch) is accepted


def limited(capacity: int | None) -> VerifyVTCMLimit:
    made = VerifyVTCMLimit()
    attrs: dict[str, Any] = {} if capacity is None else {"vtcm-capacity": capacity}
    made._initialize_with_tune_context(SimpleNamespace(target=SimpleNamespace(attrs=attrs)))
    return made


@pytest.mark.parametrize(
    ("capacity", "accepted"), [(None, True), (0, True), (64, True), (63, False)]
)
def test_capacity(capacity: int | None, accepted: bool) -> None:
    assert limited(capacity).apply(Schedule(pipeline(16, 0))) is accepted
