"""`annotate_buffer_access`, `unsafe_hide_buffer_access`: what a block says it reads and writes.

Dependencies between blocks follow from these declarations, so both change what the schedule
believes, not what the program does: the user answers for them.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tilewright import arith, ir
from tilewright.errors import ScheduleError
from tilewright.schedule.core import ScheduleCore
from tilewright.schedule.errors import PrimitiveError
from tilewright.schedule.state import BlockRV, ScheduleState, StmtSRef
from tilewright.schedule.trace.instruction import Primitive, given, register_primitive
from tilewright.schedule.trace.text import python_value

_SIDES = ("read", "write")
_FIELDS = {"read": "reads", "write": "writes"}


class UnknownSide(PrimitiveError):
    reason = "buf_type is 'read' or 'write', got {given!r}"


class NoSuchRegion(PrimitiveError):
    reason = "block {block!r} {side}s {count} buffers, none has number {index}"


class WrongBounds(PrimitiveError):
    reason = "buffer {buffer!r} has {ndim} dimensions, the new region gives {given} bounds"
    remedy = "give a begin and an end for each dimension"


def _regions(block: StmtSRef, side: str, indices: Sequence[int]) -> tuple[ir.BufferRegion, ...]:
    if side not in _SIDES:
        raise UnknownSide(block, given=side)
    regions: tuple[ir.BufferRegion, ...] = getattr(block.block, _FIELDS[side])
    for index in indices:
        if not 0 <= index < len(regions):
            raise NoSuchRegion(block=block, side=side, count=len(regions), index=index)
    return regions


@register_primitive
class UnsafeHideBufferAccess(Primitive[None]):
    """Drop regions from what a block declares."""

    block: BlockRV = given()
    buf_type: str = given()
    buf_index_array: list[int] = given()

    def run(self, sch: ScheduleCore) -> None:
        block, side, indices = sch.get_sref(self.block), self.buf_type, self.buf_index_array
        regions = _regions(block, side, indices)
        kept = tuple(region for index, region in enumerate(regions) if index not in set(indices))
        _declare(sch.state, block, ir.replace(block.block, **{_FIELDS[side]: kept}))


@register_primitive
class AnnotateBufferAccess(Primitive[None]):
    """Declare another region; the block is marked so that nobody works it out again."""

    block: BlockRV = given()
    buffer_index: int = given()
    side: int = given()  # 0 for reads, 1 for writes
    bounds: arith.IndexMap = given()

    def run(self, sch: ScheduleCore) -> None:
        block, index, side = sch.get_sref(self.block), self.buffer_index, _SIDES[self.side]
        bounds = sch.concrete_map(self.bounds)
        regions = _regions(block, side, [index])
        stmt = block.block
        buffer = regions[index].buffer
        if len(bounds.final_indices) != 2 * buffer.ndim:
            given = len(bounds.final_indices)
            raise WrongBounds(block, buffer=buffer.name, ndim=buffer.ndim, given=given)
        variables = [iter_var.var for iter_var in stmt.iter_vars]
        typed = bounds.with_dtype(variables[0].dtype) if variables else bounds
        mapping = dict(zip(typed.initial_indices, variables, strict=True))
        ends = [ir.substitute(bound, mapping) for bound in typed.final_indices]
        simplify = arith.Analyzer().simplify
        region = tuple(
            ir.Range(begin, simplify(ir.subtract(end, begin)))
            for begin, end in zip(ends[::2], ends[1::2], strict=True)
        )
        changed = (*regions[:index], ir.BufferRegion(buffer, region), *regions[index + 1 :])
        key = f"explicit_{side}_region"
        marked = sorted({*stmt.annotations.get(key, ()), index})
        annotations = {**stmt.annotations, key: marked}
        fields = {"annotations": annotations, _FIELDS[side]: changed}
        _declare(sch.state, block, ir.replace(stmt, **fields))

    def spelled(self, names: Mapping[object, str]) -> list[str]:
        return [
            f"block={python_value(self.block, names)}",
            f"buffer_index={self.buffer_index}",
            f'buf_type="{_SIDES[self.side]}"',
            f"gen_new_ranges={_in_pairs(python_value(self.bounds, names))}",
        ]


def _declare(state: ScheduleState, block: StmtSRef, changed: ir.Block) -> None:
    state.replace(block, changed)
    # Who depends on whom is a different question now, for every block around.
    for info in state.infos.values():
        info.region_cover = info.stage_pipeline = None


def side_number(buf_type: str) -> int:
    """0 for "read", 1 for "write"."""
    if buf_type not in _SIDES:
        raise UnknownSide(given=buf_type)
    return _SIDES.index(buf_type)


def bounds_map(
    stmt: ir.Block, gen_new_ranges: Callable[..., Any] | arith.IndexMap
) -> arith.IndexMap:
    """The bounds that a function of a block's iterators gives, as one flat map.

    For each dimension it returns a pair (begin, end), or a single index.
    """
    if isinstance(gen_new_ranges, arith.IndexMap):
        return gen_new_ranges
    variables = [ir.Var(iter_var.var.name, iter_var.var.dtype) for iter_var in stmt.iter_vars]
    bounds: list[ir.PrimExpr] = []
    for item in gen_new_ranges(*variables):
        if isinstance(item, (tuple, list)):
            if len(item) != 2:
                raise ScheduleError(f"a range of a region is a pair (begin, end), got {item!r}")
            bounds.extend(ir.convert(bound) for bound in item)
        else:
            point = ir.convert(item)
            bounds.extend((point, point + 1))
    return arith.IndexMap(tuple(variables), tuple(bounds))


def _in_pairs(text: str) -> str:
    """`lambda i: (a, b,)` with its results in pairs, as users write them."""
    function = ast.parse(text, mode="eval").body
    assert isinstance(function, ast.Lambda)
    assert isinstance(function.body, ast.Tuple)
    bounds = [ast.unparse(bound) for bound in function.body.elts]
    pairs = ", ".join(f"({a}, {b})" for a, b in zip(bounds[::2], bounds[1::2], strict=True))
    return f"lambda {ast.unparse(function.args)}: [{pairs}]"
