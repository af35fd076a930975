"""A problem as relations between numbered variables, and what propagation leaves of domains."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import singledispatchmethod

from tilewright.algebra import constraints
from tilewright.solver.domains import ValueSet, value_set
from tilewright.solver.relations import AtMost, Chosen, Computed, Relation


@dataclass
class ConstraintNetwork:
    """Domains and relations. Several variables of the problem may share a number: equal ones."""

    numbers: dict[str, int] = field(default_factory=dict)
    domains: list[ValueSet] = field(default_factory=list)
    relations: list[Relation] = field(default_factory=list)

    def is_dead(self) -> bool:
        """True when a variable has no value left."""
        return any(not domain.size for domain in self.domains)


def network_of(problem: constraints.ConstraintProblem) -> ConstraintNetwork:
    """The network of a problem; constraints are numbered as they stand there."""
    builder = _Builder(problem)
    for source, constraint in enumerate(problem.constraints):
        builder.source = source
        builder.add(constraint)
    return builder.network


class _Builder:
    def __init__(self, problem: constraints.ConstraintProblem) -> None:
        self.network = ConstraintNetwork()
        self.source = 0
        self._constants: dict[int, int] = {}
        leaders = _equal_variables(problem)
        for variable in problem.variables:
            leader = leaders[variable.name]
            domain = value_set(variable.domain)
            if leader in self.network.numbers:
                number = self.network.numbers[leader]
                self.network.numbers[variable.name] = number
                self.network.domains[number] = self.network.domains[number].common(domain)
            else:
                number = self._new(domain)
                self.network.numbers[leader] = self.network.numbers[variable.name] = number

    def _new(self, domain: ValueSet) -> int:
        self.network.domains.append(domain)
        return len(self.network.domains) - 1

    def _number(self, term: constraints.Term) -> int:
        if isinstance(term, str):
            return self.network.numbers[term]
        if term not in self._constants:
            self._constants[term] = self._new(ValueSet(term, term))
        return self._constants[term]

    def _narrow(self, term: constraints.Term, change: Callable[[ValueSet], ValueSet]) -> None:
        number = self._number(term)
        self.network.domains[number] = change(self.network.domains[number])

    @singledispatchmethod
    def add(self, constraint: constraints.Constraint) -> None:
        """Add the relations of one constraint."""
        raise TypeError(f"no solver knows constraints of type {type(constraint).__name__}")

    @add.register
    def _(self, constraint: constraints.Prod) -> None:
        self._chain("product", constraint.result, constraint.factors, empty=1)

    @add.register
    def _(self, constraint: constraints.Sum) -> None:
        self._chain("sum", constraint.result, constraint.addends, empty=0)

    @add.register
    def _(self, constraint: constraints.MinOf) -> None:
        self._chain("smallest", constraint.result, constraint.operands, empty=0)

    @add.register
    def _(self, constraint: constraints.MaxOf) -> None:
        self._chain("largest", constraint.result, constraint.operands, empty=0)

    @add.register
    def _(self, constraint: constraints.CeilDiv) -> None:
        terms = (constraint.result, constraint.dividend, constraint.divisor)
        self._relate(Computed(self.source, tuple(map(self._number, terms)), "pieces"))

    @add.register
    def _(self, constraint: constraints.Eq) -> None:
        left, right = constraint.left, constraint.right
        if isinstance(left, int) or isinstance(right, int):
            # Two variables are one already.
            domain = self.network.domains[self._number(right)]
            self._narrow(left, lambda old: old.common(domain))
            domain = self.network.domains[self._number(left)]
            self._narrow(right, lambda old: old.common(domain))

    @add.register
    def _(self, constraint: constraints.Le) -> None:
        terms = (self._number(constraint.left), self._number(constraint.right))
        self._relate(AtMost(self.source, terms))

    @add.register
    def _(self, constraint: constraints.In) -> None:
        allowed = value_set(constraint.values)
        self._narrow(constraint.variable, lambda old: old.common(allowed))

    @add.register
    def _(self, constraint: constraints.SelectFrom) -> None:
        self._narrow(constraint.index, lambda old: old.between(0, len(constraint.choices) - 1))
        terms = (constraint.result, constraint.index, *constraint.choices)
        self._relate(Chosen(self.source, tuple(map(self._number, terms))))

    def _relate(self, relation: Relation) -> None:
        self.network.relations.append(relation)

    def _chain(
        self,
        operation: str,
        result: constraints.Term,
        operands: Sequence[constraints.Term],
        empty: int,
    ) -> None:
        """`result = a op b op c` as `t = a op b`, `result = t op c`."""
        numbers = [self._number(operand) for operand in operands] or [self._number(empty)]
        if len(numbers) == 1:
            numbers.append(self._number(1 if operation == "product" else 0))
            if operation in ("smallest", "largest"):
                numbers[1] = numbers[0]
        done = numbers[0]
        for place, number in enumerate(numbers[1:], 1):
            is_last = place == len(numbers) - 1
            step = self._number(result) if is_last else self._new(_anything())
            self._relate(Computed(self.source, (step, done, number), operation))
            done = step


_MOST_VISITS = 100  # a relation, on average


def _anything() -> ValueSet:
    return ValueSet(-(1 << 60), 1 << 60)


def _equal_variables(problem: constraints.ConstraintProblem) -> dict[str, str]:
    """For each variable the one that stands for it and all that equal it."""
    leaders = {variable.name: variable.name for variable in problem.variables}

    def leader(name: str) -> str:
        while leaders[name] != name:
            leaders[name] = leaders[leaders[name]]
            name = leaders[name]
        return name

    for constraint in problem.constraints:
        if isinstance(constraint, constraints.Eq):
            left, right = constraint.left, constraint.right
            if isinstance(left, str) and isinstance(right, str):
                leaders[leader(right)] = leader(left)
    return {name: leader(name) for name in leaders}


def propagate(network: ConstraintNetwork) -> None:
    """Narrow domains until no relation narrows one further; stops at the first empty one."""
    watchers: dict[int, list[int]] = {}
    for place, relation in enumerate(network.relations):
        for term in dict.fromkeys(relation.terms):
            watchers.setdefault(term, []).append(place)
    queue = deque(range(len(network.relations)))
    waiting = set(queue)
    visits = _MOST_VISITS * len(queue)  # wide intervals could shrink by one for ever
    while queue and visits:
        visits -= 1
        place = queue.popleft()
        waiting.discard(place)
        for term, domain in network.relations[place].narrow(network.domains).items():
            is_smaller = domain.size < network.domains[term].size
            network.domains[term] = domain
            if not domain.size:
                return
            news = watchers[term] if is_smaller else ()
            fresh = [other for other in news if other != place and other not in waiting]
            queue.extend(fresh)
            waiting.update(fresh)
