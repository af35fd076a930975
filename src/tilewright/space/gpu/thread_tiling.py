"""`ThreadTiling`: matrix products and convolutions on the plain cores of a GPU.

As `WarpGroupTiling`, with a small tile of the result in the registers of every thread.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from tilewright import ir
from tilewright.ir.annotation_keys import THREAD_COLUMNS, THREAD_ROWS, THREAD_SLICES
from tilewright.space.base import schedule_rules
from tilewright.space.gpu.tile_rule import TileRule, TileShape, Types, Way
from tilewright.space.gpu.warp_group_tiling import TENSOR_CORE_TYPES
from tilewright.target import Target

_FIRST_ARCH = 80
_NUMBERS = ("float32", "float64", "int32", "uint32", "int64", "uint64")
_TYPES = tuple(Types(dtype, dtype, dtype) for dtype in _NUMBERS)


def _threads(rows: int, depth: int, tile: tuple[int, int, int], *columns: int) -> TileShape:
    """Rows of a tile, bytes of a step; rows and columns of a thread, slices of a step."""
    keys = (THREAD_ROWS, THREAD_COLUMNS, THREAD_SLICES)
    return TileShape(rows, columns, depth, dict(zip(keys, tile, strict=True)))


SHAPES = (
    _threads(32, 128, (4, 4, 1), 32, 64),
    _threads(32, 128, (8, 4, 4), 32, 64),
    _threads(64, 64, (8, 8, 1), 64, 128),
    _threads(64, 64, (8, 8, 2), 32, 64, 128),
    _threads(64, 128, (8, 8, 4), 32, 64),
    _threads(64, 256, (8, 8, 8), 32),
    _threads(128, 64, (8, 8, 1), 64, 128),
    _threads(128, 32, (16, 8, 1), 128, 256),
)


@schedule_rules.register("ThreadTiling")
class ThreadTiling(TileRule):
    """Tiles contractions for the threads of a GPU."""

    types = _TYPES
    ways = (Way(SHAPES),)
    other_types = "it does not multiply numbers of 32 or 64 bits"

    def knows(self, dtypes: Types, attrs: Mapping[str, object]) -> bool:
        """Operands of other types are converted before, unless tensor cores multiply them."""
        if dtypes in self.types:
            return True
        sums = ir.DType(dtypes.sums)
        can_convert = dtypes.sums in _NUMBERS and all(
            sums.holds(ir.DType(given)) for given in dtypes[:2]
        )
        return can_convert and dtypes not in TENSOR_CORE_TYPES

    def why_not_on(self, target: Target | None) -> str:
        """Stages of shared memory are filled by asynchronous copies."""
        if target is not None and _has_asynchronous_copies(target):
            return ""
        return "the target has no asynchronous copies (they came with sm_80)"


def _has_asynchronous_copies(target: Target) -> bool:
    number = re.match(r"sm_(\d+)", str(target.attrs.get("arch", "")))
    return number is not None and int(number[1]) >= _FIRST_ARCH
