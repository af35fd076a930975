"""Numbers that programs seldom meet: subnormal ones, signed zeros, the bits of every NaN."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright.ir import PrimFunc
from tilewright.ir.numpy_bridge import to_numpy
from tilewright.script import from_source
from tilewright.testing import oracle

WIDTHS = (3, 8, 17, 32)
ROUNDINGS = ("round", "floor", "ceil", "trunc", "nearbyint")
FLOATS = ("float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "float8_e5m2")


def _program(dtype: str, size: int, width: int, value: str) -> PrimFunc:
    loop = f"T.vectorized({width})" if width > 1 else "range(1)"
    program = from_source(f"""
@T.prim_func
def f(a: T.Buffer(({size},), "{dtype}"), c: T.Buffer(({size},), "{dtype}")):
    for o in range({size // width}):
        for i in {loop}:
            with T.block("c"):
                v = T.axis.spatial({size // width * width}, o * {width} + i)
                c[v] = {value}
""")
    assert isinstance(program, PrimFunc)
    return program


def _bits(array: Any) -> Any:
    """The bits of floats, all NaN the same."""
    bits = array.view(f"u{array.dtype.itemsize}").copy()
    with np.errstate(invalid="ignore"):
        bits[np.isnan(array.astype("float64"))] = 0
    return bits


@pytest.mark.parametrize("value", ["a[v]", "a[v] * T.Cast('bfloat16', 0.5)", "a[v] + a[v]"])
def test_every_bfloat16_is_the_same_vectorised_and_plain(value: str) -> None:
    a = np.arange(1 << 16, dtype="uint16").view(to_numpy("bfloat16"))
    plain = np.zeros_like(a)
    tw.build(_program("bfloat16", a.size, 1, value))(a, plain)
    for width in WIDTHS:
        found = plain.copy()
        found[: a.size // width * width] = 0
        tw.build(_program("bfloat16", a.size, width, value))(a, found)
        np.testing.assert_array_equal(_bits(found), _bits(plain), err_msg=f"{width} lanes")


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"])
@pytest.mark.parametrize("width", WIDTHS)
def test_a_copy_keeps_every_bit(dtype: str, width: int) -> None:
    itemsize = to_numpy(dtype).itemsize
    size = (1 << 8 * itemsize) // width * width
    bits = np.arange(size).astype(f"u{itemsize}")
    found = np.zeros(size, to_numpy(dtype))
    tw.build(_program(dtype, size, width, "a[v]"))(bits.view(to_numpy(dtype)), found)
    np.testing.assert_array_equal(found.view(bits.dtype), bits)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("rounding", ROUNDINGS)
def test_what_is_rounded_to_zero_keeps_its_sign(dtype: str, rounding: str) -> None:
    numbers = [-0.0, 0.0, -1e-40, 1e-40, -0.25, 0.25, -0.5, 0.5, -0.75, 0.75, -1.5, 1.5, -2.5, 2.5]
    a = np.array([*numbers, -np.inf, np.inf]).astype(to_numpy(dtype))
    expected = np.zeros_like(a)
    oracle.run(_program(dtype, 16, 1, f"T.{rounding}(a[v])"), a, expected)
    np.testing.assert_array_equal(np.signbit(expected), np.signbit(a))
    for width in (1, 8, 16):
        found = np.zeros_like(a)
        tw.build(_program(dtype, 16, width, f"T.{rounding}(a[v])"))(a, found)
        np.testing.assert_array_equal(_bits(found), _bits(expected), err_msg=f"{width} lanes")


@pytest.mark.parametrize("dtype", FLOATS)
def test_a_constant_is_rounded_to_its_type_before_it_is_computed_with(dtype: str) -> None:
    a = np.array([1, 3, 5, 7], to_numpy(dtype))
    for value in (f"T.floor(T.{dtype}(-1e-40)) + a[v]", f"a[v] * T.{dtype}(0.1)"):
        expected, found = np.zeros_like(a), np.zeros_like(a)
        program = _program(dtype, 4, 4, value)
        oracle.run(program, a, expected)
        tw.build(program)(a, found)
        np.testing.assert_array_equal(_bits(found), _bits(expected))
