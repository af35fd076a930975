"""Layers with their bias and activation on tensor cores: candidates compile, and compute alike."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from tilewright import build, ir, te, topi
from tilewright.runtime import cuda, ndarray as nd
from tilewright.schedule import Schedule
from tilewright.target import Target
from tilewright.testing import oracle, simt
from tilewright.testing.gpu_lowering import candidates, lower_for_gpu, random_arrays

AMPERE, HOPPER = "nvidia/geforce-rtx-3070", "nvidia/nvidia-h200"


def wide(value: Any) -> Any:
    return value.astype("float32")


def dense_gelu(m: int, n: int, k: int) -> ir.PrimFunc:
    a, b = te.placeholder((m, k), "float16", name="A"), te.placeholder((k, n), "float16", name="B")
    bias, r = te.placeholder((n,), "float16", name="bias"), te.reduce_axis((0, k), name="r")
    c = te.compute((m, n), lambda i, j: te.sum(wide(a[i, r]) * wide(b[r, j]), axis=r), name="C")

    def activated(i: Any, j: Any) -> Any:
        x = c[i, j] + wide(bias[j])
        half, root = ir.const(0.5, "float32"), ir.const(0.5**0.5, "float32")
        return (x * half * (te.erf(x * root) + ir.const(1.0, "float32"))).astype("float16")

    return te.create_prim_func([a, b, bias, te.compute((m, n), activated, name="D")])


def conv_relu(size: int, channels: int, filters: int) -> ir.PrimFunc:
    x = te.placeholder((1, size, size, channels), "float16", name="X")
    f = te.placeholder((3, 3, channels, filters), "float16", name="F")
    bias = te.placeholder((filters,), "float16", name="bias")
    y = topi.nn.conv2d_nhwc(x, f, 1, 1, 1, 1, "float32")

    def activated(b: Any, h: Any, w: Any, o: Any) -> Any:
        return te.max(y[b, h, w, o] + wide(bias[o]), ir.const(0.0, "float32")).astype("float16")

    return te.create_prim_func([x, f, bias, te.compute(y.shape, activated, name="Z")])


LAYERS = {
    "dense_gelu": dense_gelu(64, 64, 64),
    "conv_relu": conv_relu(8, 16, 32),
}
LARGE_LAYERS = {
    "dense_gelu": dense_gelu(128, 128, 128),
    "conv_relu": conv_relu(8, 64, 64),
}


def expected(func: ir.PrimFunc) -> Any:
    arrays = random_arrays(func)
    oracle.run(ir.IRModule({"main": func}), *arrays)
    return arrays[-1].astype("float32")


# With `mma` there is a sketch for each number of steps that are copied ahead: some of them do.
MOST = {"cuda-mma": 2}


def some(func: ir.PrimFunc, target: str, kind: str, count: int) -> list[Schedule]:
    """Candidates of each sketch."""
    found = candidates(ir.IRModule({"main": func}), Target(target), kind, range(40), count)
    return list(itertools.islice(found, MOST.get(kind)))


def check(found: Any, wanted: Any) -> None:
    np.testing.assert_allclose(found.astype("float32"), wanted, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize(
    ("kind", "instruction"), [("cuda-tensorcore", "tvm_mma_sync"), ("cuda-mma", "ptx_mma")]
)
@pytest.mark.parametrize("name", LAYERS)
def test_instructions_of_warps(name: str, kind: str, instruction: str) -> None:
    func = LAYERS[name]
    wanted = expected(func)
    drafts = some(func, AMPERE, kind, 1)
    for draft in drafts:
        lowered, arrays = lower_for_gpu(draft.mod, AMPERE), random_arrays(func)
        assert instruction in str(lowered)
        simt.run(lowered, arrays)
        check(arrays[-1], wanted)
    assert len(drafts) >= 2  # with software pipelines and without


@pytest.mark.parametrize(
    ("name", "target", "kind", "instruction"),
    [
        ("dense_gelu", AMPERE, "cuda-tensorcore", "wmma.mma.sync"),
        ("conv_relu", AMPERE, "cuda-tensorcore", "wmma.mma.sync"),
        ("dense_gelu", AMPERE, "cuda-mma", "mma.sync.aligned.m16n8k16"),
        ("dense_gelu", HOPPER, "cuda-kernels", "wgmma.mma_async"),
        ("conv_relu", HOPPER, "cuda-kernels", "wgmma.mma_async"),
    ],
)
def test_candidates_compile(name: str, target: str, kind: str, instruction: str) -> None:
    pytest.importorskip("cuda.core", reason="NVRTC is missing: pip install tilewright[cuda]")
    drafts = some(LARGE_LAYERS[name], target, kind, 2)
    for draft in drafts:
        module = build(draft.mod, target)
        assert instruction in module.get_source("cuda")
        assert list(module.resources) == ["main_kernel"]
    assert len(drafts) >= MOST.get(kind, 4)


@pytest.mark.cuda
@pytest.mark.parametrize("kind", ["cuda-tensorcore", "cuda-mma", "cuda-kernels"])
@pytest.mark.parametrize("name", LARGE_LAYERS)
def test_candidates_on_a_gpu(name: str, kind: str) -> None:
    func = LARGE_LAYERS[name]
    wanted, target = expected(func), str(Target("cuda"))
    for draft in some(func, target, kind, 2):
        arrays = [nd.array(array, cuda()) for array in random_arrays(func)]
        build(draft.mod, target)(*arrays)
        check(arrays[-1].numpy(), wanted)
