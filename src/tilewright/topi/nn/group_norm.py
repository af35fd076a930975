"""Normalisation over groups of channels: group_norm, instance_norm."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilewright import te
from tilewright.errors import TensorExpressionError
from tilewright.ir import ExprLike, IterVar, PrimExpr, Var, const
from tilewright.ir.intrinsics import rsqrt
from tilewright.te import Tensor
from tilewright.topi.axes import (
    INJECTIVE,
    check_extents,
    check_ndim,
    compute_ax,
    constant_extent,
    extent_product,
    normalize_axes,
    normalize_axis,
)
from tilewright.topi.nn.normalization import square


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
    groups = _Groups("group_norm", data, num_groups, channel_axis, axes)
    return groups.normalized(gamma, beta, epsilon)


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
    channel = normalize_axis(channel_axis, data.ndim, "instance_norm")
    channels = constant_extent(data.shape[channel], "instance_norm")
    groups = _Groups("instance_norm", data, channels, channel, axis)
    return groups.normalized(gamma, beta, epsilon)


class _Groups:
    """Elements that are normalised together: some channels, and all along some other axes."""

    def __init__(
        self, what: str, data: Tensor, count: int, channel_axis: int, axes: Sequence[int]
    ) -> None:
        if not data.dtype.is_float:
            raise TensorExpressionError(
                f"{what}: {data.name} is {data.dtype!s}; cast it to a float type"
            )
        self._what = what
        self._data = data
        self._channel = normalize_axis(channel_axis, data.ndim, what)
        self._axes = normalize_axes(axes, data.ndim, what)
        if self._channel in self._axes:
            raise TensorExpressionError(
                f"{what}: the channel axis {self._channel} must not be among axes {list(axes)}"
            )
        channels = constant_extent(data.shape[self._channel], what)
        if channels and (count < 1 or channels % count):
            raise TensorExpressionError(
                f"{what}: {channels} channels cannot be divided into {count} groups"
            )
        self._count = count
        self._size = channels // count if channels else 1
        self._wide = data.dtype.accumulator

    def normalized(self, gamma: Tensor | None, beta: Tensor | None, epsilon: float) -> Tensor:
        """The normalised data, scaled and shifted."""
        for parameter in (gamma, beta):
            if parameter is not None:
                self._check_parameter(parameter)
        name = self._data.name
        sums = self._sums(f"{name}_sum", lambda value, group: value)
        elements = extent_product([self._data.shape[d] for d in self._axes]) * self._size
        count = elements.astype(self._wide)
        squares = self._sums(
            f"{name}_var_sum", lambda value, group: square(value - sums(*group) / count)
        )

        def element(*i: Var) -> PrimExpr:
            group = self._group_of(i)
            variance = squares(*group) / count
            scale = rsqrt(variance + const(epsilon, self._wide))
            result = (self._data(*i).astype(self._wide) - sums(*group) / count) * scale
            if gamma is not None:
                result = result * gamma(i[self._channel]).astype(self._wide)
            if beta is not None:
                result = result + beta(i[self._channel]).astype(self._wide)
            return result.astype(self._data.dtype)

        return compute_ax(self._data.shape, element, f"T_{self._what}", INJECTIVE)

    def _check_parameter(self, parameter: Tensor) -> None:
        check_ndim(parameter, 1, self._what)
        channels = self._data.shape[self._channel]
        described = f"the number of channels and the extent of {parameter.name}"
        check_extents(channels, parameter.shape[0], self._what, described)

    def _sums(self, name: str, term: Callable[[PrimExpr, Sequence[Var]], PrimExpr]) -> Tensor:
        """A sum over the elements of each group; `term` gets an element and its group."""
        shape = [
            const(self._count) if d == self._channel else extent
            for d, extent in enumerate(self._data.shape)
            if d not in self._axes
        ]
        within = te.reduce_axis((0, self._size), name="kc")
        along = {d: te.reduce_axis((0, self._data.shape[d]), name=f"k{d}") for d in self._axes}

        def element(*group: Var) -> ExprLike:
            value = self._data(*self._indices(group, within, along)).astype(self._wide)
            return te.sum(term(value, group), axis=[within, *along.values()])

        return compute_ax(shape, element, name, INJECTIVE)

    def _indices(
        self, group: Sequence[Var], within: IterVar, along: dict[int, IterVar]
    ) -> list[ExprLike]:
        """Where an element of a group lies in the data."""
        rest = iter(group)
        indices: list[ExprLike] = []
        for d in range(self._data.ndim):
            if d in along:
                indices.append(along[d])
            elif d == self._channel:
                indices.append(next(rest) * self._size + within.var)
            else:
                indices.append(next(rest))
        return indices

    def _group_of(self, indices: Sequence[Var]) -> list[PrimExpr]:
        """The group that an element of the data belongs to."""
        return [
            index // self._size if d == self._channel else index
            for d, index in enumerate(indices)
            if d not in self._axes
        ]
