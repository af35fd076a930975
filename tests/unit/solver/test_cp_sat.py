"""CP-SAT against our solver and against lists of all solutions; its absence."""

from __future__ import annotations

import runpy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.unit.heron.convolutions import space
from tests.unit.solver.problems import SMALL, listed, tiles

from tilewright.algebra import constraints as c
from tilewright.errors import TuneError
from tilewright.solver.array_solver import ArraySolver
from tilewright.solver.cp_sat import CpSatSolver
from tilewright.solver.model_text import model_program

NEEDS_ORTOOLS = pytest.mark.skipif(
    not __import__("importlib.util").util.find_spec("ortools"),
    reason="the package ortools is missing: pip install 'tilewright[solver]'",
)


def test_a_missing_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ortools.sat.python", None)
    monkeypatch.setitem(sys.modules, "ortools", None)
    with pytest.raises(TuneError) as error:
        CpSatSolver()
    assert str(error.value) == (
        "the solver 'cp-sat' needs the package ortools: pip install 'tilewright[solver]', or use "
        "the solver 'arrays', which needs nothing"
    )


@NEEDS_ORTOOLS
@pytest.mark.parametrize("make", SMALL.values(), ids=SMALL)
def test_enumerates_what_brute_force_does(make: Callable[[], c.ConstraintProblem]) -> None:
    problem = make()
    found = CpSatSolver().prepare(problem).every_solution()
    assert {tuple(row) for row in found.values.tolist()} == listed(problem)
    assert found.note == ""


@NEEDS_ORTOOLS
@pytest.mark.parametrize("make", SMALL.values(), ids=SMALL)
def test_samples_and_repairs_are_solutions(make: Callable[[], c.ConstraintProblem]) -> None:
    problem = make()
    space, rng = CpSatSolver().prepare(problem), np.random.default_rng(0)
    drawn = space.sample(5, rng)
    assert {tuple(row) for row in drawn.values.tolist()} <= listed(problem)
    assert (space.repair(drawn.values, rng).values == drawn.values).all()


@NEEDS_ORTOOLS
def test_agrees_that_there_is_no_solution() -> None:
    problem = c.ConstraintProblem(
        (c.IntegerVariable("a", range(1, 9)),), (c.Prod("a split", 7, ("a", 2)),)
    )
    for solver in (CpSatSolver(), ArraySolver()):
        assert solver.prepare(problem).is_empty
        assert not solver.is_satisfiable(problem)
    narrow = CpSatSolver().prepare(tiles()).within({"a": (5,)})
    assert narrow.is_empty


@NEEDS_ORTOOLS
def test_a_limit_of_time() -> None:
    found = CpSatSolver().prepare(tiles()).sample(10**3, np.random.default_rng(0), seconds=0.05)
    assert len(found) < 10**3
    assert found.note == f"stopped after its limit of 0.05 s with {len(found)} of 1000 solutions"


@NEEDS_ORTOOLS
def test_the_dump_runs_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "constraints.py"
    path.write_text(model_program(tiles()), encoding="utf-8")
    runpy.run_path(str(path), run_name="__main__")
    status, *lines = capsys.readouterr().out.splitlines()
    assert status == "OPTIMAL"
    values = {name: int(value) for name, value in (line.split(" = ") for line in lines)}
    assert not list(tiles().broken_by(values))


@NEEDS_ORTOOLS
@pytest.mark.parametrize(
    ("platform", "operator", "shape"),
    [
        ("dlboost", "gemm", (64, 64, 64)),
        ("dlboost", "c2d", (1, 8, 8, 8, 32, 3, 3, 1, 1, 1)),
        ("tensorcore", "gemm", (64, 64, 64)),
        ("vta", "c2d", (1, 8, 8, 32, 32, 3, 3, 1, 1, 1)),
    ],
)
def test_dumps_of_heron_run_alone(
    platform: str, operator: str, shape: tuple[int, ...], tmp_path: Path
) -> None:
    """An interpreter without our packages on its path prints a solution of the space."""
    import ortools

    problem = space(platform, operator, shape).problem
    path = tmp_path / "constraints.py"
    path.write_text(model_program(problem), encoding="utf-8")
    packages = str(Path(ortools.__file__).parents[1])
    code = f"import sys, runpy; sys.path.insert(0, {packages!r}); sys.modules['tilewright'] = None"
    code += f"; runpy.run_path({str(path)!r}, run_name='__main__')"
    shown = subprocess.run(
        [sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True
    )
    status, *lines = shown.stdout.splitlines()
    assert status == "OPTIMAL"
    values = {name: int(value) for name, value in (line.rsplit(" = ", 1) for line in lines)}
    assert len(values) == len(problem.variables)
    assert not list(problem.broken_by(values))


@NEEDS_ORTOOLS
def test_a_limit_of_time_for_preparing() -> None:
    problem = space("tensorcore", "gemm", (64, 64, 64)).problem
    hurried = CpSatSolver().prepare(problem, seconds=1e-6)
    assert not hurried.is_empty  # nothing was shown
    assert hurried.remark == (
        "could not tell within its limit of 1e-06 s whether there is a solution"
    )


def test_the_dump_as_text() -> None:
    text = model_program(
        c.ConstraintProblem(
            (c.IntegerVariable("a", (1, 3)), c.IntegerVariable("b", range(1, 9))),
            (c.Prod("split of i", 6, ("a", "b")), c.Le("a limit", "a", 2)),
        )
    )
    assert text.splitlines()[4:][:9] == [
        "v['a'] = model.new_int_var_from_domain(cp_model.Domain.from_values([1, 3]), 'a')",
        "v['b'] = model.new_int_var_from_domain(cp_model.Domain(1, 8), 'b')",
        "# split of i",
        "t0_0 = model.new_int_var(-35184372088832, 35184372088832, 't0_0')",
        "model.add_multiplication_equality(t0_0, [v['a'], v['b']])",
        "model.add(6 == 1 * t0_0)",
        "# a limit",
        "model.add(v['a'] <= 2)",
        "",
    ]
