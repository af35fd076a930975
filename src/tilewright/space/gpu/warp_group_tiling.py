"""`WarpGroupTiling`: matrix products and convolutions on the tensor cores of Hopper.

One sketch for each way to share a tile among warp groups.
"""

from __future__ import annotations

from tilewright.ir.annotation_keys import TILE_CONSUMERS
from tilewright.space.base import schedule_rules
from tilewright.space.gpu.tile_rule import TileRule, TileShape
from tilewright.target import Target

# Types of both operands and of their sum.
_TYPES = (
    ("float16", "float32"),
    ("bfloat16", "float32"),
    ("float8_e4m3fn", "float32"),
    ("float8_e5m2", "float32"),
    ("int8", "int32"),
)


def _groups(rows: int, count: int, *columns: int) -> TileShape:
    return TileShape(rows, columns, 128, {TILE_CONSUMERS: count})


SHAPES = (
    _groups(64, 1, 32, 64, 96, 128, 192, 256),
    _groups(128, 1, 32, 64, 96, 128),
    _groups(128, 2, 64, 96, 128, 192, 256),
    _groups(256, 2, 64, 96, 128),
)


@schedule_rules.register("WarpGroupTiling")
class WarpGroupTiling(TileRule):
    """Tiles contractions for the warp groups of Hopper."""

    types = _TYPES
    shapes = SHAPES
    other_types = "its types are not those of tensor cores"

    def why_not_on(self, target: Target | None) -> str:
        """Warp groups came with sm_90, and later GPUs do not have them."""
        has_groups = target is not None and str(target.attrs.get("arch", "")).startswith("sm_90")
        return "" if has_groups else "the target has no warp groups (they came with sm_90)"
