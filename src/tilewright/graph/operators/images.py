"""Operators that read images at places that are computed."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import TypeAlias

from tilewright import ir, te
from tilewright.graph.operator import operator
from tilewright.ir.intrinsics import if_then_else
from tilewright.te import Tensor
from tilewright.topi.axes import constant_extent

Read: TypeAlias = "Callable[[Sequence[ir.PrimExpr]], ir.PrimExpr]"
_CUBIC = -0.75  # the coefficient that all frameworks use here


def _inside(places: Sequence[ir.PrimExpr], extents: Sequence[ir.PrimExpr]) -> ir.PrimExpr:
    bounds = zip(places, extents, strict=True)
    return ir.logical_and(*(c for place, extent in bounds for c in (place >= 0, place < extent)))


def _limited(place: ir.PrimExpr, extent: ir.PrimExpr) -> ir.PrimExpr:
    return ir.maximum(ir.minimum(place, extent - 1), ir.const(0, place.dtype))


def _reflected(x: ir.PrimExpr, low: ir.PrimExpr, high: ir.PrimExpr) -> ir.PrimExpr:
    """A coordinate thrown back between two borders."""
    span = high - low
    period = span * 2
    away = te.abs(x - low)
    rest = away - te.floor(away / period) * period
    return low + ir.Select(rest > span, period - rest, rest)


def _border(extent: ir.PrimExpr, align_corners: bool, dtype: str) -> tuple[ir.PrimExpr, ...]:
    """The least and the greatest coordinate of an axis."""
    last = ir.cast(dtype, extent) - ir.const(1, dtype)
    half = ir.const(0 if align_corners else 0.5, dtype)
    return ir.const(0, dtype) - half, last + half


@operator("image.grid_places")
def grid_places(
    grid: Tensor, extents: Sequence[int], padding_mode: str, align_corners: bool
) -> Tensor:
    """Coordinates from -1 to 1, last axis first, as places in an image, kept inside if asked to."""
    rank, dtype = len(extents), grid.dtype

    def element(*i: ir.Var) -> ir.ExprLike:
        # The axes of the image are chosen by a constant each, as they differ in extent.
        places = [place(d, i[:-1]) for d in range(rank)]
        result = places[-1]
        for d in reversed(range(rank - 1)):
            result = ir.Select(i[-1].equal(d), places[d], result)
        return result

    def place(d: int, lead: Sequence[ir.Var]) -> ir.PrimExpr:
        share = grid(*lead, rank - 1 - d)
        extent = ir.const(extents[d], dtype)
        one, two = ir.const(1, dtype), ir.const(2, dtype)
        if align_corners:
            x = (share + one) / two * (extent - one)
        else:
            x = ((share + one) * extent - one) / two
        if padding_mode == "border":
            return ir.maximum(ir.minimum(x, extent - one), ir.const(0, dtype))
        if padding_mode == "reflection":
            low, high = _border(ir.const(extents[d]), align_corners, dtype)
            is_inside = ir.logical_and(x >= low, x <= high)
            return ir.Select(is_inside, x, _reflected(x, low, high))
        return x

    return te.compute(grid.shape, element, "T_grid_places")


@operator("image.grid_sample")
def grid_sample(
    x: Tensor, places: Tensor, mode: str, padding_mode: str, align_corners: bool
) -> Tensor:
    """Elements of an image at places, from one neighbour, or from several by their distance."""
    rank = x.ndim - 2
    dtype = x.dtype

    def read(lead: Sequence[ir.Var], at: Sequence[ir.PrimExpr]) -> ir.PrimExpr:
        extents = x.shape[2:]
        if padding_mode == "reflection":
            at = [
                ir.cast("int32", _reflected(ir.cast(dtype, p), *_border(e, align_corners, dtype)))
                for p, e in zip(at, extents, strict=True)
            ]
        kept = [_limited(place, extent) for place, extent in zip(at, extents, strict=True)]
        value = x(*lead, *kept)
        if padding_mode != "zeros":
            return value
        return ir.Select(_inside(at, extents), value, ir.const(0, dtype))

    def element(n: ir.Var, c: ir.Var, *at: ir.Var) -> ir.ExprLike:
        own = [places(n, *at, d) for d in range(rank)]
        if mode == "nearest":
            return read((n, c), [ir.cast("int32", te.nearbyint(place)) for place in own])
        return _weighted(own, 1 if mode == "linear" else 2, lambda p: read((n, c), p))

    shape = [*x.shape[:2], *places.shape[1:-1]]
    return te.compute(shape, element, "T_grid_sample")


def _weighted(places: Sequence[ir.PrimExpr], reach: int, read: Read) -> ir.PrimExpr:
    """The sum of the neighbours of a place, by their weights along each axis."""
    dtype = places[0].dtype
    axes = []
    for place in places:
        first = te.floor(place)
        taps = []
        for step in range(1 - reach, reach + 1):
            distance = te.abs(place - (first + ir.const(step, dtype)))
            weight = _triangle(distance) if reach == 1 else _cubic(distance)
            taps.append((ir.cast("int32", first) + step, weight))
        axes.append(taps)
    total = ir.const(0, dtype)
    for corner in itertools.product(*axes):
        factor = ir.const(1, dtype)
        for _, weight in corner:
            factor = factor * weight
        total = total + factor * read([place for place, _ in corner])
    return total


def _triangle(distance: ir.PrimExpr) -> ir.PrimExpr:
    return ir.const(1, distance.dtype) - distance


def _cubic(x: ir.PrimExpr) -> ir.PrimExpr:
    a = _CUBIC
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return ir.Select(x <= 1, near, far)


def bilinear(x: Tensor, lead: Sequence[ir.ExprLike], places: Sequence[ir.PrimExpr]) -> ir.PrimExpr:
    """An element between others; what lies outside is 0."""

    def read(at: Sequence[ir.PrimExpr]) -> ir.PrimExpr:
        value = x(*lead, *at)
        return if_then_else(_inside(at, x.shape[2:]), value, ir.const(0, x.dtype))

    return _weighted(places, 1, read)


@operator("image.deform_conv")
def deform_conv(
    x: Tensor,
    weight: Tensor,
    offset: Tensor,
    mask: Tensor | None = None,
    *,
    window: Sequence[Sequence[int]],
    groups: int = 1,
    offset_groups: int = 1,
) -> Tensor:
    """A convolution whose windows read at places that are moved by offsets.

    `window` are strides, dilation, and padding before each axis.
    """
    strides, dilation, padding = window
    outputs, _, rows, columns = (constant_extent(n, "deform_conv") for n in weight.shape)
    channels, taps = constant_extent(x.shape[1], "deform_conv"), rows * columns
    height, width = offset.shape[2], offset.shape[3]

    def moved(n: ir.Var, c: ir.Var, kh: ir.Var, kw: ir.Var, y: ir.Var, z: ir.Var) -> ir.ExprLike:
        tap = c // (channels // offset_groups) * taps + kh * columns + kw
        places = [
            ir.cast(x.dtype, at * strides[d] - padding[d] + k * dilation[d])
            + offset(n, tap * 2 + d, y, z)
            for d, (at, k) in enumerate(((y, kh), (z, kw)))
        ]
        value = bilinear(x, (n, c), places)
        return value if mask is None else value * mask(n, tap, y, z)

    shape = (x.shape[0], x.shape[1], rows, columns, height, width)
    sampled = te.compute(shape, moved, "T_deformed")
    depth, per_group = channels // groups, outputs // groups
    c, kh, kw = (te.reduce_axis((0, n), f"r{n}") for n in (depth, rows, columns))

    def element(n: ir.Var, o: ir.Var, y: ir.Var, z: ir.Var) -> ir.ExprLike:
        own = o // per_group * depth + c.var
        value = sampled(n, own, kh.var, kw.var, y, z)
        return te.sum(value * weight(o, c.var, kh.var, kw.var), axis=[c, kh, kw])

    return te.compute((x.shape[0], weight.shape[0], height, width), element, "T_deform_conv")


@operator("image.roi_align")
def roi_align(
    x: Tensor,
    boxes: Tensor,
    batches: Tensor,
    size: Sequence[int],
    scale: float,
    samples: int,
    half_pixel: bool,
    mode: str,
) -> Tensor:
    """Parts of images, given by boxes, on a grid of one size: averages or maxima of samples."""
    dtype = x.dtype

    def start_and_bin(r: ir.Var, d: int) -> tuple[ir.PrimExpr, ir.PrimExpr]:
        shift = ir.const(0.5 if half_pixel else 0, dtype)
        low, high = (boxes(r, n) * ir.const(scale, dtype) - shift for n in (1 - d, 3 - d))
        span = high - low
        if not half_pixel:
            span = ir.maximum(span, ir.const(1, dtype))
        return low, span / ir.const(size[d], dtype)

    taps = [te.reduce_axis((0, samples), f"s{d}") for d in range(2)]

    def element(r: ir.Var, c: ir.Var, *at: ir.Var) -> ir.ExprLike:
        places = []
        for d in range(2):
            start, step = start_and_bin(r, d)
            within = (ir.cast(dtype, taps[d].var) + ir.const(0.5, dtype)) / ir.const(samples, dtype)
            places.append(start + (ir.cast(dtype, at[d]) + within) * step)
        lead = (ir.cast("int32", batches(r)), c)
        parts = _corners(x, lead, places)
        if mode == "max":
            value = parts[0]
            for part in parts[1:]:
                value = ir.maximum(value, part)
            return te.max(value, axis=taps)
        total = parts[0] + parts[1] + parts[2] + parts[3]
        return te.sum(total / ir.const(samples * samples, dtype), axis=taps)

    shape = (boxes.shape[0], x.shape[1], *map(ir.const, size))
    return te.compute(shape, element, "T_roi_align")


def _corners(
    x: Tensor, lead: Sequence[ir.ExprLike], places: Sequence[ir.PrimExpr]
) -> list[ir.PrimExpr]:
    """The neighbours of a place by their weights; 0 more than one element outside."""
    dtype = x.dtype
    axes, bounds = [], []
    for place, extent in zip(places, x.shape[2:], strict=True):
        bounds += [place >= ir.const(-1, dtype), place <= ir.cast(dtype, extent)]
        last = ir.cast(dtype, extent) - ir.const(1, dtype)
        kept = ir.minimum(ir.maximum(place, ir.const(0, dtype)), last)
        low = ir.cast("int32", te.floor(kept))
        share = kept - ir.cast(dtype, low)
        axes.append([(low, 1 - share), (ir.minimum(low + 1, extent - 1), share)])
    inside = ir.logical_and(*bounds)
    return [
        ir.Select(inside, wy * wx * x(*lead, y, z), ir.const(0, dtype))
        for (y, wy), (z, wx) in itertools.product(*axes)
    ]
