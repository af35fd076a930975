"""Vectors of a length that backends are bad at are taken in pieces of a power of two."""

# mypy: disable-error-code="valid-type, no-untyped-def"

from __future__ import annotations

import re

import numpy as np
import pytest

import tilewright as tw
from tilewright.ir import PrimFunc
from tilewright.script import tir as T


def scaled(extent: int) -> PrimFunc:
    @T.prim_func
    def main(A: T.Buffer((3, extent), "float32"), B: T.Buffer((3, extent), "float32")):
        T.func_attr({"global_symbol": "main", "tir.noalias": T.bool(True)})
        for i in range(3):
            for j in T.vectorized(extent):
                with T.block("B"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    B[vi, vj] = A[vi, vj] * T.float32(2)

    result: PrimFunc = main
    return result


@pytest.mark.parametrize(
    ("extent", "lanes"), [(48, 16), (24, 8), (12, 4), (20, 4), (32, 32), (16, 16), (7, 7), (6, 6)]
)
def test_pieces(extent: int, lanes: int) -> None:
    text = str(tw.lower(scaled(extent)))
    assert f"T.Broadcast(T.float32(2), {lanes})" in text
    assert ("T.unroll" in text) == (lanes != extent)


@pytest.mark.parametrize(
    ("extent", "widths"), [(17, [16]), (33, [32]), (127, [64, 32, 16, 15]), (130, [64, 2])]
)
def test_lengths_that_llvm_may_fail_on(extent: int, widths: list[int]) -> None:
    text = str(tw.lower(scaled(extent)))
    found = re.findall(r"T\.Broadcast\(T\.float32\(2\), (\d+)\)", text)
    assert list(map(int, found)) == widths


@pytest.mark.parametrize("extent", [48, 24, 12, 20, 7, 17, 33, 127, 130, 4099])
def test_results(extent: int) -> None:
    a = np.random.rand(3, extent).astype("float32")
    b = np.zeros_like(a)
    tw.build(scaled(extent))(a, b)
    np.testing.assert_array_equal(b, a * 2)
