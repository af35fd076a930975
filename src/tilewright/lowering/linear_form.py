"""Index expressions as sums of variables times constants, where they have that form."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tilewright.ir import Add, IntImm, Mul, PrimExpr, Sub, Var, uses_var


@dataclass(frozen=True)
class LinearForm:
    """`sum(coefficients[v] * v) + constant`, plus parts that use none of the chosen variables."""

    coefficients: dict[Var, int]
    constant: int
    others: tuple[PrimExpr, ...] = ()

    def plus(self, other: LinearForm, sign: int) -> LinearForm:
        merged = dict(self.coefficients)
        for var, factor in other.coefficients.items():
            merged[var] = merged.get(var, 0) + sign * factor
        others = self.others + other.others
        return LinearForm(merged, self.constant + sign * other.constant, others)

    def times(self, factor: int) -> LinearForm:
        scaled = {var: factor * old for var, old in self.coefficients.items()}
        return LinearForm(scaled, factor * self.constant, self.others)


def linear_form(expr: PrimExpr, is_variable: Callable[[Var], bool]) -> LinearForm | None:
    """`expr` as a linear form in the variables that `is_variable` accepts, or None."""
    match expr:
        case IntImm():
            return LinearForm({}, expr.value)
        case Var() if is_variable(expr):
            return LinearForm({expr: 1}, 0)
        case Add() | Sub():
            a, b = linear_form(expr.a, is_variable), linear_form(expr.b, is_variable)
            if a is None or b is None:
                return None
            return a.plus(b, 1 if isinstance(expr, Add) else -1)
        case Mul(a=a, b=IntImm(value=factor)) | Mul(a=IntImm(value=factor), b=a):
            inner = linear_form(a, is_variable)
            return None if inner is None else inner.times(factor)
    return None if uses_var(expr, is_variable) else LinearForm({}, 0, (expr,))


def is_injective(coefficients: Iterable[int], extents: Iterable[int]) -> bool:
    """True when no two points of a box share a value of the form with these coefficients.

    Sorted by size, each coefficient must reach beyond everything the smaller ones can add up to.
    """
    reach = 0
    for coefficient, extent in sorted(zip(map(abs, coefficients), extents, strict=True)):
        if extent > 1:
            if coefficient <= reach:
                return False
            reach += coefficient * (extent - 1)
    return True


def is_dense(coefficients: Iterable[int], extents: Iterable[int]) -> bool:
    """True when a form with these coefficients reaches every number between its ends."""
    reach = 0
    for coefficient, extent in sorted(zip(map(abs, coefficients), extents, strict=True)):
        if coefficient > reach + 1:
            return False
        reach += coefficient * (extent - 1)
    return True
