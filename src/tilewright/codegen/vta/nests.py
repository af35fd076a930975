"""Loops around one statement, and the elements of scratchpads and memory that it goes through.

Indices of such a statement are sums of its loop variables; what outer loops add is known when a
nest is visited. Loops over the numbers of an element ("lanes") are dropped: instructions move and
compute whole elements.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from tilewright import ir
from tilewright.arith.affine import affine_of
from tilewright.arith.numpy_eval import evaluate_on_arrays
from tilewright.errors import CodegenError

Array: TypeAlias = npt.NDArray[np.int64]
Values: TypeAlias = dict[ir.Var, npt.NDArray[Any]]
_CALL_EXTERN = ir.Op.get("tir.call_extern")


@dataclass(frozen=True)
class Nest:
    """Perfectly nested loops around a store or a call of an instruction."""

    loops: tuple[tuple[ir.Var, int], ...]
    leaf: ir.BufferStore | ir.Call


def nest_of(stmt: ir.Stmt) -> Nest | None:
    """A statement as a nest, unless there is more than one thing in it."""
    loops: list[tuple[ir.Var, int]] = []
    while isinstance(stmt, ir.For):
        if not isinstance(stmt.extent, ir.IntImm) or not ir.is_zero(stmt.min):
            return None
        loops.append((stmt.loop_var, stmt.extent.value))
        stmt = stmt.body
    match stmt:
        case ir.BufferStore():
            return Nest(tuple(loops), stmt)
        case ir.Evaluate(value=ir.Call(op=op) as call) if op is _CALL_EXTERN:
            return Nest(tuple(loops), call)
    return None


@dataclass(frozen=True)
class FlatAccess:
    """An index into flat memory: how far each loop moves it, and the sum of the other parts."""

    factors: tuple[int, ...]
    base: int
    outer: tuple[tuple[ir.PrimExpr, int], ...]  # terms and their scales

    def start(self, values: Values) -> int:
        """The index where all loops of the nest begin."""
        parts = (scale * int(evaluate_on_arrays(term, values)) for term, scale in self.outer)
        return self.base + sum(parts)


def access(nest: Nest, load: ir.BufferLoad | ir.BufferStore) -> FlatAccess:
    """The one index of a load or store in a nest."""
    own = dict(nest.loops)
    (index,) = load.indices
    form = affine_of(index)
    terms: Mapping[Any, int] = form.terms
    outer = tuple((term, int(scale)) for term, scale in terms.items() if term not in own)
    if any(ir.uses_var(term, own.__contains__) for term, _ in outer):
        raise CodegenError(
            f"vta: the index {index} of {load.buffer.name} is no sum of multiples of loop variables"
        )
    factors = tuple(int(terms.get(var, 0)) for var, _ in nest.loops)
    return FlatAccess(factors, int(form.base), outer)


@dataclass(frozen=True)
class Elements:
    """Loops over whole elements, with the factors of some accesses in elements."""

    loops: tuple[tuple[ir.Var | None, int], ...]  # None: a part of a loop that was cut
    factors: tuple[tuple[int, ...], ...]  # by access, then by loop

    @property
    def extents(self) -> tuple[int, ...]:
        """Iterations of each loop."""
        return tuple(extent for _, extent in self.loops)

    def offsets(self, which: int) -> Array:
        """Where an access goes, as an array with an axis for each loop."""
        return grid(self.extents, self.factors[which])


def grid(extents: Sequence[int], factors: Sequence[int]) -> Array:
    """All values of a sum of loop variables."""
    total: Array = np.zeros(tuple(extents), np.int64)
    for axis, (extent, factor) in enumerate(zip(extents, factors, strict=True)):
        steps = np.arange(extent, dtype=np.int64) * factor
        total += steps.reshape([-1 if n == axis else 1 for n in range(len(extents))])
    return total


def whole_elements(nest: Nest, accesses: Sequence[FlatAccess], lanes: int, what: str) -> Elements:
    """Drop the loops over the lanes of elements; all accesses go through lanes alike."""
    loops: list[tuple[ir.Var | None, int, list[int]]] = []
    inside: list[tuple[int, int]] = []
    for axis, (var, extent) in enumerate(nest.loops):
        moves = [each.factors[axis] for each in accesses]
        kept, dropped = _cut(moves, extent, lanes)
        if dropped > 1:
            if len(set(moves)) > 1:
                raise _partial(what, lanes)
            inside.append((moves[0], dropped))
        if kept > 1:
            scaled = [move * dropped for move in moves]
            if any(move % lanes for move in scaled):
                raise _partial(what, lanes)
            loops.append((var if dropped == 1 else None, kept, [m // lanes for m in scaled]))
    if not _fills(inside, lanes):
        raise _partial(what, lanes)
    by_access = tuple(tuple(loop[2][n] for loop in loops) for n in range(len(accesses)))
    return Elements(tuple((var, extent) for var, extent, _ in loops), by_access)


def _cut(moves: Sequence[int], extent: int, lanes: int) -> tuple[int, int]:
    """Iterations over elements, and over lanes, of a loop."""
    step = moves[0]
    if step == 0 or step % lanes == 0:
        return extent, 1
    within = lanes // step if lanes % step == 0 else 1
    if extent <= within:
        return 1, extent
    return (extent // within, within) if extent % within == 0 else (extent, 1)


def _fills(inside: Sequence[tuple[int, int]], lanes: int) -> bool:
    """Whether loops over lanes reach each lane once."""
    if math.prod(extent for _, extent in inside) != lanes:
        return False
    reach = 1
    for step, extent in sorted(inside):
        if step != reach:
            return False
        reach *= extent
    return True


def _partial(what: str, lanes: int) -> CodegenError:
    return CodegenError(f"vta: {what} does not consist of whole elements of {lanes} numbers")


def by_elements(nest: Nest, accesses: Sequence[FlatAccess], lanes: Sequence[int]) -> Elements:
    """A nest that moves by whole elements."""
    factors = []
    for access, size in zip(accesses, lanes, strict=True):
        if any(factor % size for factor in access.factors):
            raise CodegenError(
                f"vta: an operand moves by {access.factors} numbers, which are no whole elements "
                f"of {size}"
            )
        factors.append(tuple(factor // size for factor in access.factors))
    return Elements(nest.loops, tuple(factors))
