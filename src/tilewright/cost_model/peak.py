"""The most operations that a core can do in a cycle, by the type of its data."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.ir import DType
from tilewright.target import Target

_PER_LANE = 4.0  # two multiply-adds
# Processors that do one multiply-add of 512 bits a cycle: two halves of it, or one unit for it.
_HALF_AS_MANY_IF_WIDE = frozenset({"znver4", "icelake-client", "rocketlake", "tigerlake"})

# What instructions for narrow types make of it: a type, a feature of the CPU ("": any CPU), and how
# many times the operations of single precision that is. The first line that fits counts.
_NARROW: tuple[tuple[str, str, float], ...] = (
    ("int8", "amx-int8", 32.0),
    ("int8", "i8mm", 8.0),
    ("int8", "", 4.0),
    ("uint8", "amx-int8", 32.0),
    ("uint8", "i8mm", 8.0),
    ("uint8", "", 4.0),
    ("bfloat16", "amx-bf16", 16.0),
    ("bfloat16", "bf16", 4.0),
    ("bfloat16", "avx512bf16", 2.0),
    ("float16", "amx-fp16", 16.0),
    ("float16", "avx512fp16", 2.0),
    ("float16", "fullfp16", 2.0),
    ("int16", "", 2.0),
    ("uint16", "", 2.0),
)


def operations_per_cycle(target: Target, dtypes: Sequence[str] = ()) -> float:
    """Operations of one core on data of these types; of single precision without any."""
    halved = target.vector_bits >= 512 and target.mcpu in _HALF_AS_MANY_IF_WIDE
    single = target.vector_bits / 32 * _PER_LANE / (2 if halved else 1)
    return single * max((_factor(target, dtype) for dtype in dtypes), default=1.0)


def _factor(target: Target, dtype: str) -> float:
    """Operations on a type for each one on single precision."""
    for name, feature, factor in _NARROW:
        if name == dtype and (not feature or feature in target.features):
            return factor
    return 32 / max(32, DType(dtype).bits)
