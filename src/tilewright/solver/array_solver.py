"""Our own solver, on NumPy arrays: propagation on tables of divisors, counting, and repair.

Where the tables of a problem stay small, which is the case for schedules of one operator, samples
are drawn evenly from all solutions, thousands at a time. Else some constraints are checked after
drawing; and if hardly anything passes, what fails is repaired, and the result says so.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tilewright.algebra.constraints import Problem
from tilewright.errors import TuneError
from tilewright.solver.base import (
    Columns,
    Deadline,
    SolutionSet,
    SolutionSpace,
    Solver,
    check_count,
    narrowed,
    solvers,
)
from tilewright.solver.domains import Values
from tilewright.solver.elimination import Elimination, eliminate
from tilewright.solver.later import Later
from tilewright.solver.network import Network, network_of, propagate

_BATCH = 1 << 15
_VAIN_BATCHES = 4  # without enough solutions, before repairing
_REPAIR_STEPS = 300
_KEPT_SHARE = 0.7  # of the values, in a step of repair
_SHARES_OF_SECOND = (0.5, 0.5, 0.3, 0.1)  # chances of a child's second parent, attempt by attempt


@solvers.register("arrays")
class ArraySolver(Solver):
    """Needs nothing but NumPy."""

    def prepare(self, problem: Problem, seconds: float | None = None) -> ArraySpace:
        return ArraySpace(problem)


class ArraySpace(SolutionSpace):
    """The solutions of a problem as conditionals that samples are drawn from."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.network: Network = network_of(problem)
        propagate(self.network)
        self._numbers = [self.network.numbers[name] for name in self.names]

    @cached_property
    def _elimination(self) -> Elimination:
        return eliminate(self.network)

    @cached_property
    def _later(self) -> Later:
        return Later(self.network, self._elimination)

    @property
    def count(self) -> float | None:
        """How many solutions there are; None: some constraints can only be checked."""
        elimination = self._elimination
        if not elimination.is_exact:
            return None
        # A logarithm, since there may be more than a float holds.
        return math.exp(min(elimination.log_count, 700.0)) if not self.is_empty else 0.0

    @property
    def postponed(self) -> tuple[str, ...]:
        """The origins of the constraints that are checked after drawing."""
        constraints = self.problem.constraints
        return tuple(constraints[source].origin for source in sorted(self._elimination.postponed))

    @cached_property
    def is_empty(self) -> bool:
        if self.network.is_dead() or self._elimination.log_count == -math.inf:
            return True
        if self._elimination.is_exact:
            return False
        return not len(self._checked(1, np.random.default_rng(0), Deadline()).values)

    # --- drawing ---------------------------------------------------------------------------------

    def sample(
        self, count: int, rng: np.random.Generator, seconds: float | None = None
    ) -> SolutionSet:
        check_count(count)
        deadline = Deadline.after(seconds)
        self.check_not_empty()
        if not self._elimination.is_exact:
            return self._checked(count, rng, deadline)
        parts: list[Columns] = []
        found = 0
        while found < count and not (parts and deadline.is_over):
            size = min(_BATCH if seconds is None else _BATCH >> 3, count - found)
            values, _ = self._finished(self._elimination.draw(size, rng), size)
            parts.append(values)
            found += size
        note = "" if found >= count else deadline.remark(found, count)
        return SolutionSet(self.names, self._stacked(parts), note)

    def _stacked(self, parts: Sequence[Columns]) -> Columns:
        if not parts:
            return np.zeros((0, len(self.names)), dtype=np.int64)
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _finished(
        self, places: Mapping[int, Values], rows: int
    ) -> tuple[Columns, NDArray[np.int64]]:
        """All variables of the problem, and how many constraints each row breaks."""
        domains = self.network.domains
        columns: dict[int, Values] = {}
        for number, domain in enumerate(domains):
            if number in places:
                columns[number] = domain.values[places[number]]
            elif domain.size == 1:
                columns[number] = np.broadcast_to(domain.values, (rows,))
        broken = self._later.complete(columns, rows)
        values = np.empty((rows, len(self._numbers)), dtype=np.int64)
        for place, number in enumerate(self._numbers):
            values[:, place] = columns[number]
        return values, broken

    def _checked(self, count: int, rng: np.random.Generator, deadline: Deadline) -> SolutionSet:
        """Draws without the postponed constraints, and keeps what satisfies them."""
        parts: list[Columns] = []
        found = vain = 0
        while found < count and not deadline.is_over and vain < _VAIN_BATCHES:
            values, broken = self._finished(self._elimination.draw(_BATCH, rng), _BATCH)
            kept = values[broken == 0][: count - found]
            vain += len(kept) * _VAIN_BATCHES * 8 < count - found
            parts.append(kept)
            found += len(kept)
        if found >= count:
            return SolutionSet(self.names, self._stacked(parts))
        if not deadline.is_over:
            repaired = self._repaired_draws(count - found, rng, deadline)
            parts.append(repaired)
            found += len(repaired)
            if found >= count:
                note = f"{len(repaired)} of {count} solutions were repaired, not drawn evenly"
                return SolutionSet(self.names, self._stacked(parts), note)
        note = (
            deadline.remark(found, count)
            if deadline.is_over
            else f"found only {found} of {count} solutions; most draws break {self.postponed[0]!r}"
        )
        return SolutionSet(self.names, self._stacked(parts), note)

    def _repaired_draws(
        self, count: int, rng: np.random.Generator, deadline: Deadline
    ) -> Columns:
        """Draws changed step by step while that breaks no more constraints."""
        rows = min(max(4 * count, 64), _BATCH >> 3)
        places = self._elimination.draw(rows, rng)
        values, broken = self._finished(places, rows)
        for _ in range(_REPAIR_STEPS):
            if deadline.is_over or np.count_nonzero(broken == 0) >= count:
                break
            wanted = {
                variable: np.where(rng.random(rows) < _KEPT_SHARE, column, -1)
                for variable, column in places.items()
            }
            tried = self._elimination.draw_near(wanted, rows, rng)
            new_values, new_broken = self._finished(tried, rows)
            better = (new_broken <= broken) & (broken > 0)
            values[better], broken[better] = new_values[better], new_broken[better]
            places = {v: np.where(better, tried[v], column) for v, column in places.items()}
        return values[broken == 0][:count]

    # --- solutions near given numbers ------------------------------------------------------------

    def repair(
        self, hints: Columns, rng: np.random.Generator, seconds: float | None = None
    ) -> SolutionSet:
        self.check_not_empty()
        self._check_width(hints)
        wanted = self._wanted(hints)
        drawn = self._elimination.draw_near(wanted, len(hints), rng)
        values, broken = self._finished(drawn, len(hints))
        return self._with_replacements(values, broken, rng, seconds)

    def _with_replacements(
        self, values: Columns, broken: Values, rng: np.random.Generator, seconds: float | None
    ) -> SolutionSet:
        """Random solutions in place of rows that break a postponed constraint."""
        failed = np.flatnonzero(broken)
        if not len(failed):
            return SolutionSet(self.names, values)
        more = self.sample(len(failed), rng, seconds)
        kept = np.ones(len(values), dtype=bool)
        kept[failed[len(more) :]] = False
        values[failed[: len(more)]] = more.values
        return SolutionSet(self.names, values[kept], more.note)

    def children(
        self, first: Columns, second: Columns, keys: NDArray[np.bool_], rng: np.random.Generator
    ) -> SolutionSet:
        """Solutions that take, at the marked variables, a value of one of two parents.

        Parents are solutions, so there always is one: the last attempt copies the first parent
        wherever it can.
        """
        rows = len(first)
        result = first.copy()
        left = np.arange(rows)
        for attempt, share in enumerate((*_SHARES_OF_SECOND, 0.0)):
            if not len(left):
                break
            is_second = rng.random((len(left), 1 if attempt == 1 else first.shape[1])) < share
            wish = np.where(is_second, second[left], first[left])
            if attempt + 1 < len(_SHARES_OF_SECOND):
                wish = np.where(keys[left], wish, -1)  # all else is left to chance
            made = self._elimination.draw_near(self._wanted(wish, exact=True), len(left), rng)
            values, broken = self._finished(made, len(left))
            matches = (values == first[left]) | (values == second[left]) | ~keys[left]
            fits = matches.all(axis=1) & (broken == 0)
            result[left[fits]] = values[fits]
            left = left[~fits]
        return SolutionSet(self.names, result)

    def _check_width(self, hints: Columns) -> None:
        if hints.ndim != 2 or hints.shape[1] != len(self.names):
            raise TuneError(
                f"hints must have a column for each of the {len(self.names)} variables, got an "
                f"array of shape {hints.shape}"
            )

    def _wanted(self, hints: Columns, exact: bool = False) -> dict[int, Values]:
        """Places of the values nearest to hints; `exact`: only of those in the domain."""
        rows = len(hints)
        none = np.full(rows, -1, dtype=np.int64)
        wanted = dict.fromkeys(range(len(self.network.domains)), none)
        for column, number in enumerate(self._numbers):
            domain = self.network.domains[number]
            if wanted[number] is not none or domain.size < 2:
                continue
            places = domain.places(hints[:, column]).clip(0, domain.size - 1)
            if exact:
                places = np.where(domain.values[places] == hints[:, column], places, -1)
            else:
                places = _nearest(domain.values, hints[:, column], places)
            wanted[number] = places
        return wanted

    def within(self, domains: Mapping[str, Sequence[int]]) -> ArraySpace:
        return ArraySpace(narrowed(self.problem, domains))


def _nearest(values: Values, hints: Values, places: Values) -> Values:
    below = np.maximum(places - 1, 0)
    is_below = np.abs(values[below] - hints) < np.abs(values[places] - hints)
    return np.where(is_below, below, places)
