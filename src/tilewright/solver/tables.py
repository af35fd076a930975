"""Tables of values that go together, with weights: joined, and summed over a variable.

A column holds places in the domain of its variable. A join of all tables that mention a variable,
summed over it, counts for each combination of the others how many values the variable may take;
that is how solutions are counted without being listed, and drawn evenly.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Places = NDArray[np.int64]
Weights = NDArray[np.float64]

MOST_JOINED = 1 << 21  # rows of a join
_MOST_CELLS = 1 << 24  # the same, rows times variables
_MOST_KEYS = 1 << 62
_HASHED = 0x1E3779B97F4A7C15  # its digits look random


@dataclass(frozen=True, eq=False)
class Table:
    """Rows over variables; a weight says how many solutions of what is summed a row stands for."""

    scope: tuple[int, ...]
    columns: tuple[Places, ...]
    weights: Weights

    def keys(self, scope: Sequence[int], sizes: Sequence[int]) -> Places:
        """One number for the values that a row has at some variables."""
        chosen = [self.columns[self.scope.index(variable)] for variable in scope]
        return combined(chosen, [sizes[variable] for variable in scope], len(self.weights))


def _is_hashed(sizes: Sequence[int]) -> bool:
    """True when there are more combinations than numbers."""
    return math.prod(sizes) >= _MOST_KEYS


def combined(columns: Sequence[Places], sizes: Sequence[int], rows: int) -> Places:
    """Columns as digits of one number; as a hash of them where the number would be too large."""
    result = np.zeros(rows, dtype=np.int64)
    if not _is_hashed(sizes):
        for column, size in zip(columns, sizes, strict=True):
            result = result * size + column
        return result
    for column in columns:
        result = (result * _HASHED + column) & (_MOST_KEYS - 1)
        result ^= result >> 29
    return result


def joined(one: Table, other: Table, sizes: Sequence[int], most: int | None = None) -> Table | None:
    """Rows that agree on the variables of both; None: there would be too many."""
    common = [variable for variable in one.scope if variable in other.scope]
    new = [variable for variable in other.scope if variable not in one.scope]
    keys, other_keys = one.keys(common, sizes), other.keys(common, sizes)
    order = np.argsort(other_keys, kind="stable")
    ordered = other_keys[order]
    begins = np.searchsorted(ordered, keys, side="left")
    counts = np.searchsorted(ordered, keys, side="right") - begins
    total = int(counts.sum())
    width = len(one.scope) + len(new)
    if total > (MOST_JOINED if most is None else most) or total * width > _MOST_CELLS:
        return None
    left = np.repeat(np.arange(len(keys)), counts)
    ends = np.cumsum(counts)
    right = order[np.arange(total) - np.repeat(ends - counts, counts) + np.repeat(begins, counts)]
    if _is_hashed([sizes[variable] for variable in common]):
        fits = _agree(one, other, common, left, right)
        left, right = left[fits], right[fits]
    columns = [column[left] for column in one.columns]
    columns += [other.columns[other.scope.index(variable)][right] for variable in new]
    weights = one.weights[left] * other.weights[right]
    return Table((*one.scope, *new), tuple(columns), weights)


def _agree(
    one: Table, other: Table, common: Sequence[int], left: Places, right: Places
) -> NDArray[np.bool_]:
    """For each pair of rows whether they have the same values at the variables of both."""
    fits = np.ones(len(left), dtype=bool)
    for variable in common:
        own, others = (table.columns[table.scope.index(variable)] for table in (one, other))
        fits &= own[left] == others[right]
    return fits


@dataclass(frozen=True, eq=False)
class Conditional:
    """The values of a variable that go with each combination of some others, and how often."""

    variable: int
    given: tuple[int, ...]
    keys: Places  # the combinations, rising
    begins: Places  # where the rows of each begin; one more at the end
    values: Places  # of the variable, by row
    chances: Weights  # rising within a combination, from its number to its number + 1

    @property
    def is_determined(self) -> bool:
        """True when no combination leaves a choice."""
        return len(self.values) == len(self.keys)

    def groups(self, columns: Mapping[int, Places], sizes: Sequence[int], rows: int) -> Places:
        """For each sample the number of its combination."""
        chosen = [columns[variable] for variable in self.given]
        keys = combined(chosen, [sizes[variable] for variable in self.given], rows)
        return np.searchsorted(self.keys, keys)

    def draw(self, groups: Places, rng: np.random.Generator) -> Places:
        """A value for each sample, in proportion to the solutions behind it."""
        if self.is_determined:
            return self.values[groups]
        found = np.searchsorted(self.chances, groups + rng.random(len(groups)), side="right")
        rows = np.clip(found, self.begins[groups], self.begins[groups + 1] - 1)
        return self.values[rows]

    def draw_near(self, groups: Places, wanted: Places, rng: np.random.Generator) -> Places:
        """The wanted value (a place) where it fits, else any."""
        drawn = self.draw(groups, rng)
        order = self._value_keys()
        span = int(self.values.max()) + 1 if len(self.values) else 1
        asked = groups * span + np.minimum(wanted, span - 1)
        places = np.searchsorted(order, asked).clip(max=len(order) - 1)
        fits = (order[places] == asked) & (wanted < span) & (wanted >= 0)
        return np.where(fits, wanted, drawn)

    def _value_keys(self) -> Places:
        """Combination and value of each row as one number; both rise."""
        numbers = np.repeat(np.arange(len(self.keys)), np.diff(self.begins))
        span = int(self.values.max()) + 1 if len(self.values) else 1
        return numbers * span + self.values


def summed(table: Table, variable: int, sizes: Sequence[int]) -> tuple[Table, Conditional] | None:
    """The table without a variable, and the variable given the others.

    None: two combinations of the others have the same hash, so they cannot be told apart.
    """
    given = tuple(other for other in table.scope if other != variable)
    keys = table.keys(given, sizes)
    values = table.columns[table.scope.index(variable)]
    order = np.lexsort((values, keys))
    keys, values, weights = keys[order], values[order], table.weights[order]
    begins = np.flatnonzero(np.diff(keys, prepend=-1))
    counts = np.diff(begins, append=len(keys))
    totals = np.add.reduceat(weights, begins) if len(keys) else weights
    shares = weights / np.repeat(totals, counts)
    numbers = np.repeat(np.arange(len(begins)), counts)
    running = np.cumsum(shares)
    before = running[begins] - shares[begins] if len(keys) else running
    chances = numbers + (running - np.repeat(before, counts))
    ends = np.append(begins, len(keys))
    conditional = Conditional(variable, given, keys[begins], ends, values, chances)
    first = order[begins]
    columns = tuple(table.columns[table.scope.index(other)][first] for other in given)
    rest = Table(given, columns, totals)
    is_certain = not _is_hashed([sizes[other] for other in given])
    if is_certain or _agree(rest, table, given, numbers, order).all():
        return rest, conditional
    return None
