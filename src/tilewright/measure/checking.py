"""Comparing a candidate's results with those of the function it came from."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.ir import DType
from tilewright.measure.arguments import Array, same_bytes

_SAMPLE = 1 << 16  # elements that the usual size of a result is found out from
_USUAL = 0.9  # the quantile of the sizes that stands for all, so that single giants do not
_MARGIN = 4.0


def usual_size(expected: Array) -> float:
    """The size that results usually have: errors of small ones are measured against it."""
    flat = expected.reshape(-1)
    step = max(1, flat.size // _SAMPLE)
    sizes = np.abs(flat[::step].astype(np.float64))
    sizes = sizes[np.isfinite(sizes) & (sizes > 0)]
    return float(np.quantile(sizes, _USUAL)) * _MARGIN if sizes.size else 0.0


def difference(expected: Array, actual: Array, dtype: str, tolerance: float) -> str:
    """How two results differ by more than rounding; empty if they do not."""
    if same_bytes(as_bytes(expected), as_bytes(actual)):
        return ""
    kind = DType(dtype)
    if kind.is_integral or kind.is_bool:
        wrong = expected != actual
    else:
        wrong = _beyond(expected, actual, tolerance)
    count = int(np.count_nonzero(wrong))
    if not count:
        return ""
    place = tuple(int(axis[0]) for axis in np.nonzero(wrong))
    share = f"{count} of {expected.size} elements"
    what = f"{share} are wrong, the first at {list(place)}"
    allowed = f", tolerance {tolerance:.1e}" if tolerance else ""
    return f"{what}: expected {_shown(expected, place)}, got {_shown(actual, place)}{allowed}"


def as_bytes(array: Array) -> Array:
    """The memory of a contiguous array."""
    return array.reshape(-1).view(np.uint8)


def _beyond(expected: Array, actual: Array, tolerance: float) -> Array:
    wide = np.float64 if expected.dtype.itemsize >= 8 else np.float32
    want, have = expected.astype(wide, copy=False), actual.astype(wide, copy=False)
    scale = usual_size(want)
    with np.errstate(invalid="ignore", over="ignore"):
        distance = np.abs(have - want)
        close = distance <= tolerance * (np.abs(want) + scale)
    # Infinities and NaN must be in the same places.
    same: Array = close | (have == want) | (np.isnan(have) & np.isnan(want))
    return ~same


def _shown(array: Array, place: tuple[int, ...]) -> Any:
    return array[place].item() if array[place].dtype.kind != "V" else float(array[place])
