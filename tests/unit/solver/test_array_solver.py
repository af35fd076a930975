"""Our solver against lists of all solutions: counts, spread, repairs, children, limits."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from unittest import mock

import numpy as np
import pytest
from tests.unit.solver.problems import ORIGIN, SMALL, chi_square_z, listed, tiles

import tilewright.solver.cp_sat  # noqa: F401  (registers itself)
from tilewright.algebra import constraints as c
from tilewright.errors import RegistryError, TuneError
from tilewright.solver import elimination, tables
from tilewright.solver.array_solver import ArraySolver, ArraySpace
from tilewright.solver.base import NO_HINT, NoSolutionError, Solver


def prepared(problem: c.ConstraintProblem) -> ArraySpace:
    return ArraySolver().prepare(problem)


@pytest.mark.parametrize("make", SMALL.values(), ids=SMALL)
def test_counts_all_solutions_and_draws_each(make: Callable[[], c.ConstraintProblem]) -> None:
    problem = make()
    space, wanted = prepared(problem), listed(problem)
    assert space.count == pytest.approx(len(wanted))
    drawn = space.sample(200 * len(wanted), np.random.default_rng(1))
    assert {tuple(row) for row in drawn.values.tolist()} == wanted
    assert drawn.note == ""


@pytest.mark.parametrize("make", SMALL.values(), ids=SMALL)
@pytest.mark.parametrize("seed", range(3))
def test_samples_are_spread_evenly(make: Callable[[], c.ConstraintProblem], seed: int) -> None:
    """A chi-square test: each solution is as likely as any other."""
    problem = make()
    wanted = listed(problem)
    drawn = prepared(problem).sample(400 * len(wanted), np.random.default_rng(seed)).values
    assert abs(chi_square_z(Counter(map(tuple, drawn.tolist())), len(wanted))) < 4


def test_the_test_of_spread_notices_a_bias() -> None:
    wanted = sorted(listed(tiles()))
    rng = np.random.default_rng(0)
    slightly = np.ones(len(wanted))
    slightly[: len(wanted) // 2] = 1.15
    drawn = rng.choice(len(wanted), 400 * len(wanted), p=slightly / slightly.sum())
    assert chi_square_z(Counter(wanted[place] for place in drawn), len(wanted)) > 4


def test_constraints_that_are_postponed_leave_the_spread_even() -> None:
    problem = tiles()
    wanted = listed(problem)
    with mock.patch.object(tables, "MOST_JOINED", 12):
        space = prepared(problem)
        assert space.count is None
        assert set(space.postponed) == {ORIGIN}
        drawn = space.sample(400 * len(wanted), np.random.default_rng(5))
    rows = Counter(map(tuple, drawn.values.tolist()))
    assert set(rows) == wanted
    assert abs(chi_square_z(rows, len(wanted))) < 4


@pytest.mark.parametrize("bits", [4, 8, 40])
@pytest.mark.parametrize("make", SMALL.values(), ids=SMALL)
def test_combinations_that_are_hashed(make: Callable[[], c.ConstraintProblem], bits: int) -> None:
    """Where hashes of different combinations are the same, constraints wait."""
    problem = make()
    wanted = listed(problem)
    numbered = mock.patch.object(tables, "_is_hashed", return_value=True)
    with numbered, mock.patch.object(tables, "_MOST_KEYS", 1 << bits):
        space = prepared(problem)
        assert space.count in (None, pytest.approx(len(wanted)))
        assert space.count is not None or bits < 40
        drawn = space.sample(400 * len(wanted), np.random.default_rng(5))
    rows = Counter(map(tuple, drawn.values.tolist()))
    assert set(rows) == wanted
    assert abs(chi_square_z(rows, len(wanted))) < 4


def test_hardly_any_draw_fits_so_draws_are_repaired() -> None:
    names = [f"x{n}" for n in range(9)]
    sums = (names[:6], names[3:], names[::2])
    problem = c.ConstraintProblem(
        tuple(c.IntegerVariable(name, range(28)) for name in names),
        tuple(c.Sum("a sum", 81, tuple(each)) for each in sums),
    )
    with mock.patch.object(tables, "MOST_JOINED", 60):
        space = prepared(problem)
        found = space.sample(20, np.random.default_rng(0))
    note = r"(\d+) of 20 solutions were repaired, not drawn evenly"
    assert re.fullmatch(note, found.note)
    assert all(not list(problem.broken_by(each)) for each in found.assignments())


def test_a_limit_of_time_returns_what_there_is() -> None:
    found = prepared(tiles()).sample(10**7, np.random.default_rng(0), seconds=1e-3)
    assert 0 < len(found) < 10**7
    note = f"stopped after its limit of 0.001 s with {len(found)} of 10000000 solutions"
    assert found.note == note


def test_a_limit_of_time_for_preparing() -> None:
    problem = SMALL["choices"]()
    space = ArraySolver().prepare(problem, seconds=1e-9)
    found = space.sample(200, np.random.default_rng(0))
    assert found.note == "looked at 1 of 3 cases within its limit of 1e-09 s"
    assert {tuple(row) for row in found.values.tolist()} < listed(problem)


def test_a_limit_of_time_for_samples_counts_from_the_first_question() -> None:
    problem = SMALL["choices"]()
    space = ArraySolver().prepare(problem)  # which looks at nothing yet
    found = space.sample(200, np.random.default_rng(0), seconds=1e-9)
    assert found.note == "looked at 1 of 3 cases within its limit of 1e-09 s"
    assert {tuple(row) for row in found.values.tolist()} < listed(problem)
    later = space.sample(4000, np.random.default_rng(0))  # looks at the others
    assert not later.note
    assert {tuple(row) for row in later.values.tolist()} == listed(problem)
    assert space.count == pytest.approx(len(listed(problem)))


def test_a_case_that_time_was_too_short_for_is_looked_at_again() -> None:
    problem = SMALL["choices"]()
    space = ArraySolver().prepare(problem)
    with mock.patch.object(elimination, "_JOINED_IN_HURRY", 0):
        hurried = space.sample(20, np.random.default_rng(0), seconds=1e-9)
    assert all(not list(problem.broken_by(each)) for each in hurried.assignments())
    assert hurried.note
    later = space.sample(4000, np.random.default_rng(0))
    assert not later.note
    assert {tuple(row) for row in later.values.tolist()} == listed(problem)


def test_repair_keeps_solutions_and_comes_close() -> None:
    problem = tiles()
    space = prepared(problem)
    rows = np.asarray(sorted(listed(problem)))
    rng = np.random.default_rng(0)
    assert (space.repair(rows, rng).values == rows).all()
    wrong = rows.copy()
    wrong[np.arange(len(rows)), rng.integers(0, 6, len(rows))] = NO_HINT
    mended = space.repair(wrong, rng).values
    assert {tuple(row) for row in mended.tolist()} <= listed(problem)
    chance = space.sample(len(rows), rng).values
    assert (mended == rows).mean() > 0.8 > (chance == rows).mean()
    with pytest.raises(TuneError) as error:
        space.repair(np.zeros((2, 3), dtype=np.int64), rng)
    assert str(error.value) == (
        "hints must have a column for each of the 6 variables, got an array of shape (2, 3)"
    )


@pytest.mark.parametrize("make", SMALL.values(), ids=SMALL)
def test_children_take_key_values_from_a_parent(make: Callable[[], c.ConstraintProblem]) -> None:
    problem = make()
    space, rng = prepared(problem), np.random.default_rng(3)
    first, second = (space.sample(300, rng).values for _ in range(2))
    keys = rng.random(first.shape) < 0.5
    children = space.children(first, second, keys, rng).values
    assert {tuple(row) for row in children.tolist()} <= listed(problem)
    assert ((children == first) | (children == second) | ~keys).all()
    differ = (first != second).any(axis=1)
    copies = (children == first).all(axis=1) | (children == second).all(axis=1)
    assert (~copies[differ]).any()


def test_within_smaller_domains() -> None:
    narrow = prepared(tiles()).within({"a": (2, 5), "u": (1,)})
    drawn = narrow.sample(50, np.random.default_rng(0))
    assert set(drawn.column("a")) == {2}
    assert set(drawn.column("u")) == {1}
    with pytest.raises(TuneError) as error:
        prepared(tiles()).within({"nobody": (1,)})
    assert str(error.value) == "the problem has no variable 'nobody' to narrow"


@pytest.mark.parametrize("extent", [1, 2, 7919, 999_983])
def test_extents_of_one_and_primes(extent: int) -> None:
    wide = range(1, 1_000_001)
    problem = c.ConstraintProblem(
        tuple(c.IntegerVariable(name, wide) for name in ("outer", "middle", "inner")),
        (c.Prod("a split", extent, ("outer", "middle", "inner")),),
    )
    space = prepared(problem)
    assert space.count == pytest.approx(1 if extent == 1 else 3)


def test_a_domain_of_a_million_values() -> None:
    many = tuple(range(1, 2_000_001, 2))
    problem = c.ConstraintProblem(
        (
            c.IntegerVariable("a", many),
            c.IntegerVariable("b", many),
            c.IntegerVariable("whole", many),
        ),
        (c.Prod("a split", "whole", ("a", "b")), c.Eq("an extent", "whole", 3**13)),
    )
    assert prepared(problem).count == pytest.approx(14)


def test_wide_products_are_checked_not_listed() -> None:
    wide = range(1, 100_001)
    problem = c.ConstraintProblem(
        (
            c.IntegerVariable("a", wide),
            c.IntegerVariable("b", wide),
            c.IntegerVariable("p", range(1, 1 << 40)),
        ),
        (c.Prod("a product", "p", ("a", "b")), c.Le("a limit", "p", 10**9)),
    )
    space = prepared(problem)
    found = space.sample(500, np.random.default_rng(0))
    assert len(found) == 500
    assert (found.column("a") * found.column("b") == found.column("p")).all()
    assert found.column("p").max() <= 10**9


def test_no_solution() -> None:
    problem = c.ConstraintProblem(
        (c.IntegerVariable("a", range(1, 9)),), (c.Prod("a split", 7, ("a", 2)),)
    )
    space = prepared(problem)
    assert space.is_empty
    assert space.count == 0
    with pytest.raises(NoSolutionError) as error:
        space.sample(1, np.random.default_rng(0))
    assert str(error.value) == (
        "no values satisfy all constraints of the space; `tilewright space why` names the "
        "smallest set of them that conflict"
    )


def test_contradictions_that_only_joins_notice() -> None:
    names = ("x", "y", "z")
    problem = c.ConstraintProblem(
        tuple(c.IntegerVariable(name, range(2)) for name in names),
        tuple(c.Sum("two that differ", 1, pair) for pair in (("x", "y"), ("y", "z"), ("x", "z"))),
    )
    assert prepared(problem).is_empty


@pytest.mark.parametrize(
    ("count", "seconds", "message"),
    [
        (-1, None, "the number of solutions must be at least 0, got -1"),
        (1, 0.0, "the time limit of a solver must be positive, got 0.0"),
    ],
)
def test_bad_questions(count: int, seconds: float | None, message: str) -> None:
    with pytest.raises(TuneError) as error:
        prepared(tiles()).sample(count, np.random.default_rng(0), seconds)
    assert str(error.value) == message


def test_hints_of_another_problem() -> None:
    with pytest.raises(TuneError) as error:
        prepared(tiles()).repair(np.zeros((3, 2), np.int64), np.random.default_rng(0))
    wanted = len(tiles().variables)
    assert str(error.value) == (
        f"hints must have a column for each of the {wanted} variables, got an array of shape (3, 2)"
    )


def test_a_million_values_of_a_user() -> None:
    many = tuple(range(0, 3_000_000, 3))
    problem = c.ConstraintProblem(
        (c.IntegerVariable("a", range(10**7)), c.IntegerVariable("b", range(1, 100))),
        (c.In("the user", "a", many), c.Prod("a split", "a", ("b", 29_997))),
    )
    space = prepared(problem)
    assert space.count == pytest.approx(99)  # 29,997 is a multiple of 3
    assert set(space.sample(2000, np.random.default_rng(0)).column("a")) <= set(many)


def test_solvers_by_name() -> None:
    assert isinstance(Solver.create(), ArraySolver)
    with pytest.raises(RegistryError) as error:
        Solver.create("sat")
    assert str(error.value) == "unknown solver 'sat'; known: arrays, cp-sat"
