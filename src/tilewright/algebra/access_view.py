"""Accesses of stages as expressions: footprints below each loop, dependence on loops, strides."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tilewright import ir
from tilewright.algebra.expr import (
    Value,
    both,
    ceil_divide,
    either,
    equal,
    floor_divide,
    is_more_than_one,
    less,
    less_equal,
    maximum,
    multiply,
    negate,
    product_of,
    remainder,
    where,
)
from tilewright.algebra.indices import index_terms
from tilewright.algebra.loop_tree import (
    EVERYTHING,
    Digit,
    LoopNode,
    StageNode,
    Terms,
    digits_of,
    iterators_of,
    scopes_of,
)
from tilewright.algebra.reach import DigitReaches, scaled, summed
from tilewright.nest.access import LINE


@dataclass(frozen=True)
class Touched:
    """An element of a buffer, or where a tensor instruction begins to touch many of them."""

    buffer: ir.Buffer
    indices: Sequence[ir.PrimExpr]
    at_once: int = 0


@dataclass
class AccessView:
    """An access as seen from each depth; `depends` is 1 for slots that move it."""

    buffer: ir.Buffer
    is_store: bool
    footprints: list[Value]  # bytes in whole lines below each slot, and (last) below none
    depends: list[Value]
    strides: list[Value]  # elements between two iterations of each slot; 0: none, or by no rule
    unit_bytes: int = 0  # that a tensor instruction touches at once; 0: none does

    @property
    def element_bytes(self) -> int:
        return max(1, self.buffer.dtype.bits // 8)


class AccessReader:
    """Reads the accesses of a stage; depths share what is known of digits."""

    def __init__(self, stage: StageNode, loops: Sequence[LoopNode]) -> None:
        self._stage = stage
        self._loops = loops
        self._predicates = [each for scope in scopes_of(stage) for each in scope.predicates]
        self._below = [
            DigitReaches(digits_of(loops[depth:]), self._predicates)
            for depth in range(len(loops) + 1)
        ]
        self._alone = [DigitReaches(set(loop.digits)) for loop in loops]
        self._values = iterators_of(stage)

    def read(self, touched: Touched, is_store: bool) -> AccessView:
        """What is touched below each loop."""
        buffer = touched.buffer
        forms = [index_terms(self._values, index) for index in touched.indices]
        width = max(1, buffer.dtype.bits // 8)
        unit = touched.at_once * width
        below = list(zip(*[self._reaches(form) for form in forms], strict=True))
        found = [_bytes([reach + 1 for reach in reaches], width, unit) for reaches in below]
        if not forms:
            found = [LINE] * (len(self._loops) + 1)
        depends = [self._depends(number, forms) for number in range(len(self._loops))]
        strides = _strides(buffer)
        flat = summed([scaled(f, s) for f, s in zip(forms, strides, strict=True)])
        steps = [_stride(flat, loop) for loop in self._loops]
        return AccessView(buffer, is_store, found, depends, steps, unit)

    def _reaches(self, form: Terms) -> list[Value]:
        """How far a sum reaches below each loop, and below none."""
        held = {digit for each in self._predicates for digit in each.terms}
        if any(digit.source is not None or digit in held for digit in form):
            return [reach.of(form) for reach in self._below]
        found: list[Value] = [0]
        for alone in reversed(self._alone):
            found.append(found[-1] + alone.of(form))
        return found[::-1]

    def _depends(self, number: int, forms: Sequence[Terms]) -> Value:
        moves: Value = 0
        for form in forms:
            moves = either(moves, less_equal(1, self._alone[number].of(form)))
        return moves


def _strides(buffer: ir.Buffer) -> list[int]:
    shape = [each.value if isinstance(each, ir.IntImm) else 1 for each in buffer.shape]
    return [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]


def _bytes(spans: Sequence[Value], width: int, unit: int) -> Value:
    lines = ceil_divide(maximum(multiply(spans[-1], width), unit), LINE)
    return multiply(product_of([*spans[:-1], lines]), LINE)


def _stride(flat: Terms, loop: LoopNode) -> Value:
    """Elements between two iterations of a loop; 0 where they follow no rule."""
    stride: Value = 0
    expected: Value = 0
    regular: Value = 1
    found: Value = 0  # the innermost digit that runs
    for digit in reversed(loop.digits):
        runs = 1 if len(loop.digits) == 1 else is_more_than_one(digit.extent)
        own = _digit_stride(flat, digit)
        regular = both(regular, either(negate(both(runs, found)), equal(own, expected)))
        stride = where(both(runs, negate(found)), own, stride)
        expected = where(runs, multiply(own, digit.extent), expected)
        found = either(found, runs)
    return multiply(regular, stride)


def _digit_stride(flat: Terms, digit: Digit) -> Value:
    """Elements by which one step of a digit moves an access; 0 where that follows no rule."""
    direct = flat.get(digit, 0)
    derived = [each for each in flat if each.source is not None and digit in each.source]
    if not derived:
        return direct
    if all(each.extent == EVERYTHING for each in derived):
        return _quotient_stride(flat, digit, derived)
    source = derived[0].source
    if direct != 0 or source is None or any(each.source != source for each in derived):
        return 0
    last = next((each for each in derived if type(each.below) is int and each.below == 1), None)
    if last is None:
        return 0
    regular: Value = 1
    for each in derived:
        expected = multiply(flat[last], each.below)
        fits = equal(flat[each], expected)
        regular = both(regular, either(fits, equal(each.extent, 1)))
    return multiply(regular, multiply(flat[last], source[digit]))


def _quotient_stride(flat: Terms, digit: Digit, quotients: Sequence[Digit]) -> Value:
    """The same where indices divide: only multiples of the divisor step evenly."""
    stride = flat.get(digit, 0)
    regular: Value = 1
    for each in quotients:
        assert each.source is not None
        step = each.source[digit]
        divides = equal(remainder(step, each.below), 0)
        stays = less(multiply(step, digit.extent - 1), each.below)
        regular = both(regular, either(divides, stays))
        even = multiply(flat[each], floor_divide(step, each.below))
        stride = stride + where(divides, even, 0)
    return multiply(regular, stride)
