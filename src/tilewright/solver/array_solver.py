"""Our own solver, on NumPy arrays: propagation on tables of divisors, counting, and repair.

Where the tables of a problem stay small, which is the case for schedules of one operator, samples
are drawn evenly from all solutions, thousands at a time. Else some constraints are checked after
drawing; and if hardly anything passes, what fails is repaired, and the result says so.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray

from tilewright.algebra.constraints import ConstraintProblem
from tilewright.solver.base import (
    NO_HINT,
    Columns,
    Deadline,
    SolutionSet,
    SolutionSpace,
    Solver,
    solvers,
)
from tilewright.solver.cases import cases_of
from tilewright.solver.crossover import KnobCrossover
from tilewright.solver.domains import Values, ValueSet
from tilewright.solver.elimination import Elimination, eliminate
from tilewright.solver.later import Later
from tilewright.solver.network import ConstraintNetwork, network_of, propagate
from tilewright.solver.relations import OPERATIONS, Computed
from tilewright.solver.residuals import violations

_BATCH = 1 << 15
_VAIN_BATCHES = 4  # without enough solutions, before repairing
_REPAIR_STEPS = 300
_MORE_REPAIRS = 3  # of which the one that keeps most hints counts
_MOST_CHANGED = 0.5  # of the values, in a step of repair
_SHARES_OF_SECOND = (0.5, 0.2, 0.0)  # chances of a child's second parent, attempt by attempt


_Attempt = Callable[
    [Columns, Columns, NDArray[np.bool_], np.random.Generator],
    tuple[Columns, NDArray[np.bool_]],
]


@solvers.register("arrays")
class ArraySolver(Solver):
    """Needs nothing but NumPy."""

    def prepare(self, problem: ConstraintProblem, seconds: float | None = None) -> ArraySpace:
        return ArraySpace(problem, seconds)


class _Case:
    """One case of a problem: its network and how to draw from it."""

    def __init__(
        self,
        network: ConstraintNetwork,
        names: Sequence[str],
        elimination: Elimination,
    ) -> None:
        self.network = network
        self.numbers = [network.numbers[name] for name in names]
        self.elimination = elimination
        self.later = Later(network, self.elimination)
        self.columns = self._columns_of_numbers()

    def _columns_of_numbers(self) -> dict[int, list[int]]:
        """For each number that is drawn the columns of the problem that have its values."""
        found: dict[int, list[int]] = {}
        for column, number in enumerate(self.numbers):
            if self.network.domains[number].size > 1:
                found.setdefault(number, []).append(column)
        return found

    def finished(
        self, places: Mapping[int, Values], rows: int
    ) -> tuple[Columns, NDArray[np.int64]]:
        """All variables of the problem, and how many constraints each row breaks."""
        columns: dict[int, Values] = {}
        for number, domain in enumerate(self.network.domains):
            if number in places:
                columns[number] = domain.values[places[number]]
            elif domain.size == 1:
                columns[number] = np.broadcast_to(domain.values, (rows,))
        broken = self.later.complete(columns, rows)
        values = np.empty((rows, len(self.numbers)), dtype=np.int64)
        for place, number in enumerate(self.numbers):
            values[:, place] = columns[number]
        return values, broken

    def draw(self, rows: int, rng: np.random.Generator) -> tuple[Columns, NDArray[np.int64]]:
        """So many rows, and how many postponed constraints each breaks."""
        return self.finished(self.elimination.draw(rows, rng), rows)

    def draw_near(
        self, hints: Columns, rng: np.random.Generator, exact: bool = False
    ) -> tuple[Columns, NDArray[np.int64]]:
        """The same near given numbers; `exact`: numbers out of a domain mean nothing."""
        rows = len(hints)
        none = np.full(rows, -1, dtype=np.int64)
        wanted = dict.fromkeys(range(len(self.network.domains)), none)
        for number, values in self._hinted(hints).items():
            wanted[number] = _wanted(self.network.domains[number], values, exact)
        return self.finished(self.elimination.draw_near(wanted, rows, rng), rows)

    def _hinted(self, hints: Columns) -> dict[int, Values]:
        """Hints by number: the first of equal variables, and steps of chains computed from them."""
        found: dict[int, Values] = {}
        for number, columns in self.columns.items():
            found[number] = hints[:, columns[0]]
            for column in columns[1:]:
                is_open = found[number] == NO_HINT
                found[number] = np.where(is_open, hints[:, column], found[number])
        for relation in self._chain_steps:
            left, right = (self._hint(found, term, len(hints)) for term in relation.terms[1:])
            is_known = (left != NO_HINT) & (right != NO_HINT)
            safe = np.where(is_known, left, 1), np.where(is_known, right, 1)
            values = OPERATIONS[relation.operation].apply(*safe)
            found[relation.terms[0]] = np.where(is_known, values, NO_HINT)
        return found

    def _hint(self, found: Mapping[int, Values], number: int, rows: int) -> Values:
        domain = self.network.domains[number]
        return found.get(number, np.full(rows, domain.low if domain.size == 1 else NO_HINT))

    @cached_property
    def _chain_steps(self) -> list[Computed]:
        """The relations whose result is no variable of the problem."""
        return [
            relation
            for relation in self.network.relations
            if isinstance(relation, Computed)
            and relation.terms[0] not in self.columns
            and self.network.domains[relation.terms[0]].size > 1
        ]

    def has_room_for(self, rows: Columns) -> NDArray[np.bool_]:
        """For each row whether the values of choosing variables are this case's."""
        fits = np.ones(len(rows), dtype=bool)
        for column, number in enumerate(self.numbers):
            domain = self.network.domains[number]
            if domain.size == 1:
                fits &= rows[:, column] == domain.low
        return fits


class ArraySpace(SolutionSpace):
    """The solutions of a problem as conditionals that samples are drawn from, case by case."""

    def __init__(self, problem: ConstraintProblem, seconds: float | None = None) -> None:
        super().__init__(problem, seconds)
        self.network: ConstraintNetwork = network_of(problem)
        propagate(self.network)
        self._parts: list[_Case] = []  # those with solutions, of the cases looked at so far
        self._hurried: list[_Case] = []  # the first one, if there was too little time
        self._looked_at = 0
        self._postponed: frozenset[int] = frozenset()
        if seconds is not None:
            self._prepare(self._deadline)
            self._looked_at = len(self._cases)  # the limit was for all of them

    @cached_property
    def _cases(self) -> list[ConstraintNetwork]:
        return [] if self.network.is_dead() else cases_of(self.network)

    def _prepare(self, deadline: Deadline, enough: float = math.inf) -> None:
        """Look at cases until time is up or `enough` have solutions, and at least at one that has.

        If time is too short for the first one, it is drawn from with more constraints to check, and
        looked at again when there is time.
        """
        if self._looked_at == len(self._cases) or len(self._drawn_from) >= enough:
            return
        self.remark, self._hurried = "", []
        while self._looked_at < len(self._cases) and len(self._parts) < enough:
            if self._parts and deadline.is_over:
                break
            case = self._cases[self._looked_at]
            found = eliminate(case, self._postponed, deadline, may_stop=bool(self._parts))
            if found is None:
                break
            has_solutions = found.log_count > -math.inf
            if has_solutions and deadline.is_over and not found.is_exact:
                self._hurried += [] if self._parts else [_Case(case, self.names, found)]
                break
            self._looked_at += 1
            self._postponed |= found.postponed
            if has_solutions:
                self._parts.append(_Case(case, self.names, found))
        if deadline.is_over and self._looked_at < len(self._cases):
            looked_at = self._looked_at + len(self._hurried)
            limit = f"its limit of {deadline.seconds:g} s"
            self.remark = f"looked at {looked_at} of {len(self._cases)} cases within {limit}"

    @property
    def _drawn_from(self) -> list[_Case]:
        return self._parts + self._hurried

    @property
    def _chances(self) -> NDArray[np.float64]:
        """How many of all draws come from each case."""
        logs = np.asarray([part.elimination.log_count for part in self._drawn_from])
        weights = np.exp(logs - logs.max())
        return np.asarray(weights / weights.sum())

    @property
    def is_exact(self) -> bool:
        """True when all that is drawn is a solution."""
        self._prepare(self._deadline)
        return self._draws_solutions

    @property
    def _draws_solutions(self) -> bool:
        return all(part.elimination.is_exact for part in self._drawn_from)

    @property
    def count(self) -> float | None:
        """How many solutions there are; None: some constraints can only be checked."""
        if not self.is_exact:
            return None
        # Logarithms are kept, since there may be more than a float holds.
        return math.fsum(math.exp(min(p.elimination.log_count, 700.0)) for p in self._drawn_from)

    @property
    def postponed(self) -> tuple[str, ...]:
        """The origins of the constraints that are checked after drawing."""
        drawn_from = self._drawn_from
        sources = {source for part in drawn_from for source in part.elimination.postponed}
        return tuple(self.problem.constraints[source].origin for source in sorted(sources))

    @property
    def is_empty(self) -> bool:
        self._prepare(self._deadline, 1)
        return not self._drawn_from

    def _draw(self, rows: int, rng: np.random.Generator) -> tuple[Columns, NDArray[np.int64]]:
        """Rows from all cases, as many from each as its solutions deserve."""
        counts = rng.multinomial(rows, self._chances)
        parts = zip(self._drawn_from, counts.tolist(), strict=True)
        drawn = [part.draw(n, rng) for part, n in parts if n]
        values = np.concatenate([values for values, _ in drawn])
        broken = np.concatenate([broken for _, broken in drawn])
        order = rng.permutation(rows)
        return values[order], broken[order]

    # --- drawing ---------------------------------------------------------------------------------

    def _sampled(self, count: int, rng: np.random.Generator, deadline: Deadline) -> SolutionSet:
        if not self._draws_solutions:
            return self._checked(count, rng, deadline)
        parts: list[Columns] = []
        found = 0
        while found < count and not (parts and deadline.is_over):
            size = min(_BATCH if deadline.seconds is None else _BATCH >> 3, count - found)
            values, _ = self._draw(size, rng)
            parts.append(values)
            found += size
        note = self.remark if found >= count else deadline.remark(found, count)
        return SolutionSet(self.names, self._stacked(parts), note)

    def _stacked(self, parts: Sequence[Columns]) -> Columns:
        if not parts:
            return np.zeros((0, len(self.names)), dtype=np.int64)
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _checked(self, count: int, rng: np.random.Generator, deadline: Deadline) -> SolutionSet:
        """Draws without the postponed constraints, and keeps what satisfies them."""
        parts: list[Columns] = []
        found = vain = 0
        while found < count and not (parts and deadline.is_over) and vain < _VAIN_BATCHES:
            size = min(_BATCH, max(2 * (count - found), 256))
            values, broken = self._draw(size, rng)
            kept = values[broken == 0][: count - found]
            vain += len(kept) * 64 < min(size, count - found)
            parts.append(kept)
            found += len(kept)
        if found >= count:
            return SolutionSet(self.names, self._stacked(parts), self.remark)
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

    def _repaired_draws(self, count: int, rng: np.random.Generator, deadline: Deadline) -> Columns:
        """Draws changed step by step, as long as they come no further from legality."""
        rows = min(max(8 * count, 64), _BATCH >> 3)
        values, _ = self._draw(rows, rng)
        missing = violations(self.problem, values).sum(axis=1)
        for _ in range(_REPAIR_STEPS):
            if deadline.is_over or np.count_nonzero(missing == 0) >= count:
                break
            changed = _MOST_CHANGED * rng.random((rows, 1)) ** 2  # small steps more often
            kept = rng.random(values.shape) >= changed
            moved = np.where(rng.random(values.shape) < 0.5, values + _step(values, rng), NO_HINT)
            tried, _ = self._near(np.where(kept, values, moved), rng)
            still_missing = violations(self.problem, tried).sum(axis=1)
            # A little worse is fine now and then: constraints may have to be met together.
            better = (missing > 0) & (still_missing <= missing + rng.exponential(0.7, rows))
            values[better], missing[better] = tried[better], still_missing[better]
        return np.asarray(values[missing == 0][:count])

    # --- solutions near given numbers ------------------------------------------------------------

    def _repaired(
        self, hints: Columns, rng: np.random.Generator, deadline: Deadline
    ) -> SolutionSet:
        values, broken = self._near(hints, rng)
        for _ in range(_MORE_REPAIRS):
            others, others_broken = self._near(hints, rng)
            kept = (values == hints).sum(axis=1), (others == hints).sum(axis=1)
            better = (others_broken < broken) | ((others_broken == broken) & (kept[1] > kept[0]))
            values[better], broken[better] = others[better], others_broken[better]
        return self._with_replacements(values, broken, rng, deadline)

    def _near(
        self, hints: Columns, rng: np.random.Generator, exact: bool = False
    ) -> tuple[Columns, NDArray[np.int64]]:
        """Each row in the case that its numbers belong to, or else in a random one."""
        parts = self._drawn_from
        chosen = rng.choice(len(parts), len(hints), p=self._chances)
        if len(parts) > 1:
            for number, part in enumerate(parts):
                chosen[part.has_room_for(hints)] = number
        values = np.empty_like(hints)
        broken = np.zeros(len(hints), dtype=np.int64)
        for number in np.unique(chosen).tolist():
            rows = chosen == number
            values[rows], broken[rows] = parts[number].draw_near(hints[rows], rng, exact)
        return values, broken

    def _with_replacements(
        self, values: Columns, broken: Values, rng: np.random.Generator, deadline: Deadline
    ) -> SolutionSet:
        """Random solutions in place of rows that break a postponed constraint."""
        failed = np.flatnonzero(broken)
        if not len(failed):
            return SolutionSet(self.names, values)
        more = self._sampled(len(failed), rng, deadline)
        kept = np.ones(len(values), dtype=bool)
        kept[failed[len(more) :]] = False
        values[failed[: len(more)]] = more.values
        return SolutionSet(self.names, values[kept], more.note)

    def children(
        self, first: Columns, second: Columns, keys: NDArray[np.bool_], rng: np.random.Generator
    ) -> SolutionSet:
        """Solutions that take, at the marked variables, a value of one of two parents.

        Parents are solutions, so there always is one: where nothing else is found, the last
        attempt copies the first parent wherever it can.
        """
        self._prepare(self._deadline)
        result = first.copy()
        left = np.arange(len(first))
        for attempt in self._attempts:
            if not len(left):
                break
            made, is_child = attempt(first[left], second[left], keys[left], rng)
            result[left[is_child]] = made[is_child]
            left = left[~is_child]
        return SolutionSet(self.names, result)

    @cached_property
    def _attempts(self) -> list[_Attempt]:
        """Ways to make children, until all are made."""
        drawn = [partial(self._drawn_children, share) for share in _SHARES_OF_SECOND]
        crossed = KnobCrossover(self)
        return [*([crossed] if crossed.is_possible else []), *drawn]

    def _drawn_children(
        self,
        share: float,
        first: Columns,
        second: Columns,
        keys: NDArray[np.bool_],
        rng: np.random.Generator,
    ) -> tuple[Columns, NDArray[np.bool_]]:
        """Draws near a mixture of both parents; `share`: how much of it is the second."""
        wish = np.where(rng.random(first.shape) < share, second, first)
        if share:
            wish = np.where(keys, wish, NO_HINT)  # all else is left to chance
        values, broken = self._near(wish, rng, exact=True)
        matches = (values == first) | (values == second) | ~keys
        return values, matches.all(axis=1) & (broken == 0)


def _step(values: Columns, rng: np.random.Generator) -> Columns:
    """A step up or down, of one or of a few parts in a hundred."""
    size = np.maximum(1, np.rint(rng.exponential(0.05, values.shape) * np.abs(values)))
    return np.asarray(np.where(rng.random(values.shape) < 0.5, size, -size), dtype=np.int64)


def _wanted(domain: ValueSet, hints: Values, exact: bool) -> Values:
    """Places of the values nearest to hints; `exact`: -1 for hints that are not in the domain."""
    values = domain.values
    places = np.searchsorted(values, hints).clip(0, len(values) - 1)
    if exact:
        return np.where(values[places] == hints, places, -1)
    below = np.maximum(places - 1, 0)
    is_below = np.abs(values[below] - hints) < np.abs(values[places] - hints)
    return np.where(hints == NO_HINT, -1, np.where(is_below, below, places))
