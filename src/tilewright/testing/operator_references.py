"""References for operators that NumPy lacks, written plainly in NumPy."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = Any
erf = np.vectorize(math.erf, otypes=[np.float64])


def sigmoid(x: Array) -> Array:
    return np.where(x < 0, np.exp(x) / (1 + np.exp(x)), 1 / (1 + np.exp(-x)))


def silu(x: Array) -> Array:
    return np.where(x == -np.inf, np.nan, x * sigmoid(x))


def gelu(x: Array) -> Array:
    return x * 0.5 * (1 + erf(x / np.sqrt(2)))


def gelu_by_tanh(x: Array) -> Array:
    return x * 0.5 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def softmax(x: Array, axis: int) -> Array:
    powers = np.exp(x - x.max(axis, keepdims=True, initial=-np.inf))
    return powers / powers.sum(axis, keepdims=True)


def log_softmax(x: Array, axis: int) -> Array:
    shifted = x - x.max(axis, keepdims=True, initial=-np.inf)
    return shifted - np.log(np.exp(shifted).sum(axis, keepdims=True))


def layer_norm(x: Array, gamma: Array, beta: Array | None, axes: tuple[int, ...]) -> Array:
    centred = x - x.mean(axes, keepdims=True)
    scaled = centred / np.sqrt((centred**2).mean(axes, keepdims=True) + 1e-5) * gamma
    return scaled if beta is None else scaled + beta


def rms_norm(x: Array, weight: Array, axes: tuple[int, ...]) -> Array:
    return x / np.sqrt((x**2).mean(axes, keepdims=True) + 1e-5) * weight


def batch_norm(x: Array, gamma: Array, beta: Array, mean: Array, variance: Array) -> Array:
    """With the channels on axis 1."""
    own = (-1, *[1] * (x.ndim - 2))
    scale = gamma / np.sqrt(variance + 1e-5)
    return (x - mean.reshape(own)) * scale.reshape(own) + beta.reshape(own)


def windows(
    x: Array, kernel: Sequence[int], stride: int, dilation: int, border: int, value: float
) -> Array:
    """All windows of the spatial axes of `[N, C, ...]`: `[N, C, *outputs, *kernel]`."""
    axes = tuple(range(2, x.ndim))
    padded = np.pad(x, [(0, 0)] * 2 + [(border, border)] * len(axes), constant_values=value)
    reach = tuple((k - 1) * dilation + 1 for k in kernel)
    views = np.lib.stride_tricks.sliding_window_view(padded, reach, axes)
    steps = (slice(None),) * 2 + (slice(None, None, stride),) * len(axes)
    return views[steps + (slice(None, None, dilation),) * len(axes)]


def convolution(
    x: Array,
    kernel: Array,
    stride: int = 1,
    padding: int = 0,
    dilation: int = 1,
    groups: int = 1,
) -> Array:
    """Channels first: data `[N, C, ...]`, kernel `[O, C / groups, ...]`."""
    spatial = x.ndim - 2
    parts = []
    for data, weights in zip(np.split(x, groups, 1), np.split(kernel, groups, 0), strict=True):
        views = windows(data, kernel.shape[2:], stride, dilation, padding, 0)
        reduced = [1, *range(2 + spatial, 2 + 2 * spatial)]
        product = np.tensordot(views, weights, (reduced, list(range(1, weights.ndim))))
        parts.append(np.moveaxis(product, -1, 1))
    return np.concatenate(parts, 1)


def depthwise(x: Array, kernel: Array, stride: int, padding: int) -> Array:
    """Channels first, kernel `[C, multiplier, kh, kw]`."""
    channels, multiplier, *window = kernel.shape
    return convolution(
        x, kernel.reshape(channels * multiplier, 1, *window), stride, padding, groups=channels
    )


def transposed_convolution(
    x: Array, kernel: Array, stride: int, padding: int, extra: int = 0
) -> Array:
    """Every input adds its multiple of the kernel `[C, O, ...]` to the output."""
    spatial, window = x.shape[2:], kernel.shape[2:]
    sizes = [(n - 1) * stride + k + extra for n, k in zip(spatial, window, strict=True)]
    output = np.zeros((x.shape[0], kernel.shape[1], *sizes), x.dtype)
    for place in itertools.product(*map(range, spatial)):
        target = [slice(p * stride, p * stride + k) for p, k in zip(place, window, strict=True)]
        source: Any = (..., *place)
        here: Any = (..., *target)
        output[here] += np.tensordot(x[source], kernel, (1, 0))
    inner: Any = (..., *(slice(padding, size - padding) for size in sizes))
    return output[inner]


def pool(x: Array, kernel: int, stride: int, padding: int, kind: str) -> Array:
    """Channels first; averages count the border."""
    spatial = x.ndim - 2
    border = 0.0 if kind == "avg" else -np.inf
    if x.dtype.kind == "i":
        border = np.iinfo(np.int64).min
    views = windows(x, [kernel] * spatial, stride, 1, padding, border)
    axes = tuple(range(2 + spatial, 2 + 2 * spatial))
    return views.mean(axes) if kind == "avg" else views.max(axes)


def adaptive_pool(x: Array, size: int, kind: str) -> Array:
    """Channels first, two spatial axes."""
    reduce: Callable[..., Array] = np.mean if kind == "avg" else np.max
    cuts = [[(i * n // size, -(-(i + 1) * n // size)) for i in range(size)] for n in x.shape[2:]]
    rows = [
        [reduce(x[:, :, top:bottom, left:right], (2, 3)) for left, right in cuts[1]]
        for top, bottom in cuts[0]
    ]
    return np.moveaxis(np.array(rows), (0, 1), (2, 3))


def channels_first(x: Array) -> Array:
    return np.moveaxis(x, -1, 1)


def channels_last(x: Array) -> Array:
    return np.moveaxis(x, 1, -1)


def kernel_first(kernel: Array) -> Array:
    """`[..., I, O]` as `[O, I, ...]`."""
    return np.moveaxis(kernel, (-1, -2), (0, 1))


def unblocked(x: Array) -> Array:
    """`[N, C/b, h, w, b]` as `[N, C, h, w]`."""
    moved = np.moveaxis(x, -1, 2)
    return moved.reshape(moved.shape[0], -1, *moved.shape[3:])


def blocked(x: Array, block: int) -> Array:
    parts = x.reshape(x.shape[0], -1, block, *x.shape[2:])
    return np.moveaxis(parts, 2, -1)


def unblocked_kernel(kernel: Array) -> Array:
    """`[O/c, I/b, kh, kw, b, c]` as `[O, I, kh, kw]`."""
    out, inner, high, wide, b, c = kernel.shape
    return kernel.transpose(0, 5, 1, 4, 2, 3).reshape(out * c, inner * b, high, wide)


def requantized(sums: Array, multiplier: int, shift: int, zero_point: int, dtype: str) -> Array:
    """Rounded to the nearest, halves upwards; limited to the type."""
    places = 31 - shift
    scaled = (sums * multiplier + (1 << (places - 1))) >> places
    limits = np.iinfo(dtype)
    return np.clip(scaled + zero_point, limits.min, limits.max)


def from_the_end(indices: Array, extent: int) -> Array:
    """Negative indices count from the end; what lies beyond is limited."""
    return np.clip(np.where(indices < 0, indices + extent, indices), 0, extent - 1)


def scatter_max(x: Array, indices: Array, updates: Array) -> Array:
    """Along the first axis."""
    result = x.copy()
    for place in np.ndindex(*indices.shape):
        target = (indices[place], *place[1:])
        result[target] = np.maximum(result[target], updates[place])
    return result


def resized(x: Array, size: int) -> Array:
    """All spatial axes of `[N, C, ...]` at another size: linear between the middles of pixels."""
    for axis in range(2, x.ndim):
        extent = x.shape[axis]
        places = (np.arange(size) + 0.5) * extent / size - 0.5
        weights = [np.interp(places, np.arange(extent), unit) for unit in np.eye(extent)]
        x = np.moveaxis(np.tensordot(x, np.array(weights), (axis, 0)), -1, axis)
    return x


def attention(query: Array, key: Array, value: Array) -> Array:
    scores = query @ np.swapaxes(key, -1, -2) / np.sqrt(query.shape[-1])
    return softmax(scores, -1) @ value


def head_attention(query: Array, key: Array, value: Array, heads: int) -> Array:
    """With the features of all heads side by side."""
    apart = (np.stack(np.split(x, heads, 2), 1) for x in (query, key, value))
    return np.swapaxes(attention(*apart), 1, 2)


def group_norm(x: Array, gamma: Array, beta: Array, groups: int) -> Array:
    """With the channels on axis 1."""
    parts = x.reshape(x.shape[0], groups, -1)
    centred = parts - parts.mean(2, keepdims=True)
    scaled = centred / np.sqrt((centred**2).mean(2, keepdims=True) + 1e-5)
    own = (-1, *[1] * (x.ndim - 2))
    return scaled.reshape(x.shape) * gamma.reshape(own) + beta.reshape(own)
