"""Fixed-point scales, requantization and saturating casts against exact integer arithmetic."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from tilewright import te, topi
from tilewright.errors import TensorExpressionError
from tilewright.topi.quantize import Requantization

Evaluate = Callable[..., Any]
HALF, ONE = 1 << 30, 1 << 31
EXTREMES = [0, 1, -1, 2, -2, 3, -3, 127, -128, 255, 2**15, 2**30, -(2**30), 2**31 - 1, -(2**31)]
rng = np.random.default_rng(11)


def rounded(x: int, multiplier: int, shift: int) -> int:
    """`x * multiplier * 2**(shift - 31)` to the nearest integer, halves upwards."""
    exact = Fraction(x * multiplier) * Fraction(2) ** (shift - 31)
    return (exact + Fraction(1, 2)).__floor__()


def requantized(x: int, multiplier: int, shift: int, zero_point: int, dtype: str) -> int:
    limits = np.iinfo(dtype)
    value = rounded(x, multiplier, shift) + zero_point
    return max(min(value, int(limits.max)), int(limits.min))


def sums() -> Any:
    return np.array([*EXTREMES, *rng.integers(-(2**31), 2**31, 9), *range(-8, 8)], dtype="int32")


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16"])
@pytest.mark.parametrize("zero_point", [0, 7, 127])
@pytest.mark.parametrize(
    ("multiplier", "shift"),
    [(HALF, 0), (ONE - 1, 0), (1395864371, -7), (HALF, -31), (1098990753, 1), (HALF, 30), (0, 0)],
)
def test_requantize(
    evaluate: Evaluate, multiplier: int, shift: int, zero_point: int, dtype: str
) -> None:
    x = sums()
    a = te.placeholder(x.shape, "int32", "A")
    result = evaluate(topi.requantize(a, multiplier, shift, zero_point, dtype), [a], x)
    expected = [requantized(int(v), multiplier, shift, zero_point, dtype) for v in x]
    assert result.dtype == dtype
    assert result.tolist() == expected


@pytest.mark.parametrize("enlarges", [False, True])
@pytest.mark.parametrize("axis", [0, -1])
def test_requantize_per_channel(evaluate: Evaluate, axis: int, enlarges: bool) -> None:
    scales = [0.75, 0.3, 1e-3, 1e-9] + ([3.0, 2.0**28] if enlarges else [0.5, 2.0**-40])
    multiplier, shift = topi.fixed_point_scales(scales)
    x = np.stack([sums()] * len(scales), axis=-1 if axis == -1 else 0)
    bias = np.array([3, -5, 100, 0, 1, -1], "int32")
    x = np.clip(x, -(2**31) + 5, 2**31 - 101)  # so that the bias can be added
    a = te.placeholder(x.shape, "int32", "A")
    m, s, b = (te.placeholder((len(scales),), "int32", name) for name in "msb")
    out = topi.requantize(a, m, s, -9, "int8", axis, bias=b, enlarges=enlarges)
    result = np.moveaxis(evaluate(out, [a, m, s, b], x, multiplier, shift, bias), axis, 0)
    for c, row in enumerate(np.moveaxis(x, axis, 0)):
        expected = [
            requantized(int(v) + int(bias[c]), int(multiplier[c]), int(shift[c]), -9, "int8")
            for v in row
        ]
        assert result[c].tolist() == expected, c


def test_requantize_along_two_axes(evaluate: Evaluate) -> None:
    x = rng.integers(-1000, 1000, (2, 2, 3, 4)).astype("int32")
    multiplier, shift = topi.fixed_point_scales(rng.uniform(0.001, 1, (2, 4)))
    a = te.placeholder(x.shape, "int32", "A")
    m, s = te.placeholder((2, 4), "int32", "m"), te.placeholder((2, 4), "int32", "s")
    out = topi.requantize(a, m, s, 0, "uint8", (1, 3))
    result = evaluate(out, [a, m, s], x, multiplier, shift)
    for n, c, h, d in np.ndindex(x.shape):
        scale = int(multiplier[c, d]), int(shift[c, d])
        assert result[n, c, h, d] == requantized(int(x[n, c, h, d]), *scale, 0, "uint8")


def test_a_zero_point_read_from_a_tensor(evaluate: Evaluate) -> None:
    x = sums()
    a, z = te.placeholder(x.shape, "int32", "A"), te.placeholder((1,), "uint8", "z")
    result = evaluate(
        topi.requantize(a, HALF, 0, z[0], "uint8"), [a, z], x, np.array([200], "uint8")
    )
    assert result.tolist() == [requantized(int(v), HALF, 0, 200, "uint8") for v in x]


def test_requantization_is_the_arguments_kept(evaluate: Evaluate) -> None:
    x = sums()
    a = te.placeholder(x.shape, "int32", "A")
    kept = Requantization(HALF, -3, 5, "uint8")
    expected = evaluate(topi.requantize(a, HALF, -3, 5, "uint8"), [a], x)
    assert evaluate(kept.apply(a), [a], x).tolist() == expected.tolist()


@given(st.floats(min_value=2.0**-80, max_value=2.0**29, exclude_max=True))
def test_fixed_point_scales(scale: float) -> None:
    multiplier, shift = (int(part) for part in topi.fixed_point_scales(scale))
    assert multiplier == 0 or HALF <= multiplier < ONE
    assert -31 <= shift <= 30
    found = Fraction(multiplier) * Fraction(2) ** (shift - 31)
    if multiplier == 0:
        assert 2**31 * Fraction(scale) < Fraction(1, 2)
    else:
        assert abs(found - Fraction(scale)) <= Fraction(scale) / 2**31


def test_fixed_point_scales_of_arrays() -> None:
    multiplier, shift = topi.fixed_point_scales([[0.5, 1.0], [0.25, 1 - 2.0**-40]])
    assert multiplier.tolist() == [[HALF, HALF], [HALF, HALF]]
    assert shift.tolist() == [[0, 1], [-1, 1]]
    assert multiplier.dtype == shift.dtype == "int32"


@pytest.mark.parametrize("scale", [0.0, -1.0, 2.0**29, float("nan"), float("inf")])
def test_scales_that_have_no_fixed_point(scale: float) -> None:
    with pytest.raises(TensorExpressionError) as caught:
        topi.fixed_point_scales([0.5, scale])
    assert str(caught.value) == "fixed_point_scales: scales must lie between 0 and 2**29"


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32"])
@pytest.mark.parametrize("source", ["int8", "uint8", "int16", "int32", "uint32", "int64"])
def test_saturating_cast_of_integers(evaluate: Evaluate, source: str, dtype: str) -> None:
    limits = np.iinfo(source)
    values = [0, 1, 100, 127, 128, 200, 255, 256, 32767, 32768, 2**31 - 1, 2**31]
    values += [-v for v in values] + [int(limits.min), int(limits.max)]
    x = np.array([v for v in values if limits.min <= v <= limits.max], dtype=source)
    a = te.placeholder(x.shape, source, "A")
    result = evaluate(topi.saturating_cast(a, dtype), [a], x)
    target = np.iinfo(dtype)
    assert result.dtype == dtype
    assert result.tolist() == [max(min(int(v), int(target.max)), int(target.min)) for v in x]


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32"])
@pytest.mark.parametrize("source", ["float16", "float32", "float64"])
def test_saturating_cast_of_floats(evaluate: Evaluate, source: str, dtype: str) -> None:
    numbers = [0.0, 1.75, -1.75, 127.5, 128.0, -128.5, 255.0, 300.0, 6e4, -6e4]
    infinite = [float("inf"), float("-inf")]
    x = np.array(numbers + infinite, dtype=source)
    a = te.placeholder(x.shape, source, "A")
    result = evaluate(topi.saturating_cast(a, dtype), [a], x)
    target = np.iinfo(dtype)
    clipped = np.clip(x.astype("float64"), target.min, target.max)
    assert result.tolist() == np.trunc(clipped).astype("int64").tolist()


def test_fixed_point_multiply(evaluate: Evaluate) -> None:
    x = np.array([0, 1, -1, 5, -5, 7, 100, -100, 2**30, -(2**30)], "int32")
    a = te.placeholder(x.shape, "int32", "A")
    result = evaluate(topi.fixed_point_multiply(a, 1395864371, -2), [a], x)
    assert result.tolist() == [rounded(int(v), 1395864371, -2) for v in x]


@pytest.mark.parametrize(("left", "right"), [(False, False), (True, False), (True, True)])
def test_fixed_point_multiply_per_axis(evaluate: Evaluate, left: bool, right: bool) -> None:
    x = rng.integers(-(2**20), 2**20, (4, 3)).astype("int32")
    multiplier = np.array([HALF, 1395864371, ONE - 1], "int32")
    lshift = np.array([0, 3, 7], "int32") * left
    rshift = np.array([5, 0, 2], "int32") * right
    a = te.placeholder(x.shape, "int32", "A")
    m, ls, rs = (te.placeholder((3,), "int32", name) for name in ("m", "ls", "rs"))
    out = topi.fixed_point_multiply_per_axis(a, m, ls, rs, left, right, [1])
    result = evaluate(out, [a, m, ls, rs], x, multiplier, lshift, rshift)
    for i, c in np.ndindex(x.shape):
        shift = int(lshift[c]) - int(rshift[c])
        assert result[i, c] == rounded(int(x[i, c]), int(multiplier[c]), shift)


A = te.placeholder((4, 3), "int32", "A")
M = te.placeholder((3,), "int32", "M")
WRONG: list[tuple[Callable[[], Any], str]] = [
    (
        lambda: topi.requantize(te.placeholder((2,), "int64", "B"), HALF, 0),
        "requantize: B is int64, expected int32",
    ),
    (
        lambda: topi.requantize(A, HALF, 0, 0, "int32"),
        "requantize: 'int32' is not an integer type of at most 16 bits",
    ),
    (
        lambda: topi.requantize(A, HALF, 0, -1, "uint8"),
        "requantize: zero point -1 is not a value of 'uint8'",
    ),
    (
        lambda: topi.requantize(A, M, 0),
        "requantize: multiplier and shift must both be integers or both be tensors",
    ),
    (
        lambda: topi.requantize(A, 5, 0),
        "requantize: multiplier 5 is neither 0 nor in Q31 between one half and one",
    ),
    (
        lambda: topi.requantize(A, HALF, 31),
        "requantize: shift 31 is not between -31 and 30",
    ),
    (
        lambda: topi.requantize(A, M, M, axis=0),
        "requantize: the channels of A and M differ: 4 and 3",
    ),
    (
        lambda: topi.requantize(A, M, M, axis=(0, 1)),
        "requantize: tensor M must have 2 dimensions, it has 1",
    ),
    (
        lambda: topi.requantize(A, HALF, 0, axis=2),
        "requantize: axis 2 is out of range for a tensor of 2 dimensions",
    ),
    (
        lambda: topi.requantize(A, HALF, 0, bias=te.placeholder((3,), "float32", "b")),
        "requantize: b is float32, expected int32",
    ),
    (
        lambda: topi.saturating_cast(A, "float32"),
        "saturating_cast: 'float32' is not an integer type of at most 32 bits",
    ),
    (
        lambda: topi.saturating_cast(A, "int64"),
        "saturating_cast: 'int64' is not an integer type of at most 32 bits",
    ),
]


@pytest.mark.parametrize(("build", "message"), WRONG)
def test_mistakes(build: Callable[[], Any], message: str) -> None:
    with pytest.raises(TensorExpressionError) as caught:
        build()
    assert str(caught.value) == message
