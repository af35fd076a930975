"""Windows of a convolution: which element of an image each (row, depth) of a product reads.

With `row = (n * P + p) * Q + q` and `depth = (r * S + s) * C + c` that is
`X[n, p * stride + r * dilation - pad, q * stride + s * dilation - pad, c]`. The numbers are found
by evaluating the indices at a few points, then proven.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from tilewright import ir
from tilewright.arith import Analyzer
from tilewright.arith.numpy_eval import Values, evaluate_on_arrays
from tilewright.errors import ArithError, LowerError
from tilewright.lowering.gpu.tile_kernels.tile_form import TileAxis, refused

_MOST_STRIDE = 8
_FARTHEST = 128  # pixels from a corner of the image
_AXES = ir.Var("row", ir.DType("int32")), ir.Var("depth", ir.DType("int32"))


@dataclass(frozen=True)
class WindowAxis:
    """How windows move along the height or the width of the image."""

    outputs: int
    taps: int
    stride: int
    dilation: int
    pad: int

    def index(self, output: ir.PrimExpr, tap: ir.PrimExpr) -> ir.PrimExpr:
        """The coordinate in the image."""
        return output * self.stride + tap * self.dilation - self.pad

    def upper(self, extent: int) -> int:
        """The upper corner of the box of positions, counted from the last of the image."""
        last = (self.outputs - 1) * self.stride - self.pad
        return last - (extent - 1)


@dataclass(frozen=True)
class Windows:
    """The windows of a two-dimensional convolution."""

    shape: tuple[int, int, int, int]  # of the image: n, height, width, channels
    height: WindowAxis
    width: WindowAxis

    def position(self, row: ir.PrimExpr) -> tuple[ir.PrimExpr, ir.PrimExpr, ir.PrimExpr]:
        """Width, height and image of the upper left corner of a window."""
        pixels, zero = self.height.outputs * self.width.outputs, ir.const(0)
        p = ir.floordiv(ir.floormod(row, pixels), self.width.outputs)
        q = ir.floormod(row, self.width.outputs)
        return self.width.index(q, zero), self.height.index(p, zero), ir.floordiv(row, pixels)

    def tap(self, depth: ir.PrimExpr) -> tuple[ir.PrimExpr, ir.PrimExpr, ir.PrimExpr]:
        """The first channel, and the offsets of a tap in width and height."""
        channels = self.shape[3]
        number = ir.floordiv(depth, channels)
        s, r = ir.floormod(number, self.width.taps), ir.floordiv(number, self.width.taps)
        return ir.floormod(depth, channels), s * self.width.dilation, r * self.height.dilation

    def indices(self, row: ir.PrimExpr, depth: ir.PrimExpr) -> Sequence[ir.PrimExpr]:
        """The element that is read."""
        w, h, n = self.position(row)
        c, s, r = self.tap(depth)
        return n, h + r, w + s, c


def read_windows(
    load: ir.BufferLoad, guard: ir.PrimExpr | None, row: TileAxis, depth: TileAxis
) -> Windows:
    """The windows that bulk copies can gather for a copy."""
    windows = find_windows(load, guard, row, depth)
    if windows.shape[3] % depth.extent:
        raise refused(
            f"{windows.shape[3]} channels of {load.buffer.name} are not a multiple of the "
            f"{depth.extent} of a tile"
        )
    _check_limits(windows, load)
    return windows


def find_windows(
    load: ir.BufferLoad, guard: ir.PrimExpr | None, row: TileAxis, depth: TileAxis
) -> Windows:
    """The windows that a copy gathers; refused if it gathers something else."""
    shape = [ir.constant_value(extent) for extent in load.buffer.shape]
    if len(shape) != 4 or load.buffer.strides or not all(isinstance(n, int) for n in shape):
        raise refused(f"`{load}` is neither a plain tile nor the windows of a convolution")
    n, height, width, c = (int(extent or 0) for extent in shape)
    if depth.size % c or row.size % n:
        raise refused(f"`{load}` is not the windows of a convolution")
    at = _evaluator(load, row, depth)
    windows = _guessed(at, (n, height, width, c), row.size // n, depth.size // c)
    _prove(windows, load, guard, (row, depth))
    return windows


def _check_limits(windows: Windows, load: ir.BufferLoad) -> None:
    """Refuse windows that the hardware's numbers are too small for."""
    for axis, extent in ((windows.height, windows.shape[1]), (windows.width, windows.shape[2])):
        if not 1 <= axis.stride <= _MOST_STRIDE:
            raise refused(
                f"windows of {load.buffer.name} move by {axis.stride}, expected 1 to {_MOST_STRIDE}"
            )
        reach = (axis.taps - 1) * axis.dilation
        if max(axis.pad, -axis.upper(extent)) > _FARTHEST or reach >= 2 * _FARTHEST:
            raise refused(
                f"windows of {load.buffer.name} reach too far: their corners are "
                f"{axis.pad} outside, they are {reach + 1} wide; {_FARTHEST} and "
                f"{2 * _FARTHEST} at most"
            )


def _evaluator(
    load: ir.BufferLoad, row: TileAxis, depth: TileAxis
) -> Callable[[npt.ArrayLike, npt.ArrayLike, int], Values]:
    """The index of an axis that is read at rows and depths."""

    def at(i: npt.ArrayLike, k: npt.ArrayLike, axis: int) -> Values:
        values = {row.var: np.asarray(i), depth.var: np.asarray(k)}
        try:
            return evaluate_on_arrays(load.indices[axis], values)
        except ArithError:
            raise refused(f"`{load}` depends on more than the tile") from None

    return at


def _guessed(
    at: Callable[[npt.ArrayLike, npt.ArrayLike, int], Values],
    shape: tuple[int, int, int, int],
    pixels: int,
    taps: int,
) -> Windows:
    """Windows that agree with some points."""
    channels, start = shape[3], [int(at(0, 0, axis)) for axis in range(len(shape))]
    columns = _constant_part(at(np.arange(pixels), 0, 1), pixels)
    across = _constant_part(at(0, np.arange(taps) * channels, 1), taps)

    def step(axis: int, i: int, k: int, is_there: bool) -> int:
        return int(at(i, k, axis)) - start[axis] if is_there else 1

    rows, down = pixels // columns, taps // across
    width = WindowAxis(
        columns,
        across,
        step(2, 1, 0, columns > 1),
        step(2, 0, channels, across > 1),
        -start[2],
    )
    height = WindowAxis(
        rows,
        down,
        step(1, columns, 0, rows > 1),
        step(1, 0, across * channels, down > 1),
        -start[1],
    )
    return Windows(shape, height, width)


def _constant_part(values: Values, count: int) -> int:
    """How many of `count` values are the first one, before another comes."""
    others = np.flatnonzero(values != np.ravel(values)[0])
    return int(others[0]) if others.size else count


@dataclass(frozen=True)
class _Claim:
    """That a copy reads windows; claims about copies of the same text are equal."""

    windows: Windows
    sizes: tuple[int, int]
    text: str
    load: ir.BufferLoad = field(compare=False)
    guard: ir.PrimExpr | None = field(compare=False)


def _prove(
    windows: Windows,
    load: ir.BufferLoad,
    guard: ir.PrimExpr | None,
    axes: tuple[TileAxis, TileAxis],
) -> None:
    """Refuse windows that differ from what is read.

    Proofs are remembered: all candidates of a sketch read the same windows.
    """
    own = axes[0].var, axes[1].var
    common = dict(zip(own, _AXES, strict=True))
    same = ir.substitute(load, common)
    condition = None if guard is None else ir.substitute(guard, common)
    sizes = axes[0].size, axes[1].size
    if not _is_proven(_Claim(windows, sizes, f"{same} if {condition}", same, condition)):
        _check(_Claim(windows, sizes, "", load, guard), own)  # says why, with the names there are


@lru_cache(maxsize=256)
def _is_proven(claim: _Claim) -> bool:
    try:
        _check(claim, _AXES)
    except LowerError:
        return False
    return True


def _check(claim: _Claim, axes: tuple[ir.Var, ir.Var]) -> None:
    load, analyzer = claim.load, Analyzer()
    for var, size in zip(axes, claim.sizes, strict=True):
        analyzer.bind(var, ir.Range(ir.const(0), ir.const(size)))
    for index, wanted in zip(load.indices, claim.windows.indices(*axes), strict=True):
        if not analyzer.can_prove_equal(index, wanted):
            raise refused(f"`{index}` of {load.buffer.name} is not that of a window: `{wanted}`")
    check_guard(analyzer, load, claim.guard)


def check_guard(analyzer: Analyzer, load: ir.BufferLoad, guard: ir.PrimExpr | None) -> None:
    """Zeros are read exactly where an index is outside: that is what the hardware does."""
    conditions = [] if guard is None else list(ir.conjuncts(guard))
    needed: list[ir.PrimExpr] = []
    for index, extent in zip(load.indices, load.buffer.shape, strict=True):
        bound = analyzer.const_int_bound(index)
        if bound.min_value < 0:
            needed.append(ir.GE(index, ir.const(0, index.dtype)))
        if not analyzer.can_prove(index < extent):
            needed.append(ir.LT(index, extent))
    for condition in conditions:
        needed = [each for each in needed if not _same(analyzer, each, condition)]
    if needed:
        raise refused(f"`{load}` is read outside of {load.buffer.name}")
    if not all(_is_bound(analyzer, load, condition) for condition in conditions):
        raise refused(f"`{guard}` is more than the bounds of {load.buffer.name}")


def _is_bound(analyzer: Analyzer, load: ir.BufferLoad, condition: ir.PrimExpr) -> bool:
    bounds = [
        made
        for index, extent in zip(load.indices, load.buffer.shape, strict=True)
        for made in (ir.GE(index, ir.const(0, index.dtype)), ir.LT(index, extent))
    ]
    return any(_same(analyzer, bound, condition) for bound in bounds)


def _same(analyzer: Analyzer, a: ir.PrimExpr, b: ir.PrimExpr) -> bool:
    """Whether two comparisons of integers say the same."""
    slacks = _slack(a), _slack(b)
    if slacks[0] is None or slacks[1] is None:
        return False
    return analyzer.can_prove_equal(slacks[0], slacks[1])


def _slack(condition: ir.PrimExpr) -> ir.PrimExpr | None:
    """What is not negative exactly where a comparison holds."""
    match condition:
        case ir.GE(a=a, b=b) | ir.LE(a=b, b=a):
            return a - b
        case ir.GT(a=a, b=b) | ir.LT(a=b, b=a):
            return a - b - 1
    return None
