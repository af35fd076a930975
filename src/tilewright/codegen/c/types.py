"""Spelling of types, constants and names in C."""

from __future__ import annotations

import math
import re
import struct
from typing import Final

from tilewright.errors import CodegenError
from tilewright.ir import DType

# Floats narrower than 32 bits live in memory as integers of their size and are computed in float:
# (bits of the exponent, bits of the mantissa, whether there are infinities).
SMALL_FLOATS: Final[dict[str, tuple[int, int, int]]] = {
    "float16": (5, 10, 1),
    "bfloat16": (8, 7, 1),
    "float8_e5m2": (5, 2, 1),
    "float8_e4m3fn": (4, 3, 0),
}
KEYWORDS: Final = frozenset(
    """auto break case char const continue default do double else enum extern float for goto if
    inline int long register restrict return short signed sizeof static struct switch typedef union
    unsigned void volatile while bool true false lane begin end args""".split()  # noqa: SIM905
)


def c_type(dtype: DType) -> str:
    """The C type of one lane."""
    kind = dtype.element_of
    if kind in SMALL_FLOATS:
        return f"uint{kind.bits}_t"
    if kind.is_bool:
        return "bool"
    if kind.is_handle:
        return "void *"
    if kind.is_integral:
        return f"{kind.code}{max(kind.bits, 8)}_t"
    spelled = {"float32": "float", "float64": "double"}.get(kind)
    if spelled is None:
        raise CodegenError(f"C has no type for {kind!s}")
    return spelled


def is_small_float(dtype: DType) -> bool:
    return dtype.element_of in SMALL_FLOATS


def is_promoted(dtype: DType) -> bool:
    """True for integers that C computes in `int`, so that results must be cut to size."""
    return dtype.is_integral and dtype.bits < 32


def vector_type(dtype: DType) -> str:
    """The name of the typedef for a vector of the compiler's vector extension."""
    return f"tw_{dtype}"


def vector_typedef(dtype: DType) -> str:
    """A vector in memory: any address that suits its elements, and it may alias them."""
    size = dtype.nbytes
    return (
        f"typedef {c_type(dtype)} {vector_type(dtype)} "
        f"__attribute__((vector_size({size}), aligned({dtype.itemsize}), may_alias));"
    )


def integer_literal(value: int, dtype: DType) -> str:
    if dtype.is_bool:
        return "true" if value else "false"
    if dtype.is_uint:
        return f"{value}U" if dtype.bits <= 32 else f"UINT64_C({value})"
    if dtype.bits == 64:
        return "INT64_MIN" if value == -(2**63) else f"INT64_C({value})"
    return "INT32_MIN" if value == -(2**31) else str(value)


def float_literal(value: float, dtype: DType) -> str:
    """The shortest decimal that reads back to the same number."""
    if math.isnan(value):
        return "NAN"
    if math.isinf(value):
        return "INFINITY" if value > 0 else "-INFINITY"
    if dtype == "float64":
        return repr(value)
    rounded = struct.unpack("f", struct.pack("f", value))[0] if abs(value) < 3.5e38 else value
    digits = next(
        text
        for text in (f"{rounded:.{precision}g}" for precision in range(6, 18))
        if float(text) == rounded or struct.pack("f", float(text)) == struct.pack("f", rounded)
    )
    mark = "" if "." in digits or "e" in digits else ".0"
    return f"{digits}{mark}f"


def identifier(name: str) -> str:
    """`name` with everything C does not allow in a name replaced."""
    cleaned = re.sub(r"\W", "_", name, flags=re.ASCII) or "_"
    return f"_{cleaned}" if cleaned[0].isdigit() or cleaned in KEYWORDS else cleaned


def function_name(name: str) -> str:
    """The C name of a function; `main` is where programs start, so ours is called `tw_main`."""
    return "tw_main" if name == "main" else identifier(name)


def string_literal(text: str) -> str:
    escaped = "".join(
        char if char.isprintable() and char not in '"\\?' and ord(char) < 128
        else "".join(f"\\{byte:03o}" for byte in char.encode())
        for char in text
    )  # fmt: skip
    return f'"{escaped}"'
