"""Running a planned loop nest over all points of its parallel loops at once (see `grid.py`)."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from tilewright.ir import For, PrimExpr
from tilewright.ir.numpy_bridge import to_numpy
from tilewright.testing.oracle.expressions import (
    UNDEFINED,
    Evaluator,
    ExpressionCompiler,
    Frame,
    Mask,
)
from tilewright.testing.oracle.grid import GridPlan
from tilewright.testing.oracle.memory import Memory, View

Runner: TypeAlias = Callable[[Frame, Mask], None]
_MAX_GRID = 1 << 20  # iterations computed at once; bounds the memory of temporaries
_MIN_GRID = 4  # below this, plain loops are as fast


class GridRunner:
    """Runs a planned nest over all points of its parallel loops at once."""

    def __init__(self, compiler: ExpressionCompiler, plan: GridPlan, body: Runner) -> None:
        self._parallel = [_Bounds(compiler, loop) for loop in plan.parallel]
        self._sequential = [_Bounds(compiler, loop) for loop in plan.sequential]
        self._body = body
        self._writes = [
            (compiler.resolver(buffer), compiler.indices(indices, _lanes_of(indices)))
            for buffer, indices in plan.writes
        ]
        self._others = [compiler.slot(data) for data in plan.other_data]

    def run(self, frame: Frame) -> bool:
        """False when the nest has to be run plainly; nothing was touched then."""
        parallel = [bounds.values(frame) for bounds in self._parallel]
        sequential = [bounds.values(frame) for bounds in self._sequential]
        if any(len(values) == 0 for values in parallel + sequential):
            return True
        outer, inner = _split_to_fit([len(values) for values in parallel])
        if inner < _MIN_GRID or self._overlaps(frame):
            return False
        slots = [bounds.slot for bounds in self._parallel]
        points = np.meshgrid(*parallel[outer:], indexing="ij")
        for slot, point in zip(slots[outer:], points, strict=True):
            frame[slot] = point.reshape(-1)
        stepped = slots[:outer] + [bounds.slot for bounds in self._sequential]
        first = True
        for values in itertools.product(*parallel[:outer], *sequential):
            for slot, value in zip(stepped, values, strict=True):
                frame[slot] = value
            if first and not self._writes_differ(frame, parallel, outer):
                return False
            first = False
            self._body(frame, None)
        for slot in slots + stepped:
            frame[slot] = UNDEFINED
        return True

    def _writes_differ(self, frame: Frame, parallel: list[Any], outer: int) -> bool:
        """True if every point writes to its own elements, over all of the parallel loops."""
        slots = [bounds.slot for bounds in self._parallel]
        saved = [frame[slot] for slot in slots]
        if outer:
            for slot, point in zip(slots, np.meshgrid(*parallel, indexing="ij"), strict=True):
                frame[slot] = point.reshape(-1)
        different = all(self._is_injective(frame, *write) for write in self._writes)
        for slot, value in zip(slots, saved, strict=True):
            frame[slot] = value
        return different

    @staticmethod
    def _is_injective(
        frame: Frame, resolve: Callable[[Frame], View], indices: list[Evaluator]
    ) -> bool:
        view = resolve(frame)
        position: Any = np.int64(0)
        for index, stride in zip(indices, view.strides, strict=True):
            position = position + np.asarray(index(frame, None), np.int64) * stride
        ordered = np.sort(position, axis=None)
        return bool(np.all(ordered[1:] != ordered[:-1]))

    def _overlaps(self, frame: Frame) -> bool:
        written = [resolve(frame).memory.bytes for resolve, _ in self._writes]
        read = [frame[slot].bytes for slot in self._others if isinstance(frame[slot], Memory)]
        shared = (np.may_share_memory(w, r) for w in written for r in read)
        twice = (np.may_share_memory(a, b) for a, b in itertools.combinations(written, 2))
        return any(shared) or any(twice)


class _Bounds:
    """The values of one loop."""

    def __init__(self, compiler: ExpressionCompiler, loop: For) -> None:
        self.slot = compiler.slot(loop.loop_var)
        self._kind = to_numpy(loop.loop_var.dtype)
        self._begin, self._extent = compiler.compile(loop.min), compiler.compile(loop.extent)

    def values(self, frame: Frame) -> np.ndarray[Any, Any]:
        low = int(self._begin(frame, None))
        return np.arange(low, low + int(self._extent(frame, None))).astype(self._kind)


def _split_to_fit(extents: list[int]) -> tuple[int, int]:
    """How many outer loops to step through so that the rest fits, and the size of the rest."""
    outer, size = len(extents), 1
    while outer and size * extents[outer - 1] <= _MAX_GRID:
        outer -= 1
        size *= extents[outer]
    return outer, size


def _lanes_of(indices: tuple[PrimExpr, ...]) -> int:
    return max((index.dtype.lanes for index in indices), default=1)
