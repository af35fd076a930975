"""The values that an index takes while some loops run, by evaluating it.

Schedules index GPU buffers with quotients and remainders of fused thread numbers, which arithmetic
on intervals overestimates. Their loops have few iterations, so all values can simply be computed.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tilewright import ir
from tilewright.arith.affine import affine_of
from tilewright.arith.numpy_eval import Values, evaluate_on_arrays
from tilewright.errors import ArithError
from tilewright.ir.linear import structural_key
from tilewright.nest.mixed_radix import Domain, ends_of_digit

Terms = dict[Hashable, int]

# Combinations of iterations that are worth evaluating.
_MOST_POINTS = 1 << 16


@dataclass(frozen=True)
class AxisRange:
    """`extent` integers from `origin + low` on; the origin is what the other loops decide.

    It is a sum of terms, each with a coefficient.
    """

    origin: Terms
    low: int
    extent: int


class Unbounded(Exception):
    """The values of an index are too many to look at, or no plain arithmetic."""


class IndexRanges:
    """What the indices of one block do while the loops in `inner` run.

    `bindings` are the values of the block's iterators; iterations where `predicate` is false do not
    count, as far as the inner loops alone decide that.
    """

    def __init__(
        self,
        inner: Mapping[ir.Var, Domain],
        bindings: Mapping[ir.Var, ir.PrimExpr],
        predicate: ir.PrimExpr = ir.TRUE,
    ) -> None:
        self._inner = inner
        self._bindings = bindings
        self._conditions = [
            (condition, used)
            for condition in ir.conjuncts(predicate)
            if (used := set(ir.free_vars(condition))) and used <= inner.keys()
        ]

    def of(self, index: ir.PrimExpr, length: int = 1) -> AxisRange:
        """The range of `length` elements from an index on; raises Unbounded."""
        parts = affine_of(ir.substitute(index, self._bindings))
        plain = parts.variable_terms()
        moving = {var: f for var, f in plain if var in self._inner}
        origin: Terms = {var: f for var, f in plain if var not in self._inner}
        inner: list[tuple[ir.PrimExpr, int]] = []
        for atom, factor in parts.terms.items():
            if isinstance(atom, ir.Var):
                continue
            used = set(ir.free_vars(atom))
            if used <= self._inner.keys():
                inner.append((atom, factor))
            elif used & self._inner.keys():
                raise Unbounded  # what the inner loops add depends on the other ones
            else:
                key = structural_key(atom)
                origin[key] = origin.get(key, 0) + factor
        low = high = parts.base
        for variables, atoms in self._groups(moving, inner):
            first, last = self._extremes(variables, moving, atoms)
            low, high = low + first, high + last
        return AxisRange(origin, low, high - low + length)

    def _groups(
        self, moving: Mapping[ir.Var, int], atoms: Sequence[tuple[ir.PrimExpr, int]]
    ) -> Iterator[tuple[set[ir.Var], list[tuple[ir.PrimExpr, int]]]]:
        """Variables that must be looked at together, with the atoms that use them."""
        clusters = [set(ir.free_vars(atom)) for atom, _ in atoms]
        clusters += [{var} for var in moving]
        clusters += [used for _, used in self._conditions]
        merged: list[set[ir.Var]] = []
        for cluster in clusters:
            touching = [known for known in merged if known & cluster]
            merged = [known for known in merged if not known & cluster]
            merged.append(cluster.union(*touching))
        for variables in merged:
            mine = [(atom, f) for atom, f in atoms if set(ir.free_vars(atom)) <= variables]
            if mine or variables & moving.keys():
                yield variables, mine

    def _extremes(
        self,
        variables: set[ir.Var],
        moving: Mapping[ir.Var, int],
        atoms: Sequence[tuple[ir.PrimExpr, int]],
    ) -> tuple[int, int]:
        conditions = [c for c, used in self._conditions if used <= variables]
        if not atoms and not conditions:
            return self._extremes_of_sum(variables, moving)
        if len(atoms) == 1 and not variables & moving.keys():
            atom, factor = atoms[0]
            ends = ends_of_digit(atom, self._inner, conditions)
            if ends is not None:
                low, high = sorted((factor * ends[0], factor * ends[1]))
                return low, high
        grid = self._grid(variables)
        total: Values = np.asarray(0)
        try:
            for atom, factor in atoms:
                total = total + factor * evaluate_on_arrays(atom, grid)
            for var in variables & moving.keys():
                total = total + moving[var] * grid[var]
            if conditions:
                total = _where(total, [evaluate_on_arrays(c, grid) for c in conditions])
        except ArithError as error:
            raise Unbounded from error
        return (int(total.min()), int(total.max())) if total.size else (0, 0)

    def _extremes_of_sum(
        self, variables: set[ir.Var], moving: Mapping[ir.Var, int]
    ) -> tuple[int, int]:
        low = high = 0
        for var in variables & moving.keys():
            begin, count = self._inner[var]
            ends = sorted((moving[var] * begin, moving[var] * (begin + count - 1)))
            low, high = low + ends[0], high + ends[1]
        return low, high

    def _grid(self, variables: set[ir.Var]) -> dict[ir.Var, Values]:
        ordered = list(variables)
        counts = [self._inner[var][1] for var in ordered]
        if math.prod(counts) > _MOST_POINTS:
            raise Unbounded
        axes = np.meshgrid(
            *(np.arange(self._inner[v][0], sum(self._inner[v])) for v in ordered),
            indexing="ij",
            sparse=True,
        )
        return dict(zip(ordered, axes, strict=True))


def _where(total: Values, conditions: Sequence[Values]) -> Values:
    """The values at the points where all conditions hold."""
    mask = conditions[0]
    for condition in conditions[1:]:
        mask = np.logical_and(mask, condition)
    shape = np.broadcast_shapes(total.shape, mask.shape)
    chosen: Values = np.broadcast_to(total, shape)[np.broadcast_to(mask, shape)]
    return chosen
