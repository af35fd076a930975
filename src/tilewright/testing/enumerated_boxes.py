"""Boxes of touched elements by brute force: every iteration runs, predicates decide, corners count.

An oracle for small programs that shares nothing with readers of nests or the algebra of sketches.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tilewright import ir
from tilewright.arith.affine import affine_of
from tilewright.arith.numpy_eval import evaluate_on_arrays
from tilewright.nest.access import LINE
from tilewright.nest.loops import Loop
from tilewright.nest.nests import distinct_loads
from tilewright.nest.reading import EnclosingBlock, StoreSite, read

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class EnumeratedNest:
    """A store, its loops of more than one iteration, and bytes below each of them by access."""

    store: ir.BufferStore
    loops: tuple[Loop, ...]
    bytes_below: list[list[int]]  # for the store, then for each load


def enumerated_nests(func: ir.PrimFunc, *, store_to: str | None = None) -> list[EnumeratedNest]:
    """The nests of a function (that store to a buffer) in program order."""
    return [
        _nest(site)
        for site in read(func).sites
        if isinstance(site.node, ir.BufferStore) and store_to in (None, site.node.buffer.name)
    ]


def _nest(site: StoreSite) -> EnumeratedNest:
    store = site.node
    assert isinstance(store, ir.BufferStore)
    loads = distinct_loads(list(ir.nodes_of(store.value, ir.BufferLoad)))
    others = [load for load in loads if load.buffer is not store.buffer]
    loops = tuple(loop for loop in site.loops if loop.extent > 1)
    accesses: list[ir.BufferStore | ir.BufferLoad] = [store, *others]
    below: list[list[int]] = [[] for _ in accesses]
    conditions = [
        condition
        for block in _around(site.scope)
        for condition in ir.conjuncts(ir.substitute(block.realize.predicate, block.bindings))
    ]
    for depth in range(len(loops) + 1):
        iterations = _Iterations(site.loops, set(loops[depth:]), conditions)
        for found, access in zip(below, accesses, strict=True):
            found.append(_bytes(access, iterations, site))
    return EnumeratedNest(store, loops, below)


class _Iterations:
    """All iterations of loops that predicates let through, while the others stand at zero.

    What adds to an index independently is enumerated by itself: a sum is smallest where all its
    independent parts are.
    """

    def __init__(
        self, loops: Sequence[Loop], running: Set[Loop], conditions: Sequence[ir.PrimExpr]
    ) -> None:
        self._extents = {loop.var: loop.extent if loop in running else 1 for loop in loops}
        self._conditions = conditions

    def span(self, index: ir.PrimExpr) -> int:
        """How many values there are from the smallest to the largest of an index."""
        parts = [_TermGroup({*ir.nodes_of(each, ir.Var)}, (), (each,)) for each in self._conditions]
        for term, scale in affine_of(index).terms.items():
            parts.append(_TermGroup({*ir.nodes_of(term, ir.Var)}, (term * scale,), ()))
        total = 0
        for part in _connected(parts):
            if part.terms:
                values = self._values(part)
                places = sum(np.asarray(evaluate_on_arrays(term, values)) for term in part.terms)
                total += int(np.max(places) - np.min(places))
        return total + 1

    def _values(self, part: _TermGroup) -> dict[ir.Var, Numbers]:
        variables = sorted(part.variables, key=lambda var: var.name)
        grid = np.meshgrid(*[range(self._extents[var]) for var in variables], indexing="ij")
        values = {var: axis.ravel() for var, axis in zip(variables, grid, strict=True)}
        for condition in part.conditions:
            passes = np.atleast_1d(np.asarray(evaluate_on_arrays(condition, values), np.bool_))
            kept = np.broadcast_to(passes, max(map(len, values.values()), default=1))
            values = {var: axis[kept] for var, axis in values.items()}
        return values


@dataclass(frozen=True, eq=False)
class _TermGroup:
    """Terms of an index and conditions, with all variables that they use."""

    variables: set[ir.Var]
    terms: tuple[ir.PrimExpr, ...]
    conditions: tuple[ir.PrimExpr, ...]

    def joined(self, other: _TermGroup) -> _TermGroup:
        terms, conditions = self.terms + other.terms, self.conditions + other.conditions
        return _TermGroup(self.variables | other.variables, terms, conditions)


def _connected(parts: Sequence[_TermGroup]) -> list[_TermGroup]:
    """Parts joined until they share no variable with each other."""
    found: list[_TermGroup] = []
    for part in parts:
        apart = [each for each in found if each.variables.isdisjoint(part.variables)]
        for each in found:
            if each not in apart:
                part = part.joined(each)
        found = [*apart, part]
    return found


def _around(scope: EnclosingBlock | None) -> Iterator[EnclosingBlock]:
    while scope is not None:
        yield scope
        scope = scope.outer


def _bytes(access: ir.BufferStore | ir.BufferLoad, iterations: _Iterations, site: StoreSite) -> int:
    bindings = {} if site.scope is None else site.scope.bindings
    spans = [iterations.span(ir.substitute(index, bindings)) for index in access.indices]
    width = max(1, access.buffer.dtype.bits // 8)
    lines = -(-spans[-1] * width // LINE) if spans else 1
    return math.prod(spans[:-1]) * lines * LINE
