"""`ThreadTiling`: matrix products and convolutions on the plain cores of a GPU.

As `WarpGroupTiling`, with a small tile of the result in the registers of every thread.
"""

from __future__ import annotations

import re

from tilewright.ir.annotation_keys import THREAD_COLUMNS, THREAD_ROWS
from tilewright.schedule import BlockRV, Schedule
from tilewright.space.base import NotApplied, ScheduleRule, TaskContext, schedule_rules
from tilewright.space.conditions import why_not_free
from tilewright.space.gpu.warp_group_tiling import TileShape, tile_sketches, types_of
from tilewright.target import Target

_FIRST_ARCH = 80
_TYPES = (("float32", "float32"), ("float64", "float64"), ("int32", "int32"))


def _threads(rows: int, depth: int, tile: tuple[int, int], *columns: int) -> TileShape:
    return TileShape(rows, columns, depth, {THREAD_ROWS: tile[0], THREAD_COLUMNS: tile[1]})


SHAPES = (
    _threads(32, 128, (4, 4), 32, 64),
    _threads(64, 64, (8, 4), 32, 64),
    _threads(64, 64, (8, 8), 64, 128),
    _threads(128, 64, (8, 8), 64, 128),
    _threads(128, 64, (8, 16), 128, 256),
)


@schedule_rules.register("ThreadTiling")
class ThreadTiling(ScheduleRule):
    """Tiles contractions for the threads of a GPU."""

    def __init__(self) -> None:
        self._target: Target | None = None

    def _initialize_with_tune_context(self, context: TaskContext) -> None:
        self._target = context.target

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        """One sketch for each shape that fits."""
        if self._target is None or not _has_asynchronous_copies(self._target):
            return NotApplied(sch, "the target has no asynchronous copies (they came with sm_80)")
        sref = sch.get_sref(block)
        if taken := why_not_free(sref):
            return NotApplied(sch, taken)
        dtypes = types_of(sref.block, _TYPES)
        if dtypes is None:
            return NotApplied(sch, "it does not multiply numbers of 32 or 64 bits")
        return tile_sketches(sch, block, dtypes, SHAPES, self._target)


def _has_asynchronous_copies(target: Target) -> bool:
    number = re.match(r"sm_(\d+)", str(target.attrs.get("arch", "")))
    return number is not None and int(number[1]) >= _FIRST_ARCH
