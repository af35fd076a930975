"""Constraints with at most three operands, as they narrow domains and as tables of what fits.

Longer products and sums become chains with a variable for each step; equal variables become one
before anything else happens. A relation's table lists the values of its operands that go together;
what no row of it mentions leaves the domain.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from tilewright.solver.domains import WIDEST, Values, ValueSet, distinct

Domains = Sequence[ValueSet]
Narrowing = dict[int, ValueSet]

MOST_ROWS = 1 << 21  # of a grid that is looked at as a whole
_MOST_NARROWED = 1 << 16  # the same while domains shrink: larger ones only lose their ends


@dataclass(frozen=True)
class Relation(ABC):
    """What must hold between variables, given by their numbers; `source`: the constraint's."""

    source: int
    terms: tuple[int, ...]

    @abstractmethod
    def narrow(self, domains: Domains) -> Narrowing:
        """Smaller domains for some of its variables."""

    @abstractmethod
    def rows(self, domains: Domains) -> list[Values] | None:
        """A column of values for each term; None: there would be too many."""

    def tables(self, domains: Domains) -> list[tuple[tuple[int, ...], list[Values]]] | None:
        """What it demands as tables over its variables; None: one would be too large."""
        rows = self.rows(domains)
        return None if rows is None else [_without_repetition(self.terms, rows)]


def _without_repetition(
    terms: tuple[int, ...], rows: list[Values]
) -> tuple[tuple[int, ...], list[Values]]:
    """The same table with each variable once."""
    kept = list(dict.fromkeys(terms))
    if len(kept) == len(terms):
        return terms, rows
    first = [terms.index(term) for term in terms]
    fits = np.ones(len(rows[0]), dtype=bool)
    for place, other in enumerate(first):
        fits &= rows[place] == rows[other]
    return tuple(kept), [rows[terms.index(term)][fits] for term in kept]


def _grid(one: ValueSet, other: ValueSet) -> tuple[Values, Values]:
    left, right = np.meshgrid(one.values, other.values, indexing="ij")
    return left.ravel(), right.ravel()


# --- result = operation(left, right) -----------------------------------------------------------


@dataclass(frozen=True)
class _Operation:
    """How a result follows from two operands, and an operand from the result and the other."""

    apply: Callable[[Values, Values], Values]
    bounds: Callable[[ValueSet, ValueSet], tuple[int, int]]
    undo: Callable[[Values, Values], tuple[Values, NDArray[np.bool_]]] | None = None
    undo_bounds: Callable[[ValueSet, ValueSet], tuple[int, int]] | None = None


def _product_bounds(left: ValueSet, right: ValueSet) -> tuple[int, int]:
    corners = [a * b for a in (left.low, left.high) for b in (right.low, right.high)]
    return max(min(corners), -WIDEST), min(max(corners), WIDEST)


def _quotients(result: Values, known: Values) -> tuple[Values, NDArray[np.bool_]]:
    divisor = np.where(known == 0, 1, known)
    quotient = result // divisor
    return quotient, (known != 0) & (quotient * divisor == result)


def _quotient_bounds(result: ValueSet, known: ValueSet) -> tuple[int, int]:
    if known.low <= 0 or result.low < 0:
        return -WIDEST, WIDEST
    return -(-result.low // known.high), result.high // known.low


OPERATIONS: Mapping[str, _Operation] = {
    "product": _Operation(np.multiply, _product_bounds, _quotients, _quotient_bounds),
    "sum": _Operation(
        np.add,
        lambda a, b: (a.low + b.low, a.high + b.high),
        lambda result, known: (result - known, np.ones(len(result), dtype=bool)),
        lambda result, known: (result.low - known.high, result.high - known.low),
    ),
    "pieces": _Operation(
        lambda a, b: -(-a // np.where(b > 0, b, 1)),
        lambda a, b: (-(-a.low // max(1, b.high)), -(-a.high // max(1, b.low))),
    ),
    "smallest": _Operation(np.minimum, lambda a, b: (min(a.low, b.low), min(a.high, b.high))),
    "largest": _Operation(np.maximum, lambda a, b: (max(a.low, b.low), max(a.high, b.high))),
}


@dataclass(frozen=True)
class Computed(Relation):
    """`result = operation(left, right)`; its terms are in this order."""

    operation: str

    def rows(self, domains: Domains) -> list[Values] | None:
        return self._rows(domains, MOST_ROWS)

    def _rows(self, domains: Domains, most: int) -> list[Values] | None:
        result, left, right = (domains[term] for term in self.terms)
        undo = OPERATIONS[self.operation].undo
        ways = [(left.size * right.size, 0)]
        if undo is not None:
            ways += [(result.size * left.size, 1), (result.size * right.size, 2)]
        size, way = min(ways)
        if size > most:
            return None
        if way == 0:
            return self._forwards(result, left, right)
        return self._backwards(domains, known=way)

    def _forwards(self, result: ValueSet, left: ValueSet, right: ValueSet) -> list[Values]:
        low, high = OPERATIONS[self.operation].bounds(left, right)
        first, second = _grid(left, right)
        if max(high, -low) >= WIDEST:
            fits = abs(first.astype(float) * second) < WIDEST
            first, second = first[fits], second[fits]
        computed = OPERATIONS[self.operation].apply(first, second)
        fits = result.contains(computed)
        if self.operation == "pieces":
            fits &= second > 0
        return [computed[fits], first[fits], second[fits]]

    def _backwards(self, domains: Domains, known: int) -> list[Values]:
        undo = OPERATIONS[self.operation].undo
        assert undo is not None
        other = 3 - known
        results, given = _grid(domains[self.terms[0]], domains[self.terms[known]])
        found, fits = undo(results, given)
        fits &= domains[self.terms[other]].contains(found)
        columns = [results[fits], given[fits], found[fits]]
        if known == 1:
            return columns
        return [columns[0], columns[2], columns[1]]

    def narrow(self, domains: Domains) -> Narrowing:
        is_line = any(domains[term].size == 1 for term in self.terms)
        rows = self._rows(domains, MOST_ROWS if is_line else _MOST_NARROWED)
        if rows is None or (self.operation == "product" and self._has_zero(domains)):
            return self._narrow_bounds(domains)
        terms, rows = _without_repetition(self.terms, rows)
        return {term: ValueSet.of(distinct(row)) for term, row in zip(terms, rows, strict=True)}

    def _has_zero(self, domains: Domains) -> bool:
        return any(domains[term].low <= 0 for term in self.terms[1:])

    def _narrow_bounds(self, domains: Domains) -> Narrowing:
        operation = OPERATIONS[self.operation]
        result, left, right = (domains[term] for term in self.terms)
        changed = {self.terms[0]: result.between(*operation.bounds(left, right))}
        if operation.undo_bounds is not None and changed[self.terms[0]].size:
            result = changed[self.terms[0]]
            changed[self.terms[1]] = left.between(*operation.undo_bounds(result, right))
            changed[self.terms[2]] = right.between(*operation.undo_bounds(result, left))
        return changed


# --- comparison, choice ------------------------------------------------------------------------


@dataclass(frozen=True)
class AtMost(Relation):
    """The first variable is at most the second."""

    def rows(self, domains: Domains) -> list[Values] | None:
        left, right = (domains[term] for term in self.terms)
        if left.size * right.size > MOST_ROWS:
            return None
        first, second = _grid(left, right)
        fits = first <= second
        return [first[fits], second[fits]]

    def narrow(self, domains: Domains) -> Narrowing:
        left, right = (domains[term] for term in self.terms)
        return {
            self.terms[0]: left.between(left.low, right.high),
            self.terms[1]: right.between(left.low, right.high),
        }


@dataclass(frozen=True)
class Chosen(Relation):
    """`result` is one of the others; its terms are result, index, choices."""

    FIRST: ClassVar[int] = 2

    def rows(self, domains: Domains) -> list[Values] | None:
        return None  # it is several tables, one a choice

    def is_listed(self, domains: Domains) -> bool:
        """True when all choices are numbers."""
        return all(domains[term].size == 1 for term in self.terms[self.FIRST :])

    def narrow(self, domains: Domains) -> Narrowing:
        result, index = domains[self.terms[0]], domains[self.terms[1]]
        positions = index.between(0, len(self.terms) - self.FIRST - 1).values
        chosen = [domains[self.terms[self.FIRST + k]] for k in positions.tolist()]
        possible = [one.common(result) for one in chosen]
        kept = [place for place, common in enumerate(possible) if common.size]
        changed = {self.terms[1]: ValueSet.of(positions[kept])}
        if all(one.listed is not None for one in possible):
            values = [possible[place].values for place in kept] or [np.zeros(0, dtype=np.int64)]
            changed[self.terms[0]] = ValueSet.of(distinct(np.concatenate(values)))
        elif kept:
            low = min(possible[place].low for place in kept)
            changed[self.terms[0]] = result.between(low, max(possible[p].high for p in kept))
        if len(kept) == 1:
            changed[self.terms[self.FIRST + int(positions[kept[0]])]] = possible[kept[0]]
        return changed

    def tables(self, domains: Domains) -> list[tuple[tuple[int, ...], list[Values]]] | None:
        index = domains[self.terms[1]]
        if self.is_listed(domains):
            return [self._list(domains)]
        found = []
        for position in index.values.tolist():
            choice = self.terms[self.FIRST + position]
            rows = self._rows_of(domains, position, choice)
            if rows is None:
                return None
            found.append(_without_repetition((self.terms[0], self.terms[1], choice), rows))
        return found

    def _list(self, domains: Domains) -> tuple[tuple[int, ...], list[Values]]:
        """Result and index, row by row."""
        index = domains[self.terms[1]].values
        choices = [domains[term].low for term in self.terms[self.FIRST :]]
        results = np.asarray(choices, dtype=np.int64)[index]
        fits = domains[self.terms[0]].contains(results)
        return _without_repetition(self.terms[:2], [results[fits], index[fits]])

    def _rows_of(self, domains: Domains, position: int, choice: int) -> list[Values] | None:
        """Index, result and choice: where the index is `position` the others are equal."""
        result, index, chosen = domains[self.terms[0]], domains[self.terms[1]], domains[choice]
        others = index.values[index.values != position]
        if result.size * chosen.size * max(1, len(others)) > MOST_ROWS:
            return None
        equal = result.common(chosen).values
        first, second = _grid(result, chosen)
        count = len(first)
        return [
            np.concatenate([equal, np.tile(first, len(others))]),
            np.concatenate([np.full(len(equal), position), np.repeat(others, count)]),
            np.concatenate([equal, np.tile(second, len(others))]),
        ]
