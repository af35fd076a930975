"""`ThreadTiling`: matrix products and convolutions on the plain cores of a GPU.

As `WarpGroupTiling`, with a small tile of the result in the registers of every thread.
"""

from __future__ import annotations

import re

from tilewright.ir.annotation_keys import THREAD_COLUMNS, THREAD_ROWS
from tilewright.space.base import schedule_rules
from tilewright.space.gpu.tile_rule import TileRule, TileShape
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
class ThreadTiling(TileRule):
    """Tiles contractions for the threads of a GPU."""

    types = _TYPES
    shapes = SHAPES
    other_types = "it does not multiply numbers of 32 or 64 bits"

    def why_not_on(self, target: Target | None) -> str:
        """Stages of shared memory are filled by asynchronous copies."""
        if target is not None and _has_asynchronous_copies(target):
            return ""
        return "the target has no asynchronous copies (they came with sm_80)"


def _has_asynchronous_copies(target: Target) -> bool:
    number = re.match(r"sm_(\d+)", str(target.attrs.get("arch", "")))
    return number is not None and int(number[1]) >= _FIRST_ARCH
