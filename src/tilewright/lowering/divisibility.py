"""Expressions that are certainly multiples of a number, by their shape alone."""

from __future__ import annotations

from math import gcd

from tilewright.ir import Add, FloorDiv, FloorMod, IntImm, Max, Min, Mul, PrimExpr, Sub


def is_multiple(value: PrimExpr, factor: int) -> bool:
    """True when `value` is certainly a multiple of `factor`."""
    if factor == 1:
        return True
    match value:
        case IntImm():
            return value.value % factor == 0
        case Mul(a=a, b=IntImm(value=scale)) | Mul(a=IntImm(value=scale), b=a):
            return is_multiple(a, factor // gcd(scale, factor))
        case Mul():
            return is_multiple(value.a, factor) or is_multiple(value.b, factor)
        case Add() | Sub() | Min() | Max():
            return is_multiple(value.a, factor) and is_multiple(value.b, factor)
        case FloorMod(a=a, b=IntImm(value=modulus)):
            return modulus % factor == 0 and is_multiple(a, factor)
        case FloorDiv(a=a, b=IntImm(value=divisor)) if divisor > 0:
            return is_multiple(a, factor * divisor)
    return False
