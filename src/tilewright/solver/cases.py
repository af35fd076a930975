"""Networks for each value of the variables that choose between others.

Once the index of a choice is fixed, the choice is an equality, and two variables are one. What is
left are chains of products, whose tables stay small.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from tilewright.solver.domains import ValueSet
from tilewright.solver.network import ConstraintNetwork, propagate
from tilewright.solver.relations import Chosen, Relation

_MOST_CASES = 1024


def cases_of(network: ConstraintNetwork) -> list[ConstraintNetwork]:
    """Networks without solutions in common that have all solutions together."""
    cases = [network]
    for index in _indices(network):
        size = network.domains[index].size
        if len(cases) * size > _MOST_CASES:
            break
        cases = [case for whole in cases for case in _fixed(whole, index)]
    return [_with_equalities(case) for case in cases]


def _indices(network: ConstraintNetwork) -> list[int]:
    """Variables that choose between variables, those with few values first."""
    found = {
        relation.terms[1]
        for relation in network.relations
        if isinstance(relation, Chosen) and not relation.is_listed(network.domains)
    }
    open_ones = [index for index in found if network.domains[index].size > 1]
    return sorted(open_ones, key=lambda index: (network.domains[index].size, index))


def _fixed(network: ConstraintNetwork, index: int) -> Iterator[ConstraintNetwork]:
    for value in network.domains[index].values.tolist():
        domains = list(network.domains)
        domains[index] = ValueSet.of(np.asarray([value], dtype=np.int64))
        case = ConstraintNetwork(network.numbers, domains, network.relations)
        propagate(case)
        if not case.is_dead():
            yield case


def _with_equalities(network: ConstraintNetwork) -> ConstraintNetwork:
    """The same with one number for variables that choices make equal."""
    same = list(range(len(network.domains)))

    def leader(number: int) -> int:
        while same[number] != number:
            number = same[number]
        return number

    kept: list[Relation] = []
    domains = list(network.domains)
    for relation in network.relations:
        if isinstance(relation, Chosen) and domains[relation.terms[1]].size == 1:
            place = Chosen.FIRST + int(domains[relation.terms[1]].values[0])
            one, other = leader(relation.terms[0]), leader(relation.terms[place])
            same[max(one, other)] = min(one, other)
            domains[min(one, other)] = domains[one].common(domains[other])
        else:
            kept.append(relation)
    numbers = {name: leader(number) for name, number in network.numbers.items()}
    relations = [replace(each, terms=tuple(map(leader, each.terms))) for each in kept]
    result = ConstraintNetwork(numbers, domains, relations)
    # Numbers that others stand for are not drawn.
    for number in range(len(domains)):
        if leader(number) != number:
            domains[number] = ValueSet(0, 0)
    propagate(result)
    return result
