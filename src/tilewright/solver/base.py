"""`Solver` and `SolutionSpace`: one interface to ways of solving a constraint problem."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Self

from tilewright.algebra.constraints import ConstraintProblem, IntegerVariable
from tilewright.errors import TuneError
from tilewright.support.plugins import Family

Columns = NDArray[np.int64]  # a row a solution, a column a variable
NO_HINT = -(1 << 62)  # in a row of hints: any value will do


class NoSolutionError(TuneError):
    """A constraint problem without a solution."""


@dataclass(frozen=True)
class SolutionSet:
    """Solutions, and a remark where they are fewer, or less evenly spread, than asked for."""

    names: tuple[str, ...]
    values: Columns
    note: str = ""

    def __len__(self) -> int:
        return len(self.values)

    def assignments(self) -> Iterator[dict[str, int]]:
        """One mapping from names to numbers a solution."""
        for row in self.values.tolist():
            yield dict(zip(self.names, row, strict=True))

    def column(self, name: str) -> NDArray[np.int64]:
        """All values of one variable."""
        return self.values[:, self.names.index(name)]


@dataclass(frozen=True)
class Deadline:
    """A moment after which a solver returns what it has."""

    seconds: float | None = None
    started: float = 0.0

    @classmethod
    def after(cls, seconds: float | None) -> Deadline:
        """The moment `seconds` seconds from now; None: never."""
        if seconds is not None and not seconds > 0:
            raise TuneError(f"the time limit of a solver must be positive, got {seconds}")
        return cls(seconds, time.perf_counter())

    @property
    def is_over(self) -> bool:
        """True once the time is up."""
        return self.seconds is not None and time.perf_counter() - self.started > self.seconds

    @property
    def left(self) -> float | None:
        """The seconds that are left, at least 0; None: any number."""
        if self.seconds is None:
            return None
        return max(0.0, self.started + self.seconds - time.perf_counter())

    def remark(self, found: int, wanted: int) -> str:
        """Says how far a solver got in its time."""
        return f"stopped after its limit of {self.seconds:g} s with {found} of {wanted} solutions"


class SolutionSpace(ABC):
    """The solutions of one problem, prepared once and asked often."""

    def __init__(self, problem: ConstraintProblem, seconds: float | None = None) -> None:
        self.problem = problem
        self.remark = ""  # on what preparing had to leave out
        self._deadline = Deadline.after(seconds)

    @property
    def names(self) -> tuple[str, ...]:
        """The variables, in the order of all columns."""
        return tuple(variable.name for variable in self.problem.variables)

    @property
    @abstractmethod
    def is_empty(self) -> bool:
        """True when there is no solution."""

    def sample(
        self, count: int, rng: np.random.Generator, seconds: float | None = None
    ) -> SolutionSet:
        """So many random solutions, repetitions included; fewer, and a note, if time is up."""
        if count < 0:
            raise TuneError(f"the number of solutions must be at least 0, got {count}")
        deadline = Deadline.after(seconds)
        self._prepare(deadline)
        self.check_not_empty()
        return self._sampled(count, rng, deadline)

    def repair(
        self, hints: Columns, rng: np.random.Generator, seconds: float | None = None
    ) -> SolutionSet:
        """For each row of numbers a solution that keeps many of them, or comes close."""
        if hints.ndim != 2 or hints.shape[1] != len(self.names):
            raise TuneError(
                f"hints must have a column for each of the {len(self.names)} variables, got an "
                f"array of shape {hints.shape}"
            )
        deadline = Deadline.after(seconds)
        self._prepare(deadline)
        self.check_not_empty()
        return self._repaired(hints, rng, deadline)

    def _prepare(self, deadline: Deadline) -> None:  # noqa: B027 # most are prepared when made
        """Get ready for questions, as far as the time allows."""

    @abstractmethod
    def _sampled(self, count: int, rng: np.random.Generator, deadline: Deadline) -> SolutionSet:
        """Random solutions of a problem that has some."""

    @abstractmethod
    def _repaired(
        self, hints: Columns, rng: np.random.Generator, deadline: Deadline
    ) -> SolutionSet:
        """Solutions near numbers of a problem that has some."""

    def within(self, domains: Mapping[str, Sequence[int]]) -> Self:
        """The solutions in which some variables take only these values."""
        return type(self)(narrowed(self.problem, domains))

    def check_not_empty(self) -> None:
        """Raise unless there is a solution."""
        if self.is_empty:
            raise NoSolutionError(
                "no values satisfy all constraints of the space; `tilewright space why` names the "
                "smallest set of them that conflict"
            )


class Solver(ABC):
    """Prepares problems."""

    @abstractmethod
    def prepare(self, problem: ConstraintProblem, seconds: float | None = None) -> SolutionSpace:
        """The solutions of a problem."""

    def is_satisfiable(self, problem: ConstraintProblem) -> bool:
        """True when a problem has a solution."""
        return not self.prepare(problem).is_empty

    @staticmethod
    def create(kind: str = "arrays", *args: object, **options: object) -> Solver:
        """A solver by name."""
        return solvers.create(kind, *args, **options)


solvers: Family[Solver] = Family("solver", "tilewright.solver")


def narrowed(problem: ConstraintProblem, domains: Mapping[str, Sequence[int]]) -> ConstraintProblem:
    """A problem with smaller domains."""
    known = {variable.name for variable in problem.variables}
    for name in domains:
        if name not in known:
            raise TuneError(f"the problem has no variable {name!r} to narrow")
    return replace(
        problem,
        variables=tuple(_narrowed(variable, domains) for variable in problem.variables),
    )


def _narrowed(variable: IntegerVariable, domains: Mapping[str, Sequence[int]]) -> IntegerVariable:
    if variable.name not in domains:
        return variable
    kept = sorted({int(v) for v in domains[variable.name] if int(v) in variable.domain})
    return replace(variable, domain=tuple(kept))
