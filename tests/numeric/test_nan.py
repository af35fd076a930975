"""Minima and maxima with NaN, as NumPy has them: in the oracle, compiled, folded and regrouped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright import te, topi
from tilewright.ir import FloatImm, PrimFunc, as_module, const, maximum, minimum
from tilewright.ir.numpy_bridge import to_numpy
from tilewright.schedule import Schedule
from tilewright.testing import oracle
from tilewright.testing.c_compiler import CompiledC

FLOATS = ["float16", "bfloat16", "float32", "float64"]
SPECIAL = np.array([np.nan, -np.inf, np.inf, -1.5, 0.0, 3.0, 0.25])
LEFT, RIGHT = (pair.ravel() for pair in np.meshgrid(SPECIAL, SPECIAL, indexing="ij"))
COUNT = len(LEFT)
NAMES = ["maximum", "minimum"]


def pairs(name: str, dtype: str, vectorize: bool = False) -> PrimFunc:
    """`name` of two tensors, of a tensor and a constant, and of a constant and a tensor."""
    a, b = te.placeholder((COUNT,), dtype, "A"), te.placeholder((COUNT,), dtype, "B")
    operator, one = getattr(topi, name), const(1.0, dtype)
    results = operator(a, b), operator(a, one), operator(one, a)
    func = te.create_prim_func([a, b, *results])
    sch = Schedule(func)
    for block in sch.get_child_blocks(sch.get_block("root")) if vectorize else []:
        sch.vectorize(sch.get_loops(block)[0])
    return sch.mod["main"]


def check_pairs(name: str, dtype: str, run: Any) -> None:
    a, b = LEFT.astype(to_numpy(dtype)), RIGHT.astype(to_numpy(dtype))
    results = [np.zeros(COUNT, a.dtype) for _ in range(3)]
    run(a, b, *results)
    function = getattr(np, name)
    wide, one = a.astype("float64"), np.float64(1)
    expected = [function(wide, b.astype("float64")), function(wide, one), function(one, wide)]
    for result, values in zip(results, expected, strict=True):
        np.testing.assert_array_equal(result.astype("float64"), values)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", NAMES)
def test_pairs(name: str, dtype: str) -> None:
    check_pairs(name, dtype, lambda *arrays: oracle.run(pairs(name, dtype), *arrays))
    check_pairs(name, dtype, tw.build(pairs(name, dtype)))
    check_pairs(name, dtype, tw.build(pairs(name, dtype, vectorize=True)))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", NAMES)
def test_pairs_in_c(name: str, dtype: str, c_compiler: str, tmp_path: Path) -> None:
    module = tw.lower(as_module(pairs(name, dtype)), target="c")
    check_pairs(name, dtype, CompiledC(module, tmp_path, c_compiler).call)


def test_constants_are_folded() -> None:
    for x, y in zip(LEFT, RIGHT, strict=True):
        a, b = const(float(x), "float32"), const(float(y), "float32")
        for build, function in ((maximum, np.maximum), (minimum, np.minimum)):
            folded = build(a, b)
            assert isinstance(folded, FloatImm)
            np.testing.assert_array_equal(folded.value, function(x, y))


@pytest.mark.parametrize("width", [None, 8, 12])
@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("name", ["max", "min"])
def test_reductions(name: str, dtype: str, width: int | None) -> None:
    """One row for each place where a NaN may be, and rows of infinities."""
    count = 37
    rows = np.random.default_rng(0).normal(size=(count + 2, count)).astype(dtype)
    rows[np.arange(count), np.arange(count)] = np.nan
    rows[count], rows[count + 1] = -np.inf, np.inf
    a = te.placeholder(rows.shape, dtype, "A")
    sch = Schedule(te.create_prim_func([a, getattr(topi, name)(a, 1)]))
    if width is not None:
        sch.annotate(sch.get_loops("A_red")[1], "vector_reduction", width)
    for run in (tw.build(sch.mod), lambda *arrays: oracle.run(sch.mod["main"], *arrays)):
        result = np.zeros(count + 2, dtype)
        run(rows, result)
        np.testing.assert_array_equal(result, getattr(np, name)(rows, 1))


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "int8", "uint8", "int32"])
@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_positions(name: str, dtype: str, last: bool) -> None:
    rows = np.random.default_rng(0).integers(0, 3, (6, 11)).astype(dtype)
    if dtype == "float32":
        rows[0], rows[1] = -np.inf, np.inf
        rows[2, 4] = rows[2, 7] = np.nan
    else:
        rows[0], rows[1] = np.iinfo(dtype).min, np.iinfo(dtype).max
    a = te.placeholder(rows.shape, dtype, "A")
    func = te.create_prim_func([a, getattr(topi, name)(a, 1, select_last_index=last)])
    best = getattr(np, name)
    expected = rows.shape[1] - 1 - best(rows[:, ::-1], 1) if last else best(rows, 1)
    for run in (tw.build(func), lambda *arrays: oracle.run(func, *arrays)):
        result = np.full(6, -7, "int32")
        run(rows, result)
        assert result.tolist() == expected.tolist()
