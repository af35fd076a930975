"""Types of products that programs may have, what runs them on Hopper, and how exact they are."""

from __future__ import annotations

from typing import NamedTuple

from tilewright import ir
from tilewright.ir.annotation_keys import ALLOW_TF32, FAST_SUMS
from tilewright.testing.tile_kernel_runs import ordered_product

WGMMA, THREADS, OTHER = "tw_wgmma", "tw_copy_async", ""
E4M3, E5M2 = "float8_e4m3fn", "float8_e5m2"


class ProductTypes(NamedTuple):
    """Types of both operands, of sums and of results; tolerance is relative to the largest."""

    left: str
    right: str
    sums: str
    result: str
    runs_on: str
    tolerance: float
    attribute: str = ""

    def program(self, sizes: tuple[int, int, int], order: str) -> ir.PrimFunc:
        """A product of m x k and k x n; `order` has a `t` for operands stored the other way."""
        made = ordered_product(sizes, self[:4], order)
        return made.with_attr(self.attribute, True) if self.attribute else made


def _of(
    types: str, runs_on: str, tolerance: float, attribute: str = ""
) -> tuple[str, ProductTypes]:
    left, right, sums, result = types.split()
    made = ProductTypes(left, right, sums, result, runs_on, tolerance, attribute)
    return f"{types} {attribute}".strip(), made


PRODUCT_TYPES = dict(
    [
        _of("float16 float16 float32 float32", WGMMA, 1e-5),
        _of("float16 float16 float32 float16", WGMMA, 1e-3),
        _of("float16 float16 float16 float16", WGMMA, 1e-3),
        _of("bfloat16 bfloat16 float32 bfloat16", WGMMA, 8e-3),
        _of("bfloat16 bfloat16 bfloat16 bfloat16", WGMMA, 8e-3),
        # Tensor cores keep 14 bits of a sum of 8-bit floats until it is added to a float32.
        _of(f"{E4M3} {E4M3} float32 float32", WGMMA, 6e-4),
        _of(f"{E5M2} {E5M2} float32 float32", WGMMA, 6e-4),
        _of(f"{E4M3} {E5M2} float32 bfloat16", WGMMA, 8e-3),
        _of(f"{E5M2} {E4M3} float16 float16", WGMMA, 2e-3),
        _of(f"{E4M3} {E4M3} float32 float32", WGMMA, 1e-3, FAST_SUMS),
        _of("int8 int8 int32 int32", WGMMA, 0.0),
        _of("uint8 int8 int32 int32", WGMMA, 0.0),
        _of("int8 uint8 int32 int32", WGMMA, 0.0),
        _of("uint8 uint8 int32 int32", WGMMA, 0.0),
        _of("float32 float32 float32 float32", WGMMA, 1e-3, ALLOW_TF32),
        _of("float32 float32 float32 float32", THREADS, 1e-5),
        _of("float64 float64 float64 float64", THREADS, 1e-14),
        _of("int32 int32 int32 int32", THREADS, 0.0),
        _of("uint32 uint32 uint32 uint32", THREADS, 0.0),
        _of("int64 int64 int64 int64", THREADS, 0.0),
        _of("float32 float32 float64 float64", THREADS, 1e-14),
        _of("float16 float32 float32 float32", THREADS, 1e-5),
        _of("float16 bfloat16 float32 float32", THREADS, 1e-5),
        _of("int16 int16 int32 int32", THREADS, 0.0),
        _of("int8 int8 float32 float32", THREADS, 1e-5),
        _of("uint8 uint8 uint32 uint32", THREADS, 0.0),
        _of("int32 int32 float32 float32", OTHER, 1e-5),
    ]
)
