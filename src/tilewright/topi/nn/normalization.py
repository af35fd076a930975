"""Layer, RMS, group, instance and batch normalisation."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilewright import te
from tilewright.errors import TensorExpressionError
from tilewright.ir import ExprLike, PrimExpr, Var, const
from tilewright.ir.intrinsics import rsqrt
from tilewright.te import Tensor
from tilewright.topi import axes as ax
from tilewright.topi.accumulate import SumTypes
from tilewright.topi.broadcast import add, divide, multiply, subtract
from tilewright.topi.elementwise import sqrt
from tilewright.topi.transform import reshape

__all__ = [
    "layer_norm", "rms_norm", "group_norm", "instance_norm", "batch_norm", "scale_shift_nchw",
    "scale_shift_nhwc",
]  # fmt: skip


class _Groups:
    """Elements that are normalised together, in at least single precision.

    They lie along `axes`; with a `channel` axis, its elements are in `count` parts as well.
    """

    def __init__(
        self,
        data: Tensor,
        axes: Sequence[int],
        what: str,
        channel: int | None = None,
        count: int = 1,
    ) -> None:
        self.data, self.what = data, what
        self.axes = ax.normalize_axes(axes, data.ndim, what)
        self._kept = [d for d in range(data.ndim) if d not in self.axes]
        self._channel, self._count, self._size = channel, count, 1
        self.accumulator = data.dtype.accumulator
        elements = ax.extent_product([data.shape[d] for d in self.axes])
        if channel is not None:
            self._size = max(1, ax.constant_extent(data.shape[channel], what) // count)
            elements = elements * self._size
        self.count = elements.astype(self.accumulator)

    def wide(self, tensor: Tensor, i: Sequence[ExprLike]) -> PrimExpr:
        """An element of any tensor in the accumulator's type."""
        return tensor(*i).astype(self.accumulator)

    def group_of(self, indices: Sequence[Var]) -> list[PrimExpr]:
        """The group that an element of the data belongs to."""
        return [indices[d] // self._size if d == self._channel else indices[d] for d in self._kept]

    def within(self, indices: Sequence[Var]) -> list[Var]:
        """The indices of an element along the axes of its group."""
        return [indices[d] for d in self.axes]

    def per_group(self, element: Callable[..., ExprLike], name: str) -> Tensor:
        """A tensor with one element for each group."""
        shape = [
            const(self._count) if d == self._channel else self.data.shape[d] for d in self._kept
        ]
        return ax.compute_ax(shape, element, name, ax.INJECTIVE)

    def sums(self, term: Callable[[PrimExpr, Sequence[Var]], PrimExpr], name: str) -> Tensor:
        """A sum over the elements of each group; `term` gets an element and its group."""
        part = te.reduce_axis((0, self._size), name="kc")
        along = [te.reduce_axis((0, self.data.shape[d]), name=f"k{d}") for d in self.axes]
        reduced = along if self._channel is None else [part, *along]

        def total(*group: Var) -> ExprLike:
            at: dict[int, ExprLike] = dict(zip(self.axes, along, strict=True))
            for d, own in zip(self._kept, group, strict=True):
                at[d] = own * self._size + part.var if d == self._channel else own
            value = self.wide(self.data, [at[d] for d in range(self.data.ndim)])
            return te.sum(term(value, group), axis=reduced)

        return self.per_group(total, name)

    def total(self) -> Tensor:
        return self.sums(lambda value, group: value, f"{self.data.name}_sum")

    def normalized(
        self,
        mean: Callable[..., PrimExpr],
        epsilon: float,
        gamma: Tensor | None,
        beta: Tensor | None,
        parameter_of: Callable[[Sequence[Var]], Sequence[Var]],
    ) -> Tensor:
        """`(x - mean) / sqrt(variance + epsilon) * gamma + beta`."""
        name = f"{self.data.name}_var_sum"
        squares = self.sums(lambda value, group: _square(value - mean(*group)), name)

        def element(*i: Var) -> PrimExpr:
            group = self.group_of(i)
            variance = squares(*group) / self.count
            scale = rsqrt(variance + const(epsilon, self.accumulator))
            result = (self.wide(self.data, i) - mean(*group)) * scale
            if gamma is not None:
                result = result * self.wide(gamma, parameter_of(i))
            if beta is not None:
                result = result + self.wide(beta, parameter_of(i))
            return result.astype(self.data.dtype)

        return ax.compute_ax(self.data.shape, element, f"T_{self.what}", ax.INJECTIVE)


def _square(value: PrimExpr) -> PrimExpr:
    return value * value


def _check_scale(groups: _Groups, scale: Tensor) -> None:
    ax.check_ndim(scale, len(groups.axes), groups.what)
    described = f"the extents of {scale.name} and the data"
    for d, extent in zip(groups.axes, scale.shape, strict=True):
        ax.check_extents(extent, groups.data.shape[d], groups.what, described)


def layer_norm(
    data: Tensor, gamma: Tensor, beta: Tensor | None, axis: Sequence[int], epsilon: float = 1e-5
) -> Tensor:
    """`(x - mean) / sqrt(variance + epsilon) * gamma + beta` over `axis`.

    The variance is the mean of the squared distances from the mean, which keeps precision where the
    difference of the means of squares would lose it.
    """
    ax.check_float(data, "layer_norm")
    groups = _Groups(data, axis, "layer_norm")
    for scale in (gamma, beta):
        if scale is not None:
            _check_scale(groups, scale)
    sums = groups.total()
    mean = groups.per_group(lambda *group: sums(*group) / groups.count, f"{data.name}_mean")
    return groups.normalized(mean, epsilon, gamma, beta, groups.within)


def rms_norm(data: Tensor, weight: Tensor, axis: Sequence[int], epsilon: float = 1e-5) -> Tensor:
    """`x / sqrt(mean(x * x) + epsilon) * weight` over `axis`."""
    ax.check_float(data, "rms_norm")
    groups = _Groups(data, axis, "rms_norm")
    _check_scale(groups, weight)
    squares = groups.sums(lambda value, group: _square(value), f"{data.name}_square_sum")

    def inverse(*group: Var) -> PrimExpr:
        return rsqrt(squares(*group) / groups.count + const(epsilon, groups.accumulator))

    scale = groups.per_group(inverse, "rsqrt")

    def element(*i: Var) -> PrimExpr:
        own = groups.wide(weight, groups.within(i))
        return (scale(*groups.group_of(i)) * groups.wide(data, i) * own).astype(data.dtype)

    return ax.compute_ax(data.shape, element, "T_rms_norm", ax.INJECTIVE)


def group_norm(
    data: Tensor,
    gamma: Tensor | None,
    beta: Tensor | None,
    num_groups: int,
    channel_axis: int,
    axes: Sequence[int],
    epsilon: float = 1e-5,
) -> Tensor:
    """`(x - mean) / sqrt(variance + epsilon) * gamma + beta`, over groups of channels.

    Mean and variance are taken over `axes` and the channels of one of `num_groups` groups; `gamma`
    and `beta` have one value for each channel and may be None. The variance is the mean of the
    squared distances from the mean. All of it is computed in float32 at least and rounded once.
    """
    groups = _channel_groups("group_norm", data, num_groups, channel_axis, axes)
    return _over_channels(groups, channel_axis, gamma, beta, epsilon)


def instance_norm(
    data: Tensor,
    gamma: Tensor | None,
    beta: Tensor | None,
    channel_axis: int,
    axis: Sequence[int],
    epsilon: float = 1e-5,
) -> Tensor:
    """`(x - mean) / sqrt(variance + epsilon) * gamma + beta`, for each channel of each instance.

    Mean and variance are taken over `axis`; the rest is as in `group_norm`.
    """
    channel = ax.normalize_axis(channel_axis, data.ndim, "instance_norm")
    channels = ax.constant_extent(data.shape[channel], "instance_norm")
    groups = _channel_groups("instance_norm", data, channels, channel, axis)
    return _over_channels(groups, channel, gamma, beta, epsilon)


def _channel_groups(
    what: str, data: Tensor, count: int, channel_axis: int, axes: Sequence[int]
) -> _Groups:
    if not data.dtype.is_float:
        raise TensorExpressionError(
            f"{what}: {data.name} is {data.dtype!s}; cast it to a float type"
        )
    channel = ax.normalize_axis(channel_axis, data.ndim, what)
    if channel in ax.normalize_axes(axes, data.ndim, what):
        raise TensorExpressionError(
            f"{what}: the channel axis {channel} must not be among axes {list(axes)}"
        )
    channels = ax.constant_extent(data.shape[channel], what)
    if channels and (count < 1 or channels % count):
        raise TensorExpressionError(
            f"{what}: {channels} channels cannot be divided into {count} groups"
        )
    return _Groups(data, axes, what, channel, count)


def _over_channels(
    groups: _Groups, axis: int, gamma: Tensor | None, beta: Tensor | None, epsilon: float
) -> Tensor:
    channel = ax.normalize_axis(axis, groups.data.ndim, groups.what)
    for parameter in (gamma, beta):
        if parameter is not None:
            _check_per_channel(groups.data, parameter, channel, groups.what)
    sums = groups.total()

    def mean(*group: PrimExpr) -> PrimExpr:
        return sums(*group) / groups.count

    return groups.normalized(mean, epsilon, gamma, beta, lambda i: [i[channel]])


def _check_per_channel(data: Tensor, parameter: Tensor, channel: int, what: str) -> None:
    ax.check_ndim(parameter, 1, what)
    described = f"the number of channels and the extent of {parameter.name}"
    ax.check_extents(data.shape[channel], parameter.shape[0], what, described)


def batch_norm(
    data: Tensor,
    gamma: Tensor,
    beta: Tensor,
    moving_mean: Tensor,
    moving_var: Tensor,
    axis: int = 1,
    epsilon: float = 1e-5,
    center: bool = True,
    scale: bool = True,
) -> Tensor:
    """Batch normalisation with given statistics (inference) along the channel `axis`."""
    ax.check_float(data, "batch_norm")
    channel = ax.normalize_axis(axis, data.ndim, "batch_norm")
    for parameter in (gamma, beta, moving_mean, moving_var):
        _check_per_channel(data, parameter, channel, "batch_norm")
    shape = [data.shape[d] if d == channel else const(1) for d in range(data.ndim)]
    types = SumTypes(data.dtype.accumulator, data.dtype)

    def along_channel(parameter: Tensor) -> Tensor:
        return reshape(types.widen(parameter), shape)

    centred = subtract(types.widen(data), along_channel(moving_mean))
    deviation = sqrt(add(along_channel(moving_var), const(epsilon, types.accumulator)))
    result = divide(centred, deviation)
    if scale:
        result = multiply(result, along_channel(gamma))
    return types.finish(add(result, along_channel(beta)) if center else result)


def scale_shift_nchw(data: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    """`x * scale + shift` for each channel of an NCHW tensor."""
    return _scale_shift(data, scale, shift, "bcij", "scale_shift_nchw")


def scale_shift_nhwc(data: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    """`x * scale + shift` for each channel of an NHWC tensor."""
    return _scale_shift(data, scale, shift, "bijc", "scale_shift_nhwc")


def _scale_shift(data: Tensor, scale: Tensor, shift: Tensor, axes: str, what: str) -> Tensor:
    ax.check_ndim(data, 4, what)
    channel = axes.index("c")
    for parameter in (scale, shift):
        if parameter.ndim != 1:
            raise TensorExpressionError(f"{what}: {parameter.name} must have 1 dimension")
        ax.check_extents(parameter.shape[0], data.shape[channel], what, "the numbers of channels")

    def element(*i: Var) -> PrimExpr:
        return data(*i) * scale(i[channel]) + shift(i[channel])

    return te.compute(data.shape, element, "ScaleShift", ax.BROADCAST, varargs_names=tuple(axes))
