"""The convolutions among the workloads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tilewright import te, topi
from tilewright.errors import TensorExpressionError
from tilewright.ir import ExprLike, IterVar, PrimExpr, Var, logical_and
from tilewright.ir.intrinsics import if_then_else
from tilewright.target import Target
from tilewright.te import Tensor

Tensors: TypeAlias = tuple[Tensor, ...]


@dataclass(frozen=True)
class _Conv:
    """What convolutions of N...C data with k...IO weights share, for any number of axes."""

    kernel_size: int
    stride: int
    padding: int
    dilation: int = 1
    groups: int = 1
    in_dtype: str = "float32"
    out_dtype: str = "float32"

    def window(self, *names: str) -> list[IterVar]:
        return [te.reduce_axis((0, self.kernel_size), name=name) for name in names]

    def padded(self, inputs: Tensor, spatial: int) -> Tensor:
        rest = inputs.ndim - 1 - spatial
        return topi.nn.pad(inputs, [0, *[self.padding] * spatial, *[0] * rest])

    def extents(self, *sizes: int) -> list[int]:
        reach = self.dilation * (self.kernel_size - 1)
        return [(size + 2 * self.padding - reach - 1) // self.stride + 1 for size in sizes]

    def source(self, indices: Sequence[Var], window: Sequence[IterVar]) -> list[PrimExpr]:
        pairs = zip(indices, window, strict=True)
        return [index * self.stride + axis.var * self.dilation for index, axis in pairs]

    def sum(self, value: PrimExpr, weight: PrimExpr, axes: Sequence[IterVar]) -> PrimExpr:
        return te.sum(value.astype(self.out_dtype) * weight.astype(self.out_dtype), axis=axes)

    def tensors(self, name: str, letters: str, sizes: Sequence[int], ci: int, co: int) -> Tensors:
        """The convolution over axes with the given letters; `sizes` begin with the batch."""
        n, per_group = len(letters), ci // self.groups
        inputs = te.placeholder((*sizes, ci), name="inputs", dtype=self.in_dtype)
        kernel = (*[self.kernel_size] * n, per_group, co)
        weight = te.placeholder(kernel, name="weight", dtype=self.in_dtype)
        window = self.window(*(f"r{letter}" for letter in letters))
        rc = te.reduce_axis((0, per_group), name="rc")
        padded = self.padded(inputs, n)

        def element(*i: Var) -> ExprLike:
            channel = i[-1] // (co // self.groups) * per_group + rc
            value = padded(i[0], *self.source(i[1:-1], window), channel)
            return self.sum(value, weight(*window, rc, i[-1]), [*window, rc])

        shape = (sizes[0], *self.extents(*sizes[1:]), co)
        names = ("n", *letters, "co")
        return inputs, weight, te.compute(shape, element, name, varargs_names=names)


def conv1d_nlc(
    N: int,
    L: int,
    CI: int,
    CO: int,
    kernel_size: int,
    stride: int = 1,
    padding: int = 0,
    dilation: int = 1,
    groups: int = 1,
    in_dtype: str = "float32",
    out_dtype: str = "float32",
) -> Tensors:
    conv = _Conv(kernel_size, stride, padding, dilation, groups, in_dtype, out_dtype)
    return conv.tensors("conv1d_nlc", "l", (N, L), CI, CO)


def conv2d_nhwc(
    N: int,
    H: int,
    W: int,
    CI: int,
    CO: int,
    kernel_size: int,
    stride: int = 1,
    padding: int = 0,
    dilation: int = 1,
    groups: int = 1,
    in_dtype: str = "float32",
    out_dtype: str = "float32",
) -> Tensors:
    conv = _Conv(kernel_size, stride, padding, dilation, groups, in_dtype, out_dtype)
    return conv.tensors("conv2d_nhwc", "hw", (N, H, W), CI, CO)


def conv3d_ndhwc(
    N: int,
    D: int,
    H: int,
    W: int,
    CI: int,
    CO: int,
    kernel_size: int,
    stride: int = 1,
    padding: int = 0,
    dilation: int = 1,
    groups: int = 1,
    in_dtype: str = "float32",
    out_dtype: str = "float32",
) -> Tensors:
    conv = _Conv(kernel_size, stride, padding, dilation, groups, in_dtype, out_dtype)
    return conv.tensors("conv3d_ndhwc", "dhw", (N, D, H, W), CI, CO)


def depthwise_conv2d_nhwc(
    N: int,
    H: int,
    W: int,
    C: int,
    kernel_size: int,
    stride: int = 1,
    padding: int = 0,
    dilation: int = 1,
    factor: int = 1,
    in_dtype: str = "float32",
    out_dtype: str = "float32",
) -> Tensors:
    if factor != 1:
        raise TensorExpressionError("depthwise_conv2d_nhwc: only a factor of 1 is supported")
    inputs = te.placeholder((N, H, W, C), dtype=in_dtype)
    weight = te.placeholder((factor, kernel_size, kernel_size, C), dtype=in_dtype)
    conv = _Conv(kernel_size, stride, padding, dilation, 1, in_dtype, out_dtype)
    padded, (rh, rw) = conv.padded(inputs, 2), conv.window("rh", "rw")

    def element(n: Var, h: Var, w: Var, c: Var) -> ExprLike:
        value = padded(n, *conv.source([h, w], [rh, rw]), c)
        return conv.sum(value, weight(0, rh, rw, c), [rh, rw])

    shape = (N, *conv.extents(H, W), C * factor)
    return inputs, weight, te.compute(shape, element, name="depth_conv2d_nhwc")


def conv2d_transpose_nhwc(
    N: int,
    H: int,
    W: int,
    CI: int,
    CO: int,
    kernel_size: int,
    stride: int = 1,
    padding: int = 0,
    in_dtype: str = "float32",
    out_dtype: str = "float32",
) -> Tensors:
    inputs = te.placeholder((N, H, W, CI), name="inputs", dtype=in_dtype)
    weight = te.placeholder((kernel_size, kernel_size, CI, CO), name="weight", dtype=in_dtype)
    reach = kernel_size - 1 - padding
    border = (stride - reach % stride) % stride
    width = -(-reach // stride)
    padded = topi.nn.pad(inputs, [0, width, width, 0])
    conv = _Conv(kernel_size, 1, 0, in_dtype=in_dtype, out_dtype=out_dtype)
    rh, rw = conv.window("rh", "rw")
    rc = te.reduce_axis((0, CI), name="rc")

    def element(n: Var, h: Var, w: Var, co: Var) -> ExprLike:
        y, x = h + rh + border, w + rw + border
        on_grid = logical_and((y % stride).equal(0), (x % stride).equal(0))
        value = if_then_else(on_grid, padded[n, y // stride, x // stride, rc], 0.0)
        kernel = weight(kernel_size - 1 - rh, kernel_size - 1 - rw, rc, co)
        return conv.sum(value, kernel, [rh, rw, rc])

    out_h, out_w = ((e - 1) * stride - 2 * padding + kernel_size for e in (H, W))
    shape = (N, out_h, out_w, CO)
    return inputs, weight, te.compute(shape, element, name="conv2d_transpose_nhwc")


def conv2d_capsule_nhwijc(
    N: int,
    H: int,
    W: int,
    CI: int,
    CO: int,
    kernel_size: int,
    stride: int = 1,
    padding: int = 0,
    capsule_size: int = 4,
    in_dtype: str = "float32",
    out_dtype: str = "float32",
) -> Tensors:
    cap = capsule_size
    inputs = te.placeholder((N, H, W, cap, cap, CI), name="inputs", dtype=in_dtype)
    weight = te.placeholder(
        (kernel_size, kernel_size, cap, cap, CI, CO), name="weight", dtype=in_dtype
    )
    conv = _Conv(kernel_size, stride, padding, 1, 1, in_dtype, out_dtype)
    padded, (rh, rw) = conv.padded(inputs, 2), conv.window("rh", "rw")
    cap_k = te.reduce_axis((0, cap), name="cap_k")
    rc = te.reduce_axis((0, CI), name="rc")

    def element(n: Var, h: Var, w: Var, cap_i: Var, cap_j: Var, co: Var) -> ExprLike:
        value = padded(n, *conv.source([h, w], [rh, rw]), cap_i, cap_k, rc)
        return conv.sum(value, weight(rh, rw, cap_k, cap_j, rc, co), [rh, rw, cap_k, rc])

    shape = (N, *conv.extents(H, W), cap, cap, CO)
    return inputs, weight, te.compute(shape, element, name="conv2d_capsule_nhwijc")


def conv2d_nhwc_without_layout_rewrite(
    data: Tensor,
    kernel: Tensor,
    stride: int,
    padding: int,
    dilation: int,
    out_dtype: str = "float32",
) -> Tensor:
    batch, height, width, channels = data.shape
    kernel_h, kernel_w, _, filters = kernel.shape
    rc = te.reduce_axis((0, channels), name="rc")
    ry = te.reduce_axis((0, kernel_h), name="ry")
    rx = te.reduce_axis((0, kernel_w), name="rx")
    padded = topi.nn.pad(data, [0, padding, padding, 0], name="PaddedInput")

    def element(nn: Var, yy: Var, xx: Var, ff: Var) -> ExprLike:
        y, x = yy * stride + ry * dilation, xx * stride + rx * dilation
        value = padded[nn, y, x, rc].astype(out_dtype)
        product = value * kernel[ry, rx, rc, ff].astype(out_dtype)
        return te.sum(product, axis=[ry, rx, rc])

    out_h, out_w = (
        (extent + 2 * padding - dilation * (size - 1) - 1) // stride + 1
        for extent, size in ((height, kernel_h), (width, kernel_w))
    )
    return te.compute((batch, out_h, out_w, filters), element, name="Conv2dOutput")


def _write_cache_level() -> int:
    """The level of tiles at which the target that programs are written for caches results."""
    target = Target.current()
    return 3 if target is not None and target.kind.name == "cuda" else 2


def _conv2d_winograd(layout: str, usual_padding: int) -> Callable[..., Tensors]:
    convolution = getattr(topi.nn, f"conv2d_winograd_{layout}")

    def winograd(
        N: int,
        H: int,
        W: int,
        CI: int,
        CO: int,
        kernel_size: int,
        stride: int = 1,
        padding: int = usual_padding,
        dilation: int = 1,
        tile_size: int = 4,
        write_cache_level: int | None = None,
    ) -> Tensors:
        """`kernel_size` is that of the transformed weight; the cache level follows the target."""
        last = layout == "nhwc"
        data = te.placeholder((N, H, W, CI) if last else (N, CI, H, W), name="data")
        channels = (CO, CI) if last else (CI, CO)
        weight = te.placeholder((kernel_size, kernel_size, *channels), name="weight")
        level = write_cache_level or _write_cache_level()
        options = (stride, padding, dilation, None, True, tile_size, level)
        return data, weight, convolution(data, weight, *options)

    return winograd


conv2d_winograd_nhwc = _conv2d_winograd("nhwc", 0)
conv2d_winograd_nchw = _conv2d_winograd("nchw", 1)
