"""Means and variances of rows, as products with a column of equal shares."""

from __future__ import annotations

from collections.abc import Callable

from tilewright import te
from tilewright.errors import TuneError
from tilewright.heron.operators.base import HeronOperator, OperatorCase, heron_operators
from tilewright.heron.operators.matrices import Element, MatrixProduct
from tilewright.ir import PrimExpr

_Result = Callable[[te.Tensor], te.Tensor]


@heron_operators.register("mean")
def mean(case: OperatorCase) -> HeronOperator:
    """The mean of each of M rows of K elements."""
    m, k = case.sizes(("M", "K"))
    data = te.placeholder((m, k), case.in_dtype, "A")

    def left(row: PrimExpr, column: PrimExpr) -> PrimExpr:
        return data(row, column)

    return _shares(case, data, (m, k), left)


@heron_operators.register("var")
def var(case: OperatorCase) -> HeronOperator:
    """The variance of each of M rows: the mean of squares less the square of the mean."""
    m, k = case.sizes(("M", "K"))
    data = te.placeholder((m, k), case.in_dtype, "A")

    def left(row: PrimExpr, column: PrimExpr) -> PrimExpr:
        value = data(row % m, column)
        return te.if_then_else(row < m, value, value * value)

    def result(dense: te.Tensor) -> te.Tensor:
        return te.compute(
            (m, 1), lambda i, _: dense[i + m, 0] - dense[i, 0] * dense[i, 0], name="out"
        )

    return _shares(case, data, (2 * m, k), left, result)


def _shares(
    case: OperatorCase,
    data: te.Tensor,
    sizes: tuple[int, int],
    left: Element,
    result: _Result | None = None,
) -> HeronOperator:
    if not case.as_matrices:
        raise TuneError(
            f"operator {case.operator!r} is a product for tensor cores: use the platform "
            "'tensorcore'"
        )
    m, k = sizes

    def right(row: PrimExpr, column: PrimExpr) -> PrimExpr:
        return te.const(1.0 / k, case.in_dtype)

    return MatrixProduct(case, (), (m, k, 1), (data,), left, right, run=k, result=result).operator()
