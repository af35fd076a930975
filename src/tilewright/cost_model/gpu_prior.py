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
from tilewright.lowering.gpu.tile_kernels.layout import GroupLayout
from tilewright.lowering.gpu.tile_kernels.lower_tile_kernels import SHARED_BYTES, processors_of
from tilewright.lowering.gpu.tile_kernels.thread_tiles import ThreadTiles
from tilewright.lowering.gpu.tile_kernels.tile_form import TileForm, read_tile_form, tile_loops
from tilewright.nest.nests import StoreNest, nests_in
from tilewright.nest.reading import Reading, read
from tilewright.target import Target

_LAUNCH = 2.0e-6  # seconds until the first tile arrives, and after the last one
_HERTZ = 1.45e9
_COPY_RATE = 104e9  # bytes a second into the shared memory of one processor
_MEMORY_RATE = 4.2e12  # bytes a second, of the whole GPU
_OUTPUT_BYTES = 64  # a cycle
_REGISTERS = 65536  # of a processor
_CORES = 128  # multiply-adds a cycle
_CORE_HERTZ = 1.75e9
_STEP_CYCLES = 900  # of a step of the sum at least
_SHADOW = 0.2  # of the shorter of two times that overlap
_STEP_BYTES = 128  # of a row of a tile
_NARROW_STEP = 13  # cycles of an instruction at least


def estimate_on_gpu(func: ir.PrimFunc, target: Target, reading: Reading | None = None) -> float:
    """Seconds that one run of a scheduled function takes, roughly."""
    total = 1e-7
    loops = list(tile_loops(func.body))
    for loop in loops:
        total += _tile_seconds(loop, processors_of(target))
    inside = {loop.loop_var for loop in loops}
    others = (
        nest
        for nest in nests_in(reading or read(func))
        if not any(each.var in inside for each in nest.loops)
    )
    for kernel in _by_kernel(others):
        total += _LAUNCH + kernel_seconds(kernel, target.gpu)
    return total


def _by_kernel(nests: Iterable[StoreNest]) -> list[list[StoreNest]]:
    """Nests that one launch runs: those inside of the same loop over blocks of threads."""
    kernels: dict[ir.Var | int, list[StoreNest]] = {}
    for number, nest in enumerate(nests):
        bound = (each.var for each in nest.loops if each.kind == ir.ForKind.THREAD_BINDING)
        kernels.setdefault(next(bound, number), []).append(nest)
    return list(kernels.values())


def _tile_seconds(loop: ir.For, processors: int) -> float:
    form = read_tile_form(loop)
    tiles, steps = loop.extent, form.steps.extent
    assert isinstance(tiles, ir.IntImm)
    assert isinstance(steps, ir.IntImm)
    if form.thread_tile is not None:
        return _thread_tile_seconds(ThreadTiles.of(form), tiles.value, steps.value, processors)
    layout = GroupLayout.of(form, SHARED_BYTES)
    read = (2048 + 32 * layout.columns) / 128  # cycles for operands from shared memory
    per_instruction = max(layout.columns / 2, read, _NARROW_STEP) + _SHADOW * read / 2
    instructions = layout.form.consumers * layout.matrices * layout.depth_steps
    products = instructions * per_instruction / _HERTZ
    copies = layout.stage_bytes / _COPY_RATE
    output = layout.form.row.extent * layout.columns * layout.output_dtype.itemsize
    tile = steps.value * max(products, copies) + output / _OUTPUT_BYTES / _HERTZ
    # Blocks that run at the same time share rows and columns, which are read from memory once.
    rows, columns = _spread(form, min(processors, tiles.value))
    moved = (rows * form.row.extent + columns * form.column.extent) * steps.value * _STEP_BYTES
    fetched = moved / _MEMORY_RATE
    # What is hidden behind the longer of the two still costs power, and so some of the clock.
    round_ = max(tile, fetched) + _SHADOW * min(tile, fetched)
    return _LAUNCH + math.ceil(tiles.value / processors) * round_


def _spread(form: TileForm, count: int) -> tuple[int, int]:
    """Rows and columns of tiles that the first `count` of them lie in."""
    tiles = {form.tiles.loop_var: np.arange(count)}
    rows, columns = (evaluate_on_arrays(axis.origin, tiles) for axis in (form.row, form.column))
    return np.unique(rows).size, np.unique(columns).size


def _thread_tile_seconds(sizes: ThreadTiles, tiles: int, steps: int, processors: int) -> float:
    """Threads multiply, and load what they multiply; several blocks share a processor."""
    rows, columns = sizes.tile
    per_depth = rows * columns + 6.0 * (rows + columns)
    resident = max(1, min(_REGISTERS // (sizes.threads * (rows * columns + 90)), 4))
    at_once = math.ceil(tiles / processors)
    groups = math.ceil(at_once / resident)
    shared = min(at_once, resident)
    cycles = steps * sizes.depth * per_depth * sizes.threads * shared / _CORES
    latency = steps * _STEP_CYCLES
    return _LAUNCH + groups * max(cycles, latency) / _CORE_HERTZ
