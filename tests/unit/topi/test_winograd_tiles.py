"""Winograd convolutions by tiles: right for all shapes, with the errors that rounding explains."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import tilewright as tw
from tilewright import te, topi
from tilewright.errors import TensorExpressionError
from tilewright.topi.nn.winograd_tiles import chosen, winograd_points

Array = npt.NDArray[Any]
# Largest error as a share of the largest result, for numbers of any sign and 64 channels.
TOLERANCE = {2: 2e-6, 4: 8e-6, 6: 4e-5}


def exact(x: Array, w: Array, padding: tuple[int, int, int, int]) -> Array:
    """The convolution in 64 bits; padding above, left, below, right."""
    top, left, bottom, right = padding
    wide = np.pad(x.astype(np.float64), ((0, 0), (top, bottom), (left, right), (0, 0)))
    height, width = wide.shape[1] - 2, wide.shape[2] - 2
    total: Array = sum(
        wide[:, i : i + height, j : j + width] @ w[i, j].astype(np.float64)
        for i in range(3)
        for j in range(3)
    )
    return total


def operands(shape: tuple[int, int, int, int], filters: int) -> tuple[Array, Array]:
    rng = np.random.default_rng(0)
    x = rng.standard_normal(shape).astype(np.float32)
    w = rng.standard_normal((3, 3, shape[3], filters)).astype(np.float32)
    return x, w


@pytest.mark.parametrize("m", [2, 4, 6])
@pytest.mark.parametrize(
    ("shape", "filters", "padding"),
    [
        ((1, 7, 7, 5), 3, (1, 1, 1, 1)),
        ((2, 14, 14, 8), 16, (1, 1, 1, 1)),
        ((1, 3, 3, 1), 1, (0, 0, 0, 0)),
        ((1, 1, 1, 4), 2, (1, 1, 1, 1)),
        ((1, 6, 11, 3), 2, (0, 2, 1, 0)),
    ],
)
def test_results_are_those_of_the_convolution(
    compiled: Any,
    m: int,
    shape: tuple[int, int, int, int],
    filters: int,
    padding: tuple[int, int, int, int],
) -> None:
    x, w = operands(shape, filters)
    made = compiled(lambda a, b: topi.nn.winograd_conv2d(a, b, padding, m), x, w)
    wanted = exact(x, w, padding)
    assert made.shape == wanted.shape
    assert abs(made - wanted).max() <= TOLERANCE[m] * max(1.0, abs(wanted).max())


@pytest.mark.parametrize("m", [2, 4, 6])
def test_transforms_of_one_axis_are_exact_in_64_bits(m: int) -> None:
    """`A^T ((G g) * (B^T d))` are the sums that it stands for."""
    points = winograd_points(m)
    rng = np.random.default_rng(1)
    d, g = rng.standard_normal(points.alpha), rng.standard_normal(3)
    x = te.placeholder((points.alpha,), "float64", name="x")

    def applied(values: Array, results: bool) -> Array:
        transform = points.results if results else points.data
        rows = transform([x(k) for k in range(points.alpha)])
        made = np.zeros(len(rows))
        y = te.compute((len(rows),), lambda i: chosen(i, rows), name="y")
        tw.build(te.create_prim_func([x, y]))(values, made)
        return made

    products = applied(d, False) * (np.array(points.filters()) @ g)
    wanted = [d[k : k + 3] @ g for k in range(m)]
    np.testing.assert_allclose(applied(products, True), wanted, rtol=1e-13, atol=1e-13)


def test_balanced_points_are_more_accurate_than_those_of_tvm(compiled: Any) -> None:
    x, w = operands((1, 16, 16, 64), 16)
    wanted = exact(x, w, (1, 1, 1, 1))
    operators: list[Callable[..., te.Tensor]] = [
        lambda a, b: topi.nn.winograd_conv2d(a, b, 1),
        lambda a, b: topi.nn.conv2d_winograd_nhwc(a, b, 1, 1),
    ]
    errors = [np.sqrt(np.mean((compiled(op, x, w) - wanted) ** 2)) for op in operators]
    assert errors[0] < errors[1]


@pytest.mark.parametrize(
    ("data", "kernel", "m", "message"),
    [
        ((1, 8, 8, 4), (3, 3, 4, 2), 3, "winograd: tile_size must be one of 2, 4, 6, got 3"),
        ((1, 8, 8, 4), (5, 3, 4, 2), 4, "winograd_conv2d: the kernel must be 3 x 3, got 5 x 3"),
        ((1, 1, 8, 4), (3, 3, 4, 2), 4, "winograd_conv2d: the image is smaller than the kernel"),
    ],
)
def test_what_is_refused(
    data: tuple[int, ...], kernel: tuple[int, ...], m: int, message: str
) -> None:
    a, b = te.placeholder(data, name="a"), te.placeholder(kernel, name="b")
    with pytest.raises(TensorExpressionError) as caught:
        topi.nn.winograd_conv2d(a, b, 0, m)
    assert str(caught.value) == message
