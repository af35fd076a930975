"""Boxes of touched elements by brute force: every iteration runs, predicates decide, corners count.

An oracle for small programs that shares nothing with readers of nests or the algebra of sketches.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tilewright import ir
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


def enumerated_nests(func: ir.PrimFunc) -> list[EnumeratedNest]:
    """All nests of a function, in program order."""
    return [_nest(site) for site in read(func).sites if isinstance(site.node, ir.BufferStore)]


def _nest(site: StoreSite) -> EnumeratedNest:
    store = site.node
    assert isinstance(store, ir.BufferStore)
    loads = distinct_loads(list(ir.nodes_of(store.value, ir.BufferLoad)))
    others = [load for load in loads if load.buffer is not store.buffer]
    loops = tuple(loop for loop in site.loops if loop.extent > 1)
    accesses: list[ir.BufferStore | ir.BufferLoad] = [store, *others]
    below: list[list[int]] = [[] for _ in accesses]
    for depth in range(len(loops) + 1):
        values = _iterations(loops, depth, site)
        for found, access in zip(below, accesses, strict=True):
            found.append(_bytes(access, values, site))
    return EnumeratedNest(store, loops, below)


def _iterations(loops: Sequence[Loop], depth: int, site: StoreSite) -> dict[ir.Var, Numbers]:
    """Values of loop variables in all iterations below a depth that predicates let through."""
    running = [range(loop.extent) if n >= depth else range(1) for n, loop in enumerate(loops)]
    grid = np.meshgrid(*running, indexing="ij")
    values = {loop.var: axis.ravel() for loop, axis in zip(loops, grid, strict=True)}
    count = len(next(iter(values.values()))) if values else 1
    for loop in site.loops:
        values.setdefault(loop.var, np.zeros(count, np.int64))
    passes = np.ones(count, np.bool_)
    for block in _around(site.scope):
        predicate = ir.substitute(block.realize.predicate, block.bindings)
        passes &= np.broadcast_to(
            np.asarray(evaluate_on_arrays(predicate, values), np.bool_), count
        )
    return {var: axis[passes] for var, axis in values.items()}


def _around(scope: EnclosingBlock | None) -> Iterator[EnclosingBlock]:
    while scope is not None:
        yield scope
        scope = scope.outer


def _bytes(
    access: ir.BufferStore | ir.BufferLoad, values: dict[ir.Var, Numbers], site: StoreSite
) -> int:
    bindings = {} if site.scope is None else site.scope.bindings
    spans = []
    for index in access.indices:
        places = np.asarray(evaluate_on_arrays(ir.substitute(index, bindings), values))
        spans.append(int(places.max() - places.min()) + 1)
    width = max(1, access.buffer.dtype.bits // 8)
    lines = -(-spans[-1] * width // LINE) if spans else 1
    return math.prod(spans[:-1]) * lines * LINE
