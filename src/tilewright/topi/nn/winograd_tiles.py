"""Winograd convolution whose transforms are sums, for kernels that work on blocks of tiles.

All stages but the product are spatial, an expression for each element: their loops over a tile are
written out, so that what is left are a few additions of vectors of channels. The weights are given
as they are; their transform reads nothing else, and can be made ahead of time.

F(m, 3) computes m outputs of a filter of three taps with m + 2 multiplications, at the points 0,
`+-a` for some numbers `a`, and infinity. Points in pairs of opposite signs make the transforms
cheap: the two rows of a pair are the sum and the difference of an even and an odd part, and those
have few terms. A point and its inverse keep them accurate.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from tilewright import te
from tilewright.errors import TensorExpressionError
from tilewright.ir import DType, ExprLike, PrimExpr, Select, Var, const
from tilewright.ir.annotation_keys import WINOGRAD_TILE
from tilewright.te import Tensor
from tilewright.topi.axes import check_extents, check_float, check_ndim, constant_extent
from tilewright.topi.nn.conv import Padding
from tilewright.topi.nn.padding import pad
from tilewright.topi.nn.winograd import ImageTiles, image_tiles, product_of

WHAT = "winograd_conv2d"
TAPS = 3


@dataclass(frozen=True)
class WinogradPoints:
    """The squares of the numbers `a`; transforms have rows for 0, a, -a, ..., infinity."""

    squares: tuple[Fraction, ...]

    @property
    def outputs(self) -> int:
        """Of a tile, along one axis."""
        return 2 * len(self.squares)

    @property
    def alpha(self) -> int:
        """Inputs of a tile along one axis, and the number of its products."""
        return self.outputs + TAPS - 1

    def data(self, x: Sequence[PrimExpr]) -> list[PrimExpr]:
        """The transform of the inputs of a tile."""
        whole = product_of(self.squares)  # of `x**2 - square`: every second coefficient
        rows = [_every_second(whole, x, 0)]
        for square in self.squares:
            rest = product_of([other for other in self.squares if other != square])
            even = _every_second(rest, x, 2)
            odd = _scaled(math.sqrt(square), _every_second(rest, x, 1))
            rows += [even + odd, even - odd]
        return [*rows, _every_second(whole, x, 1)]

    def filters(self) -> list[list[float]]:
        """The matrix by which the taps of a filter are multiplied."""
        rows = [[float(1 / _value(self.squares, Fraction(0))), 0.0, 0.0]]
        for square in self.squares:
            weight = 2 * square * _value([s for s in self.squares if s != square], square)
            even, odd = float(1 / weight), math.sqrt(square) / float(weight)
            rows += [[even, sign * odd, float(square / weight)] for sign in (1, -1)]
        return [*rows, [0.0, 0.0, 1.0]]

    def results(self, y: Sequence[PrimExpr]) -> list[PrimExpr]:
        """The outputs of a tile from the products at all points."""
        opposite = [(y[1 + 2 * n], y[2 + 2 * n]) for n in range(len(self.squares))]
        sums, differences = [a + b for a, b in opposite], [a - b for a, b in opposite]
        made = []
        for power in range(self.outputs):
            parts = differences if power % 2 else sums
            first = [y[0]] if power == 0 else [y[-1]] if power == self.outputs - 1 else []
            factors = [_power(square, power) for square in self.squares]
            made.append(_total([*first, *map(_scaled, factors, parts)]))
        return made


_POINTS = {
    2: WinogradPoints((Fraction(1),)),
    4: WinogradPoints((Fraction(1, 2), Fraction(2))),
    6: WinogradPoints((Fraction(1, 4), Fraction(1), Fraction(4))),
}


def winograd_points(outputs: int) -> WinogradPoints:
    """The points for tiles of `outputs` outputs along an axis."""
    if outputs not in _POINTS:
        known = ", ".join(map(str, _POINTS))
        raise TensorExpressionError(f"winograd: tile_size must be one of {known}, got {outputs}")
    return _POINTS[outputs]


def chosen(index: PrimExpr, values: Sequence[PrimExpr]) -> PrimExpr:
    """The value with that number; where the index is known, nothing else is left."""
    *others, value = values
    for number, other in reversed(list(enumerate(others))):
        value = Select(index.equal(number), other, value)
    return value


def _value(squares: Sequence[Fraction], x: Fraction) -> Fraction:
    """The product of all `x**2 - square` for the square of a number."""
    return math.prod((x - square for square in squares), start=Fraction(1))


def _power(square: Fraction, power: int) -> float:
    """A power of the root of a square; even ones are exact."""
    return float(square ** (power // 2)) * (math.sqrt(square) if power % 2 else 1.0)


def _every_second(coefficients: Sequence[Fraction], x: Sequence[PrimExpr], first: int) -> PrimExpr:
    """The sum of every second input, from `first` on, times a coefficient."""
    terms = [_scaled(float(c), x[first + 2 * n]) for n, c in enumerate(coefficients) if c]
    return _total(terms[::-1])  # the last coefficient is 1: the others are multiplied and added


def _scaled(factor: float, value: PrimExpr) -> PrimExpr:
    return value if factor == 1.0 else value * const(factor, value.dtype)


def _total(terms: Sequence[PrimExpr]) -> PrimExpr:
    total, *rest = terms
    for term in rest:
        total = total + term
    return total


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
    constant_extent(data.shape[0], WHAT)
    grid = image_tiles(data.shape[1:3], TAPS, points.outputs, padding, WHAT)
    padded = pad(data, [0, *grid.before, 0], [0, *grid.after, 0], 0.0, "data_pad")
    tiles = _transformed_data(padded, grid, points)
    products = _products(tiles, _weights(kernel, points, DType("float64")), points)
    return _result(products, grid, points, DType(out_dtype or str(data.dtype)))


def winograd_of_whole_tiles(padded: Tensor, kernel: Tensor, tile_size: int) -> Tensor:
    """The same of data that is padded already, and has as many rows and columns as tiles need.

    Weights are transformed in their own type: in every call, that is part of its time.
    """
    points = winograd_points(tile_size)
    grid = image_tiles(padded.shape[1:3], TAPS, points.outputs, 0, WHAT)
    tiles = _transformed_data(padded, grid, points)
    products = _products(tiles, _weights(kernel, points, kernel.dtype.accumulator), points)
    return _result(products, grid, points, padded.dtype)


def _weights(kernel: Tensor, points: WinogradPoints, wide: DType) -> Tensor:
    """`G g G^T` of each pair of channels, in a type that is wide enough."""
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


def _transformed_data(padded: Tensor, grid: ImageTiles, points: WinogradPoints) -> Tensor:
    """`B^T d B` of each tile and channel: columns first, for all tiles of a row of tiles."""
    m, alpha = points.outputs, points.alpha
    n, channels, wide = padded.shape[0], padded.shape[3], padded.dtype.accumulator

    def row(i: Var, th: Var, eps: Var, x: Var, c: Var) -> PrimExpr:
        column = [padded(i, th * m + r, x, c).astype(wide) for r in range(alpha)]
        return chosen(eps, points.data(column))

    rows = te.compute((n, grid.rows, alpha, padded.shape[2], channels), row, "winograd_data_rows")

    def tile(eps: Var, nu: Var, i: Var, th: Var, tw: Var, c: Var) -> PrimExpr:
        return chosen(nu, points.data([rows(i, th, eps, tw * m + s, c) for s in range(alpha)]))

    shape = (alpha, alpha, n, grid.rows, grid.columns, channels)
    return te.compute(shape, tile, "winograd_data")


def _products(tiles: Tensor, weights: Tensor, points: WinogradPoints) -> Tensor:
    ci = te.reduce_axis((0, weights.shape[2]), "ci")

    def element(eps: Var, nu: Var, i: Var, th: Var, tw: Var, co: Var) -> PrimExpr:
        value = tiles(eps, nu, i, th, tw, ci)
        return te.sum(value * weights(eps, nu, ci, co).astype(value.dtype), axis=ci)

    shape = (*tiles.shape[:5], weights.shape[3])
    return te.compute(shape, element, "winograd_products", attrs={WINOGRAD_TILE: points.outputs})


def _result(products: Tensor, grid: ImageTiles, points: WinogradPoints, dtype: DType) -> Tensor:
    """`A^T Y A` of each tile and filter, where it belongs in the image."""
    m, alpha = points.outputs, points.alpha

    def row(vh: Var, nu: Var, i: Var, th: Var, tw: Var, co: Var) -> PrimExpr:
        return chosen(vh, points.results([products(e, nu, i, th, tw, co) for e in range(alpha)]))

    shape: list[ExprLike] = [m, alpha, *products.shape[2:]]
    rows = te.compute(shape, row, "winograd_result_rows")

    def element(i: Var, h: Var, w: Var, co: Var) -> PrimExpr:
        line = [rows(h % m, nu, i, h // m, w // m, co) for nu in range(alpha)]
        return chosen(w % m, points.results(line)).astype(dtype)

    image = (products.shape[2], grid.out_h, grid.out_w, products.shape[5])
    return te.compute(image, element, WHAT)
