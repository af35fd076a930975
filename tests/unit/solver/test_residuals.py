"""Distances from legality are 0 for solutions, and only for them."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest
from tests.unit.solver.problems import SMALL, listed

from tilewright.algebra import constraints as c
from tilewright.solver.residuals import violations


@pytest.mark.parametrize("make", SMALL.values(), ids=SMALL)
def test_zero_is_a_solution(make: Callable[[], c.ConstraintProblem]) -> None:
    problem = make()
    everything = itertools.product(*(variable.domain for variable in problem.variables))
    rows = np.asarray(list(itertools.islice(everything, 0, None, 37)) + sorted(listed(problem)))
    is_legal = violations(problem, rows).sum(axis=1) == 0
    assert {tuple(row) for row in rows[is_legal].tolist()} == listed(problem)


def test_distances() -> None:
    problem = c.ConstraintProblem(
        (c.IntegerVariable("a", range(1, 9)), c.IntegerVariable("b", range(1, 9))),
        (c.Le("x", "a", 4), c.Prod("x", 12, ("a", "b")), c.In("x", "b", (2, 7))),
    )
    found = violations(problem, np.asarray([[6, 3], [3, 4], [9, 1]]))
    assert found.tolist() == [[2, 6, 1, 0], [0, 0, 2, 0], [5, 3, 1, 1]]
