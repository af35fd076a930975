"""The time of a kernel that is plain loops over threads: rows, elements, and what others wrote.

Such a kernel takes as long as its bytes take on their way from and to memory, unless too few loads
are under way at a time: then the blocks that a GPU holds at once wait for them, one round of blocks
after the other.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from tilewright import ir
from tilewright.nest.access import MemoryAccess
from tilewright.nest.loops import Loop
from tilewright.nest.nests import StoreNest
from tilewright.target.gpu import GpuDescription

_MEMORY_SHARE = 0.88  # of the bytes a second that are promised
_LATENCY = 1.0e-6  # seconds of loads that are under way together, on a busy GPU
_CACHE_LATENCY = 0.2e-6  # the same of what all blocks of threads read
_SMALL = 1 << 18  # bytes that stay in caches
_TOGETHER = 4  # turns of a loop whose loads are under way together
_OPERATION = 1e-9  # seconds, of one thread
_BLOCK = 0.7e-9  # seconds until the next block of threads is started
_CORES = 128  # of a multiprocessor
_USED_CORES = 0.5  # of them, on average
_REDUCTION = 0.2e-6  # seconds of an exchange in a warp
_BARRIER = 0.8e-9  # seconds more for each thread of a row
_NOT_HIDDEN = 0.1  # of the time that threads wait, even if others work meanwhile
_REGISTERS = 24  # of a thread, beside its arrays
_EXPANDED = (ir.ForKind.THREAD_BINDING, ir.ForKind.UNROLLED, ir.ForKind.VECTORIZED)


def kernel_seconds(nests: Sequence[StoreNest], gpu: GpuDescription) -> float:
    """Seconds of the nests that one launch runs, without the launch."""
    extents = {loop.tag: loop.extent for nest in nests for loop in nest.loops if loop.tag}
    blocks = math.prod(n for tag, n in extents.items() if tag.startswith("blockIdx"))
    threads = math.prod(n for tag, n in extents.items() if tag.startswith("threadIdx"))
    if blocks * threads == 0:
        return 0.0  # nothing is launched
    moved = sum(float(each.touched(nest.loops)) for nest, each in _in_memory(nests))
    operations = sum(nest.operations * _turns(nest.loops) for nest in nests)
    rate = gpu.multiprocessors * _CORES * _USED_CORES * gpu.clock_mhz * 1e6
    at_once = gpu.multiprocessors * _resident_blocks(nests, threads, gpu)
    waiting = sum(map(_waiting, nests)) + operations / (blocks * threads) * _OPERATION
    waiting *= max(1.0, blocks / at_once)
    copies = moved / (gpu.bytes_per_second * _MEMORY_SHARE)
    return max(copies, operations / rate, waiting, blocks * _BLOCK) + _NOT_HIDDEN * waiting


def _in_memory(nests: Iterable[StoreNest]) -> Iterable[tuple[StoreNest, MemoryAccess]]:
    for nest in nests:
        for access in (nest.store, *nest.loads):
            if access.buffer.scope == "global":
                yield nest, access


def _turns(loops: Iterable[Loop]) -> int:
    return math.prod(loop.extent for loop in loops)


def _resident_blocks(nests: Sequence[StoreNest], threads: int, gpu: GpuDescription) -> int:
    """Blocks of threads that a multiprocessor holds at once."""
    arrays = (_bytes_of_thread(nest) for nest in nests if nest.store.buffer.scope == "local")
    registers = _REGISTERS + max(arrays, default=0.0) / 4
    return max(
        1,
        min(
            gpu.threads_per_multiprocessor // threads,
            gpu.blocks_per_multiprocessor,
            int(gpu.registers_per_multiprocessor / (threads * registers)),
        ),
    )


def _bytes_of_thread(nest: StoreNest) -> float:
    """What one thread stores of an array."""
    own = [loop for loop in nest.loops if not loop.tag]
    box = float(nest.store.touched(own, 1))
    return min(box, _turns(own) * nest.store.element_bytes)


def _waiting(nest: StoreNest) -> float:
    """Seconds that a thread waits for memory and for other threads."""
    seconds = 0.0
    if loads := [load for load in nest.loads if load.buffer.scope == "global"]:
        turns = _turns(loop for loop in nest.loops if loop.kind not in _EXPANDED)
        is_small = all(load.touched(nest.loops) <= _SMALL for load in loads)
        seconds += (_CACHE_LATENCY if is_small else _LATENCY) * math.ceil(turns / _TOGETHER)
    together = _threads_of_reduction(nest)
    return seconds + (_REDUCTION + _BARRIER * together if together > 1 else 0.0)


def _threads_of_reduction(nest: StoreNest) -> int:
    """How many threads reduce to one result."""
    if not nest.is_reduction:
        return 1
    kept = {var for index in nest.store.indices for var in index.variables}
    return _turns(
        loop for loop in nest.loops if loop.tag.startswith("threadIdx") and loop.var not in kept
    )
