"""Winograd convolution whose transforms are sums, for kernels that work on blocks of tiles.

All stages but the product are spatial, an expression for each element: their loops over a tile are
written out, so that what is left are a few additions of vectors of channels. The weights are given
as they are; their transform reads nothing else, and can be made ahead of time.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright import te
from tilewright.errors import TensorExpressionError
from tilewright.ir import DType, PrimExpr, Var, const
from tilewright.ir.annotation_keys import WINOGRAD_TILE
from tilewright.te import Tensor
from tilewright.topi.axes import check_extents, check_float, check_ndim, constant_extent, pad_widths
from tilewright.topi.nn.conv import Padding
from tilewright.topi.nn.padding import pad
from tilewright.topi.nn.winograd_points import TAPS, WinogradPoints, chosen, winograd_points

WHAT = "winograd_conv2d"


@dataclass(frozen=True)
class _Grid:
    """Tiles of an image."""

    images: int
    rows: int
    columns: int
    height: int  # of the result
    width: int


def winograd_conv2d(
    data: Tensor,
    kernel: Tensor,
    padding: Padding = 0,
    tile_size: int = 4,
    out_dtype: str | None = None,
) -> Tensor:
    """The convolution of NHWC data with a 3x3 HWIO kernel, stride 1, by tiles of the result."""
    for tensor in (data, kernel):
        check_ndim(tensor, 4, WHAT)
        check_float(tensor, WHAT)
    check_extents(data.shape[3], kernel.shape[2], WHAT, "the input channels of data and kernel")
    window = [constant_extent(extent, WHAT) for extent in kernel.shape[:2]]
    if window != [TAPS, TAPS]:
        raise TensorExpressionError(
            f"{WHAT}: the kernel must be 3 x 3, got {window[0]} x {window[1]}"
        )
    points = winograd_points(tile_size)
    padded, grid = _padded(data, padding, points)
    weights = _weights(kernel, points)
    tiles = _transformed_data(padded, grid, points)
    products = _products(tiles, weights, grid, points, kernel)
    return _result(products, grid, points, DType(out_dtype or str(data.dtype)))


def _padded(data: Tensor, padding: Padding, points: WinogradPoints) -> tuple[Tensor, _Grid]:
    """The image with zeros around it, and below and to the right as many as make tiles whole."""
    n, *sizes = (constant_extent(extent, WHAT) for extent in data.shape[:3])
    before, after = pad_widths(padding, [TAPS, TAPS], WHAT)
    out = [sizes[d] + before[d] + after[d] - TAPS + 1 for d in range(2)]
    if min(out) <= 0:
        raise TensorExpressionError(f"{WHAT}: the image is smaller than the kernel")
    rows, columns = (-(-extent // points.outputs) for extent in out)
    ends = [
        tiles * points.outputs + TAPS - 1 - sizes[d] - before[d]
        for d, tiles in enumerate((rows, columns))
    ]
    made = pad(data, [0, *before, 0], [0, *ends, 0], 0.0, "data_pad")
    return made, _Grid(n, rows, columns, out[0], out[1])


def _weights(kernel: Tensor, points: WinogradPoints) -> Tensor:
    """`G g G^T` of each pair of channels, rounded once."""
    wide = DType("float64")
    matrix = [[const(c, wide) for c in row] for row in points.filters()]
    columns = [[row[tap] for row in matrix] for tap in range(TAPS)]

    def element(eps: Var, nu: Var, ci: Var, co: Var) -> PrimExpr:
        total: PrimExpr | None = None
        for kh in range(TAPS):
            row: PrimExpr = const(0.0, wide)
            for kw in range(TAPS):
                row = row + kernel(kh, kw, ci, co).astype(wide) * chosen(nu, columns[kw])
            term = row * chosen(eps, columns[kh])
            total = term if total is None else total + term
        assert total is not None
        return total.astype(kernel.dtype.accumulator)

    shape = (points.alpha, points.alpha, kernel.shape[2], kernel.shape[3])
    return te.compute(shape, element, "winograd_weights")


def _transformed_data(padded: Tensor, grid: _Grid, points: WinogradPoints) -> Tensor:
    """`B^T d B` of each tile and channel: columns first, for all tiles of a row of tiles."""
    m, alpha = points.outputs, points.alpha
    n, channels, wide = grid.images, padded.shape[3], padded.dtype.accumulator

    def row(i: Var, th: Var, eps: Var, x: Var, c: Var) -> PrimExpr:
        column = [padded(i, th * m + r, x, c).astype(wide) for r in range(alpha)]
        return chosen(eps, points.data(column))

    rows = te.compute((n, grid.rows, alpha, padded.shape[2], channels), row, "winograd_data_rows")

    def tile(eps: Var, nu: Var, i: Var, th: Var, tw: Var, c: Var) -> PrimExpr:
        return chosen(nu, points.data([rows(i, th, eps, tw * m + s, c) for s in range(alpha)]))

    shape = (alpha, alpha, n, grid.rows, grid.columns, channels)
    return te.compute(shape, tile, "winograd_data")


def _products(
    tiles: Tensor, weights: Tensor, grid: _Grid, points: WinogradPoints, kernel: Tensor
) -> Tensor:
    ci = te.reduce_axis((0, kernel.shape[2]), "ci")

    def element(eps: Var, nu: Var, i: Var, th: Var, tw: Var, co: Var) -> PrimExpr:
        value = tiles(eps, nu, i, th, tw, ci)
        return te.sum(value * weights(eps, nu, ci, co).astype(value.dtype), axis=ci)

    shape = (points.alpha, points.alpha, grid.images, grid.rows, grid.columns, kernel.shape[3])
    return te.compute(shape, element, "winograd_products", attrs={WINOGRAD_TILE: points.outputs})


def _result(products: Tensor, grid: _Grid, points: WinogradPoints, dtype: DType) -> Tensor:
    """`A^T Y A` of each tile and filter, where it belongs in the image."""
    m, alpha, filters = points.outputs, points.alpha, products.shape[5]

    def row(vh: Var, nu: Var, i: Var, th: Var, tw: Var, co: Var) -> PrimExpr:
        return chosen(vh, points.results([products(e, nu, i, th, tw, co) for e in range(alpha)]))

    shape = (m, alpha, grid.images, grid.rows, grid.columns, filters)
    rows = te.compute(shape, row, "winograd_result_rows")

    def element(i: Var, h: Var, w: Var, co: Var) -> PrimExpr:
        line = [rows(h % m, nu, i, h // m, w // m, co) for nu in range(alpha)]
        return chosen(w % m, points.results(line)).astype(dtype)

    return te.compute((grid.images, grid.height, grid.width, filters), element, WHAT)
