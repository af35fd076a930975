"""Kinds of constraints, one entry each: their words, their lines for CP-SAT, their residuals.

A residual is how far numbers are from satisfying a constraint. A new kind needs an entry here and,
for our own solver, its relations in `network`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.algebra import constraints
from tilewright.solver.domains import value_set

Residual = NDArray[np.float64]
Column = Callable[[constraints.Term], Residual]  # the numbers that a term stands for, row by row

_LARGEST = 1 << 45  # of a temporary product; CP-SAT wants room for sums
_MOST_LISTED = 8


@dataclass(frozen=True)
class ConstraintForm:
    """How a kind of constraint is written, posted and measured."""

    words: Callable[[Any], str]
    lines: Callable[[Any, int], Iterator[str]]  # the number makes names of temporaries unique
    residual: Callable[[Any, Column], Residual]


def form_of(constraint: constraints.Constraint) -> ConstraintForm:
    """The form of a constraint's kind."""
    found = _FORMS.get(type(constraint))
    if found is None:
        raise TypeError(f"no solver knows constraints of type {type(constraint).__name__}")
    return found


# --- words --------------------------------------------------------------------------------------


def in_words(constraint: constraints.Constraint) -> str:
    """A constraint as a formula."""
    return form_of(constraint).words(constraint)


def _listed(terms: Sequence[object]) -> str:
    return ", ".join(map(str, terms))


def _joined(terms: Sequence[object], sign: str) -> str:
    return f" {sign} ".join(map(str, terms))


def _members(values: tuple[int, ...]) -> str:
    if len(values) <= _MOST_LISTED:
        return _listed(values)
    return f"{values[0]}, {values[1]}, ..., {values[-1]}"


# --- lines of a program that builds a model for CP-SAT --------------------------------------------


def domain_text(domain: constraints.Domain) -> str:
    """A domain as CP-SAT writes it."""
    values = value_set(domain)
    if values.listed is None or values.size == values.high - values.low + 1:
        return f"cp_model.Domain({values.low}, {values.high})"
    return f"cp_model.Domain.from_values({values.values.tolist()})"


def _term(term: constraints.Term) -> str:
    return f"v[{term!r}]" if isinstance(term, str) else str(term)


def _terms(terms: tuple[constraints.Term, ...]) -> str:
    return f"[{', '.join(map(_term, terms))}]"


def _prod_lines(constraint: constraints.Prod, number: int) -> Iterator[str]:
    names = [term for term in constraint.factors if isinstance(term, str)]
    factor = math.prod(term for term in constraint.factors if isinstance(term, int))
    result = _term(constraint.result)
    if not names:
        yield f"model.add({result} == {factor})" if result != str(factor) else "pass"
        return
    product = _term(names[0])
    for step, name in enumerate(names[1:]):
        partial = f"t{number}_{step}"
        yield f"{partial} = model.new_int_var(-{_LARGEST}, {_LARGEST}, '{partial}')"
        yield f"model.add_multiplication_equality({partial}, [{product}, {_term(name)}])"
        product = partial
    yield f"model.add({result} == {factor} * {product})"


def _pieces_lines(constraint: constraints.CeilDiv, number: int) -> Iterator[str]:
    dividend, divisor = _term(constraint.dividend), _term(constraint.divisor)
    raised = f"t{number}_0"
    yield f"{raised} = model.new_int_var(0, {_LARGEST}, '{raised}')"
    yield f"model.add({raised} == {dividend} + {divisor} - 1)"
    yield f"model.add({divisor} >= 1)" if isinstance(constraint.divisor, str) else "pass"
    yield f"model.add_division_equality({_term(constraint.result)}, {raised}, {divisor})"


def _line(text: Callable[[Any], str]) -> Callable[[Any, int], Iterator[str]]:
    """One line, without temporaries."""
    return lambda constraint, number: iter([f"model.{text(constraint)}"])


# --- residuals ----------------------------------------------------------------------------------


def _from_result(
    combine: Callable[[Any], NDArray[Any]], operands: Callable[[Any], tuple[constraints.Term, ...]]
) -> Callable[[Any, Column], Residual]:
    """The distance of the result from what operands make together."""

    def residual(constraint: Any, column: Column) -> Residual:
        made = combine([column(term) for term in operands(constraint)])
        return np.asarray(np.abs(column(constraint.result) - made))

    return residual


def _in_residual(constraint: constraints.In, column: Column) -> Residual:
    allowed = np.asarray(sorted(constraint.values), dtype=np.float64)
    own = column(constraint.variable)
    right = np.searchsorted(allowed, own).clip(max=len(allowed) - 1)
    left = np.maximum(right - 1, 0)
    nearest = np.minimum(np.abs(allowed[left] - own), np.abs(allowed[right] - own))
    return np.asarray(nearest)


def _select_residual(constraint: constraints.SelectFrom, column: Column) -> Residual:
    choices = np.stack([column(term) for term in constraint.choices])
    index = column(constraint.index)
    near = index.clip(0, len(choices) - 1).astype(np.int64)
    chosen = choices[near, np.arange(choices.shape[1])]
    return np.asarray(np.abs(column(constraint.result) - chosen) + np.abs(index - near))


def _pieces_residual(constraint: constraints.CeilDiv, column: Column) -> Residual:
    divisor = column(constraint.divisor)
    pieces = np.ceil(column(constraint.dividend) / np.maximum(divisor, 1.0))
    return np.asarray(np.abs(column(constraint.result) - pieces) + np.maximum(0.0, 1.0 - divisor))


# --- the table ----------------------------------------------------------------------------------

_FORMS: dict[type[constraints.Constraint], ConstraintForm] = {
    constraints.Prod: ConstraintForm(
        lambda c: f"{c.result} = {_joined(c.factors, '*')}",
        _prod_lines,
        _from_result(lambda columns: np.prod(columns, axis=0), lambda c: (1, *c.factors)),
    ),
    constraints.Sum: ConstraintForm(
        lambda c: f"{c.result} = {_joined(c.addends, '+')}",
        _line(lambda c: f"add({_term(c.result)} == sum({_terms(c.addends)}))"),
        _from_result(lambda columns: np.sum(columns, axis=0), lambda c: (0, *c.addends)),
    ),
    constraints.Eq: ConstraintForm(
        lambda c: f"{c.left} = {c.right}",
        _line(lambda c: f"add({_term(c.left)} == {_term(c.right)})"),
        lambda c, column: np.abs(column(c.left) - column(c.right)),
    ),
    constraints.Le: ConstraintForm(
        lambda c: f"{c.left} <= {c.right}",
        _line(lambda c: f"add({_term(c.left)} <= {_term(c.right)})"),
        lambda c, column: np.maximum(0.0, column(c.left) - column(c.right)),
    ),
    constraints.In: ConstraintForm(
        lambda c: f"{c.variable} in {{{_members(c.values)}}}",
        _line(
            lambda c: (
                f"add_linear_expression_in_domain({_term(c.variable)}, "
                f"{domain_text(tuple(sorted(c.values)))})"
            )
        ),
        _in_residual,
    ),
    constraints.SelectFrom: ConstraintForm(
        lambda c: f"{c.result} = [{_listed(c.choices)}][{c.index}]",
        _line(lambda c: f"add_element({_term(c.index)}, {_terms(c.choices)}, {_term(c.result)})"),
        _select_residual,
    ),
    constraints.CeilDiv: ConstraintForm(
        lambda c: f"{c.result} = ceil({c.dividend} / {c.divisor})",
        _pieces_lines,
        _pieces_residual,
    ),
    constraints.MinOf: ConstraintForm(
        lambda c: f"{c.result} = min({_listed(c.operands)})",
        _line(lambda c: f"add_min_equality({_term(c.result)}, {_terms(c.operands)})"),
        _from_result(lambda columns: np.min(columns, axis=0), lambda c: c.operands),
    ),
    constraints.MaxOf: ConstraintForm(
        lambda c: f"{c.result} = max({_listed(c.operands)})",
        _line(lambda c: f"add_max_equality({_term(c.result)}, {_terms(c.operands)})"),
        _from_result(lambda columns: np.max(columns, axis=0), lambda c: c.operands),
    ),
}
