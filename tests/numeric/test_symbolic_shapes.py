"""Programs with symbolic shapes get a schedule that is right for every size, and a real one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright import te, topi
from tilewright.ir import PrimFunc, symbols_of
from tilewright.te import Tensor
from tilewright.testing.oracle import run
from tilewright.tune import default_schedule
from tilewright.tune.stand_in_sizes import stand_in_sizes


def placeholder(name: str, *shape: Any) -> Tensor:
    return te.placeholder(shape, name=name)


def product(n: Any, m: Any, k: Any) -> PrimFunc:
    a, b = placeholder("A", n, k), placeholder("B", k, m)
    return te.create_prim_func([a, b, topi.matmul(a, b)])


def dense_relu(n: Any, m: Any, k: Any) -> PrimFunc:
    a, w, bias = placeholder("A", n, k), placeholder("W", m, k), placeholder("bias", m)
    out = topi.nn.relu(topi.nn.dense(a, w, bias))
    return te.create_prim_func([a, w, bias, out])


def add(n: Any) -> PrimFunc:
    a, b = placeholder("A", n), placeholder("B", n)
    return te.create_prim_func([a, b, topi.add(a, b)])


def tanh(n: Any, m: Any) -> PrimFunc:
    a = placeholder("A", n, m)
    return te.create_prim_func([a, topi.tanh(a)])


def softmax(n: Any, m: Any) -> PrimFunc:
    a = placeholder("A", n, m)
    return te.create_prim_func([a, topi.nn.softmax(a)])


def row_sum(n: Any, m: Any) -> PrimFunc:
    a = placeholder("A", n, m)
    return te.create_prim_func([a, topi.sum(a, axis=1)])


def column_max(n: Any, m: Any) -> PrimFunc:
    a = placeholder("A", n, m)
    return te.create_prim_func([a, topi.max(a, axis=0)])


def transpose(n: Any, m: Any) -> PrimFunc:
    a = placeholder("A", n, m)
    return te.create_prim_func([a, topi.transpose(a)])


def conv2d(n: Any) -> PrimFunc:
    a, w = placeholder("A", n, 9, 9, 5), placeholder("W", 3, 3, 5, 11)
    return te.create_prim_func([a, w, topi.nn.conv2d_nhwc(a, w, 1, 1, 1)])


# Each program with the names of its symbols, and the sizes that it is tried for.
PROGRAMS: dict[str, tuple[Callable[..., PrimFunc], str, Sequence[tuple[int, ...]]]] = {
    "product": (product, "nmk", [(1, 1, 1), (7, 65, 3), (33, 48, 17), (0, 4, 4), (64, 64, 64)]),
    "dense_relu": (dense_relu, "nmk", [(1, 1, 1), (7, 65, 3), (33, 48, 17)]),
    "add": (add, "n", [(1,), (63,), (64,), (1000,), (0,)]),
    "tanh": (tanh, "nm", [(1, 1), (3, 64), (5, 67), (0, 3), (3, 0)]),
    "softmax": (softmax, "nm", [(1, 1), (3, 64), (5, 67), (2, 300), (0, 5)]),
    "row_sum": (row_sum, "nm", [(1, 1), (3, 64), (5, 67), (2, 300), (0, 5)]),
    "column_max": (column_max, "nm", [(1, 1), (3, 64), (5, 67), (300, 2)]),
    "transpose": (transpose, "nm", [(1, 1), (3, 64), (9, 17), (16, 16)]),
    "conv2d": (conv2d, "n", [(1,), (3,), (0,)]),
}


def made(name: str) -> PrimFunc:
    make, letters, _ = PROGRAMS[name]
    return make(*(te.var(letter) for letter in letters))


def arrays_for(func: PrimFunc, letters: str, sizes: Sequence[int]) -> list[Any]:
    """Small whole numbers, so that the order of additions does not matter; outputs are poisoned."""
    values = {
        v: n for v in symbols_of(func) for l, n in zip(letters, sizes, strict=True) if v.name == l
    }
    special = func.specialize(values)
    random = np.random.default_rng(0)
    shapes = [[int(e.value) for e in b.shape] for b in special.buffer_map.values()]  # type: ignore[attr-defined]
    arrays = [random.integers(-3, 4, shape).astype("float32") for shape in shapes]
    arrays[-1][...] = np.nan
    return arrays


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_schedule_is_right_for_every_size(name: str) -> None:
    _, letters, all_sizes = PROGRAMS[name]
    func = made(name)
    sch = default_schedule(func)
    kernel = tw.build(sch.mod)
    for sizes in all_sizes:
        arrays = arrays_for(func, letters, sizes)
        expected = [array.copy() for array in arrays]
        run(func, *expected)
        kernel(*arrays)
        np.testing.assert_allclose(arrays[-1], expected[-1], 1e-5, 1e-6, err_msg=f"{sizes}")


@pytest.mark.parametrize("name", PROGRAMS)
def test_it_runs_in_vectors_and_in_parallel(name: str) -> None:
    sch = default_schedule(made(name))
    text = str(sch.mod)
    assert "T.parallel" in text
    assert "T.vectorized" in text or "vector_reduction" in text


def test_stand_ins_are_different_primes() -> None:
    sizes = stand_in_sizes(made("product"))
    assert {var.name: size for var, size in sizes.items()} == {"n": 1021, "k": 1019, "m": 1013}
    assert list(stand_in_sizes(made("add")).values()) == [1048573]
    assert list(stand_in_sizes(conv2d(te.var("n"))).values()) == [1171]
