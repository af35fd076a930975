"""Operators that only graphs have, against NumPy."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from tilewright import ir
from tilewright.errors import GraphError
from tilewright.graph import GraphBuilder, TensorType
from tilewright.model import Executable
from tilewright.model.kernels import compile_calls
from tilewright.target import Target


def _plain(func: ir.PrimFunc, target: Target) -> ir.IRModule:
    return ir.IRModule({str(func.attrs["global_symbol"]): func})


def _run(op: str, *arrays: Any, **attrs: Any) -> Any:
    builder = GraphBuilder()
    values = [builder.input("x", TensorType(a.shape, a.dtype.name)) for a in arrays]
    graph = builder.graph(builder.calls(op, values, attrs))
    return Executable(graph, compile_calls(graph, Target("llvm"), _plain))(*arrays)[0]


def _numbers(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def _close(made: Any, expected: Any) -> None:
    np.testing.assert_allclose(made, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("a", "b"),
    [((3, 4), (4, 5)), ((2, 1, 3, 4), (5, 4, 2)), ((1, 3, 4), (6, 4, 1)), ((2, 0), (0, 3))],
)
def test_products_of_stacks(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    x, y = _numbers(*a), _numbers(*b)
    _close(_run("matmul", x, y), x @ y)


def test_products_whose_inner_extents_differ() -> None:
    with pytest.raises(GraphError, match=r"^matmul of float32\[2, 3\], float32\[4, 2\]: "):
        _run("matmul", _numbers(2, 3), _numbers(4, 2))


def test_integer_power_wraps_around() -> None:
    base = np.array([[2], [-3], [0]], np.int32)
    exponent = np.array([0, 1, 5, 31, 33], np.int32)
    expected = np.power(base.astype(np.int64), exponent.astype(np.int64)).astype(np.int32)
    np.testing.assert_array_equal(_run("integer_power", base, exponent), expected)


@pytest.mark.parametrize("k", [-2, 0, 1, 9])
def test_one_side_of_a_diagonal(k: int) -> None:
    x = _numbers(2, 3, 4)
    np.testing.assert_array_equal(_run("trilu", x, k=k, upper=True), np.triu(x, k))
    np.testing.assert_array_equal(_run("trilu", x, k=k, upper=False), np.tril(x, k))


def test_parts_of_sequences_turned_around() -> None:
    x, lengths = _numbers(4, 3, 2), np.array([0, 2, 4], np.int64)
    expected = x.copy()
    for batch, length in enumerate(lengths):
        expected[:length, batch] = x[:length, batch][::-1]
    made = _run("reverse_sequence", x, lengths, time_axis=0, batch_axis=1)
    np.testing.assert_array_equal(made, expected)


def test_weighted_sums_along_an_axis() -> None:
    x, weights = _numbers(2, 5, 3), _numbers(4, 2)
    indices = np.array([[0, 1], [4, 4], [2, 0], [3, 1]], np.int32)
    expected = np.einsum("abtc,bt->abc", x[:, indices], weights)
    _close(_run("resample", x, indices, weights, axis=1), expected)


def _windows(x: Any, options: dict[str, Any]) -> Any:
    """All windows of images, NaN outside: shape (n, c, y, z, kernel)."""
    (kh, kw), (sh, sw), (dh, dw) = (options[n] for n in ("kernel", "strides", "dilation"))
    (ph, pw), (height, width) = options["padding"], options["output"]
    padded = np.pad(x, ((0, 0), (0, 0), (ph, 9), (pw, 9)), constant_values=np.nan)
    made = np.empty((*x.shape[:2], height, width, kh, kw), x.dtype)
    for y, z in product(range(height), range(width)):
        rows, columns = y * sh + np.arange(kh) * dh, z * sw + np.arange(kw) * dw
        made[:, :, y, z] = padded[:, :, rows][..., columns]
    return made.reshape(*made.shape[:4], -1)


_WINDOW = {
    "kernel": [2, 3], "strides": [2, 1], "dilation": [1, 2], "padding": [1, 0], "output": [3, 3],
}  # fmt: skip


def test_sums_of_windows() -> None:
    x = _numbers(2, 3, 5, 7)
    _close(_run("nn.sum_pool", x, **_WINDOW), np.nansum(_windows(x, _WINDOW), axis=-1))


def test_places_of_the_largest_elements() -> None:
    x = _numbers(2, 3, 5, 7)
    places = _run("nn.max_pool_indices", x, **_WINDOW)
    np.testing.assert_array_equal(x.ravel()[places], np.nanmax(_windows(x, _WINDOW), axis=-1))


def test_transposed_convolutions_with_groups_and_dilation() -> None:
    x, weight = _numbers(2, 4, 3, 4), _numbers(4, 3, 2, 3)
    strides, dilation, padding = (2, 3), (2, 1), (1, 0)
    full = np.zeros((2, 6, 8, 14), np.float32)
    for c, k, kh, kw in product(range(4), range(3), range(2), range(3)):
        rows = slice(kh * 2, kh * 2 + 5, 2)
        columns = slice(kw, kw + 10, 3)
        full[:, c // 2 * 3 + k, rows, columns] += x[:, c] * weight[c, k, kh, kw]
    made = _run(
        "nn.conv_transpose", x, weight, strides=strides, dilation=dilation, padding=padding,
        output=[6, 12], groups=2,
    )  # fmt: skip
    _close(made, full[:, :, 1:7, 0:12])


def test_columns_put_back_into_an_image() -> None:
    image, block, strides = (4, 5), (2, 3), (2, 1)
    x = _numbers(1, 2 * 6, 2 * 3)
    expected = np.zeros((1, 2, *image), np.float32)
    parts = x.reshape(1, 2, 2, 3, 2, 3)
    for kh, kw, y, z in product(range(2), range(3), range(2), range(3)):
        expected[:, :, y * 2 + kh, z + kw] += parts[:, :, kh, kw, y, z]
    options = {"image": image, "block": block, "strides": strides}
    made = _run("nn.col2im", x, **options, dilation=[1, 1], padding=[0, 0, 0, 0])
    _close(made, expected)


def _bilinear(image: Any, y: float, z: float) -> Any:
    """An element between four others, 0 outside."""
    total = np.zeros(image.shape[0], np.float64)
    for a, b in product(
        (int(np.floor(y)), int(np.floor(y)) + 1), (int(np.floor(z)), int(np.floor(z)) + 1)
    ):
        if 0 <= a < image.shape[1] and 0 <= b < image.shape[2]:
            total += image[:, a, b] * (1 - abs(y - a)) * (1 - abs(z - b))
    return total


def test_images_at_places() -> None:
    x, places = _numbers(1, 2, 4, 5), np.abs(_numbers(1, 3, 2, 2)) * 3 - 1
    options = {"mode": "linear", "padding_mode": "zeros", "align_corners": False}
    made = _run("image.grid_sample", x, places, **options)
    for y, z in product(range(3), range(2)):
        _close(made[0, :, y, z], _bilinear(x[0], *places[0, y, z]))


def test_shares_of_an_image_as_places() -> None:
    grid = np.array([[[[-1, -1], [1, 1], [0, 2]]]], np.float32)
    options = {"extents": [4, 6], "padding_mode": "zeros"}
    corners = _run("image.grid_places", grid, align_corners=True, **options)
    _close(corners[0, 0], [[0, 0], [3, 5], [7.5 - 3, 2.5]])
    edges = _run("image.grid_places", grid, align_corners=False, **options)
    _close(edges[0, 0], [[-0.5, -0.5], [3.5, 5.5], [5.5, 2.5]])


def test_reflection_stays_inside() -> None:
    grid = np.linspace(-5, 5, 64, dtype=np.float32).reshape(1, 1, 32, 2)
    options = {"extents": [4, 6], "padding_mode": "reflection"}
    made = _run("image.grid_places", grid, align_corners=False, **options)
    assert made[..., 0].min() >= -0.5 - 1e-5
    assert made[..., 0].max() <= 3.5 + 1e-5
    assert made[..., 1].max() <= 5.5 + 1e-5


def test_windows_moved_by_offsets() -> None:
    x, weight, offset = _numbers(1, 2, 4, 4), _numbers(3, 2, 2, 2), _numbers(1, 8, 3, 3) / 2
    made = _run("image.deform_conv", x, weight, offset, window=[[1, 1], [1, 1], [0, 0]])
    expected = np.zeros((3, 3, 3))
    for y, z, kh, kw in product(range(3), range(3), range(2), range(2)):
        tap = (kh * 2 + kw) * 2
        place = (y + kh + offset[0, tap, y, z], z + kw + offset[0, tap + 1, y, z])
        expected[:, y, z] += weight[:, :, kh, kw] @ _bilinear(x[0], *place)
    _close(made[0], expected)


def test_averages_of_boxes() -> None:
    x = _numbers(2, 3, 6, 6)
    boxes, batches = np.array([[1, 1, 3, 5]], np.float32), np.array([1], np.int64)
    made = _run(
        "image.roi_align", x, boxes, batches, size=[2, 1], scale=1.0, samples=1,
        half_pixel=False, mode="avg",
    )  # fmt: skip
    _close(made[0, :, 0, 0], _bilinear(x[1], 2, 2))
    _close(made[0, :, 1, 0], _bilinear(x[1], 4, 2))
