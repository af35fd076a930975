"""Loops of operations as micro-operations in two loops of an instruction."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tilewright.codegen.vta.nests import Array, Elements, grid
from tilewright.errors import CodegenError
from tilewright.vta.isa import Uop, encode_uop
from tilewright.vta.machine import distance_fault

_MOST_ITERATIONS = (1 << 14) - 1
_Loop = tuple[int, tuple[int, ...]]  # extent, and factors by access


@dataclass(frozen=True)
class Operations:
    """Two loops and the offsets of micro-operations, by access: results, operand, weights."""

    loops: tuple[_Loop, _Loop]
    offsets: tuple[tuple[int, ...], ...]

    def uops(self, starts: Sequence[int]) -> tuple[int, ...]:
        """The words of the micro-operations, for accesses that start there."""
        moved = (
            [start + o for o in each] for start, each in zip(starts, self.offsets, strict=True)
        )
        columns = [*moved, *([0] * len(self.offsets[0]) for _ in range(3 - len(self.offsets)))]
        return tuple(encode_uop(Uop(*each)) for each in zip(*columns, strict=True))


def operations_of(elements: Elements, room: int, *, accumulates: bool) -> Operations:
    """The fewest micro-operations, at most `room`, that go through all elements.

    All loops but two become micro-operations, in the order in which they were scheduled. Where
    results are added to, the pipeline needs some operations between two sums into one row.
    """
    loops = _joined(_as_loops(elements))
    while len(loops) < 2:
        loops.insert(0, (1, (0,) * len(elements.factors)))
    best: Operations | None = None
    fault = ""
    for chosen in itertools.combinations(range(len(loops)), 2):
        found = _with_loops(loops, chosen)
        if found is None or len(found.offsets[0]) > room:
            fault = fault or f"more than {room} micro-operations, which do not fit their buffer"
            continue
        if best is not None and len(found.offsets[0]) >= len(best.offsets[0]):
            continue
        wrong = distance_fault(_results(found)) if accumulates else ""
        if not wrong:
            best = found
        fault = fault or wrong
    if best is None:
        raise CodegenError(f"vta: {fault}")
    return best


def _results(found: Operations) -> Array:
    """The rows of results in the order of operations."""
    (outer, outer_factors), (inner, inner_factors) = found.loops
    loops = grid((outer, inner), (outer_factors[0], inner_factors[0]))
    rows: Array = (loops[..., None] + np.array(found.offsets[0])).ravel()
    return rows


def _as_loops(elements: Elements) -> list[_Loop]:
    moves = zip(*elements.factors, strict=True) if elements.loops else ()
    return [(extent, tuple(m)) for extent, m in zip(elements.extents, moves, strict=True)]


def _joined(loops: list[_Loop]) -> list[_Loop]:
    """Neighbours that together step evenly, as one loop."""
    made: list[_Loop] = []
    for extent, factors in loops:
        if made:
            outer, moves = made[-1]
            even = all(m == f * extent for m, f in zip(moves, factors, strict=True))
            if even and outer * extent <= _MOST_ITERATIONS:
                made[-1] = (outer * extent, factors)
                continue
        made.append((extent, factors))
    return made


def _with_loops(loops: Sequence[_Loop], chosen: tuple[int, int]) -> Operations | None:
    rest = [loop for n, loop in enumerate(loops) if n not in chosen]
    if any(loops[n][0] > _MOST_ITERATIONS or min(loops[n][1]) < 0 for n in chosen):
        return None
    extents = [extent for extent, _ in rest]
    accesses = range(len(loops[0][1]))
    offsets = (grid(extents, [factors[n] for _, factors in rest]) for n in accesses)
    return Operations(
        (loops[chosen[0]], loops[chosen[1]]), tuple(tuple(o.ravel().tolist()) for o in offsets)
    )


class UopBuffer:
    """Micro-operations in main memory, and which of them lie in the buffer at a moment."""

    def __init__(self, depth: int) -> None:
        self.depth = depth
        self.words: list[int] = []  # all, as they lie in main memory
        self._stored: dict[tuple[int, ...], int] = {}
        self._loaded: dict[tuple[int, ...], int] = {}
        self._next = 0

    def place(self, words: tuple[int, ...]) -> tuple[int, int | None]:
        """Where in the buffer words are, and where in main memory to load them from, if need be."""
        if words in self._loaded:
            return self._loaded[words], None
        if words not in self._stored:
            self._stored[words] = len(self.words)
            self.words += words
        if self._next + len(words) > self.depth:
            self._next = 0
        begin, end = self._next, self._next + len(words)
        self._loaded = dict(self._outside(begin, end))
        self._loaded[words], self._next = begin, end
        return begin, self._stored[words]

    def _outside(self, begin: int, end: int) -> Iterator[tuple[tuple[int, ...], int]]:
        for words, at in self._loaded.items():
            if at + len(words) <= begin or at >= end:
                yield words, at
