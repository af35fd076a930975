"""Operators of all kinds after the tuner scheduled them: right, opaque blocks left as they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright import meta_schedule as ms, te, topi
from tilewright.testing import oracle

Tensors = Sequence[te.Tensor]
RNG = np.random.default_rng(29)
A = te.placeholder((6, 20), name="A")
I = te.placeholder((6, 20), "int32", "I")
X = te.placeholder((2, 4, 5, 3), name="X")
Q = te.placeholder((2, 6, 4), name="Q")

QUICK = ("cumsum", "sort", "scatter_elements")  # one of each kind of opaque block
CASES: list[tuple[str, Tensors, Callable[[], te.Tensor]]] = [
    ("cumsum", [A], lambda: topi.exp(topi.cumsum(topi.negative(A), 1))),
    ("cumprod", [A], lambda: topi.cumprod(A, 0)),
    ("sort", [A], lambda: topi.exp(topi.sort(topi.negative(A)))),
    ("topk", [A], lambda: topi.topk(A, 3, ret_type="values")),
    ("scatter_elements", [A, I], lambda: topi.scatter_elements(A, I, topi.exp(A), 1, "add")),
    ("einsum", [A], lambda: topi.einsum("ij,kj,kl->il", A, A, A)),
    ("resize2d", [X], lambda: topi.image.resize2d(X, None, (7, 6), method="cubic")),
    ("group_norm", [X], lambda: topi.nn.group_norm(X, None, None, 2, 1, [2, 3])),
    ("embedding", [I, A], lambda: topi.nn.embedding(I, A)),
    ("attention", [Q], lambda: topi.nn.attention(Q, Q, Q, is_causal=True)),
]


def array_for(tensor: te.Tensor) -> Any:
    shape = [int(str(extent)) for extent in tensor.shape]
    if tensor.dtype.is_integral:
        return RNG.integers(-9, 9, shape).astype(str(tensor.dtype))
    return RNG.uniform(-2, 2, shape).astype(str(tensor.dtype))


@pytest.mark.parametrize(
    ("name", "inputs", "build"),
    [
        pytest.param(*row, id=row[0], marks=[] if row[0] in QUICK else pytest.mark.slow)
        for row in CASES
    ],
)
def test_tuned(
    name: str, inputs: Tensors, build: Callable[[], te.Tensor], workers: dict[str, Any]
) -> None:
    out = build()
    func = te.create_prim_func([*inputs, out])
    if name in ("sort", "topk"):
        func = func.with_attr("estimated_flops", 1000.0)  # loops as long as the data say
    database = ms.tune_tir(func, "llvm", max_trials_global=2, seed=0, console=False, **workers)
    arrays = [array_for(tensor) for tensor in inputs]
    result, expected = array_for(out), array_for(out)
    with database:
        tw.build(func)(*arrays, result)
    oracle.run(func, *arrays, expected)
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)
