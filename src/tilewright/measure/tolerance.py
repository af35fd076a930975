"""Tolerances: the distance of two correct programs for the same function.

A schedule may change the order of a sum, and nothing else. A sum of n terms of either sign, rounded
after every step, is off by about sqrt(n) units of its type, whatever the order; so the distance
between two orders grows likewise. Integers do not round: they must be equal.

Tensor cores round operands or sums to fewer digits than their types have: float32, where a function
allows tf32, and sums of 8-bit floats.
"""

from __future__ import annotations

import math

import msgspec

from tilewright.ir import Block, Cast, DType, IntImm, IRModule, IterType, PrimFunc
from tilewright.ir.annotation_keys import ALLOW_TF32, FAST_SUMS
from tilewright.ir.patterns import nodes_of

_UNITS = {  # the distance from 1 to the next number of a type
    "float64": 2.0**-52,
    "float32": 2.0**-23,
    "float16": 2.0**-10,
    "bfloat16": 2.0**-7,
    "float8_e4m3fn": 2.0**-3,
    "float8_e5m2": 2.0**-2,
}
_PER_VALUE = 16.0  # units, for what is computed without a sum: functions, conversions
_PER_PRECISE_VALUE = 8.0  # the same, beside a result without rounding errors of its own
_PER_TERM = 8.0  # units, times the square root of the number of terms
_UNIT_OF_SUMS = 2.0**-13  # of 8-bit floats in tensor cores
_TAKEN_OVER = 128  # terms after which threads take over the sums, unless those are fast ones
_ASSUMED_TERMS = 4096  # for programs whose sums we cannot see


class Rounding(msgspec.Struct, frozen=True, array_like=True):
    """What the rounding errors of a program come from."""

    dtypes: tuple[str, ...] = ()  # that values are stored in or cast to
    sums: tuple[tuple[str, int], ...] = (("", _ASSUMED_TERMS),)  # dtype ("": the result's), terms
    tensor_cores: float = 0.0  # what they may leave of 1, where that is more than a type does

    def tolerance(self, result: str) -> float:
        """The error that a result of that dtype may have, relative to results of usual size."""
        if _unit(result) == 0.0:
            return 0.0
        of_sums = [_unit(dtype or result) * math.sqrt(terms) for dtype, terms in self.sums]
        value = max(self._coarsest(result), self.tensor_cores)
        return _PER_VALUE * value + _PER_TERM * sum(of_sums)

    def precise_tolerance(self, result: str) -> float:
        """How far a result may be from one in higher precision.

        Sums count as if they were accumulated in a type that is wide enough: those that are not
        must show.
        """
        of_sums = [
            _unit(DType(dtype or result).accumulator) * math.sqrt(terms)
            for dtype, terms in self.sums
        ]
        value = max(self._coarsest(result), self.tensor_cores)
        return _PER_PRECISE_VALUE * value + _PER_TERM * sum(of_sums)

    def _coarsest(self, result: str) -> float:
        return max(_unit(dtype) for dtype in (result, *self.dtypes))

    @property
    def is_narrow(self) -> bool:
        """Something is kept in less than 32 bits."""
        return any(DType(dtype).bits < 32 for dtype in self.dtypes)

    @property
    def narrowest(self) -> DType | None:
        """The coarsest type that sums are accumulated in, or else that anything is kept in."""
        found = [dtype for dtype, _ in self.sums if _unit(dtype)] or self.dtypes
        return DType(max(found, key=_unit)) if found else None


def _unit(dtype: str) -> float:
    return _UNITS.get(str(DType(dtype).element_of), 0.0) if dtype else 0.0


def rounding_of(mod: IRModule) -> Rounding:
    """The rounding errors to expect of a program, read off its blocks."""
    dtypes: set[str] = set()
    sums: list[tuple[str, int]] = []
    tensor_cores = 0.0
    for func in mod.functions.values():
        dtypes |= {str(node.dtype) for node in nodes_of(func.body, Cast)}
        for block in nodes_of(func.body, Block):
            dtypes |= {str(region.buffer.dtype) for region in block.writes}
            terms = _terms(block)
            if terms > 1 and block.writes:
                sums.append((str(block.writes[0].buffer.dtype), terms))
                tensor_cores = max(tensor_cores, _unit_of_tensor_cores(func, block, terms))
    return Rounding(tuple(sorted(filter(_unit, dtypes))), tuple(sums), tensor_cores)


def _unit_of_tensor_cores(func: PrimFunc, block: Block, terms: int) -> float:
    """Of the sums of a block, where tensor cores may round more than its types do."""
    operands = {region.buffer.dtype for region in block.reads}
    if any(dtype.is_float and dtype.bits == 8 for dtype in operands):
        return _UNIT_OF_SUMS * (max(1, terms // _TAKEN_OVER) if func.attrs.get(FAST_SUMS) else 1)
    allows_tf32 = func.attrs.get(ALLOW_TF32) and operands == {DType("float32")}
    return _UNITS["float16"] if allows_tf32 else 0.0  # both have 11 digits


def _terms(block: Block) -> int:
    """How many values a block adds up, or reduces in another way."""
    terms = 1
    for iterator in block.iter_vars:
        if iterator.iter_type is IterType.COMM_REDUCE:
            extent = None if iterator.dom is None else iterator.dom.extent
            terms *= extent.value if isinstance(extent, IntImm) else _ASSUMED_TERMS
    return terms
