"""Layers on quantized data: products of bytes summed in int32, then brought back to bytes.

A byte `q` stands for the number `(q - zero_point) * scale`. The zero point of the data is taken out
behind the sums, so that they stay plain products of bytes which dot-product instructions can do:
`sum((a - z) * w) = sum(a * w) - z * sum(w)`. Weights are symmetric: their zero point is 0.
Their sums for each channel are constants: give them as `weight_sums` where they are known ahead.
Otherwise the same function computes them, and what follows the layer cannot be fused with it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tilewright import te
from tilewright.ir import ExprLike, PrimExpr, Var, cast, const, convert, is_one
from tilewright.support.names import named
from tilewright.te import Tensor
from tilewright.topi.axes import COMM_REDUCE, ELEMENTWISE, Window, is_zero
from tilewright.topi.nn import conv
from tilewright.topi.nn.conv import Padding
from tilewright.topi.nn.dense import batch_matmul, matmul
from tilewright.topi.quantize import Requantization, channel_axes, check_channels, check_dtype

__all__ = [
    "quantized_dense", "quantized_conv2d_nhwc", "quantized_conv2d_NCHWc",
    "quantized_depthwise_conv2d_nhwc", "quantized_batch_matmul",
]  # fmt: skip

_BYTES = ("uint8", "int8")
_SUM = "int32"


@dataclass(frozen=True)
class _Layer:
    """A layer with constant weights: what surrounds its sums of products."""

    data: Tensor
    weight: Tensor
    requantization: Requantization
    bias: Tensor | None
    zero_point: ExprLike  # of the data
    weight_sums: Tensor | None  # where they are known ahead

    @property
    def border(self) -> int | PrimExpr:
        """The byte that stands for zero."""
        given = self.zero_point
        return given if isinstance(given, int) else cast(self.data.dtype, convert(given))

    def result(self, sums: Tensor, kept: Sequence[int], axes: Sequence[int] = (-1,)) -> Tensor:
        """The sums as bytes; their channels lie along `axes`, those of the weights along `kept`."""
        own = channel_axes(sums, axes, "quantized layer")
        for given in (self.bias, self.weight_sums):
            if given is not None:
                check_channels(sums, given, own, "quantized layer")
        offset = self.bias if is_zero(self.zero_point) else self._offset(kept, len(axes))
        return self.requantization.apply(sums, axes, offset)

    def _offset(self, kept: Sequence[int], ndim: int) -> Tensor:
        """What is added to each channel: the bias, less what the zero point brought in."""
        bias, weight_sums = self.bias, self.weight_sums
        if weight_sums is None:
            partial = _partial_sum(self.weight, kept, "weight_sum")
            weight_sums = partial if partial.ndim == ndim else _flat(partial)

        def element(*channel: Var) -> ExprLike:
            brought_in = weight_sums(*channel) * _wide(self.zero_point)
            return (const(0, _SUM) if bias is None else bias(*channel)) - brought_in

        return te.compute(weight_sums.shape, element, name="offset", tag=ELEMENTWISE)


def quantized_dense(
    data: Tensor,
    weight: Tensor,
    requantization: Requantization,
    bias: Tensor | None = None,
    data_zero_point: ExprLike = 0,
    *,
    transpose_b: bool = True,
    weight_sums: Tensor | None = None,
) -> Tensor:
    """The fully connected layer with weights `[N, K]`, or `[K, N]` if they are not transposed."""
    _check_operands("quantized_dense", data, weight)
    layer = _Layer(data, weight, requantization, bias, data_zero_point, weight_sums)
    sums = matmul(data, weight, None, _SUM, transpose_b=transpose_b)
    return layer.result(sums, [0 if transpose_b else 1])


def quantized_conv2d_nhwc(
    data: Tensor,
    kernel: Tensor,
    requantization: Requantization,
    bias: Tensor | None = None,
    data_zero_point: ExprLike = 0,
    stride: Window = 1,
    padding: Padding = 0,
    dilation: Window = 1,
    groups: int = 1,
    *,
    weight_sums: Tensor | None = None,
) -> Tensor:
    """conv2d of NHWC data with HWIO weights; the border is the zero point."""
    _check_operands("quantized_conv2d_nhwc", data, kernel)
    layer = _Layer(data, kernel, requantization, bias, data_zero_point, weight_sums)
    sums = conv.conv2d_nhwc(data, kernel, stride, padding, dilation, groups, _SUM, layer.border)
    return layer.result(sums, [3])


def _quantized_conv2d(
    convolution: Callable[..., Tensor], kept: Sequence[int], axes: Sequence[int], meaning: str
) -> Callable[..., Tensor]:
    what = f"quantized_{convolution.__name__.removesuffix('_int8')}"

    def quantized(
        data: Tensor,
        kernel: Tensor,
        requantization: Requantization,
        bias: Tensor | None = None,
        data_zero_point: ExprLike = 0,
        stride: Window = 1,
        padding: Padding = 0,
        dilation: Window = 1,
        *,
        weight_sums: Tensor | None = None,
    ) -> Tensor:
        _check_operands(what, data, kernel)
        layer = _Layer(data, kernel, requantization, bias, data_zero_point, weight_sums)
        sums = convolution(data, kernel, stride, padding, dilation, _SUM, layer.border)
        return layer.result(sums, kept, axes)

    return named(quantized, what, meaning)


quantized_conv2d_NCHWc = _quantized_conv2d(
    conv.conv2d_NCHWc_int8,
    [0, 5],
    [1, 4],
    "`conv2d_NCHWc_int8`, requantized; what is given for each channel is `[oc/c, c]`.",
)
quantized_depthwise_conv2d_nhwc = _quantized_conv2d(
    conv.depthwise_conv2d_nhwc,
    [2, 3],
    [-1],
    "The depthwise conv2d of NHWC data with `kernel[kh, kw, channel, multiplier]`.",
)


def quantized_batch_matmul(
    tensor_a: Tensor,
    tensor_b: Tensor,
    requantization: Requantization,
    a_zero_point: ExprLike = 0,
    b_zero_point: ExprLike = 0,
    *,
    transpose_b: bool = True,
) -> Tensor:
    """Products of two batches of matrices, `[M, K]` and `[N, K]` (`[K, N]` if not transposed)."""
    _check_operands("quantized_batch_matmul", tensor_a, tensor_b)
    sums = batch_matmul(tensor_a, tensor_b, _SUM, transpose_b=transpose_b)
    terms = []
    if not is_zero(b_zero_point):
        rows = _partial_sum(tensor_a, [0, 1], "row_sum")
        terms.append(lambda b, i, j: _at_batch(rows, b, i) * _wide(b_zero_point))
    if not is_zero(a_zero_point):
        columns = _partial_sum(tensor_b, [0, 1 if transpose_b else 2], "column_sum")
        depth = cast(_SUM, tensor_a.shape[2])
        # The zero point of B is in the sums of its columns as well.
        both = depth * _wide(b_zero_point)
        terms.append(lambda b, i, j: (_at_batch(columns, b, j) - both) * _wide(a_zero_point))
    return requantization.apply(_less(sums, terms) if terms else sums)


def _less(sums: Tensor, terms: Sequence[Callable[[Var, Var, Var], PrimExpr]]) -> Tensor:
    def element(b: Var, i: Var, j: Var) -> ExprLike:
        value: PrimExpr = sums(b, i, j)
        for term in terms:
            value = value - term(b, i, j)
        return value

    return te.compute(sums.shape, element, name="zero_points", tag=ELEMENTWISE)


def _at_batch(partial: Tensor, batch: Var, position: Var) -> PrimExpr:
    """An element of the sums of a batch of matrices; a batch of one is used for all."""
    own: ExprLike = const(0, batch.dtype) if is_one(partial.shape[0]) else batch
    return partial(own, position)


def _check_operands(what: str, *operands: Tensor) -> None:
    for operand in operands:
        check_dtype(operand, _BYTES, what)


def _wide(zero_point: ExprLike) -> PrimExpr:
    return cast(_SUM, convert(zero_point))


def _partial_sum(tensor: Tensor, kept: Sequence[int], name: str) -> Tensor:
    """The int32 sums over all axes but the kept ones."""
    others = {
        axis: te.reduce_axis((0, extent), name=f"r{axis}")
        for axis, extent in enumerate(tensor.shape)
        if axis not in kept
    }

    def element(*i: Var) -> ExprLike:
        indices: list[ExprLike] = [
            others[axis] if axis in others else i[kept.index(axis)] for axis in range(tensor.ndim)
        ]
        return te.sum(tensor(*indices).astype(_SUM), axis=list(others.values()))

    shape = [tensor.shape[axis] for axis in kept]
    return te.compute(shape, element, name=name, tag=COMM_REDUCE)


def _flat(sums: Tensor) -> Tensor:
    """`[channel, multiplier]` as one axis."""
    channels, multiplier = sums.shape
    return te.compute(
        (channels * multiplier,), lambda c: sums(c // multiplier, c % multiplier), name="flat_sum"
    )
