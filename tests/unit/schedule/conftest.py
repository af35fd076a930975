# mypy: disable-error-code="valid-type, no-untyped-def"
"""Small programs for the tests of schedules."""

from __future__ import annotations

import pytest

from tilewright.ir import PrimFunc
from tilewright.script import tir as T


@pytest.fixture
def matmul() -> PrimFunc:
    """A reduction of 32 x 48 x 24."""

    @T.prim_func
    def main(
        A: T.Buffer((32, 24), "float32"),
        B: T.Buffer((24, 48), "float32"),
        C: T.Buffer((32, 48), "float32"),
    ):
        T.func_attr({"tir.noalias": T.bool(True)})
        for i, j, k in T.grid(32, 48, 24):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]

    return main


@pytest.fixture
def chain() -> PrimFunc:
    """Two elementwise stages through an intermediate buffer."""

    @T.prim_func
    def main(A: T.Buffer((16, 12), "float32"), C: T.Buffer((16, 12), "float32")):
        T.func_attr({"tir.noalias": T.bool(True)})
        B = T.alloc_buffer((16, 12), "float32")
        for i, j in T.grid(16, 12):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] * T.float32(2)
        for i, j in T.grid(16, 12):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B[vi, vj] + T.float32(1)

    return main


@pytest.fixture
def symbolic() -> PrimFunc:
    """An elementwise stage over `n` rows."""

    @T.prim_func
    def main(a: T.handle, b: T.handle, n: T.int32):
        A = T.match_buffer(a, (n, 16), "float32")
        B = T.match_buffer(b, (n, 16), "float32")
        for i, j in T.grid(n, 16):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] + T.float32(1)

    return main
