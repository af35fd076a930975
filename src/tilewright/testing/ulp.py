"""Errors in units in the last place (ulp), for tests of floating-point code."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Precision:
    """What decides the size of an ulp: fraction bits and the exponent range."""

    fraction_bits: int
    min_exponent: int
    max_exponent: int


PRECISIONS = {
    "float16": Precision(10, -14, 15),
    "bfloat16": Precision(7, -126, 127),
    "float32": Precision(23, -126, 127),
    "float64": Precision(52, -1022, 1023),
}


def ulp_errors(
    actual: npt.NDArray[Any],
    reference: FloatArray,
    correction: FloatArray | None = None,
    dtype: str | None = None,
) -> FloatArray:
    """|actual - (reference + correction)| in ulp of `dtype` (that of `actual`) at the reference.

    `correction` carries what the reference lost when it was rounded to float64. NaN equals NaN;
    a NaN on one side, an infinity that should be far away from it, or a zero of the wrong sign
    where the reference is a zero counts as infinitely wrong.
    """
    precision = PRECISIONS[dtype or str(actual.dtype)]
    rest = np.zeros_like(reference) if correction is None else correction
    with np.errstate(all="ignore"):
        value = actual.astype(np.float64)
        _, exponent = np.frexp(reference)
        bounded = np.clip(exponent - 1, precision.min_exponent, precision.max_exponent)
        ulp = np.ldexp(1.0, (bounded - precision.fraction_bits).astype(np.int64))
        error = np.abs(((value - reference) - rest) / ulp)
        error = _with_overflow(error, value, reference, precision)
    same = (np.isnan(value) & np.isnan(reference)) | (value == reference) & (rest == 0)
    error = np.where(same, 0.0, np.where(np.isnan(error), np.inf, error))
    wrong_sign = (reference == 0) & (rest == 0) & (np.signbit(value) != np.signbit(reference))
    return np.where(wrong_sign, np.inf, error)


def _with_overflow(
    error: FloatArray,
    value: FloatArray,
    reference: FloatArray,
    precision: Precision,
) -> FloatArray:
    """Infinity counts as the first number beyond the finite ones, on either side."""
    unit = np.ldexp(1.0, precision.max_exponent - precision.fraction_bits)
    # (2^max_exponent / unit) * 2 ulp steps from zero; in units, so that float64 can hold it.
    beyond = 2.0 ** (precision.fraction_bits + 1)
    scaled = np.where(np.isinf(reference), np.copysign(beyond, reference), reference / unit)
    overflows = np.abs(scaled) >= beyond - 1
    got = np.where(np.isinf(value), np.copysign(beyond, value), value / unit)
    clipped = np.clip(scaled, -beyond, beyond)
    return np.where(overflows | np.isinf(value), np.abs(got - clipped), error)


def max_ulp_error(
    actual: npt.NDArray[Any],
    reference: FloatArray,
    correction: FloatArray | None = None,
    dtype: str | None = None,
) -> float:
    """The largest of `ulp_errors`."""
    return float(ulp_errors(actual, reference, correction, dtype).max())
