"""DType to NumPy dtype and back; the types that NumPy lacks come from ml_dtypes."""

from __future__ import annotations

import functools
import importlib
from typing import Any, Final

import numpy as np

from tilewright.errors import IRError
from tilewright.ir.dtype import DType

# ml_dtypes costs import time and most programs never meet these types, so it is loaded on demand.
_FROM_ML_DTYPES: Final = ("bfloat16", "float8_e4m3fn", "float8_e5m2", "int4", "uint4")


@functools.cache
def to_numpy(dtype: str) -> np.dtype[Any]:
    """The NumPy dtype whose elements lie in memory as those of `dtype`."""
    kind = DType(dtype)
    if kind.lanes > 1:
        raise IRError(f"NumPy has no vector type {kind!s}; use {kind.element_of!s} per lane")
    if kind in _FROM_ML_DTYPES:
        extended: np.dtype[Any] = np.dtype(getattr(importlib.import_module("ml_dtypes"), kind))
        return extended
    if kind.is_bool:
        return np.dtype(np.bool_)
    if (kind.is_integral and kind.bits >= 8) or (kind.is_float and kind.bits >= 16):
        return np.dtype(str(kind))
    raise IRError(f"NumPy has no type for {kind!s}")


def from_numpy(dtype: Any) -> DType:
    """The DType of a NumPy dtype, array scalar type or name."""
    name = np.dtype(dtype).name
    try:
        kind = DType(name)
    except IRError:
        raise IRError(f"NumPy dtype {name!r} has no counterpart in TensorIR") from None
    if to_numpy(kind) != np.dtype(dtype):
        raise IRError(
            f"NumPy dtype {np.dtype(dtype).str!r} is not in the byte order of this machine"
        )
    return kind
