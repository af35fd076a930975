"""The products and convolutions of bytes that tuning is measured and tested on.

`create_int8_workload("int8_gemm", M=512, N=512, K=512, form="s8s8")` is a function; `INT8_ROWS` has
the workloads that are measured, by the names of their rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tilewright import te, topi
from tilewright.errors import TensorExpressionError
from tilewright.ir import PrimFunc
from tilewright.support.suggestions import did_you_mean
from tilewright.te import Tensor
from tilewright.workloads.convolutions import Tensors

# The types of data, weights and result.
FORMS: dict[str, tuple[str, str, str]] = {
    "u8s8": ("uint8", "int8", "int32"),  # what vpdpbusd multiplies
    "s8s8": ("int8", "int8", "int32"),  # torch._int_mm
    "u8u8": ("uint8", "uint8", "int32"),
    "f32": ("float32", "float32", "float32"),
    "bf16": ("bfloat16", "bfloat16", "float32"),
}


def int8_gemm(M: int, N: int, K: int, form: str = "u8s8", layout_free: bool = False) -> Tensors:
    """`C[M, N] = A[M, K] @ B[K, N]`; a layout-free B is a constant that may be packed ahead."""
    a_dtype, b_dtype, dtype = _types(form)
    a = te.placeholder((M, K), name="A", dtype=a_dtype)
    b = te.placeholder((K, N), name="B", dtype=b_dtype)
    k = te.reduce_axis((0, K), name="k")
    c = te.compute(
        (M, N),
        lambda i, j: te.sum(a[i, k].astype(dtype) * b[k, j].astype(dtype), axis=[k]),
        name="C",
        attrs={"layout_free_placeholders": [b]} if layout_free else None,
    )
    return a, b, c


def int8_dense(M: int, N: int, K: int, form: str = "u8s8") -> Tensors:
    """The fully connected layer with weights `[N, K]`, which may be packed ahead."""
    a_dtype, b_dtype, dtype = _types(form)
    data = te.placeholder((M, K), name="data", dtype=a_dtype)
    weight = te.placeholder((N, K), name="weight", dtype=b_dtype)
    return data, weight, topi.nn.dense(data, weight, out_dtype=dtype)


def int8_batch_matmul(B: int, M: int, N: int, K: int, form: str = "u8s8") -> Tensors:
    """`B` products `[M, K] @ [N, K].T`, as in attention: neither operand is a constant."""
    a_dtype, b_dtype, dtype = _types(form)
    x = te.placeholder((B, M, K), name="X", dtype=a_dtype)
    y = te.placeholder((B, N, K), name="Y", dtype=b_dtype)
    k = te.reduce_axis((0, K), name="k")
    z = te.compute(
        (B, M, N),
        lambda b, i, j: te.sum(x[b, i, k].astype(dtype) * y[b, j, k].astype(dtype), axis=[k]),
        name="Z",
    )
    return x, y, z


def int8_conv(
    N: int,
    H: int,
    W: int,
    CI: int,
    CO: int,
    kernel_size: int,
    stride: int = 1,
    padding: int = 0,
    form: str = "u8s8",
) -> Tensors:
    """conv2d of NHWC data with HWIO weights, which may be packed ahead."""
    data_dtype, kernel_dtype, dtype = _types(form)
    data = te.placeholder((N, H, W, CI), name="data", dtype=data_dtype)
    kernel = te.placeholder((kernel_size, kernel_size, CI, CO), name="kernel", dtype=kernel_dtype)
    return data, kernel, topi.nn.conv2d_nhwc(data, kernel, stride, padding, 1, 1, dtype)


def conv2d_int8_residual(
    N: int = 16, H: int = 56, W: int = 56, CI: int = 64, CO: int = 256, data_dtype: str = "int8"
) -> Tensors:
    """A 1x1 convolution with OHWI weights in a quantized residual block.

    The sums are brought to bytes with a multiplier and a shift of 64 bits for each channel, then to
    the scale of the other branch `p9` with a fixed-point multiplier, added to it and saturated.
    """
    p0 = te.placeholder((N, H, W, CI), name="p0", dtype=data_dtype)
    p1 = te.placeholder((CO, 1, 1, CI), name="p1", dtype="int8")
    channel_dtypes = ("int32", "int32", "int64", "int64", "int64")
    per_channel = [
        te.placeholder((1, 1, 1, CO), name=f"p{position}", dtype=dtype)
        for position, dtype in enumerate(channel_dtypes, start=2)
    ]
    p7 = te.placeholder((), name="p7", dtype="int32")
    p8 = te.placeholder((1,), name="p8", dtype="int32")
    p9 = te.placeholder((N, H, W, CO), name="p9", dtype="int32")
    p2, p3, p4, p5, p6 = per_channel
    wide = topi.cast(topi.add(topi.subtract(_conv2d_ohwi(p0, p1), p2), p3), "int64")
    scaled = topi.cast(topi.right_shift(topi.add(topi.multiply(wide, p4), p5), p6), "int32")
    centred = topi.subtract(_to_byte(topi.add(p7, scaled)), p8)
    rescaled = topi.fixed_point_multiply(centred, 1098990753, 1)
    result = topi.clip(topi.cast(topi.clip(topi.add(rescaled, p9), 0, 255), "uint8"), 0, 255)
    return p0, p1, *per_channel, p7, p8, p9, result


def prepare_residual_block(arrays: list[Any]) -> None:
    """Make of random arguments of `conv2d_int8_residual` such that give many different results.

    A zero point at an edge would clip nearly all results to one number with some random data.
    """
    arrays[6][...] = 10 + arrays[6] % 4  # shifts
    for position in (7, 9):
        arrays[position][...] %= 256  # a zero point and the other branch
    arrays[8][...] = 96 + arrays[8] % 64


def residual_block_result(arrays: list[Any]) -> Any:
    """What `conv2d_int8_residual` computes, step by step."""
    p0, p1, p2, p3, p4, p5, p6, p7, p8, p9 = (array.astype("int64") for array in arrays[:10])
    sums = np.matmul(p0.astype("float64"), p1[:, 0, 0, :].T).astype("int64")  # exact, and fast
    scaled = (((sums - p2 + p3) * p4 + p5) >> p6).astype("int32").astype("int64")
    centred = np.clip(p7 + scaled, 0, 255) - p8
    rescaled = (centred * 1098990753 + (1 << 29)) >> 30
    return np.clip(rescaled + p9, 0, 255).astype("uint8")


def _conv2d_ohwi(data: Tensor, weight: Tensor) -> Tensor:
    """The convolution of NHWC data with weights whose reduction axes are innermost."""
    batch, height, width, _ = data.shape
    filters, kernel_h, kernel_w, channels = weight.shape
    padded = topi.nn.pad(data, [0, 0, 0, 0], name="pad_temp")
    ry = te.reduce_axis((0, kernel_h), name="ry")
    rx = te.reduce_axis((0, kernel_w), name="rx")
    rc = te.reduce_axis((0, channels), name="rc")
    return te.compute(
        (batch, height, width, filters),
        lambda nn, yy, xx, ff: te.sum(
            padded[nn, yy + ry, xx + rx, rc].astype("int32")
            * weight[ff, ry, rx, rc].astype("int32"),
            axis=[ry, rx, rc],
        ),
        name="conv2d_nhwc",
        attrs={"layout_free_placeholders": [weight]},
    )


def _to_byte(values: Tensor) -> Tensor:
    """As an unsigned byte holds them, but as 32-bit numbers again."""
    return topi.cast(topi.cast(topi.clip(values, 0, 255), "uint8"), "int32")


def _types(form: str) -> tuple[str, str, str]:
    if form not in FORMS:
        raise TensorExpressionError(f"unknown form {form!r}{did_you_mean(form, FORMS)}")
    return FORMS[form]


MAKERS: dict[str, Callable[..., Tensors]] = {
    "int8_gemm": int8_gemm,
    "int8_dense": int8_dense,
    "int8_batch_matmul": int8_batch_matmul,
    "int8_conv": int8_conv,
    "Conv2dInt8": conv2d_int8_residual,
}


def create_int8_workload(name: str, **arguments: Any) -> PrimFunc:
    """The function of a maker (see `MAKERS`) with these arguments."""
    maker = MAKERS.get(name)
    if maker is None:
        raise TensorExpressionError(f"unknown workload {name!r}{did_you_mean(name, MAKERS)}")
    return te.create_prim_func(maker(**arguments))


@dataclass(frozen=True)
class GemmShape:
    """The extents of a matrix product."""

    M: int
    N: int
    K: int

    @property
    def operations(self) -> int:
        """Multiplications and additions."""
        return 2 * self.M * self.N * self.K

    @property
    def row(self) -> str:
        return f"int8_gemm_{self.M}x{self.N}x{self.K}"

    def create(self, form: str = "u8s8", *, layout_free: bool = False) -> PrimFunc:
        return te.create_prim_func(int8_gemm(self.M, self.N, self.K, form, layout_free))


@dataclass(frozen=True)
class ConvShape:
    """The extents of a convolution of square images."""

    size: int
    CI: int
    CO: int
    kernel_size: int
    stride: int = 1
    padding: int = 0
    batch: int = 1

    @property
    def output_size(self) -> int:
        return (self.size + 2 * self.padding - self.kernel_size) // self.stride + 1

    @property
    def operations(self) -> int:
        """Multiplications and additions, those with padding included."""
        outputs = self.batch * self.output_size**2 * self.CO
        return 2 * outputs * self.kernel_size**2 * self.CI

    @property
    def row(self) -> str:
        return f"int8_conv_{self.size}x{self.size}x{self.CI}_{self.kernel_size}x{self.kernel_size}"

    def create(self, form: str = "u8s8") -> PrimFunc:
        size, kernel = self.size, self.kernel_size
        tensors = int8_conv(
            self.batch, size, size, self.CI, self.CO, kernel, self.stride, self.padding, form
        )
        return te.create_prim_func(tensors)


# The last is the classifier of ResNet-50 on one batch, its 1000 columns rounded up to vectors.
GEMM_SHAPES = (
    GemmShape(512, 512, 512),
    GemmShape(1024, 1024, 1024),
    GemmShape(4096, 1024, 1024),
    GemmShape(32, 1008, 2048),
    GemmShape(32, 2048, 1008),
)
_RESNET_1X1 = tuple(ConvShape(s, c, c, 1) for s, c in ((56, 64), (28, 128), (14, 256), (7, 512)))
CONV_SHAPES = (
    *(replace(shape, kernel_size=3, padding=1) for shape in _RESNET_1X1),
    *_RESNET_1X1,
)
INT8_ROWS: dict[str, GemmShape | ConvShape] = {
    **{shape.row: shape for shape in GEMM_SHAPES},
    **{shape.row: shape for shape in CONV_SHAPES},
}
