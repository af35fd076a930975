"""The layout in which a loop nest reads a buffer from front to back."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tilewright import arith, ir
from tilewright.arith.iter_map import IterMark, IterSplitExpr, IterSumExpr
from tilewright.schedule.state import Exprs
from tilewright.schedule.state.scope import domains_of


@dataclass(frozen=True)
class _Digit:
    """A part of a loop variable that an access uses, `(loop // lower) % extent`."""

    position: int  # of the loop in the nest
    lower: int
    extent: int


def suggest_index_map(
    buffer: ir.Buffer, indices: Exprs, loops: Sequence[ir.For], predicate: ir.PrimExpr = ir.TRUE
) -> arith.IndexMap | None:
    """A layout in which the access at `indices` walks memory in the order of the loops.

    The map comes with its inverse. None where the access is no sum of digits of loop variables.
    """
    shape = [extent.value if isinstance(extent, ir.IntImm) else 0 for extent in buffer.shape]
    if not all(shape):
        return None
    digits = _digits(buffer, indices, loops, predicate)
    if digits is None or math.prod(digit.extent for digit in digits) != math.prod(shape):
        return None
    order = sorted(range(len(digits)), key=lambda d: (digits[d].position, -digits[d].lower))
    return _index_map(shape, [digit.extent for digit in digits], order)


def _digits(
    buffer: ir.Buffer, indices: Exprs, loops: Sequence[ir.For], predicate: ir.PrimExpr
) -> list[_Digit] | None:
    """The digits that the flat index consists of, most significant first."""
    domains = domains_of(loops)
    flat = buffer.offset_of(indices)
    found = arith.detect_iter_map([flat], domains, predicate, arith.IterMapLevel.SURJECTIVE)
    if len(found.indices) != 1:
        return None
    positions = {loop.loop_var: position for position, loop in enumerate(loops)}
    digits: list[_Digit] = []
    for split in _atoms(found.indices[0]):
        source = split.source.source
        numbers = split.lower_factor, split.extent
        if not isinstance(source, ir.Var) or source not in positions:
            return None
        if not isinstance(numbers[0], ir.IntImm) or not isinstance(numbers[1], ir.IntImm):
            return None
        digits.append(_Digit(positions[source], numbers[0].value, numbers[1].value))
    return digits


def _atoms(total: IterSumExpr) -> Iterator[IterSplitExpr]:
    """The splits of loop variables in a sum, those inside fused iterators included."""
    for split in total.args:
        mark: IterMark = split.source
        whole = ir.is_one(split.lower_factor)
        if isinstance(mark.source, IterSumExpr) and whole:
            yield from _atoms(mark.source)
        else:
            yield split


def _index_map(
    shape: Sequence[int], extents: Sequence[int], order: Sequence[int]
) -> arith.IndexMap:
    inputs = [ir.Var(f"i{axis}", ir.INT32) for axis in range(len(shape))]
    outputs = [ir.Var(f"i{axis}", ir.INT32) for axis in range(len(extents))]
    forward = _unflatten(_flatten(inputs, shape), extents, inputs, shape)
    values: list[ir.PrimExpr] = [ir.const(0, ir.INT32)] * len(extents)
    for position, digit in enumerate(order):
        values[digit] = outputs[position]
    reordered = [extents[digit] for digit in order]
    backward = _unflatten(_flatten(values, extents), shape, outputs, reordered)
    inverse = arith.IndexMap(tuple(outputs), tuple(backward))
    return arith.IndexMap(tuple(inputs), tuple(forward[digit] for digit in order), inverse)


def _flatten(values: Exprs, extents: Sequence[int]) -> ir.PrimExpr:
    flat: ir.PrimExpr = ir.const(0, ir.INT32)
    for value, extent in zip(values, extents, strict=True):
        flat = flat * extent + value
    return flat


def _unflatten(
    flat: ir.PrimExpr, extents: Sequence[int], variables: Sequence[ir.Var], domains: Sequence[int]
) -> list[ir.PrimExpr]:
    """The digits of a flat index; `variables` lie in `domains`."""
    analyzer = arith.Analyzer()
    for var, extent in zip(variables, domains, strict=True):
        if extent != 1:
            analyzer.bind(var, ir.Range(ir.const(0, var.dtype), ir.const(extent, var.dtype)))
    digits: list[ir.PrimExpr] = []
    for extent in reversed(extents):
        digits.append(analyzer.simplify(ir.floormod(flat, extent)))
        flat = analyzer.simplify(ir.floordiv(flat, extent))
    return digits[::-1]
