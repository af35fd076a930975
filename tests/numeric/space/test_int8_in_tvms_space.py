"""Dense layers of bytes tuned in the space that TVM has for VNNI: right, with the instruction."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import pytest

import tilewright as tw
from tilewright import meta_schedule as ms, te, topi
from tilewright.ir import PrimFunc
from tilewright.target import Target
from tilewright.testing.contraction_forms import FORMS

Array: TypeAlias = np.ndarray[Any, Any]

pytestmark = pytest.mark.skipif(
    "avx512vnni" not in Target("llvm").features, reason="the processor has no AVX-512 VNNI"
)


def dense(rows: int, columns: int, depth: int) -> PrimFunc:
    data = te.placeholder((rows, depth), name="data", dtype="uint8")
    weight = te.placeholder((columns, depth), name="weight", dtype="int8")
    return te.create_prim_func([data, weight, topi.nn.dense(data, weight, out_dtype="int32")])


def arguments(func: PrimFunc) -> list[Array]:
    """All values of the types, the extreme ones more often."""
    random = np.random.default_rng(0)
    arrays = []
    for param in func.params:
        buffer = func.buffer_map[param]
        shape, dtype = [int(str(extent)) for extent in buffer.shape], str(buffer.dtype)
        limits = np.iinfo(dtype)
        values = random.integers(limits.min, limits.max, shape, dtype)
        extremes = random.choice([limits.min, limits.max], shape).astype(dtype)
        arrays.append(np.where(random.random(shape) < 0.2, extremes, values))
    return arrays


@pytest.mark.parametrize(
    ("func", "expected"),
    [
        pytest.param(
            dense(64, 48, 128), lambda a, b: a @ b.T, id="weights packed by RewriteLayout"
        ),
        pytest.param(
            FORMS["packed"]("uint8", "int8", "int32"),
            lambda a, b: a @ b.transpose(1, 3, 0, 2).reshape(128, 32),
            id="weights packed by the caller",
        ),
    ],
)
def test_tuned_layers(
    func: PrimFunc, expected: Callable[[Array, Array], Array], workers: dict[str, Any]
) -> None:
    database = ms.tune_tir(
        func, "llvm", max_trials_global=6, space="post-order-apply", strategy="replay-trace",
        seed=1, console=False, **workers,
    )  # fmt: skip
    records = database.get_all_tuning_records()
    assert [record.run_secs is not None for record in records] == [True] * 6
    best = ms.compile_tir(database, func, "llvm")
    assert best is not None
    assert "vpdpbusd" in best.mod.script()
    with database:
        module = tw.build(func, "llvm")
    assert "vpdpbusd" in module.get_source("asm")
    data, weight, result = arguments(func)
    module(data, weight, result)
    wanted = expected(data.astype("int32"), weight.astype("int32"))
    np.testing.assert_array_equal(result, wanted)
