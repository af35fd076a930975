"""Operators on images: resize1d, resize2d, resize3d.

Sizes are constants, so positions in the input are exact fractions: which elements an output needs
is decided in integers, and no rounding can move it to a neighbour.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tilewright import ir
from tilewright.errors import TensorExpressionError
from tilewright.ir.intrinsics import round as round_expr
from tilewright.support.names import named
from tilewright.te import Tensor
from tilewright.topi.axes import INJECTIVE, Shape, check_one_of, compute_ax, constant_extent
from tilewright.topi.nn.pooling import spatial_axes
from tilewright.topi.quantize import saturated

Tap: TypeAlias = tuple[ir.PrimExpr, ir.PrimExpr | None]  # an index, and its weight unless that is 1


def _resize(n: int, usual_layout: str, meaning: str) -> Callable[..., Tensor]:
    what = f"resize{n}d"

    def resize(
        data: Tensor,
        roi: object,
        size: Shape,
        layout: str = usual_layout,
        method: str = "linear",
        coordinate_transformation_mode: str = "half_pixel",
        rounding_method: str = "",
        bicubic_alpha: float = -0.5,
        bicubic_exclude: int = 0,
        extrapolation_value: float = 0.0,
        out_dtype: str | None = None,
        output_shape: Shape | None = None,
    ) -> Tensor:
        options = _Options(
            coordinate_transformation_mode, rounding_method, bicubic_alpha, bool(bicubic_exclude)
        )
        return _Resize(what, data, size, layout, out_dtype).tensor(method, options)

    return named(resize, what, meaning)


resize1d = _resize(1, "NCW", "A signal at another `size`; see `resize2d`.")
resize3d = _resize(3, "NCDHW", "A volume at another `size` (depth, height, width); see `resize2d`.")
resize2d = _resize(
    2,
    "NCHW",
    """An image at another `size` (height, width).

    Output `i` of an axis lies at `x` in the input, where `scale` is input by output size:
    "half_pixel" `(i + 0.5) * scale - 0.5`; "pytorch_half_pixel" the same, but 0 for a size of 1;
    "asymmetric" `i * scale`; "align_corners" `i * (input - 1) / (output - 1)`;
    "tf_half_pixel_for_nn" `(i + 0.5) * scale`. Positions beyond the edge see the element at it.

    `method` is what is made of the elements around `x`. "nearest_neighbor" (or "nearest") takes
    one, chosen by `rounding_method`: "round" or "round_prefer_ceil" (a half up),
    "round_prefer_floor", "floor" or "ceil"; by default "floor" for "asymmetric" and
    "tf_half_pixel_for_nn", else "round". "linear" weighs the two around `x` by `1 - distance`.
    "cubic" weighs four by Keys' kernel with `bicubic_alpha` (PyTorch and ONNX have -0.75); with
    `bicubic_exclude` those outside weigh nothing.

    Weighing is done in float32 at least (float64 for float64 and 32-bit integers). Integer results
    are rounded and limited to their type. `roi` and `extrapolation_value` belong to a mode that is
    not supported, "tf_crop_and_resize"; `output_shape` is always inferred.
    """,
)


@dataclass(frozen=True)
class _Options:
    mode: str
    rounding: str
    alpha: float
    exclude: bool


@dataclass(frozen=True)
class _Position:
    """The place `(step * i + start) / unit` in an axis of `extent` elements, for output `i`."""

    step: int
    start: int
    unit: int
    extent: int
    outputs: int

    def scaled(self, i: ir.PrimExpr) -> ir.PrimExpr:
        """`unit` times the place."""
        most = abs(self.step) * self.outputs + abs(self.start) + self.unit
        kind = "int64" if 2 * most >= 2**31 else "int32"
        return i.astype(kind) * self.step + self.start

    def parts(self, i: ir.PrimExpr, dtype: ir.DType) -> tuple[ir.PrimExpr, ir.PrimExpr]:
        """The index below the place, and how far beyond it the place is."""
        scaled = self.scaled(i)
        fraction = (scaled % self.unit).astype(dtype) * ir.const(1 / self.unit, dtype)
        return scaled // self.unit, fraction

    def clipped(self, index: ir.PrimExpr) -> ir.PrimExpr:
        return ir.minimum(
            ir.maximum(index, ir.const(0, index.dtype)), ir.const(self.extent - 1, index.dtype)
        )


# Positions as (step, start, unit), for the sizes of input and output.
_MODES: dict[str, Callable[[int, int], tuple[int, int, int]]] = {
    "half_pixel": lambda n, m: (2 * n, n - m, 2 * m),
    "pytorch_half_pixel": lambda n, m: (2 * n, n - m, 2 * m) if m > 1 else (0, 0, 1),
    "asymmetric": lambda n, m: (n, 0, m),
    "align_corners": lambda n, m: (n - 1, 0, m - 1) if m > 1 else (0, 0, 1),
    "tf_half_pixel_for_nn": lambda n, m: (2 * n, n, 2 * m),
}
# The nearest index as a floor division: of `x`, with the unit `u`.
_ROUNDINGS: dict[str, Callable[[ir.PrimExpr, int], ir.PrimExpr]] = {
    "round": lambda x, u: (x * 2 + u) // (2 * u),
    "round_prefer_floor": lambda x, u: -((-(x * 2) + u) // (2 * u)),
    "round_prefer_ceil": lambda x, u: (x * 2 + u) // (2 * u),
    "floor": lambda x, u: x // u,
    "ceil": lambda x, u: -((-x) // u),
}
_FLOORED_MODES = ("asymmetric", "tf_half_pixel_for_nn")


def _nearest(place: _Position, options: _Options, i: ir.PrimExpr, dtype: ir.DType) -> list[Tap]:
    rounding = options.rounding or ("floor" if options.mode in _FLOORED_MODES else "round")
    index = _ROUNDINGS[rounding](place.scaled(i), place.unit)
    return [(place.clipped(index), None)]


def _linear(place: _Position, options: _Options, i: ir.PrimExpr, dtype: ir.DType) -> list[Tap]:
    first, fraction = place.parts(i, dtype)
    if place.unit == 1:
        return [(place.clipped(first), None)]
    one = ir.const(1.0, dtype)
    return [(place.clipped(first), one - fraction), (place.clipped(first + 1), fraction)]


def _cubic(place: _Position, options: _Options, i: ir.PrimExpr, dtype: ir.DType) -> list[Tap]:
    first, fraction = place.parts(i, dtype)
    if place.unit == 1:
        return [(place.clipped(first), None)]
    indices = [first + offset for offset in (-1, 0, 1, 2)]
    weights = _cubic_weights(fraction, options.alpha)
    if options.exclude:
        weights = _without_outside(indices, weights, place.extent)
    return [(place.clipped(at), weight) for at, weight in zip(indices, weights, strict=True)]


def _cubic_weights(t: ir.PrimExpr, alpha: float) -> list[ir.PrimExpr]:
    """Keys' kernel at the distances 1 + t, t, 1 - t and 2 - t."""

    def polynomial(x: ir.PrimExpr, *coefficients: float) -> ir.PrimExpr:
        total = ir.const(coefficients[0], x.dtype)
        for coefficient in coefficients[1:]:
            total = total * x + ir.const(coefficient, x.dtype)
        return total

    def near(x: ir.PrimExpr) -> ir.PrimExpr:
        return polynomial(x, alpha + 2, -(alpha + 3), 0.0, 1.0)

    def far(x: ir.PrimExpr) -> ir.PrimExpr:
        return polynomial(x, alpha, -5 * alpha, 8 * alpha, -4 * alpha)

    one, two = ir.const(1.0, t.dtype), ir.const(2.0, t.dtype)
    return [far(one + t), near(t), near(one - t), far(two - t)]


def _without_outside(
    indices: Sequence[ir.PrimExpr], weights: Sequence[ir.PrimExpr], extent: int
) -> list[ir.PrimExpr]:
    """Weights only for what is inside, which still sum up to 1."""
    inside = [
        ir.Select(ir.logical_and(at >= 0, at < extent), weight, ir.const(0.0, weight.dtype))
        for at, weight in zip(indices, weights, strict=True)
    ]
    total = inside[0] + inside[1] + inside[2] + inside[3]
    return [weight / total for weight in inside]


_METHODS = {"nearest_neighbor": _nearest, "nearest": _nearest, "linear": _linear, "cubic": _cubic}


class _Resize:
    """One call of a resize operator: which axes change, and to what."""

    def __init__(
        self, what: str, data: Tensor, size: Shape, layout: str, out_dtype: str | None
    ) -> None:
        self._what = what
        self._data = data
        count = int(what[-2])
        self._axes = spatial_axes(layout, data.ndim, what)
        if len(self._axes) != count or not layout.isupper():
            raise TensorExpressionError(
                f"{what}: layout {layout!r} must have {count} of the axes D, H and W, "
                "and no blocks of channels"
            )
        self._sizes = [constant_extent(extent, what) for extent in size]
        if len(self._sizes) != count or min(self._sizes) < 1:
            raise TensorExpressionError(
                f"{what}: size must be {count} positive numbers, got {self._sizes}"
            )
        self._dtype = ir.DType(out_dtype or data.dtype)

    def tensor(self, method: str, options: _Options) -> Tensor:
        check_one_of(method, _METHODS, "method", self._what)
        check_one_of(options.mode, _MODES, "coordinate_transformation_mode", self._what)
        if options.rounding:
            check_one_of(options.rounding, _ROUNDINGS, "rounding_method", self._what)
        places = [self._position(options.mode, k) for k in range(len(self._axes))]
        taps_of = _METHODS[method]
        kind = self._data.dtype if taps_of is _nearest else self._weighing_dtype(method)

        def element(*i: ir.Var) -> ir.PrimExpr:
            taps = [
                taps_of(place, options, i[axis], kind)
                for axis, place in zip(self._axes, places, strict=True)
            ]
            return self._finished(self._blend(list(i), taps, kind))

        shape = list(self._data.shape)
        for axis, extent in zip(self._axes, self._sizes, strict=True):
            shape[axis] = ir.const(extent, shape[axis].dtype)
        return compute_ax(shape, element, f"T_{self._what}", INJECTIVE)

    def _position(self, mode: str, k: int) -> _Position:
        extent = constant_extent(self._data.shape[self._axes[k]], self._what)
        if extent == 0:
            raise TensorExpressionError(
                f"{self._what}: {self._data.name} has no elements along axis {self._axes[k]}"
            )
        step, start, unit = _MODES[mode](extent, self._sizes[k])
        common = math.gcd(step, start, unit)
        return _Position(step // common, start // common, unit // common, extent, self._sizes[k])

    def _weighing_dtype(self, method: str) -> ir.DType:
        kinds = (self._data.dtype, self._dtype)
        for kind in kinds:
            if not kind.is_float and (kind.bits > 32 or not kind.is_integral):
                raise TensorExpressionError(
                    f"{self._what}: method {method!r} cannot weigh {kind!s}; use a float type"
                )
        wide = any(kind.bits == 64 or (kind.bits == 32 and not kind.is_float) for kind in kinds)
        return ir.DType("float64" if wide else "float32")

    def _blend(
        self, i: list[ir.ExprLike], taps: Sequence[list[Tap]], kind: ir.DType
    ) -> ir.PrimExpr:
        """The weighted sum over the taps of all axes, the last axis innermost."""
        if not taps:
            return self._data(*i).astype(kind)
        axis = self._axes[-len(taps)]
        total: ir.PrimExpr | None = None
        for index, weight in taps[0]:
            part = self._blend([*i[:axis], index, *i[axis + 1 :]], taps[1:], kind)
            part = part if weight is None else part * weight
            total = part if total is None else total + part
        assert total is not None
        return total

    def _finished(self, value: ir.PrimExpr) -> ir.PrimExpr:
        """The value in the type of the result."""
        if value.dtype.is_float and self._dtype.is_integral:
            return saturated(round_expr(value), self._dtype)
        return value.astype(self._dtype)
