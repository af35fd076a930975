"""Barriers stand where threads meet in shared memory, and nowhere else."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright import ir
from tilewright.errors import LowerError
from tilewright.script import from_source
from tilewright.testing.gpu_lowering import count_barriers, lower_for_gpu, result_on_gpu

FORM = """
@T.prim_func
def main(A: T.Buffer((64, 64), "float32"), B: T.Buffer((64, 64), "float32")):
    with T.block("root"):
        X = T.alloc_buffer((128,), scope="shared")
        for t in T.thread_binding(64, thread="threadIdx.x"):
            with T.block(""):
                T.reads(A[0:64, 0:64])
                T.writes(B[0:64, 0:64])
"""


def program(body: str) -> ir.PrimFunc:
    """Statements of the threads `t`, which share X."""
    lines = "\n".join(" " * 16 + line for line in body.strip("\n").splitlines())
    func = from_source(FORM + lines)
    assert isinstance(func, ir.PrimFunc)
    return func


# Statements, and how many barriers their text gets.
CASES = {
    "its own element": ("X[t] = A[0, t]\nB[0, t] = X[t]", 0),
    "another's element": ("X[t] = A[0, t]\nB[0, t] = X[63 - t]", 1),
    "other elements": (
        "X[t] = A[0, t]\nB[0, t] = X[t]\nX[t + 64] = A[1, t]\nB[1, t] = X[t + 64]",
        0,
    ),
    "read, then overwritten": (
        "X[t] = A[0, t]\nB[0, t] = X[63 - t]\nX[t] = A[1, t]\nB[1, t] = X[t]",
        2,
    ),
    "a loop": ("for k in range(64):\n    X[t] = A[k, t]\n    B[k, t] = X[63 - t]", 2),
    "a loop over two buffers": (
        "X[t] = A[0, t]\nfor k in range(63):\n    X[(k + 1) % 2 * 64 + t] = A[k + 1, t]\n"
        "    B[k, t] = X[k % 2 * 64 + 63 - t]",
        1,
    ),
    "one barrier for two reads": (
        "X[t] = A[0, t]\nX[t + 64] = A[1, t]\nB[0, t] = X[63 - t]\nB[1, t] = X[127 - t]",
        1,
    ),
    "halves that meet": (
        "X[t] = A[0, t]\nif t < 32:\n    X[t] = X[t] + X[t + 32]\nB[0, t] = X[t]",
        1,
    ),
    "a branch for all threads": (
        "for k in range(2):\n    X[t] = A[k, t]\n    if k > 0:\n        B[k, t] = X[63 - t]",
        2,
    ),
    "statements of some threads": (
        "if t < 32:\n    X[t] = A[0, t]\n    B[0, t] = X[31 - t]",
        1,
    ),
    "a barrier that is there": (
        'X[t] = A[0, t]\nT.tvm_storage_sync("shared")\nB[0, t] = X[63 - t]',
        1,
    ),
    "loops one after the other": (
        "for k in range(2):\n    X[k * 64 + t] = A[k, t]\n"
        "for k in range(2):\n    B[k, t] = X[k * 64 + 63 - t]",
        1,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_as_many_barriers_as_needed(name: str) -> None:
    body, barriers = CASES[name]
    func = program(body)
    lowered = lower_for_gpu(func)
    assert count_barriers(lowered) == barriers, lowered
    result_on_gpu(func, lowered)  # races and divergent barriers are errors


def test_the_reversed_rows() -> None:
    func = program(CASES["a loop over two buffers"][0])
    before, after = result_on_gpu(func, lower_for_gpu(func))
    np.testing.assert_array_equal(after[:63], before[:63, ::-1])


@pytest.mark.parametrize(
    ("body", "place"),
    [
        (
            "if t < 32:\n    for k in range(2):\n        X[t] = A[k, t]\n"
            "        B[k, t] = X[31 - t]",
            "`if threadIdx_x < 32`",
        ),
        (
            "for k in range(t):\n    X[t] = A[k, t]\n    B[k, t] = X[63 - t]",
            "the loop over k",
        ),
    ],
)
def test_barriers_that_not_all_threads_reach(body: str, place: str) -> None:
    with pytest.raises(LowerError) as caught:
        lower_for_gpu(program(body))
    assert str(caught.value) == (
        f"threads must wait for each other inside of {place}, which not all of them enter; let all "
        "threads of a block run the same loops and branches around shared memory"
    )
