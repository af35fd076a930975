"""What is known about real numbers in a quantized graph before anybody needs them as floats."""

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
class Sums:
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


Pending: TypeAlias = Sums | Addition | Mean
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


def bias_in_steps(bias: Array, scale: Array) -> Array | None:
    """A bias in units of the sums, as int32; None if it lies between them, or is too large."""
    steps = np.broadcast_to(bias.astype(np.float64) / scale.astype(np.float64), scale.shape)
    whole = np.rint(steps)
    if not np.all(np.abs(whole) < LARGEST_SUM // 2) or np.any(np.abs(steps - whole) > _BETWEEN):
        return None
    return whole.astype(np.int32)
