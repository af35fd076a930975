"""Resizing: which elements each element is made of is computed when the model is imported."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tilewright.frontend.torch.context import CallContext, converts
from tilewright.graph import GraphValue
from tilewright.graph.graph import Array

_NEAREST = [f"upsample_nearest{n}d" for n in (1, 2, 3)]
_NEAREST_EXACT = [f"_upsample_nearest_exact{n}d" for n in (1, 2, 3)]
_WEIGHTED = ["upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d"]
_CUBIC = ["upsample_bicubic2d"]
RESIZES = (*_NEAREST, *_NEAREST_EXACT, *_WEIGHTED, *_CUBIC)


@dataclass(frozen=True)
class _ResizedAxis:
    extent: int
    output: int
    step: np.float32  # between elements of the result, in elements of the input

    @property
    def count(self) -> Array:
        return np.arange(self.output, dtype=np.float32)


def _resized_axes(node: CallContext) -> dict[int, _ResizedAxis]:
    value = node.value("input" if "input" in node.args else "self")
    shape, wanted = node.shape(value), node["result_shape"]
    scales = _scales(node, len(shape) - 2)
    is_aligned = bool(node.args.get("align_corners"))
    axes = {}
    for n in range(2, len(shape)):
        extent, output, scale = shape[n], wanted[n], scales[n - 2]
        if is_aligned:
            step = (extent - 1) / (output - 1) if output > 1 else 0.0
        else:
            step = 1 / scale if scale else extent / output
        axes[n] = _ResizedAxis(extent, output, np.float32(step))
    return axes


def _scales(node: CallContext, rank: int) -> list[float | None]:
    """Scales that were given; without them sizes tell."""
    args = node.args
    if args.get("scale_factors"):
        return [float(scale) for scale in args["scale_factors"]]
    names = ["scales"] if rank == 1 else [f"scales_{axis}" for axis in "dhw"[-rank:]]
    return [args.get(name) for name in names]


@converts(*_NEAREST, *_NEAREST_EXACT)
def _nearest(node: CallContext) -> GraphValue:
    half = 0.5 if node.op.startswith("_") else 0.0
    result = node.value("input" if "input" in node.args else "self")
    for n, axis in _resized_axes(node).items():
        places = np.floor((axis.count + np.float32(half)) * axis.step)
        chosen = np.minimum(places, axis.extent - 1).astype(np.int32)
        if chosen.tolist() != [*range(axis.extent)]:
            result = node.call("take", result, node.constant(chosen, "int32"), axis=n)
    return result


@converts(*_WEIGHTED, *_CUBIC)
def _weighted(node: CallContext) -> GraphValue:
    is_cubic = "cubic" in node.op
    is_aligned = bool(node.args.get("align_corners"))
    result = node.value("input" if "input" in node.args else "self")
    for n, axis in _resized_axes(node).items():
        x = axis.count * axis.step
        if not is_aligned:
            half = np.float32(0.5)
            x = (axis.count + half) * axis.step - half
        if not is_cubic:
            x = np.maximum(x, 0)
        if axis.output == axis.extent and np.array_equal(x, axis.count):
            continue
        places, weights = _cubic_taps(x) if is_cubic else _linear_taps(x)
        places = np.clip(places, 0, axis.extent - 1)
        taps = node.constant(places, "int32"), node.constant(weights, result.type.dtype)
        result = node.call("resample", result, *taps, axis=n)
    return result


def _linear_taps(x: Array) -> tuple[Array, Array]:
    first = np.floor(x)
    share = x - first
    return np.stack([first, first + 1], 1), np.stack([1 - share, share], 1)


def _cubic_taps(x: Array, a: float = -0.75) -> tuple[Array, Array]:
    first = np.floor(x)
    places = first[:, None] + np.arange(-1, 3)
    distance = np.abs(x[:, None] - places)
    near = ((a + 2) * distance - (a + 3)) * distance**2 + 1
    far = ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a
    return places, np.where(distance <= 1, near, far)
