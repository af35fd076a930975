"""The exponentials of AVX-512, scaled by one instruction."""

# mypy: disable-error-code="valid-type, no-untyped-def"

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright.ir import PrimFunc, intrinsics
from tilewright.script import tir as T
from tilewright.target import Target
from tilewright.testing.ulp import max_ulp_error

needs_avx512 = pytest.mark.skipif(
    "avx512f" not in Target("llvm").features, reason="the processor has no AVX-512"
)
SIZE = 4096
REFERENCES: dict[str, Callable[[Any], Any]] = {
    "exp": np.exp,
    "exp2": np.exp2,
    "sigmoid": lambda v: 1 / (1 + np.exp(-v)),
    "tanh": np.tanh,
}


def elementwise(op: str, dtype: str, lanes: int) -> PrimFunc:
    function = getattr(intrinsics, op)

    @T.prim_func
    def main(X: T.Buffer((SIZE,), dtype), Y: T.Buffer((SIZE,), dtype)):
        T.func_attr({"global_symbol": "main", "tir.noalias": T.bool(True)})
        for i in range(SIZE // lanes):
            for x in T.vectorized(lanes):
                with T.block("Y"):
                    v = T.axis.spatial(SIZE, i * lanes + x)
                    Y[v] = function(X[v])

    result: PrimFunc = main
    return result


def inputs(dtype: str) -> np.ndarray:
    """Numbers all over the range, among them the edges of overflow and of gradual underflow."""
    kind = np.dtype(dtype)
    reach = 110.0 if kind == np.float32 else 760.0
    edge = np.log(np.finfo(kind).max)
    tiny = np.log(np.finfo(kind).smallest_subnormal)
    special = [
        0.0,
        -0.0,
        np.inf,
        -np.inf,
        np.nan,
        1.0,
        -1.0,
        edge,
        edge * 1.001,
        tiny,
        tiny * 0.999,
    ]
    random = np.random.default_rng(7).uniform(-reach, reach, SIZE - len(special))
    return np.concatenate([special, random]).astype(kind)


@needs_avx512
@pytest.mark.parametrize(("dtype", "lanes"), [("float32", 16), ("float32", 64), ("float64", 8)])
@pytest.mark.parametrize("op", REFERENCES)
def test_accuracy(op: str, dtype: str, lanes: int) -> None:
    x = inputs(dtype)
    y = np.zeros_like(x)
    module = tw.build(elementwise(op, dtype, lanes))
    module(x, y)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        exact = REFERENCES[op](x.astype(np.longdouble))
        assert max_ulp_error(y, exact) <= 4


@needs_avx512
def test_the_instruction_is_used() -> None:
    assembly = tw.build(elementwise("exp", "float32", 64)).get_source("asm")
    assert assembly.count("vscalefps") == 4


def test_other_processors_do_without() -> None:
    module = tw.build(elementwise("exp", "float32", 16), target="llvm -mcpu=haswell")
    assert "vscalef" not in module.get_source("asm")
