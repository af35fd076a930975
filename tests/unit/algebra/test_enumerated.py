"""Footprints from the algebra equal boxes by brute force, on small programs with ragged tiles."""

from __future__ import annotations

import pytest

from tilewright import te
from tilewright.ir import PrimFunc
from tilewright.target import Target
from tilewright.testing.algebra_boxes import boxes_that_differ
from tilewright.workloads.convolutions import conv2d_nhwc

CPU = Target("llvm -mcpu=cascadelake -num-cores 4")
GPU = Target("nvidia/geforce-rtx-3080")


def matmul(m: int, n: int, k: int) -> PrimFunc:
    a, b = te.placeholder((m, k), name="A"), te.placeholder((k, n), name="B")
    i = te.reduce_axis((0, k), name="k")
    c = te.compute((m, n), lambda x, y: te.sum(a[x, i] * b[i, y], axis=i), name="C")
    return te.create_prim_func([a, b, c])


def convolution(size: int, channels: int) -> PrimFunc:
    return te.create_prim_func(conv2d_nhwc(1, size, size, channels, 8, 3, 1, 1))


@pytest.mark.parametrize(("m", "n", "k"), [(13, 40, 9), (16, 64, 8), (7, 33, 5)])
def test_ragged_tiles_on_a_cpu(m: int, n: int, k: int) -> None:
    assert boxes_that_differ(matmul(m, n, k), CPU, "tilewright", 0, 6) == []


def test_fetches_on_a_gpu() -> None:
    assert boxes_that_differ(matmul(32, 32, 16), GPU, "post-order-apply", 0, 6) == []


@pytest.mark.slow
def test_more_fetches_on_a_gpu() -> None:
    assert boxes_that_differ(matmul(32, 64, 32), GPU, "post-order-apply", 0, 40) == []


def test_a_small_convolution() -> None:
    assert boxes_that_differ(convolution(7, 4), CPU, "post-order-apply", 2, 6) == []
