"""Comparing results: a candidate's with those of the function it came from, and the function's own
with those in higher precision.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from tilewright.ir import DType
from tilewright.ir.numpy_bridge import from_numpy
from tilewright.measure.arguments import Array, same_bytes
from tilewright.measure.tolerance import Rounding

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
    expected: Array, actual: Array, dtype: str, tolerance: float, also_right: Standard | None = None
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


# Comparisons and cancellation turn rounding errors into large ones, but only here and there.
_LEAST_SHARE = 0.05
_LEAST_ERROR = 0.01


def inexact_outputs(
    names: Sequence[str],
    results: Mapping[int, Array],
    precise: Mapping[int, Array],
    rounding: Rounding,
) -> list[str]:
    """A sentence for each output of which many elements are far from those in higher precision."""
    found = []
    for position, exact in precise.items():
        actual, dtype = results[position], str(from_numpy(exact.dtype))
        standard = Standard(exact, rounding.precise_tolerance(dtype))
        wrong = wrong_elements(standard, actual, dtype) & _is_far(exact, actual)
        if np.count_nonzero(wrong) > _LEAST_SHARE * wrong.size:
            distance = _described(exact[wrong], actual[wrong])
            output = f"output {names[position]!r} of the program itself"
            found.append(f"{output} is {distance}; {_advice(rounding)}")
    return found


def _is_far(exact: Array, actual: Array) -> Array:
    """By a share that matters: functions that grow quickly make more of a rounding error."""
    want, have = exact.astype(np.float64), actual.astype(np.float64)
    with np.errstate(all="ignore"):
        return ~(np.abs(have - want) <= _LEAST_ERROR * np.abs(want))


def _described(exact: Array, actual: Array) -> str:
    """How far wrong elements are off, by the one in the middle."""
    want, have = exact.astype(np.float64), actual.astype(np.float64)
    with np.errstate(all="ignore"):
        shares = np.abs(have - want) / np.abs(want)
    middle = np.argsort(shares)[shares.size // 2]
    if not np.isfinite(shares[middle]):
        return f"off: {have[middle]:.4g} where {want[middle]:.4g} is right"
    return f"off by {shares[middle]:.0%}: {have[middle]:.4g} where {want[middle]:.4g} is right"


def _advice(rounding: Rounding) -> str:
    dtype = rounding.narrowest
    if dtype is None or dtype.accumulator is dtype:
        return "compute it in float64 if that matters"
    return f"accumulate in {dtype.accumulator} instead of {dtype} and cast the result at the end"
