"""The time of a tile kernel on plain cores.

Its threads multiply, load what they multiply, and copy tiles; blocks that share a processor take
turns, and those that find no room wait for others. The numbers are those that fit what was measured
on an H200, to a tenth.
"""

from __future__ import annotations

from tilewright.lowering.gpu.tile_kernels.thread_copies import copies_of
from tilewright.lowering.gpu.tile_kernels.thread_tiles import ThreadTiles

_LAUNCH = 0.4e-6  # seconds
_HERTZ = 1.98e9
_PRODUCT = 1.1  # cycles of a warp, with those that it waits for registers
_OPERAND = 0.8  # cycles to load an operand of products
_COPY = 10.7  # cycles to start a copy
_START = 7500  # cycles until the first products, and after the last ones
_NOT_HIDDEN = 0.12  # of a warp's time, whatever others do meanwhile
_SCHEDULERS = 4  # of a processor, for a warp each
_USED_BY_FEW = 3.3  # schedulers that blocks of fewer warps keep busy
_REGISTERS = 65536  # of a processor
_OTHER_REGISTERS = 24  # of a thread, beside sums and operands
_MOST_THREADS = 2048  # of a processor


def thread_tile_seconds(sizes: ThreadTiles, tiles: int, steps: int, processors: int) -> float:
    """Seconds of a kernel with `tiles` tiles, and `steps` steps of the sum for each."""
    warps = sizes.threads / 32
    schedulers = _SCHEDULERS if warps >= _SCHEDULERS else _USED_BY_FEW
    step = _step_cycles(sizes)
    resident = _resident_blocks(sizes)
    rounds, rest = divmod(-(-tiles // processors), resident)
    cycles = 0.0
    for blocks in (*[resident] * rounds, *[rest] * (rest > 0)):
        cycles += _START + steps * step * (blocks * warps / schedulers + _NOT_HIDDEN)
    return _LAUNCH + cycles / _HERTZ


def _step_cycles(sizes: ThreadTiles) -> float:
    """Cycles of a warp for one step of the sum."""
    rows, columns = sizes.tile
    words = sizes.form.sums.dtype.itemsize / 4
    per_depth = words * (_PRODUCT * rows * columns + _OPERAND * (rows + columns))
    copies = sum(copies_of(operand) for operand in (sizes.form.left, sizes.form.right))
    return sizes.depth / sizes.form.slices * per_depth + _COPY * copies / sizes.threads


def _resident_blocks(sizes: ThreadTiles) -> int:
    rows, columns = sizes.tile
    words = sizes.form.sums.dtype.itemsize // 4
    registers = words * (rows * columns + 2 * (rows + columns)) + _OTHER_REGISTERS
    return max(1, min(_REGISTERS // (sizes.threads * registers), _MOST_THREADS // sizes.threads))
