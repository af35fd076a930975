"""The reach of sums of digits while some loops run and the others stand at zero."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence, Set
from fractions import Fraction

from tilewright.algebra.expr import (
    Value,
    bounds,
    equal,
    factors_of,
    floor_divide,
    minimum,
    multiply,
    product_of,
    remainder,
    where,
)
from tilewright.algebra.loop_tree import Digit, Predicate, roots_of

Form = Mapping[Digit, Value]


class DigitReaches:
    """The reach of sums while the loops of `running` run, held back by predicates."""

    def __init__(self, running: Set[Digit], predicates: Sequence[Predicate] = ()) -> None:
        self._running = running
        self._predicates = sorted(predicates, key=lambda each: -len(each.terms))
        self._known: dict[Digit, Value] = {}

    def of(self, terms: Form) -> Value:
        """How far apart the ends of a sum are."""
        return self._of(dict(terms), self._predicates)

    def _of(self, terms: dict[Digit, Value], predicates: Sequence[Predicate]) -> Value:
        for number, predicate in enumerate(predicates):
            held = _held(predicate, terms)
            if held is not None:
                part, last = held
                rest = {digit: c for digit, c in terms.items() if digit not in part}
                inside = predicates[number + 1 :]
                return minimum(self._of(part, inside), last) + self._of(rest, inside)
        total: Value = 0
        loops: list[tuple[Value, Value]] = []  # strides and extents
        for digit, coefficient in terms.items():
            if digit.source is None and digit not in self._running:
                continue
            size = multiply(coefficient, -1) if bounds(coefficient)[1] <= 0 else coefficient
            if digit.source is None:
                loops.append((size, digit.extent))
            else:
                total = total + multiply(size, self._of_digit(digit))
        for stride, extent in _joined(loops):
            whole = multiply(stride, extent - 1)
            # So that a constant that is added next leaves a multiple of the stride.
            total = total + (multiply(stride, extent) - stride if type(stride) is int else whole)
        return total

    def _of_digit(self, digit: Digit) -> Value:
        if digit.source is None:
            return digit.extent - 1 if digit in self._running else 0
        known = self._known.get(digit)
        if known is None and digit.is_covered and roots_of(digit.source) <= self._running:
            known = self._known[digit] = digit.extent - 1
        if known is None:
            whole = minimum(self.of(_within(digit)), digit.total - 1)
            if self._predicates:  # they may hold back what whole rounds are a part of
                whole = minimum(whole, self.of(digit.source))
            known = minimum(floor_divide(whole, digit.below), digit.extent - 1)
            self._known[digit] = known
        return known


def _joined(loops: list[tuple[Value, Value]]) -> list[tuple[Value, Value]]:
    """Loops that continue each other as one loop: its extent is a product, no sum."""
    left = list(loops)
    joined = True
    while joined:
        joined = False
        for outer, inner in itertools.permutations(left, 2):
            follows = multiply(inner[0], inner[1])
            if outer[0] is follows or (
                type(outer[0]) is type(follows) is int and outer[0] == follows
            ):
                left.remove(outer)
                left[left.index(inner)] = (inner[0], multiply(outer[1], inner[1]))
                joined = True
                break
    return left


def _within(digit: Digit) -> dict[Digit, Value]:
    """What a digit is made of, without what moves it by whole rounds."""
    assert digit.source is not None
    period = multiply(digit.below, digit.extent)
    return {
        each: where(equal(remainder(stride, period), 0), 0, stride)
        for each, stride in digit.source.items()
    }


def _held(
    predicate: Predicate, terms: Mapping[Digit, Value]
) -> tuple[dict[Digit, Value], Value] | None:
    """The part of a sum that a predicate holds back, and the largest value that it leaves."""
    shared = [digit for digit in predicate.terms if digit in terms]
    if not shared:
        return None
    ratios = {_ratio(terms[digit], predicate.terms[digit]) for digit in shared}
    ratio = ratios.pop()
    if ratios or ratio is None or ratio[0] <= 0:
        return None
    share, more = ratio
    last = multiply(predicate.limit - 1, share.numerator)
    last = floor_divide(multiply(last, product_of(more)), share.denominator)
    return {digit: terms[digit] for digit in shared}, last


def _ratio(coefficient: Value, stride: Value) -> tuple[Fraction, tuple] | None:  # type: ignore[type-arg]
    """How many times a stride a coefficient is: a number, and expressions that it has more."""
    (first, left), (second, right) = factors_of(coefficient), factors_of(stride)
    more = list(left)
    for factor in right:
        if factor not in more:
            return None
        more.remove(factor)
    return Fraction(first, second), tuple(more)


def scaled(terms: Form, factor: Value) -> dict[Digit, Value]:
    """`factor * terms`."""
    return {digit: multiply(stride, factor) for digit, stride in terms.items()}


def summed(forms: Sequence[Form]) -> dict[Digit, Value]:
    """The sum of several forms."""
    total: dict[Digit, Value] = {}
    for form in forms:
        for digit, stride in form.items():
            total[digit] = total[digit] + stride if digit in total else stride
    return total
