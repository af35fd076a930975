"""Forms of real numbers in a quantized graph, before anybody needs them as floats."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from tilewright.graph.graph import Array, GraphValue

LARGEST_SUM = 2**31 - 1
_BETWEEN = 1e-3  # of a step: what rounding of a scale does to a large bias


@dataclass(frozen=True, eq=False)
class Bytes:
    """`(value - zero) * scale`; scale and zero point are stretched to the value."""

    value: GraphValue
    scale: Array
    zero: Array

    @property
    def is_uniform(self) -> bool:
        """True if there is one scale and one zero point."""
        return self.scale.size == self.zero.size == 1

    def has_parameters_of(self, other: Bytes) -> bool:
        """True if the same bytes stand for the same numbers."""
        return (
            self.value.type.dtype == other.value.type.dtype
            and np.array_equal(self.scale, other.scale)
            and np.array_equal(self.zero, other.zero)
        )


@dataclass(frozen=True)
class Limits:
    """Between what real numbers an activation keeps its results."""

    low: float = -math.inf
    high: float = math.inf

    def within(self, low: float, high: float) -> Limits:
        """These limits, and others behind them."""
        return Limits(*(min(max(end, low), high) for end in (self.low, self.high)))

    def as_bytes(self, scale: float, zero: int, dtype: str) -> list[int]:
        """The limits in steps; rounding keeps the order, so limits may come after it."""
        kind = np.iinfo(dtype)
        ends = [
            zero + float(np.rint(np.float32(limit) / np.float32(scale)))
            for limit in (self.low, self.high)
        ]
        return [int(min(max(end, kind.min), kind.max)) for end in ends]


@dataclass(frozen=True, eq=False)
class LayerSums:
    """`(value + offset) * scale + bias`, limited; value is int32, bias of float64 or None."""

    value: GraphValue
    offset: Array
    scale: Array
    bias: Array | None = None
    limits: Limits = Limits()


@dataclass(frozen=True, eq=False)
class Addition:
    """`a + b`, limited."""

    a: Bytes
    b: Bytes
    limits: Limits = Limits()


@dataclass(frozen=True, eq=False)
class Mean:
    """The mean over some axes, which stay, limited."""

    x: Bytes
    axes: tuple[int, ...]
    limits: Limits = Limits()


Pending: TypeAlias = LayerSums | Addition | Mean
Form: TypeAlias = Bytes | Pending


def limited(form: Pending, low: float, high: float) -> Pending:
    """A form behind an activation."""
    return replace(form, limits=form.limits.within(low, high))


def dequantized(q: Array, scale: Array, zero: Array) -> Array:
    """Known bytes as the numbers that they stand for."""
    kind = scale.dtype
    return np.asarray((q.astype(kind) - zero.astype(kind)) * scale)


def centred_weights(q: Array, zero: Array) -> Array | None:
    """Weights whose zero point is 0, as int8; None if they do not fit."""
    moved = q.astype(np.int32) - zero.astype(np.int32)
    if moved.min(initial=0) < -128 or moved.max(initial=0) > 127:
        return None
    return moved.astype(np.int8)


@dataclass(frozen=True, eq=False)
class Weights:
    """Known int8 numbers with scales and zero points for each output."""

    numbers: Array
    scales: Array
    zeros: Array

    @staticmethod
    def of(q: Array, scale: Array, zero: Array, axis: int) -> Weights | None:
        """Weights whose outputs lie along an axis; zero points of 0 where int8 has room."""
        scales, zeros = (_for_each(x, q.shape, axis) for x in (scale, zero))
        if q.dtype.name not in ("int8", "uint8") or scales is None or zeros is None:
            return None
        centred = centred_weights(q, zero)
        if centred is not None:
            return Weights(centred, scales, np.zeros_like(zeros, np.int32))
        middle = 128 if q.dtype == np.uint8 else 0
        moved = (q.astype(np.int32) - middle).astype(np.int8)
        return Weights(moved, scales, zeros.astype(np.int32) - middle)


def _for_each(parameter: Array, shape: tuple[int, ...], axis: int) -> Array | None:
    """A scale or zero point as a vector of the extent of an axis; None if it lies elsewhere."""
    form = [1] * (len(shape) - parameter.ndim) + list(parameter.shape)
    if any(extent != 1 for n, extent in enumerate(form) if n != axis):
        return None
    return np.broadcast_to(parameter.reshape(-1), shape[axis])


def bias_in_steps(bias: Array, scale: Array) -> Array | None:
    """A bias in units of the sums, as int32; None if it lies between them, or is too large."""
    steps = np.broadcast_to(bias.astype(np.float64) / scale.astype(np.float64), scale.shape)
    whole = np.rint(steps)
    if not np.all(np.abs(whole) < LARGEST_SUM // 2) or np.any(np.abs(steps - whole) > _BETWEEN):
        return None
    return whole.astype(np.int32)
