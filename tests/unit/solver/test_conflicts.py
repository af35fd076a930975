"""Smallest sets of constraints that conflict, in words."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.solver.problems import SMALL, listed

from tilewright.algebra import constraints as c
from tilewright.solver.conflicts import conflict_of
from tilewright.solver.forms import in_words

LIMIT = "max_threads_per_block = 1024"


def threads() -> c.ConstraintProblem:
    return c.ConstraintProblem(
        (
            c.IntegerVariable("tx", range(1, 65)),
            c.IntegerVariable("ty", range(1, 65)),
            c.IntegerVariable("threads", range(1, 5000)),
            c.IntegerVariable("other", range(1, 9)),
        ),
        (
            c.Le("something else", "other", 4),
            c.Prod("fuse of ty, tx", "threads", ("tx", "ty")),
            c.Le(LIMIT, "threads", 1024),
            c.Eq("the user", "tx", 64),
            c.In("lanes", "ty", (32, 64)),
        ),
    )


def test_the_smallest_set_in_words() -> None:
    assert str(conflict_of(threads())) == (
        "these 4 constraints cannot hold together, any 3 of them can:\n"
        "  threads = tx * ty    (from fuse of ty, tx)\n"
        "  threads <= 1024    (from max_threads_per_block = 1024)\n"
        "  tx = 64    (from the user)\n"
        "  ty in {32, 64}    (from lanes)\n"
        "limits among them: max_threads_per_block = 1024\n"
        "where\n"
        "  tx is from 1 to 64\n"
        "  ty is from 1 to 64\n"
        "  threads is from 1 to 4999"
    )


def test_each_of_them_is_needed() -> None:
    problem = threads()
    conflict = conflict_of(problem)
    assert conflict is not None
    for left_out in conflict.members:
        kept = tuple(each for each in conflict.members if each is not left_out)
        assert conflict_of(replace(problem, constraints=kept)) is None


@pytest.mark.parametrize("make", SMALL.values(), ids=SMALL)
def test_problems_with_solutions_have_no_conflict(make: object) -> None:
    assert callable(make)
    assert listed(make())
    assert conflict_of(make()) is None


def test_one_constraint_alone() -> None:
    problem = c.ConstraintProblem((c.IntegerVariable("a", (2, 4)),), (c.Eq("the user", "a", 3),))
    assert str(conflict_of(problem)) == (
        "this constraint cannot hold:\n  a = 3    (from the user)\nwhere\n  a is one of 2, 4"
    )


def test_an_empty_domain() -> None:
    problem = c.ConstraintProblem((c.IntegerVariable("a", ()),), ())
    assert str(conflict_of(problem)) == "variable 'a' has no value to choose from"


def test_every_constraint_has_words() -> None:
    words = [in_words(each) for make in SMALL.values() for each in make().constraints]
    assert "s = [a, b, c][u]" in words
    assert "pieces = ceil(7 / tile)" in words
    assert "least = min(pieces, other, tile)" in words
    assert "most = max(pieces, other)" in words
    assert "m = a + b + c" in words
    many = c.In("x", "a", tuple(range(20)))
    assert in_words(many) == "a in {0, 1, ..., 19}"
