# mypy: disable-error-code="valid-type, no-untyped-def"
"""The init of reductions that may have no step runs before their loops."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.driver import build
from tilewright.ir import structural_equal
from tilewright.lowering.lower_init_block import LowerInitBlock
from tilewright.script import tir as T
from tilewright.testing import oracle


@T.prim_func
def ragged(
    n: T.Buffer((4,), "int32"), A: T.Buffer((4, 8), "float32"), B: T.Buffer((8,), "float32")
):
    for k0 in range(4):
        for i in range(8):
            for k1 in range(n[k0]):
                with T.block("B"):
                    vi = T.axis.spatial(8, i)
                    v0 = T.axis.reduce(4, k0)
                    _ = T.axis.reduce(8, k1)
                    T.reads(A[v0, vi])
                    T.writes(B[vi])
                    with T.init():
                        B[vi] = T.float32(0)
                    B[vi] = B[vi] + A[v0, vi]


def test_before_the_outermost_loop_of_the_reduction() -> None:
    @T.prim_func
    def expected(
        n: T.Buffer((4,), "int32"), A: T.Buffer((4, 8), "float32"), B: T.Buffer((8,), "float32")
    ):
        T.func_attr({"global_symbol": "ragged"})
        for i in range(8):
            with T.block("B_init"):
                vi = T.axis.spatial(8, i)
                T.reads()
                T.writes(B[vi])
                B[vi] = T.float32(0)
        for k0 in range(4):
            for i in range(8):
                for k1 in range(n[k0]):
                    with T.block("B"):
                        vi = T.axis.spatial(8, i)
                        v0 = T.axis.reduce(4, k0)
                        _ = T.axis.reduce(8, k1)
                        T.reads(B[vi], A[v0, vi])
                        T.writes(B[vi])
                        B[vi] = B[vi] + A[v0, vi]

    assert structural_equal(LowerInitBlock().run_function(ragged), expected)


@pytest.mark.parametrize("counts", [[0, 2, 0, 1], [0, 0, 0, 0], [3, 0, 1, 2], [-1, 1, 0, 0]])
def test_it_runs_whichever_steps_there_are(counts: list[int]) -> None:
    n = np.array(counts, np.int32)
    a = np.arange(32, dtype=np.float32).reshape(4, 8)
    expected = (np.maximum(n, 0)[:, None] * a).sum(axis=0)
    for run in (build(ragged, "llvm"), lambda *args: oracle.run(ragged, *args)):
        b = np.full(8, 77, np.float32)
        run(n, a, b)
        np.testing.assert_array_equal(b, expected)
