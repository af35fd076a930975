"""Comparing a candidate's results with those of the function it came from."""

from __future__ import annotations

from typing import NamedTuple

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


class Standard(NamedTuple):
    """A result that is right, and how far another one may be from it."""

    result: Array
    tolerance: float


def difference(
    expected: Array,
    actual: Array,
    dtype: str,
    tolerance: float,
    also_right: Standard | None = None,
) -> str:
    """How two results differ by more than rounding; empty if they do not.

    An element that is as it is in `also_right` is not wrong, either.
    """
    wrong = wrong_elements(Standard(expected, tolerance), actual, dtype)
    if also_right is not None and wrong.any():
        wrong &= wrong_elements(also_right, actual, dtype)
    count = int(np.count_nonzero(wrong))
    if not count:
        return ""
    place = tuple(int(axis[0]) for axis in np.nonzero(wrong))
    share = f"{count} of {expected.size} elements"
    what = f"{share} are wrong, the first at {list(place)}"
    allowed = f", tolerance {tolerance:.1e}" if tolerance else ""
    return f"{what}: expected {_shown(expected, place)}, got {_shown(actual, place)}{allowed}"


def wrong_elements(standard: Standard, actual: Array, dtype: str) -> Array:
    """Which elements differ from those of a standard by more than rounding."""
    if same_bytes(as_bytes(standard.result), as_bytes(actual)):
        return np.zeros(actual.shape, np.bool_)
    kind = DType(dtype)
    if kind.is_integral or kind.is_bool:
        return np.asarray(standard.result != actual)
    return _beyond(standard.result, actual, standard.tolerance)


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


def _shown(array: Array, place: tuple[int, ...]) -> object:
    return array[place].item() if array[place].dtype.kind != "V" else float(array[place])
