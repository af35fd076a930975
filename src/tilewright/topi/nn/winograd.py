"""Winograd convolution: transform tiles of data and kernel, multiply, transform back.

The transform matrices come from interpolation points by Cook and Toom: F(m, r) computes m outputs
of a filter of size r with m + r - 1 multiplications: evaluate both polynomials at m + r - 2 points
and at infinity, multiply, interpolate.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias

from tilewright import te
from tilewright.errors import TensorExpressionError
from tilewright.ir import DType, ExprLike, PrimExpr, Select, Var, const, logical_and
from tilewright.ir.annotation_keys import LAYOUT_FREE_PLACEHOLDERS, SCHEDULE_RULE, WRITE_CACHE_LEVEL
from tilewright.support.names import named
from tilewright.te import Tensor
from tilewright.topi import axes as ax
from tilewright.topi.accumulate import SumTypes
from tilewright.topi.axes import Indices, NamedTensor, compute_named
from tilewright.topi.nn.conv import Padding
from tilewright.topi.nn.padding import pad_named

Matrix: TypeAlias = list[list[Fraction]]

# Small numbers and their inverses keep the transforms well conditioned.
_FEW_POINTS = [Fraction(n) for n in ("0", "-1", "1", "1/2", "-2")]
_MANY_POINTS = [
    Fraction(n) for n in ("0", "-1", "1", "1/2", "-1/2", "2", "-2", "1/4", "-1/4", "4", "-4")
]


def interpolation_points(count: int) -> list[Fraction]:
    """The finite points used for `count` evaluations."""
    points = _FEW_POINTS if count <= len(_FEW_POINTS) else _MANY_POINTS
    if count > len(points):
        raise TensorExpressionError(
            f"winograd: a transform with {count} points is not supported, at most {len(points)}; "
            "choose a smaller tile"
        )
    return points[:count]


def product_of(roots: Sequence[Fraction]) -> list[Fraction]:
    """The product of all `x - root`, coefficients in ascending order."""
    polynomial = [Fraction(1)]
    for root in roots:
        shifted, scaled = [Fraction(0), *polynomial], [*(root * c for c in polynomial), Fraction(0)]
        polynomial = [a - b for a, b in zip(shifted, scaled, strict=True)]
    return polynomial


def transform_matrices(tile_size: int, kernel_size: int) -> tuple[Matrix, Matrix, Matrix]:
    """A (inverse), B (data) and G (filter): `Y = A^T ((G g) * (B^T d))` for each axis."""
    alpha = tile_size + kernel_size - 1
    points = interpolation_points(alpha - 1)
    others = [[q for q in points if q != p] for p in points]
    weights = [
        math.prod((p - q for q in rest), start=Fraction(1))
        for p, rest in zip(points, others, strict=True)
    ]
    # The first weight is made positive, which moves its sign into the data transform.
    sign = [Fraction(-1 if k == 0 and w < 0 else 1) for k, w in enumerate(weights)]
    infinity = [Fraction(0)]
    inverse = [[p**j for j in range(tile_size)] for p in points]
    inverse.append(infinity * (tile_size - 1) + [Fraction(1)])
    filters = [
        [p**j / (w * s) for j in range(kernel_size)]
        for p, w, s in zip(points, weights, sign, strict=True)
    ]
    filters.append(infinity * (kernel_size - 1) + [Fraction(1)])
    columns = [
        [c * s for c in product_of(rest)] + [Fraction(0)]
        for rest, s in zip(others, sign, strict=True)
    ]
    columns.append(product_of(points))
    data = [[column[row] for column in columns] for row in range(alpha)]
    return inverse, data, filters


def constant_matrix(matrix: Matrix, dtype: str, name: str) -> Tensor:
    """A small matrix as a tensor; every element is chosen by comparing indices."""
    rows, columns = len(matrix), len(matrix[0])

    def element(i: Var, j: Var) -> PrimExpr:
        value = const(0.0, dtype)
        for r in range(rows):
            for c in range(columns):
                here = logical_and((i % rows).equal(r), (j % columns).equal(c))
                value = Select(here, const(float(matrix[r][c]), dtype), value)
        return value

    attrs = {"const_matrix": True, SCHEDULE_RULE: "None"}
    return te.compute((rows, columns), element, name=name, attrs=attrs)


def _orders(**stages: str) -> Mapping[str, list[str]]:
    return {stage: axes.split() for stage, axes in stages.items()}


# The order of the axes of each stage, by layout.
_LAYOUTS = {
    "nchw": _orders(
        data="n ci h w",
        kernel="co ci kh kw",  # as given by the user
        packed_kernel="eps nu ci co",
        input_tile="ci p eps nu",
        data_pack="eps nu ci p",
        bgemm="eps nu co p",
        inverse="co p vh vw",
        conv2d_winograd="n co h w",
    ),
    "nhwc": _orders(
        data="n h w ci",
        kernel="kh kw ci co",
        packed_kernel="eps nu co ci",
        input_tile="eps nu p ci",
        data_pack="eps nu p ci",
        bgemm="eps nu p co",
        inverse="vh vw p co",
        conv2d_winograd="n h w co",
    ),
}


@dataclass(frozen=True)
class ImageTiles:
    """How the image is cut into tiles of `m x m` outputs, `alpha x alpha` inputs."""

    m: int
    r: int
    rows: int
    columns: int
    out_h: int
    out_w: int
    before: Sequence[int]
    after: Sequence[int]

    @property
    def alpha(self) -> int:
        return self.m + self.r - 1

    @property
    def count(self) -> int:
        """Tiles of one image."""
        return self.rows * self.columns


def image_tiles(
    image: Sequence[PrimExpr], r: int, m: int, padding: Padding, what: str
) -> ImageTiles:
    """The tiles of an image, which becomes larger below and to the right until all are whole."""
    sizes = [ax.constant_extent(extent, what) for extent in image]
    before, after = ax.pad_widths(padding, [r, r], what)
    out = [sizes[n] + before[n] + after[n] - r + 1 for n in range(2)]
    if min(out) <= 0:
        raise TensorExpressionError(f"{what}: the image is smaller than the kernel")
    rows, columns = (-(-extent // m) for extent in out)
    after = [tiles * m + r - 1 - sizes[n] - before[n] for n, tiles in enumerate((rows, columns))]
    return ImageTiles(m, r, rows, columns, out[0], out[1], before, after)


class _Winograd:
    """The stages of one convolution."""

    def __init__(
        self, data: NamedTensor, kernel: NamedTensor, tiles: ImageTiles, layout: str
    ) -> None:
        self._data = data
        self._kernel = kernel
        self._tiles = tiles
        self._layout = layout
        alpha, m = tiles.alpha, tiles.m
        self._a, self._b, _ = transform_matrices(m, tiles.r)
        self._sizes: dict[str, ExprLike] = {
            "n": data.extent("n"),
            "p": data.extent("n") * tiles.count,
            "ci": data.extent("ci"),
            "co": kernel.extent("co"),
            "eps": alpha,
            "nu": alpha,
            "vh": m,
            "vw": m,
            "h": tiles.out_h,
            "w": tiles.out_w,
        }

    def build(self, dtype: str, bgemm_attrs: Mapping[str, Any]) -> Tensor:
        products = self._multiply(self._pack(), bgemm_attrs)
        return self._output(self._inverse(products, DType(dtype).accumulator), dtype).tensor

    def _stage(
        self,
        name: str,
        element: Callable[[Indices], ExprLike],
        attrs: Mapping[str, Any] | None,
        tag: str = "",
    ) -> NamedTensor:
        return compute_named(name, _LAYOUTS[self._layout][name], self._sizes, element, tag, attrs)

    def _input_tile(self) -> NamedTensor:
        tiles = self._tiles
        padded = pad_named(self._data, "hw", tiles.before, tiles.after, 0.0, "data_pad")

        def element(i: Indices) -> PrimExpr:
            p = i["p"]
            y = p // tiles.columns % tiles.rows * tiles.m + i["eps"]
            x = p % tiles.columns * tiles.m + i["nu"]
            return padded.at(n=p // tiles.count, ci=i["ci"], h=y, w=x)

        return self._stage("input_tile", element, {SCHEDULE_RULE: "None"})

    def _pack(self) -> NamedTensor:
        """`B^T d B` for each tile and channel."""
        tile = self._input_tile()
        wide = self._data.tensor.dtype.accumulator
        matrix = constant_matrix(self._b, wide, "B")
        return self._transformed("data_pack", tile, matrix, ("eps", "nu", "ci"))

    def _transformed(
        self, stage: str, tiles: NamedTensor, matrix: Tensor, axes: tuple[str, str, str]
    ) -> NamedTensor:
        """`M^T t M` for each tile; `axes` are those of a result and that of the channels."""
        r_a, r_b = (te.reduce_axis((0, self._tiles.alpha), name) for name in ("r_a", "r_b"))
        row, column, channel = axes

        def element(i: Indices) -> PrimExpr:
            value = tiles.at(eps=r_a, nu=r_b, p=i["p"], **{channel: i[channel]})
            scaled = value.astype(matrix.dtype) * matrix(r_a, i[row]) * matrix(r_b, i[column])
            return te.sum(scaled, axis=[r_a, r_b])

        rule = {SCHEDULE_RULE: f"conv2d_{self._layout}_winograd_{stage}"}
        return self._stage(stage, element, rule)

    def _multiply(self, pack: NamedTensor, attrs: Mapping[str, Any]) -> NamedTensor:
        ci = te.reduce_axis((0, self._data.extent("ci")), "ci")

        def element(i: Indices) -> PrimExpr:
            value = pack.at(eps=i["eps"], nu=i["nu"], p=i["p"], ci=ci)
            weight = self._kernel.at(eps=i["eps"], nu=i["nu"], co=i["co"], ci=ci)
            return te.sum(value * weight.astype(value.dtype), axis=ci)

        return self._stage("bgemm", element, attrs)

    def _inverse(self, bgemm: NamedTensor, dtype: str) -> NamedTensor:
        """`A^T Y A` for each tile and filter."""
        matrix = constant_matrix(self._a, dtype, "A")
        return self._transformed("inverse", bgemm, matrix, ("vh", "vw", "co"))

    def _output(self, inverse: NamedTensor, dtype: str) -> NamedTensor:
        tiles, m = self._tiles, self._tiles.m

        def element(i: Indices) -> PrimExpr:
            h, w = i["h"], i["w"]
            p = i["n"] * tiles.count + h // m * tiles.columns + w // m
            return inverse.at(co=i["co"], p=p, vh=h % m, vw=w % m).astype(dtype)

        return self._stage("conv2d_winograd", element, None, f"conv2d_{self._layout}_winograd")


def _square_extent(extents: Sequence[PrimExpr], what: str) -> int:
    rows, columns = (ax.constant_extent(extent, what) for extent in extents)
    if rows != columns:
        raise TensorExpressionError(f"{what}: the kernel must be square, got {rows} x {columns}")
    return rows


def _check_tile(tile_size: int, kernel_size: int, what: str) -> None:
    if tile_size < 1 or kernel_size < 1:
        raise TensorExpressionError(
            f"{what}: tile_size {tile_size} and the kernel of {kernel_size} x {kernel_size} must "
            "be positive"
        )


def _check_transformed(alpha: int, tile_size: int, what: str) -> None:
    """A kernel of one element needs no transform: the weight was made for another tile."""
    if tile_size < 1 or alpha < tile_size + 1:
        raise TensorExpressionError(
            f"{what}: a transformed weight of {alpha} x {alpha} does not fit tile_size "
            f"{tile_size}, which makes {tile_size + 2} x {tile_size + 2} of a kernel of 3 x 3; use "
            "conv2d_winograd_weight_transform with the same tile_size"
        )


def _transform_weight(
    kernel: NamedTensor, tile_size: int, axes: Sequence[str], what: str
) -> NamedTensor:
    """`G g G^T` for each pair of channels."""
    r = _square_extent([kernel.extent("kh"), kernel.extent("kw")], what)
    _check_tile(tile_size, r, what)
    alpha = tile_size + r - 1
    wide = kernel.tensor.dtype.accumulator
    matrix = constant_matrix(transform_matrices(tile_size, r)[2], wide, "G")
    r_kh, r_kw = te.reduce_axis((0, r), "r_kh"), te.reduce_axis((0, r), "r_kw")

    def element(i: Indices) -> PrimExpr:
        value = kernel.at(co=i["co"], ci=i["ci"], kh=r_kh, kw=r_kw).astype(wide)
        scaled = value * matrix(i["eps"], r_kh) * matrix(i["nu"], r_kw)
        return te.sum(scaled, axis=[r_kh, r_kw])

    sizes: dict[str, ExprLike] = {
        "eps": alpha,
        "nu": alpha,
        "co": kernel.extent("co"),
        "ci": kernel.extent("ci"),
    }
    return compute_named("transform_weight", axes, sizes, element)


def conv2d_winograd_weight_transform(kernel: Tensor, tile_size: int) -> Tensor:
    """The transformed OIHW kernel: `[alpha, alpha, CO, CI]`."""
    what = "conv2d_winograd_weight_transform"
    ax.check_ndim(kernel, 4, what)
    ax.check_float(kernel, what)
    named = NamedTensor(kernel, _LAYOUTS["nchw"]["kernel"])
    types = SumTypes(kernel.dtype.accumulator, kernel.dtype)
    return types.finish(_transform_weight(named, tile_size, ("eps", "nu", "co", "ci"), what).tensor)


def _conv2d_winograd(layout: str, weight_shape: str) -> Callable[..., Tensor]:
    what, orders = f"conv2d_winograd_{layout}", _LAYOUTS[layout]

    def convolution(
        data: Tensor,
        weight: Tensor,
        strides: ax.Window = 1,
        padding: Padding = 0,
        dilation: ax.Window = 1,
        out_dtype: str | None = None,
        pre_computed: bool = False,
        tile_size: int = 4,
        write_cache_level: int = 2,
    ) -> Tensor:
        for tensor in (data, weight):
            ax.check_ndim(tensor, 4, what)
            ax.check_float(tensor, what)
        steps = ax.per_axis(strides, 2, f"{what} strides") + ax.per_axis(
            dilation, 2, f"{what} dilation"
        )
        if steps != [1, 1, 1, 1]:
            raise TensorExpressionError(f"{what}: stride and dilation must be 1, got {steps}")
        image = NamedTensor(data, orders["data"])
        attrs: dict[str, Any] = {WRITE_CACHE_LEVEL: [write_cache_level]}
        if pre_computed:
            kernel = NamedTensor(weight, orders["packed_kernel"])
            attrs[LAYOUT_FREE_PLACEHOLDERS] = [weight]
        else:
            given = NamedTensor(weight, orders["kernel"])
            kernel = _transform_weight(given, tile_size, orders["packed_kernel"], what)
        ax.check_extents(
            image.extent("ci"), kernel.extent("ci"), what, "the input channels of data and kernel"
        )
        alpha = _square_extent([kernel.extent("eps"), kernel.extent("nu")], what)
        if pre_computed:
            _check_transformed(alpha, tile_size, what)
        sizes = [image.extent("h"), image.extent("w")]
        tiles = image_tiles(sizes, alpha - tile_size + 1, tile_size, padding, what)
        return _Winograd(image, kernel, tiles, layout).build(out_dtype or str(data.dtype), attrs)

    meaning = f"The {layout.upper()} convolution by Winograd tiles"
    return named(convolution, what, f"{meaning}; a pre-computed weight is {weight_shape}.")


conv2d_winograd_nchw = _conv2d_winograd("nchw", "[alpha, alpha, CI, CO]")
conv2d_winograd_nhwc = _conv2d_winograd("nhwc", "[alpha, alpha, CO, CI]")
