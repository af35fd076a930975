"""Variables that follow from others."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from tests.unit.solver.problems import ORIGIN, SMALL, listed

from tilewright.algebra import constraints as c
from tilewright.solver.completion import NO_VALUE, Completion

KNOBS = {
    "tiles": "abu",
    "imperfect": ("tile", "other"),
    "repeated": "y",
    "choices": ("o", "o2", "p", "q"),
}


@pytest.mark.parametrize(("name", "make"), SMALL.items(), ids=SMALL)
def test_solutions_follow_from_their_knobs(
    name: str, make: Callable[[], c.ConstraintProblem]
) -> None:
    problem = make()
    names = [variable.name for variable in problem.variables]
    known = [names.index(knob) for knob in KNOBS[name]]
    completion = Completion(problem, known)
    assert completion.missing == ()
    rows = np.asarray(sorted(listed(problem)))
    blank = np.zeros_like(rows)
    blank[:, known] = rows[:, known]
    assert (completion.rows(blank) == rows).all()


def test_what_does_not_fit_and_what_does_not_follow() -> None:
    problem = c.ConstraintProblem(
        tuple(c.IntegerVariable(name, range(1, 9)) for name in "abxyz"),
        (c.Prod(ORIGIN, 6, ("a", "b")), c.SelectFrom(ORIGIN, "x", "y", (3, 5))),
    )
    completion = Completion(problem, [0, 2])
    assert completion.missing == ("z",)
    rows = completion.rows(np.asarray([[4, 0, 5, 0, 0], [3, 0, 4, 0, 0]]))
    assert rows.tolist() == [[4, NO_VALUE, 5, 1, 0], [3, 2, 4, NO_VALUE, 0]]
