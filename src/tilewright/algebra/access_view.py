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
    Digit,
    LoopNode,
    StageNode,
    Terms,
    digits_of,
    iterators_of,
    roots_of,
    scopes_of,
)
from tilewright.algebra.reach import DigitReaches, scaled, summed
from tilewright.nest.access import LINE
from tilewright.nest.quotients import EVERYTHING


@dataclass(frozen=True)
class Touched:
    """An element of a buffer, or where a tensor instruction begins to touch many of them."""

    buffer: ir.Buffer
    indices: Sequence[ir.PrimExpr]
    at_once: int = 0


@dataclass(frozen=True)
class AccessView:
    """An access as seen from each depth; `depends` is 1 for slots that move it."""

    buffer: ir.Buffer
    is_store: bool
    footprints: tuple[Value, ...]  # bytes in whole lines below each slot, and (last) below none
    depends: tuple[Value, ...]
    strides: tuple[
        Value, ...
    ]  # elements between two iterations of each slot; 0: none, or by no rule
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
        layout = self._stage.packed.get(buffer)
        if layout is not None:
            depths = range(len(self._loops) + 1)
            found = [layout.bytes(digits_of(self._loops[n:]), width, unit) for n in depths]
            steps = [layout.stride(loop.digits[0]) for loop in self._loops]
        return AccessView(buffer, is_store, tuple(found), tuple(depends), tuple(steps), unit)

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
    derived = [each for each in flat if each.source is not None and digit in each.source]
    if not derived:
        return flat.get(digit, 0)
    regular: Value = 1
    stride: Value = 0
    for each in derived:
        steps, by = _step_in(each, digit)
        regular = both(regular, steps)
        stride = stride + multiply(flat[each], by)
    is_joined, joined = _joined_stride(flat, digit, derived)
    moved = where(is_joined, joined, multiply(regular, stride))
    # What follows no rule stays so, whatever is added to it.
    return multiply(either(is_joined, regular), moved + flat.get(digit, 0))


def _joined_stride(flat: Terms, digit: Digit, derived: Sequence[Digit]) -> tuple[Value, Value]:
    """Whether all digits of one number are there, times one factor; the stride in that number."""
    source, total = derived[0].source, derived[0].total
    last = next((each for each in derived if type(each.below) is int and each.below == 1), None)
    if last is None or source is None or any(each.source != source for each in derived):
        return 0, 0
    fits: Value = 1
    for each in derived:
        smaller: Value = 1
        for other in derived:
            smaller = multiply(smaller, where(less(other.below, each.below), other.extent, 1))
        follows = both(
            equal(flat[each], multiply(flat[last], each.below)), equal(smaller, each.below)
        )
        fits = both(fits, either(follows, equal(each.extent, 1)))
    if all(each.extent != EVERYTHING for each in derived):
        fits = both(fits, less_equal(total, product_of([each.extent for each in derived])))
    return fits, multiply(flat[last], source[digit])


def _step_in(quotient: Digit, digit: Digit) -> tuple[Value, Value]:
    """Whether all steps of a digit move a quotient by the same number, and that number."""
    source, below, extent = quotient.source, quotient.below, quotient.extent
    assert source is not None
    step = source[digit]
    reach = multiply(step, digit.extent - 1)
    stays = either(less(reach, below), equal(extent, 1))
    divides = equal(remainder(step, below), 0)
    by = where(stays, 0, floor_divide(step, below))
    if extent == EVERYTHING:
        return either(stays, divides), by
    period = multiply(below, extent)
    returns = equal(remainder(step, period), 0)
    others = {each: stride for each, stride in source.items() if each is not digit}
    fits = _stays_between(period, reach, others)
    for each, grid in others.items():
        is_grid = both(is_more_than_one(each.extent), equal(remainder(period, grid), 0))
        fits = either(fits, both(is_grid, _stays_between(grid, reach, others)))
    regular = either(stays, both(divides, either(returns, fits)))
    return regular, where(returns, 0, by)


def _stays_between(grid: Value, reach: Value, others: Terms) -> Value:
    """1 where a digit, with others that are not on a grid, stays between two of its points."""
    total = reach
    for digit, stride in others.items():
        moved = DigitReaches(roots_of([digit])).of({digit: stride})
        total = total + where(equal(remainder(stride, grid), 0), 0, moved)
    return less(total, grid)
