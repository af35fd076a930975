"""Transposed convolutions.

With stride 1 they are convolutions of the padded data with the flipped kernel. With larger strides
they go phase by phase, so that nothing is multiplied by zero; where extents are not known, the data
are dilated with zeros first.

Output `o` of the full result adds `data[i] * kernel[k]` wherever `i * stride + k` is `o`. So every
`stride`-th element of the kernel takes part: those at `o % stride + stride * t`, each beside
`data[o // stride - t]`. The outputs of one remainder (a phase) are an ordinary convolution with a
part of the kernel; all of them are one convolution with more channels. Its results interleave.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tilewright import te
from tilewright.errors import TensorExpressionError
from tilewright.ir import ExprLike, IntImm, PrimExpr, Var, const, logical_and
from tilewright.ir.intrinsics import if_then_else
from tilewright.support.names import named
from tilewright.te import Tensor
from tilewright.topi import axes as ax
from tilewright.topi.accumulate import SumTypes, sum_types
from tilewright.topi.nn.padding import dilate, pad


@dataclass(frozen=True)
class _PhaseAxis:
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


def _by_phases(
    data: Tensor, kernel: Tensor, axes: Sequence[_PhaseAxis], types: SumTypes, what: str
) -> Tensor:
    """The transposed convolution, summed in the accumulator's type."""
    steps = _steps(axes)
    phases = _convolve_phases(
        _flat(data, axes, steps), _cut_kernel(kernel, axes), axes, types, what
    )

    def element(*i: Var) -> ExprLike:
        full = [own + axis.before for own, axis in zip(i[2:], axes, strict=True)]
        channel: PrimExpr = i[1]
        place: PrimExpr = const(0)
        for own, axis, step in zip(full, axes, steps, strict=True):
            channel = channel * axis.stride + own % axis.stride
            place = place + (own // axis.stride - axis.first) * step
        return phases(i[0], channel, place)

    shape: list[ExprLike] = [data.shape[0], kernel.shape[1], *(axis.output for axis in axes)]
    return ax.compute_ax(shape, element, what, ax.INJECTIVE)


def _steps(axes: Sequence[_PhaseAxis]) -> list[int]:
    """How far neighbours along each axis are apart where all axes lie in one row."""
    widths = [sum(axis.padding) + axis.extent for axis in axes]
    return [math.prod(widths[n + 1 :]) for n in range(len(axes))]


def _flat(data: Tensor, axes: Sequence[_PhaseAxis], steps: Sequence[int]) -> Tensor:
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
    return ax.compute_ax(shape, element, "data_pad", ax.INJECTIVE)


def _cut_kernel(kernel: Tensor, axes: Sequence[_PhaseAxis]) -> Tensor:
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
    return ax.compute_ax(shape, element, "kernel_phases", ax.INJECTIVE)


def _convolve_phases(
    padded: Tensor, kernel: Tensor, axes: Sequence[_PhaseAxis], types: SumTypes, what: str
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
    return ax.compute_ax(shape, element, f"{what}_phases", what)


_SPATIAL = {1: ("w",), 2: ("h", "w"), 3: ("d", "h", "w")}


def _conv_transpose(n: int, layout: str, kernel_name: str) -> Callable[..., Tensor]:
    name = f"conv{n}d_transpose_{layout}"
    letters = _SPATIAL[n]

    def transposed(
        data: Tensor,
        kernel: Tensor,
        strides: ax.Window,
        padding: ax.Window,
        out_dtype: str | None = None,
        output_padding: ax.Window = 0,
    ) -> Tensor:
        ax.check_ndim(data, n + 2, name)
        ax.check_ndim(kernel, n + 2, name)
        ax.check_extents(
            data.shape[1], kernel.shape[0], name, "the input channels of data and kernel"
        )
        stride = ax.positive_per_axis(strides, n, f"{name} strides")
        types = sum_types(out_dtype, data, kernel)
        extents = [ax.constant_extent(extent, name) for extent in kernel.shape[2:]]
        cut = _cut_off(extents, stride, padding, output_padding, name)
        known = all(isinstance(extent, IntImm) and extent.value > 0 for extent in data.shape[2:])
        if max(stride) > 1 and known:
            sizes = [ax.constant_extent(extent, name) for extent in data.shape[2:]]
            axes = [
                _PhaseAxis(extent, size, step, *own)
                for extent, size, step, own in zip(sizes, extents, stride, cut, strict=True)
            ]
            return types.finish(_by_phases(data, kernel, axes, types, name))
        padded = _dilate_and_pad(data, extents, stride, cut)
        flipped = _flip(kernel, kernel_name, letters)
        return types.finish(_convolve(padded, flipped, types, letters, name))

    meaning = f"The transposed convolution of {layout.upper()} data over {n} axes."
    return named(transposed, name, meaning)


def _cut_off(
    extents: Sequence[int],
    stride: Sequence[int],
    padding: ax.Window,
    output_padding: ax.Window,
    what: str,
) -> list[tuple[int, int]]:
    """What is left out of the full result at the beginning and the end of each axis."""
    if 0 in extents:
        raise TensorExpressionError(f"{what}: the kernel has no elements along a spatial axis")
    before, after = ax.pad_widths(padding, extents, what)
    extra = ax.per_axis(output_padding, len(stride), f"{what} output_padding")
    for own, step in zip(extra, stride, strict=True):
        if not 0 <= own < step:
            raise TensorExpressionError(
                f"{what}: output_padding {own} must be less than the stride {step}"
            )
    cut = [(b, a - e) for b, a, e in zip(before, after, extra, strict=True)]
    if any(size - 1 < max(own) for size, own in zip(extents, cut, strict=True)):
        raise TensorExpressionError(f"{what}: padding {padding} is larger than the kernel minus 1")
    return cut


def _dilate_and_pad(
    data: Tensor, extents: Sequence[int], stride: Sequence[int], cut: Sequence[tuple[int, int]]
) -> Tensor:
    dilated = dilate(data, [1, 1, *stride], name="data_dilate")
    sides = [
        [size - 1 - own[side] for size, own in zip(extents, cut, strict=True)] for side in (0, 1)
    ]
    return pad(dilated, [0, 0, *sides[0]], [0, 0, *sides[1]], name="data_pad")


def _flip(kernel: Tensor, name: str, letters: Sequence[str]) -> Tensor:
    """The kernel with its spatial axes reversed and output channels first."""

    def element(*i: Var) -> ExprLike:
        window = [extent - 1 - index for extent, index in zip(kernel.shape[2:], i[2:], strict=True)]
        return kernel(i[1], i[0], *window)

    shape = (kernel.shape[1], kernel.shape[0], *kernel.shape[2:])
    return te.compute(shape, element, name, varargs_names=["o", "i", *letters])


def _convolve(
    padded: Tensor, kernel: Tensor, types: SumTypes, letters: Sequence[str], what: str
) -> Tensor:
    dc = te.reduce_axis((0, kernel.shape[1]), name="dc")
    window = [
        te.reduce_axis((0, extent), name=f"d{letter}")
        for extent, letter in zip(kernel.shape[2:], letters, strict=True)
    ]

    def element(*i: Var) -> ExprLike:
        position = [index + axis.var for index, axis in zip(i[2:], window, strict=True)]
        return types.dot(padded(i[0], dc, *position), kernel(i[1], dc, *window), [dc, *window])

    spatial = [
        extent - size + 1 for extent, size in zip(padded.shape[2:], kernel.shape[2:], strict=True)
    ]
    shape = (padded.shape[0], kernel.shape[0], *spatial)
    return te.compute(shape, element, tag=what, varargs_names=["b", "c", *letters])


conv1d_transpose_ncw = _conv_transpose(1, "ncw", "kernel")
conv2d_transpose_nchw = _conv_transpose(2, "nchw", "kernel_transform")
conv3d_transpose_ncdhw = _conv_transpose(3, "ncdhw", "kernel_transform")
