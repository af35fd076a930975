"""Outputs that a program itself gets wrong: far from what it computes in higher precision."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tilewright.ir.numpy_bridge import from_numpy
from tilewright.measure.arguments import Array
from tilewright.measure.checking import Standard, wrong_elements
from tilewright.measure.tolerance import Rounding

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
