# mypy: disable-error-code="valid-type, no-untyped-def"
"""Threads that reduce together, in groups of all kinds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tilewright import ir
from tilewright.errors import LowerError
from tilewright.script import tir as T
from tilewright.testing.gpu_lowering import lower_for_gpu, result_on_gpu


def row_sums(rows: int, columns: int, x: int, y: int, reduced: str) -> ir.PrimFunc:
    """Sums by threads along `reduced` ("x", "y" or "xy"); the others have rows of their own."""
    width = (x if "x" in reduced else 1) * (y if "y" in reduced else 1)
    height = x * y // width
    steps, groups = -(-columns // width), -(-rows // height)

    def inner(tx: Any, ty: Any) -> Any:
        return {"x": tx, "y": ty, "xy": ty * x + tx}[reduced]

    def outer(tx: Any, ty: Any) -> Any:
        return {"x": ty, "y": tx, "xy": 0}[reduced]

    @T.prim_func
    def main(A: T.Buffer((rows, columns), "float32"), B: T.Buffer((rows,), "float32")):
        for b in T.thread_binding(groups, thread="blockIdx.x"):
            for ty in T.thread_binding(y, thread="threadIdx.y"):
                for tx in T.thread_binding(x, thread="threadIdx.x"):
                    for k in range(steps):
                        with T.block("B"):
                            vi = T.axis.spatial(rows, b * height + outer(tx, ty))
                            vk = T.axis.reduce(columns, k * width + inner(tx, ty))
                            T.where(
                                b * height + outer(tx, ty) < rows
                                and k * width + inner(tx, ty) < columns
                            )
                            with T.init():
                                B[vi] = T.float32(0)
                            B[vi] = B[vi] + A[vi, vk]

    return main


@pytest.mark.parametrize(
    ("x", "y", "reduced"),
    [
        (32, 1, "x"), (8, 4, "x"), (64, 2, "x"), (96, 1, "x"), (12, 2, "x"), (16, 8, "y"),
        (8, 16, "xy"), (1, 32, "y"), (256, 1, "x"), (5, 3, "xy"),
    ],
)  # fmt: skip
def test_groups(x: int, y: int, reduced: str) -> None:
    func = row_sums(16, 100, x, y, reduced)
    rows, sums = result_on_gpu(func, lower_for_gpu(func))
    np.testing.assert_allclose(sums, rows.sum(axis=1), rtol=1e-4, atol=1e-4)


def test_a_group_within_a_warp_needs_no_shared_memory() -> None:
    text = str(lower_for_gpu(row_sums(16, 128, 16, 4, "x")))
    assert "tvm_warp_shuffle_xor" in text
    assert '"shared"' not in text


def test_an_update_that_nobody_knows() -> None:
    @T.prim_func
    def main(A: T.Buffer((32,), "float32"), B: T.Buffer((1,), "float32")):
        for t in T.thread_binding(32, thread="threadIdx.x"):
            with T.block("B"):
                vi = T.axis.spatial(1, 0)
                vk = T.axis.reduce(32, t)
                with T.init():
                    B[vi] = T.float32(0)
                B[vi] = B[vi] * T.float32(2) + A[vk]

    with pytest.raises(LowerError) as caught:
        lower_for_gpu(main)
    assert str(caught.value) == (
        "block 'B' is reduced by threads, but its update is not a known commutative reduction; "
        "bind another loop, or write a sum, product, min, max or argmax"
    )
