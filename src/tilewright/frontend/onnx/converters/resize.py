"""Resize: which elements each element is made of is computed when the model is imported."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tilewright.errors import GraphError
from tilewright.frontend.onnx.context import NodeContext, converts
from tilewright.graph import GraphValue
from tilewright.graph.graph import Array


@dataclass(frozen=True)
class _Axis:
    """How one axis is resized."""

    extent: int
    output: int
    scale: float
    begin: float = 0.0  # of the part that is looked at, as a share
    end: float = 1.0


def _half_pixel(axis: _Axis, i: Array) -> Array:
    return (i + 0.5) / axis.scale - 0.5


def _symmetric(axis: _Axis, i: Array) -> Array:
    # The output is a whole number of elements; what that cuts off is taken from both ends.
    share = axis.output / (axis.scale * axis.extent)
    return axis.extent / 2 * (1 - share) + _half_pixel(axis, i)


def _align_corners(axis: _Axis, i: Array) -> Array:
    length = axis.scale * axis.extent
    return i * 0.0 if length == 1 else i * (axis.extent - 1) / (length - 1)


def _cropped(axis: _Axis, i: Array) -> Array:
    last = axis.extent - 1
    if axis.output == 1:
        return i * 0.0 + 0.5 * (axis.begin + axis.end) * last
    return axis.begin * last + i * (axis.end - axis.begin) * last / (axis.output - 1)


_COORDINATES: dict[str, Callable[[_Axis, Array], Array]] = {
    "half_pixel": _half_pixel,
    "half_pixel_symmetric": _symmetric,
    "pytorch_half_pixel": lambda axis, i: _half_pixel(axis, i) if axis.output > 1 else i * 0.0,
    "align_corners": _align_corners,
    "asymmetric": lambda axis, i: i / axis.scale,
    "tf_half_pixel_for_nn": lambda axis, i: (i + 0.5) / axis.scale,
    "tf_crop_and_resize": _cropped,
}
_NEAREST: dict[str, Callable[[Array], Array]] = {
    "round_prefer_floor": lambda x: np.ceil(x - 0.5),
    "round_prefer_ceil": lambda x: np.floor(x + 0.5),
    "floor": np.floor,
    "ceil": np.ceil,
}


def _triangle(distance: Array, _: float) -> Array:
    weights: Array = np.clip(1 - np.abs(distance), 0, None)
    return weights


def _cubic(distance: Array, a: float) -> Array:
    x = np.abs(distance)
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    weights: Array = np.where(x <= 1, near, np.where(x < 2, far, 0))
    return weights


_KERNELS = {"linear": (_triangle, 1), "cubic": (_cubic, 2)}


@dataclass(frozen=True)
class _Sampling:
    """The attributes of a node that decide about weights."""

    mode: str
    coordinates: str
    nearest: str
    a: float
    exclude_outside: bool
    antialias: bool

    def places(self, axis: _Axis) -> Array:
        """Where in the input each element of the output lies."""
        return _COORDINATES[self.coordinates](axis, np.arange(axis.output, dtype=np.float64))

    def taps(self, axis: _Axis) -> tuple[Array, Array]:
        """For each element of the output, elements of the input and their weights."""
        x = self.places(axis)
        if self.mode == "nearest":
            # Coordinates that should be whole or half are, whatever their last bit says.
            chosen = _NEAREST[self.nearest](np.round(x, 9))[:, None]
            return _inside(chosen, axis.extent), np.ones_like(chosen)
        kernel, reach = _KERNELS[self.mode]
        stretch = min(axis.scale, 1.0) if self.antialias else 1.0
        width = int(np.ceil(reach / stretch))
        first = np.floor(x)[:, None]
        indices = first + np.arange(1 - width, width + 1)
        weights = kernel((indices - x[:, None]) * stretch, self.a)
        if self.exclude_outside:
            weights = np.where((indices >= 0) & (indices < axis.extent), weights, 0)
        weights = weights / weights.sum(axis=1, keepdims=True)
        return _inside(indices, axis.extent), weights


def _inside(indices: Array, extent: int) -> Array:
    return np.clip(indices, 0, max(extent - 1, 0)).astype(np.int32)


@converts("Resize", since=11)
def _resize(node: NodeContext) -> GraphValue:
    sampling = _Sampling(
        node.attr("mode", "nearest"),
        node.attr("coordinate_transformation_mode", "half_pixel"),
        node.attr("nearest_mode", "round_prefer_floor"),
        float(node.attr("cubic_coeff_a", -0.75)),
        bool(node.attr("exclude_outside", 0)),
        bool(node.attr("antialias", 0)),
    )
    return _resized(node, sampling, _axes(node))


@converts("Resize", "Upsample")
def _resize_10(node: NodeContext) -> GraphValue:
    """Before version 11: by scales alone, asymmetric."""
    shape = node.shape(node[0])
    scales = node.attr("scales")
    if scales is None:
        scales = np.asarray(node.known(1)).tolist()
    axes = {
        n: _Axis(extent, _scaled(extent, scale), scale)
        for n, (extent, scale) in enumerate(zip(shape, scales, strict=True))
    }
    mode = node.attr("mode", "nearest")
    sampling = _Sampling(mode, "asymmetric", "floor", -0.75, False, False)
    return _resized(node, sampling, axes)


def _axes(node: NodeContext) -> dict[int, _Axis]:
    shape = node.shape(node[0])
    chosen = [n % len(shape) for n in node.attr("axes") or range(len(shape))]
    begins, ends = _region(node, len(chosen))
    scales, sizes = _numbers(node, 2), _numbers(node, 3)
    if not scales and not sizes:
        raise GraphError("neither scales nor sizes are given")
    axes = {}
    for n, axis in enumerate(chosen):
        extent = shape[axis]
        if scales:
            scale, output = scales[n], _scaled(extent, scales[n])
        else:
            scale = _fitted(node, [shape[a] for a in chosen], sizes, n)
            output = int(np.floor(extent * scale + 0.5))
        axes[axis] = _Axis(extent, output, scale, begins[n], ends[n])
    return axes


def _region(node: NodeContext, count: int) -> tuple[list[float], list[float]]:
    """Begins and ends of the part that is looked at, which one mode asks for."""
    if node.attr("coordinate_transformation_mode") != "tf_crop_and_resize":
        return [0.0] * count, [1.0] * count
    roi = _numbers(node, 1)
    return roi[:count], roi[count:]


def _scaled(extent: int, scale: float) -> int:
    # Rounded as scales are: five thirds of three are five.
    return int(np.floor(np.float32(extent) * np.float32(scale)))


def _fitted(node: NodeContext, extents: Sequence[int], sizes: Sequence[float], n: int) -> float:
    """The scale of an axis, or one for all that keeps the aspect ratio."""
    ratios = [size / extent for size, extent in zip(sizes, extents, strict=True)]
    policy = node.attr("keep_aspect_ratio_policy", "stretch")
    return {"stretch": ratios[n], "not_larger": min(ratios), "not_smaller": max(ratios)}[policy]


def _numbers(node: NodeContext, position: int) -> list[float]:
    value = node.optional(position)
    if value is None or value.type.size == 0:
        return []
    return [float(n) for n in np.asarray(node.known(position)).reshape(-1)]


def _resized(node: NodeContext, sampling: _Sampling, axes: dict[int, _Axis]) -> GraphValue:
    x = node[0]
    dtype = x.type.dtype
    if sampling.mode not in ("nearest", *_KERNELS):
        raise GraphError(f"mode {sampling.mode} is not supported")
    is_exact = dtype.startswith("float") or sampling.mode == "nearest"
    result = x if is_exact else node.call("cast", x, dtype="float32")
    for number, axis in axes.items():
        indices, weights = sampling.taps(axis)
        if _is_same(indices, weights, axis.extent):
            continue
        result = _along(node, result, number, indices, weights)
    if sampling.coordinates == "tf_crop_and_resize":
        result = _with_border(node, result, sampling, axes)
    if not is_exact:
        result = node.call("cast", result, dtype=dtype)
    return node.call("identity", result) if result is x else result


def _is_same(indices: Array, weights: Array, extent: int) -> bool:
    """True if every element is that at its place."""
    if len(indices) != extent:
        return False
    matrix = np.zeros((extent, extent))
    np.add.at(matrix, (np.arange(extent)[:, None], indices), weights)
    return bool(np.allclose(matrix, np.eye(extent), atol=1e-12))


def _along(
    node: NodeContext, x: GraphValue, axis: int, indices: Array, weights: Array
) -> GraphValue:
    if indices.shape[1] == 1:
        return node.call("take", x, node.constant(indices[:, 0], "int32"), axis=axis)
    taps = node.constant(indices, "int32"), node.constant(weights, x.type.dtype)
    return node.call("resample", x, *taps, axis=axis)


def _with_border(
    node: NodeContext, x: GraphValue, sampling: _Sampling, axes: dict[int, _Axis]
) -> GraphValue:
    """What lies outside of the input gets a value of its own."""
    rank = len(x.type.shape)
    inside = np.ones([1] * rank, np.bool_)
    for number, axis in axes.items():
        places = sampling.places(axis)
        own = (places >= 0) & (places <= axis.extent - 1)
        inside = inside & own.reshape([-1 if n == number else 1 for n in range(rank)])
    if inside.all():
        return x
    outside = node.constant(node.attr("extrapolation_value", 0.0), x.type.dtype)
    return node.call("where", node.constant(inside, "bool"), x, outside)
