"""Accesses of a kernel to shared memory, and which of them two different threads may make.

Sizes of kernels are known numbers, so it is not proven but counted out which bytes each thread
touches: all threads and all loops that run in between are enumerated. Variables that stand still
(loops around both accesses, blocks of the grid) drop out where both indices contain the same sum
of them; others are enumerated, too, if they take few values. What cannot be counted out conflicts.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from tilewright import ir
from tilewright.arith import Analyzer
from tilewright.arith.numpy_eval import evaluate_on_arrays
from tilewright.errors import ArithError

Numbers: TypeAlias = npt.NDArray[np.int64]

WARP_SIZE = 32
MOST_POINTS = 1 << 22  # accesses of all threads that are counted out
MOST_CASES = 256  # values of variables that stand still


@dataclass(frozen=True, eq=False)
class Access:
    """One place that touches shared memory; the index counts elements of `size` bytes."""

    data: ir.Var
    is_write: bool
    index: ir.PrimExpr | None  # of the first element; None: it may be any
    size: int
    count: int = 1  # elements in a row
    rows: int = 1
    pitch: int = 0  # elements from one row to the next
    by_warp: bool = False  # a warp does it together, and any of its threads may touch any byte
    loops: tuple[ir.For, ...] = ()  # around it, from the outside in
    tests: tuple[ir.PrimExpr, ...] = ()

    def moved(self, bindings: Mapping[ir.Var, ir.PrimExpr]) -> Access:
        """The same access with other values of variables."""
        index = None if self.index is None else ir.substitute(self.index, bindings)
        tests = tuple(ir.substitute(test, bindings) for test in self.tests)
        return replace(self, index=index, tests=tests)


@dataclass(frozen=True)
class _Owners:
    """The pieces of memory that an access touches, and the first and last thread to touch each."""

    pieces: Numbers
    first: Numbers
    last: Numbers


class _Uncountable(Exception):
    """Nothing is known about the bytes that an access touches."""


@dataclass
class Conflicts:
    """Answers whether two accesses of different threads may meet in one byte."""

    # The threads of a block with their extents, the fastest dimension last; None: unknown.
    threads: Mapping[ir.Var, int] | None
    ranges: dict[ir.Var, range] = field(default_factory=dict)  # of all loops with constant ones
    _analyzer: Analyzer = field(default_factory=Analyzer)

    def between(self, a: Access, b: Access, still: Iterable[ir.Var]) -> bool:
        """True unless no byte is touched by one thread in `a` and by another in `b`.

        Both happen in one iteration of the loops over `still`.
        """
        if a.data is not b.data or not (a.is_write or b.is_write):
            return False
        if a.index is None or b.index is None or self.threads is None:
            return True
        if math.prod(self.threads.values()) == 1:
            return False
        try:
            return self._meet(a, b, set(still))
        except (_Uncountable, ArithError):
            return True

    def _meet(self, a: Access, b: Access, still: set[ir.Var]) -> bool:
        assert a.index is not None
        assert b.index is not None
        fixed = still | self._outside(a, still) | self._outside(b, still)
        a_still, a_rest = _split(a.index, fixed)
        b_still, b_rest = _split(b.index, fixed)
        if a.size == b.size:
            apart = self._analyzer.simplify(a_still - b_still)
            a_parts, b_parts = [a_rest, apart], [b_rest]
        else:
            a_parts, b_parts = [a_rest, a_still], [b_rest, b_still]
        piece = math.gcd(a.size, b.size)
        for case in self._cases([*a_parts, *b_parts], fixed):
            mine = self._owners(a, a_parts, case, piece)
            theirs = self._owners(b, b_parts, case, piece)
            by_warp = a.by_warp or b.by_warp
            in_order = not by_warp or (a.by_warp and b.by_warp and a.is_write and b.is_write)
            if _share(mine, theirs, in_order):
                return True
        return False

    def _outside(self, access: Access, still: set[ir.Var]) -> set[ir.Var]:
        """Variables of an index that are neither threads nor loops that run."""
        running = {loop.loop_var for loop in access.loops} - still
        assert access.index is not None
        return {
            var
            for var in ir.free_vars(access.index)
            if var not in running and var not in self._known_threads()
        }

    def _known_threads(self) -> Mapping[ir.Var, int]:
        assert self.threads is not None
        return self.threads

    def _cases(
        self, parts: Sequence[ir.PrimExpr], fixed: set[ir.Var]
    ) -> Iterator[dict[ir.Var, int]]:
        """All values of the variables that stand still and do not drop out."""
        names = {var: None for part in parts for var in ir.free_vars(part) if var in fixed}
        counts = [self._values_of(var, parts) for var in names]
        if math.prod(map(len, counts)) > MOST_CASES:
            raise _Uncountable
        for values in itertools.product(*counts):
            yield dict(zip(names, values, strict=True))

    def _values_of(self, var: ir.Var, parts: Sequence[ir.PrimExpr]) -> range:
        """The values of a variable that have to be looked at."""
        period, values = _period(var, parts), self.ranges.get(var)
        if values is not None:
            return values if period is None else values[:period]
        if period is None:
            raise _Uncountable
        return range(period)

    def _owners(
        self, access: Access, parts: Sequence[ir.PrimExpr], case: Mapping[ir.Var, int], piece: int
    ) -> _Owners:
        known = {*self._known_threads(), *case, *(loop.loop_var for loop in access.loops)}
        tests = [test for test in access.tests if known.issuperset(ir.free_vars(test))]
        tests = [test for test in tests if not ir.has_load(test)]
        values, thread = self._points([*parts, *tests], access, case)
        start = sum((evaluate_on_arrays(part, values) for part in parts), np.int64(0))
        owner = thread // WARP_SIZE if access.by_warp else thread
        start, thread = np.broadcast_arrays(start, owner)
        taken = np.ones(start.shape, np.bool_)
        for test in tests:
            taken = taken & evaluate_on_arrays(test, values)
        scale = access.size // piece
        start, thread = start[taken] * scale, thread[taken]
        within = np.arange(access.rows)[:, None] * access.pitch * scale
        within = (within + np.arange(access.count * scale)).ravel()
        if start.size * within.size > MOST_POINTS:
            raise _Uncountable
        return _owners_of((start[:, None] + within).ravel(), np.repeat(thread, within.size))

    def _points(
        self, exprs: Sequence[ir.PrimExpr], access: Access, case: Mapping[ir.Var, int]
    ) -> tuple[dict[ir.Var, Numbers], Numbers]:
        """All values of threads and of loops that matter, each along an axis of its own."""
        used = {var for expr in exprs for var in ir.free_vars(expr)}
        loops = [loop.loop_var for loop in access.loops if loop.loop_var in used - case.keys()]
        if any(var not in self.ranges for var in loops):
            raise _Uncountable
        threads = self._known_threads()
        axes = {var: range(extent) for var, extent in threads.items()}
        axes |= {var: self.ranges[var] for var in loops}
        shape = tuple(map(len, axes.values()))
        if math.prod(shape) > MOST_POINTS:
            raise _Uncountable
        grids = np.meshgrid(*map(np.asarray, axes.values()), indexing="ij", sparse=True)
        values = dict(zip(axes, grids, strict=True))
        thread = np.zeros((), np.int64)
        for var, extent in threads.items():
            thread = thread * extent + values[var]
        full = np.broadcast_to(thread, shape)
        return {**values, **{var: np.asarray(value) for var, value in case.items()}}, full


def _owners_of(pieces: Numbers, thread: Numbers) -> _Owners:
    order = np.argsort(pieces, kind="stable")
    pieces, thread = pieces[order], thread[order]
    unique, begin = np.unique(pieces, return_index=True)
    if not unique.size:
        return _Owners(unique, unique, unique)
    return _Owners(unique, np.minimum.reduceat(thread, begin), np.maximum.reduceat(thread, begin))


def _share(a: _Owners, b: _Owners, in_order: bool) -> bool:
    """True when two owners touch the same piece; or one, unless what it does stays in order."""
    _, mine, theirs = np.intersect1d(a.pieces, b.pieces, assume_unique=True, return_indices=True)
    if not in_order:
        return bool(mine.size)
    first = np.minimum(a.first[mine], b.first[theirs])
    last = np.maximum(a.last[mine], b.last[theirs])
    return bool(np.any(first != last))


def _split(index: ir.PrimExpr, fixed: set[ir.Var]) -> tuple[ir.PrimExpr, ir.PrimExpr]:
    """An index as the sum of what only uses `fixed` variables, and the rest."""
    parts: list[ir.PrimExpr] = [ir.const(0, index.dtype), ir.const(0, index.dtype)]
    for scale, term in _terms(index, 1):
        moves = not all(var in fixed for var in ir.free_vars(term))
        parts[moves] = parts[moves] + term * ir.const(scale, term.dtype)
    return parts[0], parts[1]


def _terms(expr: ir.PrimExpr, scale: int) -> Iterator[tuple[int, ir.PrimExpr]]:
    match expr:
        case ir.Add(a=a, b=b):
            yield from _terms(a, scale)
            yield from _terms(b, scale)
        case ir.Sub(a=a, b=b):
            yield from _terms(a, scale)
            yield from _terms(b, -scale)
        case ir.Mul(a=a, b=ir.IntImm(value=factor)) | ir.Mul(a=ir.IntImm(value=factor), b=a):
            yield from _terms(a, scale * factor)
        case _:
            yield scale, expr


def _period(var: ir.Var, exprs: Sequence[ir.PrimExpr]) -> int | None:
    """After how many steps of a variable expressions repeat, if it only occurs in remainders."""
    period = 1
    for expr in exprs:
        found = _period_in(var, expr)
        if found is None:
            return None
        period = math.lcm(period, found)
    return period


def _period_in(var: ir.Var, expr: ir.Node) -> int | None:
    if expr is var:
        return None
    if isinstance(expr, ir.FloorMod) and isinstance(expr.b, ir.IntImm) and _is_linear(var, expr.a):
        return expr.b.value
    inner = [_period_in(var, child) for child in ir.children(expr)]
    known = [period for period in inner if period is not None]
    return math.lcm(1, *known) if len(known) == len(inner) else None


def _is_linear(var: ir.Var, expr: ir.PrimExpr) -> bool:
    terms = [term for _, term in _terms(expr, 1)]
    return all(term is var or not ir.uses_var(term, lambda v: v is var) for term in terms)
