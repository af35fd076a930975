"""A reduction seen as a matrix product: which loops are rows, which are columns, what is streamed.

`out[batch, rows, columns] += left[batch, rows, depth] * right[batch, depth, columns]` covers
products, convolutions of all kinds and most attention steps. The innermost axis of the result is
the vector axis; the operand that is contiguous along it is the right one. Loops that the right
operand does not know are rows: their results share what was loaded of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tilewright.ir import Block, Var
from tilewright.nest.access import BufferAccess, divisors
from tilewright.nest.block_nest import BlockNest


@dataclass(frozen=True)
class Contraction:
    """The iterators of a block by their part in the computation; numbers are positions."""

    vector: int
    rows: tuple[int, ...]
    batch: tuple[int, ...]  # all other spatial ones, outermost first
    depth: tuple[int, ...]  # reductions
    extents: tuple[int, ...]
    right: int | None  # which read region is contiguous along the vector axis
    left: tuple[int, ...]  # the read regions that do not change along it
    # A vector may not cross a multiple of this: groups of channels read different inputs.
    vector_limit: int | None
    # Iterators that occur in `x % period`: tiles of a multiple of it turn conditions constant.
    periods: dict[int, int]

    @property
    def phases(self) -> tuple[int, ...]:
        """Row iterators that only say which terms are zero; see `SeparatePhases`."""
        return tuple(n for n in self.rows if self.periods.get(n) == self.extents[n])

    @staticmethod
    def of(block: Block, any_layout: bool = False) -> Contraction | None:
        """The contraction that a block computes, if it is one.

        With `any_layout`, the right operand need not be contiguous along the vector axis: it is
        going to be copied.
        """
        nest = BlockNest(block)
        vector = nest.writes[0].last if _has_form(block, nest) else None
        own = nest.position(vector)
        if vector is None or own is None:
            return None
        operands = nest.loaded
        streamed = [n for n, each in operands.items() if _is_streamed(each, vector, any_layout)]
        if len(streamed) < sum([_is_strided(each, vector) for each in operands.values()]):
            return None  # some operand would be gathered
        right = streamed[-1] if streamed else None
        known = set() if right is None else operands[right].variables
        rest = [n for n in nest.spatial if n != own]
        return Contraction(
            vector=own,
            rows=tuple(n for n in rest if nest.iters[n] not in known),
            batch=tuple(n for n in rest if nest.iters[n] in known),
            depth=tuple(nest.depth),
            extents=tuple(extent or 0 for extent in nest.extents),
            right=right,
            left=tuple(n for n in operands if n not in streamed),
            vector_limit=_vector_limit(operands.values(), vector),
            periods={n: nest.periods[v] for n, v in enumerate(nest.iters) if v in nest.periods},
        )


def _has_form(block: Block, nest: BlockNest) -> bool:
    is_reduction = block.init is not None and len(nest.writes) == 1
    return is_reduction and nest.is_plain and bool(nest.inputs)


def _is_streamed(operand: BufferAccess, vector: Var, any_layout: bool) -> bool:
    """True if an operand lies along the vector axis as it should."""
    return operand.axis_of(vector) is not None if any_layout else operand.runs_along(vector)


def _is_strided(operand: BufferAccess, vector: Var) -> bool:
    """True if neighbours along the vector axis lie in different places, contiguous or not."""
    moving = [index for index in operand.indices if vector in index.variables]
    return not all([divisors(index, vector) for index in moving])


def _vector_limit(operands: Iterable[BufferAccess], vector: Var) -> int | None:
    """The least number that an index divides the vector axis by."""
    indices = [index for operand in operands for index in operand.indices]
    return min([n for index in indices for n in divisors(index, vector) if n], default=None)
