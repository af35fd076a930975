"""Loop nests of operators that are made of statements, and when rows are worth several threads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from tilewright.ir import ExprLike, IntImm, PrimExpr, Var, convert
from tilewright.ir.builder import IRBuilder
from tilewright.topi.axes import extent_product, is_zero
from tilewright.topi.transform import unflatten_index

# Waking the other threads takes as long as some ten thousand simple steps.
_STEPS_WORTH_THREADS = 1 << 16


@contextmanager
def nested_loops(ib: IRBuilder, extents: Sequence[ExprLike], name: str) -> Iterator[list[Var]]:
    """Loops over all positions of a shape, in row-major order; gives the indices."""
    with ExitStack() as loops:
        yield [
            loops.enter_context(ib.for_range(0, extent, f"{name}{d}"))
            for d, extent in enumerate(extents)
        ]


def loop_kind(count: ExprLike, shape: Sequence[PrimExpr]) -> str:
    """How to run a loop of `count` independent steps over a tensor of this shape."""
    steps, work = convert(count), extent_product(shape)
    if not isinstance(steps, IntImm) or not isinstance(work, IntImm):
        return "independent"
    is_worth_it = steps.value > 1 and work.value >= _STEPS_WORTH_THREADS
    return "parallel" if is_worth_it else "independent"


def row_indices(row: PrimExpr, extents: Sequence[PrimExpr]) -> list[PrimExpr]:
    """The indices of a row that is numbered row-major."""
    if any(map(is_zero, extents)):  # there is no row, and nothing to divide by
        return [row] * len(extents)
    return unflatten_index(row, extents)
