"""Layers on quantized data: products of bytes summed in int32, then brought back to bytes.

A byte `q` stands for the number `(q - zero_point) * scale`. The zero point of the data is taken out
behind the sums, so that they stay plain products of bytes which dot-product instructions can do:
`sum((a - z) * w) = sum(a * w) - z * sum(w)`. Weights are symmetric: their zero point is 0.
Their sums for each channel are constants: give them as `weight_sums` where they are known ahead.
Otherwise the same function computes them, and what follows the layer cannot be fused with it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilewright import te
from tilewright.ir import ExprLike, PrimExpr, Var, cast, const, convert
from tilewright.te import Tensor
from tilewright.topi.axes import COMM_REDUCE, ELEMENTWISE, Window, is_one, is_zero
from tilewright.topi.nn.conv import Padding, conv2d_nhwc
from tilewright.topi.nn.conv_blocked import conv2d_NCHWc_int8
from tilewright.topi.nn.dense import batch_matmul, matmul
from tilewright.topi.nn.depthwise import depthwise_conv2d_nhwc
from tilewright.topi.quantize import Requantization, channel_axes, check_channels, check_dtype

_BYTES = ("uint8", "int8")
_SUM = "int32"


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
    sums = matmul(data, weight, None, _SUM, transpose_b=transpose_b)
    ahead = _weight_sums(weight, [0 if transpose_b else 1], data_zero_point, weight_sums)
    return requantization.apply(sums, -1, _offset(sums, [-1], bias, data_zero_point, ahead))


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
    border = _border(data, data_zero_point)
    sums = conv2d_nhwc(data, kernel, stride, padding, dilation, groups, _SUM, border)
    ahead = _weight_sums(kernel, [3], data_zero_point, weight_sums)
    return requantization.apply(sums, -1, _offset(sums, [-1], bias, data_zero_point, ahead))


def quantized_conv2d_NCHWc(
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
    """`conv2d_NCHWc_int8`, requantized; what is given for each channel is `[oc/c, c]`."""
    _check_operands("quantized_conv2d_NCHWc", data, kernel)
    border = _border(data, data_zero_point)
    sums = conv2d_NCHWc_int8(data, kernel, stride, padding, dilation, _SUM, border)
    ahead = _weight_sums(kernel, [0, 5], data_zero_point, weight_sums)
    return requantization.apply(sums, [1, 4], _offset(sums, [1, 4], bias, data_zero_point, ahead))


def quantized_depthwise_conv2d_nhwc(
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
    """The depthwise conv2d of NHWC data with `kernel[kh, kw, channel, multiplier]`."""
    _check_operands("quantized_depthwise_conv2d_nhwc", data, kernel)
    border = _border(data, data_zero_point)
    sums = depthwise_conv2d_nhwc(data, kernel, stride, padding, dilation, _SUM, border)
    ahead = _weight_sums(kernel, [2, 3], data_zero_point, weight_sums)
    if ahead is not None and ahead is not weight_sums:
        ahead = _flat(ahead)
    return requantization.apply(sums, -1, _offset(sums, [-1], bias, data_zero_point, ahead))


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


def _border(data: Tensor, zero_point: ExprLike) -> int | PrimExpr:
    return zero_point if isinstance(zero_point, int) else cast(data.dtype, convert(zero_point))


def _weight_sums(
    weight: Tensor, channel: Sequence[int], zero_point: ExprLike, known: Tensor | None
) -> Tensor | None:
    """The sums of the weights of each output channel, where they are needed."""
    if known is not None or is_zero(zero_point):
        return known
    return _partial_sum(weight, channel, "weight_sum")


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


def _offset(
    sums: Tensor,
    axes: Sequence[int],
    bias: Tensor | None,
    zero_point: ExprLike,
    weight_sums: Tensor | None,
) -> Tensor | None:
    """What is added to the sums of each channel: the bias, less what the zero point brought in."""
    own = channel_axes(sums, axes, "quantized layer")
    for parameter in (bias, weight_sums):
        if parameter is not None:
            check_channels(sums, parameter, own, "quantized layer")
    if weight_sums is None or is_zero(zero_point):
        return bias
    known = weight_sums

    def element(*channel: Var) -> ExprLike:
        brought_in = known(*channel) * _wide(zero_point)
        return (const(0, _SUM) if bias is None else bias(*channel)) - brought_in

    return te.compute(known.shape, element, name="offset", tag=ELEMENTWISE)
