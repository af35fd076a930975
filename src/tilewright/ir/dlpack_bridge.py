"""DType to the type codes of DLPack and back."""

from __future__ import annotations

from typing import Final

from tilewright.errors import IRError
from tilewright.ir.dtype import DType

_CODES: Final = {"int": 0, "uint": 1, "float": 2, "bfloat": 4, "bool": 6}
_FLOAT8_CODES: Final = {"float8_e4m3fn": 10, "float8_e5m2": 12}
_NAMES: Final = {code: name for name, code in _CODES.items()}
_FLOAT8_NAMES: Final = {code: name for name, code in _FLOAT8_CODES.items()}


def to_dlpack(dtype: str) -> tuple[int, int, int]:
    """Type code, bits and lanes; a bool takes a byte."""
    kind = DType(dtype)
    if kind.element_of in _FLOAT8_CODES:
        return _FLOAT8_CODES[kind.element_of], 8, kind.lanes
    if kind.code not in _CODES:
        raise IRError(f"DLPack has no type for {dtype}")
    return _CODES[kind.code], 8 if kind.is_bool else kind.bits, kind.lanes


def from_dlpack(code: int, bits: int, lanes: int) -> str:
    """The dtype; one that we lack gets a readable name that equals none of ours."""
    suffix = "" if lanes == 1 else f"x{lanes}"
    if code in _FLOAT8_NAMES:
        return _FLOAT8_NAMES[code] + suffix
    name = _NAMES.get(code)
    if name is None:
        return f"DLPack type {code} of {bits} bits{suffix}"
    return (name if name == "bool" else f"{name}{bits}") + suffix
