"""OR-tools' CP-SAT behind the interface of solvers: the exact one, and the slow one.

Samples are solutions near random hints, each found by a solve of its own; they are not spread
evenly. All solutions of small problems can be listed (`every_solution`).
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.algebra.constraints import ConstraintProblem, Domain
from tilewright.errors import TuneError
from tilewright.solver.base import (
    NO_HINT,
    Columns,
    Deadline,
    SolutionSet,
    SolutionSpace,
    Solver,
    solvers,
)
from tilewright.solver.domains import value_set
from tilewright.solver.model_text import model_lines

if TYPE_CHECKING:
    from ortools.sat.python import cp_model


def _cp_model() -> Any:
    try:
        from ortools.sat.python import cp_model
    except ImportError as error:
        raise TuneError(
            "the solver 'cp-sat' needs the package ortools: pip install 'tilewright[solver]', or "
            "use the solver 'arrays', which needs nothing"
        ) from error
    return cp_model


@solvers.register("cp-sat")
class CpSatSolver(Solver):
    """Needs the package ortools."""

    def __init__(self) -> None:
        _cp_model()

    def prepare(self, problem: ConstraintProblem, seconds: float | None = None) -> CpSatSpace:
        return CpSatSpace(problem, seconds)


class CpSatSpace(SolutionSpace):
    """A problem as a model of CP-SAT."""

    def __init__(self, problem: ConstraintProblem, seconds: float | None = None) -> None:
        super().__init__(problem, seconds)
        self._api = _cp_model()

    @cached_property
    def is_empty(self) -> bool:
        model, _ = self._model()
        solver = self._solver(seed=1, seconds=self._deadline.left)
        status = solver.solve(model)
        if status == self._api.UNKNOWN:
            limit = f"its limit of {self._deadline.seconds:g} s"
            self.remark = f"could not tell within {limit} whether there is a solution"
        return bool(status == self._api.INFEASIBLE)

    def _model(self) -> tuple[cp_model.CpModel, dict[str, Any]]:
        """The model that the dumped text describes, too."""
        model = self._api.CpModel()
        names: dict[str, Any] = {"model": model, "cp_model": self._api, "v": {}}
        for line in model_lines(self.problem):
            exec(line, names)
        return model, names["v"]

    def _solver(self, seed: int, seconds: float | None = None, presolve: bool = True) -> Any:
        solver = self._api.CpSolver()
        solver.parameters.num_workers = 1
        solver.parameters.random_seed = seed
        solver.parameters.cp_model_presolve = presolve
        if seconds is not None:
            solver.parameters.max_time_in_seconds = max(seconds, 1e-3)
        return solver

    def _sampled(self, count: int, rng: np.random.Generator, deadline: Deadline) -> SolutionSet:
        hints = [self._random_hint(rng) for _ in range(count)]
        rows = np.asarray(hints, dtype=np.int64).reshape(count, len(self.names))
        return self._repaired(rows, rng, deadline)

    def _random_hint(self, rng: np.random.Generator) -> list[int]:
        return [_draw(variable.domain, rng) for variable in self.problem.variables]

    def _repaired(
        self, hints: Columns, rng: np.random.Generator, deadline: Deadline
    ) -> SolutionSet:
        model, variables = self._model()
        solutions: list[list[int]] = []
        for hint in hints.tolist():
            if deadline.is_over:
                break
            solver = self._solver(int(rng.integers(1, 1 << 30)), deadline.left, presolve=False)
            model.clear_hints()
            for name, value in zip(self.names, hint, strict=True):
                if value != NO_HINT:
                    model.add_hint(variables[name], value)
            if solver.solve(model) in (self._api.OPTIMAL, self._api.FEASIBLE):
                solutions.append([int(solver.value(variables[name])) for name in self.names])
        values = np.asarray(solutions, dtype=np.int64).reshape(-1, len(self.names))
        note = (
            self.remark if len(values) == len(hints) else deadline.remark(len(values), len(hints))
        )
        return SolutionSet(self.names, values, note)

    def every_solution(self, seconds: float | None = None) -> SolutionSet:
        """All solutions; the remark says if time ran out before."""
        model, variables = self._model()
        solver = self._solver(seed=1, seconds=seconds)
        solver.parameters.enumerate_all_solutions = True
        found: list[list[int]] = []
        names = self.names

        class Collector(self._api.CpSolverSolutionCallback):  # type: ignore[misc, name-defined]
            def on_solution_callback(self) -> None:
                found.append([int(self.value(variables[name])) for name in names])

        status = solver.solve(model, Collector())
        is_done = status in (self._api.OPTIMAL, self._api.INFEASIBLE)
        note = "" if is_done else f"stopped after its limit of {seconds:g} s, there may be more"
        values = np.asarray(found, dtype=np.int64).reshape(-1, len(self.names))
        return SolutionSet(self.names, values, note)


def _draw(domain: Domain, rng: np.random.Generator) -> int:
    values = value_set(domain)
    if values.listed is None:
        return int(rng.integers(values.low, values.high + 1))
    return int(rng.choice(values.listed)) if values.size else 0
