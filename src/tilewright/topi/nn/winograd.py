"""Winograd convolution: transform tiles of data and kernel, multiply, transform back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilewright import te
from tilewright.errors import TensorExpressionError
from tilewright.ir import ExprLike, PrimExpr, Var
from tilewright.te import Tensor
from tilewright.topi.axes import (
    Window,
    check_extents,
    check_ndim,
    constant_extent,
    pad_widths,
    per_axis,
)
from tilewright.topi.nn.conv import Padding
from tilewright.topi.nn.padding import pad
from tilewright.topi.nn.winograd_matrices import constant_matrix, transform_matrices


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


def _tiles(
    height: PrimExpr, width: PrimExpr, r: int, m: int, padding: Padding, what: str
) -> _Tiles:
    sizes = [constant_extent(height, what), constant_extent(width, what)]
    before, after = pad_widths(padding, [r, r], what)
    out = [sizes[n] + before[n] + after[n] - r + 1 for n in range(2)]
    if min(out) <= 0:
        raise TensorExpressionError(f"{what}: the image is smaller than the kernel")
    tiles = [-(-extent // m) for extent in out]
    # Zeros below and to the right so that the last tiles are whole.
    extra = [tiles[n] * m + r - 1 - (sizes[n] + before[n] + after[n]) for n in range(2)]
    return _Tiles(
        m,
        r,
        tiles[0],
        tiles[1],
        out[0],
        out[1],
        (before[0], before[1]),
        (after[0] + extra[0], after[1] + extra[1]),
    )


def _check(data: Tensor, weight: Tensor, stride: Window, dilation: Window, what: str) -> None:
    check_ndim(data, 4, what)
    check_ndim(weight, 4, what)
    steps = per_axis(stride, 2, f"{what} strides") + per_axis(dilation, 2, f"{what} dilation")
    if steps != [1, 1, 1, 1]:
        raise TensorExpressionError(f"{what}: stride and dilation must be 1, got {steps}")


def _kernel_size(extents: Sequence[PrimExpr], pre_computed: bool, tile_size: int, what: str) -> int:
    """The size of the filter; a transformed one has `tile_size + r - 1` rows."""
    rows, columns = (constant_extent(extent, what) for extent in extents)
    if rows != columns:
        raise TensorExpressionError(f"{what}: the kernel must be square, got {rows} x {columns}")
    return rows - tile_size + 1 if pre_computed else rows


def winograd_weight_transform(kernel: Tensor, tile_size: int, layout: str = "OIHW") -> Tensor:
    """`G g G^T` for each pair of channels: `[alpha, alpha, ...]` with the channels as in `kernel`."""
    what = "winograd_weight_transform"
    check_ndim(kernel, 4, what)
    first = layout == "OIHW"
    extents = kernel.shape[2:] if first else kernel.shape[:2]
    channels = kernel.shape[:2] if first else kernel.shape[2:]
    r = _kernel_size(extents, False, tile_size, what)
    alpha = tile_size + r - 1
    _, _, matrix = transform_matrices(tile_size, r)
    g = constant_matrix(matrix, str(kernel.dtype), "G")
    r_kh = te.reduce_axis((0, r), name="r_kh")
    r_kw = te.reduce_axis((0, r), name="r_kw")

    def element(eps: Var, nu: Var, a: Var, b: Var) -> ExprLike:
        value = kernel(a, b, r_kh, r_kw) if first else kernel(r_kh, r_kw, a, b)
        result: ExprLike = te.sum(value * g(eps, r_kh) * g(nu, r_kw), axis=[r_kh, r_kw])
        return result

    return te.compute((alpha, alpha, *channels), element, name="transform_weight")


def conv2d_winograd_nchw(
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
    """conv2d of NCHW data; a pre-computed weight is `[alpha, alpha, CI, CO]`, else OIHW."""
    what = "conv2d_winograd_nchw"
    _check(data, weight, strides, dilation, what)
    dtype = out_dtype or str(data.dtype)
    batch, channels, height, width = data.shape
    spatial = weight.shape[:2] if pre_computed else weight.shape[2:]
    r = _kernel_size(spatial, pre_computed, tile_size, what)
    tiles = _tiles(height, width, r, tile_size, padding, what)
    in_channels, out_channels = weight.shape[2:] if pre_computed else weight.shape[1::-1]
    check_extents(channels, in_channels, what, "the input channels of data and kernel")
    kernel = weight if pre_computed else _transform_oihw(weight, tile_size)
    inverse_matrix, data_matrix, _ = transform_matrices(tile_size, r)
    m, alpha, per_image = tiles.m, tiles.alpha, tiles.count
    positions = batch * per_image
    padded = pad(data, [0, 0, *tiles.before], [0, 0, *tiles.after], name="data_pad")

    def tile_element(ci: Var, p: Var, eps: Var, nu: Var) -> PrimExpr:
        y = p // tiles.columns % tiles.rows * m + eps
        x = p % tiles.columns * m + nu
        return padded(p // per_image, ci, y, x)

    input_tile = te.compute(
        (channels, positions, alpha, alpha),
        tile_element,
        name="input_tile",
        attrs={"schedule_rule": "None"},
    )
    b_matrix = constant_matrix(data_matrix, str(data.dtype), "B")
    r_a, r_b = te.reduce_axis((0, alpha), "r_a"), te.reduce_axis((0, alpha), "r_b")
    data_pack = te.compute(
        (alpha, alpha, channels, positions),
        lambda eps, nu, ci, p: te.sum(
            input_tile[ci, p, r_a, r_b] * b_matrix[r_a, eps] * b_matrix[r_b, nu], axis=[r_a, r_b]
        ),
        name="data_pack",
        attrs={"schedule_rule": "conv2d_nchw_winograd_data_pack"},
    )
    ci = te.reduce_axis((0, channels), "ci")
    bgemm = te.compute(
        (alpha, alpha, out_channels, positions),
        lambda eps, nu, co, p: te.sum(data_pack[eps, nu, ci, p] * kernel[eps, nu, ci, co], axis=ci),
        name="bgemm",
        attrs=_bgemm_attrs(kernel, pre_computed, write_cache_level),
    )
    a_matrix = constant_matrix(inverse_matrix, dtype, "A")
    s_a, s_b = te.reduce_axis((0, alpha), "r_a"), te.reduce_axis((0, alpha), "r_b")
    inverse = te.compute(
        (out_channels, positions, m, m),
        lambda co, p, vh, vw: te.sum(
            bgemm[s_a, s_b, co, p].astype(dtype) * a_matrix[s_a, vh] * a_matrix[s_b, vw],
            axis=[s_a, s_b],
        ),
        name="inverse",
        attrs={"schedule_rule": "conv2d_nchw_winograd_inverse"},
    )
    return te.compute(
        (batch, out_channels, tiles.out_h, tiles.out_w),
        lambda n, co, h, w: inverse[
            co, n * per_image + h // m * tiles.columns + w // m, h % m, w % m
        ],
        name="conv2d_winograd",
        tag=what,
    )


def conv2d_winograd_nhwc(
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
    """conv2d of NHWC data; a pre-computed weight is `[alpha, alpha, CO, CI]`, else HWIO."""
    what = "conv2d_winograd_nhwc"
    _check(data, weight, strides, dilation, what)
    dtype = out_dtype or str(data.dtype)
    batch, height, width, channels = data.shape
    r = _kernel_size(weight.shape[:2], pre_computed, tile_size, what)
    tiles = _tiles(height, width, r, tile_size, padding, what)
    out_channels, in_channels = weight.shape[2:] if pre_computed else weight.shape[:1:-1]
    check_extents(channels, in_channels, what, "the input channels of data and kernel")
    kernel = weight if pre_computed else _transform_hwio(weight, tile_size)
    inverse_matrix, data_matrix, _ = transform_matrices(tile_size, r)
    m, alpha, per_image = tiles.m, tiles.alpha, tiles.count
    positions = batch * per_image
    padded = pad(data, [0, *tiles.before, 0], [0, *tiles.after, 0], name="data_pad")

    def tile_element(eps: Var, nu: Var, p: Var, ci: Var) -> PrimExpr:
        y = p // tiles.columns % tiles.rows * m + eps
        x = p % tiles.columns * m + nu
        return padded(p // per_image, y, x, ci)

    input_tile = te.compute(
        (alpha, alpha, positions, channels),
        tile_element,
        name="input_tile",
        attrs={"schedule_rule": "None"},
    )
    b_matrix = constant_matrix(data_matrix, str(data.dtype), "B")
    r_a, r_b = te.reduce_axis((0, alpha), "r_a"), te.reduce_axis((0, alpha), "r_b")
    data_pack = te.compute(
        (alpha, alpha, positions, channels),
        lambda eps, nu, p, ci: te.sum(
            input_tile[r_a, r_b, p, ci] * b_matrix[r_a, eps] * b_matrix[r_b, nu], axis=[r_a, r_b]
        ),
        name="data_pack",
        attrs={"schedule_rule": "conv2d_nhwc_winograd_data_pack"},
    )
    ci = te.reduce_axis((0, channels), "ci")
    bgemm = te.compute(
        (alpha, alpha, positions, out_channels),
        lambda eps, nu, p, co: te.sum(data_pack[eps, nu, p, ci] * kernel[eps, nu, co, ci], axis=ci),
        name="bgemm",
        attrs=_bgemm_attrs(kernel, pre_computed, write_cache_level),
    )
    a_matrix = constant_matrix(inverse_matrix, dtype, "A")
    s_a, s_b = te.reduce_axis((0, alpha), "r_a"), te.reduce_axis((0, alpha), "r_b")
    inverse = te.compute(
        (m, m, positions, out_channels),
        lambda vh, vw, p, co: te.sum(
            bgemm[s_a, s_b, p, co].astype(dtype) * a_matrix[s_a, vh] * a_matrix[s_b, vw],
            axis=[s_a, s_b],
        ),
        name="inverse",
        attrs={"schedule_rule": "conv2d_nhwc_winograd_inverse"},
    )
    return te.compute(
        (batch, tiles.out_h, tiles.out_w, out_channels),
        lambda n, h, w, co: inverse[
            h % m, w % m, n * per_image + h // m * tiles.columns + w // m, co
        ],
        name="conv2d_winograd",
        tag=what,
    )


def _bgemm_attrs(kernel: Tensor, pre_computed: bool, level: int) -> dict[str, object]:
    attrs: dict[str, object] = {"meta_schedule.write_cache_level": [level]}
    if pre_computed:
        attrs["layout_free_placeholders"] = [kernel]
    return attrs


def _transform_oihw(weight: Tensor, tile_size: int) -> Tensor:
    """The transformed weight as `[alpha, alpha, CI, CO]`."""
    transformed = winograd_weight_transform(weight, tile_size)
    alpha, _, out_channels, in_channels = transformed.shape
    return te.compute(
        (alpha, alpha, in_channels, out_channels),
        lambda eps, nu, ci, co: transformed[eps, nu, co, ci],
        name="kernel_pack",
        tag="injective",
    )


def _transform_hwio(weight: Tensor, tile_size: int) -> Tensor:
    """The transformed weight as `[alpha, alpha, CO, CI]`."""
    transformed = winograd_weight_transform(weight, tile_size, "HWIO")
    alpha, _, in_channels, out_channels = transformed.shape
    return te.compute(
        (alpha, alpha, out_channels, in_channels),
        lambda eps, nu, co, ci: transformed[eps, nu, ci, co],
        name="kernel_pack",
        tag="injective",
    )
