"""Layer, RMS and batch normalisation."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilewright import te
from tilewright.errors import TensorExpressionError
from tilewright.ir import ExprLike, IterVar, PrimExpr, Var, const
from tilewright.ir.intrinsics import rsqrt
from tilewright.te import Tensor
from tilewright.topi.accumulate import SumTypes
from tilewright.topi.axes import (
    BROADCAST,
    INJECTIVE,
    check_extents,
    check_float,
    check_ndim,
    compute_ax,
    extent_product,
    normalize_axes,
    normalize_axis,
)
from tilewright.topi.broadcast import add, divide, multiply, subtract
from tilewright.topi.elementwise import sqrt
from tilewright.topi.transform import reshape


class _Statistics:
    """Values computed over some axes of a tensor, in at least single precision."""

    def __init__(self, data: Tensor, axis: Sequence[int], what: str) -> None:
        check_float(data, what)
        self.data = data
        self.axes = normalize_axes(axis, data.ndim, what)
        self.kept = [d for d in range(data.ndim) if d not in self.axes]
        self.accumulator = data.dtype.accumulator
        count = extent_product([data.shape[d] for d in self.axes])
        self.count = count.astype(self.accumulator)

    def value(self, *i: ExprLike) -> PrimExpr:
        """An element in the accumulator's type."""
        return self.wide(self.data, i)

    def wide(self, tensor: Tensor, i: Sequence[ExprLike]) -> PrimExpr:
        """An element of any tensor in the accumulator's type."""
        return tensor(*i).astype(self.accumulator)

    def kept_of(self, indices: Sequence[Var]) -> list[Var]:
        """The indices of the group an element belongs to."""
        return [indices[d] for d in self.kept]

    def reduced_of(self, indices: Sequence[Var]) -> list[Var]:
        """The indices of an element within its group."""
        return [indices[d] for d in self.axes]

    def _group_indices(self, kept: Sequence[Var], reduced: Sequence[IterVar]) -> list[ExprLike]:
        """Where the element `reduced` of the group `kept` lies."""
        by_axis: dict[int, ExprLike] = dict(zip(self.kept, kept, strict=True))
        by_axis.update(zip(self.axes, reduced, strict=True))
        return [by_axis[d] for d in range(self.data.ndim)]

    def per_group(self, element: Callable[..., ExprLike], name: str) -> Tensor:
        """A tensor with one element for each group."""
        return compute_ax([self.data.shape[d] for d in self.kept], element, name, INJECTIVE)

    def sums(self, term: Callable[[PrimExpr, Sequence[Var]], PrimExpr], name: str) -> Tensor:
        """A sum over the elements of each group; `term` gets an element and its group."""
        axes = [te.reduce_axis((0, self.data.shape[d]), name=f"k{d}") for d in self.axes]

        def total(*kept: Var) -> ExprLike:
            return te.sum(term(self.value(*self._group_indices(kept, axes)), kept), axis=axes)

        return self.per_group(total, name)


def square(value: PrimExpr) -> PrimExpr:
    return value * value


def _check_scale(stats: _Statistics, scale: Tensor, what: str) -> None:
    check_ndim(scale, len(stats.axes), what)
    for d, extent in zip(stats.axes, scale.shape, strict=True):
        check_extents(
            extent, stats.data.shape[d], what, f"the extents of {scale.name} and the data"
        )


def layer_norm(
    data: Tensor,
    gamma: Tensor,
    beta: Tensor | None,
    axis: Sequence[int],
    epsilon: float = 1e-5,
) -> Tensor:
    """`(x - mean) / sqrt(variance + epsilon) * gamma + beta` over `axis`.

    The variance is the mean of the squared distances from the mean, which keeps precision where the
    difference of the means of squares would lose it.
    """
    stats = _Statistics(data, axis, "layer_norm")
    for scale in (gamma, beta):
        if scale is not None:
            _check_scale(stats, scale, "layer_norm")
    sums = stats.sums(lambda value, group: value, f"{data.name}_sum")
    mean = stats.per_group(lambda *group: sums(*group) / stats.count, f"{data.name}_mean")
    squares = stats.sums(lambda value, group: square(value - mean(*group)), f"{data.name}_var_sum")

    def element(*i: Var) -> PrimExpr:
        group, own = stats.kept_of(i), stats.reduced_of(i)
        variance = squares(*group) / stats.count
        scale = rsqrt(variance + const(epsilon, stats.accumulator))
        centred = (stats.value(*i) - mean(*group)) * scale
        result = centred * stats.wide(gamma, own)
        return (result if beta is None else result + stats.wide(beta, own)).astype(data.dtype)

    return compute_ax(data.shape, element, "T_layer_norm", INJECTIVE)


def rms_norm(data: Tensor, weight: Tensor, axis: Sequence[int], epsilon: float = 1e-5) -> Tensor:
    """`x / sqrt(mean(x * x) + epsilon) * weight` over `axis`."""
    stats = _Statistics(data, axis, "rms_norm")
    _check_scale(stats, weight, "rms_norm")
    squares = stats.sums(lambda value, group: square(value), f"{data.name}_square_sum")

    def inverse(*kept: Var) -> PrimExpr:
        mean = squares(*kept) / stats.count
        return rsqrt(mean + const(epsilon, stats.accumulator))

    scale = stats.per_group(inverse, "rsqrt")

    def element(*i: Var) -> PrimExpr:
        own = stats.wide(weight, stats.reduced_of(i))
        return (scale(*stats.kept_of(i)) * stats.value(*i) * own).astype(data.dtype)

    return compute_ax(data.shape, element, "T_rms_norm", INJECTIVE)


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
    check_float(data, "batch_norm")
    channel = normalize_axis(axis, data.ndim, "batch_norm")
    for parameter in (gamma, beta, moving_mean, moving_var):
        check_ndim(parameter, 1, "batch_norm")
        check_extents(
            parameter.shape[0],
            data.shape[channel],
            "batch_norm",
            f"the number of channels and the extent of {parameter.name}",
        )
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
    check_ndim(data, 4, what)
    channel = axes.index("c")
    for parameter in (scale, shift):
        if parameter.ndim != 1:
            raise TensorExpressionError(f"{what}: {parameter.name} must have 1 dimension")
        check_extents(parameter.shape[0], data.shape[channel], what, "the numbers of channels")

    def element(*i: Var) -> PrimExpr:
        return data(*i) * scale(i[channel]) + shift(i[channel])

    return te.compute(data.shape, element, "ScaleShift", BROADCAST, varargs_names=tuple(axes))
