"""Winograd transforms of one axis at the points 0, `+-a` for some numbers `a`, and infinity.

F(m, 3) computes m outputs of a filter of three taps with m + 2 multiplications. Points in pairs of
opposite signs make the transforms cheap: the two rows of a pair are the sum and the difference of
an even and an odd part, and those have few terms. A point and its inverse keep them accurate.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from tilewright.errors import TensorExpressionError
from tilewright.ir import PrimExpr, Select, const

TAPS = 3


@dataclass(frozen=True)
class WinogradPoints:
    """The squares of the numbers `a`; transforms have rows for 0, a, -a, ..., infinity."""

    squares: tuple[Fraction, ...]

    @property
    def outputs(self) -> int:
        """Of a tile, along one axis."""
        return 2 * len(self.squares)

    @property
    def alpha(self) -> int:
        """Inputs of a tile along one axis; so many products as well."""
        return self.outputs + TAPS - 1

    def data(self, x: Sequence[PrimExpr]) -> list[PrimExpr]:
        """The transform of the inputs of a tile."""
        whole = _polynomial(self.squares)
        rows = [_every_second(whole, x, 0)]
        for square in self.squares:
            rest = _polynomial([other for other in self.squares if other != square])
            even = _every_second(rest, x, 2)
            odd = _scaled(math.sqrt(square), _every_second(rest, x, 1))
            rows += [even + odd, even - odd]
        return [*rows, _every_second(whole, x, 1)]

    def filters(self) -> list[list[float]]:
        """The matrix by which the taps of a filter are multiplied."""
        rows = [[float(1 / _value(self.squares, Fraction(0))), 0.0, 0.0]]
        for square in self.squares:
            weight = 2 * square * _value([s for s in self.squares if s != square], square)
            even, odd = float(1 / weight), math.sqrt(square) / float(weight)
            rows += [[even, sign * odd, float(square / weight)] for sign in (1, -1)]
        return [*rows, [0.0, 0.0, 1.0]]

    def results(self, y: Sequence[PrimExpr]) -> list[PrimExpr]:
        """The outputs of a tile from the products at all points."""
        opposite = [(y[1 + 2 * n], y[2 + 2 * n]) for n in range(len(self.squares))]
        sums, differences = [a + b for a, b in opposite], [a - b for a, b in opposite]
        made = []
        for power in range(self.outputs):
            parts = differences if power % 2 else sums
            first = [y[0]] if power == 0 else [y[-1]] if power == self.outputs - 1 else []
            factors = [_power(square, power) for square in self.squares]
            made.append(_total([*first, *map(_scaled, factors, parts)]))
        return made


_POINTS = {
    2: WinogradPoints((Fraction(1),)),
    4: WinogradPoints((Fraction(1, 2), Fraction(2))),
    6: WinogradPoints((Fraction(1, 4), Fraction(1), Fraction(4))),
}


def winograd_points(outputs: int) -> WinogradPoints:
    """The points for tiles of so many outputs along an axis."""
    if outputs not in _POINTS:
        known = ", ".join(map(str, _POINTS))
        raise TensorExpressionError(f"winograd: tile_size must be one of {known}, got {outputs}")
    return _POINTS[outputs]


def chosen(index: PrimExpr, values: Sequence[PrimExpr]) -> PrimExpr:
    """The value with that number; where the index is known, nothing else is left."""
    *others, value = values
    for number, other in reversed(list(enumerate(others))):
        value = Select(index.equal(number), other, value)
    return value


def _polynomial(squares: Sequence[Fraction]) -> list[Fraction]:
    """The product of all `x**2 - square`: coefficients of even powers, in ascending order."""
    made = [Fraction(1)]
    for square in squares:
        shifted, scaled = [Fraction(0), *made], [*(square * c for c in made), Fraction(0)]
        made = [a - b for a, b in zip(shifted, scaled, strict=True)]
    return made


def _value(squares: Sequence[Fraction], x: Fraction) -> Fraction:
    """That product for the square of a number."""
    return math.prod((x - square for square in squares), start=Fraction(1))


def _power(square: Fraction, power: int) -> float:
    """A power of the root of a square; even ones are exact."""
    return float(square ** (power // 2)) * (math.sqrt(square) if power % 2 else 1.0)


def _every_second(coefficients: Sequence[Fraction], x: Sequence[PrimExpr], first: int) -> PrimExpr:
    """The sum of every second input, from `first` on, times a coefficient."""
    terms = [_scaled(float(c), x[first + 2 * n]) for n, c in enumerate(coefficients) if c]
    return _total(terms[::-1])  # the last coefficient is 1: the others are multiplied and added


def _scaled(factor: float, value: PrimExpr) -> PrimExpr:
    return value if factor == 1.0 else value * const(factor, value.dtype)


def _total(terms: Sequence[PrimExpr]) -> PrimExpr:
    total, *rest = terms
    for term in rest:
        total = total + term
    return total
