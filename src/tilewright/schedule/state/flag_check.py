"""Checks of a schedule after each step, for `debug_mask`: its cached flags, its program.

A flag that was proven once may be beyond proof after loops were split and fused, though it still
holds. So a flag that cannot be proven again is only called wrong if counting refutes it: all
iterations of the loops, on arrays.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from tilewright import ir
from tilewright.arith.numpy_eval import evaluate_on_arrays
from tilewright.errors import ArithError, WellFormedError
from tilewright.ir.access import inputs_of
from tilewright.schedule.conditions.checks import compute_affine_binding
from tilewright.schedule.regions.relaxed import constant_loop
from tilewright.schedule.state.flags import compute_region_cover, producers_of
from tilewright.schedule.state.scope import (
    DepKind,
    loops_between,
    loops_from,
    lowest_common_ancestor,
)
from tilewright.schedule.state.sref import StmtSRef
from tilewright.schedule.state.state import ScheduleState

Array: TypeAlias = npt.NDArray[Any]
_MOST_ITERATIONS = 1 << 16


class _TooMuch(Exception):
    """More iterations than worth counting, or a number that is not known."""


def verify_cached_flags(state: ScheduleState) -> None:
    """Check that what is remembered of each block is what the program says."""
    for block, info in list(state.infos.items()):
        if block.stmt is None or block.parent is None:
            continue
        known = (info.affine_binding, info.region_cover, *_flags_depend_on(state, block))
        if len(known) == len(info.verified) and all(map(operator.is_, known, info.verified)):
            continue  # the step changed something else
        if info.affine_binding is not None:
            proven = compute_affine_binding(block)
            if proven != info.affine_binding and (proven or not _fills_a_box(block)):
                raise AssertionError(f"affine_binding of block {block.name!r} is out of date")
        if info.region_cover is not None:
            proven = compute_region_cover(state, block)
            if proven != info.region_cover and (proven or not _reads_what_is_written(state, block)):
                raise AssertionError(f"region_cover of block {block.name!r} is out of date")
        info.verified = known


def _flags_depend_on(state: ScheduleState, block: StmtSRef) -> Iterator[object]:
    """Everything that says whether a block's flags hold: how it and its producers are run."""
    scope = state.scope_of(block.scope_root)
    for stage in (block, *scope.producers(block, DepKind.RAW)):
        yield stage.realize
        for loop in loops_from(stage.parent):
            yield from (loop.loop_var, loop.min, loop.extent)


def _grid(loops: Sequence[ir.For]) -> dict[ir.Var, Array]:
    """The variables of loops in all their iterations."""
    domains = [constant_loop(loop) for loop in loops]
    known = [domain for domain in domains if domain is not None]
    if len(known) < len(loops) or math.prod(count for _, count in known) > _MOST_ITERATIONS:
        raise _TooMuch
    axes = [np.arange(begin, begin + count) for begin, count in known]
    arrays = np.meshgrid(*axes, indexing="ij") if axes else []
    return {loop.loop_var: array.ravel() for loop, array in zip(loops, arrays, strict=True)}


def _evaluate(expr: ir.PrimExpr, grid: dict[ir.Var, Array]) -> Array:
    size = next((len(array) for array in grid.values()), 1)
    try:
        return np.broadcast_to(evaluate_on_arrays(expr, grid), (size,))
    except ArithError:
        raise _TooMuch from None


def _fills_a_box(block: StmtSRef) -> bool:
    """Whether bindings take every combination of their values; True if that is unknown."""
    realize = block.realize
    try:
        grid = _grid([loop.loop for loop in block.loops])
        values = [_evaluate(value, grid) for value in realize.iter_values]
        runs = _evaluate(realize.predicate, grid)
    except _TooMuch:
        return True
    if not values or not runs.any():
        return True
    points = np.unique(np.stack(values)[:, runs], axis=1)
    sides = points.max(axis=1) - points.min(axis=1) + 1
    return bool(points.shape[1] == sides.prod())


def _reads_what_is_written(state: ScheduleState, block: StmtSRef) -> bool:
    """Whether each read finds what it reads written; True if that is unknown."""
    scope = state.scope_of(block.scope_root)
    for region in inputs_of(block.block).values():
        producers = producers_of(scope, block, region)
        if not producers:
            continue
        top = lowest_common_ancestor([block, *producers])
        try:
            read = _touched(block.realize, region, loops_from(top), loops_between(block, top))
            written = [
                _touched(other.realize, made, loops_from(top), loops_between(other, top))
                for other in producers
                for made in other.block.writes
                if made.buffer is region.buffer
            ]
        except _TooMuch:
            continue
        if not np.isin(read, np.concatenate(written)).all():
            return False
    return True


def _touched(
    realize: ir.BlockRealize,
    region: ir.BufferRegion,
    outer: Sequence[ir.For],
    inner: Sequence[ir.For],
) -> Array:
    """Numbers of all pairs of outer iteration and element of the buffer that meet."""
    grid = _grid([*outer, *inner])
    runs = _evaluate(realize.predicate, grid)
    starts = [
        _evaluate(ir.substitute(item.min, realize.values), grid)[runs] for item in region.region
    ]
    offsets = np.indices([_limited_extent(item) for item in region.region]).reshape(len(starts), -1)
    shape = tuple(_number(extent) for extent in region.buffer.shape)
    count = len(offsets[0]) if len(offsets) else 1
    if count * len(runs) > _MOST_ITERATIONS * 16:
        raise _TooMuch
    iteration = np.zeros(int(runs.sum()), np.int64)
    for loop in outer:
        iteration = iteration * _number(loop.extent) + (grid[loop.loop_var][runs])
    element = np.zeros((len(iteration), count), np.int64)
    inside = np.ones((len(iteration), count), np.bool_)
    for start, offset, extent in zip(starts, offsets, shape, strict=True):
        index = start[:, None] + offset[None, :]
        inside &= (index >= 0) & (index < extent)
        element = element * extent + index
    numbers = iteration[:, None] * math.prod(shape) + element
    return np.unique(numbers[inside])


def _limited_extent(item: ir.Range) -> int:
    extent = _number(item.extent)
    if extent > _MOST_ITERATIONS:
        raise _TooMuch
    return extent


def _number(expr: ir.PrimExpr) -> int:
    if not isinstance(expr, ir.IntImm):
        raise _TooMuch
    return expr.value


# --- the program ---------------------------------------------------------------------------------


def verify_program(before: ir.IRModule, after: ir.IRModule, step: str) -> None:
    """Check that a well-formed program stayed one and lost all names of what it no longer has."""
    if after is before:
        return
    kept, used = _buffers(after)
    stale = (_buffers(before)[0] - kept) & used
    if stale:
        names = ", ".join(sorted(repr(buffer.name) for buffer in stale))
        raise AssertionError(f"{step} left uses of buffers that are no longer there: {names}")
    try:
        ir.verify_well_formed(after)
    except WellFormedError as error:
        if ir.verify_well_formed(before, assert_mode=False):
            raise AssertionError(f"{step} broke the program: {error}") from error


def _buffers(module: ir.IRModule) -> tuple[set[ir.Buffer], set[ir.Buffer]]:
    """All buffers that a module declares, and those of its accesses and regions."""
    pairs = [_buffers_of(func) for func in module.functions.values()]
    return set().union(*(pair[0] for pair in pairs)), set().union(*(pair[1] for pair in pairs))


@functools.lru_cache(maxsize=4)  # what one step has made is what the next begins with
def _buffers_of(func: ir.PrimFunc) -> tuple[set[ir.Buffer], set[ir.Buffer]]:
    declared, used = set(func.buffer_map.values()), set()
    for node in ir.walk(func.body):
        if isinstance(node, ir.Block):
            declared.update(node.alloc_buffers)
            declared.update(match.buffer for match in node.match_buffers)
        elif isinstance(node, ir.DeclBuffer):
            declared.add(node.buffer)
        if hasattr(node, "buffer"):
            used.add(node.buffer)
    return declared, used
