"""Bounds of index expressions against all the values they take."""

from __future__ import annotations

import itertools

from hypothesis import given, strategies as st

from tilewright.arith.affine import Affine, affine_of
from tilewright.arith.symbolic_bounds import (
    SymbolicBounds,
    SymbolicInterval,
    UnboundedError,
    expr_of,
)
from tilewright.ir import (
    IntImm,
    PrimExpr,
    Var,
    const,
    floordiv,
    floormod,
    maximum,
    minimum,
    substitute,
)

LOOPS = {Var("i"): (0, 3), Var("j"): (-2, 2)}
FREE = Var("n")


def expressions() -> st.SearchStrategy[PrimExpr]:
    leaves: st.SearchStrategy[PrimExpr] = st.one_of(
        st.sampled_from([*LOOPS, FREE]), st.integers(-4, 4).map(const)
    )

    def extend(inner: st.SearchStrategy[PrimExpr]) -> st.SearchStrategy[PrimExpr]:
        pairs = st.tuples(inner, inner)
        factor = st.integers(-3, 3)
        divisor = st.integers(1, 4)
        return st.one_of(
            pairs.map(lambda p: p[0] + p[1]),
            pairs.map(lambda p: p[0] - p[1]),
            pairs.map(lambda p: minimum(*p)),
            pairs.map(lambda p: maximum(*p)),
            st.tuples(inner, factor).map(lambda p: p[0] * p[1]),
            st.tuples(inner, divisor).map(lambda p: floordiv(*p)),
            st.tuples(inner, divisor).map(lambda p: floormod(*p)),
        )

    return st.recursive(leaves, extend, max_leaves=6)


def number(expr: PrimExpr, values: dict[Var, int]) -> int:
    """The value of an expression; building it anew folds all constants."""
    folded = substitute(expr, {var: const(value) for var, value in values.items()})
    result = _refold(folded)
    assert isinstance(result, IntImm)
    return result.value


def _refold(expr: PrimExpr) -> PrimExpr:
    from tilewright.ir.script_forms import INFIX, PREFIX

    if isinstance(expr, (IntImm, Var)):
        return expr
    build = INFIX[type(expr)][2] if type(expr) in INFIX else PREFIX[type(expr)][1]  # type: ignore[index]
    return build(_refold(expr.a), _refold(expr.b))  # type: ignore[attr-defined]


@given(expressions(), st.integers(-5, 5))
def test_bounds_contain_every_value(expr: PrimExpr, n: int) -> None:
    symbolic = SymbolicBounds()
    for var, ends in LOOPS.items():
        first, last = (Affine({}, end) for end in ends)
        symbolic.domains[var] = SymbolicInterval(first, last, var.dtype)
    try:
        bounds = symbolic.of(expr)
    except UnboundedError:
        return
    low, high = (number(expr_of(end, expr.dtype), {FREE: n}) for end in (bounds.low, bounds.high))
    ranges = [range(low_, high_ + 1) for low_, high_ in LOOPS.values()]
    for point in itertools.product(*ranges):
        value = number(expr, {**dict(zip(LOOPS, point, strict=True)), FREE: n})
        assert low <= value <= high


@given(expressions(), st.integers(-5, 5), st.integers(-5, 5), st.integers(-5, 5))
def test_linear_form_has_the_value_of_the_expression(
    expr: PrimExpr, n: int, i: int, j: int
) -> None:
    values = {**dict(zip(LOOPS, (i, j), strict=True)), FREE: n}
    assert number(expr_of(affine_of(expr), expr.dtype), values) == number(expr, values)
