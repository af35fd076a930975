"""Conjunctions of conditions, as the predicates of blocks are."""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.ir import And, IntImm, PrimExpr


def conjuncts(predicate: PrimExpr) -> Iterator[PrimExpr]:
    """The conditions that a predicate joins, in order; none if it always holds."""
    if isinstance(predicate, And):
        yield from conjuncts(predicate.a)
        yield from conjuncts(predicate.b)
    elif type(predicate) is not IntImm or not predicate.value:
        yield predicate
