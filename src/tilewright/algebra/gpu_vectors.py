"""Widths of vectors in GPU kernels, as expressions (`space/gpu/lowered_kernels.py`)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence

from tilewright import ir
from tilewright.algebra.expr import (
    Value,
    both,
    bounds,
    either,
    equal,
    floor_divide,
    is_more_than_one,
    less,
    maximum,
    multiply,
    negate,
    remainder,
    where,
)
from tilewright.algebra.indices import index_terms
from tilewright.algebra.loop_tree import (
    Digit,
    LoopNode,
    StageNode,
    iterators_of,
    loops_of,
    roots_of,
)
from tilewright.nest.quotients import EVERYTHING
from tilewright.space.gpu.lowered_kernels import INDEX_BYTES, VECTOR_BYTES
from tilewright.space.postprocs.rewrite_cooperative_fetch import moved_bytes


def widest_vector(stage: StageNode) -> Value:
    """Bytes of the widest vector that a stage moves, converts or indexes with."""
    widest: Value = 0
    for loop in loops_of(stage):
        if loop.kind is ir.ForKind.VECTORIZED and not stage.parts:
            width = _bytes_of_lane(stage, loop)
            bytes_ = multiply(loop.extent, width)
            widest = maximum(widest, where(is_more_than_one(loop.extent), bytes_, 0))
    return widest


def _bytes_of_lane(stage: StageNode, loop: LoopNode) -> Value:
    """Bytes of each lane: of values, or of indices where there are gaps between lanes."""
    nodes = list(ir.walk(stage.block.body))
    values = max(map(moved_bytes, nodes))
    if bounds(loop.extent)[1] * INDEX_BYTES <= VECTOR_BYTES or values >= INDEX_BYTES:
        return values
    gaps: Value = 0
    for node in nodes:
        if isinstance(node, (ir.BufferStore, ir.BufferLoad)):
            gaps = either(gaps, _has_gaps(stage, loop, node.indices))
    return where(gaps, INDEX_BYTES, values)


def _has_gaps(stage: StageNode, loop: LoopNode, indices: Sequence[ir.PrimExpr]) -> Value:
    """1 where an access steps evenly from lane to lane, but not to the next element."""
    iterators = iterators_of(stage)
    gaps: Value = 0
    for position, index in enumerate(indices):
        terms = index_terms(iterators, index)
        expected = 1 if position == len(indices) - 1 else 0
        gaps = either(gaps, _steps_otherwise(terms, loop, expected))
    return gaps


def _steps_otherwise(terms: Mapping[Digit, Value], loop: LoopNode, expected: int) -> Value:
    lane = loop.digits[0]
    moved = {digit: c for digit, c in terms.items() if lane in roots_of([digit])}
    most = bounds(loop.extent)[1]
    places = [_at(moved, lane, number) for number in range(most)]
    steps = [after - before for before, after in itertools.pairwise(places)]
    even: Value = 1
    for number, step in enumerate(steps[1:], 2):
        even = both(even, either(negate(less(number, loop.extent)), equal(step, steps[0])))
    mentioned: Value = 0
    for digit in moved:
        mentioned = either(mentioned, is_more_than_one(digit.extent))
    return both(both(even, mentioned), negate(equal(steps[0], expected)))


def _at(terms: Mapping[Digit, Value], lane: Digit, number: int) -> Value:
    """A sum where one digit has a number, and all others are zero."""
    total: Value = 0
    for digit, coefficient in terms.items():
        total = total + multiply(coefficient, _digit_at(digit, lane, number))
    return total


def _digit_at(digit: Digit, lane: Digit, number: int) -> Value:
    if digit is lane:
        return number
    if digit.source is None:
        return 0
    value = floor_divide(_at(digit.source, lane, number), digit.below)
    return value if digit.extent == EVERYTHING else remainder(value, digit.extent)


def vector_widths(stages: Sequence[StageNode]) -> Iterator[tuple[StageNode, Value]]:
    """The stages that have vectors, and how wide these are."""
    for stage in stages:
        width = widest_vector(stage)
        if bounds(width)[1] > VECTOR_BYTES:
            yield stage, width
