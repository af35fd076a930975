"""Fourier transforms, as products with matrices that are known when the model is imported."""

from __future__ import annotations

import numpy as np

from tilewright.frontend.onnx.context import NodeContext, converts
from tilewright.graph import GraphValue


def _sliced(node: NodeContext, x: GraphValue, axis: int, first: int, last: int) -> GraphValue:
    shape = node.shape(x)
    begin, end = [0] * len(shape), list(shape)
    begin[axis], end[axis] = first, last
    return node.call("strided_slice", x, begin=begin, end=end, strides=[1] * len(shape))


def _fitted(node: NodeContext, x: GraphValue, axis: int, length: int) -> GraphValue:
    """Cut off, or filled up with zeros."""
    shape = node.shape(x)
    if length < shape[axis]:
        return _sliced(node, x, axis, 0, length)
    if length == shape[axis]:
        return x
    after = [length - extent if n == axis else 0 for n, extent in enumerate(shape)]
    zeros = [0] * len(shape)
    return node.call("nn.pad", x, pad_before=zeros, pad_after=after, pad_value=0.0)


def transform(
    node: NodeContext, x: GraphValue, axis: int, length: int, inverse: bool, onesided: bool
) -> GraphValue:
    """The transform of `x`, whose last axis has the real part and maybe an imaginary one."""
    inputs = length // 2 + 1 if inverse and onesided else length
    outputs = length // 2 + 1 if onesided and not inverse else length
    x = _fitted(node, x, axis, inputs)
    rank = len(x.type.shape)
    order = [n for n in range(rank - 1) if n != axis] + [axis]
    angle = 2 * np.pi * np.outer(np.arange(inputs), np.arange(outputs)) / length
    weights = np.ones((inputs, 1))
    if inverse:
        weights /= length
        if onesided:  # the other half of the spectrum mirrors this one
            weights[1 : (length + 1) // 2] *= 2
    sign = 1 if inverse else -1
    matrices = np.cos(angle) * weights, sign * np.sin(angle) * weights
    cosines, sines = (node.constant(matrix, x.type.dtype) for matrix in matrices)
    parts = [_part(node, x, n, order) for n in range(node.shape(x)[-1])]
    real = node.call("nn.matmul", parts[0], cosines)
    imaginary = node.call("nn.matmul", parts[0], sines)
    if len(parts) == 2:
        real = node.call("subtract", real, node.call("nn.matmul", parts[1], sines))
        imaginary = node.call("add", imaginary, node.call("nn.matmul", parts[1], cosines))
    made = [real] if inverse and onesided else [real, imaginary]
    back = [order.index(n) for n in range(rank - 1)]
    turned = [node.call("transpose", one, axes=back) for one in made]
    return node.call("stack", *turned, axis=rank - 1)


def _part(node: NodeContext, x: GraphValue, number: int, order: list[int]) -> GraphValue:
    """The real or the imaginary part, the axis of the transform last."""
    rank = len(order) + 1
    part = _sliced(node, x, rank - 1, number, number + 1)
    flat = node.call("reshape", part, newshape=node.shape(x)[:-1])
    turned = node.call("transpose", flat, axes=order)
    if len(order) > 1:
        return turned
    return node.call("reshape", turned, newshape=[1, -1])


@converts("DFT")
def _dft(node: NodeContext) -> GraphValue:
    rank = len(node.type(0).shape)
    given = node.integers(2)
    default = node.attr("axis", 1) if node.version < 20 else -2
    axis = (given[0] if given else default) % rank
    inverse, onesided = bool(node.attr("inverse", 0)), bool(node.attr("onesided", 0))
    extent = node.shape(node[0])[axis]
    length = node.integers(1)
    usual = 2 * (extent - 1) if inverse and onesided else extent
    return transform(node, node[0], axis, length[0] if length else usual, inverse, onesided)


@converts("STFT")
def _stft(node: NodeContext) -> GraphValue:
    signal, window = node[0], node.optional(2)
    step = (node.integers(1) or [1])[0]
    given = node.integers(3)
    extent = node.shape(signal)[1]
    length = given[0] if given else extent if window is None else node.shape(window)[0]
    count = (extent - length) // step + 1
    starts = np.arange(count)[:, None] * step
    places = node.constant(starts + np.arange(length), "int64")
    frames = node.call("take", signal, places, axis=1)
    if window is not None:
        form = node.call("reshape", window, newshape=[length, 1])
        frames = node.call("multiply", frames, form)
    return transform(node, frames, 2, length, False, bool(node.attr("onesided", 1)))
