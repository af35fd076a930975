"""Symbolic shapes: kernels for the sizes that are seen, and one for all others."""

from __future__ import annotations

import re
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright import te, topi
from tilewright.errors import ArgumentError
from tilewright.ir import PrimFunc
from tilewright.jit import JitFunction
from tilewright.jit.kernels import Kernels
from tilewright.script import from_source


def program(text: str) -> PrimFunc:
    made = from_source(text)
    assert isinstance(made, PrimFunc)
    return made


def product(**options: Any) -> JitFunction:
    n, k = te.var("n"), te.var("k")
    a, b = te.placeholder((n, k), name="A"), te.placeholder((k, 8), name="B")
    return tw.compile([a, b, topi.matmul(a, b)], **options)


def floats(*shape: int) -> Any:
    return np.random.default_rng(0).random(shape, dtype="float32")


def check(f: JitFunction, n: int, k: int) -> None:
    a, b = floats(n, k), floats(k, 8)
    for _ in range(2):
        np.testing.assert_allclose(f(a, b), a @ b, rtol=1e-5, atol=1e-6)


def test_results_have_the_size_that_follows() -> None:
    f = product()
    for n, k in ((3, 5), (17, 2), (1, 1), (0, 3), (3, 0)):
        check(f, n, k)
    assert f.sizes()[:2] == [{"n": 3, "k": 5}, {"n": 17, "k": 2}]
    assert repr(f).endswith("compiled for n=3, k=5; n=17, k=2; n=1, k=1; n=0, k=3; n=3, k=0>")


def test_the_first_sizes_get_kernels_and_the_others_share_one() -> None:
    f = product(specialize=2)
    for n in (3, 4, 5, 6, 3):
        check(f, n, 7)
    assert f.sizes() == [{"n": 3, "k": 7}, {"n": 4, "k": 7}, {}]
    assert repr(f).endswith("compiled for n=3, k=7; n=4, k=7; all sizes>")
    assert "n" not in str(f.scheduled(n=3, k=7)["main"].buffer_params())


def test_one_kernel_for_all() -> None:
    f = product(specialize=False)
    for n in (3, 4):
        check(f, n, 7)
    assert f.sizes() == [{}]


def test_eight_by_default() -> None:
    x = te.placeholder((te.var("n"),), name="x")
    f = tw.compile([x, topi.exp(x)])
    for n in range(1, 12):
        np.testing.assert_allclose(f(floats(n)), np.exp(floats(n)), rtol=1e-5)
    assert len(f.sizes()) == 9
    assert f.sizes()[-1] == {}


def test_looking_at_sizes() -> None:
    f = product()
    assert f.module(n=3, k=4).signature()[0].shape == (3, 4)
    assert f.module().signature()[0].shape == ("n", "k")
    assert "T.Buffer((3, 4)" in f.script(n=3, k=4)
    for sizes, message in (
        ({"m": 3}, "main() has no size 'm'; known: k, n"),
        ({"n": 3}, "main() has sizes n, k; give k, too, or give none"),
    ):
        with pytest.raises(ArgumentError, match=f"^{re.escape(message)}$"):
            f.module(**sizes)


def test_mistakes_name_the_symbols() -> None:
    f = product()
    message = (
        "main(): argument 1 (B): shape is [4, 8], expected 5 (k) on axis 0 as in B: float32[k, 8]"
    )
    for _ in range(2):
        with pytest.raises(ArgumentError, match=f"^{re.escape(message)}$"):
            f(floats(3, 5), floats(4, 8))
    assert f.sizes() == []


def test_sizes_that_are_calculated() -> None:
    n = te.var("n")
    x = te.placeholder((n,), name="x")
    pairs = tw.compile([x, te.compute((n * 2 - 3,), lambda i: x[i // 2], name="y")])
    assert pairs(floats(4)).shape == (5,)
    message = "main(): the result y: float32[n * 2 - 3] would have the shape [-1]"
    with pytest.raises(ArgumentError, match=f"^{re.escape(message)}$"):
        pairs(floats(1))


ARANGE = """
@T.prim_func
def arange(y_: T.handle, start: T.int32):
    n = T.int32()
    y = T.match_buffer(y_, (n,), "int32")
    for i in T.serial(n):
        y[i] = start + i
"""


def test_a_size_that_no_input_has() -> None:
    f = tw.compile(program(ARANGE))
    message = (
        "arange(): the size 'n' of y: int32[n] does not follow from the inputs; pass the array for "
        "the result, as in arange(..., out=array)"
    )
    with pytest.raises(ArgumentError, match=f"^{re.escape(message)}$"):
        f(3)
    out = np.empty(4, "int32")
    assert f(3, out=out) is out
    assert out.tolist() == [3, 4, 5, 6]
    assert f(np.empty(2, "int32"), 3).tolist() == [3, 4]


def test_a_size_that_is_a_scalar() -> None:
    f = tw.compile(program(ARANGE.replace("start: T.int32", "n: T.int32, start: T.int32")
                           .replace("    n = T.int32()\n", "")))  # fmt: skip
    for n in (3, 5, 3):
        assert f(n, 2).tolist() == list(range(2, 2 + n))
    assert f.sizes() == [{"n": 3}, {"n": 5}]
    assert f.bind(n=3)(2).tolist() == [2, 3, 4]
    with pytest.raises(ArgumentError, match=r"argument 0 \(n\)"):
        f("three", 2)


def test_strides_that_are_symbols() -> None:
    f = tw.compile(
        program("""
@T.prim_func
def column(x_: T.handle, y_: T.handle):
    n, s = T.int32(), T.int32()
    x = T.match_buffer(x_, (n,), strides=(s,))
    y = T.match_buffer(y_, (n,))
    for i in T.serial(n):
        y[i] = x[i]
""")
    )
    values = np.arange(12, dtype="float32").reshape(4, 3)
    assert f(values[:, 1]).tolist() == [1, 4, 7, 10]
    assert f(values[:, 0]).tolist() == [0, 3, 6, 9]
    assert f(values[0]).tolist() == [0, 1, 2]


def test_a_result_with_strides_is_not_allocated() -> None:
    f = tw.compile(
        program("""
@T.prim_func
def spread(x: T.Buffer((4,)), y: T.Buffer((4,), strides=(2,))):
    for i in T.serial(4):
        y[i] = x[i]
""")
    )
    message = "spread(): the result y: float32[4] has strides of its own, so it cannot be "
    with pytest.raises(ArgumentError, match=f"^{re.escape(message)}allocated; pass it as out=$"):
        f(floats(4))
    out = np.zeros(8, "float32")
    f(np.ones(4, "float32"), out=out[::2])
    assert out.tolist() == [1, 0] * 4


def test_many_threads_compile_each_size_once(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[Any] = []
    compile_one = Kernels._compiled

    def counting(self: Kernels, sizes: Any) -> Any:
        compiled.append(sizes)
        return compile_one(self, sizes)

    monkeypatch.setattr(Kernels, "_compiled", counting)
    f = product()
    barrier = threading.Barrier(8)

    def work(number: int) -> None:
        barrier.wait()
        check(f, 3 + number % 2, 5)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert sorted(compiled) == [(3, 5), (4, 5)]


def test_more_shapes_than_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilewright.jit.function.REMEMBERED_PLANS", 2)
    f = product(specialize=False)
    for n in (3, 4, 5, 6, 3, 4):
        check(f, n, 7)
