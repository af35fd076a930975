"""A problem as Python text that builds it for CP-SAT; the text alone is a program that runs."""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.algebra import constraints
from tilewright.solver.forms import domain_text, form_of


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
            f"{domain_text(variable.domain)}, {variable.name!r})"
        )
    for number, constraint in enumerate(problem.constraints):
        if with_origins:
            yield f"# {constraint.origin}"
        yield from form_of(constraint).lines(constraint, number)
