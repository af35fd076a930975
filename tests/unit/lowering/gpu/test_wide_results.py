"""Formulas of 16-bit results are computed in float32 and rounded once."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tilewright import ir, te, topi
from tilewright.ir import intrinsics
from tilewright.lowering.gpu.tile_kernels.wide_results import in_float32, rounded_once
from tilewright.testing.gpu_lowering import random_arrays
from tilewright.testing.simt import run
from tilewright.testing.tile_kernel_runs import hopper, tile_kernel

HALF = "float16"
X, S = ir.Var("x", ir.DType(HALF)), ir.Var("s", ir.FLOAT32)


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (ir.cast(HALF, S) + X, S + ir.cast("float32", X)),
        (ir.Max(ir.cast(HALF, S), ir.const(0, HALF)), ir.Max(S, ir.const(0.0, "float32"))),
        (intrinsics.exp(X * X), intrinsics.exp(ir.cast("float32", X) * ir.cast("float32", X))),
        (
            intrinsics.erf(X),
            intrinsics.call_extern("float32", "tw_short_erf", ir.cast("float32", X)),
        ),
        (
            ir.Select(ir.cast(HALF, S) > X, ir.cast(HALF, S), X),
            ir.Select(ir.GT(S, ir.cast("float32", X)), S, ir.cast("float32", X)),
        ),
        (S * S, S * S),
    ],
    ids=str,
)
def test_expressions(given: ir.PrimExpr, wanted: ir.PrimExpr) -> None:
    ir.assert_structural_equal(in_float32(given), wanted)


def test_other_types_stay() -> None:
    number = ir.Var("n", ir.INT32)
    assert rounded_once(number) is number
    assert str(rounded_once(X + X).dtype) == HALF


erf = np.vectorize(math.erf)
ACTIVATIONS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "tanh": (lambda x: topi.nn.gelu(x, "tanh"), lambda x: x / 2 * (1 + np.tanh(
        np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)
    ))),
    "erf": (topi.nn.gelu, lambda x: x / 2 * (1 + erf(x / np.sqrt(2)))),
    "leaky": (lambda x: topi.nn.leaky_relu(x, 0.1), lambda x: np.where(x > 0, x, 0.1 * x)),
}  # fmt: skip


@pytest.mark.parametrize("name", ACTIVATIONS)
@pytest.mark.parametrize("depth", [64, 1024], ids=["one block a tile", "shared sums"])
def test_results_are_within_one_rounding(name: str, depth: int) -> None:
    make, exact = ACTIVATIONS[name]
    left, right = (te.placeholder((64, depth), HALF, name=n) for n in "LR")
    bias = te.placeholder((64,), HALF, name="bias")
    func = te.create_prim_func(
        [left, right, bias, make(topi.add(topi.nn.dense(left, right), bias))]
    )
    arrays = random_arrays(func)
    run(tile_kernel(func, hopper(), 0), arrays)
    a, b, c, found = (each.astype(np.float64) for each in arrays)
    wanted = exact(a @ b.T + c)
    np.testing.assert_allclose(found, wanted, rtol=2**-11 * 1.1, atol=1e-4 * abs(wanted).max() / 8)
