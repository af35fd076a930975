"""Random input data, as TVM's tuning scripts make it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.errors import TuneError

# From (included) to (excluded).
_RANGES = {
    "uint8": (0, 256),
    "int8": (-128, 128),
    "int32": (0, 10000),
    "uint32": (0, 10000),
    "int64": (0, 10000),
    "uint64": (0, 10000),
}


def generate_input_data(
    input_shape: Sequence[int],
    input_dtype: str,
    *,
    low: int | None = None,
    high: int | None = None,
) -> np.ndarray[Any, Any]:
    """Floats from [0, 1), integers from `low` to below `high` or from the usual range."""
    if input_dtype.startswith("float"):
        return np.random.uniform(size=input_shape).astype(input_dtype)
    if (low is None) != (high is None):
        raise TuneError("generate_input_data: give both of low and high, or none")
    limits = (low, high) if low is not None else _RANGES.get(input_dtype)
    if limits is None:
        raise TuneError(
            f"generate_input_data: {input_dtype!r} has no usual range; give low and high"
        )
    return np.random.randint(*limits, size=input_shape).astype(input_dtype)
