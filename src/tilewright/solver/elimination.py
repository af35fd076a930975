"""Counting and drawing solutions: variables are summed out of tables one after the other.

The order of elimination keeps tables small. A relation whose tables would grow too large is
postponed: it is left out, and what is drawn without it is checked against it later, which leaves
the solutions that pass as evenly spread as before.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from tilewright.solver.base import Deadline
from tilewright.solver.network import ConstraintNetwork
from tilewright.solver.relations import Chosen, Computed, Relation
from tilewright.solver.tables import Conditional, Places, Table, joined, summed


@dataclass
class Elimination:
    """Conditionals in the order in which variables are drawn."""

    network: ConstraintNetwork
    sizes: list[int]
    conditionals: list[Conditional] = field(default_factory=list)
    postponed: frozenset[int] = frozenset()  # numbers of constraints
    free: list[int] = field(default_factory=list)  # variables that no table mentions
    log_count: float = 0.0  # natural logarithm of how many solutions; -inf: none

    @property
    def is_exact(self) -> bool:
        """True when all that is drawn is a solution."""
        return not self.postponed

    def draw(self, count: int, rng: np.random.Generator) -> dict[int, Places]:
        """Places in domains, evenly spread over the solutions."""
        columns = {variable: rng.integers(0, self.sizes[variable], count) for variable in self.free}
        for conditional in reversed(self.conditionals):
            groups = conditional.groups(columns, self.sizes, count)
            columns[conditional.variable] = conditional.draw(groups, rng)
        return columns

    def draw_near(
        self, wanted: dict[int, Places], count: int, rng: np.random.Generator
    ) -> dict[int, Places]:
        """The same, but a wanted place (-1: none) is kept where what was drawn before allows it."""
        columns = {
            variable: np.where(wanted[variable] >= 0, wanted[variable], drawn)
            for variable, drawn in ((v, rng.integers(0, self.sizes[v], count)) for v in self.free)
        }
        for conditional in reversed(self.conditionals):
            groups = conditional.groups(columns, self.sizes, count)
            hints = wanted[conditional.variable]
            columns[conditional.variable] = conditional.draw_near(groups, hints, rng)
        return columns


_JOINED_IN_HURRY = 1 << 15  # rows of a join when the time is up; it takes some milliseconds


def eliminate(
    network: ConstraintNetwork,
    postponed: frozenset[int],
    deadline: Deadline,
    may_stop: bool = False,
) -> Elimination | None:
    """Sum out all variables of a network whose domains were propagated.

    `postponed`: constraints that are known to be too much. After the deadline only small tables
    are joined, or the result is None if it `may_stop`.
    """
    while True:
        found = _attempt(network, postponed, deadline, may_stop)
        if not isinstance(found, frozenset):
            return found
        postponed = postponed | found


def _attempt(
    network: ConstraintNetwork, postponed: frozenset[int], deadline: Deadline, may_stop: bool
) -> Elimination | frozenset[int] | None:
    """An elimination without some constraints, or which others to leave out, too."""
    left_out, computed_later = _closure(network, postponed)
    sizes = [domain.size for domain in network.domains]
    result = Elimination(network, sizes, postponed=left_out)
    if any(size == 0 for size in sizes):
        result.log_count = -math.inf
        return result
    tables: list[tuple[Table, frozenset[int]]] = []
    for relation in network.relations:
        if relation.source in left_out:
            continue
        made = _tables_of(relation, network)
        if made is None:
            return frozenset({relation.source})
        tables += [(table, frozenset({relation.source})) for table in made]
    open_variables = {v for v, size in enumerate(sizes) if size > 1 and v not in computed_later}
    return _Eliminator(result, tables, open_variables, deadline).run(may_stop)


def _tables_of(relation: Relation, network: ConstraintNetwork) -> list[Table] | None:
    """The tables of a relation; variables with one value are left out of them."""
    made = relation.tables(network.domains)
    if made is None:
        return None
    tables = []
    for scope, rows in made:
        kept = [place for place, term in enumerate(scope) if network.domains[term].size > 1]
        columns = tuple(network.domains[scope[p]].places(rows[p]) for p in kept)
        if columns:
            weights = np.ones(len(columns[0]))
            tables.append(Table(tuple(scope[p] for p in kept), columns, weights))
    return tables


def _closure(
    network: ConstraintNetwork, postponed: frozenset[int]
) -> tuple[frozenset[int], set[int]]:
    """Constraints to leave out and variables to compute later.

    The result of a constraint that is left out follows from its operands, so it need not be
    drawn; then all constraints on it wait as well.
    """
    left_out, later = set(postponed), set[int]()
    changed = True
    while changed:
        changed = False
        for relation in network.relations:
            waits = relation.source in left_out
            result = relation.terms[0]
            is_result = isinstance(relation, Computed | Chosen)
            if waits and is_result and result not in later and network.domains[result].size > 1:
                later.add(result)
                changed = True
            if not waits and any(term in later for term in relation.terms):
                left_out.add(relation.source)
                changed = True
    return frozenset(left_out), later


class _Eliminator:
    """One run of elimination: a pool of tables, each with the constraints that are in it."""

    def __init__(
        self,
        result: Elimination,
        tables: Iterable[tuple[Table, frozenset[int]]],
        variables: Iterable[int],
        deadline: Deadline,
    ) -> None:
        self.deadline = deadline
        self.result = result
        self.sizes = result.sizes
        self.pool = list(tables)
        self.open = set(variables)
        self._costs: dict[int, tuple[float, int]] = {}  # as long as no table changed

    def run(self, may_stop: bool) -> Elimination | frozenset[int] | None:
        while self.open:
            if may_stop and self.deadline.is_over:
                return None
            for changed in self.open - self._costs.keys():
                self._costs[changed] = self._cost(changed)
            variable = min(self.open, key=self._costs.__getitem__)
            self.open.discard(variable)
            blamed = self._eliminate(variable)
            if blamed is not None:
                return blamed
        return self.result

    def _cost(self, variable: int) -> tuple[float, int]:
        """The logarithm of how many rows the join would have, if values were independent."""
        tables = [table for table, _ in self.pool if variable in table.scope]
        rows = sum(math.log(max(1, len(table.weights))) for table in tables)
        uses = Counter(other for table in tables for other in table.scope)
        logs = {other: math.log(self.sizes[other]) for other in uses}
        shared = sum((count - 1) * logs[other] for other, count in uses.items())
        return min(rows - shared, sum(logs.values())), variable

    def _eliminate(self, variable: int) -> frozenset[int] | None:
        """Sum out a variable; not None: constraints that make a table too large."""
        touched = [entry for entry in self.pool if variable in entry[0].scope]
        if not touched:
            self.result.free.append(variable)
            self.result.log_count += math.log(self.sizes[variable])
            return None
        self.pool = [entry for entry in self.pool if variable not in entry[0].scope]
        whole = self._join(touched)
        if isinstance(whole, frozenset):
            return whole
        table, sources = whole
        both = summed(table, variable, self.sizes)
        if both is None:
            return self._blamed(sources, frozenset())
        rest, conditional = both
        self.result.conditionals.append(conditional)
        for neighbour in table.scope:
            self._costs.pop(neighbour, None)
        if not len(rest.weights):
            self.result.log_count = -math.inf
            self.open.clear()
        elif rest.scope:
            scale = float(rest.weights.max())
            self.result.log_count += math.log(scale)
            rest = Table(rest.scope, rest.columns, rest.weights / scale)
            self.pool.append((rest, sources))
        else:
            self.result.log_count += math.log(float(rest.weights[0]))
        return None

    def _join(
        self, touched: Sequence[tuple[Table, frozenset[int]]]
    ) -> tuple[Table, frozenset[int]] | frozenset[int]:
        ordered = sorted(touched, key=lambda entry: len(entry[0].weights))
        table, sources = ordered[0]
        rest = ordered[1:]
        while rest:
            # The one that shares most variables adds the fewest rows.
            place = max(range(len(rest)), key=lambda p: _shared(table, rest[p][0]))
            other, more = rest.pop(place)
            most = _JOINED_IN_HURRY if self.deadline.is_over else None
            whole = joined(table, other, self.sizes, most)
            if whole is None:
                return self._blamed(more, sources)
            table, sources = whole, sources | more
        return table, sources

    def _blamed(self, one: frozenset[int], other: frozenset[int]) -> frozenset[int]:
        """One constraint of a join that grew too large: one that leaves most others in."""
        network, before = self.result.network, self.result.postponed

        def cost(source: int) -> tuple[int, int]:
            left_out, _ = _closure(network, before | {source})
            return len(left_out), -source

        return frozenset({min(one | other, key=cost)})


def _shared(table: Table, other: Table) -> tuple[int, int]:
    common = sum(variable in table.scope for variable in other.scope)
    return common, -len(other.weights)
