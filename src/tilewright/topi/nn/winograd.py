"""Winograd convolution: transform tiles of data and kernel, multiply, transform back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from tilewright import te
from tilewright.errors import TensorExpressionError
from tilewright.ir import DType, ExprLike, IterVar, PrimExpr, Var
from tilewright.te import Tensor
from tilewright.topi.accumulate import SumTypes
from tilewright.topi.axes import (
    Window,
    check_extents,
    check_float,
    check_ndim,
    constant_extent,
    pad_widths,
    per_axis,
)
from tilewright.topi.nn.conv import Padding
from tilewright.topi.nn.padding import pad
from tilewright.topi.nn.winograd_matrices import constant_matrix, transform_matrices

Axes: TypeAlias = Mapping[str, Var]


@dataclass(frozen=True)
class _Named:
    """A tensor whose axes have names, so that the stages do not depend on the layout."""

    tensor: Tensor
    axes: tuple[str, ...]

    def at(self, **indices: ExprLike) -> PrimExpr:
        return self.tensor(*(indices[axis] for axis in self.axes))

    def extent(self, axis: str) -> PrimExpr:
        return self.tensor.shape[self.axes.index(axis)]


def _stage(
    name: str,
    axes: str,
    sizes: Mapping[str, ExprLike],
    element: Callable[[Axes], ExprLike],
    attrs: Mapping[str, Any] | None = None,
    tag: str = "",
) -> _Named:
    """A tensor with the given axes, in this order."""
    names = tuple(axes.split())

    def positional(*i: Var) -> ExprLike:
        return element(dict(zip(names, i, strict=True)))

    shape = [sizes[axis] for axis in names]
    return _Named(te.compute(shape, positional, name, tag, attrs, varargs_names=names), names)


@dataclass(frozen=True)
class _Layout:
    """The order of the axes of each stage."""

    name: str
    data: str
    kernel: str  # as given by the user
    packed_kernel: str
    input_tile: str
    data_pack: str
    bgemm: str
    inverse: str
    output: str


_NCHW = _Layout(
    "nchw",
    data="n ci h w",
    kernel="co ci kh kw",
    packed_kernel="eps nu ci co",
    input_tile="ci p eps nu",
    data_pack="eps nu ci p",
    bgemm="eps nu co p",
    inverse="co p vh vw",
    output="n co h w",
)
_NHWC = _Layout(
    "nhwc",
    data="n h w ci",
    kernel="kh kw ci co",
    packed_kernel="eps nu co ci",
    input_tile="eps nu p ci",
    data_pack="eps nu p ci",
    bgemm="eps nu p co",
    inverse="vh vw p co",
    output="n h w co",
)


@dataclass(frozen=True)
class _Tiles:
    """How the image is cut into tiles of `m x m` outputs, `alpha x alpha` inputs."""

    m: int
    r: int
    rows: int
    columns: int
    out_h: int
    out_w: int
    before: tuple[int, int]
    after: tuple[int, int]

    @property
    def alpha(self) -> int:
        return self.m + self.r - 1

    @property
    def count(self) -> int:
        """Tiles of one image."""
        return self.rows * self.columns


def _tiles(data: _Named, r: int, m: int, padding: Padding, what: str) -> _Tiles:
    sizes = [constant_extent(data.extent(axis), what) for axis in ("h", "w")]
    before, after = pad_widths(padding, [r, r], what)
    out = [sizes[n] + before[n] + after[n] - r + 1 for n in range(2)]
    if min(out) <= 0:
        raise TensorExpressionError(f"{what}: the image is smaller than the kernel")
    rows, columns = (-(-extent // m) for extent in out)
    # Zeros below and to the right so that the last tiles are whole.
    extra = [
        tiles * m + r - 1 - sizes[n] - before[n] - after[n]
        for n, tiles in enumerate((rows, columns))
    ]
    return _Tiles(
        m,
        r,
        rows,
        columns,
        out[0],
        out[1],
        (before[0], before[1]),
        (after[0] + extra[0], after[1] + extra[1]),
    )


class _Winograd:
    """The stages of one convolution."""

    def __init__(self, data: _Named, kernel: _Named, tiles: _Tiles, layout: _Layout) -> None:
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

    def _input_tile(self) -> _Named:
        tiles, axes = self._tiles, self._data.axes
        before = {"h": tiles.before[0], "w": tiles.before[1]}
        after = {"h": tiles.after[0], "w": tiles.after[1]}
        widths = [[side.get(axis, 0) for axis in axes] for side in (before, after)]
        padded = _Named(pad(self._data.tensor, widths[0], widths[1], name="data_pad"), axes)

        def element(i: Axes) -> PrimExpr:
            p = i["p"]
            y = p // tiles.columns % tiles.rows * tiles.m + i["eps"]
            x = p % tiles.columns * tiles.m + i["nu"]
            return padded.at(n=p // tiles.count, ci=i["ci"], h=y, w=x)

        attrs = {"schedule_rule": "None"}
        return _stage("input_tile", self._layout.input_tile, self._sizes, element, attrs)

    def _pack(self) -> _Named:
        """`B^T d B` for each tile and channel."""
        tile = self._input_tile()
        wide = self._data.tensor.dtype.accumulator
        matrix = constant_matrix(self._b, wide, "B")
        r_a, r_b = self._transform_axes()

        def element(i: Axes) -> PrimExpr:
            value = tile.at(eps=r_a, nu=r_b, p=i["p"], ci=i["ci"]).astype(wide)
            scaled = value * matrix(r_a, i["eps"]) * matrix(r_b, i["nu"])
            return te.sum(scaled, axis=[r_a, r_b])

        attrs = {"schedule_rule": f"conv2d_{self._layout.name}_winograd_data_pack"}
        return _stage("data_pack", self._layout.data_pack, self._sizes, element, attrs)

    def _transform_axes(self) -> list[IterVar]:
        return [te.reduce_axis((0, self._tiles.alpha), name) for name in ("r_a", "r_b")]

    def _multiply(self, pack: _Named, attrs: Mapping[str, Any]) -> _Named:
        ci = te.reduce_axis((0, self._data.extent("ci")), "ci")

        def element(i: Axes) -> PrimExpr:
            value = pack.at(eps=i["eps"], nu=i["nu"], p=i["p"], ci=ci)
            weight = self._kernel.at(eps=i["eps"], nu=i["nu"], co=i["co"], ci=ci)
            return te.sum(value * weight.astype(value.dtype), axis=ci)

        return _stage("bgemm", self._layout.bgemm, self._sizes, element, attrs)

    def _inverse(self, bgemm: _Named, dtype: str) -> _Named:
        """`A^T Y A` for each tile and filter."""
        matrix = constant_matrix(self._a, dtype, "A")
        r_a, r_b = self._transform_axes()

        def element(i: Axes) -> PrimExpr:
            value = bgemm.at(eps=r_a, nu=r_b, p=i["p"], co=i["co"]).astype(dtype)
            scaled = value * matrix(r_a, i["vh"]) * matrix(r_b, i["vw"])
            return te.sum(scaled, axis=[r_a, r_b])

        attrs = {"schedule_rule": f"conv2d_{self._layout.name}_winograd_inverse"}
        return _stage("inverse", self._layout.inverse, self._sizes, element, attrs)

    def _output(self, inverse: _Named, dtype: str) -> _Named:
        tiles, m = self._tiles, self._tiles.m

        def element(i: Axes) -> PrimExpr:
            h, w = i["h"], i["w"]
            p = i["n"] * tiles.count + h // m * tiles.columns + w // m
            return inverse.at(co=i["co"], p=p, vh=h % m, vw=w % m).astype(dtype)

        tag = f"conv2d_{self._layout.name}_winograd"
        return _stage("conv2d_winograd", self._layout.output, self._sizes, element, tag=tag)


def _square_extent(extents: Sequence[PrimExpr], what: str) -> int:
    rows, columns = (constant_extent(extent, what) for extent in extents)
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


def _transform_weight(kernel: _Named, tile_size: int, axes: str, what: str) -> _Named:
    """`G g G^T` for each pair of channels."""
    r = _square_extent([kernel.extent("kh"), kernel.extent("kw")], what)
    _check_tile(tile_size, r, what)
    alpha = tile_size + r - 1
    wide = kernel.tensor.dtype.accumulator
    matrix = constant_matrix(transform_matrices(tile_size, r)[2], wide, "G")
    r_kh, r_kw = te.reduce_axis((0, r), "r_kh"), te.reduce_axis((0, r), "r_kw")

    def element(i: Axes) -> PrimExpr:
        value = kernel.at(co=i["co"], ci=i["ci"], kh=r_kh, kw=r_kw).astype(wide)
        scaled = value * matrix(i["eps"], r_kh) * matrix(i["nu"], r_kw)
        return te.sum(scaled, axis=[r_kh, r_kw])

    sizes: dict[str, ExprLike] = {
        "eps": alpha,
        "nu": alpha,
        "co": kernel.extent("co"),
        "ci": kernel.extent("ci"),
    }
    return _stage("transform_weight", axes, sizes, element)


def conv2d_winograd_weight_transform(kernel: Tensor, tile_size: int) -> Tensor:
    """The transformed OIHW kernel: `[alpha, alpha, CO, CI]`."""
    what = "conv2d_winograd_weight_transform"
    check_ndim(kernel, 4, what)
    check_float(kernel, what)
    named = _Named(kernel, tuple(_NCHW.kernel.split()))
    types = SumTypes(kernel.dtype.accumulator, kernel.dtype)
    return types.finish(_transform_weight(named, tile_size, "eps nu co ci", what).tensor)


def _conv2d_winograd(layout: _Layout, weight_shape: str) -> Callable[..., Tensor]:
    what = f"conv2d_winograd_{layout.name}"

    def convolution(
        data: Tensor,
        weight: Tensor,
        strides: Window = 1,
        padding: Padding = 0,
        dilation: Window = 1,
        out_dtype: str | None = None,
        pre_computed: bool = False,
        tile_size: int = 4,
        write_cache_level: int = 2,
    ) -> Tensor:
        check_ndim(data, 4, what)
        check_ndim(weight, 4, what)
        check_float(data, what)
        check_float(weight, what)
        steps = per_axis(strides, 2, f"{what} strides") + per_axis(dilation, 2, f"{what} dilation")
        if steps != [1, 1, 1, 1]:
            raise TensorExpressionError(f"{what}: stride and dilation must be 1, got {steps}")
        image = _Named(data, tuple(layout.data.split()))
        attrs: dict[str, Any] = {"meta_schedule.write_cache_level": [write_cache_level]}
        if pre_computed:
            kernel = _Named(weight, tuple(layout.packed_kernel.split()))
            attrs["layout_free_placeholders"] = [weight]
        else:
            given = _Named(weight, tuple(layout.kernel.split()))
            kernel = _transform_weight(given, tile_size, layout.packed_kernel, what)
        check_extents(
            image.extent("ci"), kernel.extent("ci"), what, "the input channels of data and kernel"
        )
        alpha = _square_extent([kernel.extent("eps"), kernel.extent("nu")], what)
        if pre_computed:
            _check_transformed(alpha, tile_size, what)
        tiles = _tiles(image, alpha - tile_size + 1, tile_size, padding, what)
        return _Winograd(image, kernel, tiles, layout).build(out_dtype or str(data.dtype), attrs)

    convolution.__name__ = convolution.__qualname__ = what
    convolution.__doc__ = (
        f"The {layout.name.upper()} convolution by Winograd tiles; a pre-computed weight is "
        f"{weight_shape}."
    )
    return convolution


conv2d_winograd_nchw = _conv2d_winograd(_NCHW, "[alpha, alpha, CI, CO]")
conv2d_winograd_nhwc = _conv2d_winograd(_NHWC, "[alpha, alpha, CO, CI]")
