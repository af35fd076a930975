"""Resizing against the same formulas in NumPy's float64."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tilewright import te, topi
from tilewright.errors import TensorExpressionError

Run = Callable[..., Any]
RNG = np.random.default_rng(13)
HALF = Fraction(1, 2)

POSITIONS: dict[str, Callable[[int, int, int], Fraction]] = {
    "half_pixel": lambda i, n, m: (i + HALF) * n / m - HALF,
    "pytorch_half_pixel": lambda i, n, m: (i + HALF) * n / m - HALF if m > 1 else Fraction(0),
    "asymmetric": lambda i, n, m: Fraction(i * n, m),
    "align_corners": lambda i, n, m: Fraction(i * (n - 1), m - 1) if m > 1 else Fraction(0),
    "tf_half_pixel_for_nn": lambda i, n, m: (i + HALF) * n / m,
}
ROUNDINGS: dict[str, Callable[[Fraction], int]] = {
    "round": lambda x: math.floor(x + HALF),
    "round_prefer_floor": lambda x: math.ceil(x - HALF),
    "round_prefer_ceil": lambda x: math.floor(x + HALF),
    "floor": math.floor,
    "ceil": math.ceil,
}


def kernel(x: float, alpha: float) -> float:
    x = abs(x)
    if x <= 1:
        return (alpha + 2) * x**3 - (alpha + 3) * x**2 + 1
    return alpha * x**3 - 5 * alpha * x**2 + 8 * alpha * x - 4 * alpha if x < 2 else 0.0


def taps(x: Fraction, n: int, method: str, options: dict[str, Any]) -> list[tuple[int, float]]:
    first = math.floor(x)
    if method == "nearest_neighbor":
        floored = options["mode"] in ("asymmetric", "tf_half_pixel_for_nn")
        rounding = options.get("rounding") or ("floor" if floored else "round")
        return [(ROUNDINGS[rounding](x), 1.0)]
    if method == "linear":
        return [(first, 1 - float(x - first)), (first + 1, float(x - first))]
    alpha = options.get("alpha", -0.5)
    found = [(first + d, kernel(float(x - first - d), alpha)) for d in (-1, 0, 1, 2)]
    if options.get("exclude"):
        found = [(at, weight) for at, weight in found if 0 <= at < n]
        total = sum(weight for _, weight in found)
        found = [(at, weight / total) for at, weight in found]
    return found


def matrix(n: int, m: int, method: str, **options: Any) -> Any:
    """The weights of all inputs for all outputs of one axis."""
    weights = np.zeros((m, n))
    for i in range(m):
        for at, weight in taps(POSITIONS[options["mode"]](i, n, m), n, method, options):
            weights[i, min(max(at, 0), n - 1)] += weight
    return weights


SIZES = [((5, 7), (10, 14)), ((8, 9), (5, 3)), ((1, 4), (3, 9)), ((4, 5), (1, 1)), ((5, 7), (5, 7))]


@pytest.mark.parametrize("mode", list(POSITIONS))
@pytest.mark.parametrize("method", ["nearest_neighbor", "linear", "cubic"])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_resize2d(compiled: Run, mode: str, method: str, layout: str) -> None:
    for old, new in SIZES:
        x = RNG.uniform(-2, 2, (2, 3, *old)).astype("float32")
        rows, columns = (matrix(n, m, method, mode=mode) for n, m in zip(old, new, strict=True))
        expected = np.einsum("yh,xw,nchw->ncyx", rows, columns, x.astype("float64"))
        if layout == "NHWC":
            x, expected = x.transpose(0, 2, 3, 1), expected.transpose(0, 2, 3, 1)
        result = compiled(
            lambda a, size=new: topi.image.resize2d(a, None, size, layout, method, mode), x
        )
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("rounding", list(ROUNDINGS))
@pytest.mark.parametrize("mode", list(POSITIONS))
def test_rounding(compiled: Run, rounding: str, mode: str) -> None:
    x = np.arange(6, dtype="float32").reshape(1, 1, 6)
    for size in (3, 4, 12):
        result = compiled(
            lambda a, m=size: topi.image.resize1d(a, None, (m,), "NCW", "nearest", mode, rounding),
            x,
        )
        weights = matrix(6, size, "nearest_neighbor", mode=mode, rounding=rounding)
        np.testing.assert_array_equal(result[0, 0], weights @ x[0, 0])


@pytest.mark.parametrize("exclude", [0, 1])
@pytest.mark.parametrize("alpha", [-0.5, -0.75])
def test_cubic_options(compiled: Run, alpha: float, exclude: int) -> None:
    x = RNG.uniform(-2, 2, (1, 5, 2)).astype("float32")
    result = compiled(
        lambda a: topi.image.resize1d(
            a, None, (11,), "NWC", "cubic", bicubic_alpha=alpha, bicubic_exclude=exclude
        ),
        x,
    )
    weights = matrix(5, 11, "cubic", mode="half_pixel", alpha=alpha, exclude=exclude)
    np.testing.assert_allclose(result[0], weights @ x[0], rtol=1e-5, atol=1e-5)


def test_resize3d(compiled: Run) -> None:
    x = RNG.uniform(-2, 2, (1, 2, 3, 4, 5)).astype("float32")
    result = compiled(lambda a: topi.image.resize3d(a, None, (6, 3, 7)), x)
    weights = [matrix(n, m, "linear", mode="half_pixel") for n, m in ((3, 6), (4, 3), (5, 7))]
    expected = np.einsum("zd,yh,xw,ncdhw->nczyx", *weights, x.astype("float64"))
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("dtype", "error"),
    [("float16", 2e-3), (ml_dtypes.bfloat16, 1e-2), ("float32", 1e-6), ("float64", 1e-14)],
)
@pytest.mark.parametrize("method", ["linear", "cubic"])
def test_floats(compiled: Run, dtype: Any, error: float, method: str) -> None:
    x = RNG.uniform(1, 2, (1, 1, 7)).astype(dtype)
    result = compiled(lambda a: topi.image.resize1d(a, None, (17,), method=method), x)
    assert result.dtype == x.dtype
    expected = matrix(7, 17, method, mode="half_pixel") @ x[0, 0].astype("float64")
    np.testing.assert_allclose(result[0, 0].astype("float64"), expected, rtol=error)


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int32"])
def test_integers_are_rounded_and_limited(compiled: Run, dtype: str) -> None:
    limits = np.iinfo(dtype)
    x = np.array([[[limits.min, limits.max, limits.max, 3, limits.min]]], dtype)
    result = compiled(lambda a: topi.image.resize1d(a, None, (14,), method="cubic"), x)
    exact = matrix(5, 14, "cubic", mode="half_pixel") @ x[0, 0].astype("float64")
    assert exact.max() > limits.max  # the kernel overshoots
    expected = np.floor(np.abs(exact) + 0.5) * np.sign(exact)
    np.testing.assert_array_equal(result[0, 0], expected.clip(limits.min, limits.max))


@pytest.mark.parametrize("dtype", ["int64", "bool", "int8"])
def test_nearest_takes_any_type(compiled: Run, dtype: str) -> None:
    x = RNG.integers(0, 2, (1, 1, 5)).astype(dtype)
    result = compiled(lambda a: topi.image.resize1d(a, None, (10,), method="nearest"), x)
    np.testing.assert_array_equal(result, x.repeat(2, 2))


def test_out_dtype(compiled: Run) -> None:
    x = np.array([[[0, 1]]], "uint8")
    result = compiled(lambda a: topi.image.resize1d(a, None, (4,), out_dtype="float32"), x)
    np.testing.assert_array_equal(result[0, 0], np.array([0, 0.25, 0.75, 1], "float32"))


def test_special_values(compiled: Run) -> None:
    x = np.array([[[np.nan, 1, np.inf, -0.0]]], "float32")
    same = compiled(lambda a: topi.image.resize1d(a, None, (4,)), x)
    assert same.tobytes() == x.tobytes()
    larger = compiled(lambda a: topi.image.resize1d(a, None, (8,), method="nearest"), x)
    np.testing.assert_array_equal(larger, x.repeat(2, 2))


def test_large_sizes_do_not_overflow(compiled: Run) -> None:
    def build(a: te.Tensor) -> te.Tensor:
        return topi.image.resize1d(a, None, (65538,), "NCW", "nearest", "align_corners", "floor")

    x = np.arange(65522, dtype="int32").reshape(1, 1, -1)
    expected = np.arange(65538, dtype="int64") * 65521 // 65537  # primes: nothing cancels out
    np.testing.assert_array_equal(compiled(build, x)[0, 0], expected)
    a = te.placeholder(x.shape, "int32", name="A")
    assert "T.int64(65521)" in str(te.create_prim_func([a, build(a)]))


def test_empty_batch(compiled: Run) -> None:
    result = compiled(
        lambda a: topi.image.resize2d(a, None, (4, 4)), np.zeros((0, 3, 2, 2), "float32")
    )
    assert result.shape == (0, 3, 4, 4)


def test_interpreted(evaluate: Run) -> None:
    x = RNG.uniform(-2, 2, (1, 1, 3, 3)).astype("float32")
    a = te.placeholder(x.shape, name="A")
    weights = matrix(3, 5, "linear", mode="half_pixel")
    result = evaluate(topi.image.resize2d(a, None, (5, 5)), [a], x)
    np.testing.assert_allclose(result[0, 0], weights @ x[0, 0] @ weights.T, rtol=1e-5, atol=1e-6)


A = te.placeholder((1, 2, 3, 4), name="A")


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (
            lambda: topi.image.resize2d(A, None, (6, 6), method="lanczos"),
            "resize2d: unknown method 'lanczos', "
            "expected one of 'nearest_neighbor', 'nearest', 'linear', 'cubic'",
        ),
        (
            lambda: topi.image.resize2d(
                A, None, (6, 6), coordinate_transformation_mode="tf_crop_and_resize"
            ),
            "resize2d: unknown coordinate_transformation_mode 'tf_crop_and_resize', expected one "
            "of 'half_pixel', 'pytorch_half_pixel', 'asymmetric', 'align_corners', "
            "'tf_half_pixel_for_nn'",
        ),
        (
            lambda: topi.image.resize2d(A, None, (6, 6), rounding_method="up"),
            "resize2d: unknown rounding_method 'up', expected one of 'round', "
            "'round_prefer_floor', 'round_prefer_ceil', 'floor', 'ceil'",
        ),
        (
            lambda: topi.image.resize2d(A, None, (6,)),
            "resize2d: size must be 2 positive numbers, got [6]",
        ),
        (
            lambda: topi.image.resize2d(A, None, (6, 0)),
            "resize2d: size must be 2 positive numbers, got [6, 0]",
        ),
        (
            lambda: topi.image.resize1d(A, None, (6,), "NCHW"),
            "resize1d: layout 'NCHW' must have 1 of the axes D, H and W, and no blocks of channels",
        ),
        (
            lambda: topi.image.resize2d(A, None, (6, 6), "NCW"),
            "resize2d: layout 'NCW' does not fit a tensor of 4 dimensions",
        ),
        (
            lambda: topi.image.resize2d(te.placeholder((1, 1, 0, 4), name="Z"), None, (2, 2)),
            "resize2d: Z has no elements along axis 2",
        ),
        (
            lambda: topi.image.resize2d(te.placeholder((1, 1, 3, 4), "int64"), None, (2, 2)),
            "resize2d: method 'linear' cannot weigh int64; use a float type",
        ),
        (
            lambda: topi.image.resize2d(A, None, (2, 2), method="cubic", out_dtype="bool"),
            "resize2d: method 'cubic' cannot weigh bool; use a float type",
        ),
        (
            lambda: topi.image.resize2d(te.placeholder((1, 1, te.var("h"), 4)), None, (2, 2)),
            "resize2d: extent `h` must be a constant",
        ),
    ],
)
def test_refusals(build: Callable[[], Any], message: str) -> None:
    with pytest.raises(TensorExpressionError) as error:
        build()
    assert str(error.value) == message
