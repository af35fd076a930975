"""A problem as Python text that builds it for CP-SAT; the text alone is a program that runs."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import singledispatch

from tilewright.algebra import constraints
from tilewright.solver.domains import value_set

_LARGEST = 1 << 45  # of a temporary product; CP-SAT wants room for sums


def model_program(problem: constraints.ConstraintProblem) -> str:
    """A program that builds the model, solves it and prints a solution."""
    lines = [
        "from ortools.sat.python import cp_model",
        "",
        "model = cp_model.CpModel()",
        "v = {}",
        *model_lines(problem, with_origins=True),
        "",
        'if __name__ == "__main__":',
        "    solver = cp_model.CpSolver()",
        "    status = solver.solve(model)",
        "    print(solver.status_name(status))",
        "    if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):",
        "        for name, variable in v.items():",
        "            print(f'{name} = {solver.value(variable)}')",
    ]
    return "\n".join(lines) + "\n"


def model_lines(
    problem: constraints.ConstraintProblem, with_origins: bool = False
) -> Iterator[str]:
    """A line a variable and at least one a constraint, on `model`, `v` and `cp_model`."""
    for variable in problem.variables:
        yield (
            f"v[{variable.name!r}] = model.new_int_var_from_domain("
            f"{_domain(variable.domain)}, {variable.name!r})"
        )
    for number, constraint in enumerate(problem.constraints):
        if with_origins:
            yield f"# {constraint.origin}"
        yield from _posted(constraint, number)


def _domain(domain: constraints.Domain) -> str:
    values = value_set(domain)
    if values.listed is None or values.size == values.high - values.low + 1:
        return f"cp_model.Domain({values.low}, {values.high})"
    return f"cp_model.Domain.from_values({values.values.tolist()})"


def _term(term: constraints.Term) -> str:
    return f"v[{term!r}]" if isinstance(term, str) else str(term)


def _listed(terms: tuple[constraints.Term, ...]) -> str:
    return "[" + ", ".join(map(_term, terms)) + "]"


@singledispatch
def _posted(constraint: constraints.Constraint, number: int) -> Iterator[str]:
    raise TypeError(f"no solver knows constraints of type {type(constraint).__name__}")


@_posted.register
def _(constraint: constraints.Prod, number: int) -> Iterator[str]:
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


@_posted.register
def _(constraint: constraints.Sum, number: int) -> Iterator[str]:
    yield f"model.add({_term(constraint.result)} == sum({_listed(constraint.addends)}))"


@_posted.register
def _(constraint: constraints.Eq, number: int) -> Iterator[str]:
    yield f"model.add({_term(constraint.left)} == {_term(constraint.right)})"


@_posted.register
def _(constraint: constraints.Le, number: int) -> Iterator[str]:
    yield f"model.add({_term(constraint.left)} <= {_term(constraint.right)})"


@_posted.register
def _(constraint: constraints.In, number: int) -> Iterator[str]:
    variable = _term(constraint.variable)
    domain = _domain(tuple(sorted(constraint.values)))
    yield f"model.add_linear_expression_in_domain({variable}, {domain})"


@_posted.register
def _(constraint: constraints.SelectFrom, number: int) -> Iterator[str]:
    index, result = _term(constraint.index), _term(constraint.result)
    yield f"model.add_element({index}, {_listed(constraint.choices)}, {result})"


@_posted.register
def _(constraint: constraints.CeilDiv, number: int) -> Iterator[str]:
    dividend, divisor = _term(constraint.dividend), _term(constraint.divisor)
    raised = f"t{number}_0"
    yield f"{raised} = model.new_int_var(0, {_LARGEST}, '{raised}')"
    yield f"model.add({raised} == {dividend} + {divisor} - 1)"
    yield f"model.add({divisor} >= 1)" if isinstance(constraint.divisor, str) else "pass"
    yield f"model.add_division_equality({_term(constraint.result)}, {raised}, {divisor})"


@_posted.register
def _(constraint: constraints.MinOf, number: int) -> Iterator[str]:
    yield f"model.add_min_equality({_term(constraint.result)}, {_listed(constraint.operands)})"


@_posted.register
def _(constraint: constraints.MaxOf, number: int) -> Iterator[str]:
    yield f"model.add_max_equality({_term(constraint.result)}, {_listed(constraint.operands)})"
