"""The transform matrices of Winograd convolution, from interpolation points by Cook and Toom.

F(m, r) computes m outputs of a filter of size r with m + r - 1 multiplications: evaluate both
polynomials at m + r - 2 points and at infinity, multiply, interpolate.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import TypeAlias

from tilewright import te
from tilewright.errors import TensorExpressionError
from tilewright.ir import PrimExpr, Select, Var, const, logical_and
from tilewright.te import Tensor

Matrix: TypeAlias = list[list[Fraction]]

# Small numbers and their inverses keep the transforms well conditioned.
_FEW_POINTS = [Fraction(n) for n in ("0", "-1", "1", "1/2", "-2")]
_MANY_POINTS = [
    Fraction(n) for n in ("0", "-1", "1", "1/2", "-1/2", "2", "-2", "1/4", "-1/4", "4", "-4")
]


def interpolation_points(count: int) -> list[Fraction]:
    """The finite points used for `count` evaluations."""
    points = _FEW_POINTS if count <= len(_FEW_POINTS) else _MANY_POINTS
    if count > len(points):
        raise TensorExpressionError(
            f"winograd: a transform with {count} points is not supported, at most {len(points)}; "
            "choose a smaller tile"
        )
    return points[:count]


def product_of(roots: Sequence[Fraction]) -> list[Fraction]:
    """The product of all `x - root`, coefficients in ascending order."""
    polynomial = [Fraction(1)]
    for root in roots:
        shifted, scaled = [Fraction(0), *polynomial], [*(root * c for c in polynomial), Fraction(0)]
        polynomial = [a - b for a, b in zip(shifted, scaled, strict=True)]
    return polynomial


def transform_matrices(tile_size: int, kernel_size: int) -> tuple[Matrix, Matrix, Matrix]:
    """A (inverse), B (data) and G (filter): `Y = A^T ((G g) * (B^T d))` for each axis."""
    alpha = tile_size + kernel_size - 1
    points = interpolation_points(alpha - 1)
    others = [[q for q in points if q != p] for p in points]
    weights = [
        math.prod((p - q for q in rest), start=Fraction(1))
        for p, rest in zip(points, others, strict=True)
    ]
    # The first weight is made positive, which moves its sign into the data transform.
    sign = [Fraction(-1 if k == 0 and w < 0 else 1) for k, w in enumerate(weights)]
    infinity = [Fraction(0)]
    inverse = [[p**j for j in range(tile_size)] for p in points]
    inverse.append(infinity * (tile_size - 1) + [Fraction(1)])
    filters = [
        [p**j / (w * s) for j in range(kernel_size)]
        for p, w, s in zip(points, weights, sign, strict=True)
    ]
    filters.append(infinity * (kernel_size - 1) + [Fraction(1)])
    columns = [
        [c * s for c in product_of(rest)] + [Fraction(0)]
        for rest, s in zip(others, sign, strict=True)
    ]
    columns.append(product_of(points))
    data = [[column[row] for column in columns] for row in range(alpha)]
    return inverse, data, filters


def constant_matrix(matrix: Matrix, dtype: str, name: str) -> Tensor:
    """A small matrix as a tensor; every element is chosen by comparing indices."""
    rows, columns = len(matrix), len(matrix[0])

    def element(i: Var, j: Var) -> PrimExpr:
        value = const(0.0, dtype)
        for r in range(rows):
            for c in range(columns):
                here = logical_and((i % rows).equal(r), (j % columns).equal(c))
                value = Select(here, const(float(matrix[r][c]), dtype), value)
        return value

    attrs = {"const_matrix": True, "schedule_rule": "None"}
    return te.compute((rows, columns), element, name=name, attrs=attrs)
