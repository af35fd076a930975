"""Transposed convolutions with a stride, phase by phase, so that nothing is multiplied by zero.

Output `o` of the full result adds `data[i] * kernel[k]` wherever `i * stride + k` is `o`. So every
`stride`-th element of the kernel takes part: those at `o % stride + stride * t`, each beside
`data[o // stride - t]`. The outputs of one remainder (a phase) are an ordinary convolution with a
part of the kernel; all of them are one convolution with more channels. Its results interleave.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tilewright import te
from tilewright.ir import ExprLike, PrimExpr, Var, const, logical_and
from tilewright.ir.intrinsics import if_then_else
from tilewright.te import Tensor
from tilewright.topi.accumulate import SumTypes
from tilewright.topi.axes import INJECTIVE, compute_ax, constant_extent


@dataclass(frozen=True)
class PhaseAxis:
    """One spatial axis."""

    extent: int  # of the data
    size: int  # of the kernel
    stride: int
    before: int  # of the full result, left out
    after: int

    @property
    def output(self) -> int:
        return (self.extent - 1) * self.stride + self.size - self.before - self.after

    @property
    def taps(self) -> int:
        """Elements of the kernel in a phase; the last is zero where they do not divide."""
        return -(-self.size // self.stride)

    @property
    def first(self) -> int:
        """The quotient `o // stride` of the first output."""
        return self.before // self.stride

    @property
    def places(self) -> int:
        """Outputs of a phase."""
        return (self.before + self.output - 1) // self.stride - self.first + 1

    @property
    def padding(self) -> tuple[int, int]:
        """Zeros before and after the data; no more is cut off than the kernel reaches."""
        return self.taps - 1 - self.first, max(0, self.first + self.places - self.extent)


def phase_axes(
    data: Tensor, sizes: Sequence[int], stride: Sequence[int], cut: Sequence[tuple[int, int]]
) -> list[PhaseAxis]:
    """The spatial axes of a transposed convolution."""
    extents = [constant_extent(extent, "conv_transpose") for extent in data.shape[2:]]
    return [
        PhaseAxis(extent, size, step, *own)
        for extent, size, step, own in zip(extents, sizes, stride, cut, strict=True)
    ]


def by_phases(
    data: Tensor, kernel: Tensor, axes: Sequence[PhaseAxis], types: SumTypes, what: str
) -> Tensor:
    """The transposed convolution, summed in the accumulator's type."""
    steps = _steps(axes)
    phases = _convolve(_flat(data, axes, steps), _cut_kernel(kernel, axes), axes, types, what)

    def element(*i: Var) -> ExprLike:
        full = [own + axis.before for own, axis in zip(i[2:], axes, strict=True)]
        channel: PrimExpr = i[1]
        place: PrimExpr = const(0)
        for own, axis, step in zip(full, axes, steps, strict=True):
            channel = channel * axis.stride + own % axis.stride
            place = place + (own // axis.stride - axis.first) * step
        return phases(i[0], channel, place)

    shape: list[ExprLike] = [data.shape[0], kernel.shape[1], *(axis.output for axis in axes)]
    return compute_ax(shape, element, what, INJECTIVE)


def _steps(axes: Sequence[PhaseAxis]) -> list[int]:
    """How far neighbours along each axis are apart where all axes lie in one row."""
    widths = [sum(axis.padding) + axis.extent for axis in axes]
    return [math.prod(widths[n + 1 :]) for n in range(len(axes))]


def _flat(data: Tensor, axes: Sequence[PhaseAxis], steps: Sequence[int]) -> Tensor:
    """The padded data with all spatial axes in one row, so that vectors need not end with an axis.

    A tap moves all places by the same distance. Places beyond the end of an axis are computed from
    its neighbours, and nobody reads them; those at the very end need a few elements more.
    """
    widths = [sum(axis.padding) + axis.extent for axis in axes]
    more = sum((axis.taps - 1) * step for axis, step in zip(axes[1:], steps[1:], strict=True))

    def element(n: Var, c: Var, p: Var) -> ExprLike:
        places = [
            p // step % width - axis.padding[0] if number else p // step - axis.padding[0]
            for number, (axis, step, width) in enumerate(zip(axes, steps, widths, strict=True))
        ]
        inside = [
            condition
            for place, axis in zip(places, axes, strict=True)
            for condition in (place >= 0, place < axis.extent)
        ]
        value: PrimExpr = data(n, c, *places)
        return if_then_else(logical_and(*inside), value, const(0, data.dtype))

    shape: list[ExprLike] = [*data.shape[:2], math.prod(widths) + more]
    return compute_ax(shape, element, "data_pad", INJECTIVE)


def _cut_kernel(kernel: Tensor, axes: Sequence[PhaseAxis]) -> Tensor:
    """The kernel of a channel for each phase, the last of its elements first."""
    count = math.prod(axis.stride for axis in axes)

    def element(*i: Var) -> ExprLike:
        window: list[PrimExpr] = []
        rest = i[0] % count
        for tap, axis in reversed(list(zip(i[2:], axes, strict=True))):
            window.insert(0, rest % axis.stride + axis.stride * (axis.taps - 1 - tap))
            rest = rest // axis.stride
        value: PrimExpr = kernel(i[1], i[0] // count, *window)
        for place, axis in zip(window, axes, strict=True):
            if axis.size % axis.stride:
                value = if_then_else(place < axis.size, value, const(0, kernel.dtype))
        return value

    taps = [axis.taps for axis in axes]
    shape: list[ExprLike] = [kernel.shape[1] * count, kernel.shape[0], *taps]
    return compute_ax(shape, element, "kernel_phases", INJECTIVE)


def _convolve(
    padded: Tensor, kernel: Tensor, axes: Sequence[PhaseAxis], types: SumTypes, what: str
) -> Tensor:
    steps = _steps(axes)
    dc = te.reduce_axis((0, padded.shape[1]), name="dc")
    taps = [te.reduce_axis((0, axis.taps), name=f"t{n}") for n, axis in enumerate(axes)]

    def element(n: Var, c: Var, p: Var) -> ExprLike:
        place: PrimExpr = p
        for tap, step in zip(taps, steps, strict=True):
            place = place + tap.var * step
        return types.dot(padded(n, dc, place), kernel(c, dc, *taps), [dc, *taps])

    shape: list[ExprLike] = [padded.shape[0], kernel.shape[0], axes[0].places * steps[0]]
    return compute_ax(shape, element, f"{what}_phases", what)
