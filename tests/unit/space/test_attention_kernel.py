"""Attention as one kernel: numbers on the emulator, code for a GPU, and what it refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tilewright.space.gpu.attention_kernel import (
    AttentionShape,
    attention_kernel,
    why_no_attention_kernel,
)
from tilewright.testing.gpu_lowering import count_barriers, lower_for_gpu
from tilewright.testing.simt import run

H200 = "nvidia/nvidia-h200"


def expected(operands: Any, shape: AttentionShape) -> Any:
    """Of arrays `(batch, tokens, heads, width)`, in float64."""
    q, k, v = (x.astype(np.float64).transpose(0, 2, 1, 3) for x in operands)
    scores = q @ k.transpose(0, 1, 3, 2) * shape.scale
    if shape.is_causal:
        visible = np.arange(shape.keys) <= np.arange(shape.queries)[:, None]
        scores = np.where(visible, scores, -np.inf)
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    return (powers / powers.sum(-1, keepdims=True) @ v).transpose(0, 2, 1, 3)


@pytest.mark.parametrize(
    "shape",
    [
        AttentionShape(1, 20, 20, 2, 32, 0.2, False, (0, 1, 2)),
        AttentionShape(2, 70, 70, 66, 32, 0.3, True, (0, 1, 2)),
        AttentionShape(1, 16, 150, 1, 64, 0.125),
        AttentionShape(1, 17, 64, 1, 128, 0.1),
    ],
    ids=["all in one", "causal, two blocks of queries", "two blocks of keys", "wide heads"],
)
def test_results(shape: AttentionShape) -> None:
    rng = np.random.default_rng(1)
    sizes = (shape.queries, shape.keys, shape.keys)
    arrays = [
        (rng.normal(size=(shape.batch, n, shape.heads, shape.width)) * 2).astype("float16")
        for n in sizes
    ]
    result = np.full_like(arrays[0], np.nan)
    given = arrays if shape.parts is None else [np.ascontiguousarray(np.stack(arrays, 2))]
    run(lower_for_gpu(attention_kernel(shape), H200), [*given, result])
    np.testing.assert_allclose(result, expected(arrays, shape), rtol=2e-3, atol=2e-3)


def test_threads_wait_for_each_other_only_around_the_copies() -> None:
    shape = AttentionShape(1, 128, 128, 12, 64, 0.125, False, (0, 1, 2))
    assert count_barriers(lower_for_gpu(attention_kernel(shape), H200)) == 2


def test_refusals() -> None:
    assert why_no_attention_kernel(64, "float16") == ""
    wrong_type = "its numbers are float32, expected float16"
    assert why_no_attention_kernel(64, "float32") == wrong_type
    wrong_width = "heads are 96 wide, expected 32, 64 or 128"
    assert why_no_attention_kernel(96, "float16") == wrong_width
