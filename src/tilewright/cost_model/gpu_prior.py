"""An estimate of a candidate on a GPU, from its loops alone.

A tile kernel takes, for each step of the sum, as long as its products or its copies take, whichever
is longer; tiles that do not fit on the GPU at once come in rounds. The rates are those seen on an
H200 under load, where the clock is below its maximum.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from tilewright import ir
from tilewright.arith.numpy_eval import evaluate_on_arrays
from tilewright.cost_model.gpu_loops import kernel_seconds
from tilewright.cost_model.gpu_thread_tiles import thread_tile_seconds
from tilewright.ir import annotation_keys as keys
from tilewright.lowering.gpu.tile_kernels.gathering import Gathering
from tilewright.lowering.gpu.tile_kernels.layout import GroupLayout
from tilewright.lowering.gpu.tile_kernels.lower_tile_kernels import SHARED_BYTES, processors_of
from tilewright.lowering.gpu.tile_kernels.thread_tiles import ThreadTiles
from tilewright.lowering.gpu.tile_kernels.tile_form import TileForm, read_tile_form, tile_loops
from tilewright.nest.nests import StoreNest, nests_in
from tilewright.nest.reading import Reading, read
from tilewright.target import Target

_THREADS = ir.ForKind.THREAD_BINDING
_MEETING = 1.5e-6  # seconds until blocks that share a tile have met twice
_FAR_BYTES = 64  # a cycle, from the shared memory of other processors
# Processors that clusters of some size can use at the same time, as a part of all.
_USED = {1: 1.0, 2: 1.0, 4: 120 / 132, 8: 120 / 132}
_FLAG_LATENCY = 2.5e-6  # seconds until another block knows that sums are there
_SUMS_BYTES = 32  # a cycle, to and from memory that others see
_LAUNCH = 2.0e-6  # seconds until the first tile arrives, and after the last one
_HERTZ = 1.83e9
_HERTZ_OF_FEW = 1.95e9  # where fewer processors work
_MANY = 0.9  # of processors
_COPY_RATE = 150e9  # bytes a second into the shared memory of one processor,
_ALL_COPIES = 16.5e12  # and of all
_COPY_RATE_APART = 85e9  # where they do not copy the same at the same time,
_APART = 0.25  # by this part of a tile or more
_NARROW = 2.5  # times as long take rows of less than 128 bytes
_MEMORY_RATE = 4.2e12  # bytes a second, of the whole GPU
_GATHER_CYCLES = 4  # of a load of a warp: its addresses lie in about as many lines of the cache
_STAGED_CYCLES = 1.5  # of one from shared memory, and its share of the store there
_GATHER_LATENCY = 900  # cycles until the loads of a step have arrived; groups of warps overlap
_OUTPUT_BYTES = 64  # a cycle
_SHADOW = 0.33  # of the shorter of two times that overlap
_HIDDEN = 0.1  # of copies, or products, that take place during the other
_STEP_BYTES = 128  # of a row of a tile
_PART_LATENCY = 100  # cycles from the end of products to the next ones of the same group
_NARROW_STEP = 13  # cycles of an instruction at least


def estimate_on_gpu(func: ir.PrimFunc, target: Target, reading: Reading | None = None) -> float:
    """Seconds that one run of a scheduled function takes, roughly."""
    total = 1e-7
    reading = reading or read(func)
    others = nests_in(reading)
    if any(keys.TILE_STAGES in loop.annotations for site in reading.sites for loop in site.loops):
        loops = list(tile_loops(func.body))
        for loop in loops:
            total += _tile_seconds(loop, processors_of(target))
        inside = {loop.loop_var for loop in loops}
        others = (nest for nest in others if not any(each.var in inside for each in nest.loops))
    for kernel in _by_kernel(others):
        total += _LAUNCH + kernel_seconds(kernel, target.gpu)
    return total


def _by_kernel(nests: Iterable[StoreNest]) -> list[list[StoreNest]]:
    """Nests that one launch runs: those inside of the same loop over blocks of threads."""
    kernels: dict[ir.Var | int, list[StoreNest]] = {}
    for number, nest in enumerate(nests):
        bound = (each.var for each in nest.loops if each.kind is _THREADS)
        kernels.setdefault(next(bound, number), []).append(nest)
    return list(kernels.values())


def _tile_seconds(loop: ir.For, processors: int) -> float:
    form = read_tile_form(loop)
    tiles, steps = loop.extent, form.steps.extent
    assert isinstance(tiles, ir.IntImm)
    assert isinstance(steps, ir.IntImm)
    if form.thread_tile is not None:
        return thread_tile_seconds(ThreadTiles.of(form), tiles.value, steps.value, processors)
    layout = GroupLayout.of(form, SHARED_BYTES, processors)
    active = processors if form.is_streamed else min(processors, tiles.value * form.splits)
    hertz = _HERTZ if active > _MANY * processors else _HERTZ_OF_FEW
    products = _step_cycles(layout) / hertz
    copies = _fetch_seconds(layout, _copy_rate(form, tiles.value, active, processors))
    output = layout.form.row.extent * layout.columns * layout.output_dtype.itemsize
    own_steps = math.ceil(steps.value / form.splits)
    step = max(products, copies) + _HIDDEN * min(products, copies)
    tile = own_steps * step + output / _OUTPUT_BYTES / hertz
    sums = form.row.extent * layout.columns * 4
    if form.splits > 1:
        tile += _MEETING + sums / _FAR_BYTES / _HERTZ
    # Blocks that run at the same time share rows and columns, which are read from memory once.
    at_once = int(processors * _USED[form.splits]) // form.splits
    rows, columns = _spread(form, min(at_once, tiles.value))
    moved = (rows * form.row.extent + columns * form.column.extent) * steps.value * _STEP_BYTES
    fetched = moved / _MEMORY_RATE
    # What is hidden behind the longer of the two still costs power, and so some of the clock.
    round_ = max(tile, fetched) + _SHADOW * min(tile, fetched)
    if not form.is_streamed:
        return _LAUNCH + math.ceil(tiles.value / at_once) * round_
    return _LAUNCH + tiles.value / processors * round_ + _hand_over(tiles.value, processors, sums)


def _hand_over(tiles: int, processors: int, sums: int) -> float:
    """Seconds of a block to give its sums to another, and to take those that it needs."""
    if tiles % processors == 0:
        return 0.0
    taken = max(1, math.ceil(processors / tiles) - 1)
    return _FLAG_LATENCY + (1 + taken) * sums / _SUMS_BYTES / _HERTZ


def _step_cycles(layout: GroupLayout) -> float:
    """Of the tensor cores, in one step of the sum."""
    width = layout.promoted_columns or layout.columns
    read = (2048 + 32 * width) / 128  # cycles for operands from shared memory
    per_instruction = max(width / 2, read, _NARROW_STEP) + _SHADOW * read / 2
    parts = layout.matrices * (layout.columns // width)
    cycles = layout.form.consumers * parts * layout.depth_steps * per_instruction
    if not layout.promoted_columns:
        return cycles
    # Each part is waited for and added; meanwhile another group may multiply.
    alone = parts * (layout.depth_steps * per_instruction + _PART_LATENCY + width / 2)
    return max(cycles, alone)


def _copy_rate(form: TileForm, tiles: int, active: int, processors: int) -> float:
    """Bytes a second into the shared memory of one processor."""
    rate = min(_COPY_RATE, _ALL_COPIES / active)
    if not form.is_streamed or tiles % processors == 0:
        return rate
    # Blocks that are at different steps of the sum do not find what others just fetched.
    share = tiles / processors % 1
    apart = 1.0 if tiles < processors else min(share, 1 - share, _APART) / _APART
    return rate + (_COPY_RATE_APART - rate) * apart


def _fetch_seconds(layout: GroupLayout, copy_rate: float) -> float:
    """How long the tiles of a step take on their way to shared memory."""
    cycles, bulk = 0.0, 0.0
    for each in layout.passing:
        if each.map is not None:
            is_narrow = each.panel * each.operand.copy.store.buffer.dtype.itemsize < _STEP_BYTES
            bulk += each.bytes * (_NARROW if is_narrow else 1.0)
            continue
        is_staged = each is layout.left and layout.images is not None
        rate = _STAGED_CYCLES if is_staged else _GATHER_CYCLES
        latency = _GATHER_LATENCY / layout.form.gatherers
        cycles += Gathering(each.operand).loads * rate + latency
    return bulk / copy_rate + cycles / _HERTZ


def _spread(form: TileForm, count: int) -> tuple[int, int]:
    """Rows and columns of tiles that the first `count` of them lie in."""
    tiles = {form.tiles.loop_var: np.arange(count)}
    rows, columns = (evaluate_on_arrays(axis.origin, tiles) for axis in (form.row, form.column))
    return np.unique(rows).size, np.unique(columns).size
