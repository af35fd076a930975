"""`build` for a GPU: from a schedule to results, on a real one."""

# The annotations of a kernel are script, not types.
# mypy: disable-error-code="valid-type, no-untyped-def, no-untyped-call"

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright.runtime import cuda, load_module, ndarray as nd
from tilewright.script import tir as T

pytestmark = pytest.mark.cuda


@T.prim_func
def matmul(a: T.handle, B: T.Buffer((64, 48), "float32"), c: T.handle):
    n = T.int32()
    A = T.match_buffer(a, (n, 64), "float32")
    C = T.match_buffer(c, (n, 48), "float32")
    for i, j, k in T.grid(n, 48, 64):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] += A[vi, vk] * B[vk, vj]


def bound() -> Any:
    sch = tw.tir.Schedule(matmul)
    i, j, _ = sch.get_loops("C")
    io, ii = sch.split(i, [None, 8])
    jo, ji = sch.split(j, [None, 16])
    sch.reorder(io, jo, ii, ji)
    tags = ("blockIdx.y", "blockIdx.x", "threadIdx.y", "threadIdx.x")
    for loop, tag in zip((io, jo, ii, ji), tags, strict=True):
        sch.bind(loop, tag)
    return sch.mod


def check(module: tw.runtime.Module, rows: int) -> None:
    rng = np.random.default_rng(rows)
    a, b = rng.random((rows, 64), "float32"), rng.random((64, 48), "float32")
    c = nd.array(np.full((rows, 48), np.nan, "float32"), cuda())
    module(nd.array(a, cuda()), nd.array(b, cuda()), c)
    np.testing.assert_allclose(c.numpy(), a @ b, rtol=1e-5)


@pytest.mark.parametrize("rows", [1, 7, 8, 130])
def test_a_matrix_product_of_any_size(rows: int) -> None:
    check(tw.build(bound(), "cuda"), rows)


def test_loops_without_threads() -> None:
    check(tw.build(matmul, "cuda"), 130)


def test_its_file(tmp_path: Path) -> None:
    module = tw.build(bound(), "cuda")
    (file,) = module.export_library(tmp_path / "matmul.cubin")
    check(load_module(file), 9)


def test_its_time() -> None:
    module = tw.build(bound(), "cuda")
    arrays = [nd.zeros(shape, "float32", cuda()) for shape in ((512, 64), (64, 48), (512, 48))]
    result = module.time_evaluator(module.entry_name, number=50, repeat=3)(*arrays)
    print(f"\n{result}")
    assert 0 < result.median < 1
