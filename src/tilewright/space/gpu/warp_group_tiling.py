"""`WarpGroupTiling`: matrix products and convolutions on the tensor cores of Hopper.

One sketch for each way to share a tile among warp groups.
"""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.ir.annotation_keys import ALLOW_TF32, TILE_CONSUMERS, TILE_GATHERERS
from tilewright.space.base import schedule_rules
from tilewright.space.gpu.tile_rule import TileRule, TileShape, Types, Way
from tilewright.target import Target

_SHORT_FLOATS = ("float8_e4m3fn", "float8_e5m2")
_BYTES = ("int8", "uint8")
_TF32 = Types("float32", "float32", "float32")
TENSOR_CORE_TYPES = (
    Types("float16", "float16", "float32"),
    Types("bfloat16", "bfloat16", "float32"),
    *(Types(a, b, "float32") for a in _SHORT_FLOATS for b in _SHORT_FLOATS),
    *(Types(a, b, "int32") for a in _BYTES for b in _BYTES),
)


def _groups(rows: int, count: int, *columns: int) -> TileShape:
    return TileShape(rows, columns, 128, {TILE_CONSUMERS: count})


SHAPES = (
    _groups(64, 1, 32, 64, 96, 128, 160, 192, 256),
    _groups(128, 1, 32, 64, 96, 128),
    _groups(128, 2, 64, 96, 128, 160, 192, 224, 256),
    _groups(256, 2, 64, 96, 128),
)


def _gathering(rows: int, count: int, gatherers: int, *columns: int) -> TileShape:
    groups = {TILE_CONSUMERS: count, TILE_GATHERERS: gatherers}
    return TileShape(rows, columns, 128, groups)


# For operands that bulk copies cannot fetch.
GATHERING_SHAPES = (
    _gathering(64, 1, 3, 32, 64, 96, 128),
    _gathering(128, 1, 1, 32, 64),
    _gathering(128, 1, 2, 32, 64),
    _gathering(128, 1, 3, 32, 64),
    _gathering(128, 2, 2, 64, 96, 128),
    _gathering(256, 2, 2, 32, 64),
)

# Packing a matrix costs less than gathering its parts for every tile; windows are many times
# larger than the image, so that threads gather them.
WAYS = (Way(SHAPES, packs_matrices=True), Way(GATHERING_SHAPES))


@schedule_rules.register("WarpGroupTiling")
class WarpGroupTiling(TileRule):
    """Tiles contractions for the warp groups of Hopper."""

    types = TENSOR_CORE_TYPES
    ways = WAYS
    other_types = "its types are not those of tensor cores"

    def knows(self, dtypes: Types, attrs: Mapping[str, object]) -> bool:
        """Tensor cores multiply float32 with fewer digits, where that is allowed."""
        return super().knows(dtypes, attrs) or (dtypes == _TF32 and bool(attrs.get(ALLOW_TF32)))

    def why_not_on(self, target: Target | None) -> str:
        """Warp groups came with sm_90, and later GPUs do not have them."""
        has_groups = target is not None and str(target.attrs.get("arch", "")).startswith("sm_90")
        return "" if has_groups else "the target has no warp groups (they came with sm_90)"
